"""Seven retriever runs over two collections through the whole project, read from what it published."""

import pytest
from conformance import real_runs
from conformance.comparisons import differences
from conformance.real_runs import COLLECTIONS, MEASURES, RUNS, TIED, Published
from support import needs_shared

pytestmark = needs_shared

N_QUERIES = {"cranfield": 225, "noveleval": 21}
DENOMINATORS = ("n_scored", "n_unlabelled", "n_no_relevant", "n_undefined", "n_stage_absent", "n_fault")


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_published_scores_are_the_reference_values(collection: str, published: Published) -> None:
    compared = real_runs.compare_golden(published, collection)

    assert differences(compared) == []
    assert len(compared) == len(RUNS) * len(MEASURES) * N_QUERIES[collection]
    assert sum(value.expected > 0 for value in compared) > len(compared) / 3


@pytest.mark.parametrize(("collection", "run", "query", "name"), sorted(TIED))
def test_where_a_reference_value_differs_scores_tie(
    collection: str, run: str, query: str, name: str, published: Published
) -> None:
    """The reference follows ids within equal scores, we follow the recorded rank: pytrec_eval gives
    the one value for the list in the order of its scores, the other for it as recorded.
    """
    measure = next(measure for measure in MEASURES if measure.theirs == name)
    listed = real_runs.read_list(collection, run, query)
    grades = real_runs.read_qrels(collection)[query]
    by_score = real_runs.peer_value(listed, grades, measure, by_score=True)
    as_recorded = real_runs.peer_value(listed, grades, measure, by_score=False)
    (value,) = (
        value
        for value in real_runs.compare_golden(published, collection)
        if (value.case, value.query, value.measure) == (f"{collection} {run}", query, measure)
    )

    assert list(listed.scores) == sorted(listed.scores, reverse=True)
    assert len(set(listed.scores)) < len(listed.scores)
    assert by_score != as_recorded
    assert value.expected == pytest.approx(by_score, abs=1e-9)
    assert value.ours == pytest.approx(as_recorded, abs=1e-9)


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_thumbs_on_what_was_shown_give_the_same_scores(collection: str, published: Published) -> None:
    compared = real_runs.compare_feedback(published, collection)

    assert differences(compared) == []
    assert len(compared) == 6 * 4 * N_QUERIES[collection]


def test_a_run_without_feedback_has_no_explicit_scores(published: Published) -> None:
    rows = published.query(
        """
        select scores.label_class, count(distinct trace_id)
        from fct_query_scores as scores
        inner join fct_retrievals as retrievals using (trace_id)
        where retrievals.experiment_bucket = 'badchunk'
        group by scores.label_class
        """
    )
    assert rows == [("golden", sum(N_QUERIES.values()))]


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_the_first_stage_of_the_reranker_scores_as_bm25(collection: str, published: Published) -> None:
    compared = real_runs.compare_first_stage(published, collection)

    assert differences(compared) == []
    assert len(compared) == 5 * N_QUERIES[collection]


def test_feedback_identifies_only_what_its_judgments_reach(published: Published) -> None:
    """DESIGN section 4: metrics that need complete labels never, the others where on average at least
    0.9 of the top k is judged in the traces that they score; recomputed from the published scores.
    """
    rows = published.query(
        """
        select mart.segment_value, mart.metric, mart.k, metrics.needs, mart.completeness,
            mart.is_identifiable, mart.judged_share
        from mart_retrieval_quality as mart
        inner join dim_metrics as metrics using (metric)
        where mart.label_class = 'explicit' and mart.stage = 'final' and mart.window_name = 'trailing_28d'
            and mart.segment_dimension in ('intent', 'intent x experiment_bucket') and mart.n_scored > 0
        """
    )
    judged_by_segment = {
        (segment, k): judged
        for segment, k, judged in published.query(
            """
            with scores as (
                select
                    unnest([intent, intent || ' x ' || experiment_bucket]) as segment, scores.k, scores.judged
                from fct_query_scores as scores
                inner join fct_retrievals as retrievals using (trace_id)
                where scores.label_class = 'explicit' and scores.stage = 'final'
            )
            select segment, k, avg(judged)
            from scores
            group by segment, k
            """
        )
    }
    verdicts = {}
    for segment, metric, k, needs, completeness, is_identifiable, judged_share in rows:
        judged = judged_by_segment[segment, k]
        assert completeness == "retrieved_only"
        assert judged_share == pytest.approx(judged, abs=1e-9), (segment, metric, k)
        assert is_identifiable == (needs in ("judged_top_k", "judged_share") and judged >= 0.9), (segment, metric, k)
        verdicts[segment, metric, k] = is_identifiable

    assert len(verdicts) > 100
    for collection in COLLECTIONS:
        for k in (5, 10, 100):
            assert verdicts[collection, "recall", k] is False
    assert verdicts["cranfield", "precision", 5] is False
    assert verdicts["noveleval x bm25", "precision", 5] is True
    assert verdicts["noveleval x bm25", "recall", 5] is False
    assert verdicts["noveleval x shuffled", "precision", 5] is False


def test_golden_labels_identify_what_does_not_hang_on_the_judged_share(published: Published) -> None:
    rows = published.query(
        "select count(*), bool_and(is_identifiable), bool_and(completeness = 'complete') "
        "from mart_retrieval_quality inner join dim_metrics using (metric) "
        "where label_class = 'golden' and n_scored > 0 and needs <> 'judged_share'"
    )
    ((n_rows, all_identifiable, all_complete),) = rows
    assert n_rows > 100  # type: ignore[operator]
    assert all_identifiable
    assert all_complete


def test_denominators_add_up_in_every_mart_row(published: Published) -> None:
    ((n_rows, n_wrong, n_impossible),) = published.query(
        f"""
        select
            count(*),
            count(*) filter (where n_traces <> {" + ".join(DENOMINATORS)}),
            count(*) filter (where least({", ".join(DENOMINATORS)}, n_missing, n_no_results) < 0 or n_units > n_scored)
        from mart_retrieval_quality
        """
    )
    assert n_rows > 1000  # type: ignore[operator]
    assert (n_wrong, n_impossible) == (0, 0)


def test_histograms_hold_every_unit(published: Published) -> None:
    ((n_rows, n_wrong),) = published.warehouse.query(
        """
        with held as (
            select columns(* exclude (value, weight)), sum(weight) as weight
            from int_window_histograms
            group by all
        )
        select count(*), count(*) filter (where held.weight <> denominators.n_units * 1000000)
        from held
        inner join int_window_denominators as denominators using (
            window_name, window_start_at, window_end_at, traffic, segment_dimension, segment_value,
            stage, label_class, metric, k
        )
        """
    )
    assert n_rows > 1000  # type: ignore[operator]
    assert n_wrong == 0


def test_an_unanswered_golden_query_scores_zero(published: Published) -> None:
    rows = published.query(
        """
        select scores.k, scores.recall, scores.hit_rate, scores.reciprocal_rank, scores.ndcg, scores.average_precision,
            scores.precision, scores.judged
        from fct_query_scores as scores
        inner join fct_retrievals as retrievals using (trace_id)
        where retrievals.is_missing and retrievals.traffic = 'scheduled_eval' and retrievals.query_id = ?
            and retrievals.eval_run_id = ?
        order by scores.k
        """,
        *(f"noveleval-{real_runs.UNANSWERED}", real_runs.EVAL_RUN),
    )
    assert [row[0] for row in rows] == [0, 1, 5, 10, 100]
    assert {row[1:] for row in rows} == {(0, 0, 0, 0, 0, 0, None)}
    assert published.query("select count(*) from fct_retrievals where is_missing") == [(1,)]


def test_an_evaluation_run_is_a_mean_over_every_golden_query(published: Published) -> None:
    expected = real_runs.read_expected("noveleval")
    rows = published.query(
        """
        select metric, k, estimate, n_traces, n_scored, n_missing, n_undefined
        from mart_retrieval_quality
        where traffic = 'scheduled_eval' and label_class = 'golden' and stage = 'final'
            and segment_dimension = 'total' and window_name = 'trailing_28d'
        """
    )
    measures = {(measure.metric, measure.k): measure.theirs for measure in MEASURES}
    compared = set()
    for metric, k, estimate, n_traces, n_scored, n_missing, n_undefined in rows:
        assert (n_traces, n_missing) == (21, 1)
        if (metric, k) not in measures:
            continue
        name = measures[metric, k]
        values = [
            value if query != real_runs.UNANSWERED else 0.0
            for (run, query, measure), value in expected.items()
            if run == "bm25" and measure == name
        ]
        if metric == "judged":
            # of no list no share is judged
            values.remove(0.0)
            assert (n_scored, n_undefined) == (20, 1)
        else:
            assert (n_scored, n_undefined) == (21, 0)
        assert estimate == pytest.approx(sum(values) / n_scored, abs=1e-6), name
        compared.add(name)
    assert {"P@5", "P@10", "R@5", "R@10", "R@100", "RR@10", "nDCG@10", "AP", "Success@5", "Judged@10"} <= compared
