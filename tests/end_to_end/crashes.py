"""A night that is killed: what it works on, the moments it is killed at, who reads meanwhile, what is compared."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import duckdb
from alerting import Webhook
from end_to_end.first_run import Places
from end_to_end.test_nights import Contents, nights
from end_to_end.test_nights import contents as warehouse_contents
from support import Warehouse

from retrieval_quality.publish import DATABASE_NAME, resolve_current

N_QUESTIONS = 20
AS_OF = {"first": '{as_of: "2026-11-05T00:00:00Z"}', "second": '{as_of: "2026-11-06T00:00:00Z"}'}

# tell what happened when, kills included
LOGS = {"stg_landing_checks", "mart_landing_checks", "stg_alert_events", "mart_alerts", "dim_publication"}


# --- what the night works on ----------------------------------------------------------------


def land_first_night(warehouse: Warehouse) -> None:
    """Feedback and golden questions of a week, and four nightly evaluations: three good, the last bad."""
    for contract, file, rows in nights()[0]:
        warehouse.land(contract, rows, file)
    questions = [{"query_id": f"n{n}", "query": f"n {n}", "query_set": "nightly"} for n in range(N_QUESTIONS)]
    judged = [
        {"query_id": f"n{n}", "chunk_id": f"c{n}", "grade": 1, "label_class": "synthetic"} for n in range(N_QUESTIONS)
    ]
    warehouse.land("queries", questions, "nightly.jsonl")
    warehouse.land("qrels", judged, "nightly.jsonl")
    for day in (1, 2, 3, 4):
        land_evaluation(warehouse, day, is_good=day < 4)


def land_second_night(warehouse: Warehouse) -> None:
    """Corrections, repeats, late labels, a bad line, a file that grew; and the second bad evaluation: it pages."""
    for night in nights()[1:]:
        for contract, file, rows in night:
            warehouse.land(contract, rows, file)
    grown = warehouse.landing / "feedback" / "a.jsonl"
    more = {"feedback_id": "grown", "session_id": "s3", "rating": 1, "ts": "2026-03-05T23:00:00Z"}
    grown.write_bytes(grown.read_bytes() + f"{json.dumps(more)}\n".encode())
    land_evaluation(warehouse, 5, is_good=False)


def land_evaluation(warehouse: Warehouse, day: int, *, is_good: bool) -> None:
    """A nightly evaluation: a bad one finds the chunk of every fifth question only."""
    date = f"2026-11-{day:02}"
    run = {"eval_run_id": date, "started_at": f"{date}T02:00:00Z", "query_set": "nightly", "kind": "scheduled"}
    warehouse.land("eval_runs", [run], f"{date}.jsonl")
    traces = [
        {
            "trace_id": f"{date}-{n}", "ts": f"{date}T02:{n:02}:00Z", "query_id": f"n{n}", "query": f"n {n}",
            "eval_run_id": date, "retrieved": [{"chunk_id": f"c{n}" if is_good or n % 5 == 0 else "other"}],
        }
        for n in range(N_QUESTIONS)
    ]  # fmt: skip
    warehouse.land("retrieval_traces", traces, f"{date}.jsonl")


def copied(places: Places, root: Path) -> Places:
    """All of it, with the times of the files, which the ledger knows them by."""
    shutil.copytree(places.root, root, symlinks=True)
    return Places(root)


def second_night(hook: Webhook) -> tuple[tuple[str, ...], dict[str, str]]:
    """Arguments and environment of the night that is killed."""
    return ("nightly", "--vars", AS_OF["second"]), {"RQ_ALERT_URLS": hook.url(), "NO_PROXY": "127.0.0.1"}


# --- the moments ----------------------------------------------------------------------------

IsReached = Callable[[Places, Webhook, str], bool]


def building(node: str) -> IsReached:
    return lambda _places, _hook, log: f"Began running node model.retrieval_quality.{node}" in log


def publishing(places: Places, _hook: Webhook, _log: str) -> bool:
    return any((places.published / "versions").glob(".tmp-*"))


def alerting(places: Places, _hook: Webhook, _log: str) -> bool:
    return any((places.landing / "alert_events").glob("dt=*"))


def sending(_places: Places, hook: Webhook, _log: str) -> bool:
    return bool(hook.received)


def settling(_places: Places, _hook: Webhook, log: str) -> bool:
    return re.search(r"begin transaction;\s+set variable rq_settled_load", log) is not None


PHASES: Mapping[str, IsReached] = {
    "settling": settling,
    "staging": building("stg_retrieval_traces"),
    "mid-model": building("fct_query_scores"),
    "publishing": publishing,
    "alerting": alerting,
    "sending": sending,
}


def killed_night(
    places: Places, hook: Webhook, is_time: Callable[[float, str], bool], *options: str
) -> tuple[bool, float]:
    """Run the second night, with `options`, and kill its process group once `is_time` of (seconds since
    the start, dbt's log of this night); returns whether it was killed before it ended, and when.
    """
    log_file = places.root / "logs" / "dbt.log"
    log_file.parent.mkdir(exist_ok=True)
    log_file.touch()
    log = ""
    arguments, variables = second_night(hook)
    started = time.monotonic()
    with log_file.open(encoding="utf-8", errors="replace") as tail:
        tail.seek(0, os.SEEK_END)
        process = places.start(*arguments, *options, variables=variables)
        try:
            while process.poll() is None and not is_time(time.monotonic() - started, log):
                time.sleep(0.01)
                log += tail.read()
            was_running = process.poll() is None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return was_running, time.monotonic() - started


# --- who reads meanwhile --------------------------------------------------------------------


@dataclass
class Reader:
    """A dashboard that opens `current` again and again: what it saw, and what it should never have seen."""

    published: Path
    seen: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._read_on)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _read_on(self) -> None:
        tables: set[str] | None = None
        while not self._stop.is_set():
            try:
                publication_id, found = read_whole(self.published)
            except Exception as error:
                self.faults.append(repr(error))
                continue
            tables = tables or found
            if found != tables:
                self.faults.append(f"{publication_id} has {sorted(found ^ tables)} more or less than before")
            self.seen[publication_id] = self.seen.get(publication_id, 0) + 1
            time.sleep(0.1)


def read_whole(published: Path) -> tuple[str, set[str]]:
    """The publication that is current, its database and its Parquet files; AssertionError where they disagree."""
    version = resolve_current(published)
    with closing(duckdb.connect(str(version / DATABASE_NAME), read_only=True)) as con:
        con.execute("set threads = 1")
        tables = {name for (name,) in con.execute("select table_name from duckdb_tables()").fetchall()}
        assert con.execute("select publication_id from dim_publication").fetchall() == [(version.name,)]
        for table in tables:
            files = version / "parquet" / (f"{table}/*/*.parquet" if table.startswith("fct_") else f"{table}.parquet")
            counts = f"select (select count(*) from {table}), (select count(*) from '{files}')"
            in_database, in_parquet = con.execute(counts).fetchall()[0]
            assert in_database == in_parquet, (version.name, table)
    return version.name, tables


# --- what is compared -----------------------------------------------------------------------


def contents(places: Places) -> Contents:
    """Every table of the warehouse, but for what is technical."""
    tables = warehouse_contents(Warehouse(places.root))
    quarantine = "select line_number, reject_reason, raw_text from stg_quarantine order by all"
    return {table: rows for table, rows in tables.items() if table not in LOGS} | {
        "stg_quarantine": places.query_warehouse(quarantine)
    }


def leftovers(places: Places) -> list[tuple[object, ...]]:
    """What dbt forgot in the warehouse."""
    return places.query_warehouse("select table_name from duckdb_tables() where contains(table_name, '__dbt_')")


def published_contents(places: Places) -> Contents:
    """Every table of the current publication in its own order, without the clock."""
    tables = places.query("select table_name from duckdb_tables() order by all")
    return {
        str(table): places.query(f"select columns(lambda name: name <> 'day_version') from {table} order by all")
        for (table,) in tables
        if table not in LOGS
    }
