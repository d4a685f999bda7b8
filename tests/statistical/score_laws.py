"""Laws of scores that simulations draw from, and histograms of what was drawn. All are invented."""

import numpy as np
import pandas as pd

UNIT = 1_000_000
Law = tuple[np.ndarray, np.ndarray]  # values ascending, probabilities


def _law(values: list[float], probabilities: list[float]) -> Law:
    return np.array(values, dtype=np.float64), np.array(probabilities, dtype=np.float64)


def _beta_on_grid(a: float, b: float, perfect: float) -> Law:
    """A many-valued score: beta-shaped on a grid of .05, with an atom at 1 (a perfect list)."""
    values = np.arange(21) / 20
    middle = np.clip(values, 0.0125, 0.9875)
    shape = middle ** (a - 1) * (1 - middle) ** (b - 1)
    probabilities = shape / shape.sum() * (1 - perfect)
    probabilities[-1] += perfect
    return values, probabilities


FIFTHS = [0, 0.2, 0.4, 0.6, 0.8, 1]
RANKS = [0, 0.1, 0.125, 1 / 6, 0.2, 0.25, 1 / 3, 0.5, 1]

LAWS: dict[str, Law] = {
    "p@5 middle": _law(FIFTHS, [0.05, 0.15, 0.25, 0.25, 0.2, 0.1]),
    "p@5 near 0": _law(FIFTHS, [0.86, 0.1, 0.03, 0.01, 0, 0]),
    "p@5 near 1": _law(FIFTHS, [0, 0, 0.01, 0.03, 0.1, 0.86]),
    "r@5 .50": _law([0, 1], [0.5, 0.5]),
    "r@5 .80": _law([0, 1], [0.2, 0.8]),
    "r@5 .97": _law([0, 1], [0.03, 0.97]),
    "MRR middle": _law(RANKS, [0.2, 0.03, 0.03, 0.04, 0.05, 0.05, 0.1, 0.15, 0.35]),
    "MRR near 0": _law(RANKS, [0.84, 0.02, 0.02, 0.02, 0.02, 0.02, 0.01, 0.01, 0.04]),
    "MRR near 1": _law(RANKS, [0.01, 0, 0, 0, 0.01, 0.01, 0.02, 0.05, 0.9]),
    "nDCG@10": _beta_on_grid(1.5, 1.2, 0.1),
    "nDCG near 1": _beta_on_grid(6.0, 1.0, 0.7),
}


def mean_of(law: Law) -> float:
    return float(law[0] @ law[1])


def drawn(law: Law, n: int, replicates: int, seed: int) -> np.ndarray:
    """Counts of every value, (replicates, values)."""
    return np.random.default_rng([seed, n]).multinomial(n, law[1] / law[1].sum(), size=replicates)


def as_histogram(values: np.ndarray, counts: np.ndarray) -> pd.DataFrame:
    replicates, size = counts.shape
    return pd.DataFrame(
        {
            "replicate": np.repeat(np.arange(replicates), size),
            "value": np.tile(values, replicates),
            "weight": counts.ravel() * UNIT,
        }
    )


def tilted_to(law: Law, mean: float) -> Law:
    """The law of this family (probabilities times exp(t value)) that has this mean."""
    values, probabilities = law
    low, high = -60.0, 60.0
    for _ in range(100):
        t = (low + high) / 2
        weights = probabilities * np.exp(t * (values - values[-1] * (t > 0)))
        weights = weights / weights.sum()
        low, high = (t, high) if weights @ values < mean else (low, t)
    return values, weights


def share(condition: "np.ndarray | pd.Series") -> float:
    return float(np.mean(condition))
