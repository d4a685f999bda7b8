"""The conformance cases of metrics and labels, landed as traces, judgments and feedback, read from the tables.

Expected values are worked by hand beside each case; the discount of rank r is 1 / log2(r + 1):
1, .6309, .5, .4307, .3869, .3562, .3333, .3155, .3010, .2891.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from support import Warehouse

DAY = "2026-11-30"  # a Monday
VARS: dict[str, object] = {
    "as_of": "2026-12-08T06:00:00Z",
    "cutoffs": {"final": [1, 2, 3, 5, 6, 10], "retriever": [10, 100]},
    "max_quarantined_share": 1.0,
}
THREE_GRADES = {"a": 3, "b": 2, "c": 3, "d": 0, "e": 1, "f": 2, "g": 3, "h": 2}


@dataclass(frozen=True)
class Case:
    """A trace with the judgments of its query, and its scores at k."""

    id: str
    retrieved: list[Any]
    judged: Mapping[str, int]
    k: int
    expected: Mapping[str, float | None]
    trace: Mapping[str, object] = field(default_factory=dict)


def ids(chunks: Iterable[str]) -> list[dict[str, object]]:
    return [{"chunk_id": chunk} for chunk in chunks]


def relevant(chunks: Iterable[str], grade: int = 1) -> dict[str, int]:
    return dict.fromkeys(chunks, grade)


def numbered(prefix: str, ranks: Iterable[int]) -> list[str]:
    return [f"{prefix}{rank}" for rank in ranks]


def shuffled(seed: int) -> tuple[list[dict[str, object]], dict[str, int]]:
    """The list and the judgments of T09 in any order: the recorded rank orders the list."""
    rng = random.Random(seed)
    chunks = [{"chunk_id": chunk, "rank": rank, "score": 0.5} for rank, chunk in enumerate("abcdef")]
    return rng.sample(chunks, len(chunks)), dict(rng.sample(list(THREE_GRADES.items()), len(THREE_GRADES)))


CASES = [
    # the second A is dropped: list [A, X]; P@3 = 1/3, everything relevant found at rank 1
    Case("T01", ids("AAX"), relevant("A"), 3,
         {"recall": 1, "ndcg": 1, "average_precision": 1, "precision": 1 / 3}),
    # list [A] of {A, B}: DCG 1, ideal 1 + .6309; AP = (1/1) / 2
    Case("T02", ids("AA"), relevant("AB"), 2,
         {"recall": 0.5, "average_precision": 0.5, "ndcg": 0.6131}),
    Case("T03a", ids("ccc"), relevant("ab"), 3, {"ndcg": 0}),
    # an id that another one begins with is another id
    Case("T03b", ids("aaz"), {"a_bc574ae_2": 1}, 3, {"ndcg": 0}),
    # complete class: nothing to find, so what divides by it is undefined; precision does not
    Case("T04", ids("ab"), {"a": 0, "b": 0}, 2,
         {"recall": None, "average_precision": None, "ndcg": None, "ndcg_exp": None, "reciprocal_rank": None,
          "hit_rate": None, "precision": 0, "precision_low": 0, "precision_high": 0, "judged": 1}),
    Case("T05", [], relevant("a"), 5,
         {"recall": 0, "reciprocal_rank": 0, "hit_rate": 0, "precision": 0, "ndcg": 0, "average_precision": 0,
          "precision_returned": None, "judged": None}),
    # DCG 1; ideal of five 1 + .6309 + .5 + .4307 + .3869 = 2.9485
    Case("T07", ids("1"), relevant("12345"), 5,
         {"ndcg": 0.3392, "precision": 0.2, "precision_returned": 1, "recall": 0.2}),
    # gain 2^3 - 1 = 7 on both sides: 1 / 2.9485
    Case("T08 one at rank 1", ids("1"), relevant("12345", 3), 10, {"ndcg_exp": 0.3392}),
    # .3562 + .3333 + .3155 + .3010 + .2891 = 1.5952; / 2.9485
    Case("T08 five at ranks 6 to 10", ids("uvwxy12345"), relevant("12345", 3), 10, {"ndcg_exp": 0.5410}),
    Case("T08 one of two", ids("1"), relevant("12"), 10, {"ndcg_exp": 0.6131, "ndcg": 0.6131}),
    # DCG 3 + 1.2619 + 1.5 + 0 + .3869 + .7124 = 6.8611; ideal of 3 3 3 2 2 2 = 8.7403
    Case("T09", ids("abcdef"), THREE_GRADES, 6, {"ndcg": 0.7850, "ndcg_exp": 0.7511}),
    # 1/1 over both relevant, found or not
    Case("T10", ids("ax"), relevant("ab"), 2, {"average_precision": 0.5}),
    # (1/1 + 2/2 + 3/3 + 4/4 + 5/7) / 5
    Case("T11 five", ids("abcdxyezuv"), relevant("abcde"), 10, {"average_precision": 0.9429, "reciprocal_rank": 1}),
    Case("T11 second of two", ids("xa"), relevant("a"), 2, {"average_precision": 0.5, "context_precision": 0.5}),
    Case("T12", ids("abc"), relevant("abc"), 3, {"average_precision": 1, "context_precision": 1, "ndcg": 1}),
    # five hits of twelve: 5 / 12
    Case("T13", ids("abcde"), relevant("abcdefghijkl"), 5, {"average_precision": 0.4167, "context_precision": 1}),
    Case("T14 first counts", ids("axb"), relevant("ab"), 3, {"reciprocal_rank": 1}),
    Case("T14 cut", ids(numbered("c", range(1, 16))), relevant(["c15"]), 10, {"reciprocal_rank": 0, "hit_rate": 0}),
    Case("T14 whole list", ids(numbered("c", range(1, 16))), relevant(["c15"]), 0, {"reciprocal_rank": 1 / 15}),
    Case("T14b second of three", ids("xay"), relevant("a"), 3, {"ndcg": 0.6309, "reciprocal_rank": 0.5}),
    Case("T14b rank base 0", [{"chunk_id": chunk, "rank": rank} for rank, chunk in enumerate("axy")], relevant("a"), 3,
         {"reciprocal_rank": 1, "ndcg": 1}),
    # tied scores: the place decides, whatever the ids
    Case("T15", [{"chunk_id": c, "score": 1.0} for c in ("d1", "d2", "d3")], relevant(["d3"]), 3,
         {"average_precision": 1 / 3, "reciprocal_rank": 1 / 3, "ndcg": 0.5}),
    Case("T15 renamed", [{"chunk_id": c, "score": 1.0} for c in ("z", "y", "a")], relevant("a"), 3,
         {"average_precision": 1 / 3, "reciprocal_rank": 1 / 3, "ndcg": 0.5}),
    # AP@6: hits at 1, 2, 3, 5, 6 of 7 relevant: (1 + 1 + 1 + 4/5 + 5/6) / 7 = .6619
    *(Case(f"T16 shuffle {seed}", *shuffled(seed), 6,
           {"ndcg": 0.7850, "ndcg_exp": 0.7511, "average_precision": 0.6619}) for seed in range(4)),
    # no judged non-relevant chunk can be ranked above a relevant one
    Case("T17 none non-relevant", ids(["d12", "d23", "d25"]), {"d12": 5, "d25": 3}, 0, {"bpref": 1}),
    # min(R, N) = 1: r1 has none above it (1), r2 has n1 (0); u is unjudged and counts nothing
    Case("T17 one between", ids(["u", "r1", "n1", "r2"]), {"r1": 1, "r2": 1, "n1": 0}, 0, {"bpref": 0.5}),
    Case("T18", ids("abx"), relevant("ab"), 5, {"precision": 0.4, "precision_returned": 2 / 3}),
    # 1 relevant, 1 unjudged, 1 not: 1/3, 2/3, 1/2, 2/3
    Case("T19", ids("aux"), {"a": 1, "x": 0}, 3,
         {"precision_low": 1 / 3, "precision": 1 / 3, "precision_high": 2 / 3, "precision_condensed": 0.5,
          "judged": 2 / 3}),
    # R = 2: one of the first two
    Case("R-precision", ids("axb"), relevant("ab"), 0, {"r_precision": 0.5, "recall": 1}),
    # a negative grade gains nothing and is not relevant
    Case("negative grade", ids("na"), {"n": -1, "a": 1}, 2, {"ndcg": 0.6309, "ndcg_exp": 0.6309, "precision": 0.5}),
]  # fmt: skip


# --- label rules -----------------------------------------------------------------------------

UP = {"rating": 1}
DOWN = {"rating": 0}


@dataclass(frozen=True)
class Rule:
    """Feedback on one trace (chunks a, b, c unless told otherwise) and the labels it makes."""

    id: str
    feedback: list[dict[str, object]]
    labels: Mapping[tuple[str, str], int]
    chunks: str = "abc"


def on(chunks: str | None, minute: int = 1, **values: object) -> dict[str, object]:
    """Feedback on chunks (None: on the answer) so many minutes after the trace."""
    row = {"ts": f"{DAY}T12:{minute:02}:00Z"} | values
    return row if chunks is None else row | {"chunk_ids": list(chunks)}


RULES = [
    Rule("up, answer correct", [on("a", **UP, answer_correct=True)], {("explicit", "a"): 1}),
    Rule("up, answer wrong", [on("a", **UP, answer_correct=False)], {}),
    Rule("up, answer unknown", [on("a", **UP)], {("explicit", "a"): 1}),
    Rule("down", [on("ab", **DOWN)], {("explicit", "a"): 0, ("explicit", "b"): 0}),
    Rule("down, answer correct", [on("a", **DOWN, answer_correct=True)], {("explicit", "a"): 0}),
    Rule("unknown rating", [on("a", rating="meh"), on("b")], {}),
    Rule("neutral rating", [on("a", rating=3, rating_scale="stars")], {}),
    Rule("grade before rating", [on("a", grade=2, rating=0)], {("explicit", "a"): 2}),
    Rule("on the answer", [on(None, **DOWN)], {("explicit", chunk): 0 for chunk in "abc"}),
    Rule("on no chunk", [on("", **DOWN)], {}),
    Rule("a chunk named twice", [on("aa", **UP)], {("explicit", "a"): 1}),
    Rule("raters tie", [on("a", **UP, rater_id="r1"), on("a", **DOWN, rater_id="r2")], {}),
    Rule("majority", [on("a", **UP, rater_id="r1"), on("a", **DOWN, rater_id="r2"), on("a", **DOWN, rater_id="r3")],
         {("explicit", "a"): 0}),
    # of those in the majority the mean grade, down to the next whole: (3 + 2) // 2
    Rule("graded majority",
         [on("a", grade=3, rater_id="r1"), on("a", grade=2, rater_id="r2"), on("a", grade=0, rater_id="r3")],
         {("explicit", "a"): 2}),
    Rule("latest of a rater", [on("a", 2, **UP, rater_id="r1"), on("a", 1, **DOWN, rater_id="r1")],
         {("explicit", "a"): 1}),
    # r1 changed its mind: one for, one against
    Rule("latest of a rater, then a tie",
         [on("a", 1, **UP, rater_id="r1"), on("a", 2, **DOWN, rater_id="r1"), on("a", 1, **UP, rater_id="r2")], {}),
    Rule("copy", [on("a", signal="copy")], {("implicit", "a"): 1}),
    # +1 - 1
    Rule("implicit zero", [on("a", signal="copy"), on("a", signal="reformulation")], {}),
    # +1 + .5 - 1
    Rule("implicit sum above zero",
         [on("a", signal="copy"), on("a", signal="dwell", dwell_ms=30000), on("a", signal="reformulation")],
         {("implicit", "a"): 1}),
    # +.5 - 1
    Rule("implicit sum below zero", [on("a", signal="dwell", dwell_ms=60000), on("a", signal="reformulation")],
         {("implicit", "a"): 0}),
    # nothing - 1; and alone: nothing
    Rule("dwell below the threshold", [on("a", signal="dwell", dwell_ms=29999), on("a", signal="reformulation"),
                                       on("b", signal="dwell", dwell_ms=29999)], {("implicit", "a"): 0}),
    # .25 x +1 - 1
    Rule("weight", [on("a", signal="copy", weight=0.25), on("a", signal="reformulation")], {("implicit", "a"): 0}),
    # the same rater's signal counts once: +1 - 1
    Rule("a signal repeated", [on("a", 1, signal="reformulation"), on("a", 2, signal="reformulation"),
                               on("a", signal="copy")], {}),
    # two raters' do both: +1 - 2
    Rule("a signal of two raters", [on("a", signal="reformulation", rater_id="r1"),
                                    on("a", signal="reformulation", rater_id="r2"), on("a", signal="copy")],
         {("implicit", "a"): 0}),
    Rule("implicit without a signal", [on("a", **UP, implicit=True), on("b", **DOWN, implicit=True)],
         {("implicit", "a"): 1, ("implicit", "b"): 0}),
    Rule("classes by signal", [on("a", **UP, signal="audit"), on("a", **DOWN, signal="judge"),
                               on("b", **UP, signal="thumb")],
         {("audit", "a"): 1, ("judge", "a"): 0, ("explicit", "b"): 1}),
    Rule("class given", [on("a", grade=3, label_class="golden", signal="judge"),
                         on("b", **UP, label_class="audit", implicit=True)],
         {("golden", "a"): 3, ("audit", "b"): 1}),
    # as many against as for, but not in one class
    Rule("classes are not mixed", [on("a", **UP), on("a", **DOWN, signal="judge"), on("a", signal="reformulation")],
         {("explicit", "a"): 1, ("judge", "a"): 0, ("implicit", "a"): 0}),
    Rule("a chunk that was not shown", [on("z", **UP)], {("explicit", "z"): 1}),
    Rule("no chunk returned", [on(None, **DOWN)], {}, chunks=""),
]  # fmt: skip


# --- what lands ------------------------------------------------------------------------------


def trace(name: str, chunks: list[Any], **values: object) -> dict[str, object]:
    return {
        "trace_id": name, "session_id": f"session {name}", "ts": f"{DAY}T12:00:00Z", "query": name,
        "retrieved": chunks, "index_version": name,
    } | values  # fmt: skip


def qrels(query: str, judged: Mapping[str, int]) -> list[dict[str, object]]:
    return [{"query_id": query, "chunk_id": chunk, "grade": grade} for chunk, grade in judged.items()]


def land(warehouse: Warehouse) -> None:
    traces = [trace(case.id, case.retrieved, query_id=case.id) for case in CASES]
    judgments = [row for case in CASES for row in qrels(case.id, case.judged)]
    feedback: list[dict[str, object]] = []
    for rule in RULES:
        traces.append(trace(rule.id, ids(rule.chunks)))
        feedback += [{"trace_id": rule.id} | row for row in rule.feedback]

    # T04 where the class knows only what was retrieved
    traces.append(trace("T04 retrieved only", ids("ab")))
    feedback.append({"trace_id": "T04 retrieved only"} | on("ab", **DOWN))
    # T20: one query scores 1, of the other nothing is relevant
    traces += [trace("T20 1", ids("a"), query_id="T20 1", index_version="T20"),
               trace("T20 2", ids("a"), query_id="T20 2", index_version="T20")]  # fmt: skip
    judgments += qrels("T20 1", {"a": 1}) + qrels("T20 2", {"a": 0})
    # T21: delivered twice each
    traces += [trace("T21", ids("ab"))] * 2
    feedback += [{"session_id": "session T21"} | on("a", minute, **UP) for minute in (1, 2)]
    # T22
    traces.append(trace("T22", [{"chunk_id": None}, {"chunk_id": "a"}]))
    feedback += [{"trace_id": "T22", **on("a", **UP)}, {"trace_id": "T22", **on("a", **UP), "chunk_ids": [None]}]
    # T23: two of three shown chunks are good
    traces.append(trace("T23", ids("abc")))
    feedback += [{"trace_id": "T23"} | on("ab", **UP), {"trace_id": "T23"} | on("c", **DOWN)]
    # T26: midnight, and the day of as_of itself
    for number, moment in enumerate(("2026-11-30T23:59:59.999999Z", "2026-12-01T00:00:00Z", "2026-12-08T01:00:00Z")):
        traces.append(trace(f"T26 {number}", ids("a"), ts=moment, query_id="T26", index_version="T26"))
    judgments += qrels("T26", {"a": 1})
    land_sessions(traces, feedback)
    land_weights(traces, judgments)
    # labelled for one class, with a stage that is absent, a fault, a retriever stage that lost the chunk
    traces += [
        trace("stages", ids("xy"), query_id="stages", candidates=ids("xya")),
        trace("fault", [], retrieved=None, error="timeout"),
    ]
    judgments += qrels("stages", {"a": 1})
    # judged by its query, and otherwise by an expert who saw this very trace
    traces.append(trace("overruled", ids("ab"), query_id="overruled"))
    judgments += qrels("overruled", {"a": 2, "b": 1})
    feedback.append({"trace_id": "overruled"} | on("a", grade=0, label_class="golden"))

    warehouse.land("retrieval_traces", traces)
    warehouse.land("qrels", judgments)
    warehouse.land("feedback", feedback)
    land_eval_run(warehouse)


def land_sessions(traces: list[dict[str, object]], feedback: list[dict[str, object]]) -> None:
    """A session of two traces, and one of one: who gets the label."""
    for name, minute, chunks in (("first", 0, "ab"), ("second", 10, "ac"), ("third", 50, "ad")):
        traces.append(trace(name, ids(chunks), session_id="talk", ts=f"{DAY}T12:{minute:02}:00Z"))
    feedback += [
        {"feedback_id": "by trace", "trace_id": "first", "session_id": "talk"} | on("a", 20, **DOWN),
        {"feedback_id": "by chunk, latest before", "session_id": "talk"} | on("a", 20, **UP),
        {"feedback_id": "by chunk, only one showed it", "session_id": "talk"} | on("b", 20, **UP),
        {"feedback_id": "answer, latest before", "session_id": "talk"} | on(None, 30, **DOWN, rater_id="r9"),
        {"feedback_id": "shown only later", "session_id": "talk"} | on("d", 20, **UP),
        {"feedback_id": "never shown", "session_id": "talk"} | on("z", 20, **UP),
        {"feedback_id": "no such session", "session_id": "nobody"} | on("a", **UP),
        {"feedback_id": "no such trace", "trace_id": "nothing", "session_id": "talk"} | on("a", 20, **UP),
        {"feedback_id": "too late", "session_id": "session T18"} | on("a", **UP, ts="2027-03-01T00:00:00Z"),
        {"feedback_id": "before the only trace", "session_id": "session T19"} | on("a", **UP, ts=f"{DAY}T11:59:00Z"),
    ]


ROUTES = {
    "by trace": ("first", "attached"),
    "by chunk, latest before": ("second", "attached"),
    "by chunk, only one showed it": ("first", "attached"),
    "answer, latest before": ("second", "attached"),
    "shown only later": (None, "chunk_not_shown"),
    "never shown": (None, "chunk_not_shown"),
    "no such session": (None, "orphan"),
    "no such trace": (None, "orphan"),
    "too late": ("T18", "too_late"),
    "before the only trace": ("T19", "attached"),
}


def land_weights(traces: list[dict[str, object]], judgments: list[dict[str, object]]) -> None:
    for number, (rate, chunk) in enumerate(((1.0, "a"), (0.5, "x"), (0.1, "a"))):
        traces.append(trace(f"w{number}", ids(chunk), query_id="w", sample_rate=rate, index_version="sampled"))
    judgments += qrels("w", {"a": 1})
    # one session, three traces, scores 1, 0, 0; another session, score 1
    for number, chunk in enumerate("axx"):
        traces.append(trace(f"u{number}", ids(chunk), query_id="w", session_id="long", index_version="units"))
    traces.append(trace("u3", ids("a"), query_id="w", index_version="units"))
    # one session over two index versions
    for number, chunk in enumerate("ax"):
        mixed = {"index_version": f"mixed {number}", "experiment_bucket": "mixed"}
        traces.append(trace(f"m{number}", ids(chunk), query_id="w", session_id="mixed") | mixed)


def land_eval_run(warehouse: Warehouse) -> None:
    """T06: q1 is answered perfectly, q2 never."""
    warehouse.land("queries", [{"query_id": q, "query": q, "query_set": "T06"} for q in ("T06 q1", "T06 q2")])
    warehouse.land("qrels", qrels("T06 q1", {"a": 1}) + qrels("T06 q2", {"b": 1}), "T06.jsonl")
    run = {"eval_run_id": "T06", "started_at": f"{DAY}T01:00:00Z", "query_set": "T06", "index_version": "T06"}
    warehouse.land("eval_runs", [run])
    answered = trace("T06 q1", ids("a"), query_id="T06 q1", eval_run_id="T06", index_version="T06")
    warehouse.land("retrieval_traces", [answered], "T06.jsonl")


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    warehouse = Warehouse(tmp_path_factory.mktemp("cases"))
    land(warehouse)
    warehouse.build(VARS)
    return warehouse


def scores(
    warehouse: Warehouse, name: str, k: int, columns: Iterable[str], label_class: str = "golden", stage: str = "final"
) -> dict[str, Any]:
    names = list(columns)
    (row,) = warehouse.query(
        f"select {', '.join(names)} from fct_query_scores "
        "where trace_id = ? and label_class = ? and k = ? and stage = ?",
        name, label_class, k, stage,
    )  # fmt: skip
    return dict(zip(names, row, strict=True))


def week(
    warehouse: Warehouse, segment: str, metric: str, k: int, columns: str, label_class: str = "golden",
    traffic: str = "production",
) -> tuple[Any, ...]:  # fmt: skip
    (row,) = warehouse.query(
        f"""
        select {columns} from mart_retrieval_quality
        where window_name = 'week' and window_start_at = '{DAY}' and segment_dimension = 'index_version'
            and stage = 'final' and segment_value = ? and metric = ? and k = ? and label_class = ? and traffic = ?
        """,
        segment, metric, k, label_class, traffic,
    )  # fmt: skip
    return row


# --- metrics ---------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_metrics(cases: Warehouse, case: Case) -> None:
    assert scores(cases, case.id, case.k, case.expected) == pytest.approx(dict(case.expected), abs=5e-5)


def test_t01_counts_the_duplicate(cases: Warehouse) -> None:
    assert cases.query("select n_duplicates from fct_retrievals where trace_id = 'T01'") == [(1,)]


def test_t04_is_counted(cases: Warehouse) -> None:
    columns = "n_traces, n_scored, n_no_relevant, n_undefined"
    assert week(cases, "T04", "recall", 5, columns) == (1, 0, 1, 0)


def test_t04_in_a_class_that_knows_only_what_was_retrieved(cases: Warehouse) -> None:
    found = scores(
        cases, "T04 retrieved only", 2,
        ["hit_rate", "reciprocal_rank", "precision", "recall", "average_precision", "ndcg", "completeness"], "explicit",
    )  # fmt: skip
    assert found == {
        "hit_rate": 0, "reciprocal_rank": 0, "precision": 0, "recall": None, "average_precision": None, "ndcg": None,
        "completeness": "retrieved_only",
    }  # fmt: skip


def test_t05_is_counted(cases: Warehouse) -> None:
    assert week(cases, "T05", "recall", 5, "n_scored, n_no_results, estimate") == (1, 1, 0)


def test_t06_the_complete_set_and_the_answered_set(cases: Warehouse) -> None:
    found = week(cases, "T06", "recall", 5, "estimate, n_scored, n_missing", traffic="scheduled_eval")
    assert found == (0.5, 2, 1)
    answered = cases.query(
        "select avg(recall) from fct_query_scores inner join fct_retrievals using (trace_id, traced_on) "
        "where index_version = 'T06' and k = 5 and stage = 'final' and not is_missing"
    )
    assert answered == [(1.0,)]


def test_t12_is_exactly_one(cases: Warehouse) -> None:
    found = scores(cases, "T12", 3, ["average_precision", "ndcg", "ndcg_exp", "context_precision"])
    assert set(found.values()) == {1.0}


def test_t16_every_metric_of_every_shuffle_is_the_same(cases: Warehouse) -> None:
    metrics = [str(metric) for (metric,) in cases.query("select metric from dim_metrics")]
    rows = cases.query(
        f"select distinct k, {', '.join(metrics)} from fct_query_scores "
        "where starts_with(trace_id, 'T16') or trace_id = 'T09'"
    )
    assert len(rows) == len({row[0] for row in rows})


def test_t20_the_mean_says_what_it_left_out(cases: Warehouse) -> None:
    columns = "estimate, n_scored, n_traces, n_no_relevant, estimate_low, estimate_high"
    # what has no score counted as 0: (1 + 0) / 2; as 1: (1 + 1) / 2
    assert week(cases, "T20", "recall", 5, columns) == (1.0, 1, 2, 1, 0.5, 1.0)


def test_t21_one_label_one_session(cases: Warehouse) -> None:
    assert labels(cases, "T21") == {("explicit", "a"): 1}
    assert cases.query("select n_raters from int_relevance_labels where trace_id = 'T21'") == [(1,)]
    assert week(cases, "T21", "hit_rate", 5, "n_traces, n_units", "explicit") == (1, 1)


def test_t22_a_blank_chunk_matches_nothing_and_keeps_its_place(cases: Warehouse) -> None:
    assert labels(cases, "T22") == {("explicit", "a"): 1}
    found = scores(cases, "T22", 3, ["reciprocal_rank", "n_returned", "n_hits", "recall"], "explicit")
    assert found == {"reciprocal_rank": 0.5, "n_returned": 2, "n_hits": 1, "recall": 1}
    reasons = cases.query("select reject_reason from stg_quarantine where raw_text like '%\"T22\"%'")
    assert reasons == [("blank_chunk_id",)]


def test_t23_recall_of_what_was_retrieved_is_not_identifiable(cases: Warehouse) -> None:
    columns = "estimate, completeness, is_identifiable"
    assert week(cases, "T23", "recall", 5, columns, "explicit") == (1.0, "retrieved_only", False)
    # all three were judged, so what needs only those is
    assert week(cases, "T23", "hit_rate", 5, columns, "explicit") == (1.0, "retrieved_only", True)
    assert cases.query(
        "select count(*) from mart_retrieval_quality inner join dim_metrics using (metric) "
        "where is_identifiable and needs = 'complete' and completeness <> 'complete'"
    ) == [(0,)]


def test_t26_a_day_begins_at_midnight_and_today_is_not_judged(cases: Warehouse) -> None:
    rows = cases.query(
        """
        select window_name, window_start_at::varchar, n_traces from mart_retrieval_quality
        where segment_value = 'T26' and metric = 'recall' and k = 5 and label_class = 'golden' and stage = 'final'
            and n_traces > 0
        order by all
        """
    )
    assert rows == [
        ("day", "2026-11-30 00:00:00", 1),
        ("day", "2026-12-01 00:00:00", 1),
        # the 24 full hours before 06:00 of the day of as_of
        ("rolling_24h", "2026-12-07 06:00:00", 1),
        ("trailing_28d", "2026-11-10 00:00:00", 2),
        ("week", "2026-11-30 00:00:00", 2),
    ]


def test_a_stage_that_was_not_logged_is_absent_not_zero(cases: Warehouse) -> None:
    # the reranker dropped the only relevant chunk: 1 of 3 before it, 0 after
    assert scores(cases, "stages", 10, ["recall", "reciprocal_rank"], stage="retriever") == {
        "recall": 1, "reciprocal_rank": pytest.approx(1 / 3),
    }  # fmt: skip
    assert scores(cases, "stages", 10, ["recall"])["recall"] == 0
    rows = cases.query(
        "select sum(n_stage_absent), sum(n_traces) from int_score_denominators where segment_value = 'T09' "
        "and stage = 'retriever' and metric = 'recall' and k = 10 and label_class = 'golden'"
    )
    assert rows == [(1, 1)]
    assert cases.query("select * from fct_query_scores where trace_id = 'T09' and stage = 'retriever'") == []


# --- labels ----------------------------------------------------------------------------------


def labels(warehouse: Warehouse, name: str) -> dict[tuple[str, str], int]:
    rows = warehouse.query(
        "select label_class, evidence_id, grade from int_relevance_labels where trace_id = ? order by all", name
    )
    found = {(str(label_class), str(chunk)): int(str(grade)) for label_class, chunk, grade in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_labels(cases: Warehouse, rule: Rule) -> None:
    assert labels(cases, rule.id) == rule.labels


def test_only_feedback_on_the_answer_is_answer_level(cases: Warehouse) -> None:
    rows = cases.query(
        "select trace_id, bool_and(is_answer_level) from int_relevance_labels "
        "where trace_id in ('on the answer', 'down') group by trace_id order by trace_id"
    )
    assert rows == [("down", False), ("on the answer", True)]


@pytest.mark.parametrize("feedback_id", ROUTES)
def test_routing(cases: Warehouse, feedback_id: str) -> None:
    rows = cases.query("select trace_id, attachment from int_feedback_traces where feedback_id = ?", feedback_id)
    assert rows == [ROUTES[feedback_id]]


def test_a_session_of_several_traces_labels_each_its_own(cases: Warehouse) -> None:
    assert labels(cases, "first") == {("explicit", "a"): 0, ("explicit", "b"): 1}
    # one for, one against
    assert labels(cases, "second") == {("explicit", "c"): 0}
    assert labels(cases, "third") == {}


def test_what_is_said_of_the_trace_goes_before_what_is_held_of_its_query(cases: Warehouse) -> None:
    assert labels(cases, "overruled") == {("golden", "a"): 0, ("golden", "b"): 1}


# --- grains ----------------------------------------------------------------------------------

SEGMENT = ["traffic", "segment_dimension", "segment_value", "stage", "label_class", "metric", "k"]
GRAINS = {
    "stg_retrieval_traces": ["trace_id"],
    "stg_feedback": ["feedback_id"],
    "stg_quarantine": ["file_id", "line_number"],
    "stg_landing_files": ["file_id"],
    "stg_landing_accounting": ["file_id"],
    "int_day_versions": ["load_id", "contract", "traced_on"],
    "int_traces": ["trace_id"],
    "int_feedback_traces": ["feedback_id", "chunk_id"],
    "int_feedback_chunks": ["feedback_id", "chunk_id"],
    "int_relevance_labels": ["trace_id", "label_class", "evidence_id"],
    "int_relevant_sets": ["trace_id", "label_class"],
    "int_ranked_chunks": ["trace_id", "stage", "rank"],
    "int_judged_chunks": ["trace_id", "stage", "label_class", "rank"],
    "fct_retrievals": ["trace_id"],
    "fct_query_scores": ["trace_id", "stage", "label_class", "k"],
    "int_score_histograms": ["traced_on", *SEGMENT, "value"],
    "int_score_denominators": ["traced_on", *SEGMENT],
    "int_trusted_days": ["traced_on", "traffic", "trusted_class"],
    "int_listed_units": ["traced_on", *SEGMENT[:4]],
    "int_shown_lists": ["traced_on", *SEGMENT[:3], "intent", "n_returned"],
    "int_judged_places": ["traced_on", *SEGMENT[:3], "k", "intent", "rank", "value"],
    "int_score_histograms_hourly": ["bucket_at", *SEGMENT, "value"],
    "int_score_denominators_hourly": ["bucket_at", *SEGMENT],
    "int_windows": ["window_name", "window_start_at"],
    "mart_retrieval_quality": ["window_name", "window_start_at", *SEGMENT],
    "mart_segment_weekly": ["week_start_on", *SEGMENT],
    "mart_corrected_estimates": [
        "window_name", "window_start_at", *SEGMENT[:4], "method", "trusted_class", "cheap_class", "metric", "k",
    ],
    "dim_metrics": ["metric"],
    "dim_label_classes": ["label_class"],
    "dim_versions": [
        "traffic", "index_version", "embedding_model", "chunker_version", "reranker_version", "prompt_version",
    ],
}  # fmt: skip


@pytest.mark.parametrize("table", GRAINS)
def test_grain(cases: Warehouse, table: str) -> None:
    key = ", ".join(GRAINS[table])
    assert cases.query(f"select count(*) > 0 from {table}") == [(True,)]
    assert cases.query(f"select {key}, count(*) from {table} group by {key} having count(*) > 1") == []


# --- denominators ----------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["int_score_denominators", "int_score_denominators_hourly", "mart_retrieval_quality"])
def test_denominators_add_up(cases: Warehouse, table: str) -> None:
    rows = cases.query(
        f"select * from {table} where n_traces <> "
        "n_scored + n_unlabelled + n_no_relevant + n_undefined + n_stage_absent + n_fault"
    )
    assert rows == []


def test_every_denominator_occurs(cases: Warehouse) -> None:
    names = ("n_scored", "n_unlabelled", "n_no_relevant", "n_undefined", "n_stage_absent", "n_fault", "n_missing")
    (sums,) = cases.query(f"select {', '.join(f'sum({name})' for name in names)} from int_score_denominators")
    assert all(sums), dict(zip(names, sums, strict=True))


def test_histograms_hold_every_unit(cases: Warehouse) -> None:
    key = "traced_on, traffic, segment_dimension, segment_value, stage, label_class, metric, k"
    rows = cases.query(
        f"""
        select {key}, denominators.weight_sum, histograms.weight
        from int_score_denominators as denominators
        full join (select {key}, sum(weight) as weight from int_score_histograms group by all) as histograms
            using ({key})
        where coalesce(denominators.weight_sum, -1) <> coalesce(histograms.weight, 0)
        """
    )
    assert rows == []


def test_unlabelled_traces_counted_anew(cases: Warehouse) -> None:
    """n_unlabelled of every row, counted from the traces that no label of the class speaks of."""
    rows = cases.query(
        """
        with listed as (
            select *, 'final' as stage from fct_retrievals where not is_fault and n_returned is not null
            union all
            select *, 'retriever' as stage from fct_retrievals where not is_fault and n_candidates is not null
        ),
        unlabelled as (
            select
                listed.traced_on, listed.traffic, listed.index_version, listed.stage, classes.label_class, count(*) as n
            from listed
            cross join dim_label_classes as classes
            anti join int_relevance_labels as labels
                on listed.trace_id = labels.trace_id and classes.label_class = labels.label_class
            group by all
        )
        select denominators.* from int_score_denominators as denominators
        left join unlabelled
            on denominators.traced_on = unlabelled.traced_on and denominators.traffic = unlabelled.traffic
            and denominators.segment_value = unlabelled.index_version and denominators.stage = unlabelled.stage
            and denominators.label_class = unlabelled.label_class
        where denominators.segment_dimension = 'index_version'
            and denominators.n_unlabelled <> coalesce(unlabelled.n, 0)
        """
    )
    assert rows == []


def test_sample_rates_weigh(cases: Warehouse) -> None:
    # scores 1, 0, 1 with weights 1, 2, 10: 11/13; n_eff = 13^2 / (1 + 4 + 100)
    estimate, n_eff, n_units = week(cases, "sampled", "hit_rate", 5, "estimate, n_eff, n_units")
    assert (estimate, n_eff, n_units) == (pytest.approx(11 / 13, abs=1e-12), pytest.approx(169 / 105), 3)
    stored = cases.query(
        "select distinct weight_sum, weight_square_sum from int_score_denominators where segment_value = 'sampled' "
        "and metric = 'hit_rate' and k = 5 and label_class = 'golden' and stage = 'final'"
    )
    assert stored == [(13_000_000, 105_000_000_000_000)]


def test_a_unit_is_a_session_not_a_trace(cases: Warehouse) -> None:
    # one session scores (1 + 0 + 0) / 3, the other 1: their mean is 2/3, that of the four traces 1/2
    estimate, n_units, n_scored, n_eff = week(cases, "units", "hit_rate", 5, "estimate, n_units, n_scored, n_eff")
    assert (estimate, n_units, n_scored, n_eff) == (pytest.approx(2 / 3, abs=1e-9), 2, 4, 2)


def test_a_session_over_two_segment_values_is_a_unit_in_each_and_one_in_both(cases: Warehouse) -> None:
    assert [week(cases, f"mixed {n}", "hit_rate", 5, "estimate, n_units") for n in (0, 1)] == [(1.0, 1), (0.0, 1)]
    rows = cases.query(
        f"""
        select estimate, n_units, n_scored from mart_retrieval_quality
        where window_name = 'week' and window_start_at = '{DAY}' and segment_dimension = 'experiment_bucket'
            and segment_value = 'mixed' and metric = 'hit_rate' and k = 5 and label_class = 'golden' and stage = 'final'
        """
    )
    assert rows == [(0.5, 1, 2)]


def test_estimates_lie_within_their_intervals(cases: Warehouse) -> None:
    rows = cases.query("select estimate, ci_low, ci_high, bound_low, bound_high from mart_retrieval_quality")
    scored = [row for row in rows if row[0] is not None]
    assert scored
    assert all(not math.isnan(float(str(value))) for row in scored for value in row)
    assert all(low <= estimate <= high for estimate, _, _, low, high in scored)  # type: ignore[operator]


# --- nights ----------------------------------------------------------------------------------

EARLY, LATE = "2026-12-04T12:00:00Z", "2026-12-08T12:00:00Z"


@pytest.fixture(scope="session")
def nights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[Any, ...]]]:
    """T27 in a project where an upvote alone says nothing: the day of the trace as each night saw it."""
    warehouse = Warehouse(tmp_path_factory.mktemp("nights"))
    warehouse.land("retrieval_traces", [trace(name, ids("ab")) for name in ("told at once", "told late", "only liked")])
    warehouse.land(
        "feedback",
        [{"trace_id": "told at once"} | on("a", **DOWN), {"trace_id": "only liked"} | on("a", **UP)],
        "at-once.jsonl",
    )
    seen = {}
    for night, as_of in (("before", EARLY), ("after", LATE), ("looking back", EARLY)):
        if night == "after":
            late = on("a", **UP, answer_correct=True, ts="2026-12-06T12:00:00Z")
            warehouse.land("feedback", [{"trace_id": "told late"} | late], "late.jsonl")
        warehouse.build({"as_of": as_of, "upvote_without_correctness": "unjudged"})
        seen[night] = warehouse.query(
            f"""
            select estimate, n_scored, n_unlabelled from mart_retrieval_quality
            where window_name = 'day' and window_start_at = '{DAY}' and segment_dimension = 'total'
                and metric = 'hit_rate' and k = 5 and label_class = 'explicit' and stage = 'final'
            """
        )
    return seen


def test_t27_a_late_label_restates_its_day(nights: dict[str, list[tuple[Any, ...]]]) -> None:
    # a downvote, and an upvote that says nothing: 0 of 1
    assert nights["before"] == [(0.0, 1, 2)]
    # six days later one of two
    assert nights["after"] == [(0.5, 2, 1)]


def test_t27_the_view_as_of_then_keeps_the_old_number(nights: dict[str, list[tuple[Any, ...]]]) -> None:
    assert nights["looking back"] == nights["before"]
