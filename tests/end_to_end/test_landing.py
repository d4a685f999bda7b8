"""Landing to staging: every line is accounted for, every time and id form means the same."""

from __future__ import annotations

import gzip
import io
import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import PROJECT, Warehouse

SEED = 20261130
VARS = {"max_quarantined_share": 1.0}
NOON = 1796040000  # 2026-11-30 12:00:00 UTC
BOM = b"\xef\xbb\xbf"

# --- random files ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """A line as landed and its fate: `blank`, `accepted`, or the reason of its quarantine."""

    raw: bytes
    fate: str
    key: str = ""
    said: str = ""
    delivered_at: float = 0.0


@dataclass(frozen=True)
class LandedFile:
    """`kept` holds what the content was before it was packed, one entry per physical line or row."""

    name: str
    content: bytes
    kept: Sequence[Line]


@dataclass
class Accounts:
    """What becomes of accepted lines, told by a loop instead of SQL."""

    winners: dict[str, tuple[Line, tuple[int, str]]] = field(default_factory=dict)
    counts: dict[tuple[int, str], Counter[str]] = field(default_factory=dict)

    def deliver(self, night: int, files: Sequence[LandedFile]) -> None:
        arrivals: dict[str, list[tuple[Line, tuple[int, str]]]] = {}
        for file in sorted(files, key=lambda file: file.name):
            at = (night, file.name)
            fates = Counter("accepted" if line.fate == "accepted" else "n_quarantined" for line in non_blank(file))
            self.counts[at] = Counter(n_lines=fates.total(), n_quarantined=fates["n_quarantined"])
            for line in non_blank(file):
                if line.fate == "accepted":
                    arrivals.setdefault(line.key, []).append((line, at))
        for key, lines in arrivals.items():
            so_far = [self.winners[key]] if key in self.winners else []
            contenders = so_far + lines
            # max() keeps the first of equals: the one that was there before
            winner = max(contenders, key=lambda contender: contender[0].delivered_at)
            rest = list(contenders)
            rest.remove(winner)
            if key in self.winners:
                self.counts[self.winners[key][1]]["n_staged"] -= 1
            self.counts[winner[1]]["n_staged"] += 1
            self.winners[key] = winner
            for line, at in rest:
                self.counts[at]["n_duplicates" if line.said == winner[0].said else "n_superseded"] += 1


def non_blank(file: LandedFile) -> list[Line]:
    return [line for line in file.kept if line.fate != "blank"]


def trace(key: str, version: int = 0, **values: object) -> dict[str, object]:
    """A version of a trace is delivered `version` minutes after it happened, and says so."""
    row: dict[str, object] = {"trace_id": key, "session_id": f"session of {key}", "ts": NOON, "query": f"v{version} é"}
    if version:
        row["ingested_at"] = NOON + 60 * version
    return row | values


def accepted(key: str, version: int = 0) -> Line:
    row = trace(key, version)
    return Line(as_json(row), "accepted", key, as_json(row).decode(), NOON + 60 * version)


def as_json(row: Mapping[str, object]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode()


def rejected(rng: random.Random, key: str) -> Line:
    good = as_json(trace(key))
    unreadable = [
        (good[: rng.randrange(2, len(good) - 2)], "invalid_json"),
        (good + b"TRAILER", "invalid_json"),
        (good + b" " + good, "invalid_json"),
        (good[1:], "invalid_json"),
        (b"{'trace_id': 'quoted'}", "invalid_json"),
        (b'{"trace_id": "x", "ts": 1796040000, "query": "\\ud83d alone"}', "invalid_json"),
        (b'{"trace_id": "x", "ts": 1796040000, "query": "raw \t tab"}', "invalid_json"),
        (BOM + good, "invalid_json"),
        ('{"trace_id": "x", "query": "café"}'.encode("latin-1"), "invalid_utf8"),
        (b"\xff\xfe\x00\x00", "invalid_utf8"),
        (rng.choice([b"[]", b"[1, 2]", b'"text"', b"42", b"null", b"true", b"[" + good + b"]"]), "not_an_object"),
        (rng.choice([b"{}", b'{"someone": "else"}', b'{"trace_id": null}', b'{"TS": 1796040000}']), "no_known_key"),
    ]
    refused = [(as_json(trace(key, **values)), reason) for values, reason in REFUSED]
    raw, fate = rng.choice(rng.choice([unreadable, refused]))
    try:  # a cut may leave half a character
        raw.decode()
    except UnicodeDecodeError:
        fate = "invalid_utf8"
    return Line(raw, fate)


REFUSED: list[tuple[dict[str, object], str]] = [
    ({"ts": None}, "missing_ts"),
    ({"ts": "yesterday"}, "bad_ts"),
    ({"ts": "2026-13-01T00:00:00Z"}, "bad_ts"),
    ({"ingested_at": "later"}, "bad_ingested_at"),
    ({"ts": NOON + 3601, "ingested_at": NOON}, "future_ts"),
    ({"sample_rate": 0}, "bad_sample_rate"),
    ({"sample_rate": "often"}, "bad_sample_rate"),
]


def random_lines(rng: random.Random, name: str, keys: list[str], n_lines: int) -> Iterator[Line]:
    for number in range(n_lines):
        kind = rng.choices(["new", "again", "blank", "bad"], [5, 3, 1, 2])[0]
        if kind == "blank":
            yield Line(rng.choice([b"", b"  ", b"\t", b" \t "]), "blank")
        elif kind == "bad":
            yield rejected(rng, f"{name} {number}")
        elif kind == "again" and keys:
            yield accepted(rng.choice(keys), rng.randrange(3))
        else:
            keys.append(f"{name} {number}")
            yield accepted(keys[-1], rng.randrange(3))


def text_file(rng: random.Random, name: str, lines: Sequence[Line]) -> LandedFile:
    newline = rng.choice([b"\n", b"\r\n"])
    content = rng.choice([b"", BOM]) + newline.join(line.raw for line in lines) + rng.choice([b"", newline])
    if name.endswith(".gz"):
        # members joined, as log shippers append them
        half = len(content) // 2
        content = gzip.compress(content[:half]) + gzip.compress(content[half:])
    elif name.endswith(".zst"):
        content = pa.compress(content, "zstd", asbytes=True)
    return LandedFile(name, content, lines)


def parquet_file(rng: random.Random, name: str, keys: list[str], n_rows: int) -> LandedFile:
    rows: list[tuple[dict[str, object], Line]] = []
    for number in range(n_rows):
        kind = rng.choices(["new", "again", "refused", "empty"], [5, 3, 2, 1])[0]
        if kind == "empty":
            rows.append(({}, Line(b"{}", "no_known_key")))
        elif kind == "refused":
            values, reason = rng.choice(REFUSED)
            row = trace(f"{name} {number}", **values)
            rows.append((row, Line(as_json(row), reason)))
        else:
            if kind == "new" or not keys:
                keys.append(f"{name} {number}")
            key = keys[-1] if kind == "new" else rng.choice(keys)
            line = accepted(key, rng.randrange(3))
            rows.append((json.loads(line.raw), line))
    names = ["trace_id", "session_id", "ts", "query", "ingested_at", "sample_rate"]
    as_text = [{name: None if row.get(name) is None else str(row[name]) for name in names} for row, _ in rows]
    buffer = io.BytesIO()
    schema = pa.schema([(name, pa.string()) for name in names])
    pq.write_table(pa.Table.from_pylist(as_text, schema=schema), buffer)
    kept = [
        line if line.fate == "accepted" else Line(as_json(row), line.fate)
        for (_, line), row in zip(rows, as_text, strict=True)
    ]
    return LandedFile(name, buffer.getvalue(), kept)


def random_nights() -> list[list[LandedFile]]:
    rng = random.Random(SEED)  # noqa: S311
    keys: list[str] = []
    names = ["a.jsonl", "dt=2026-11-30/b.jsonl", "c.jsonl.gz", "d.jsonl.zst", "e.parquet", "f.parquet", "g.jsonl"]
    nights = []
    for night in (1, 2):
        files = []
        for name in names:
            n_lines = rng.randrange(20, 60)
            path = name.replace(".", f"-{night}.", 1)
            if path.endswith(".parquet"):
                files.append(parquet_file(rng, path, keys, n_lines))
            else:
                files.append(text_file(rng, path, list(random_lines(rng, path, keys, n_lines))))
        nights.append(files)
    # a file that is appended to is read again: what it repeats is duplicate
    grown = LandedFile("grown.jsonl", b"", [*random_lines(rng, "grown", keys, 20)])
    more = [*grown.kept, *random_lines(rng, "grown more", keys, 20)]
    for files, lines in zip(nights, (grown.kept, more), strict=True):
        files.append(LandedFile("grown.jsonl", b"".join(line.raw + b"\n" for line in lines), lines))
    blank = [Line(b"", "blank"), Line(b"  ", "blank")]
    nights[0] += [LandedFile("blank.jsonl", b"\n  ", blank), LandedFile("empty.jsonl", b"", [])]
    nights[0] += [LandedFile("empty.jsonl.gz", gzip.compress(b""), [])]
    return nights


# --- every reason, every time, every id ------------------------------------------------------

TRACE: dict[str, object] = {"trace_id": "refused", "ts": NOON}
FEEDBACK: dict[str, object] = {"session_id": "s", "ts": NOON, "rating": 1}
QREL: dict[str, object] = {"query_id": "q", "chunk_id": "a", "grade": 1}
QUERY: dict[str, object] = {"query_id": "q", "query": "why?"}
RUN: dict[str, object] = {"eval_run_id": "r", "started_at": NOON, "query_set": "golden"}
REASONS: list[tuple[str, str, dict[str, object]]] = [
    *(("retrieval_traces", reason, TRACE | values) for values, reason in REFUSED),
    ("retrieval_traces", "bad_sample_rate", TRACE | {"sample_rate": 1.5}),
    ("feedback", "missing_session_and_trace", FEEDBACK | {"session_id": None}),
    ("feedback", "missing_ts", FEEDBACK | {"ts": None}),
    ("feedback", "bad_ts", FEEDBACK | {"ts": "soon"}),
    ("feedback", "bad_ingested_at", FEEDBACK | {"ingested_at": "soon"}),
    ("feedback", "future_ts", FEEDBACK | {"ts": NOON + 3601, "ingested_at": NOON}),
    ("feedback", "bad_grade", FEEDBACK | {"grade": 1.5}),
    ("feedback", "bad_grade", FEEDBACK | {"grade": "good"}),
    ("feedback", "bad_grade", FEEDBACK | {"grade": 11}),
    ("feedback", "blank_chunk_id", FEEDBACK | {"chunk_ids": ["a", " "]}),
    ("feedback", "blank_chunk_id", FEEDBACK | {"chunk_ids": [None]}),
    ("feedback", "unknown_label_class", FEEDBACK | {"label_class": "gold"}),
    ("feedback", "unknown_label_class", FEEDBACK | {"label_class": "pooled"}),
    ("qrels", "missing_query_id", QREL | {"query_id": None}),
    ("qrels", "blank_chunk_id", QREL | {"chunk_id": " "}),
    ("qrels", "blank_chunk_id", QREL | {"chunk_id": None}),
    ("qrels", "missing_grade", QREL | {"grade": None}),
    ("qrels", "bad_grade", QREL | {"grade": "2.5"}),
    ("qrels", "unknown_label_class", QREL | {"label_class": "gold"}),
    ("qrels", "bad_labelled_at", QREL | {"labelled_at": "once"}),
    ("qrels", "bad_ingested_at", QREL | {"ingested_at": "once"}),
    ("queries", "missing_query_id", QUERY | {"query_id": None}),
    ("queries", "missing_query", QUERY | {"query": None}),
    ("queries", "bad_added_at", QUERY | {"added_at": "once"}),
    ("queries", "bad_ingested_at", QUERY | {"ingested_at": "once"}),
    ("eval_runs", "missing_eval_run_id", RUN | {"eval_run_id": None}),
    ("eval_runs", "missing_started_at", RUN | {"started_at": None}),
    ("eval_runs", "bad_started_at", RUN | {"started_at": "once"}),
    ("eval_runs", "missing_query_set", RUN | {"query_set": None}),
    ("eval_runs", "unknown_kind", RUN | {"kind": "weekly"}),
    ("eval_runs", "bad_ingested_at", RUN | {"ingested_at": "once"}),
]

# 1796000000 is 2026-11-30 00:53:20 UTC
TIMES: list[tuple[object, str]] = [
    (1796000000, "2026-11-30 00:53:20"),
    ("1796000000", "2026-11-30 00:53:20"),
    (1796000000.0, "2026-11-30 00:53:20"),
    (1796000000.25, "2026-11-30 00:53:20.25"),
    ("1796000000.25", "2026-11-30 00:53:20.25"),
    (1796000000.75, "2026-11-30 00:53:20.75"),
    ("1796000000.123456", "2026-11-30 00:53:20.123456"),
    ("1.79600000025e9", "2026-11-30 00:53:20.25"),
    (1796083199.75, "2026-11-30 23:59:59.75"),  # not the next day
    (1796000000250, "2026-11-30 00:53:20.25"),
    ("1796000000250", "2026-11-30 00:53:20.25"),
    (1796000000250.5, "2026-11-30 00:53:20.2505"),
    (1796000000250000, "2026-11-30 00:53:20.25"),
    ("1796000000250000", "2026-11-30 00:53:20.25"),
    (1796000000250000.0, "2026-11-30 00:53:20.25"),
    (1796000000123456789, "2026-11-30 00:53:20.123456"),
    ("1796000000123456789", "2026-11-30 00:53:20.123456"),
    ("2026-11-30T00:53:20Z", "2026-11-30 00:53:20"),
    ("2026-11-30T00:53:20.25Z", "2026-11-30 00:53:20.25"),
    ("2026-11-30 00:53:20.25+00:00", "2026-11-30 00:53:20.25"),
    ("2026-11-30T11:53:20.25+11:00", "2026-11-30 00:53:20.25"),
    ("2026-11-29T19:53:20.25-05:00", "2026-11-30 00:53:20.25"),
    ("2026-11-30T06:23:20.25+0530", "2026-11-30 00:53:20.25"),
    ("2026-11-30T01:53:20+01", "2026-11-30 00:53:20"),
    ("2026-11-30T00:53:20.123456789Z", "2026-11-30 00:53:20.123456"),
    ("2026-11-30T00:53:20.25", "2026-11-30 00:53:20.25"),
    ("2026-11-30 00:53", "2026-11-30 00:53:00"),
    ("2026-11-30", "2026-11-30 00:00:00"),
    ("2026-11-30T00:00:00Z", "2026-11-30 00:00:00"),
    (0, "1970-01-01 00:00:00"),
]

IDS: list[tuple[object, str]] = [
    (42, "42"),
    ("42", "42"),
    ("007", "007"),
    (123456789012345678901234567890, "123456789012345678901234567890"),
    (True, "true"),
    (1.5, "1.5"),
    ("é ", "é "),
    (" padded", " padded"),
    ("a\u2028b", "a\u2028b"),
    ('say "x"', 'say "x"'),
]


def land_reasons_times_and_ids(warehouse: Warehouse) -> None:
    for contract in {contract for contract, _, _ in REASONS}:
        rows = [row for landed_in, _, row in REASONS if landed_in == contract]
        warehouse.land(contract, rows, "reasons.jsonl")
    warehouse.land(
        "retrieval_traces",
        [{"trace_id": f"time {number}", "ts": landed} for number, (landed, _) in enumerate(TIMES)],
        "times.jsonl",
    )
    warehouse.land(
        "retrieval_traces",
        [
            {"trace_id": landed, "session_id": landed, "query": f"id {number}", "ts": NOON + number,
             "retrieved": [{"chunk_id": landed}]}
            for number, (landed, _) in enumerate(IDS)
        ],
        "ids.jsonl",
    )  # fmt: skip
    typed = pa.table(
        {
            "trace_id": pa.array([1, 2], pa.int32()),
            "ts": pa.array([1796000000_250000, None], pa.timestamp("us", tz="Australia/Sydney")),
            "retrieved": pa.array([[{"chunk_id": 7, "score": 0.5}], []]),
        }
    )
    path = warehouse.land("retrieval_traces", b"", "typed.parquet")
    pq.write_table(typed, path)


def land_what_is_not_landed(warehouse: Warehouse, outside: Path) -> None:
    """Hidden files and folders, and links: documented as not landed."""
    row = [{"trace_id": "not landed", "ts": NOON}]
    for name in (".hidden.jsonl", "_partial.jsonl", ".staging/x.jsonl", "dt=2026-11-30/_tmp/x.jsonl", "_x/y/z.jsonl"):
        warehouse.land("retrieval_traces", row, name)
    warehouse.land("_scratch", row)
    elsewhere = Warehouse(outside).land("retrieval_traces", row, "linked.jsonl")
    (warehouse.landing / "retrieval_traces" / "link.jsonl").symlink_to(elsewhere)
    (warehouse.landing / "retrieval_traces" / "linked").symlink_to(elsewhere.parent, target_is_directory=True)


@pytest.fixture(scope="session")
def nights() -> list[list[LandedFile]]:
    return random_nights()


@pytest.fixture(scope="session")
def landed(tmp_path_factory: pytest.TempPathFactory, nights: list[list[LandedFile]]) -> Warehouse:
    warehouse = Warehouse(tmp_path_factory.mktemp("landing"))
    land_reasons_times_and_ids(warehouse)
    land_what_is_not_landed(warehouse, tmp_path_factory.mktemp("outside"))
    for files in nights:
        for file in files:
            warehouse.land("retrieval_traces", file.content, f"random/{file.name}")
        warehouse.build(VARS)
    return warehouse


def registrations(warehouse: Warehouse) -> dict[tuple[int, str], tuple[int, dict[str, int]]]:
    """(night, file name) of the random files to their file_id and accounting."""
    columns = ("n_lines", "n_staged", "n_duplicates", "n_superseded", "n_quarantined")
    rows = warehouse.query(
        f"select file_id, load_id, path, {', '.join(columns)} from stg_landing_accounting "
        "where path like '%/random/%' order by file_id"
    )
    return {
        (load_id, path.removeprefix("retrieval_traces/random/")): (file_id, dict(zip(columns, numbers, strict=True)))
        for file_id, load_id, path, *numbers in rows
    }  # type: ignore[misc]


def test_the_accounting_of_every_file_is_exact(landed: Warehouse, nights: list[list[LandedFile]]) -> None:
    accounts = Accounts()
    for night, files in enumerate(nights, start=1):
        accounts.deliver(night, files)
    found = {at: {name: n for name, n in numbers.items() if n} for at, (_, numbers) in registrations(landed).items()}
    assert found == {at: dict(+counts) for at, counts in accounts.counts.items()}
    assert all(sum(counts.values()) == 2 * counts["n_lines"] for counts in accounts.counts.values())
    # the mix is one: every outcome occurs
    assert all(sum(accounts.counts.values(), Counter()).values())


def test_the_quarantine_is_exact(landed: Warehouse, nights: list[list[LandedFile]]) -> None:
    for at, (file_id, _) in registrations(landed).items():
        night, name = at
        (file,) = (file for file in nights[night - 1] if file.name == name)
        expected = [
            (number, line.fate, line.raw.decode(errors="replace"))
            for number, line in enumerate(file.kept, start=1)
            if line.fate not in {"accepted", "blank"}
        ]
        found = landed.query(
            "select line_number, reject_reason, raw_text from stg_quarantine where file_id = ? order by line_number",
            file_id,
        )
        if name.endswith(".parquet"):  # a row has no text of its own: its JSON is
            found = [(number, reason, json.loads(str(raw))) for number, reason, raw in found]
            parsed = [(number, reason, json.loads(raw)) for number, reason, raw in expected]
            assert (at, found) == (at, parsed)
        else:
            assert (at, found) == (at, expected)


def test_the_winner_is_the_latest_delivery(landed: Warehouse, nights: list[list[LandedFile]]) -> None:
    accounts = Accounts()
    for night, files in enumerate(nights, start=1):
        accounts.deliver(night, files)
    expected = {key: json.loads(line.raw)["query"] for key, (line, _) in accounts.winners.items()}
    found = landed.query(
        "select trace_id, query from stg_retrieval_traces where file_id in "
        "(select file_id from stg_landing_accounting where path like '%/random/%')"
    )
    assert dict(found) == expected


@pytest.mark.parametrize("contract", sorted({contract for contract, _, _ in REASONS}))
def test_every_reason_is_told(landed: Warehouse, contract: str) -> None:
    found = landed.query(
        "select line_number, reject_reason from stg_quarantine where path_to_read like ? order by line_number",
        f"%/{contract}/reasons.jsonl",
    )
    expected = [reason for landed_in, reason, _ in REASONS if landed_in == contract]
    assert found == list(enumerate(expected, start=1))
    declared = re.findall(r"then '(\w+)'", (PROJECT / "macros" / "landing" / f"contract_{contract}.sql").read_text())
    assert set(expected) == set(declared)


@pytest.mark.parametrize(("number", "form", "expected"), [(n, *row) for n, row in enumerate(TIMES)], ids=str)
def test_every_form_of_a_time(landed: Warehouse, number: int, form: object, expected: str) -> None:
    rows = landed.query(
        "select traced_at::varchar, traced_on::varchar from stg_retrieval_traces where trace_id = ?", f"time {number}"
    )
    assert rows == [(expected, expected[:10])], f"landed as {form!r}"


def test_every_json_type_of_an_id_is_its_text(landed: Warehouse) -> None:
    for number, (_, text) in enumerate(IDS):
        rows = landed.query(
            "select trace_id, session_id, retrieved[1].chunk_id from stg_retrieval_traces "
            "where query = ? or (trace_id = ? and query like 'id %')",
            f"id {number}", text,
        )  # fmt: skip
        assert rows == [(text, text, text)]
    # 42 and "42" are one trace, delivered twice
    assert landed.query("select n_superseded from stg_landing_accounting where path like '%/ids.jsonl'") == [(1,)]


def test_typed_parquet_reads_as_its_json_would(landed: Warehouse) -> None:
    rows: list[tuple[Any, ...]] = landed.query(
        "select trace_id, traced_at::varchar, retrieved[1].chunk_id from stg_retrieval_traces "
        "where file_id = (select file_id from stg_landing_accounting where path like '%/typed.parquet')"
    )
    assert rows == [("1", "2026-11-30 00:53:20.25", "7")]
    assert landed.query(
        "select line_number, reject_reason from stg_quarantine where path_to_read like '%/typed.parquet'"
    ) == [(2, "missing_ts")]


def test_links_and_hidden_files_are_not_landed(landed: Warehouse) -> None:
    paths = [str(path) for (path,) in landed.query("select path from stg_landing_files")]
    assert not [path for path in paths if re.search(r"(^|/)[._]|link", path)]
    assert landed.query("select * from stg_retrieval_traces where trace_id = 'not landed'") == []


def test_folders_that_do_not_exist_are_empty(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.build()
    tables = [
        str(name)
        for (name,) in warehouse.query("select table_name from information_schema.tables where table_name like 'stg_%'")
    ]
    assert len(tables) >= 9
    assert {table: warehouse.query(f"select count(*) from {table}") for table in tables} == {
        table: [(0,)] for table in tables
    }
