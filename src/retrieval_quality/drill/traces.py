"""The evaluated traces of a landing folder, and the same traces as a degraded retriever would have logged them."""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import duckdb

from retrieval_quality.adapters.rows import time_us
from retrieval_quality.drill.lists import Degradation, Lists, Target, can_move, degraded
from retrieval_quality.landing_check import data_files

Row = Mapping[str, Any]

_LINES: Final = (
    "select line from read_csv(?, columns = {line: 'VARCHAR'}, auto_detect = false, header = false, "
    "delim = '\x01', quote = '', escape = '', ignore_errors = true, max_line_size = 67108864) "
    "where contains(line, ?)"
)


class DrillError(Exception):
    """The drill cannot run on what was landed; one line that says what is missing."""


@dataclass(frozen=True)
class Period:
    """Healthy UTC days, then degraded ones: `starts_on` <= healthy < `degraded_from` <= degraded < `ends_on`."""

    starts_on: date
    degraded_from: date
    ends_on: date

    @property
    def n_nights(self) -> int:
        return (self.ends_on - self.degraded_from).days

    @property
    def n_days(self) -> int:
        return (self.ends_on - self.starts_on).days


@dataclass(frozen=True)
class Trace:
    """A trace of a scheduled evaluation: its row as landed, its UTC day, an id of its own."""

    row: Row
    day: date
    trace_id: str

    @cached_property
    def lists(self) -> Lists | None:
        """None where the retrieval failed and has no list."""
        final = _chunk_ids(self.row.get("retrieved"))
        return None if final is None else Lists(final, _chunk_ids(self.row.get("candidates")))


@dataclass(frozen=True)
class Evaluations:
    """Scheduled evaluations of the questions that a complete label class judges."""

    label_class: str
    traces: tuple[Trace, ...]
    runs: tuple[Row, ...]

    @property
    def newest_day(self) -> date:
        return max(trace.day for trace in self.traces)

    @cached_property
    def corpus(self) -> tuple[str, ...]:
        """Every chunk that was retrieved, by id."""
        lists = [trace.lists for trace in self.traces if trace.lists is not None]
        return tuple(sorted({chunk for each in lists for chunk in (*each.final, *(each.candidates or ()))} - {""}))

    def within(self, period: Period) -> Evaluations:
        """Those of a period. Raises DrillError where its healthy or its degraded days have none."""
        traces = tuple(trace for trace in self.traces if period.starts_on <= trace.day < period.ends_on)
        for name, days in (
            ("healthy", (period.starts_on, period.degraded_from)),
            ("degraded", (period.degraded_from, period.ends_on)),
        ):
            if not any(days[0] <= trace.day < days[1] for trace in traces):
                raise DrillError(f"no evaluated traces on the days to be {name} ({days[0]} to {_before(days[1])})")
        run_ids = {_text(trace.row["eval_run_id"]) for trace in traces}
        return Evaluations(
            self.label_class, traces, tuple(run for run in self.runs if _text(run["eval_run_id"]) in run_ids)
        )


def read_evaluations(landing: Path, label_classes: Path) -> Evaluations:
    """The evaluated traces of a landing folder. Raises DrillError and says what is missing.

    A trace counts where its run is landed in `eval_runs` and not `adhoc`, and its question has qrels
    of a complete class of `label_classes` (the seed); of several classes the one that judges most.
    """
    runs = {
        _text(run["eval_run_id"]): run
        for run in _rows(landing, "eval_runs")
        if run.get("eval_run_id") is not None and run.get("kind") != "adhoc"
    }
    traces = [
        trace
        for row in _rows(landing, "retrieval_traces", holding="eval_run_id")
        if _text(row.get("eval_run_id")) in runs and (trace := _trace(row)) is not None
    ]
    if not traces:
        raise DrillError(
            "no traces of scheduled evaluations: a drill needs `retrieval_traces` with an `eval_run_id` "
            "that `eval_runs` declares (docs/drill.md)"
        )
    judged = _judged_queries(landing, label_classes)
    asked = Counter(_text(trace.row.get("query_id")) for trace in traces)
    counts = {label_class: sum(asked[query] for query in queries) for label_class, queries in judged.items()}
    label_class = max(sorted(counts), key=lambda name: counts[name], default="")
    if not counts.get(label_class):
        raise DrillError("no judgments of the evaluated questions: a drill needs `qrels` of a complete label class")
    return Evaluations(label_class, tuple(traces), tuple(runs.values()))


def write_variant(landing: Path, evaluations: Evaluations, degradation: Degradation, period: Period) -> None:
    """Land the evaluations once more as those of an index version with the degradation's name.

    From `period.degraded_from` on the lists are degraded; ids get the name before them.
    """
    name = degradation.name
    runs = [
        {**run, "eval_run_id": f"{name}/{run['eval_run_id']}", "index_version": name, "kind": "scheduled"}
        for run in evaluations.runs
    ]
    _write(landing / "eval_runs" / f"{name}.jsonl", runs)
    _write(
        landing / "retrieval_traces" / f"{name}.jsonl",
        [_variant_row(trace, evaluations.corpus, degradation, period) for trace in evaluations.traces],
    )


def movable(
    evaluations: Evaluations, degradation: Degradation, period: Period, targets: Sequence[Target]
) -> frozenset[Target]:
    """The targets that a degradation can move, from the lists alone: in some trace they differ where it looks."""
    pairs = [
        (trace.lists, degraded(degradation, trace.trace_id, trace.lists, evaluations.corpus))
        for trace in evaluations.traces
        if trace.day >= period.degraded_from and trace.lists is not None
    ]
    return frozenset(target for target in targets if any(can_move(target, before, after) for before, after in pairs))


def _variant_row(trace: Trace, corpus: Sequence[str], degradation: Degradation, period: Period) -> dict[str, Any]:
    row = trace.row
    name = degradation.name
    changed: dict[str, Any] = {
        "trace_id": f"{name}/{trace.trace_id}",
        "session_id": f"{name}/{row.get('session_id') or trace.trace_id}",
        "eval_run_id": f"{name}/{row['eval_run_id']}",
        "index_version": name,
    }
    lists = trace.lists
    if lists is not None and trace.day >= period.degraded_from:
        worse = degraded(degradation, trace.trace_id, lists, corpus)
        if worse.final != lists.final:
            changed["retrieved"] = _places(worse.final, row["retrieved"])
        if worse.candidates is not None and worse.candidates != lists.candidates:
            changed["candidates"] = _places(worse.candidates, row["candidates"])
    return {**row, **changed}


def _trace(row: Row) -> Trace | None:
    us = time_us(row.get("ts"))
    if us is None:
        return None
    day = datetime.fromtimestamp(us / 1e6, tz=UTC).date()
    trace_id = _text(row.get("trace_id")) or hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()
    return Trace(row, day, trace_id)


def _chunk_ids(items: object) -> tuple[str, ...] | None:
    """Chunk ids, best first: by rank where ranks are distinct, else as they stand. None where there is no list."""
    if not isinstance(items, list):
        return None
    return tuple(_text(item.get("chunk_id")) for item in _in_rank_order(items))


def _in_rank_order(items: Sequence[object]) -> list[Row]:
    rows: list[Row] = [item for item in items if isinstance(item, dict)]
    ranks = [rank for item in rows if isinstance(rank := item.get("rank"), int | float)]
    is_ranked = len(set(ranks)) == len(rows)
    return sorted(rows, key=lambda item: float(item["rank"])) if is_ranked else rows


def _places(chunks: Sequence[str], items: Sequence[object]) -> list[dict[str, Any]]:
    """Chunks on the places of an earlier list, which keep their scores."""
    scores = [item.get("score") for item in _in_rank_order(items)]
    return [
        {"chunk_id": chunk or None, "score": score, "rank": rank}
        for rank, (chunk, score) in enumerate(zip(chunks, scores, strict=False), start=1)
    ]


def _judged_queries(landing: Path, label_classes: Path) -> dict[str, set[str]]:
    """Questions with qrels, by complete label class."""
    with label_classes.open(newline="") as file:
        complete = {row["label_class"] for row in csv.DictReader(file) if row["completeness"] == "complete"}
    judged: dict[str, set[str]] = {}
    for row in _rows(landing, "qrels"):
        label_class = row.get("label_class") or "golden"
        if label_class in complete and row.get("query_id") is not None:
            judged.setdefault(label_class, set()).add(_text(row["query_id"]))
    return judged


def _rows(landing: Path, contract: str, holding: str = "") -> Iterator[dict[str, Any]]:
    """The rows of a contract's files. What is no JSON object is left out, as staging would.

    `holding` leaves out lines of text without it, before they are parsed.
    """
    folder = landing / contract
    if not folder.is_dir():
        return
    with closing(duckdb.connect(":memory:")) as connection:
        for path in data_files(folder):
            if path.name.endswith(".parquet"):
                yield from _parquet_rows(connection, path)
                continue
            for (line,) in connection.execute(_LINES, [str(path), holding]).fetchall():
                if isinstance(row := _parsed(line), dict):
                    yield row


def _parquet_rows(connection: duckdb.DuckDBPyConnection, path: Path) -> list[dict[str, Any]]:
    found = connection.execute("from read_parquet(?)", [str(path)])
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _write(path: Path, rows: Sequence[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(row, separators=(',', ':'), default=str)}\n" for row in rows)


def _text(value: object) -> str:
    return "" if value is None or not str(value).strip() else str(value)


def _before(day: date) -> date:
    return day - timedelta(days=1)
