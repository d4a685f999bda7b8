"""The values that pytrec_eval, ir_measures and ranx hold their own code to."""

import pytest
from conformance import peer_cases
from conformance.comparisons import differences
from conformance.peer_cases import PeerResult
from conformance.scoring import Scoring
from support import needs_shared

pytestmark = needs_shared


@pytest.fixture(scope="module")
def pytrec_eval(scoring: Scoring) -> PeerResult:
    return peer_cases.compare_pytrec_eval(scoring)


@pytest.fixture(scope="module")
def ir_measures(scoring: Scoring) -> PeerResult:
    return peer_cases.compare_ir_measures(scoring)


def test_every_recorded_value_of_pytrec_eval_agrees(pytrec_eval: PeerResult) -> None:
    assert differences(pytrec_eval.compared) == []
    assert pytrec_eval.n_cases == 21
    assert len(pytrec_eval.compared) == 242
    # the other 7 ask for no measure, or have no query to score
    assert len({value.case for value in pytrec_eval.compared}) == 14


def test_every_recorded_value_of_ir_measures_agrees(ir_measures: PeerResult) -> None:
    assert differences(ir_measures.compared) == []
    assert ir_measures.n_cases == 22
    assert len(ir_measures.compared) == 108
    assert {value.measure.metric for value in ir_measures.compared} >= {
        *("precision", "recall", "reciprocal_rank", "ndcg", "ndcg_exp", "average_precision", "r_precision"),
        *("hit_rate", "judged"),
    }


def test_null_is_the_only_answer_where_a_peer_says_zero_of_nothing(ir_measures: PeerResult) -> None:
    undefined = [value for value in ir_measures.compared if value.is_undefined]

    assert len(undefined) == 4
    for value in undefined:
        assert value.ours is None
        assert value.expected == 0
        # no query of the case has a chunk of grade 3
        assert "rel=3" in value.measure.theirs


def test_every_assert_of_ranx_agrees(scoring: Scoring) -> None:
    result = peer_cases.compare_ranx(scoring)

    assert differences(result.compared) == []
    assert result.n_cases == 12
    assert result.not_ours == frozenset()
    # the last case holds for precision and for recall
    assert len(result.compared) == 13


def test_measures_that_are_not_ours_are_named(pytrec_eval: PeerResult, ir_measures: PeerResult) -> None:
    assert {"infAP", "utility", "11pt_avg", "gm_map", "set_F"} <= pytrec_eval.not_ours
    assert {"ERR@20", "IPrec@0.5", "infAP", "P(judged_only=True)@4", "SetP(relative=True)"} <= ir_measures.not_ours
