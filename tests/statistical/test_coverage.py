"""How often intervals of a mean hold the truth: eleven laws of scores, small and large samples."""

import numpy as np
import pytest
from score_laws import LAWS, as_histogram, drawn, mean_of, share

from retrieval_quality.intervals import bounded_ends, bounded_p_values, mean_intervals

REPLICATES = 20_000
SIZES = [2, 5, 10, 30, 100, 300]


def seed_of(law: str) -> int:
    return list(LAWS).index(law)


@pytest.mark.slow
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("law", LAWS)
def test_bounded_interval_covers(law: str, n: int) -> None:
    values, truth = LAWS[law][0], mean_of(LAWS[law])
    low, high = bounded_ends(values, drawn(LAWS[law], n, REPLICATES, seed_of(law)))
    assert share((low <= truth) & (truth <= high)) >= 0.945
    # one-sided, as a verdict reads it: nominal 2.5 %, simulation error .0011
    assert share(low > truth) <= 0.025 + 4 * 0.0011
    assert share(high < truth) <= 0.025 + 4 * 0.0011


@pytest.mark.parametrize("n", [5, 30])
@pytest.mark.parametrize("law", LAWS)
def test_bounded_interval_covers_in_a_thousand_samples(law: str, n: int) -> None:
    truth = mean_of(LAWS[law])
    result = mean_intervals(as_histogram(LAWS[law][0], drawn(LAWS[law], n, 1_000, seed_of(law))), ["replicate"])
    assert share((result.bound_low <= truth) & (truth <= result.bound_high)) >= 0.945
    assert share(result.bound_low > truth) <= 0.025 + 4 * 0.005
    assert share(result.bound_high < truth) <= 0.025 + 4 * 0.005


@pytest.mark.parametrize(("law", "below"), [("MRR near 0", 0.87), ("p@5 near 1", 0.91), ("p@5 near 0", 0.91)])
def test_percentile_interval_does_not(law: str, below: float) -> None:
    """The control: the same simulation finds the interval that is too short."""
    truth = mean_of(LAWS[law])
    data = as_histogram(LAWS[law][0], drawn(LAWS[law], 30, 2_000, seed_of(law)))
    result = mean_intervals(data, ["replicate"], ci_method="percentile")
    assert share((result.ci_low <= truth) & (truth <= result.ci_high)) < below
    assert share((result.bound_low <= truth) & (truth <= result.bound_high)) >= 0.945


@pytest.mark.parametrize("law", ["p@5 middle", "MRR near 0", "r@5 .97", "nDCG near 1"])
def test_p_values_are_valid_at_the_threshold(law: str) -> None:
    """Under H0 at its edge P(p <= level) <= level, on both sides; and p is small when H0 is false."""
    truth = mean_of(LAWS[law])
    data = as_histogram(LAWS[law][0], drawn(LAWS[law], 40, 4_000, seed_of(law)))
    below = bounded_p_values(data, ["replicate"], truth, side="below").p_value
    above = bounded_p_values(data, ["replicate"], truth, side="above").p_value
    for level in (0.01, 0.05, 0.2):
        slack = 4 * np.sqrt(level * (1 - level) / 4_000)
        assert share(below <= level) <= level + slack
        assert share(above <= level) <= level + slack
    wrong = bounded_p_values(data, ["replicate"], truth / 3, side="above").p_value
    assert share(wrong <= 0.05) > 0.3
