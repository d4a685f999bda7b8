"""Means whose units come in clusters: sessions of one user, or of one night.

Units of a cluster resemble each other, so n units tell less than n: ignoring that, an interval of 60
users with some four sessions each holds the truth in three cases of four instead of nineteen of
twenty. The mean is the ratio sum(score) / sum(units) over clusters; its spread comes from the
clusters. The statistic that SQL hands over is again a histogram: of pairs (score_sum, unit_sum).
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import special

from retrieval_quality.intervals import MDD_FACTOR, MILLIONTHS, CiMethod, Floats, mean_intervals


def cluster_intervals(
    clusters: pd.DataFrame,
    histogram: pd.DataFrame,
    keys: Sequence[str],
    *,
    n_eff: pd.DataFrame | None = None,
    confidence: float = 0.95,
    ci_method: CiMethod = "bca",
    lower: float = 0.0,
    upper: float = 1.0,
) -> pd.DataFrame:
    """Estimate the mean score of every group, with intervals that resample clusters, not units.

    With cluster sums s_j of m_j units: estimate = sum s / sum m; std_error from the linearised
    residuals r_j = s_j - estimate m_j (Cochran, Sampling Techniques, 1977, ch. 6: J / (J - 1) sum
    r^2 / (sum m)^2); design_effect = (std_error / that of independent units)^2. ci_*: bootstrap of
    the mean of r by the saddlepoint of `mean_intervals`, moved by estimate and divided by the mean
    m. bound_*: the bounded interval of the unit histogram with its counts divided by max(1, design
    effect), which is raised by (t / z)^2 with J - 1 degrees of freedom, as few clusters know their
    own spread badly. Where units do not vary at all, or there is one cluster, nothing is known of
    the resemblance, and each cluster counts as one unit.

    Args:
        clusters: `keys`, `score_sum` and `unit_sum` (integer millionths: summed scores and units of
            one cluster; unit_sum > 0, and the mean of a cluster within [lower, upper]),
            `n_clusters` (whole number of clusters with this pair). Equal rows are added.
        histogram: the units of the same groups: `keys`, `value`, `weight`, as in `mean_intervals`.
        n_eff: effective units as in `mean_intervals` (unequal sample rates), before clustering.
        keys, confidence, ci_method, lower, upper: as in `mean_intervals`.

    Returns:
        One row per group of `clusters`, sorted by `keys`: keys, n_clusters, n_units, n_eff (units
        after the design effect), estimate, std_error (NaN for one cluster), design_effect (NaN
        where unknown), ci_method ("bounded" where the bootstrap has no width or leaves the range:
        then ci_* equal bound_*), ci_low, ci_high, bound_low, bound_high, mdd (score units).

    Raises:
        ValueError: as `mean_intervals`; sums that are no whole numbers or outside the range; a group
            without a histogram.
    """
    pairs = _pairs(clusters, keys, lower, upper)
    totals = _totals(pairs, keys)
    rows = pairs.merge(totals, on=list(keys), how="left", validate="many_to_one")
    residual = rows["score_sum"].to_numpy() - rows["_estimate"].to_numpy() * rows["unit_sum"].to_numpy()
    linearised = rows["_estimate"].to_numpy() + residual / rows["_mean_units"].to_numpy()
    spread = mean_intervals(
        rows[list(keys)].assign(value=linearised, weight=rows["n_clusters"] * MILLIONTHS),
        keys,
        confidence=confidence,
        ci_method=ci_method,
        lower=float(linearised.min(initial=lower)) - 1.0,
        upper=float(linearised.max(initial=upper)) + 1.0,
    )
    units = mean_intervals(
        histogram, keys, n_eff=n_eff, confidence=confidence, ci_method=ci_method, lower=lower, upper=upper
    )
    alone = totals[list(keys)].merge(units, on=list(keys), how="left", validate="one_to_one")
    if alone["estimate"].isna().any():
        raise ValueError("a group of clusters has no histogram of units")

    n_clusters = totals["_clusters"].to_numpy(dtype=np.float64)
    error, unit_error = _floats(spread, "std_error"), _floats(alone, "std_error")
    is_known = (n_clusters > 1) & (unit_error > 0)
    effect = np.where(is_known, (error / np.where(is_known, unit_error, 1.0)) ** 2, np.nan)
    n_units = _floats(alone, "n_eff")
    raised = np.maximum(1.0, effect * _few_clusters(n_clusters, confidence))
    n_left = np.where(is_known, n_units / np.where(is_known, raised, 1.0), np.minimum(n_units, n_clusters))
    bounds = mean_intervals(
        histogram.merge(totals[list(keys)], on=list(keys), how="inner"),
        keys,
        n_eff=totals[list(keys)].assign(n_eff=n_left),
        confidence=confidence,
        ci_method=ci_method,
        lower=lower,
        upper=upper,
    )

    estimate = totals["_estimate"].to_numpy()
    bound_low = np.minimum(_floats(bounds, "bound_low"), estimate)
    bound_high = np.maximum(_floats(bounds, "bound_high"), estimate)
    ci_low, ci_high = _floats(spread, "ci_low"), _floats(spread, "ci_high")
    is_bounded = (spread["ci_method"] == "bounded").to_numpy() | (ci_low < lower) | (ci_high > upper)
    return totals[list(keys)].assign(
        n_clusters=totals["_clusters"],
        n_units=totals["_units"] / MILLIONTHS,
        n_eff=n_left,
        estimate=estimate,
        std_error=error,
        design_effect=effect,
        ci_method=pd.Series(np.where(is_bounded, "bounded", ci_method), dtype="str"),
        ci_low=np.where(is_bounded, bound_low, ci_low),
        ci_high=np.where(is_bounded, bound_high, ci_high),
        bound_low=bound_low,
        bound_high=bound_high,
        mdd=np.fmax(MDD_FACTOR * error, estimate - bound_low),
    )


def _pairs(clusters: pd.DataFrame, keys: Sequence[str], lower: float, upper: float) -> pd.DataFrame:
    """Distinct pairs of every group, sorted, with their number of clusters (exact: integers)."""
    numbers = ["score_sum", "unit_sum", "n_clusters"]
    missing = [name for name in (*keys, *numbers) if name not in clusters.columns]
    if missing:
        raise ValueError(f"clusters lacks the columns {missing}")
    if isinstance(keys, str) or not keys or set(numbers) & set(keys):
        raise ValueError(f"keys must be column names outside {numbers}: {keys!r}")
    raw = clusters[numbers].to_numpy(dtype=np.float64, na_value=np.nan)
    if not np.all(raw == np.floor(raw)) or not np.all(raw[:, 2] >= 0) or not np.all(raw[:, 1] > 0):
        raise ValueError("score_sum, unit_sum > 0 and n_clusters >= 0 must be whole numbers")
    # a sum of rounded scores may miss the range by half a millionth a unit
    slack = 0.5 + raw[:, 1] / MILLIONTHS
    if np.any((raw[:, 0] < lower * raw[:, 1] - slack) | (raw[:, 0] > upper * raw[:, 1] + slack)):
        raise ValueError(f"the mean score of a cluster lies outside [{lower}, {upper}]")
    whole = clusters[list(keys)].assign(**{name: clusters[name].astype("int64") for name in numbers})
    whole = whole[whole["n_clusters"] > 0]
    by_pair = whole.groupby([*keys, *numbers[:2]], dropna=False, sort=True, observed=True)
    return by_pair["n_clusters"].sum().reset_index()


def _totals(pairs: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Per group: clusters, units, the ratio estimate, the mean units (millionths) of a cluster."""
    weighted = pairs[list(keys)].assign(
        _scores=pairs["score_sum"] * pairs["n_clusters"],
        _units=pairs["unit_sum"] * pairs["n_clusters"],
        _clusters=pairs["n_clusters"],
    )
    totals = weighted.groupby(list(keys), dropna=False, sort=True, observed=True).sum().reset_index()
    return totals.assign(
        _estimate=totals["_scores"] / totals["_units"], _mean_units=totals["_units"] / totals["_clusters"]
    )


def _few_clusters(n_clusters: Floats, confidence: float) -> Floats:
    """(t / z)^2 with J - 1 degrees of freedom: what the variance of J clusters is short of."""
    level = 0.5 + confidence / 2
    quantile = special.stdtrit(np.maximum(n_clusters - 1, 1.0), level)
    result: Floats = (quantile / special.ndtri(level)) ** 2
    return result


def _floats(frame: pd.DataFrame, name: str) -> Floats:
    return frame[name].to_numpy(dtype=np.float64)
