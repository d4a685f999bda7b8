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
    "n_labelled", "n_all", "n_eff", "covered_share", "lowest_propensity", "labelled_estimate", "labelled_low",
    "labelled_high", "estimate", "std_error", "ci_low", "ci_high", "bound_low", "bound_high", "estimate_low",
    "estimate_high", "reason",
)  # fmt: skip


@dataclass(frozen=True)
class _Sample:
    """Moments of a group with both kinds of units: means, and (co)variances of those means."""

    n: float  # labelled units
    n_eff: float  # (sum w)^2 / sum w^2, w = 1 / (sample rate x inclusion probability)
    mean_y: float
    mean_f: float
    var_y: float
    var_f: float
    cov: float
    others_mean: float
    others_var: float


@dataclass(frozen=True)
class _Labelled:
    """The labelled units of a group, cell by cell."""

    units: Floats
    w: Floats  # 1 / (sample rate x inclusion probability)
    logged: Floats  # 1 / sample rate
    y: Floats
    f: Floats

    @property
    def n(self) -> float:
        return math.fsum(self.units)

    @property
    def n_eff(self) -> float:
        return math.fsum(self.units * self.w) ** 2 / math.fsum(self.units * self.w**2)


@dataclass(frozen=True)
class _Others:
    """The cheap scores of the units of a group that are not labelled, cell by cell."""

    mass: Floats  # units, each counted 1 / sample rate
    f: Floats
    n: float  # their effective number


def prediction_powered(
    joint: pd.DataFrame,
    cheap: pd.DataFrame,
    keys: Sequence[str],
    *,
    sampling: pd.DataFrame | str = "random",
    pool: Sequence[str] | None = None,
    n_eff: pd.DataFrame | None = None,
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

    With unequal inclusion probabilities the labelled count w = 1 / (sample rate x inclusion
    probability), and nobody has to know those of the others: what the sample took too much of is
    put back into their mean, mean f of the others + n / N (plain mean f of the labelled - weighted
    mean f of the labelled). It is the generalised difference estimator of Cassel, Sarndal and
    Wretman (1976), tuned; its variance is the sum of squared influences. Equal probabilities give
    the formulas above.

    Args:
        joint: the labelled units: `keys`, `trusted` and `cheap` (scores in [lower, upper]) and
            `weight` (integer millionths of a unit). Optional: `inclusion_probability` in (0, 1], of
            a logged unit to be labelled, and `sample_rate` in (0, 1], of a unit to be logged.
        cheap: the units that are not labelled: `keys`, `value` and `weight` (integer millionths of
            a unit, where sample rates vary each counted 1 / its sample rate).
        keys: the columns that name a segment.
        sampling: how the labelled were chosen: "random", or anything else, which is refused. One
            word for all, or a frame with `sampling` and any of `keys`.
        pool: those of `keys` that segments of one pool share; None pools nothing.
        n_eff: `keys` and `n_eff`, unique in `keys`: the effective number of the other units where
            their sample rates vary. A segment it does not name has sum(weight) / 1e6.

    Returns:
        One row per segment of either frame, sorted by `keys`: keys, n_trusted (units), n_cheap
        (effective units), n_eff (of the trusted), tuning (0: trusted alone), tuning_source (own | pooled), correlation
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
    chances = ["inclusion_probability", "sample_rate"]
    extra = [name for name in chances if name in joint.columns]
    trusted_rows = _summed(joint, keys, ["trusted", "cheap"], extra, "joint", lower, upper)
    cheap_rows = _summed(cheap, keys, ["value"], [], "cheap", lower, upper)
    for name in extra:
        if not ((trusted_rows[name] > 0) & (trusted_rows[name] <= 1)).all():
            raise ValueError(f"joint: {name} must be in (0, 1]")
    chosen, logged = (trusted_rows[name] if name in extra else 1.0 for name in chances)
    trusted_rows = trusted_rows.assign(_w=1 / (logged * chosen), _logged=1 / logged)

    groups, (trusted_number, cheap_number) = _numbered([trusted_rows, cheap_rows], keys)
    effective = _effective(groups, keys, n_eff)
    trusted = {
        i: _Labelled(*part)
        for i, part in _by_group(trusted_rows, trusted_number, ["_w", "_logged", "trusted", "cheap"])
    }
    others = {
        i: _Others(mass, f, math.fsum(mass) if math.isnan(effective[i]) else float(effective[i]))
        for i, (mass, f) in _by_group(cheap_rows, cheap_number, ["value"])
    }
    is_random = _is_random(groups, keys, sampling)
    samples = {
        i: _sample(trusted[i], others[i])
        for i in trusted
        if i in others and is_random[i] and trusted[i].n > 1 and others[i].n > 1
    }
    tunings = _tunings(groups, pool, samples)

    records = []
    for number in range(len(groups)):
        labelled, rest, sample = trusted.get(number), others.get(number), samples.get(number)
        reason = _reason(labelled, rest, sample, bool(is_random[number]))
        record: dict[str, object] = {
            "n_trusted": labelled.n if labelled else 0.0,
            "n_cheap": rest.n if rest else 0.0,
            "n_eff": labelled.n_eff if labelled else 0.0,
            "reason": reason,
        }
        if reason is None and sample is not None:
            record |= _estimate(sample, *tunings[number], confidence, lower, upper)
        records.append(record)
    table = pd.DataFrame(records, columns=list(PREDICTION_POWERED))
    texts = ["tuning_source", "reason"]
    types = {name: "str" if name in texts else "float64" for name in PREDICTION_POWERED}
    return pd.concat([groups, table.astype(types)], axis=1)


def _estimate(
    sample: _Sample, tuning: float, source: str, confidence: float, lower: float, upper: float
) -> dict[str, object]:
    n = sample.n_eff
    variance = sample.var_y + tuning**2 * (sample.var_f + sample.others_var) - 2 * tuning * sample.cov
    if n < SMALL_SAMPLE:
        variance *= (n - 1) / (n - 2)
    std_error = math.sqrt(max(variance, 0.0))
    estimate = min(max(sample.mean_y + tuning * (sample.others_mean - sample.mean_f), lower), upper)
    level = 0.5 + confidence / 2
    half = float(special.stdtrit(n - 2, level)) * std_error
    alone = float(special.stdtrit(n - 1, level)) * math.sqrt(sample.var_y)
    spread = math.sqrt(sample.var_y * sample.var_f)
    return {
        "tuning": tuning,
        "tuning_source": source,
        "correlation": sample.cov / spread if spread > 0 else math.nan,
        "estimate": estimate,
        "std_error": std_error,
        "ci_low": max(estimate - half, lower),
        "ci_high": min(estimate + half, upper),
        "trusted_estimate": sample.mean_y,
        "trusted_low": max(sample.mean_y - alone, lower),
        "trusted_high": min(sample.mean_y + alone, upper),
        "width_ratio": half / alone,
        "n_equivalent": sample.n * (alone / half) ** 2 if half > 0 else math.inf,
    }


def _sample(labelled: _Labelled, rest: _Others) -> _Sample:
    """Moments of a group with more than one unit of either kind."""
    units, w, logged, y, f = labelled.units, labelled.w, labelled.logged, labelled.y, labelled.f
    n, mass = labelled.n, math.fsum(units * w)
    mean_y, mean_f = math.fsum(units * w * y) / mass, math.fsum(units * w * f) / mass
    logged_mass, others_mass = math.fsum(units * logged), math.fsum(rest.mass)
    put_back = math.fsum(units * logged * (f - mean_f)) / others_mass
    others_mean = math.fsum(rest.mass * rest.f) / others_mass + put_back
    # how a labelled unit moves mean y, and the contrast of the two means of f
    on_y = w / mass
    on_f = (w * ((logged_mass + others_mass) / mass) - logged) / others_mass
    scale = n / (n - 1)
    return _Sample(
        n=n,
        n_eff=labelled.n_eff,
        mean_y=mean_y,
        mean_f=mean_f,
        var_y=scale * math.fsum(units * on_y**2 * (y - mean_y) ** 2),
        var_f=scale * math.fsum(units * on_f**2 * (f - mean_f) ** 2),
        cov=scale * math.fsum(units * on_y * on_f * (y - mean_y) * (f - mean_f)),
        others_mean=others_mean,
        others_var=math.fsum(rest.mass * (rest.f - others_mean) ** 2) / others_mass / (rest.n - 1),
    )


def _reason(labelled: _Labelled | None, rest: _Others | None, sample: _Sample | None, is_random: bool) -> str | None:
    if not is_random:
        return "not_random"
    if labelled is None or labelled.n_eff < MIN_TRUSTED:
        return "too_few_trusted"
    if rest is None or rest.n < 2 or sample is None:
        return "no_cheap"
    return None if sample.var_y > 0 else "no_variation"


def _tunings(
    groups: pd.DataFrame, pool: Sequence[str] | None, samples: dict[int, _Sample]
) -> dict[int, tuple[float, str]]:
    """Tuning of every segment with both kinds of units, and whether it is its own or its pool's."""
    if pool is None:
        return {i: (_tuning([sample]), "own") for i, sample in samples.items()}
    unknown = [name for name in pool if name not in groups.columns]
    if unknown:
        raise ValueError(f"pool names columns outside keys: {unknown}")
    number = np.zeros(len(groups), dtype=np.int64)
    if len(pool) and len(groups):
        number = (
            groups.groupby(list(pool), dropna=False, sort=False, observed=True).ngroup().to_numpy().astype(np.int64)
        )
    pools: dict[int, list[_Sample]] = {}
    for i, sample in samples.items():
        pools.setdefault(int(number[i]), []).append(sample)
    pooled = {which: _tuning(parts) for which, parts in pools.items()}
    return {
        i: (pooled[int(number[i])], "pooled")
        if sample.n < POOLED_BELOW and len(pools[int(number[i])]) > 1
        else (_tuning([sample]), "own")
        for i, sample in samples.items()
    }


def _tuning(parts: list[_Sample]) -> float:
    """The tuning in [0, 1] that minimises the sum of n^2 x variance of the estimates."""
    gain = math.fsum(sample.n**2 * sample.cov for sample in parts)
    cost = math.fsum(sample.n**2 * (sample.var_f + sample.others_var) for sample in parts)
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
    n_eff: pd.DataFrame | None = None,
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
        n_eff: `keys` and `n_eff`, unique in `keys`: how many independent units the labels of a
            group are worth where several come from one session; counts are scaled to it. A group it
            does not name has sum(weight) / 1e6.

    Returns:
        One row per group of `population`, sorted by `keys`: keys, n_labelled (independent units),
        n_all (units), n_eff, covered_share (of all units: those in cells with a label),
        lowest_propensity (of these cells), labelled_estimate, labelled_low, labelled_high
        (unweighted, t with n_labelled - 1), estimate, std_error, ci_low, ci_high, bound_low,
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
    effective = _effective(groups, keys, n_eff)
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
    for group, (units, w, y) in _by_group(rows, rows["_group"].to_numpy(dtype=np.int64), ["_w", "value"]):
        independent = math.fsum(units) if math.isnan(effective[group]) else float(effective[group])
        records[group] = _hajek(units * (independent / math.fsum(units)), w, y, confidence, lower, upper)
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
    plain = math.fsum(units * y) / n
    plain_half = float(special.stdtrit(n - 1, 0.5 + confidence / 2)) * math.sqrt(
        math.fsum(units * (y - plain) ** 2) / n / (n - 1)
    )
    return {
        **counts,
        "lowest_propensity": 1 / float(w.max()),
        "labelled_estimate": plain,
        "labelled_low": max(plain - plain_half, lower),
        "labelled_high": min(plain + plain_half, upper),
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


def _effective(groups: pd.DataFrame, keys: Sequence[str], n_eff: pd.DataFrame | None) -> Floats:
    """The effective number of units that is declared for each group; NaN where none is."""
    if n_eff is None:
        return np.full(len(groups), np.nan)
    missing = [name for name in (*keys, "n_eff") if name not in n_eff.columns]
    if missing:
        raise ValueError(f"n_eff lacks the columns {missing}")
    declared = groups.merge(n_eff[[*keys, "n_eff"]], on=list(keys), how="left", validate="many_to_one")["n_eff"]
    numbers = declared.to_numpy(dtype=np.float64, na_value=np.nan)
    if (numbers <= 0).any():
        raise ValueError("n_eff must be above 0")
    return numbers


def _by_group(rows: pd.DataFrame, number: Ints, scores: list[str]) -> Iterator[tuple[int, list[Floats]]]:
    """Yield every group with its units and its scores, row by row."""
    order = np.argsort(number, kind="stable")
    present, first = np.unique(number[order], return_index=True)
    columns = [rows["weight"].to_numpy()[order] / MILLIONTHS]
    columns += [rows[name].to_numpy(dtype=np.float64)[order] for name in scores]
    for group, start, end in zip(present, first, np.append(first[1:], len(order)), strict=len(present) > 0):
        yield int(group), [column[start:end] for column in columns]
