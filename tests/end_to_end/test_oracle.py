"""Random hostile landings, built and worked out a second time by `oracle.py`: every table has to say the same.

Left out, because docs and code do not say the same of it or leave it open:
a fault with candidates, blank versions and intents, repeats in candidates, means of negative grades, judgments of
unanswered questions after as_of, implicit signals on several chunks of a document.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from end_to_end.oracle import DAY, HOUR, TRACE_COUNTS, UNIT_SUMS, Key, Sums, Truth, World, bucket, mart
from support import Warehouse, edited_seed

AS_OF = datetime(2026, 3, 12, 7, 30)
CHUNKS = [f"d{document}#{place}" for document in range(6) for place in range(4)] + ["plain", "odd/1"]
QUERIES = ["how to a", "how to b", "what is c", "compare d vs e ?", "error in f", "  HOW  to A ", "g", " "]
QUERY_IDS = [f"q{number}" for number in range(12)]
RATES = [1, 0.5, 0.25, 0.1, 0.3, 0.000123]
SIGNALS = ["thumb", "copy", "dwell", "reformulation", "audit", "judge", "exotic"]
RATINGS: dict[str | None, list[object]] = {
    None: ["up", "Down", "no", 1, 0, -1, 4, "neutral", True, False, "??"],
    "thumb": [1, 0, -1, "1", "up"],
    "signed": [-3, 0, 2.5],
    "stars": [1, 3, 4, 3.5],
    "unit": [0, 0.5, 0.49],
}
SEGMENT = ("traffic", "segment_dimension", "segment_value", "stage", "label_class", "metric", "k")
FACT_COLUMNS = ("traced_at", "traffic", "intent", "is_long_tail", "n_returned", "n_candidates", "is_no_results",
                "is_fault", "is_missing", "n_blank_chunk_ids", "sample_rate", "index_version")  # fmt: skip

MART_COLUMNS = ("window_end_at", *TRACE_COUNTS, "n_units", "completeness", "estimate", "n_eff", "judged_share",
                "estimate_low", "estimate_high", "is_identifiable")  # fmt: skip


def test_tables_say_what_the_oracle_says(tmp_path: Path) -> None:
    compare(hostile_world(1, n_traces=70), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(2, 7))
def test_tables_say_what_the_oracle_says_of_other_worlds(number: int, tmp_path: Path) -> None:
    compare(hostile_world(number, n_traces=150), tmp_path)


# --- comparing -------------------------------------------------------------------------------


def compare(world: World, root: Path) -> None:
    warehouse = Warehouse(root)
    for contract, rows in world.landing.items():
        warehouse.land(contract, rows)
    seeds = {"label_classes": edited_seed("label_classes", **world.label_classes)} if world.label_classes else None
    warehouse.build(world.variables, seeds=seeds)
    truth = Truth(world)
    names = trace_names(warehouse)

    labels = {
        (*key, chunk): {"grade": grade} for key, grades in truth.labels.items() for chunk, grade in grades.items()
    }
    found = table(warehouse, "int_relevance_labels", ("trace_id", "label_class", "evidence_id"), ("grade",), names)
    assert_equal(labels, found)

    found = table(warehouse, "fct_retrievals", ("trace_id",), FACT_COLUMNS, names)
    assert_equal(retrievals(truth), found)

    columns = tuple(next(iter(truth.scores.values())))
    found = table(warehouse, "fct_query_scores", ("trace_id", "stage", "label_class", "k"), columns, names)
    assert_equal(truth.scores, found)

    compare_sums(warehouse, truth, truth.days, "", "traced_on::timestamp")
    this_hour = bucket(truth.as_of, HOUR)
    last_day = f"bucket_at >= '{this_hour - DAY}' and bucket_at < '{this_hour}'"
    compare_sums(warehouse, truth, truth.hours, "_hourly", "bucket_at", last_day)

    expected = mart(truth)
    # a share of exactly min_judged_share may be a trillionth below it there
    least = float(truth.config.min_judged_share)
    for row in expected.values():
        if row["judged_share"] is not None and abs(float(row["judged_share"]) - least) < 1e-9:
            del row["is_identifiable"]
    key = ("window_name", "window_start_at", *SEGMENT)
    assert_equal(expected, table(warehouse, "mart_retrieval_quality", key, MART_COLUMNS))


def compare_sums(
    warehouse: Warehouse, truth: Truth, sums: Sums, suffix: str, bucket_at: str, where: str = "true"
) -> None:
    key = (bucket_at, *SEGMENT)
    columns = (*TRACE_COUNTS, *UNIT_SUMS)
    counts = {
        place: {name: count[name] for name in columns} | {"judged_sum": sums.judged.get(place, 0) * 10**12}
        for place, count in sums.counts.items()
    }
    assert_equal(counts, table(warehouse, f"int_score_denominators{suffix}", key, columns, where=where))

    bars = {
        (*place, round(float(value), 9)): {"weight": weight}
        for place, histogram in sums.histogram.items()
        for value, weight in histogram.items()
    }
    found = table(warehouse, f"int_score_histograms{suffix}", (*key, "value"), ("weight",), where=where)
    # the build keeps scores in trillionths, so that one mean may stand in two bars a trillionth apart
    rounded: dict[Key, dict[str, Any]] = {}
    for place, row in found.items():
        rounded.setdefault((*place[:-1], round(place[-1], 9)), {"weight": 0})["weight"] += row["weight"]
    # on the grid every unit is rounded to a millionth, so a bar of less may be missing
    slight = {place for place, row in bars.items() if row["weight"] < 1}
    assert_equal({place: row for place, row in bars.items() if place not in slight},
                 {place: row for place, row in rounded.items() if place not in slight}, tolerance=5)  # fmt: skip


def trace_names(warehouse: Warehouse) -> dict[object, str]:
    """What the oracle calls a trace: placeholders have an id of their own there."""
    rows = warehouse.query("select trace_id, is_missing, eval_run_id, query_id from fct_retrievals")
    return {row[0]: f"missing:{row[2]}:{row[3]}" if row[1] else str(row[0]) for row in rows}


def table(
    warehouse: Warehouse,
    name: str,
    key: tuple[str, ...],
    columns: tuple[str, ...],
    names: Mapping[object, str] | None = None,
    *,
    where: str = "true",
) -> dict[Key, dict[str, Any]]:
    rows = warehouse.query(f"select {', '.join((*key, *columns))} from {name} where {where}")
    return {
        ((names[row[0]],) if names else row[:1]) + row[1 : len(key)]: dict(zip(columns, row[len(key) :], strict=True))
        for row in rows
    }


def retrievals(truth: Truth) -> dict[Key, dict[str, Any]]:
    return {
        (trace.trace_id,): {
            "traced_at": trace.at,
            "traffic": trace.traffic,
            "intent": trace.values["intent"],
            "is_long_tail": trace.is_long_tail,
            "n_returned": None if trace.lists["final"] is None else len(trace.lists["final"]),
            "n_candidates": None if trace.lists["retriever"] is None else len(trace.lists["retriever"]),
            "is_no_results": trace.lists["final"] == [],
            "is_fault": trace.is_fault,
            "is_missing": trace.is_missing,
            "n_blank_chunk_ids": None if trace.is_fault else trace.n_blank,
            "sample_rate": trace.sample_rate,
            "index_version": trace.values["index_version"],
        }
        for trace in truth.traces
    }


def assert_equal(
    expected: Mapping[Key, Mapping[str, Any]], found: Mapping[Key, Mapping[str, Any]], *, tolerance: float = 1e-6
) -> None:
    assert expected, "nothing to compare"
    assert expected.keys() - found.keys() == set(), "only the oracle has these rows"
    assert found.keys() - expected.keys() == set(), "only the build has these rows"
    differences = [
        (key, column, value, found[key][column])
        for key, row in expected.items()
        for column, value in row.items()
        if not is_close(value, found[key][column], tolerance)
        # not counted in candidates, and NULL where there are only faults
        and not (column == "n_duplicates" and ("retriever" in key or not value))
    ]
    assert differences == []


def is_close(expected: Any, found: Any, tolerance: float) -> bool:
    if expected is None or found is None or isinstance(expected, str | datetime):
        return expected == found
    return abs(float(expected) - float(found)) <= max(tolerance, 1e-9 * abs(float(expected)))


# --- landing ---------------------------------------------------------------------------------


def hostile_world(number: int, n_traces: int) -> World:
    """Everything that landing and labels allow, and some of what they do not, at random."""
    rng = random.Random(number)
    by_document = number % 3 == 1
    traces = [a_trace(rng, n) for n in range(n_traces)]
    moments: set[Key] = set()
    for trace in traces:
        # no two traces of a session at one time, so that "the latest" is one
        while (trace["session_id"], trace["ts"]) in moments:
            trace["ts"] += timedelta(microseconds=1)
        moments.add((trace["session_id"], trace["ts"]))
    feedback = [event for trace in traces for event in some_feedback(rng, trace)]
    for event_number, event in enumerate(feedback):
        event["feedback_id"] = f"f{event_number}"
        # no two events at one time, so that "the latest" is one
        event["ts"] = spelled(rng, event["ts"] + timedelta(microseconds=event_number))
    again = [delivered_again(rng, trace) for trace in traces if rng.random() < 0.1]
    landing = {
        "retrieval_traces": [trace | {"ts": spelled(rng, trace["ts"])} for trace in (*traces, *again)],
        "feedback": [*feedback, *feedback[::20]],
        "qrels": some_qrels(rng, by_document=by_document),
        "queries": [a_query(rng, query_id) for query_id in QUERY_IDS[:10]],
        "eval_runs": [a_run(rng, f"e{n}") for n in range(5)],
    }
    for rows in landing.values():
        rng.shuffle(rows)
    variables: dict[str, object] = {
        "max_quarantined_share": 1.0,
        "segment_dimensions": ["intent", "experiment_bucket", "long_tail", "intent x index_version"],
        "long_tail_max_sessions": 1 + number % 2,
        "label_lookback_days": 2 if number % 3 == 2 else 90,
        "min_judged_share": 0.3 if number % 2 else 0.9,
        "reported_days": 12,
        "reported_weeks": 3,
    }
    if number % 4 != 3:
        variables["as_of"] = f"{AS_OF.isoformat()}Z"
    if number % 2:
        variables["cutoffs"] = {"final": [1, 2, 5, 7, 10], "retriever": [5, 10, 20, 100]}
    else:
        variables["upvote_without_correctness"] = "unjudged"
    classes: dict[str, Mapping[str, str]] = {}
    if by_document:
        variables["document_id_pattern"] = "^(d[0-9]+)#"
        classes = {name: {"evidence_level": "document"} for name in ("golden", "audit", "explicit")}
    if number % 4 == 2:
        classes["judge"] = {"relevant_from": "2"}
    return World(landing, variables, classes)


def some_time(rng: random.Random) -> datetime:
    """Often at the edge of a day, of an hour or of as_of."""
    edge = timedelta(microseconds=rng.choice([-1, 0, 1]))
    day = datetime(2026, 3, 2) + rng.randrange(-3, 12) * DAY
    return rng.choice([
        day + edge,
        day + rng.randrange(24) * HOUR + edge,
        AS_OF.replace(minute=0) - rng.choice([0, 1, 24, 25]) * HOUR + edge,
        AS_OF + edge,
        AS_OF - timedelta(seconds=rng.randrange(90_000)),
        *[day + timedelta(seconds=rng.randrange(86_400), microseconds=rng.randrange(10**6))] * 4,
    ])  # fmt: skip


def spelled(rng: random.Random, at: datetime) -> object:
    microseconds = (at - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    shifted = f"{(at + 2 * HOUR).isoformat()}+02:00"
    return rng.choice([f"{at.isoformat()}Z", at.isoformat(), shifted, microseconds, str(microseconds)])


def a_list(rng: random.Random, longest: int) -> list[dict[str, object]]:
    n = rng.choice([0, 1, 2, rng.randrange(3, longest), rng.randrange(3, longest), rng.randrange(3, longest)])
    chunks: list[str | None] = [
        rng.choice(CHUNKS) if rng.random() < 0.95 else rng.choice(["", " ", None]) for _ in range(n)
    ]
    items: list[dict[str, object]] = [{"chunk_id": chunk, "score": rng.choice([0.1, 0.5, 3])} for chunk in chunks]
    ranks: list[int | None] = rng.choice([
        [None] * n,
        rng.sample(range(n), n),
        [rng.choice([1, 2, 3, None]) for _ in range(n)],
    ])  # fmt: skip
    return [item | {"rank": rank} for item, rank in zip(items, ranks, strict=True)]


def a_trace(rng: random.Random, number: int) -> dict[str, Any]:
    is_evaluation = rng.random() < 0.25
    trace: dict[str, Any] = {
        "trace_id": f"t{number}",
        "session_id": f"s{rng.randrange(60)}" if rng.random() < 0.9 else rng.choice([None, "", " "]),
        "ts": some_time(rng),
        "retrieved": a_list(rng, 15),
        "candidates": rng.choice([None, [], a_list(rng, 30), a_list(rng, 30)]),
        "query": rng.choice([None, *QUERIES]),
        "query_id": rng.choice([*QUERY_IDS, "nowhere"] if is_evaluation else [*QUERY_IDS, *[None, ""] * 6]),
        "eval_run_id": rng.choice(["e0", "e1", "e2", "e3", "undeclared"]) if is_evaluation else None,
        "index_version": rng.choice([None, "v1", "v2"]),
        "intent": rng.choice([None, None, "i1", "i2"]),
        "experiment_bucket": rng.choice([None, "A", "B"]),
        "sample_rate": rng.choice(RATES) if rng.random() < 0.5 else None,
    }
    if rng.random() < 0.06:
        trace |= {"retrieved": None, "candidates": None, "error": rng.choice(["timeout", None])}
    if rng.random() < 0.02:
        trace["sample_rate"] = rng.choice([0, 1.5])
    if rng.random() < 0.25:
        trace["ingested_at"] = (trace["ts"] + timedelta(minutes=rng.choice([-61, -60, -59, 5]))).isoformat()
    return trace


def delivered_again(rng: random.Random, trace: dict[str, Any]) -> dict[str, Any]:
    if rng.random() < 0.5:
        return trace
    later = (trace["ts"] + rng.randrange(30, 90) * HOUR).isoformat()
    return trace | {"retrieved": a_list(rng, 8), "ingested_at": later}


def some_feedback(rng: random.Random, trace: dict[str, Any]) -> list[dict[str, Any]]:
    shown = [item["chunk_id"] for item in trace["retrieved"] or [] if (item["chunk_id"] or "").strip()]
    return [an_event(rng, trace, shown * 3 + CHUNKS) for _ in range(rng.choice([0, 0, 1, 1, 2, 3, 5]))]


def an_event(rng: random.Random, trace: dict[str, Any], chunks: list[str]) -> dict[str, Any]:
    longest = 6 * 86_400 if rng.random() < 0.2 else 7_200
    event: dict[str, Any] = {
        "ts": trace["ts"] + timedelta(seconds=rng.randrange(-3_600, longest)),
        "rater_id": rng.choice(["r1", "r2", "r3", None, ""]),
        "signal": rng.choice([None, *SIGNALS]),
        "answer_correct": rng.choice([None, None, True, False]),
        "weight": rng.choice([None, None, 0, 0.5, 2, -1, 1.5]),
        "dwell_ms": rng.choice([None, 100, 29_999.9, 30_000, 60_000]),
        "implicit": rng.choice([None, None, None, True, False]),
    }
    if rng.random() < 0.5:
        event["trace_id"] = trace["trace_id"] if rng.random() < 0.9 else rng.choice(["nowhere", "", " "])
    else:
        event["session_id"] = trace["session_id"] or trace["trace_id"]
    if rng.random() < 0.75:
        event["chunk_ids"] = rng.choices(chunks, k=rng.choice([0, 1, 1, 2, 3, 6]))
    if rng.random() < 0.03:
        event["chunk_ids"] = rng.choice([rng.choice(chunks), ["d1#1", ""]])
    if rng.random() < 0.3:
        event["grade"] = rng.choice([0, 0, 1, 1, 2, 3, 11])
    if rng.random() < 0.8:
        event["rating_scale"] = rng.choice(list(RATINGS))
        event["rating"] = rng.choice(RATINGS[event["rating_scale"]])
    if rng.random() < 0.2:
        event["label_class"] = rng.choice(["golden", "audit", "explicit", "implicit", "judge", "synthetic", "pooled"])
    return event


def some_qrels(rng: random.Random, *, by_document: bool) -> list[dict[str, Any]]:
    rows = []
    for number in range(50):
        row: dict[str, Any] = {
            "query_id": rng.choice([*QUERY_IDS, "nowhere"]),
            "grade": rng.choice([0, 0, 1, 1, 2, 3, 3]),
            "label_class": rng.choice([None, "golden", "golden", "synthetic", "audit", "judge"]),
            "labeller": rng.choice([None, None, "l1", "l2"]),
            # no two at one time; none after as_of, where an unanswered question is not judged yet
            "labelled_at": (AS_OF - rng.randrange(1, 240) * HOUR - timedelta(microseconds=number)).isoformat(),
        }
        named = rng.choice([("chunk_id",), ("doc_id",), ("chunk_id", "doc_id")]) if by_document else ("chunk_id",)
        row |= {name: rng.choice(CHUNKS if name == "chunk_id" else ["d0", "d1", "d2"]) for name in named}
        rows.append(row)
    # a negative grade, of one labeller only
    rows += [{"query_id": query_id, "chunk_id": "never#1", "grade": -1} for query_id in QUERY_IDS[:4]]
    return rows


def a_query(rng: random.Random, query_id: str) -> dict[str, Any]:
    return {
        "query_id": query_id,
        "query": rng.choice(QUERIES[:7]),
        "query_set": rng.choice(["gold", "other"]),
        "intent": rng.choice([None, "i1", "fancy"]),
        "added_at": rng.choice([None, None, some_time(rng).isoformat()]),
    }


def a_run(rng: random.Random, run_id: str) -> dict[str, Any]:
    return {
        "eval_run_id": run_id,
        "started_at": some_time(rng).isoformat(),
        "query_set": rng.choice(["gold", "gold", "other"]),
        "kind": rng.choice([None, "scheduled", "adhoc"]),
        "index_version": rng.choice([None, "v1", "v2"]),
    }
