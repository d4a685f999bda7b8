"""docs/conformance.md says what the comparisons give now."""

from conformance import matrix
from conformance.matrix import Suite
from conformance.scoring import COUNTS, Scoring
from support import needs_shared

pytestmark = needs_shared


def test_matrix_is_current(suites: tuple[Suite, ...], scoring: Scoring) -> None:
    assert matrix.DOCUMENT.read_text() == matrix.render(suites, scoring.metrics), f"run: {matrix.COMMAND}"


def test_matrix_has_no_empty_suite_and_no_unknown_column(suites: tuple[Suite, ...], scoring: Scoring) -> None:
    assert len(suites) == 8
    for suite in suites:
        assert suite.compared, suite.name
        assert {value.measure.metric for value in suite.compared} <= {*scoring.metrics, *COUNTS}
