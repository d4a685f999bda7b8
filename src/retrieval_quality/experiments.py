"""Experiments: treatment against control, from the histograms of their arms."""

from __future__ import annotations

import numpy as np
import pandas as pd

from retrieval_quality.comparisons import holm, paired_differences, sample_ratio_mismatch, unpaired_differences
from retrieval_quality.intervals import CiMethod

SEGMENT = ["segment_dimension", "segment_value"]
SCORE = ["stage", "label_class", "metric", "k"]
PAIR = ["experiment_id", "control", "treatment"]
GROUP = ["experiment_id", *SEGMENT, *SCORE]
KEY = [*PAIR, *SEGMENT, *SCORE]
COUNTS = ["n_traces", "n_scored", "scored_share", "judged_share", "duplicates_per_trace", "is_identifiable"]
DIFFERENCE = [
    "difference", "std_error", "ci_low", "ci_high", "ci_method", "bound_low", "bound_high", "anytime_low",
    "anytime_high", "p_value", "mdd", "power_reached",
]  # fmt: skip
COLUMNS = [
    *KEY, "design", "mean_control", "mean_treatment", *DIFFERENCE, "p_holm", "relative_change", "n_units_needed",
    "n_control", "n_treatment", *(f"{name}_{arm}" for arm in ("control", "treatment") for name in COUNTS[:-1]),
    "is_identifiable", "srm_p_value", "is_sample_ratio_mismatch", "verdict", "warning",
]  # fmt: skip
TEXTS = [*PAIR, *SEGMENT, "stage", "label_class", "metric", "design", "ci_method", "verdict", "warning"]
INTEGERS = ["k", *(f"{name}_{arm}" for arm in ("control", "treatment") for name in ("n_traces", "n_scored"))]
BOOLEANS = ["is_identifiable", "is_sample_ratio_mismatch"]

# Arms that are judged this differently cannot be compared on metrics that count the unjudged as not relevant.
JUDGED_APART = 0.10
DUPLICATES_APART = 0.10


def experiment_comparisons(
    histograms: pd.DataFrame,
    denominators: pd.DataFrame,
    differences: pd.DataFrame,
    arms: pd.DataFrame,
    units: pd.DataFrame,
    *,
    confidence: float,
    ci_method: CiMethod,
) -> pd.DataFrame:
    """Compare every treatment with its control, in every segment, stage, label class, metric and k.

    Args:
        histograms: `GROUP`, arm, value (score) and weight (integer millionths of a unit).
        denominators: one row per `GROUP` and arm with a score: `COUNTS` and n_eff (units).
        differences: `PAIR`, `SCORE`, value (treatment - control of a question, -1 to 1) and weight;
            rows only for experiments whose arms answered the same questions.
        arms: one row per declared experiment_id and arm: is_control, share, wanted_effect.
        units: experiment_id, arm, n (randomised users or sessions, also of arms that nobody declared).
        confidence: level of all intervals, in (0, 1).
        ci_method: the bootstrap interval to publish, `bca` or `percentile`.

    Returns:
        One row per `KEY` with a score in both arms, sorted, with `COLUMNS`. p_holm is adjusted over
        the identifiable rows of an experiment, pair and label class. verdict: sample_ratio_mismatch,
        not_identifiable, better, worse or inconclusive, in this order; warning says what else keeps
        the arms from being alike, NULL where nothing does.
    """
    pairs = _pairs(arms)
    n_eff = denominators[[*GROUP, "arm", "n_eff"]]
    rows = [
        _compared(histograms, n_eff, differences, chosen, float(str(wanted)), confidence, ci_method)
        for wanted, chosen in pairs.groupby("wanted_effect", sort=True)
    ]
    result = pd.concat(rows, ignore_index=True) if rows else pd.DataFrame()
    if result.empty:
        return _typed(pd.DataFrame(columns=COLUMNS))
    for arm in ("control", "treatment"):
        counts = denominators[[*GROUP, "arm", *COUNTS]].rename(
            columns={"arm": arm} | {name: f"{name}_{arm}" for name in COUNTS}
        )
        result = result.merge(counts, on=[*GROUP, arm], how="inner", validate="many_to_one")
    mismatch = sample_ratio_mismatch(units, ["experiment_id"], arms[["experiment_id", "arm", "share"]])
    mismatch = mismatch.rename(columns={"p_value": "srm_p_value", "is_mismatch": "is_sample_ratio_mismatch"})
    result = result.merge(
        mismatch[["experiment_id", "srm_p_value", "is_sample_ratio_mismatch"]], on="experiment_id", how="left"
    )
    result["is_identifiable"] = result["is_identifiable_control"] & result["is_identifiable_treatment"]
    result["p_holm"] = holm(
        result["p_value"].where(result["is_identifiable"]).to_numpy(dtype=np.float64), result[[*PAIR, "label_class"]]
    )
    return _typed(result.assign(verdict=_verdicts(result, 1 - confidence), warning=_warnings(result)))


def _pairs(arms: pd.DataFrame) -> pd.DataFrame:
    is_control = arms["is_control"].astype(bool)
    control = arms.loc[is_control, ["experiment_id", "arm"]].rename(columns={"arm": "control"})
    treatment = arms.loc[~is_control, ["experiment_id", "arm", "wanted_effect"]].rename(columns={"arm": "treatment"})
    return control.merge(treatment, on="experiment_id")


def _compared(
    histograms: pd.DataFrame,
    n_eff: pd.DataFrame,
    differences: pd.DataFrame,
    pairs: pd.DataFrame,
    wanted_effect: float,
    confidence: float,
    ci_method: CiMethod,
) -> pd.DataFrame:
    chosen = histograms[histograms["experiment_id"].isin(pairs["experiment_id"])]
    unpaired = unpaired_differences(
        chosen, GROUP, pairs[PAIR], n_eff=n_eff, wanted_effect=wanted_effect, confidence=confidence, ci_method=ci_method
    )
    unpaired = unpaired.rename(columns={"sessions_needed_wanted": "n_units_needed"}).assign(design="unpaired")
    paired = paired_differences(
        differences.merge(pairs[PAIR], on=PAIR),
        [*PAIR, *SCORE],
        wanted_effect=wanted_effect,
        confidence=confidence,
        ci_method=ci_method,
    )
    if paired.empty:
        return unpaired
    paired = paired.rename(columns={"queries_needed_wanted": "n_units_needed", "n_eff": "n_control"}).assign(
        n_treatment=lambda frame: frame["n_control"], segment_dimension="total", segment_value="total", design="paired"
    )
    means = unpaired[[*KEY, "mean_control", "mean_treatment", "relative_change"]]
    paired = paired.merge(means, on=KEY, how="inner")
    alone = unpaired.merge(paired[KEY], on=KEY, how="left", indicator=True)
    return pd.concat([paired, alone[alone["_merge"] == "left_only"].drop(columns="_merge")], ignore_index=True)


def _verdicts(rows: pd.DataFrame, alpha: float) -> pd.Series:
    found = np.select(
        [
            rows["is_sample_ratio_mismatch"].fillna(value=False).to_numpy(dtype=bool),
            ~rows["is_identifiable"].to_numpy(dtype=bool),
            ((rows["p_holm"] < alpha) & (rows["difference"] > 0)).to_numpy(dtype=bool),
            ((rows["p_holm"] < alpha) & (rows["difference"] < 0)).to_numpy(dtype=bool),
        ],
        ["sample_ratio_mismatch", "not_identifiable", "better", "worse"],
        default="inconclusive",
    )
    return pd.Series(found, index=rows.index, dtype="str")


def _warnings(rows: pd.DataFrame) -> pd.Series[str]:
    """What differs between the arms beside their scores."""
    described: list[str | None] = []
    for row in rows.to_dict("records"):
        texts = [
            f"{what}: control {row[f'{name}_control']:.2f}, treatment {row[f'{name}_treatment']:.2f}"
            for name, what, apart in (
                ("judged_share", "judged differently", JUDGED_APART),
                ("duplicates_per_trace", "repeats per trace differ", DUPLICATES_APART),
            )
            if abs(row[f"{name}_control"] - row[f"{name}_treatment"]) > apart
        ]
        described.append("; ".join(texts) or None)
    return pd.Series(described, index=rows.index, dtype="str")


def _typed(rows: pd.DataFrame) -> pd.DataFrame:
    types = {name: "float64" for name in COLUMNS if name not in (*TEXTS, *INTEGERS, *BOOLEANS)}
    types |= dict.fromkeys(TEXTS, "str") | dict.fromkeys(INTEGERS, "int64") | dict.fromkeys(BOOLEANS, "bool")
    return rows.sort_values(KEY, kind="stable", ignore_index=True)[COLUMNS].astype(types)
