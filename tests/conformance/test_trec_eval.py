"""trec_eval's own regression suite, to the four decimals that it prints."""

import pytest
from conformance import trec_eval_cases
from conformance.comparisons import differences, label
from conformance.scoring import Scoring
from support import needs_shared

pytestmark = needs_shared

N_VALUES = {
    "base_all_trec": 212,
    "comments": 16,
    "complete_c": 212,
    "complete_c_M100": 212,
    "meas_params": 44,
    "rel_level_2": 212,
}


@pytest.mark.parametrize("name", trec_eval_cases.CASES)
def test_every_value_of_our_measures_agrees(name: str, scoring: Scoring) -> None:
    result = trec_eval_cases.compare(trec_eval_cases.read_case(name), scoring)

    assert differences(result.compared) == []
    assert len(result.compared) == N_VALUES[name]
    assert not any(value.is_undefined for value in result.compared if value.measure.metric != "judged")


@pytest.mark.parametrize("name", trec_eval_cases.CASES)
def test_every_other_measure_is_declared_as_not_ours(name: str, scoring: Scoring) -> None:
    result = trec_eval_cases.compare(trec_eval_cases.read_case(name), scoring)

    assert result.not_ours
    assert {label(measure) for measure in result.not_ours} <= trec_eval_cases.NOT_OURS


def test_averages_with_c_count_the_query_that_the_run_never_answered(scoring: Scoring) -> None:
    case = trec_eval_cases.read_case("complete_c")
    scores = scoring.score(case.run, case.qrels, cutoffs=[5], complete=True)

    assert case.qrels.keys() - case.run.keys() == {"302"}
    assert scores["302", "n_returned", 0] == 0
    for metric in ("average_precision", "ndcg", "recall", "reciprocal_rank", "precision", "hit_rate", "bpref"):
        assert scores["302", metric, 0] == 0
    assert scores["302", "judged", 5] is None


def test_only_unjudged_shares_depend_on_how_negative_grades_are_read(scoring: Scoring) -> None:
    """A grade of -1 is `in the pool, unjudged` for trec_eval and judged non-relevant for us: its
    `unj` and ours differ where such chunks were retrieved, and agree once they are left out.
    """
    case = trec_eval_cases.read_case("rel_level_2")
    as_graded = trec_eval_cases.compare(case, scoring).compared
    as_trec_eval_reads = trec_eval_cases.compare(trec_eval_cases.without_negative_grades(case), scoring).compared

    explained = [value for value in as_graded if value.explanation]
    assert sorted({value.measure.theirs for value in explained}) == ["unj_10", "unj_20", "unj_5"]
    assert {value.query for value in explained} == {"303", "all"}
    assert [str(value) for value in as_trec_eval_reads if not value.agrees] == []
    assert len(as_trec_eval_reads) == len(as_graded)
