"""Window histograms and denominators to published estimates: the library behind the Python marts."""

from __future__ import annotations

import pandas as pd

from retrieval_quality.clusters import CLUSTERING, ResamplingUnit, resampled_estimates
from retrieval_quality.intervals import CiMethod

WINDOW = ["window_name", "window_start_at", "window_end_at"]
SEGMENT = ["traffic", "segment_dimension", "segment_value", "stage", "label_class", "metric", "k"]
KEY = [*WINDOW, *SEGMENT]
ESTIMATE = [
    "estimate", "ci_low", "ci_high", "ci_method", "bound_low", "bound_high", "std_error", "mdd",
    "estimate_low", "estimate_high",
]  # fmt: skip
DENOMINATORS = [
    "n_units", "n_eff", "n_traces", "n_scored", "n_unlabelled", "n_no_relevant", "n_undefined", "n_stage_absent",
    "n_fault", "n_no_results", "n_duplicates", "n_missing",
]  # fmt: skip
FLOATS = ["judged_share", "n_eff", "design_effect", *(name for name in ESTIMATE if name != "ci_method"), "stability"]
TEXTS = ["window_name", *(name for name in SEGMENT if name != "k"), "completeness", "ci_method", "resampling_unit"]
WINDOW_COLUMNS = [*KEY, "completeness", "is_identifiable", "judged_share", *ESTIMATE, *CLUSTERING, *DENOMINATORS]
WEEKLY_COLUMNS = ["week_start_on", *SEGMENT, *WINDOW_COLUMNS[len(KEY) :], "stability"]


def window_estimates(
    histograms: pd.DataFrame,
    denominators: pd.DataFrame,
    clusters: pd.DataFrame,
    *,
    resampling_unit: ResamplingUnit,
    confidence: float,
    ci_method: CiMethod,
) -> pd.DataFrame:
    """Estimate every window x segment x stage x label class x metric x k.

    Args:
        histograms: `KEY`, value (score) and weight (integer millionths of a unit).
        denominators: one row per `KEY`: `DENOMINATORS`, completeness, is_identifiable,
            judged_share (mean judged@k of the labelled traces, 0-1 or NULL).
        clusters: `KEY`, score_sum, unit_sum (integer millionths) and n_clusters; no rows where
            sessions are resampled.
        resampling_unit: what the clusters are.
        confidence: level of both intervals, in (0, 1).
        ci_method: the bootstrap interval to publish, `bca` or `percentile`.

    Returns:
        One row per row of `denominators`, sorted by `KEY`, with `WINDOW_COLUMNS`. Where nothing was
        scored the estimate is NULL and the bound is the whole range. resampling_unit says what the
        intervals of a row resample, see `resampled_estimates`. estimate_low and
        estimate_high are the estimate with the share of traces that was not scored counted as 0
        and as 1.

    Raises:
        ValueError: a histogram has no denominators.
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
    scored_share = estimates["n_scored"] / estimates["n_traces"]
    scored_sum = (estimates["estimate"] * scored_share).fillna(0.0)
    estimates = estimates.assign(estimate_low=scored_sum, estimate_high=scored_sum + (1.0 - scored_share))
    return _published(estimates, KEY, WINDOW_COLUMNS)


def weekly_series(weeks: pd.DataFrame) -> pd.DataFrame:
    """The `week` windows of mart_retrieval_quality as a series per segment, with its stability.

    Stability is the standard deviation of the weekly estimates over their mean half-width (of the
    bounds): near or below .6 the series moves as its intervals say, well above it something real
    moved. NULL with fewer than two scored weeks.

    Args:
        weeks: rows of window `week`, `WINDOW_COLUMNS`.

    Returns:
        One row per ISO week (its Monday, UTC) and `SEGMENT`, sorted, with `WEEKLY_COLUMNS`.
    """
    scored = weeks[weeks["estimate"].notna()]
    spread = (
        scored.assign(half_width=(scored["bound_high"] - scored["bound_low"]) / 2)
        .groupby(SEGMENT, sort=True)
        .agg(sd=("estimate", "std"), half_width=("half_width", "mean"))
    )
    stability = (spread["sd"] / spread["half_width"]).rename("stability").reset_index()
    series = weeks.merge(stability, on=SEGMENT, how="left")
    week_start_on = series["window_start_at"].astype("date32[pyarrow]")
    return _published(series.assign(week_start_on=week_start_on), ["week_start_on", *SEGMENT], WEEKLY_COLUMNS)


def _published(frame: pd.DataFrame, key: list[str], columns: list[str]) -> pd.DataFrame:
    """Sorted by key, with these columns, typed also where there is no row."""
    types = {name: "str" if name in TEXTS else "float64" for name in columns if name in (*TEXTS, *FLOATS)}
    return frame.sort_values(key, kind="stable", ignore_index=True)[columns].astype(types)
