"""Estimates that correct what few or self-selected labels say about all traffic.

* `prediction_powered`: a random sample with trusted labels, and a cheap score on every unit.
* `selection_weighted`: self-selected labels, re-weighted by how often each cell of traffic is labelled.

Both read histograms. Integer weights are added first and every sum is correctly rounded
(`math.fsum`), so a group has the same bits in any batch and any row order.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from retrieval_quality.intervals import MILLIONTHS, Floats, Ints, mean_intervals

MIN_TRUSTED = 10
POOLED_BELOW = 30  # trusted units under which a segment borrows the tuning of its pool
SMALL_SAMPLE = 100  # trusted units under which the variance has the factor (n - 1) / (n - 2)

PREDICTION_POWERED = (
    "n_trusted", "n_cheap", "n_eff", "tuning", "tuning_source", "correlation", "estimate", "std_error", "ci_low",
    "ci_high", "trusted_estimate", "trusted_low", "trusted_high", "width_ratio", "n_equivalent", "reason",
)  # fmt: skip
SELECTION_WEIGHTED = (
    "n_labelled", "n_all", "n_eff", "covered_share", "lowest_propensity", "labelled_estimate", "estimate",
    "std_error", "ci_low", "ci_high", "bound_low", "bound_high", "estimate_low", "estimate_high", "reason",
)  # fmt: skip


@dataclass(frozen=True)
class _Trusted:
    """Moments of the labelled units of a group: Hajek means, and (co)variances of those means."""

    n: float  # units
    n_eff: float  # (sum w)^2 / sum w^2, w = 1 / inclusion probability
    mean_y: float
    mean_f: float
    var_y: float
    var_f: float
    cov: float


@dataclass(frozen=True)
class _Cheap:
    """Moments of the cheap score on the other units of a group."""

    n: float
    mean: float
    var: float  # of the mean


def prediction_powered(
    joint: pd.DataFrame,
    cheap: pd.DataFrame,
    keys: Sequence[str],
    *,
    sampling: pd.DataFrame | str = "random",
    pool: Sequence[str] | None = None,
    confidence: float = 0.95,
    lower: float = 0.0,
    upper: float = 1.0,
) -> pd.DataFrame:
    """Mean of the trusted score over all units, by PPI++ (Angelopoulos, Duchi & Zrnic, arXiv:2311.01453).

    estimate = mean y + tuning (mean f of the others - mean f of the labelled); variance = [var y +
    tuning^2 var f - 2 tuning cov(y, f)] / n + tuning^2 var f / N; t quantile with n - 2 degrees of
    freedom and the factor (n - 1) / (n - 2) on the variance where n < 100. tuning minimises that
    variance, within [0, 1]: with equal variances of f it is cov(y, f) / ((1 + n / N) var f). A
    segment with fewer than 30 trusted units takes the tuning that its pool has as a whole.

    Valid only where the labelled units are a random sample: of all, or of strata with known
    inclusion probabilities. Then a wrong cheap score costs width and never coverage. It is a
    normal-theory interval: with nearly constant scores and few labels it is too short, as any t.

    Args:
        joint: the labelled units: `keys`, `trusted` and `cheap` (scores in [lower, upper]),
            `weight` (integer millionths of a unit) and, where strata were sampled at different
            rates, `inclusion_probability` in (0, 1]: units count 1 / inclusion_probability.
        cheap: the units that are not labelled: `keys`, `value`, `weight` and, where joint has it,
            `inclusion_probability` in [0, 1): units count 1 / (1 - inclusion_probability), what
            the sample left of each stratum.
        keys: the columns that name a segment.
        sampling: how the labelled were chosen: "random", or anything else, which is refused. One
            word for all, or a frame with `sampling` and any of `keys`.
        pool: those of `keys` that segments of one pool share; None pools nothing.

    Returns:
        One row per segment of either frame, sorted by `keys`: keys, n_trusted, n_cheap (units),
        n_eff (of the trusted), tuning (0: trusted alone), tuning_source (own | pooled), correlation
        (of y and f), estimate, std_error (with the factor), ci_low, ci_high, trusted_estimate,
        trusted_low, trusted_high (the trusted alone, t with n - 1), width_ratio (interval over
        that of the trusted alone, before cutting to the range), n_equivalent (trusted units that
        would be as narrow: n_trusted / width_ratio^2), reason. reason is NULL where there is an
        estimate; else all numbers but the counts are NaN: `not_random`, `too_few_trusted` (n_eff
        below 10), `no_cheap` (fewer than 2 units without label), `no_variation` (trusted all equal).

    Raises:
        ValueError: a column is missing, a score, weight or inclusion probability is impossible.
    """
    _check(confidence, lower, upper, keys, {*PREDICTION_POWERED, "trusted", "cheap", "value", "weight"})
    stratified = "inclusion_probability" in joint.columns
    extra = ["inclusion_probability"] if stratified else []
    trusted_rows = _summed(joint, keys, ["trusted", "cheap"], extra, "joint", lower, upper)
    cheap_rows = _summed(cheap, keys, ["value"], extra, "cheap", lower, upper)
    if stratified:
        chance, left = trusted_rows["inclusion_probability"], cheap_rows["inclusion_probability"]
        if not ((chance > 0) & (chance <= 1)).all() or not ((left >= 0) & (left < 1)).all():
            raise ValueError("inclusion_probability must be in (0, 1] in joint and in [0, 1) in cheap")
        trusted_rows = trusted_rows.assign(_w=1 / chance)
        cheap_rows = cheap_rows.assign(_w=1 / (1 - left))
    else:
        trusted_rows, cheap_rows = trusted_rows.assign(_w=1.0), cheap_rows.assign(_w=1.0)

    groups, (trusted_number, cheap_number) = _numbered([trusted_rows, cheap_rows], keys)
    trusted = {i: _trusted(*part) for i, part in _by_group(trusted_rows, trusted_number, ["trusted", "cheap"])}
    others = {i: _cheap(*part) for i, part in _by_group(cheap_rows, cheap_number, ["value"])}
    is_random = _is_random(groups, keys, sampling)
    reasons = [_reason(trusted.get(i), others.get(i), bool(is_random[i])) for i in range(len(groups))]
    tunings = _tunings(groups, pool, trusted, others, is_random)

    records = []
    for number, reason in enumerate(reasons):
        labelled, rest = trusted.get(number), others.get(number)
        record: dict[str, object] = {
            "n_trusted": labelled.n if labelled else 0.0,
            "n_cheap": rest.n if rest else 0.0,
            "n_eff": labelled.n_eff if labelled else 0.0,
            "reason": reason,
        }
        if reason is None and labelled is not None and rest is not None:
            record |= _estimate(labelled, rest, *tunings[number], confidence, lower, upper)
        records.append(record)
    table = pd.DataFrame(records, columns=list(PREDICTION_POWERED))
    texts = ["tuning_source", "reason"]
    types = {name: "str" if name in texts else "float64" for name in PREDICTION_POWERED}
    return pd.concat([groups, table.astype(types)], axis=1)


def _estimate(
    labelled: _Trusted, rest: _Cheap, tuning: float, source: str, confidence: float, lower: float, upper: float
) -> dict[str, object]:
    n = labelled.n_eff
    variance = labelled.var_y + tuning**2 * (labelled.var_f + rest.var) - 2 * tuning * labelled.cov
    if n < SMALL_SAMPLE:
        variance *= (n - 1) / (n - 2)
    std_error = math.sqrt(max(variance, 0.0))
    estimate = min(max(labelled.mean_y + tuning * (rest.mean - labelled.mean_f), lower), upper)
    level = 0.5 + confidence / 2
    half = float(special.stdtrit(n - 2, level)) * std_error
    alone = float(special.stdtrit(n - 1, level)) * math.sqrt(labelled.var_y)
    spread = math.sqrt(labelled.var_y * labelled.var_f)
    return {
        "tuning": tuning,
        "tuning_source": source,
        "correlation": labelled.cov / spread if spread > 0 else math.nan,
        "estimate": estimate,
        "std_error": std_error,
        "ci_low": max(estimate - half, lower),
        "ci_high": min(estimate + half, upper),
        "trusted_estimate": labelled.mean_y,
        "trusted_low": max(labelled.mean_y - alone, lower),
        "trusted_high": min(labelled.mean_y + alone, upper),
        "width_ratio": half / alone,
        "n_equivalent": labelled.n * (alone / half) ** 2 if half > 0 else math.inf,
    }


def _trusted(units: Floats, w: Floats, y: Floats, f: Floats) -> _Trusted:
    n, mass = math.fsum(units), math.fsum(units * w)
    mean_y, mean_f = math.fsum(units * w * y) / mass, math.fsum(units * w * f) / mass
    squared = units * w**2
    scale = n / (n - 1) / mass**2 if n > 1 else math.nan
    return _Trusted(
        n=n,
        n_eff=mass**2 / math.fsum(squared),
        mean_y=mean_y,
        mean_f=mean_f,
        var_y=scale * math.fsum(squared * (y - mean_y) ** 2),
        var_f=scale * math.fsum(squared * (f - mean_f) ** 2),
        cov=scale * math.fsum(squared * (y - mean_y) * (f - mean_f)),
    )


def _cheap(units: Floats, w: Floats, f: Floats) -> _Cheap:
    n, mass = math.fsum(units), math.fsum(units * w)
    mean = math.fsum(units * w * f) / mass
    scale = n / (n - 1) / mass**2 if n > 1 else math.nan
    return _Cheap(n, mean, scale * math.fsum(units * w**2 * (f - mean) ** 2))


def _reason(labelled: _Trusted | None, rest: _Cheap | None, is_random: bool) -> str | None:
    if not is_random:
        return "not_random"
    if labelled is None or labelled.n_eff < MIN_TRUSTED:
        return "too_few_trusted"
    if rest is None or rest.n < 2:
        return "no_cheap"
    return None if labelled.var_y > 0 else "no_variation"


def _tunings(
    groups: pd.DataFrame,
    pool: Sequence[str] | None,
    trusted: dict[int, _Trusted],
    others: dict[int, _Cheap],
    is_random: NDArray[np.bool_],
) -> dict[int, tuple[float, str]]:
    """Tuning of every segment with both kinds of units, and whether it is its own or its pool's."""
    members = [i for i in trusted if i in others and is_random[i] and trusted[i].n > 1 and others[i].n > 1]
    if pool is None:
        return {i: (_tuning([(trusted[i], others[i])]), "own") for i in members}
    unknown = [name for name in pool if name not in groups.columns]
    if unknown:
        raise ValueError(f"pool names columns outside keys: {unknown}")
    number = np.zeros(len(groups), dtype=np.int64)
    if len(pool) and len(groups):
        number = (
            groups.groupby(list(pool), dropna=False, sort=False, observed=True).ngroup().to_numpy().astype(np.int64)
        )
    pairs: dict[int, list[tuple[_Trusted, _Cheap]]] = {}
    for i in members:
        pairs.setdefault(int(number[i]), []).append((trusted[i], others[i]))
    pooled = {which: _tuning(parts) for which, parts in pairs.items()}
    return {
        i: (pooled[int(number[i])], "pooled")
        if trusted[i].n < POOLED_BELOW and len(pairs[int(number[i])]) > 1
        else (_tuning([(trusted[i], others[i])]), "own")
        for i in members
    }


def _tuning(parts: list[tuple[_Trusted, _Cheap]]) -> float:
    """The tuning in [0, 1] that minimises the sum of n^2 x variance of the estimates."""
    gain = math.fsum(labelled.n**2 * labelled.cov for labelled, _ in parts)
    cost = math.fsum(labelled.n**2 * (labelled.var_f + rest.var) for labelled, rest in parts)
    return min(max(gain / cost, 0.0), 1.0) if cost > 0 else 0.0


def _is_random(groups: pd.DataFrame, keys: Sequence[str], sampling: pd.DataFrame | str) -> NDArray[np.bool_]:
    if isinstance(sampling, str):
        return np.full(len(groups), sampling == "random")
    if "sampling" not in sampling.columns:
        raise ValueError("sampling lacks the column 'sampling'")
    shared = [name for name in keys if name in sampling.columns]
    if not shared:
        raise ValueError("sampling must have at least one of keys, or be one word")
    joined = groups.merge(sampling[[*shared, "sampling"]], on=shared, how="left", validate="many_to_one")
    return (joined["sampling"] == "random").to_numpy(dtype=np.bool_, na_value=False)


# ---- self-selected labels -----------------------------------------------------------------------


def selection_weighted(
    labelled: pd.DataFrame,
    population: pd.DataFrame,
    keys: Sequence[str],
    cells: Sequence[str],
    *,
    confidence: float = 0.95,
    lower: float = 0.0,
    upper: float = 1.0,
) -> pd.DataFrame:
    """Mean over all units from self-selected labels, weighted by the inverse propensity of their cell.

    Propensity of a cell = labelled / all of its units; the estimate is the Hajek mean sum(w y) /
    sum(w) with w = 1 / propensity, over the cells that have a label. Its variance is n / (n - 1)
    sum(w^2 (y - mean)^2) / (sum w)^2, on the safe side where cells differ (propensities are
    estimated within cells); interval by t with n_eff - 1; bound_* is the bounded-mean interval of
    the weighted histogram at n_eff = (sum w)^2 / sum w^2.

    Assumes that within a cell being labelled does not depend on the score, and that every cell can
    be labelled. That repairs who gives feedback (intent, language, list length, surface). It does
    not repair why: where failures themselves provoke feedback the bias stays. An audit decides.

    Args:
        labelled: `keys`, `cells`, `value` (score) and `weight` (integer millionths of a unit).
        population: `keys`, `cells` and `weight`: all units of the cell, labelled or not.
        keys: the columns that name a group.
        cells: the columns that name a cell within a group, such as intent or rank.

    Returns:
        One row per group of `population`, sorted by `keys`: keys, n_labelled, n_all (units), n_eff,
        covered_share (of all units: those in cells with a label), lowest_propensity (of these
        cells), labelled_estimate (unweighted), estimate, std_error, ci_low, ci_high, bound_low,
        bound_high, estimate_low, estimate_high (the uncovered share scored lower and upper),
        reason: NULL, or `no_labels`, `too_few_labelled` (n_eff below 10), and then no estimate.

    Raises:
        ValueError: a column is missing, a value or weight is impossible, or a cell has more labels
            than units.
    """
    _check(confidence, lower, upper, [*keys, *cells], {*SELECTION_WEIGHTED, "value", "weight"})
    names = [*keys, *cells]
    scores = _summed(labelled, names, ["value"], [], "labelled", lower, upper)
    everyone = _summed(population, names, [], [], "population", lower, upper)
    groups, (number,) = _numbered([everyone], keys)
    everyone = everyone.assign(_group=number).rename(columns={"weight": "_all"})
    in_cell = scores.groupby(names, dropna=False, observed=True)["weight"].sum().rename("_labelled").reset_index()
    sizes = everyone.merge(in_cell, on=names, how="left", validate="one_to_one")
    if sizes["_labelled"].notna().sum() != len(in_cell) or (sizes["_labelled"] > sizes["_all"]).any():
        raise ValueError("a cell has more labels than units")
    rows = scores.merge(sizes, on=names, how="left", validate="many_to_one")
    rows = rows.assign(_w=rows["_all"] / rows["_labelled"])

    is_covered = sizes["_labelled"].notna()
    size = len(groups)
    n_all = np.bincount(sizes["_group"], sizes["_all"], size) / MILLIONTHS
    covered = np.bincount(sizes["_group"], sizes["_all"].where(is_covered, 0), size) / MILLIONTHS
    records: list[dict[str, object]] = [{"n_labelled": 0.0, "n_eff": 0.0, "reason": "no_labels"} for _ in range(size)]
    for group, (units, w, y) in _by_group(rows, rows["_group"].to_numpy(dtype=np.int64), ["value"]):
        records[group] = _hajek(units, w, y, confidence, lower, upper)
    table = pd.DataFrame(records, columns=list(SELECTION_WEIGHTED)).assign(
        n_all=n_all, covered_share=np.divide(covered, n_all, out=np.full(size, np.nan), where=n_all > 0)
    )
    types = {name: "str" if name == "reason" else "float64" for name in SELECTION_WEIGHTED}
    table = table.astype(types)

    usable = table["reason"].isna().to_numpy()
    weighted = rows.assign(weight=np.rint(rows["weight"] * rows["_w"]).astype(np.int64))
    weighted = weighted[usable[weighted["_group"].to_numpy(dtype=np.int64)]]
    n_eff = pd.DataFrame({"_group": np.flatnonzero(usable), "n_eff": table["n_eff"].to_numpy()[usable]})
    bounds = mean_intervals(
        weighted[["_group", "value", "weight"]], ["_group"], n_eff=n_eff, confidence=confidence,
        lower=lower, upper=upper,
    )  # fmt: skip
    for name in ("bound_low", "bound_high"):
        table.loc[usable, name] = bounds[name].to_numpy()
    known, missing = table["estimate"] * table["covered_share"], 1 - table["covered_share"]
    table = table.assign(estimate_low=known + missing * lower, estimate_high=known + missing * upper)
    return pd.concat([groups, table], axis=1)


def _hajek(units: Floats, w: Floats, y: Floats, confidence: float, lower: float, upper: float) -> dict[str, object]:
    n, mass, squared = math.fsum(units), math.fsum(units * w), units * w**2
    n_eff = mass**2 / math.fsum(squared)
    counts = {"n_labelled": n, "n_eff": n_eff}
    if n_eff < MIN_TRUSTED:
        return {**counts, "reason": "too_few_labelled"}
    mean = math.fsum(units * w * y) / mass
    std_error = math.sqrt(n / (n - 1) * math.fsum(squared * (y - mean) ** 2)) / mass
    half = float(special.stdtrit(n_eff - 1, 0.5 + confidence / 2)) * std_error
    return {
        **counts,
        "lowest_propensity": 1 / float(w.max()),
        "labelled_estimate": math.fsum(units * y) / n,
        "estimate": mean,
        "std_error": std_error,
        "ci_low": max(mean - half, lower),
        "ci_high": min(mean + half, upper),
        "reason": None,
    }


# ---- layout -------------------------------------------------------------------------------------


def _check(confidence: float, lower: float, upper: float, keys: Sequence[str], reserved: set[str]) -> None:
    if not 0 < confidence < 1 or not -np.inf < lower < upper < np.inf:
        raise ValueError("need 0 < confidence < 1 and lower below upper, both finite")
    if isinstance(keys, str) or not keys or len(set(keys)) < len(keys) or reserved & set(keys):
        raise ValueError(f"keys must be distinct column names outside {sorted(reserved)}: {keys!r}")


def _summed(
    frame: pd.DataFrame, keys: Sequence[str], scores: list[str], extra: list[str], what: str, lower: float, upper: float
) -> pd.DataFrame:
    """Rows with a positive weight, equal cells added (exact: integers), sorted."""
    missing = [name for name in (*keys, *scores, *extra, "weight") if name not in frame.columns]
    if missing:
        raise ValueError(f"{what} lacks the columns {missing}")
    weight = frame["weight"].to_numpy(dtype=np.float64, na_value=np.nan)
    if not np.all((weight >= 0) & (weight == np.floor(weight))):
        raise ValueError(f"{what}: weights must be whole numbers of millionths >= 0")
    numbers = {name: frame[name].to_numpy(dtype=np.float64, na_value=np.nan) + 0.0 for name in (*scores, *extra)}
    for name in scores:
        if not np.all((numbers[name] >= lower) & (numbers[name] <= upper)):
            raise ValueError(f"{what}: {name} must lie in [{lower}, {upper}]")
    if any(np.isnan(numbers[name]).any() for name in extra):
        raise ValueError(f"{what}: {extra[0]} must not be NULL")
    rows = frame[[*keys]].assign(**numbers, weight=frame["weight"].astype("int64"))
    rows = rows[rows["weight"] > 0]
    return rows.groupby([*keys, *scores, *extra], dropna=False, sort=True, observed=True)["weight"].sum().reset_index()


def _numbered(frames: list[pd.DataFrame], keys: Sequence[str]) -> tuple[pd.DataFrame, list[Ints]]:
    """The groups of all frames, sorted, one row each; and the group of every row of every frame."""
    names = pd.concat([frame[list(keys)] for frame in frames], ignore_index=True)
    number = names.groupby(list(keys), dropna=False, sort=True, observed=True).ngroup().to_numpy().astype(np.int64)
    row_of_group = np.empty(int(number.max(initial=-1)) + 1, dtype=np.int64)
    row_of_group[number] = np.arange(len(number))
    ends = np.cumsum([len(frame) for frame in frames])[:-1]
    return names.iloc[row_of_group].reset_index(drop=True), list(np.split(number, ends))


def _by_group(rows: pd.DataFrame, number: Ints, scores: list[str]) -> Iterator[tuple[int, list[Floats]]]:
    """Yield every group with its units, weights of a unit, and scores, row by row."""
    order = np.argsort(number, kind="stable")
    present, first = np.unique(number[order], return_index=True)
    columns = [rows["weight"].to_numpy()[order] / MILLIONTHS]
    columns += [rows[name].to_numpy(dtype=np.float64)[order] for name in ("_w", *scores)]
    for group, start, end in zip(present, first, np.append(first[1:], len(order)), strict=len(present) > 0):
        yield int(group), [column[start:end] for column in columns]
