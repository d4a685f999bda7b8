"""Estimates that say more than the labels of one class: the library behind mart_corrected_estimates."""

from __future__ import annotations

import numpy as np
import pandas as pd

from retrieval_quality.prediction_powered import prediction_powered, selection_weighted

WINDOW = ["window_name", "window_start_at", "window_end_at", "traffic"]
SEGMENT = ["segment_dimension", "segment_value"]
PAIR = [*WINDOW, *SEGMENT, "stage", "trusted_class", "cheap_class", "metric", "k"]
PLACES = [*WINDOW, *SEGMENT, "k"]
KEY = [*WINDOW, *SEGMENT, "stage", "method", "trusted_class", "cheap_class", "metric", "k"]
ESTIMATE = [
    "estimate", "std_error", "ci_low", "ci_high", "bound_low", "bound_high", "estimate_low", "estimate_high",
    "uncorrected_estimate", "uncorrected_low", "uncorrected_high", "n_eff",
]  # fmt: skip
PREDICTION = ["tuning", "tuning_source", "correlation", "width_ratio", "n_equivalent"]
SELECTION = ["covered_share", "lowest_propensity"]
COUNTS = ["n_labelled", "n_units", "n_traces", "n_scored"]
COLUMNS = [
    *KEY, "is_identifiable", "judged_share", *ESTIMATE, *PREDICTION, *SELECTION, "is_contradicted", "n_days", *COUNTS,
    "reason", "assumption",
]  # fmt: skip
TEXTS = [
    "window_name", "traffic", *SEGMENT, "stage", "method", "trusted_class", "cheap_class", "metric", "tuning_source",
    "reason", "assumption",
]  # fmt: skip
FLOATS = ["judged_share", *ESTIMATE, *(name for name in PREDICTION if name != "tuning_source"), *SELECTION]

RANDOM_SAMPLE = (
    "sessions with a trusted label are a random sample of the segment on the days that have one, "
    "drawn with the inclusion probabilities landed"
)
NOT_BY_RELEVANCE = "within an intent and a rank, whether feedback judges a shown chunk does not depend on its relevance"


def corrected_estimates(
    pairs: pd.DataFrame,
    joint: pd.DataFrame,
    unlabelled: pd.DataFrame,
    feedback: pd.DataFrame,
    judged_places: pd.DataFrame,
    shown_places: pd.DataFrame,
    *,
    confidence: float,
) -> pd.DataFrame:
    """Both corrected estimates of every window, segment and metric that has the labels for it.

    `prediction_powered`: trusted labels of a random sample with a cheap score, both of the days of
    the window that have a trusted label. Segments with few trusted units borrow the tuning of all
    values of their dimension.
    `selection_weighted`: precision of the final list from explicit feedback on single places, by the
    inverse propensity of a place to be judged, in cells of intent x rank. A place weighs as its list,
    the lists of a session-day together 1 / sample rate. Places of one session-day count as one unit:
    (sum of judged weight)^2 / sum of its squares by unit.

    Args:
        pairs: one row per `PAIR`: sampling, n_labelled, n_units (with a cheap score), n_eff
            (effective number of those not labelled), n_days, n_traces, n_scored, judged_share,
            is_identifiable.
        joint: `PAIR`, trusted_score, cheap_score (0-1; NULL: no signal, 0),
            inclusion_probability (0-1), unit_weight (millionths: 1 / sample rate), n_units.
        unlabelled: `PAIR`, value (cheap score), weight (millionths of a unit).
        feedback: one row per `PLACES`: n_labelled, n_units (lists), n_eff (independent units among
            the labels), shown_share (of the k places: those that were there), n_traces, n_scored,
            judged_share.
        judged_places, shown_places: `PLACES`, intent, rank, weight (millionths of a list); judged
            ones with value (1 relevant, 0 not).
        confidence: level of all intervals, in (0, 1).

    Returns:
        One row per row of `pairs` and of `feedback`, sorted by `KEY`, with `COLUMNS`. Where `reason`
        says why there is no estimate, all statistics are NULL. is_contradicted: does a
        prediction-powered interval of the same number lie wholly apart from the selection-weighted
        one? NULL where there are not both.

    Raises:
        ValueError: a row of `pairs` or `feedback` has no labels, or the reverse.
    """
    predicted = _predicted(pairs, joint, unlabelled, confidence)
    weighted = _against_samples(_weighted(feedback, judged_places, shown_places, confidence), predicted)
    return _published(pd.concat([rows for rows in (predicted, weighted) if len(rows)] or [predicted]))


def _predicted(pairs: pd.DataFrame, joint: pd.DataFrame, unlabelled: pd.DataFrame, confidence: float) -> pd.DataFrame:
    labelled = pd.DataFrame(
        {
            **{name: joint[name] for name in PAIR},
            "trusted": joint["trusted_score"],
            "cheap": joint["cheap_score"].fillna(0.0),
            "inclusion_probability": joint["inclusion_probability"],
            "sample_rate": 1e6 / joint["unit_weight"],
            "weight": joint["n_units"] * 1_000_000,
        }
    )
    statistics = prediction_powered(
        labelled,
        unlabelled,
        PAIR,
        sampling=pairs[[*PAIR, "sampling"]],
        pool=[name for name in PAIR if name != "segment_value"],
        n_eff=pairs.loc[pairs["n_eff"] > 0, [*PAIR, "n_eff"]],
        confidence=confidence,
    ).rename(columns={f"trusted_{end}": f"uncorrected_{end}" for end in ("estimate", "low", "high")})
    rows = _joined(pairs.drop(columns="n_eff"), statistics.drop(columns=["n_trusted", "n_cheap"]), PAIR)
    return rows.assign(method="prediction_powered", assumption=RANDOM_SAMPLE)


def _weighted(
    feedback: pd.DataFrame, judged_places: pd.DataFrame, shown_places: pd.DataFrame, confidence: float
) -> pd.DataFrame:
    statistics = selection_weighted(
        judged_places,
        shown_places,
        PLACES,
        ["intent", "rank"],
        n_eff=feedback[[*PLACES, "n_eff"]],
        confidence=confidence,
    ).rename(columns={f"labelled_{end}": f"uncorrected_{end}" for end in ("estimate", "low", "high")})
    rows = _joined(feedback.drop(columns="n_eff"), statistics.drop(columns=["n_labelled", "n_all"]), PLACES)
    shown = {name: rows[name] * rows["shown_share"] for name in ESTIMATE if name != "n_eff"}
    return rows.assign(
        **shown,
        # it rests on its assumption, which no label can confirm
        is_identifiable=False,
        stage="final",
        method="selection_weighted",
        trusted_class="explicit",
        metric="precision",
        assumption=NOT_BY_RELEVANCE,
    )


def _against_samples(weighted: pd.DataFrame, predicted: pd.DataFrame) -> pd.DataFrame:
    """Whether the interval of a random sample lies apart: then the assumption does not hold."""
    key = [name for name in PAIR if not name.endswith("_class")]
    samples = predicted[predicted["is_identifiable"] & predicted["estimate"].notna()]
    ends = samples.groupby(key, sort=True).agg(lowest_end=("ci_high", "min"), highest_start=("ci_low", "max"))
    rows = weighted.merge(ends.reset_index(), on=key, how="left", validate="one_to_one")
    is_apart = (rows["ci_low"] > rows["lowest_end"]) | (rows["ci_high"] < rows["highest_start"])
    is_known = rows["estimate"].notna() & rows["lowest_end"].notna()
    return rows.assign(is_contradicted=is_apart.astype("boolean").where(is_known))


def _joined(counted: pd.DataFrame, statistics: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    rows = counted.merge(statistics, on=key, how="outer", validate="one_to_one", indicator=True)
    if (rows["_merge"] != "both").any():
        raise ValueError("labels without counts, or counts without labels: the models of corrected/ disagree")
    return rows.drop(columns="_merge")


def _published(rows: pd.DataFrame) -> pd.DataFrame:
    """Sorted, with all columns, typed also where there is no row."""
    types: dict[str, str] = dict.fromkeys(TEXTS, "str") | dict.fromkeys(FLOATS, "float64")
    types |= dict.fromkeys(COUNTS, "int64")
    types |= {"k": "int32", "n_days": "Int64", "is_identifiable": "bool", "is_contradicted": "boolean"}
    rows = rows.reindex(columns=COLUMNS).astype(types)
    numbers = rows[FLOATS].to_numpy()
    rows[FLOATS] = np.where(np.isfinite(numbers), numbers, np.nan)
    return rows.sort_values(KEY, kind="stable", ignore_index=True)
