"""Coverage of propensities and of precision corrected by them, on simulated readers whose looks are known."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from score_laws import UNIT

from retrieval_quality.exposure import KEY, examination_propensities, exposure_sensitivity

Floats = NDArray[np.float64]

LOOKED_AT = np.array([1.0, 0.7, 0.5, 0.35, 0.25])
N_QUESTIONS, N_LISTS, K = 50, 6_000, 5
TOTAL: dict[str, object] = {
    "window_name": "trailing_28d", "window_start_at": 0, "window_end_at": 1, "segment_dimension": "total",
    "segment_value": "total",
}  # fmt: skip


def readers(rng: np.random.Generator) -> tuple[pd.DataFrame, Floats, float]:
    """Steps of rank variation, copies by list and rank, and precision if every rank were looked at.

    Arm a ranks by relevance; arm b shows every chunk one rank higher, the first last.
    """
    relevance = np.sort(rng.choice([0.9, 0.5, 0.1], size=(N_QUESTIONS, K)), axis=1)[:, ::-1]
    question, arm = rng.integers(0, N_QUESTIONS, N_LISTS), rng.integers(0, 2, N_LISTS)
    rank = np.where(arm[:, None] == 0, np.arange(K), (np.arange(K) - 1) % K)
    copied = (rng.random((N_LISTS, K)) < relevance[question] * LOOKED_AT[rank]).astype(np.float64)
    by_rank = np.zeros((N_LISTS, K))
    np.put_along_axis(by_rank, rank, copied, axis=1)
    shown, signals = np.zeros((N_QUESTIONS, 2)), np.zeros((N_QUESTIONS, 2, K))
    np.add.at(shown, (question, arm), 1.0)
    np.add.at(signals, (question, arm), copied)
    return pd.DataFrame(steps(shown, signals)), by_rank, float(relevance[question].mean())


def steps(shown: Floats, signals: Floats) -> Iterator[dict[str, int]]:
    """int_rank_variation in numpy: of every question the chunk that arm b shows one rank higher."""
    lower_shown, upper_shown = shown.T
    total = lower_shown + upper_shown
    for place in range(1, K):
        lower, upper = signals[:, 0, place], signals[:, 1, place]
        spread = (lower + upper) * lower_shown * upper_shown - lower * upper * total
        yield {
            "rank": place + 1,
            "n_signals": int((lower + upper).sum()),
            "upper_sum": int((upper * lower_shown / total * UNIT).sum()),
            "lower_sum": int((lower * upper_shown / total * UNIT).sum()),
            "variance_sum": int((spread / total**2 * UNIT).sum()),
        }


def corrected(varied: pd.DataFrame, by_rank: Floats) -> tuple[pd.DataFrame, pd.Series]:
    """Propensities, and the row of mart_exposure_sensitivity."""
    every_rank = pd.DataFrame({"rank": range(2, K + 1)})
    propensities = examination_propensities(varied, every_rank, confidence=0.95)
    values, n = np.unique((by_rank * (propensities["weight"].to_numpy() / UNIT)).sum(axis=1) / K, return_counts=True)
    histogram = pd.DataFrame({"value": values, "n_units": n, "weight": n * UNIT, "k": K}).assign(**TOTAL)
    hits = pd.DataFrame({"rank": range(1, K + 1), "hit_sum": (by_rank.sum(axis=0) * UNIT).astype(np.int64)})
    raw = pd.DataFrame([TOTAL | {"k": K, "estimate": by_rank.mean(), "bound_low": 0.0, "bound_high": 1.0,
                                 "n_units": N_LISTS, "n_eff": float(N_LISTS), "n_traces": N_LISTS,
                                 "n_scored": N_LISTS, "is_identifiable": True}])  # fmt: skip
    rows = exposure_sensitivity(histogram[[*KEY, "value", "n_units", "weight"]], hits.assign(**TOTAL), raw,
                                propensities, confidence=0.95)  # fmt: skip
    return propensities, rows.iloc[0]


def assert_both_cover(replicates: int, at_least: float) -> None:
    rng = np.random.default_rng(5)
    looks, precision, errors = np.zeros(K - 1), 0, []
    for _ in range(replicates):
        varied, by_rank, truth = readers(rng)
        propensities, row = corrected(varied, by_rank)
        assert set(propensities["method"]) == {"rank_variation"}
        within = (propensities["propensity_low"] <= LOOKED_AT) & (propensities["propensity_high"] >= LOOKED_AT)
        looks += within.to_numpy()[1:]
        precision += row["exposure_corrected_low"] <= truth <= row["exposure_corrected_high"]
        errors.append(row["exposure_corrected_estimate"] - truth)
        # the control: as it is, a signal that needs a look is too low a precision
        assert row["estimate"] < truth - 0.1
    assert (looks / replicates).min() >= at_least
    assert precision / replicates >= at_least
    assert np.mean(errors) == pytest.approx(0.0, abs=0.005)


@pytest.mark.slow
def test_propensities_and_corrected_precision_cover() -> None:
    assert_both_cover(1_500, 0.935)


def test_propensities_and_corrected_precision_cover_in_a_hundred_samples() -> None:
    assert_both_cover(100, 0.88)
