"""Coverage of the bounded-mean interval by simulation, on small samples of discrete laws."""

import numpy as np
import pandas as pd
import pytest

from retrieval_quality.intervals import mean_intervals

REPLICATES = 20_000

LAWS: dict[str, tuple[list[float], list[float]]] = {
    "precision@5, middle": ([0, 0.2, 0.4, 0.6, 0.8, 1], [0.05, 0.15, 0.25, 0.25, 0.2, 0.1]),
    "precision@5, near 1": ([0.4, 0.6, 0.8, 1], [0.01, 0.03, 0.1, 0.86]),
    "hit rate .97": ([0, 1], [0.03, 0.97]),
    "hit rate .80": ([0, 1], [0.2, 0.8]),
    "recall in halves": ([0, 0.5, 1], [0.1, 0.3, 0.6]),
    "reciprocal rank, near 0": ([0, 0.1, 0.2, 0.25, 1 / 3, 0.5, 1], [0.84, *[0.02] * 5, 0.06]),
}


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 5, 10, 30])
@pytest.mark.parametrize("law", LAWS)
def test_bounded_interval_covers(law: str, n: int) -> None:
    values, probabilities = (np.array(part, dtype=float) for part in LAWS[law])
    rng = np.random.default_rng([n, list(LAWS).index(law)])
    counts = rng.multinomial(n, probabilities, size=REPLICATES)
    histogram = pd.DataFrame(
        {
            "replicate": np.repeat(np.arange(REPLICATES), len(values)),
            "value": np.tile(values, REPLICATES),
            "weight": counts.ravel() * 1_000_000,
        }
    )
    result = mean_intervals(histogram, ["replicate"])
    truth = probabilities @ values
    covered = (result.bound_low <= truth) & (truth <= result.bound_high)
    assert covered.mean() >= 0.945
    # one-sided, as a verdict reads it: nominal 2.5 %, simulation error .0011
    assert (result.bound_low > truth).mean() <= 0.025 + 4 * 0.0011
    assert (result.bound_high < truth).mean() <= 0.025 + 4 * 0.0011
