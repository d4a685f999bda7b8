"""Implicit signals corrected for position: how likely a rank is looked at, and precision if all were.

A copy or a dwell needs the chunk to be looked at. Where signals depend on the rank only through that
(examination hypothesis, Craswell et al. 2008, WSDM, section 3), precision of everything shown is the
mean of sum over ranks r <= k of signal_r / propensity_r, divided by k: inverse propensity weighting
(Joachims, Swaminathan and Schnabel 2017, WSDM). Propensities are relative to rank 1 and come from

* `rank_variation`: the same chunk, for the same question, at different ranks in different buckets of an
  experiment (intervention harvesting, Agarwal et al. 2019, WSDM). Adjacent ranks are compared, and the
  ratios chained. A ratio is that of Mantel and Haenszel over pairs of buckets, which holds however
  often a bucket showed the chunk; its variance is that of Greenland and Robins (1985, Biometrics 41);
* `cascade`, without any intervention: a reader looks at every rank down to the deepest signal and at
  none below (the cascade of Craswell et al. 2008 with the several signals of Guo, Liu and Wang 2009,
  WSDM), so a propensity is the share of lists with a signal that have one at that rank or deeper. It
  cannot tell an impatient reader from a good ranking, whose deepest signal is high up as well.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy import special

from retrieval_quality.intervals import MILLIONTHS, mean_intervals

WINDOW = ["window_name", "window_start_at", "window_end_at"]
KEY = [*WINDOW, "segment_dimension", "segment_value", "k"]
RAW = ["estimate", "bound_low", "bound_high", "n_units", "n_eff", "n_traces", "n_scored", "is_identifiable"]
CORRECTED = ["exposure_corrected_estimate", "exposure_corrected_low", "exposure_corrected_high"]
LOWEST = ["lowest_propensity", "lowest_propensity_low", "lowest_propensity_high"]
COLUMNS = [*KEY, *RAW, *CORRECTED, "exposure_method", *LOWEST, "n_signals", "reason", "assumption"]
PROPENSITY = [
    "rank", "method", "propensity", "propensity_low", "propensity_high", "step_variance", "weight", "n_signals",
    "reason", "assumption",
]  # fmt: skip

# A step that rests on fewer signals has a relative standard error of more than about a fifth.
MIN_SIGNALS = 50
# No signal counts for more than ten: below it the few signals that are left would decide everything.
PROPENSITY_FLOOR = 0.1
ASSUMPTIONS: Mapping[str, str] = {
    "rank_variation": "whether a chunk is looked at depends on its rank alone, and buckets were drawn at random",
    "cascade": "readers look at every rank down to their deepest signal and at none below",
}


def examination_propensities(rank_variation: pd.DataFrame, depths: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """How likely each rank of a final list is looked at, relative to rank 1.

    Rank variation is used where it reaches every rank of `depths`, the cascade otherwise. A method
    reaches as far as each step rests on `MIN_SIGNALS`, or down to the floor.

    Args:
        rank_variation: one row per rank >= 2: n_signals (on chunks at this rank or the one above),
            and, in millionths, upper_sum and lower_sum (weighted rates at the rank above and at
            this one; their ratio is the step) and variance_sum (the variance of the logarithm of
            that ratio is variance_sum / (upper_sum lower_sum), in millionths).
        depths: the same of the cascade, with every rank that lists with a signal have: lists that
            were looked at down to the rank above, and down to this one.
        confidence: level of the intervals of propensities, in (0, 1).

    Returns:
        One row per rank from 1, `PROPENSITY`: propensity (0-1; at most 1) with its interval, which
        takes steps for independent; step_variance, of the logarithm of the step; weight, the inverse
        in millionths, at most 1 / `PROPENSITY_FLOOR`; n_signals of the step (NULL for rank 1). reason:
        below_floor (propensity NULL, weight at its most) or too_few_signals (both NULL). No rows where
        no list has a signal.
    """
    ranks = [int(rank) for rank in sorted(depths["rank"])]
    if not ranks:
        return _propensities_typed(pd.DataFrame(columns=PROPENSITY))
    z = float(special.ndtri(0.5 + confidence / 2))
    found = _chained(rank_variation, ranks, z)
    method = "rank_variation"
    if (found["reason"] == "too_few_signals").any():
        found, method = _chained(depths, ranks, z), "cascade"
    return _propensities_typed(found.assign(method=method, assumption=ASSUMPTIONS[method]))


def exposure_sensitivity(
    histograms: pd.DataFrame,
    hits: pd.DataFrame,
    raw: pd.DataFrame,
    propensities: pd.DataFrame,
    *,
    confidence: float,
) -> pd.DataFrame:
    """Implicit precision beside what it would be if every rank were looked at as rank 1 is.

    Args:
        histograms: `KEY`, value (corrected precision of a session, >= 0; above 1 where weights
            say so), n_units and weight (integer millionths of a unit).
        hits: `KEY` without k, rank and hit_sum (integer millionths of a unit): placed signals.
        raw: one row per `KEY`: `RAW`, as published.
        propensities: `PROPENSITY`.
        confidence: level of the intervals, in (0, 1).

    Returns:
        One row per row of `raw`, sorted by `KEY`, with `COLUMNS`. The corrected interval combines, by
        the root of summed squares on either side of the estimate, the bounded-mean interval of the
        corrected sessions on [0, sum of weights / k], with the n_eff of the raw row, and the error
        of the propensities (delta method: a step moves all ranks from its own on). It does not hold
        what the assumption may be wrong by. lowest_*: the smallest propensity among ranks <= k;
        n_signals: the fewest that one of them rests on. Corrected columns are NULL where a propensity
        is not known, and reason says why.

    Raises:
        ValueError: the corrected sessions of a row are not as many as its raw ones.
    """
    used = pd.DataFrame([_used(propensities, k) for k in sorted(raw["k"].unique())], columns=_USED)
    used = used.astype({"k": raw["k"].dtype, "_highest": "float64"})
    rows = raw.merge(used, on="k", how="left", validate="many_to_one")
    known = histograms.merge(rows.loc[rows["reason"].isna(), [*KEY, "_highest"]], on=KEY, validate="many_to_one")
    scaled = known.assign(value=np.minimum(known["value"] / known["_highest"], 1.0))
    n_eff = rows.loc[rows["n_eff"].notna(), [*KEY, "n_eff"]]
    intervals = mean_intervals(scaled, KEY, n_eff=n_eff, confidence=confidence)
    intervals = intervals.rename(columns=dict(zip(["estimate", "bound_low", "bound_high"], CORRECTED, strict=True)))
    counted = known.groupby(KEY, sort=True)["n_units"].sum().rename("_corrected_units").reset_index()
    rows = rows.merge(intervals[[*KEY, *CORRECTED]], on=KEY, how="left", validate="one_to_one")
    rows = rows.merge(counted, on=KEY, how="left", validate="one_to_one")
    is_wrong = rows["reason"].isna() & (rows["_corrected_units"].fillna(0) != rows["n_units"])
    if is_wrong.any():
        raise ValueError("int_hit_patterns and mart_retrieval_quality disagree on how many sessions were scored")
    rows = rows.merge(_propensity_errors(hits, known, propensities), on=KEY, how="left", validate="one_to_one")
    error = rows["_error"].astype("float64").fillna(0.0) * float(special.ndtri(0.5 + confidence / 2))
    # where nothing was scored the interval is the whole range
    estimate, low, high = (
        rows[name].fillna(unscored) * rows["_highest"]
        for name, unscored in zip(CORRECTED, (np.nan, 0.0, 1.0), strict=True)
    )
    below, above = (np.hypot(estimate - end, error) for end in (low, high))
    combined = (estimate, (estimate - below).clip(lower=0.0).fillna(low), (estimate + above).fillna(high))
    return _sensitivity_typed(rows.assign(**dict(zip(CORRECTED, combined, strict=True))))


def _propensity_errors(hits: pd.DataFrame, known: pd.DataFrame, propensities: pd.DataFrame) -> pd.DataFrame:
    """`KEY` and _error: the standard error that the propensities leave in corrected precision.

    With parts c_r of the estimate from rank r and variances v_s of the logarithms of steps it is the
    root of sum over s of v_s (sum of c_r, r >= s)^2. A rank at the floor has its weight by decision.
    """
    moves = propensities["propensity"] > PROPENSITY_FLOOR
    steps = propensities.loc[moves & (propensities["rank"] > 1), ["rank", "weight", "step_variance"]]
    totals = known.groupby(KEY, sort=True)["weight"].sum().rename("_total").reset_index()
    parts = totals.merge(hits.merge(steps, on="rank"), on=[name for name in KEY if name != "k"])
    parts = parts[parts["rank"] <= parts["k"]].sort_values([*KEY, "rank"], kind="stable")
    weight = parts["weight"].astype("float64") / MILLIONTHS
    parts = parts.assign(_part=parts["hit_sum"] * weight / (parts["k"] * parts["_total"]))
    moved = parts[[*KEY, "rank", "_part"]].merge(
        steps[["rank", "step_variance"]].rename(columns={"rank": "_step"}), how="cross"
    )
    moved = moved[moved["_step"] <= moved["rank"]]
    by_step = moved.groupby([*KEY, "_step", "step_variance"], sort=True)["_part"].sum().reset_index()
    squares = by_step.assign(_error=by_step["step_variance"] * by_step["_part"] ** 2)
    return squares.groupby(KEY, sort=True)["_error"].sum().pow(0.5).reset_index()


_USED = ["k", "exposure_method", *LOWEST, "n_signals", "reason", "assumption", "_highest"]


def _used(propensities: pd.DataFrame, k: int) -> dict[str, object]:
    """What a correction at k rests on: method, lowest propensity, signals, and the highest score there is."""
    within = propensities[propensities["rank"] <= k]
    if within.empty or within["weight"].isna().any():
        reason = "no_placed_signals" if within.empty else "too_few_signals"
        return dict.fromkeys(_USED) | {"k": k, "reason": reason}
    lowest = within.sort_values("propensity", kind="stable").iloc[0]
    n_beyond = k - len(within)  # ranks that no list with a signal has
    return {
        "k": k,
        "exposure_method": lowest["method"],
        **{f"lowest_{name}": lowest[name] for name in ("propensity", "propensity_low", "propensity_high")},
        "n_signals": within.loc[within["propensity"].notna(), "n_signals"].min(),
        "reason": None,
        "assumption": lowest["assumption"],
        "_highest": (int(within["weight"].sum()) / MILLIONTHS + n_beyond) / k,
    }


def _chained(steps: pd.DataFrame, ranks: list[int], z: float) -> pd.DataFrame:
    """Steps from rank to rank, multiplied: `PROPENSITY` without method and assumption, from rank 1 on."""
    by_rank = {int(step["rank"]): step for step in steps.to_dict("records")}
    rows: list[dict[str, object]] = [
        {"rank": 1, "propensity": 1.0, "propensity_low": 1.0, "propensity_high": 1.0, "weight": MILLIONTHS}
    ]
    product, variance, reason = 1.0, 0.0, None
    for rank in ranks:
        step = by_rank.get(rank, {})
        n_signals, upper, lower, spread = (
            int(step.get(name, 0)) for name in ("n_signals", "upper_sum", "lower_sum", "variance_sum")
        )
        if reason is None and (n_signals < MIN_SIGNALS or upper == 0):
            reason = "too_few_signals"
        elif reason is None and lower == 0:
            reason = "below_floor"
        if reason is None:
            product *= lower / upper
            variance += spread * MILLIONTHS / (upper * lower)
            factor = float(np.exp(z * np.sqrt(variance)))
            used = min(max(product, PROPENSITY_FLOOR), 1.0)
            rows.append(
                {
                    "rank": rank,
                    "propensity": min(product, 1.0),
                    "propensity_low": min(product / factor, 1.0),
                    "propensity_high": min(product * factor, 1.0),
                    "step_variance": spread * MILLIONTHS / (upper * lower),
                    "weight": round(MILLIONTHS / used),
                    "n_signals": n_signals,
                }
            )
            reason = "below_floor" if product <= PROPENSITY_FLOOR else None
        else:
            weight = round(MILLIONTHS / PROPENSITY_FLOOR) if reason == "below_floor" else None
            rows.append({"rank": rank, "weight": weight, "n_signals": n_signals, "reason": reason})
    return pd.DataFrame(rows, columns=[name for name in PROPENSITY if name not in ("method", "assumption")])


def _propensities_typed(rows: pd.DataFrame) -> pd.DataFrame:
    texts = dict.fromkeys(["method", "reason", "assumption"], "str")
    floats = dict.fromkeys(["propensity", "propensity_low", "propensity_high", "step_variance"], "float64")
    integers = {"rank": "int32", "weight": "Int64", "n_signals": "Int64"}
    return rows[PROPENSITY].astype(texts | floats | integers)


def _sensitivity_typed(rows: pd.DataFrame) -> pd.DataFrame:
    texts = ["window_name", "segment_dimension", "segment_value", "exposure_method", "reason", "assumption"]
    floats = ["estimate", "bound_low", "bound_high", "n_eff", *CORRECTED, *LOWEST]
    types = dict.fromkeys(texts, "str") | dict.fromkeys(floats, "float64") | {"n_signals": "Int64"}
    return rows.sort_values(KEY, kind="stable", ignore_index=True)[COLUMNS].astype(types)
