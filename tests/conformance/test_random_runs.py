"""Thousands of random lists and judgments: the project's SQL beside pytrec_eval and ir_measures."""

from conformance import random_runs
from conformance.comparisons import differences
from conformance.random_runs import Batch, PeerComparisons
from conformance.scoring import Scoring
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

QUERIES = 25
GRADES = st.integers(-2, 4)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """Lists of up to 12 chunks, each graded or unjudged, and up to 6 graded chunks beside the list."""
    run = {}
    qrels = {}
    for query in (f"q{place}" for place in range(QUERIES)):
        listed = draw(st.lists(st.none() | GRADES, max_size=12))
        missed = draw(st.lists(GRADES, max_size=6))
        # no relation between the order of the list and that of the ids
        chunks = [f"c{place * 7 % 31}" for place in range(1, len(listed) + len(missed) + 1)]
        graded = {chunk: grade for chunk, grade in zip(chunks, [*listed, *missed], strict=True) if grade is not None}
        if graded:
            qrels[query] = graded
        if draw(st.integers(0, 9)):
            run[query] = chunks[: len(listed)]
    return Batch("hypothesis", run, qrels, relevant_from=draw(st.integers(1, 3)))


@settings(
    max_examples=48,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(batch=batches())
def test_any_list_scores_as_with_the_peers(batch: Batch, scoring: Scoring) -> None:
    compared = random_runs.compare(batch, scoring)

    assert differences(compared.pytrec_eval) == []
    assert differences(compared.ir_measures) == []
    assert len(compared.pytrec_eval) == 52 * len(batch.qrels)
    assert len(compared.ir_measures) == 57 * len(batch.qrels)


def test_thousands_of_long_lists_score_as_with_the_peers(compared_random_runs: PeerComparisons) -> None:
    n_queries = random_runs.N_BATCHES * random_runs.QUERIES_PER_BATCH

    assert n_queries >= 2000
    for compared, n_measures in ((compared_random_runs.pytrec_eval, 52), (compared_random_runs.ir_measures, 57)):
        assert differences(compared) == []
        assert len(compared) == n_measures * n_queries
        # neither all defined nor all undefined, else the rule on NULL would not be tested
        assert 0.1 < sum(value.is_undefined for value in compared) / len(compared) < 0.6
        assert sum(value.expected > 0 for value in compared) / len(compared) > 0.3


def test_a_negative_grade_gains_nothing_and_is_no_preference(scoring: Scoring) -> None:
    """bpref passes over a chunk of a negative grade, as trec_eval's does; `judged` counts it, as
    Judged@k of ir_measures does.
    """
    qrels = {"q": {"good": 1, "bad": -1, "zero": 0}}
    batch = Batch("negative", {"q": ["bad", "good", "zero", "unknown"]}, qrels, relevant_from=1)
    scores = scoring.score(batch.run, batch.qrels, cutoffs=[1])

    assert scores["q", "bpref", 0] == 1
    assert random_runs.pytrec_values(batch, batch.qrels, {"bpref"}) == {"q": {"bpref": 1}}
    assert scores["q", "judged", 1] == 1
    assert scores["q", "judged", 0] == 0.75
    assert scores["q", "ndcg", 0] == scores["q", "ndcg_exp", 0]


def test_a_query_without_judgments_is_not_scored(scoring: Scoring) -> None:
    scores = scoring.score({"judged": ["a", "b"], "unjudged": ["a", "b"]}, {"judged": {"b": 1}}, cutoffs=[2])

    assert {query for query, _, _ in scores} == {"judged"}
    assert scores["judged", "reciprocal_rank", 2] == 0.5


def test_nothing_relevant_is_null_only_where_labels_are_complete(scoring: Scoring) -> None:
    run, qrels = {"q": ["a", "b"]}, {"q": {"a": 0, "z": 0}}
    complete = scoring.score(run, qrels, cutoffs=[2], label_class="golden")
    retrieved_only = scoring.score(run, qrels, cutoffs=[2], label_class="audit")

    for metric in ("recall", "ndcg", "ndcg_exp", "average_precision"):
        assert complete["q", metric, 2] is None
        assert retrieved_only["q", metric, 2] is None
    for metric in ("hit_rate", "reciprocal_rank"):
        assert complete["q", metric, 2] is None
        assert retrieved_only["q", metric, 2] == 0
    assert complete["q", "precision", 2] == retrieved_only["q", "precision", 2] == 0
    assert complete["q", "judged", 2] == 0.5


def test_columns_that_no_peer_has_follow_from_those_that_agree(scoring: Scoring) -> None:
    batch = next(iter(random_runs.random_batches()))
    cutoffs = random_runs.CUTOFFS
    scores = scoring.score(batch.run, batch.qrels, cutoffs=cutoffs, complete=True)

    n_checked = 0
    for query in batch.qrels:
        n_returned = scores[query, "n_returned", 0]
        for k in (0, *cutoffs):
            n_hits, n_judged = scores[query, "n_hits", k], scores[query, "n_judged", k]
            n_top = min(k, n_returned) if k else n_returned
            n_places = k or n_returned
            expected = {
                "context_recall": scores[query, "recall", k],
                "precision_low": scores[query, "precision", k],
                "precision_high": (n_hits + n_top - n_judged) / n_places if n_places else 0.0,
                "precision_returned": n_hits / n_top if n_top else None,
                "precision_condensed": n_hits / n_judged if n_judged else None,
            }
            assert {column: scores[query, column, k] for column in expected} == expected
            recall, average_precision = scores[query, "recall", k], scores[query, "average_precision", k]
            if recall:
                # both share one sum: / relevant in the top k, / all relevant
                assert abs(scores[query, "context_precision", k] * recall - average_precision) < 1e-12
            else:
                assert scores[query, "context_precision", k] == 0
            n_checked += 1
    assert n_checked == 8 * random_runs.QUERIES_PER_BATCH
