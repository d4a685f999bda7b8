"""The values that pytrec_eval, ir_measures and ranx hold their own code to."""

from conformance import peer_cases
from conformance.comparisons import differences
from conformance.scoring import Scoring
from support import needs_shared

pytestmark = needs_shared


def test_every_recorded_value_of_pytrec_eval_agrees(scoring: Scoring) -> None:
    result = peer_cases.compare_pytrec_eval(scoring)

    assert differences(result.compared) == []
    assert result.n_cases == 21
    assert len(result.compared) == 242
    # 8 cases ask for no measure or have nothing to score
    assert len({value.case for value in result.compared}) == 14


def test_every_recorded_value_of_ir_measures_agrees(scoring: Scoring) -> None:
    result = peer_cases.compare_ir_measures(scoring)

    assert differences(result.compared) == []
    assert result.n_cases == 22
    assert len(result.compared) == 108
    assert {value.measure.metric for value in result.compared} >= {
        *("precision", "recall", "reciprocal_rank", "ndcg", "ndcg_exp", "average_precision", "r_precision"),
        *("hit_rate", "judged"),
    }


def test_null_is_the_only_answer_where_a_peer_says_zero_of_nothing(scoring: Scoring) -> None:
    undefined = [value for value in peer_cases.compare_ir_measures(scoring).compared if value.is_undefined]

    assert len(undefined) == 4
    for value in undefined:
        assert value.ours is None
        assert value.expected == 0
        assert "rel=3" in value.measure.theirs


def test_every_assert_of_ranx_agrees(scoring: Scoring) -> None:
    result = peer_cases.compare_ranx(scoring)

    assert differences(result.compared) == []
    assert result.n_cases == 12
    assert result.not_ours == frozenset()
    # the last case holds for precision and for recall
    assert len(result.compared) == 13


def test_measures_that_are_not_ours_are_named(scoring: Scoring) -> None:
    assert len(peer_cases.compare_pytrec_eval(scoring).not_ours) > 10
    not_ours = peer_cases.compare_ir_measures(scoring).not_ours
    assert {"ERR@20", "IPrec@0.5", "infAP", "P(judged_only=True)@4", "SetP(relative=True)"} <= not_ours
