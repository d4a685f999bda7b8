"""Estimates of every window that a verdict looks at."""

from __future__ import annotations

import datetime as dt
import math

import pandas as pd
import pytest
from scipy import stats

from retrieval_quality.verdicts import COLUMNS, KEY, slo_estimates

NIGHT = dt.date(2026, 11, 29)


def key(role: str, segment_value: str = "total") -> dict[str, object]:
    return {"slo_id": "hits", "segment_value": segment_value, "night_on": NIGHT, "window_role": role}


def counts(role: str, n: int, segment_value: str = "total") -> dict[str, object]:
    return key(role, segment_value) | {
        "breach_below": 0.68, "n_units": n, "n_eff": float(n) if n else None, "n_traces": n + 5, "n_scored": n,
        "judged_share": 1.0, "is_identifiable": True,
    }  # fmt: skip


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
    return slo_estimates(histograms, denominators, confidence=0.95, ci_method="bca")


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
    found = slo_estimates(histograms, denominators, confidence=0.95, ci_method="bca")
    assert (list(found.columns), len(found)) == (COLUMNS, 0)
