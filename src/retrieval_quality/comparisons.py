"""Differences of mean scores: experiments (two independent arms), gates (paired queries), families.

Intervals of a difference rest on `mean_intervals`, from histograms. Two arms are combined by MOVER
(Zou & Donner 2008, Stat. Med. 27), so a difference inherits what the bounds of its arms have: no
minimum n, never zero width. Every p-value inverts the deciding interval of its own row, so a row
cannot say p < .05 beside an interval that holds 0.

Sizes of experiments are normal-theory numbers: they plan, the bounds decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from retrieval_quality.intervals import (
    MDD_FACTOR,
    MILLIONTHS,
    CiMethod,
    Floats,
    HistogramGroups,
    Ints,
    Side,
    bounded_p_values,
    histogram_groups,
    mean_intervals,
)

Baseline = float | Literal["fixed", "equal"]
Sides = Literal[1, 2]
SIDES: tuple[Side, Side] = ("below", "above")

_MEDIAN_Z = 0.6744897501960817  # z of level .5, the lowest of `mean_intervals`
_LARGEST_Z = 37.0  # two-sided p of 1e-299
_PSEUDO_UNITS = 12.0  # chosen by simulation, see `steady_std_error`
_STEPS = 60  # at most, of the root of a MOVER end: it takes 5 to 15
_NEAR = 1e-9  # relative error of that root
_FAR = 50.0  # stands for log 0


@dataclass(frozen=True)
class AnytimeInterval:
    """Ends of a confidence sequence at every look, in score units; NaN where nothing is known."""

    low: Floats
    high: Floats


# ---- two arms -----------------------------------------------------------------------------------


def unpaired_differences(
    histogram: pd.DataFrame,
    keys: Sequence[str],
    pairs: pd.DataFrame,
    *,
    arm: str = "arm",
    n_eff: pd.DataFrame | None = None,
    wanted_effect: float = 0.03,
    power: float = 0.8,
    tuned_for: float = 1_000.0,
    confidence: float = 0.95,
    ci_method: CiMethod = "bca",
    lower: float = 0.0,
    upper: float = 1.0,
) -> pd.DataFrame:
    """Difference treatment - control of two independent means, for every group and pair of arms.

    Interval by MOVER: with means t, c and their own intervals, [t - c - sqrt((t - l_t)^2 +
    (u_c - c)^2), t - c + sqrt((u_t - t)^2 + (c - l_c)^2)]. p is two-sided, by inversion of bound_*:
    the level at which that interval meets 0; above .5, where no interval is defined, the normal
    quantile is taken as proportional to the difference.

    Args:
        histogram: `keys`, `arm`, `value` and `weight`, as in `mean_intervals`.
        keys: the columns that name a group (without `arm`).
        pairs: `control` and `treatment` (values of `arm`), and any of `keys`; a pair is compared in
            every group that its key columns match. Unique.
        arm: the column that names the arm.
        n_eff: `keys`, `arm`, `n_eff`, as in `mean_intervals`.
        wanted_effect: the smallest difference worth finding, score units, > 0.
        power: of sessions_needed_*, between 0 and 1.
        tuned_for: units of both arms together at which the anytime interval is narrowest. Fix it
            before the experiment starts.
        confidence, ci_method, lower, upper: as in `mean_intervals`; all intervals are two-sided.

    Returns:
        One row per group and pair, sorted by `keys`, control, treatment: keys, control, treatment,
        n_control, n_treatment (units), mean_control, mean_treatment, difference, std_error,
        ci_method, ci_low, ci_high, bound_low, bound_high, anytime_low, anytime_high, p_value, mdd
        (max of 2.80 std_error and difference - bound_low; score units), relative_change
        (difference / mean_control; NaN at 0), sessions_needed_observed, sessions_needed_wanted
        (units of both arms together at their present split, for the observed and wanted effect;
        inf for no effect), power_reached (chance that this many units show the wanted effect, with
        mdd / 2.80 as standard error: .80 where mdd is the wanted effect, at level .95).
        An arm without units has NaN statistics and bounds of the whole range [-(upper - lower), ..].

    Raises:
        ValueError: as `mean_intervals`; `pairs` lacks a column, repeats or compares an arm with
            itself.
    """
    _check_power(confidence, power, wanted_effect)
    if arm in keys or arm in ("control", "treatment"):
        raise ValueError(f"arm must be a column outside keys, not called control or treatment: {arm!r}")
    names = [*keys, arm]
    arms = mean_intervals(
        histogram, names, n_eff=n_eff, confidence=confidence, ci_method=ci_method, lower=lower, upper=upper
    )
    means = histogram_groups(histogram, names, n_eff=n_eff, lower=lower, upper=upper)
    compared, treatment, control = _compared(arms, keys, arm, pairs)

    t, c = _taken(arms, treatment, lower, upper), _taken(arms, control, lower, upper)
    n_t, n_c = t["n_eff"].to_numpy(), c["n_eff"].to_numpy()
    difference = _floats(t, "estimate") - _floats(c, "estimate")
    std_error = np.sqrt(_floats(t, "std_error") ** 2 + _floats(c, "std_error") ** 2)
    bound_low, bound_high = _mover(t, c, "bound", upper - lower)
    ci_low, ci_high = _mover(t, c, "ci", upper - lower)
    is_bounded = ((t["ci_method"] == "bounded") | (c["ci_method"] == "bounded")).to_numpy()

    steady = np.sqrt(
        steady_std_error(_floats(t, "std_error"), n_t, upper - lower) ** 2
        + steady_std_error(_floats(c, "std_error"), n_c, upper - lower) ** 2
    )
    anytime = anytime_interval(
        n_t + n_c, difference, steady, tuned_for=tuned_for, confidence=confidence,
        lower=lower - upper, upper=upper - lower,
    )  # fmt: skip
    n_sessions = n_t + n_c
    spread = std_error * np.sqrt(n_sessions)  # sd of a difference per unit of either arm, at this split
    mean_control = _floats(c, "estimate")
    mdd = np.fmax(MDD_FACTOR * std_error, difference - bound_low)
    return compared.assign(
        n_control=n_c,
        n_treatment=n_t,
        mean_control=mean_control,
        mean_treatment=_floats(t, "estimate"),
        difference=difference,
        std_error=std_error,
        ci_method=pd.Series(np.where(is_bounded, "bounded", ci_method), dtype="str"),
        ci_low=np.where(is_bounded, bound_low, ci_low),
        ci_high=np.where(is_bounded, bound_high, ci_high),
        bound_low=bound_low,
        bound_high=bound_high,
        anytime_low=anytime.low,
        anytime_high=anytime.high,
        p_value=_mover_p_values(means, treatment, control, difference),
        mdd=mdd,
        relative_change=np.divide(
            difference, mean_control, out=np.full_like(difference, np.nan), where=mean_control != 0
        ),
        sessions_needed_observed=sessions_needed(spread, difference, power=power, alpha=1 - confidence),
        sessions_needed_wanted=sessions_needed(spread, wanted_effect, power=power, alpha=1 - confidence),
        power_reached=power_of(mdd / MDD_FACTOR, wanted_effect, alpha=1 - confidence),
    )


def paired_differences(
    histogram: pd.DataFrame,
    keys: Sequence[str],
    *,
    n_eff: pd.DataFrame | None = None,
    wanted_effect: float = 0.03,
    power: float = 0.8,
    tuned_for: float = 200.0,
    confidence: float = 0.95,
    ci_method: CiMethod = "bca",
    lower: float = -1.0,
    upper: float = 1.0,
) -> pd.DataFrame:
    """Mean of per-query differences (candidate - baseline) of every group.

    Args:
        histogram: `keys`, `value` (a difference within [lower, upper]) and `weight`, as in
            `mean_intervals`. Scores in [0, 1] have differences in [-1, 1].
        keys, n_eff, confidence, ci_method: as in `mean_intervals`.
        wanted_effect, power: as in `unpaired_differences`.
        tuned_for: queries at which the anytime interval is narrowest; fix it beforehand.

    Returns:
        One row per group, sorted by `keys`: keys, n_eff (queries), n_better, n_equal, n_worse
        (queries, scaled to n_eff), difference, std_error, ci_method, ci_low, ci_high, bound_low,
        bound_high, anytime_low, anytime_high, p_value (two-sided against 0, by inversion of
        bound_*: twice the smaller one-sided p), mdd, queries_needed_observed,
        queries_needed_wanted, power_reached. Without units: NaN, and [lower, upper] as bounds.

    Raises:
        ValueError: as `mean_intervals`.
    """
    _check_power(confidence, power, wanted_effect)
    means = mean_intervals(
        histogram, keys, n_eff=n_eff, confidence=confidence, ci_method=ci_method, lower=lower, upper=upper
    )
    below, above = (
        bounded_p_values(histogram, keys, 0.0, n_eff=n_eff, side=side, lower=lower, upper=upper)["p_value"].to_numpy()
        for side in SIDES
    )
    n, difference, std_error = (_floats(means, name) for name in ("n_eff", "estimate", "std_error"))
    anytime = anytime_interval(
        n, difference, steady_std_error(std_error, n, upper - lower), tuned_for=tuned_for, confidence=confidence,
        lower=lower, upper=upper,
    )  # fmt: skip
    spread = std_error * np.sqrt(n)
    result = means.rename(columns={"estimate": "difference"}).assign(
        anytime_low=anytime.low,
        anytime_high=anytime.high,
        p_value=np.minimum(1.0, 2 * np.minimum(below, above)),
        queries_needed_observed=sessions_needed(spread, difference, power=power, alpha=1 - confidence),
        queries_needed_wanted=sessions_needed(spread, wanted_effect, power=power, alpha=1 - confidence),
        power_reached=power_of(_floats(means, "mdd") / MDD_FACTOR, wanted_effect, alpha=1 - confidence),
        **_signs(histogram, keys, means, n),
    )
    return result[
        [
            *keys, "n_eff", "n_better", "n_equal", "n_worse", "difference", "std_error", "ci_method", "ci_low",
            "ci_high", "bound_low", "bound_high", "anytime_low", "anytime_high", "p_value", "mdd",
            "queries_needed_observed", "queries_needed_wanted", "power_reached",
        ]
    ]  # fmt: skip


def _compared(
    arms: pd.DataFrame, keys: Sequence[str], arm: str, pairs: pd.DataFrame
) -> tuple[pd.DataFrame, Ints, Ints]:
    """Rows (keys, control, treatment), and where their treatment and control stand in `arms` (-1: nowhere)."""
    missing = [name for name in ("control", "treatment") if name not in pairs.columns]
    if missing:
        raise ValueError(f"pairs lacks the columns {missing}")
    shared = [name for name in keys if name in pairs.columns]
    asked = pairs[[*shared, "control", "treatment"]]
    if asked.duplicated().any() or (asked["control"] == asked["treatment"]).any():
        raise ValueError("pairs must be unique and name two different arms")
    groups = arms[list(keys)].drop_duplicates()
    compared = groups.merge(asked, on=shared, how="inner") if shared else groups.merge(asked, how="cross")
    compared = compared.sort_values([*keys, "control", "treatment"], kind="stable", ignore_index=True)
    places = arms[[*keys, arm]].assign(_place=np.arange(len(arms)))
    treatment, control = (
        compared[[*keys, role]]
        .merge(places.rename(columns={arm: role}), on=[*keys, role], how="left")["_place"]
        .fillna(-1)
        .to_numpy(dtype=np.int64)
        for role in ("treatment", "control")
    )
    return compared, treatment, control


def _taken(arms: pd.DataFrame, places: Ints, lower: float, upper: float) -> pd.DataFrame:
    """The rows of `arms` at these places; an arm that is nowhere knows nothing."""
    taken = arms.reindex(places).reset_index(drop=True)
    absent = pd.Series(places < 0)
    for name, value in (
        ("n_eff", 0.0), ("ci_low", lower), ("ci_high", upper), ("bound_low", lower), ("bound_high", upper),
    ):  # fmt: skip
        taken[name] = taken[name].mask(absent, value)
    taken["ci_method"] = taken["ci_method"].mask(absent, "bounded")
    return taken


def _floats(frame: pd.DataFrame, name: str) -> Floats:
    return frame[name].to_numpy(dtype=np.float64)


def _mover(t: pd.DataFrame, c: pd.DataFrame, kind: str, span: float) -> tuple[Floats, Floats]:
    """Ends of t - c from the ends `kind`_low, `kind`_high of both; the whole range where an arm is empty."""
    t_mean, c_mean = _floats(t, "estimate"), _floats(c, "estimate")
    t_low, t_high, c_low, c_high = (_floats(frame, f"{kind}_{end}") for frame in (t, c) for end in ("low", "high"))
    difference = t_mean - c_mean
    low = difference - np.sqrt((t_mean - t_low) ** 2 + (c_high - c_mean) ** 2)
    high = difference + np.sqrt((t_high - t_mean) ** 2 + (c_mean - c_low) ** 2)
    empty = np.isnan(difference)
    return np.where(empty, -span, low), np.where(empty, span, high)


def _mover_p_values(means: HistogramGroups, treatment: Ints, control: Ints, difference: Floats) -> Floats:
    """Two-sided p: 2 Phi(-z) with z where the MOVER end on the side of 0 meets 0.

    Regula falsi on log z (Illinois variant, Dowell & Jarratt 1971), on which log reach is nearly a
    line of slope 1. Every pair walks by itself and stops by itself: its bits do not depend on others.
    """
    result = np.where(np.isnan(difference), np.nan, 1.0)
    rows = np.flatnonzero(~np.isnan(difference) & (difference != 0))
    is_up = difference > 0
    higher, lesser = np.where(is_up, treatment, control), np.where(is_up, control, treatment)

    def excess(pairs: Ints, log_z: Floats) -> Floats:
        """log(reach / difference): the end lies beyond 0 where positive."""
        z = np.exp(log_z)
        # the side of 0: below the higher mean and above the lesser one, whichever arm they are
        reach = np.hypot(means.reach(higher[pairs], z, "low"), means.reach(lesser[pairs], z, "high"))
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(reach / np.abs(difference[pairs])), -_FAR)

    low = np.full(len(difference), np.log(_MEDIAN_Z))
    high = np.full(len(difference), np.log(_LARGEST_Z))
    at_low, at_high, side = (np.zeros(len(difference)) for _ in range(3))
    at_low[rows] = excess(rows, low[rows])
    is_weak = at_low[rows] >= 0
    weak, rows = rows[is_weak], rows[~is_weak]
    result[weak] = 2 * special.ndtr(-_MEDIAN_Z / np.exp(at_low[weak]))
    at_high[rows] = excess(rows, high[rows])
    is_beyond = at_high[rows] < 0
    beyond, rows = rows[is_beyond], rows[~is_beyond]
    result[beyond] = 2 * special.ndtr(-_LARGEST_Z)

    log_z = np.minimum(low - at_low, (low + high) / 2)  # slope 1, from the lower end
    for step in range(_STEPS):
        tried = excess(rows, log_z[rows])
        is_below = tried < 0
        at_high[rows] = np.where(is_below, np.where(side[rows] < 0, at_high[rows] / 2, at_high[rows]), tried)
        at_low[rows] = np.where(is_below, tried, np.where(side[rows] > 0, at_low[rows] / 2, at_low[rows]))
        low[rows] = np.where(is_below, log_z[rows], low[rows])
        high[rows] = np.where(is_below, high[rows], log_z[rows])
        side[rows] = np.where(is_below, -1.0, 1.0)
        is_done = (np.abs(tried) < _NEAR) | (high[rows] - low[rows] < _NEAR)
        done, rows = rows[is_done], rows[~is_done]
        result[done] = 2 * special.ndtr(-np.exp(log_z[done]))
        if len(rows) == 0:
            break
        if step % 4 == 3:
            log_z[rows] = (low[rows] + high[rows]) / 2
        else:
            slope = (at_high[rows] - at_low[rows]) / (high[rows] - low[rows])
            log_z[rows] = np.clip(low[rows] - at_low[rows] / slope, low[rows], high[rows])
    result[rows] = 2 * special.ndtr(-np.exp((low[rows] + high[rows]) / 2))
    return result


def _signs(histogram: pd.DataFrame, keys: Sequence[str], means: pd.DataFrame, n: Floats) -> dict[str, Floats]:
    """Units above, at and below 0 of every group, scaled to n_eff."""
    weight = histogram["weight"].astype("int64")
    value = histogram["value"].astype("float64")
    counted = histogram[list(keys)].assign(
        n_better=weight.where(value > 0, 0), n_equal=weight.where(value == 0, 0), n_worse=weight.where(value < 0, 0)
    )
    sums = counted.groupby(list(keys), dropna=False, sort=True, observed=True).sum().to_numpy(dtype=np.float64)
    sums = sums.reshape(len(means), 3)
    total = sums.sum(axis=1)
    scale = np.divide(n, total, out=np.zeros_like(total), where=total > 0)
    is_plain = n * MILLIONTHS == total
    return {
        name: np.where(is_plain, sums[:, column] / MILLIONTHS, sums[:, column] * scale)
        for column, name in enumerate(("n_better", "n_equal", "n_worse"))
    }


# ---- looking every night ------------------------------------------------------------------------


def anytime_interval(
    n: ArrayLike,
    estimate: ArrayLike,
    std_error: ArrayLike,
    *,
    tuned_for: float,
    confidence: float = 0.95,
    lower: float = -np.inf,
    upper: float = np.inf,
) -> AnytimeInterval:
    """Confidence sequence: holds at all looks at once, so it may be read every night and stopped on.

    The asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas
    (arXiv:2103.06476, Theorem 2.2): estimate +- std_error sqrt(2 (n r^2 + 1) / (n r^2) log(sqrt(n
    r^2 + 1) / alpha)), with r^2 = (-2 log alpha + log(-2 log alpha + 1)) / tuned_for, which makes
    it narrowest near n = tuned_for. Measured (tests/statistical): at most alpha of sequences ever
    miss when looks start at n >= 50 and std_error is a `steady_std_error`; before that it is not
    backed by theory or by measurement. It is about 1.5 times as wide as an interval for one look.

    Args:
        n: units so far (for two arms: both together), one number per look.
        estimate, std_error: mean or difference, and its standard error, score units.
        tuned_for: units; chosen before the first look, never from the data.
        lower, upper: the range to cut the interval to.

    Returns:
        Ends of the shape of the inputs; [lower, upper] where n is 0 or an input is NaN.
    """
    if not 0 < confidence < 1 or not 0 < tuned_for < np.inf or not lower < upper:
        raise ValueError("need 0 < confidence < 1, 0 < tuned_for < inf, lower < upper")
    units, mean, error = (np.asarray(part, dtype=np.float64) for part in (n, estimate, std_error))
    alpha = 1 - confidence
    grown = units * (-2 * np.log(alpha) + np.log(-2 * np.log(alpha) + 1)) / tuned_for
    known = (units > 0) & ~np.isnan(mean) & ~np.isnan(error)
    safe = np.where(known, grown, 1.0)
    half_width = error * np.sqrt(2 * (safe + 1) / safe * np.log(np.sqrt(safe + 1) / alpha))
    low = np.where(known, np.clip(mean - half_width, lower, upper), lower)
    high = np.where(known, np.clip(mean + half_width, lower, upper), upper)
    return AnytimeInterval(low, high)


def steady_std_error(std_error: ArrayLike, n: ArrayLike, span: float) -> Floats:
    """Standard error with 12 pseudo-units of the greatest variance that scores of this span can have.

    A run of equal scores has std_error 0, after which a sequence could never be right again; with
    one pseudo-unit a hit rate of .97 is still missed by 10 % of sequences, with 12 by 3.5 % (and
    .995 by 3 %). They widen an interval of mid-range p@5 by 2 % at n = 1,000 and 22 % at n = 50.
    Returns NaN for n <= 1, where there is no standard error.
    """
    error, units = np.asarray(std_error, dtype=np.float64), np.asarray(n, dtype=np.float64)
    safe = np.where(units > 1, units, np.nan)
    variance = (safe * (error**2 * safe) + _PSEUDO_UNITS * span**2 / 4) / (safe + _PSEUDO_UNITS)
    result: Floats = np.sqrt(variance / safe)
    return result


# ---- families of p-values -----------------------------------------------------------------------


def holm(p_values: ArrayLike, family: pd.DataFrame | None = None) -> Floats:
    """Holm 1979 adjusted p-values (family-wise error), within families.

    Args:
        p_values: numbers in [0, 1]; NaN is no test: it stays NaN and its family does not count it.
        family: one row per p-value, by position; its columns name the family, NULL is a value.

    Returns:
        Adjusted p-values in the order given: the j-th smallest of m becomes the running maximum of
        (m - j + 1) p, at most 1. Equal p-values get equal results.
    """
    return _adjusted(p_values, family, "holm")


def benjamini_hochberg(p_values: ArrayLike, family: pd.DataFrame | None = None) -> Floats:
    """Benjamini & Hochberg 1995 adjusted p-values (false discovery rate), within families.

    Arguments and NaN as in `holm`. The j-th smallest of m becomes the least of m p_(i) / i over
    i >= j. Reject where the result is <= q.
    """
    return _adjusted(p_values, family, "benjamini_hochberg")


def _adjusted(p_values: ArrayLike, family: pd.DataFrame | None, method: str) -> Floats:
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or (family is not None and len(family) != len(p)):
        raise ValueError("p_values must be one-dimensional, family of the same length")
    if np.any((p < 0) | (p > 1)):
        raise ValueError("p_values must lie in [0, 1]")
    numbers: Ints = np.zeros(len(p), dtype=np.int64)
    if family is not None and len(p):
        numbers = (
            family.groupby(list(family.columns), dropna=False, sort=False, observed=True)
            .ngroup()
            .to_numpy()
            .astype(np.int64)
        )
    result = np.full(len(p), np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order: Ints = tested[np.lexsort((p[tested], numbers[tested]))]
    starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    for first, last in zip(starts, np.append(starts[1:], len(order)), strict=len(order) > 0):
        members: Ints = order[first:last]
        m = len(members)
        rank = np.arange(1, m + 1)
        if method == "holm":
            result[members] = np.minimum(np.maximum.accumulate((m - rank + 1) * p[members]), 1.0)
        else:
            raised = p[members] * (m / rank)
            result[members] = np.minimum(np.minimum.accumulate(raised[::-1])[::-1], 1.0)
    return result


# ---- is the experiment sound --------------------------------------------------------------------


def sample_ratio_mismatch(
    counts: pd.DataFrame,
    keys: Sequence[str],
    shares: pd.DataFrame,
    *,
    arm: str = "arm",
    alarm_below: float = 0.001,
) -> pd.DataFrame:
    """Pearson's chi-square of arm sizes against their declared shares, per group.

    Args:
        counts: `keys`, `arm` and `n` (whole number of randomised units, users or sessions; rows of
            one group and arm are added).
        keys: the columns that name a group, such as the experiment.
        shares: `arm`, `share` (> 0, any scale: 1 and 1 is half and half) and any of `keys`.
        alarm_below: p-values below it are a mismatch. Small, because it is asked every night.

    Returns:
        One row per group of `counts`, sorted by `keys`: keys, n_units (in declared arms),
        n_undeclared (units in other arms, left out of the test), n_arms, chi_square, p_value,
        is_mismatch, largest_excess (observed share - declared share that is largest in size). A
        declared arm without a row counts as 0. With fewer than two declared arms, or no unit, the
        test is NaN and not a mismatch.

    Raises:
        ValueError: a column is missing, a count is no whole number, a share is not positive, an arm
            is declared twice.
    """
    for frame, needed, name in ((counts, [*keys, arm, "n"], "counts"), (shares, [arm, "share"], "shares")):
        missing = [column for column in needed if column not in frame.columns]
        if missing:
            raise ValueError(f"{name} lacks the columns {missing}")
    n = counts["n"].to_numpy(dtype=np.float64, na_value=np.nan)
    if not np.all((n >= 0) & (n == np.floor(n))):
        raise ValueError("counts must be whole numbers >= 0")
    shared = [name for name in keys if name in shares.columns]
    if shares.duplicated([*shared, arm]).any():
        raise ValueError("an arm is declared twice")
    if not (shares["share"].to_numpy(dtype=np.float64, na_value=np.nan) > 0).all():
        raise ValueError("shares must be positive")

    groups = counts[list(keys)].drop_duplicates().sort_values(list(keys), kind="stable", ignore_index=True)
    groups = groups.assign(_group=np.arange(len(groups)))
    observed = (
        counts.assign(n=n)
        .groupby([*keys, arm], dropna=False, observed=True)["n"]
        .sum()
        .reset_index()
        .merge(groups, on=list(keys))
    )
    declared = shares[[*shared, arm, "share"]]
    expected = groups.merge(declared, on=shared) if shared else groups.merge(declared, how="cross")
    cells = expected[["_group", arm, "share"]].merge(observed[["_group", arm, "n"]], on=["_group", arm], how="left")
    cells = cells.sort_values(["_group", arm], kind="stable", ignore_index=True).fillna({"n": 0.0})

    number = cells["_group"].to_numpy()
    size = len(groups)
    share = cells["share"].to_numpy(dtype=np.float64)
    share = share / np.bincount(number, share, size)[number]
    n_units = np.bincount(number, cells["n"], size)
    n_arms = np.bincount(number, minlength=size)
    total = n_units[number]
    excess = np.divide(cells["n"].to_numpy(), total, out=np.zeros_like(total), where=total > 0) - share
    chi_square = n_units * np.bincount(number, excess**2 / share, size)
    largest = pd.Series(excess).groupby(number).agg(lambda part: part.iloc[int(part.abs().argmax())])
    tested = (n_arms >= 2) & (n_units > 0)
    p_value = np.where(tested, special.chdtrc(np.maximum(n_arms - 1, 1), chi_square), np.nan)
    n_all = np.bincount(observed["_group"], observed["n"], size)
    return groups[list(keys)].assign(
        n_units=n_units.astype(np.int64),
        n_undeclared=(n_all - n_units).astype(np.int64),
        n_arms=n_arms,
        chi_square=np.where(tested, chi_square, np.nan),
        p_value=p_value,
        is_mismatch=tested & (np.nan_to_num(p_value, nan=1.0) < alarm_below),
        largest_excess=np.where(tested, largest.reindex(range(size)).to_numpy(dtype=np.float64), np.nan),
    )


# ---- planning -----------------------------------------------------------------------------------


def sessions_needed(
    std_deviation: ArrayLike,
    effect: ArrayLike,
    *,
    power: float = 0.8,
    alpha: float = 0.05,
    sides: Sides = 2,
    n_baseline: Baseline = "fixed",
    design_effect: float = 1.0,
) -> Floats:
    """Units that show an effect of this size with this power: (z_alpha + z_power)^2 sd^2 / effect^2.

    Args:
        std_deviation, effect: score units (an effect's sign does not matter; 0 needs inf).
        power: chance to see it. alpha: error level of the test. sides: of the test.
        n_baseline: what it is compared with: a "fixed" objective; a baseline of "equal" size (the
            result is then the size of each side: twice as many); or a baseline of that many units
            (inf where no number of new units suffices).
        design_effect: 1 + (m - 1) ICC for clusters of m units.

    Returns:
        Units, rounded up; inf or NaN where the inputs say so.
    """
    z = _critical(alpha, sides) + float(special.ndtri(power))
    sd, delta = np.asarray(std_deviation, dtype=np.float64), np.abs(np.asarray(effect, dtype=np.float64))
    sd, delta = np.broadcast_arrays(sd, delta)
    if np.any(sd < 0) or design_effect <= 0:
        raise ValueError("std_deviation must be >= 0 and design_effect > 0")
    alone = np.divide((z * sd) ** 2, delta**2, out=np.full(delta.shape, np.inf), where=delta != 0)
    alone = np.where(np.isnan(sd) | np.isnan(delta), np.nan, alone * design_effect)
    if n_baseline == "equal":
        alone = 2 * alone
    elif n_baseline != "fixed":
        room = 1 - alone / float(n_baseline)
        alone = np.where(room > 0, alone / np.where(room > 0, room, 1.0), np.where(np.isnan(room), np.nan, np.inf))
    result: Floats = np.ceil(alone * (1 - 1e-12))
    return result


def detectable_effect(
    std_deviation: ArrayLike,
    n: ArrayLike,
    *,
    power: float = 0.8,
    alpha: float = 0.05,
    sides: Sides = 2,
    n_baseline: Baseline = "fixed",
    design_effect: float = 1.0,
) -> Floats:
    """Smallest effect that n units show with this power (mdd): the inverse of `sessions_needed`; score units."""
    z = _critical(alpha, sides) + float(special.ndtri(power))
    sd, units = np.asarray(std_deviation, dtype=np.float64), np.asarray(n, dtype=np.float64)
    if np.any(units <= 0) or np.any(sd < 0) or design_effect <= 0:
        raise ValueError("n and design_effect must be > 0, std_deviation >= 0")
    others = 0.0 if n_baseline == "fixed" else 1 / (units if n_baseline == "equal" else float(n_baseline))
    result: Floats = z * sd * np.sqrt(design_effect * (1 / units + others))
    return result


def power_of(std_error: ArrayLike, effect: ArrayLike, *, alpha: float = 0.05, sides: Sides = 2) -> Floats:
    """Chance that an estimate with this standard error shows this effect (normal theory)."""
    z = _critical(alpha, sides)
    error, delta = np.asarray(std_error, dtype=np.float64), np.abs(np.asarray(effect, dtype=np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = delta / error
        wrong_way = special.ndtr(-ratio - z) if sides == 2 else 0.0
        result: Floats = special.ndtr(ratio - z) + wrong_way
    return result


def _critical(alpha: float, sides: int) -> float:
    if not 0 < alpha < 1 or sides not in (1, 2):
        raise ValueError("need 0 < alpha < 1 and sides 1 or 2")
    return -float(special.ndtri(alpha / sides))


def _check_power(confidence: float, power: float, wanted_effect: float) -> None:
    if not 0 < power < 1 or not wanted_effect > 0 or not 0 < confidence < 1:
        raise ValueError("need 0 < power < 1, wanted_effect > 0, 0 < confidence < 1")
