"""Estimates of every window that a verdict looks at."""

from __future__ import annotations

import datetime as dt
import math

import pandas as pd
import pytest
from scipy import stats

from retrieval_quality.clusters import ResamplingUnit
from retrieval_quality.verdicts import COLUMNS, KEY, slo_estimates

NIGHT = dt.date(2026, 11, 29)


def key(role: str, segment_value: str = "total") -> dict[str, object]:
    return {"slo_id": "hits", "segment_value": segment_value, "night_on": NIGHT, "window_role": role}


def counts(role: str, n: int, segment_value: str = "total") -> dict[str, object]:
    return key(role, segment_value) | {
        "breach_below": 0.68, "n_units": n, "n_eff": float(n) if n else None, "n_traces": n + 5, "n_scored": n,
        "judged_share": 1.0, "is_identifiable": True,
    }  # fmt: skip


def estimated(
    histograms: pd.DataFrame, denominators: pd.DataFrame, clusters: list[dict[str, object]] | None = None
) -> pd.DataFrame:
    pairs = pd.DataFrame(clusters or [], columns=[*KEY, "score_sum", "unit_sum", "n_clusters"])
    unit: ResamplingUnit = "user" if clusters else "session"
    return slo_estimates(histograms, denominators, pairs, resampling_unit=unit, confidence=0.95, ci_method="bca")


@pytest.fixture
def estimates() -> pd.DataFrame:
    histograms = pd.DataFrame(
        [
            # 110 of 200 sessions found something that night, 0 of nothing before
            key("judged") | {"value": 1.0, "weight": 110_000_000},
            key("judged") | {"value": 0.0, "weight": 90_000_000},
            key("night") | {"value": 1.0, "weight": 3_000_000},
        ]
    )
    denominators = pd.DataFrame([counts("night", 3), counts("judged", 200), counts("baseline", 0)])
    return estimated(histograms, denominators)


def test_every_window_has_a_row_in_the_order_of_its_key(estimates: pd.DataFrame) -> None:
    assert list(estimates.columns) == COLUMNS
    assert list(estimates["window_role"]) == ["baseline", "judged", "night"]
    assert list(estimates[KEY].duplicated()) == [False, False, False]


def test_the_bounds_and_the_p_value_are_those_of_the_binomial(estimates: pd.DataFrame) -> None:
    judged = estimates.set_index("window_role").loc["judged"]
    exact = stats.binomtest(110, 200).proportion_ci(0.95, "exact")
    assert judged["estimate"] == 0.55
    assert (judged["bound_low"], judged["bound_high"]) == pytest.approx((exact.low, exact.high), abs=1e-6)
    # of 110 or fewer of 200 when the truth is .68, the objective minus its margin
    assert judged["p_value"] == pytest.approx(stats.binom.cdf(110, 200, 0.68), rel=1e-5)


def test_a_window_without_a_score_says_nothing(estimates: pd.DataFrame) -> None:
    baseline = estimates.set_index("window_role").loc["baseline"]
    assert (baseline["bound_low"], baseline["bound_high"], baseline["n_units"]) == (0.0, 1.0, 0)
    assert math.isnan(baseline["estimate"])
    assert math.isnan(baseline["p_value"])
    assert pd.isna(baseline["ci_method"])


def test_no_objective_is_no_row() -> None:
    histograms = pd.DataFrame({name: pd.Series(dtype="object") for name in KEY}).assign(
        value=pd.Series(dtype="float64"), weight=pd.Series(dtype="int64")
    )
    denominators = pd.DataFrame([counts("judged", 1)]).iloc[:0]
    found = estimated(histograms, denominators)
    assert (list(found.columns), len(found)) == (COLUMNS, 0)


def test_the_bounds_and_the_p_value_of_clustered_sessions_are_those_of_fewer() -> None:
    # 40 users of 5 sessions each: 22 find something in all of them, 18 in none. Residuals 5 (1 - .55)
    # and -5 * .55: squares 22 * 2.25^2 + 18 * 2.75^2 = 247.5; 40/39 * 247.5 / 200^2 = .0063462. As many
    # independent sessions: .55 * .45 / 199 = .00124372. Design effect 5.1026.
    histograms = pd.DataFrame(
        [key("judged") | {"value": 1.0, "weight": 110_000_000}, key("judged") | {"value": 0.0, "weight": 90_000_000}]
    )
    users = [
        key("judged") | {"score_sum": 5_000_000, "unit_sum": 5_000_000, "n_clusters": 22},
        key("judged") | {"score_sum": 0, "unit_sum": 5_000_000, "n_clusters": 18},
    ]
    (row,) = estimated(histograms, pd.DataFrame([counts("judged", 200)]), users).to_dict("records")
    few = (stats.t.ppf(0.975, 39) / stats.norm.ppf(0.975)) ** 2
    n_eff = 200 / (5.1026 * few)
    assert (row["estimate"], row["resampling_unit"], row["n_clusters"], row["n_units"]) == (0.55, "user", 40, 200)
    assert row["design_effect"] == pytest.approx(5.1026, abs=1e-4)
    assert row["n_eff"] == pytest.approx(n_eff, rel=1e-4)
    assert row["bound_high"] == pytest.approx(stats.beta.ppf(0.975, 0.55 * n_eff + 1, 0.45 * n_eff), abs=1e-4)
    # the binomial tail of that many: P(X <= .55 n) is the Beta tail of what was not found
    assert row["p_value"] == pytest.approx(stats.beta.cdf(0.32, 0.45 * n_eff, 0.55 * n_eff + 1), rel=1e-3)
    # as independent sessions it would have been beyond doubt
    alone = estimated(histograms, pd.DataFrame([counts("judged", 200)])).iloc[0]
    assert alone["p_value"] < 0.025 / 200 < 0.025 < row["p_value"]
