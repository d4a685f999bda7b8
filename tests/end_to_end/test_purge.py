"""A purge drops raw days and changes no number: not at once, not by what comes late, not in a full refresh."""

from __future__ import annotations

import datetime as dt
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pytest
import yaml
from end_to_end.first_run import Places
from end_to_end.test_nights import FIRST_DAY, Contents, contents, differing, nights, thumb, trace
from support import PROJECT, Warehouse

from retrieval_quality.purge import KEPT_BY_DAY, RAW_DAYS, Purge, PurgeError, purge

# The newest trace is of 2026-06-05 (day 96 from 2026-03-01), so days before 2026-03-07 (day 6) are purged. The
# first of the thirteen weeks before it begins on 2026-03-02.
LAST_DAY, BOUNDARY = 96, 6
UNTIL = dt.date(2026, 3, 7)
MEASURED = re.compile(r"mart_(?!alerts|landing_checks)|dim_|int_window_|int_score_")
# from before the boundary to after it
EXPERIMENT = f"""experiment_id,arm,is_control,share,starts_on,ends_on,wanted_effect,owner
long,control,true,0.5,{UNTIL - dt.timedelta(days=5)},{UNTIL + dt.timedelta(days=6)},0.05,us
long,treatment,false,0.5,{UNTIL - dt.timedelta(days=5)},{UNTIL + dt.timedelta(days=6)},0.05,us
"""
# of the nights all but one, 24 + 3 evaluated + 2; one of the session; 10 questions of 2 arms
N_PURGED_TRACES = 50
RAW = ("stg_retrieval_traces", "stg_feedback", "stg_answers", "stg_llm_calls")
EXPLODED = ("fct_retrievals", "fct_query_scores", "int_relevance_labels", "int_relevant_sets", "int_judged_chunks")


def crossing(number: int, day: int, seconds: float, chunks: list[str]) -> dict[str, object]:
    """A trace of the session that goes on over the midnight of the boundary."""
    retrieved = [{"chunk_id": chunk} for chunk in chunks]
    return trace(number, day, session="crossing", ts=FIRST_DAY + day * 86_400 + seconds, retrieved=retrieved)


def shadow(number: int, arm: str) -> dict[str, object]:
    """Both arms answer the same known questions, on days either side of the boundary."""
    found = f"c{number % 4}" if arm == "treatment" or number % 3 else "other"
    return trace(
        800 + number, BOUNDARY - 5 + number // 2, trace_id=f"{arm} {number}", query_id=f"q{number % 4}",
        user_id=f"u{number}", experiment_id="long", experiment_bucket=arm, retrieved=[{"chunk_id": found}],
    )  # fmt: skip


def vote(feedback_id: str, day: float, **other: object) -> dict[str, object]:
    return {"feedback_id": feedback_id, "rating": 1, "ts": FIRST_DAY + day * 86_400} | other


def land_history(warehouse: Warehouse) -> None:
    """Three nights of long ago, a session across the boundary, and the last days."""
    for night in nights():
        for contract, file, rows in night:
            warehouse.land(contract, rows, file)
    warehouse.land(
        "retrieval_traces",
        [
            crossing(400, BOUNDARY - 1, 86_390, ["old", "both"]),
            crossing(401, BOUNDARY, 30, ["new", "both"]),
            *(shadow(n, arm) for arm, n_answers in (("control", 20), ("treatment", 17)) for n in range(n_answers)),
            *(trace(500 + n, LAST_DAY - n % 4, query_id=f"q{n % 4}") for n in range(24)),
            trace(600, LAST_DAY, ts=FIRST_DAY + LAST_DAY * 86_400 + 80_000),
        ],
        "late.jsonl",
    )
    warehouse.land(
        "feedback",
        [
            *(thumb(500 + n, LAST_DAY) for n in range(12)),
            # of the session across the boundary: on what the old trace showed, the new one, both, neither
            *(
                vote(f"on {chunk}", BOUNDARY + 0.001, session_id="crossing", chunk_ids=[chunk])
                for chunk in ("old", "new", "both", "neither")
            ),
            # before its trace, which is of the other side
            vote("early", BOUNDARY - 0.0001, trace_id="t401", chunk_ids=["new"], rating=0),
            # of nobody
            vote("orphan", 3, trace_id="nothing"),
        ],
        "late.jsonl",
    )
    for contract, key in (("answers", "answer_id"), ("llm_calls", "call_id")):
        rows = [
            {key: f"{day}", "ts": FIRST_DAY + day * 86_400, "trace_id": f"t{day}", "purpose": "judge", "model": "m"}
            for day in (3, BOUNDARY - 1, BOUNDARY, LAST_DAY)
        ]
        warehouse.land(contract, rows)


def land_late(warehouse: Warehouse) -> None:
    """For purged days: a new trace, corrections of one into and out of them, labels by every way."""
    warehouse.land(
        "retrieval_traces",
        [
            trace(700, 4),
            trace(1, BOUNDARY + 3, ingested_at=FIRST_DAY + LAST_DAY * 86_400),  # was of day 1
            trace(500, 4, ingested_at=FIRST_DAY + (LAST_DAY + 1) * 86_400),  # is of the last day
        ],
        "too-late.jsonl",
    )
    warehouse.land(
        "feedback",
        [
            vote("late, by trace", LAST_DAY, trace_id="t2"),
            vote("late, by session", 20, session_id="s3", chunk_ids=["c10"]),
            vote("late, on the old side", BOUNDARY + 0.002, session_id="crossing", chunk_ids=["old"]),
            vote("late, given then", 2, trace_id="t700"),
            thumb(2, 3, trace_id="t401"),  # the correction of a purged label
        ],
        "too-late.jsonl",
    )
    warehouse.land("answers", [{"answer_id": "too late", "ts": FIRST_DAY, "trace_id": "t1"}], "too-late.jsonl")


@dataclass
class Purged:
    """What was there before the purge, and after each step; the purges as they reported themselves."""

    places: Places
    before: Contents
    printed: str
    raw_left: dict[str, int]
    golden_left: list[tuple[object, ...]]
    after: dict[str, Contents] = field(default_factory=dict)
    late_lines: dict[str, list[tuple[object, ...]]] = field(default_factory=dict)
    late_labels: dict[str, list[tuple[object, ...]]] = field(default_factory=dict)
    again: list[Purge] = field(default_factory=list)


def measured(warehouse: Warehouse) -> Contents:
    return {table: rows for table, rows in contents(warehouse).items() if MEASURED.match(table)}


@pytest.fixture(scope="module")
def purged(tmp_path_factory: pytest.TempPathFactory) -> Purged:
    places = Places(tmp_path_factory.mktemp("purge"))
    warehouse = Warehouse(places.root)
    land_history(warehouse)
    seeds = {"experiments": EXPERIMENT}
    warehouse.build(seeds=seeds)
    before = measured(warehouse)
    shutil.copy(warehouse.path, places.root / "before.duckdb")

    done = places.run("purge", variables={"RQ_PROJECT_DIR": str(warehouse.root / "project")})
    assert done.returncode == 0, done.stderr
    purged = Purged(
        places,
        before,
        done.stdout,
        raw_left={table: left(warehouse, table, f"happened_on < '{UNTIL}'") for table in RAW}
        | {table: left(warehouse, table, f"traced_on < '{UNTIL}'") for table in EXPLODED},
        golden_left=warehouse.query("select (select count(*) from stg_qrels), (select count(*) from stg_queries)"),
    )
    land_late(warehouse)
    for step, full_refresh in (("what comes late", False), ("a full refresh", True)):
        warehouse.build(seeds=seeds, full_refresh=full_refresh)
        purged.after[step] = measured(warehouse)
        purged.late_lines[step] = warehouse.query(
            "select contract, n_lines, n_too_late from stg_landing_accounting where path like '%/too-late.jsonl' "
            "order by all"
        )
        purged.late_labels[step] = warehouse.query(
            "select feedback_id, attachment from int_feedback_traces where feedback_id like 'late%' order by all"
        )
        purged.again.append(purge(warehouse.path, retention_days=90))
    purged.again.append(purge(warehouse.path, retention_days=90))
    return purged


def left(warehouse: Warehouse, table: str, condition: str) -> int:
    day = {"stg_feedback": "given_at"} | {name: column for name, (_, column) in RAW_DAYS.items()}
    rows = warehouse.query(
        f"select count(*) from (select *, {day.get(table, 'traced_on')}::date as happened_on from {table}) "
        f"where {condition}"
    )
    return int(str(rows[0][0]))


def test_raw_and_exploded_days_are_gone_and_golden_sets_are_not(purged: Purged) -> None:
    # the label given before midnight on the trace after it stays with that trace
    assert purged.raw_left == dict.fromkeys((*RAW, *EXPLODED), 0) | {"stg_feedback": 1}
    assert purged.golden_left == [(5, 4)]
    boundary, dropped, *_ = purged.printed.splitlines()
    assert boundary == "Days before 2026-03-07 are frozen (90 days before 2026-06-05 22:13 UTC)."
    assert dropped == "Dropped:"
    assert re.search(rf" {N_PURGED_TRACES} of stg_retrieval_traces$", purged.printed, re.MULTILINE), purged.printed
    assert re.search(r" 2 of stg_answers$", purged.printed, re.MULTILINE)


@pytest.mark.parametrize("step", ["what comes late", "a full refresh"])
def test_no_number_changes(step: str, purged: Purged) -> None:
    assert differing(purged.after[step], purged.before) == []


def test_the_numbers_that_do_not_change_are_there(purged: Purged) -> None:
    for mart in ("retrieval_quality", "segment_weekly", "slo_status", "experiment_comparison", "corrected_estimates"):
        assert purged.before[f"mart_{mart}"], mart


def test_windows_reach_into_purged_days(purged: Purged) -> None:
    """Else the test above would say little."""
    until = dt.datetime.combine(UNTIL, dt.time())
    for mart in ("mart_retrieval_quality", "mart_corrected_estimates"):
        weeks = {row[1] for row in purged.before[mart] if row[0] == "week"}
        assert min(weeks) < until < max(weeks), mart
    assert any("paired" in row for row in purged.before["mart_experiment_comparison"])


def test_what_comes_late_is_counted_as_such(purged: Purged) -> None:
    by_line = [("answers", 1, 1), ("feedback", 5, 1), ("retrieval_traces", 3, 3)]
    assert purged.late_lines["what comes late"] == by_line
    late = [
        (feedback_id, "too_late")
        for feedback_id in ("late, by session", "late, by trace", "late, given then", "late, on the old side")
    ]
    assert purged.late_labels["what comes late"] == late
    # by then these four labels are purged themselves, and known by their ids
    assert purged.again[0].n_rows == {"stg_feedback": 4}
    assert purged.late_lines["a full refresh"] == [("answers", 1, 1), ("feedback", 5, 5), ("retrieval_traces", 3, 3)]


def test_a_purge_without_anything_to_drop_drops_nothing(purged: Purged) -> None:
    assert [done.n_rows for done in purged.again[1:]] == [{}, {}]
    assert {done.purged_until for done in purged.again} == {UNTIL}
    assert purged.places.query_warehouse("select count(*) from stg_purges") == [(1,)]


def test_a_frozen_day_gets_no_version(purged: Purged) -> None:
    assert purged.places.query_warehouse(
        "select count(*) from int_day_versions where day_version = (select max(day_version) from int_day_versions) "
        f"and traced_on < '{UNTIL}'"
    ) == [(0,)]


KILLED = """
import os, signal, sys
from pathlib import Path
import retrieval_quality.purge as module
module._forget_raw_text = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
module.purge(Path(sys.argv[1]), retention_days=90)
"""


def test_a_purge_that_is_killed_did_nothing_and_the_next_does_it_all(purged: Purged, tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    shutil.copy(purged.places.root / "before.duckdb", warehouse.path)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(warehouse.path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert warehouse.query("select count(*) from stg_purges") == [(0,)]
    assert warehouse.query(f"select count(*) > 0 from fct_retrievals where traced_on < '{UNTIL}'") == [(True,)]

    done = purge(warehouse.path, retention_days=90)
    assert done.n_rows["stg_retrieval_traces"] == N_PURGED_TRACES
    assert warehouse.query(f"select count(*) from fct_retrievals where traced_on < '{UNTIL}'") == [(0,)]


def test_a_dry_run_says_it_and_a_mistyped_as_of_purges_no_more(purged: Purged, tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    shutil.copy(purged.places.root / "before.duckdb", warehouse.path)
    with duckdb.connect(str(warehouse.path)) as con:
        con.execute("update int_as_of set as_of = timestamp '2062-06-12'")
    done = purge(warehouse.path, retention_days=90, is_dry_run=True)
    assert (done.purged_until, done.n_rows["stg_retrieval_traces"], done.is_dry_run) == (UNTIL, N_PURGED_TRACES, True)
    assert warehouse.query("select count(*) from stg_purges") == [(0,)]
    # a boundary that is further back than the last purge's
    purge(warehouse.path, retention_days=90)
    assert purge(warehouse.path, retention_days=95).purged_until == UNTIL


def test_without_a_warehouse_or_a_trace_nothing_is_purged(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "empty.duckdb")) as con:
        con.execute("create table stg_purges (purged_until date, as_of timestamp, retention_days integer)")
        con.execute("create table int_as_of (as_of timestamp)")
        con.execute("create table fct_retrievals (traced_at timestamp, traffic text, is_missing boolean)")
    with pytest.raises(PurgeError, match="there is no trace yet to count back from"):
        purge(tmp_path / "empty.duckdb", retention_days=90)
    with pytest.raises(PurgeError, match="does not exist"):
        purge(tmp_path / "none.duckdb", retention_days=90)
    assert not (tmp_path / "none.duckdb").exists()


def test_staging_and_purge_go_by_the_same_days() -> None:
    models = yaml.safe_load((PROJECT / "dbt_project.yml").read_text())["models"]["retrieval_quality"]
    declared = {
        name: (config["+unique_key"], config["+meta"]["raw_day"])
        for name, config in models["staging"]["contracts"].items()
        if isinstance(config, dict) and "raw_day" in config.get("+meta", {})
    }
    assert declared == {**RAW_DAYS, "stg_feedback": ("feedback_id", "null")}
    protected = {
        name
        for name, config in models["intermediate"]["by_day"].items()
        if isinstance(config, dict) and config.get("+full_refresh") is False
    }
    assert protected == KEPT_BY_DAY - {"int_day_versions"}
