"""Service level objectives: estimates, intervals and p-values of every window a verdict looks at."""

from __future__ import annotations

import pandas as pd

from retrieval_quality.clusters import CLUSTERING, ResamplingUnit, resampled_estimates
from retrieval_quality.intervals import CiMethod, bounded_p_values

KEY = ["slo_id", "segment_value", "night_on", "window_role"]
ESTIMATE = ["estimate", "ci_low", "ci_high", "ci_method", "bound_low", "bound_high", "std_error", "mdd", "p_value"]
COUNTS = ["n_units", "n_eff", "n_traces", "n_scored", "judged_share", "is_identifiable"]
COLUMNS = [*KEY, *ESTIMATE, *CLUSTERING, *COUNTS]


def slo_estimates(
    histograms: pd.DataFrame,
    denominators: pd.DataFrame,
    clusters: pd.DataFrame,
    *,
    resampling_unit: ResamplingUnit,
    confidence: float,
    ci_method: CiMethod,
) -> pd.DataFrame:
    """Estimate every window of every objective, segment value and night.

    Args:
        histograms: `KEY`, value (score) and weight (integer millionths of a unit).
        denominators: one row per `KEY`: `COUNTS` and breach_below (objective minus margin).
        clusters: `KEY`, score_sum, unit_sum (integer millionths) and n_clusters; no rows where
            sessions are resampled.
        resampling_unit: what the clusters are.
        confidence: level of both intervals, in (0, 1).
        ci_method: the bootstrap interval to publish, `bca` or `percentile`.

    Returns:
        One row per row of `denominators`, sorted by `KEY`, with `COLUMNS`. p_value is one-sided, of
        the hypothesis that the mean is at least `breach_below`, from the distribution of the bounds.
        Where nothing was scored the estimate and p_value are NULL and the bound is the whole range.
    """
    estimates = resampled_estimates(
        histograms,
        clusters,
        denominators,
        KEY,
        resampling_unit=resampling_unit,
        confidence=confidence,
        ci_method=ci_method,
    )
    thresholds = denominators[[*KEY, "breach_below"]].rename(columns={"breach_below": "threshold"})
    p_values = bounded_p_values(histograms, KEY, thresholds, n_eff=estimates[[*KEY, "n_eff"]])
    estimates = estimates.merge(p_values[[*KEY, "p_value"]], on=KEY, how="left", validate="one_to_one")
    floats = dict.fromkeys([name for name in (*ESTIMATE, "design_effect") if name != "ci_method"], "float64")
    texts = dict.fromkeys(["slo_id", "segment_value", "window_role", "ci_method", "resampling_unit"], "str")
    days = {"night_on": "date32[pyarrow]"}
    return estimates.sort_values(KEY, kind="stable", ignore_index=True)[COLUMNS].astype(floats | texts | days)
