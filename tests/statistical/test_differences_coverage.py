"""Coverage of differences, and of intervals that are looked at every night."""

import numpy as np
import pandas as pd
import pytest
from score_laws import LAWS, Law, as_histogram, drawn, mean_of, share, tilted_to

from retrieval_quality.comparisons import anytime_interval, paired_differences, steady_std_error, unpaired_differences

PAIR = pd.DataFrame({"control": ["a"], "treatment": ["b"]})

# control, treatment, their sizes
ARMS: dict[str, tuple[Law, Law, int, int]] = {
    "p@5, equal": (LAWS["p@5 middle"], LAWS["p@5 middle"], 30, 30),
    "p@5, 3 points": (LAWS["p@5 middle"], tilted_to(LAWS["p@5 middle"], 0.57), 300, 300),
    "r@5 near 1": (LAWS["r@5 .97"], LAWS["r@5 .97"], 30, 100),
    "r@5 .80 to .97": (LAWS["r@5 .80"], LAWS["r@5 .97"], 50, 10),
    "MRR near 0": (LAWS["MRR near 0"], LAWS["MRR near 0"], 40, 40),
    "p@5 near 1": (LAWS["p@5 near 1"], LAWS["p@5 near 1"], 20, 200),
}
PAIRED: dict[str, tuple[list[float], list[float]]] = {
    "p@5, mostly equal": ([-0.4, -0.2, 0, 0.2, 0.4], [0.02, 0.1, 0.72, 0.12, 0.04]),
    "hit, few flips": ([-1, 0, 1], [0.03, 0.92, 0.05]),
    "MRR, wide": ([-1, -0.5, 0, 0.5, 2 / 3, 1], [0.05, 0.15, 0.5, 0.15, 0.05, 0.1]),
}


def unpaired(name: str, replicates: int) -> tuple[pd.DataFrame, float]:
    control, treatment, n_control, n_treatment = ARMS[name]
    seed = list(ARMS).index(name)
    data = pd.concat(
        [
            as_histogram(control[0], drawn(control, n_control, replicates, 100 + seed)).assign(arm="a"),
            as_histogram(treatment[0], drawn(treatment, n_treatment, replicates, 200 + seed)).assign(arm="b"),
        ]
    )
    return unpaired_differences(data, ["replicate"], PAIR), mean_of(treatment) - mean_of(control)


def assert_covers(result: pd.DataFrame, truth: float, at_least: float) -> None:
    covered = (result.bound_low <= truth) & (truth <= result.bound_high)
    assert share(covered) >= at_least
    if truth == 0:
        assert share(result.p_value < 0.05) <= 1 - at_least


@pytest.mark.slow
@pytest.mark.parametrize("name", ARMS)
def test_unpaired_interval_covers(name: str) -> None:
    assert_covers(*unpaired(name, 20_000), at_least=0.94)


@pytest.mark.parametrize("name", ARMS)
def test_unpaired_interval_covers_in_a_thousand_samples(name: str) -> None:
    assert_covers(*unpaired(name, 1_000), at_least=0.94)


def test_normal_interval_of_a_difference_does_not_near_the_end_of_the_range() -> None:
    """The control: 20 sessions near 1 against 200."""
    result, truth = unpaired("p@5 near 1", 2_000)
    assert share((result.difference - truth).abs() <= 1.96 * result.std_error) < 0.90


def paired(name: str, n: int, replicates: int) -> tuple[pd.DataFrame, float]:
    law = (np.array(PAIRED[name][0], dtype=float), np.array(PAIRED[name][1]))
    counts = drawn(law, n, replicates, 300 + list(PAIRED).index(name))
    return paired_differences(as_histogram(law[0], counts), ["replicate"]), mean_of(law)


@pytest.mark.slow
@pytest.mark.parametrize("n", [10, 50, 200])
@pytest.mark.parametrize("name", PAIRED)
def test_paired_interval_covers(name: str, n: int) -> None:
    assert_covers(*paired(name, n, 20_000), at_least=0.94)


@pytest.mark.parametrize("n", [10, 50])
@pytest.mark.parametrize("name", PAIRED)
def test_paired_interval_covers_in_a_thousand_samples(name: str, n: int) -> None:
    assert_covers(*paired(name, n, 1_000), at_least=0.94)


# ---- looking every night ------------------------------------------------------------------------

NIGHTLY: dict[str, Law] = {
    **{name: LAWS[name] for name in ("p@5 middle", "p@5 near 1", "r@5 .80", "r@5 .97", "MRR near 0", "nDCG near 1")},
    "hit .99": (np.array([0.0, 1.0]), np.array([0.01, 0.99])),
}


def ever_missed(law: Law, replicates: int, tuned_for: float, seed: int) -> tuple[float, float]:
    """Share of sequences that miss the truth at any of 200 looks, from n = 50 to n = 10,000: ours, fixed-n."""
    rng = np.random.default_rng(seed)
    values, probabilities = law
    truth = mean_of(law)
    missed = np.zeros((2, replicates), dtype=bool)
    counts = np.zeros((replicates, len(values)))
    for _ in range(200):
        counts += rng.multinomial(50, probabilities / probabilities.sum(), size=replicates)
        n = counts.sum(axis=1)
        mean = counts @ values / n
        error = np.sqrt(np.maximum(counts @ values**2 / n - mean**2, 0.0) / (n - 1))
        interval = anytime_interval(n, mean, steady_std_error(error, n, 1.0), tuned_for=tuned_for)
        missed[0] |= (interval.low > truth) | (interval.high < truth)
        missed[1] |= np.abs(mean - truth) > 1.96 * error
    return share(missed[0]), share(missed[1])


@pytest.mark.slow
@pytest.mark.parametrize("tuned_for", [100, 1_000, 10_000])
@pytest.mark.parametrize("law", NIGHTLY)
def test_anytime_interval_holds_at_all_looks(law: str, tuned_for: float) -> None:
    ours, fixed = ever_missed(NIGHTLY[law], 20_000, tuned_for, list(NIGHTLY).index(law))
    assert ours <= 0.05
    assert fixed > 0.2  # the control: an interval for one look, looked at 200 times


@pytest.mark.parametrize("law", NIGHTLY)
def test_anytime_interval_holds_in_a_thousand_sequences(law: str) -> None:
    ours, fixed = ever_missed(NIGHTLY[law], 1_000, 1_000, list(NIGHTLY).index(law))
    assert ours <= 0.05
    assert fixed > 0.2


def test_anytime_interval_of_a_difference_holds_at_all_looks() -> None:
    rng = np.random.default_rng(12)
    values, probabilities = LAWS["p@5 middle"]
    counts = np.zeros((2, 2_000, len(values)))
    ever_missed = np.zeros(2_000, dtype=bool)
    for _ in range(150):
        counts += rng.multinomial(25, probabilities, size=(2, 2_000))
        n = counts.sum(axis=2)
        mean = counts @ values / n
        error = np.sqrt((counts @ values**2 / n - mean**2) / (n - 1))
        both = np.sqrt((steady_std_error(error, n, 1.0) ** 2).sum(axis=0))
        interval = anytime_interval(n.sum(axis=0), mean[1] - mean[0], both, tuned_for=1_000)
        ever_missed |= (interval.low > 0) | (interval.high < 0)
    assert share(ever_missed) <= 0.05
