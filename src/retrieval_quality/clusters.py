"""Means whose units come in clusters: sessions of one user, or of one night.

Units of a cluster resemble each other, so n units tell less than n: ignoring that, an interval of 60
users with some four sessions each holds the truth in three cases of four instead of nineteen of
twenty. The mean is the ratio sum(score) / sum(units) over clusters; its spread comes from the
clusters. The statistic that SQL hands over is again a histogram: of pairs (score_sum, unit_sum).
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
from scipy import special

from retrieval_quality.intervals import MDD_FACTOR, MILLIONTHS, CiMethod, Floats, mean_intervals

ResamplingUnit = Literal["session", "user", "night"]
CLUSTERING = ["resampling_unit", "n_clusters", "design_effect"]


def resampled_estimates(
    histogram: pd.DataFrame,
    clusters: pd.DataFrame,
    denominators: pd.DataFrame,
    keys: Sequence[str],
    *,
    resampling_unit: ResamplingUnit,
    confidence: float,
    ci_method: CiMethod,
) -> pd.DataFrame:
    """Denominators with the estimate and the intervals of their group: of `mean_intervals`, or of
    `cluster_intervals` where its clusters are known. Scores are from 0 to 1.

    A group keeps its sessions where its clusters do not hold every unit (a window too short for
    nights, or days whose users are gone), and where every cluster is one unit, as then both say the
    same of independent units, and the sessions exactly.

    Args:
        histogram, keys, confidence, ci_method: as in `mean_intervals`.
        clusters: as in `cluster_intervals`; no rows where sessions are resampled.
        denominators: one row per `keys`; among the columns n_units (units counted) and n_eff (units,
            NULL where there are none).
        resampling_unit: what the clusters are.

    Returns:
        One row per row of `denominators`: its columns (n_eff: that of the intervals), the columns of
        `mean_intervals`, and `CLUSTERING`: what was resampled, n_clusters and design_effect (both NULL
        for sessions). Where nothing was scored the estimate is NULL and the bound is the whole range.

    Raises:
        ValueError: a histogram has no denominators.
    """
    n_eff = denominators.loc[denominators["n_eff"].notna(), [*keys, "n_eff"]]
    intervals = mean_intervals(histogram, keys, n_eff=n_eff, confidence=confidence, ci_method=ci_method).assign(
        resampling_unit="session", n_clusters=None, design_effect=np.nan
    )
    known = _clustered_groups(histogram, clusters, denominators, keys)
    if not known.empty:
        clustered = cluster_intervals(
            clusters.merge(known, on=list(keys)),
            histogram.merge(known, on=list(keys)),
            keys,
            n_eff=n_eff.merge(known, on=list(keys)),
            confidence=confidence,
            ci_method=ci_method,
        ).assign(resampling_unit=resampling_unit)
        both = [clustered[intervals.columns], intervals]
        intervals = pd.concat(both).drop_duplicates(list(keys), ignore_index=True)
    estimates = denominators.drop(columns="n_eff").merge(intervals, on=list(keys), how="left", validate="one_to_one")
    if estimates["resampling_unit"].notna().sum() != len(intervals):
        raise ValueError("a histogram has no denominators: two models disagree about what there is")
    undefined = {"bound_low": 0.0, "bound_high": 1.0, "resampling_unit": "session"}
    return estimates.fillna(undefined).astype({"n_clusters": "Int64", "resampling_unit": "str"})


def _clustered_groups(
    histogram: pd.DataFrame, clusters: pd.DataFrame, denominators: pd.DataFrame, keys: Sequence[str]
) -> pd.DataFrame:
    """The `keys` of groups whose clusters hold every unit, and some of them more than one."""
    if clusters.empty:
        return clusters[list(keys)]
    held = clusters.assign(_held=clusters["unit_sum"] * clusters["n_clusters"])
    held = held.groupby(list(keys), dropna=False, observed=True)[["_held", "n_clusters"]].sum().reset_index()
    weighed = histogram.groupby(list(keys), dropna=False, observed=True)["weight"].sum().reset_index()
    both = held.merge(weighed, on=list(keys)).merge(denominators[[*keys, "n_units"]], on=list(keys))
    return both.loc[(both["_held"] == both["weight"]) & (both["n_clusters"] < both["n_units"]), list(keys)]


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

    With cluster sums s_j of m_j units the estimate is sum s / sum m, which is the mean of the unit
    histogram and is taken from there, as sums may be rounded. std_error is from the linearised
    residuals r_j = s_j - m_j sum s / sum m (Cochran, Sampling Techniques, 1977, ch. 6: J / (J - 1)
    sum r^2 / (sum m)^2); design_effect = (std_error / that of independent units)^2. ci_*: bootstrap
    of the mean of r by the saddlepoint of `mean_intervals`, divided by the mean m and moved by the
    estimate. bound_*: the bounded interval of the unit histogram with its counts divided by max(1, design
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
    residual = rows["score_sum"].to_numpy() - rows["_ratio"].to_numpy() * rows["unit_sum"].to_numpy()
    units = mean_intervals(
        histogram, keys, n_eff=n_eff, confidence=confidence, ci_method=ci_method, lower=lower, upper=upper
    )
    alone = totals[list(keys)].merge(units, on=list(keys), how="left", validate="one_to_one")
    if alone["estimate"].isna().any():
        raise ValueError("a group of clusters has no histogram of units")
    estimate = _floats(alone, "estimate")
    centre = rows[list(keys)].merge(alone, on=list(keys), how="left", validate="many_to_one")
    # rounded, as what division leaves of equal means is no spread
    linearised = _floats(centre, "estimate") + np.round(residual / rows["_mean_units"].to_numpy(), 12)
    spread = mean_intervals(
        rows[list(keys)].assign(value=linearised, weight=rows["n_clusters"] * MILLIONTHS),
        keys,
        confidence=confidence,
        ci_method=ci_method,
        lower=float(linearised.min(initial=lower)) - 1.0,
        upper=float(linearised.max(initial=upper)) + 1.0,
    )

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

    bound_low = np.minimum(_floats(bounds, "bound_low"), estimate)
    bound_high = np.maximum(_floats(bounds, "bound_high"), estimate)
    ci_low, ci_high = np.minimum(_floats(spread, "ci_low"), estimate), np.maximum(_floats(spread, "ci_high"), estimate)
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
        _ratio=totals["_scores"] / totals["_units"], _mean_units=totals["_units"] / totals["_clusters"]
    )


def _few_clusters(n_clusters: Floats, confidence: float) -> Floats:
    """(t / z)^2 with J - 1 degrees of freedom: what the variance of J clusters is short of."""
    level = 0.5 + confidence / 2
    quantile = special.stdtrit(np.maximum(n_clusters - 1, 1.0), level)
    result: Floats = (quantile / special.ndtri(level)) ** 2
    return result


def _floats(frame: pd.DataFrame, name: str) -> Floats:
    return frame[name].to_numpy(dtype=np.float64)
