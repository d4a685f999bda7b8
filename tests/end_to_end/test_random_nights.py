"""Any split of random landed lines into nights ends in the tables of one night; a seed replays a failure."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from unittest import mock

import pytest
from dbt.cli.main import dbtRunner
from end_to_end.test_nights import DAY, FIRST_DAY, contents, differing, trace
from support import PROJECT, Warehouse

from retrieval_quality.build import release_database
from retrieval_quality.purge import purge

Row = dict[str, object]
Changes = Mapping[str, Callable[[], object]]
Files = dict[tuple[str, str], list[tuple[int, bytes]]]  # (contract, name): the night and text of each line

MEASURED = ("mart_", "dim_", "int_score_", "int_window_")
AS_OF = ("", "2026-03-04T00:00:00Z")
BAD_LINES = ('{"trace_id": "bro', "[1, 2]", "null", "{}", '{"trace_id": "z", "ts": "yesterday"}', "", '{"unknown": 1}')


class Landing:
    """What one seed lands. Each kind of row comes as it was first, and then, maybe more than once, corrected."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def one_of(self, *values: object) -> Callable[[], object]:
        return lambda: self.rng.choice(values)

    def named(self, letter: str, n: int) -> Callable[[], str]:
        return lambda: f"{letter}{self.rng.randrange(n)}"

    def time(self, first: int = 0, last: int = 5) -> int:
        return FIRST_DAY + DAY * self.rng.randint(first, last) + self.rng.choice([0, 18_000, 86_399, 43_200])

    def some(self, row: Row, changes: Changes, share: float = 0.4) -> Row:
        return row | {key: new() for key, new in changes.items() if self.rng.random() < share}

    def deliveries(self, contract: str, row: Row, changes: Changes) -> Iterator[tuple[str, Row]]:
        yield contract, row
        for _ in range(self.rng.choice([0, 0, 1, 1, 2])):
            yield contract, self.some(self.some(row, changes), {"ingested_at": lambda: self.time(5, 9)}, share=0.8)

    def ranked(self) -> list[Row] | None:
        ids = self.rng.sample(range(8), self.rng.randint(0, 5))
        chunks: list[Row] = [{"chunk_id": f"c{n}", "score": 1 / (1 + place)} for place, n in enumerate(ids)]
        return self.rng.choice([chunks, chunks, chunks, [*chunks, *chunks[:1]], None])

    def chunk_ids(self) -> list[str]:
        return [f"c{n}" for n in self.rng.sample(range(8), self.rng.randint(0, 3))]

    def rows(self) -> Iterator[tuple[str, Row]]:
        session, query, run, trace = self.named("s", 7), self.named("q", 6), self.named("e", 4), self.named("t", 24)
        for n in range(20):
            own: Row = {"trace_id": f"t{n}", "ts": self.time(), "query": self.named("question ", 3)()}
            own = self.some(own | {"retrieved": self.ranked()}, {"query_id": query, "session_id": session}, share=0.7)
            own = self.some(own, {"eval_run_id": run, "sample_rate": self.one_of(0.1, 0.5)}, share=0.3)
            changed: Changes = {"ts": self.time, "retrieved": self.ranked, "index_version": self.named("v", 3)}
            changed |= {"query_id": query, "session_id": session, "eval_run_id": run}
            yield from self.deliveries("retrieval_traces", own, changed)
        # a date that is to come, which nobody delivers before its time, and one that somebody says he did
        yield "retrieval_traces", {"trace_id": "to come", "ts": self.time(40, 60), "retrieved": self.ranked()}
        yield "retrieval_traces", {"trace_id": "said", "ts": self.time(40, 60), "retrieved": [], "ingested_at": DAY}
        for n in range(14):
            own = {"feedback_id": f"f{n}", "session_id": session(), "ts": self.time(0, 8), "rating": True}
            changed = {"rating": self.one_of(1, -1, "up", "neutral"), "session_id": session, "trace_id": trace}
            changed |= {"chunk_ids": self.one_of(None, self.chunk_ids(), [])}
            changed |= {"label_class": self.one_of("audit", "judge", "golden", "implicit"), "rater_id": session}
            yield from self.deliveries("feedback", self.some(own, changed), changed)
        for n in range(6):
            query_set = self.one_of("gold", "canary")
            own = {"query_id": f"q{n}", "query": f"q {n}", "query_set": query_set()}
            changed = {"query_set": query_set, "intent": self.one_of("howto", "lookup", None), "added_at": self.time}
            yield from self.deliveries("queries", self.some(own, changed), changed)
        for _ in range(12):
            own = {"query_id": query(), "chunk_id": self.named("c", 8)(), "grade": self.rng.randint(-1, 3)}
            own = self.some(own, {"labeller": session, "label_class": self.one_of("audit", "judge", "synthetic")})
            changed = {"grade": self.one_of(0, 1, 2, 3), "labelled_at": lambda: self.time(0, 9)}
            yield from self.deliveries("qrels", self.some(own, changed), changed)
        for n in range(3):
            own = {"eval_run_id": f"e{n}", "started_at": self.time(0, 6), "query_set": "gold"}
            changed = {"kind": self.one_of("scheduled", "adhoc"), "query_set": self.one_of("gold", "canary")}
            changed |= {"started_at": self.time, "index_version": self.named("v", 3)}
            yield from self.deliveries("eval_runs", self.some(own, changed), changed)

    def files(self, n_nights: int) -> Files:
        """Lines in any order; a file `grows` over the nights, or holds the lines of one night, also bad ones."""
        lines = [(contract, json.dumps(row), self.rng.random() < 0.4) for contract, row in self.rows()]
        contracts = sorted({contract for contract, *_ in lines})
        lines += [(self.rng.choice(contracts), self.rng.choice(BAD_LINES), self.rng.random() < 0.4) for _ in range(5)]
        self.rng.shuffle(lines)
        files: Files = {}
        for contract, line, grows in lines:
            night = self.rng.randrange(n_nights)
            name = "grows.jsonl.gz" if grows else f"dt=2026-03-01/{night}.jsonl"
            files.setdefault((contract, name), []).append((night, f"{line}\n".encode()))
        return files


def land(warehouse: Warehouse, files: Files, night: int) -> None:
    """Every file as it is after a night, where that night brought a line of it."""
    for (contract, name), lines in files.items():
        if any(landed_on == night for landed_on, _ in lines):
            content = b"".join(line for landed_on, line in sorted(lines) if landed_on <= night)
            warehouse.land(contract, gzip.compress(content) if name.endswith(".gz") else content, name)


def build_tables(
    warehouse: Warehouse,
    as_of: str,
    *,
    variables: Mapping[str, object] | None = None,
    project: Path = PROJECT,
    full_refresh: bool = False,
) -> None:
    """The tables without the tests."""
    text = json.dumps({"as_of": as_of} | dict(variables or {}))
    shared = warehouse.parsed_once(text) if project == PROJECT else {}
    arguments = [
        *("--quiet", "--no-print", "--log-level", "none", "--log-level-file", "none"),
        *("--log-path", str(warehouse.root / "logs"), "build"),
        *("--project-dir", str(project), "--profiles-dir", str(PROJECT / "profiles")),
        *("--vars", text),
        *("--exclude", "resource_type:test", "resource_type:unit_test"),
        *(["--full-refresh"] if full_refresh else []),
    ]
    with mock.patch.dict(os.environ, warehouse.environment | shared):
        try:
            outcome = dbtRunner().invoke(arguments)
        finally:
            release_database()
    assert outcome.success, outcome.exception or [(node.node.name, node.message) for node in outcome.result or ()]


# where all lines of a file came too late, a file that grew is read under its newest registration alone
NEWEST = "file_id in (select max(file_id) from stg_landing_files group by path)"


def unaccounted(warehouse: Warehouse, *, files: str = "true") -> list[tuple[object, ...]]:
    return warehouse.query(
        "select * exclude (unknown_keys) from stg_landing_accounting "
        "where n_lines <> n_staged + n_duplicates + n_superseded + n_quarantined + n_purged + n_too_late "
        f"and {files}"
    )


@pytest.mark.parametrize(
    ("seed", "n_nights"),
    [
        (1, 2),
        # one that nobody tried before; it prints its seed
        pytest.param(None, 3, id="new"),
        *(pytest.param(seed, 1 + seed % 8, marks=pytest.mark.slow) for seed in range(2, 42)),
    ],
)
def test_random_nights_end_where_one_night_ends(seed: int | None, n_nights: int, tmp_path: Path) -> None:
    """With a full refresh thrown in; compared is every table that is no ledger, with one full refresh of all."""
    seed = random.SystemRandom().randrange(100, 1_000_000) if seed is None else seed
    print(f"seed {seed}, {n_nights} nights")
    landing = Landing(seed)
    files = landing.files(n_nights)
    as_of = [landing.rng.choice(AS_OF) for _ in range(n_nights)]
    refreshed = landing.rng.choice([None, *range(1, n_nights)])

    nights, one_night = Warehouse(tmp_path / "nights"), Warehouse(tmp_path / "one_night")
    for night in range(n_nights):
        land(nights, files, night)
        land(one_night, files, night)
        build_tables(nights, as_of[night], full_refresh=night == refreshed)
        assert unaccounted(nights) == []
    build_tables(one_night, as_of[-1])
    assert unaccounted(one_night) == []

    expected = contents(one_night)
    assert differing(contents(nights), expected) == []
    assert all(expected[table] for table in ("stg_feedback", "int_relevance_labels", "fct_query_scores"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 7))
def test_random_nights_after_a_purge_end_where_a_full_refresh_ends(seed: int, tmp_path: Path) -> None:
    """The boundary goes through what lands: sessions, corrections and labels are on both sides of it."""
    files = Landing(seed).files(3)
    warehouse = Warehouse(tmp_path)
    newest = trace(9000, 0, ts=FIRST_DAY + (3 + 90) * DAY + 1)
    warehouse.land("retrieval_traces", [newest], "newest.jsonl")
    land(warehouse, files, 0)
    build_tables(warehouse, "")
    before = contents(warehouse)

    purged = purge(warehouse.path, retention_days=90)
    assert purged.purged_until == dt.date(2026, 3, 4)
    assert purged.n_rows["stg_retrieval_traces"] > 0
    build_tables(warehouse, "", full_refresh=True)
    refreshed = contents(warehouse)
    assert [table for table in differing(refreshed, before) if table.startswith(MEASURED)] == []

    for night in (1, 2):
        land(warehouse, files, night)
        build_tables(warehouse, "")
        assert unaccounted(warehouse, files=NEWEST) == []
    nights = contents(warehouse)
    build_tables(warehouse, "", full_refresh=True)
    assert unaccounted(warehouse, files=NEWEST) == []
    assert differing(nights, contents(warehouse)) == []
