"""Intervals for means of bounded scores, from histograms, for many groups at once.

A mean depends on its data only through how often each value occurs, so a group is a histogram:
distinct values x_v in [lower, upper] with counts c_v, n = sum c_v. Two intervals are computed:

* the bootstrap interval (percentile or BCa), without resampling: a saddlepoint approximation to
  the distribution of the resampled mean;
* the bounded-mean interval (Gaffke 2005; Learned-Miller & Thomas 2019, arXiv:1905.06208), which
  needs no minimum n, never has zero width, and is Clopper-Pearson where scores are lower or upper.

Nothing is random and nothing depends on the other groups of a call: a group is padded to the power
of two above its own support, and sums halve the padded axis (`_tree_sum`), so that each operation
is elementwise over groups. A group gives the same bits in any batch, row order or group order.

A p-value is the same law read the other way: the level at which an end meets a threshold.

Arrays `values`, `shares`, `counts`, `distance` have shape (width, groups): the support comes first;
padding repeats the largest value of the group with count zero. All others have shape (groups,).
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import special

CiMethod = Literal["bca", "percentile"]
Side = Literal["below", "above"]
End = Literal["low", "high"]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MILLIONTHS = 1_000_000  # weights are integer millionths of a unit
MDD_FACTOR = 2.80  # z(.975) + z(.80): two-sided 5 %, power 80 %

_STATISTICS = ("estimate", "std_error", "ci_low", "ci_high", "bound_low", "bound_high", "mdd")
_BLOCK_CELLS = 2**15  # cells of a padded block: 256 kB of float64, so that a block stays in cache
_BISECTIONS = 16  # of a bracket no wider than a factor e^6, except for fractions of a unit
_POLISHINGS = 2
_DRAW_CELLS = 4_000_000  # cells of a block of Monte-Carlo draws: 32 MB
_MAX_LOG_PHI = 300.0  # fractions of a unit put the quantile nearer to the end than 1e-100
_SMALL_W = 1e-2  # below it log(u/w)/w is cancellation; its limit at w = 0 is used
_TAIL_BISECTIONS = 46  # of [-100, 100], before one secant step
_NEAR_CENTRE = 0.1  # for |w| below it the second-order tail is cancellation: interpolated


@dataclass(frozen=True)
class Interval:
    """Ends of an interval, in score units."""

    low: float
    high: float


@dataclass(frozen=True)
class _Supports:
    """Distinct values of every group, ascending, end to end; `first` and `size` delimit groups."""

    keys: pd.DataFrame  # one row per group, sorted
    group: Ints  # the row of `keys` that each support belongs to
    first: Ints
    size: Ints
    total: Ints  # sum of the weights
    scores: Floats
    weights: Ints


def mean_intervals(
    histogram: pd.DataFrame,
    keys: Sequence[str],
    *,
    n_eff: pd.DataFrame | None = None,
    confidence: float = 0.95,
    ci_method: CiMethod = "bca",
    lower: float = 0.0,
    upper: float = 1.0,
) -> pd.DataFrame:
    """Estimate the mean score of every group, with its standard error and intervals.

    Args:
        histogram: `keys`, `value` (float in [lower, upper]) and `weight` (integer millionths of a
            unit, >= 0). Rows of one group and value are added. NULL is a key value like any other.
        keys: the columns that name a group.
        n_eff: `keys` and `n_eff` (units, > 0), unique in `keys`; counts are scaled to sum to it.
            A group it does not name, or names with NULL, has n_eff = sum(weight) / 1e6.
        confidence: two-sided level, at least 0.5 and below 1.
        ci_method: the bootstrap interval to compute.
        lower, upper: the range of a score.

    Returns:
        One row per group, sorted by `keys`: keys, n_eff (units), estimate, std_error, ci_method,
        ci_low, ci_high, bound_low, bound_high, mdd (score units). std_error is NaN for n_eff <= 1.
        ci_method is "bounded", and ci_* equal bound_*, where the bootstrap has no width or misses
        the estimate (one distinct value, n_eff <= 1, next to no weight off one value). A group of
        total weight zero has n_eff 0, estimate NaN and [lower, upper] as both intervals.

    Raises:
        ValueError: a column is missing or named twice, the level, method or range is impossible, a
            value lies outside the range, or a weight is negative or no whole number.
    """
    _check_arguments(histogram, keys, confidence, ci_method, lower, upper)
    supports = _supports(histogram, keys, lower, upper)
    n_units = _effective_sizes(supports, keys, n_eff)

    columns = {name: np.full(len(n_units), np.nan) for name in _STATISTICS}
    for name, end in (("low", lower), ("high", upper)):
        columns[f"ci_{name}"][:] = columns[f"bound_{name}"][:] = end
    is_bootstrap = np.zeros(len(n_units), dtype=np.bool_)

    for groups, values, shares in _padded_blocks(supports):
        n = n_units[groups]
        block = _block_statistics(values, shares, n, confidence, ci_method, lower, upper)
        for name in _STATISTICS:
            columns[name][groups] = block[name]
        is_bootstrap[groups] = block["has_width"] > 0

    method = pd.Series(np.where(is_bootstrap, ci_method, "bounded"), dtype="str")
    result = supports.keys.assign(n_eff=n_units, ci_method=method, **columns)
    return result[[*keys, "n_eff", "estimate", "std_error", "ci_method", *_STATISTICS[2:]]]


def bounded_p_values(
    histogram: pd.DataFrame,
    keys: Sequence[str],
    thresholds: pd.DataFrame | float,
    *,
    n_eff: pd.DataFrame | None = None,
    side: Side = "below",
    lower: float = 0.0,
    upper: float = 1.0,
) -> pd.DataFrame:
    """One-sided p-values of every group's mean against a threshold, from the bounded-mean law.

    side "below" tests H0: mean >= threshold, so a small p is evidence that the mean lies below it;
    side "above" tests H0: mean <= threshold. The test inverts the bounded interval: p < alpha / 2
    exactly where bound_high (above: bound_low) of level 1 - alpha lies beyond the threshold, up to
    1e-4 score units at levels from .95 (1e-3 below: the interval's solver). On scores of
    lower and upper alone p is the binomial tail of Clopper-Pearson.

    Args:
        histogram, keys, n_eff, lower, upper: as in `mean_intervals`.
        thresholds: one number (score units), or `keys` and `threshold`, unique in `keys`.
        side: where the evidence is looked for.

    Returns:
        One row per group, sorted by `keys`: keys, n_eff (units), threshold, p_value. p_value is NaN
        where nothing was measured (total weight zero) or no threshold is named.

    Raises:
        ValueError: as `mean_intervals`; `side` is unknown; a threshold is infinite.
    """
    if side not in ("below", "above"):
        raise ValueError(f"side must be 'below' or 'above', got {side!r}")
    _check_arguments(histogram, keys, 0.95, "bca", lower, upper)
    supports = _supports(histogram, keys, lower, upper)
    n_units = _effective_sizes(supports, keys, n_eff)
    threshold = per_group(supports.keys, keys, thresholds, "threshold")
    if np.isinf(threshold).any():
        raise ValueError("a threshold must be finite")

    p_value = np.full(len(n_units), np.nan)
    for groups, values, shares in _padded_blocks(supports):
        n = n_units[groups]
        distance, reach = _mirrored(values, threshold[groups], side, lower, upper)
        known = ~np.isnan(reach)
        tail = _bounded_tail(distance, shares * n, n, np.where(known, reach, 0.0))
        p_value[groups] = np.where(known, tail, np.nan)
    return supports.keys.assign(n_eff=n_units, threshold=threshold, p_value=p_value)


def bounded_ends(
    values: ArrayLike, counts: ArrayLike, *, confidence: float = 0.95, lower: float = 0.0, upper: float = 1.0
) -> tuple[Floats, Floats]:
    """The bounded-mean intervals (low, high) of many groups that share their `values`.

    The array form of `mean_intervals`, for simulations: `values` ascending, shape (K,); `counts`
    in units, shape (groups, K), each row with a positive sum. Returns two arrays of shape (groups,).
    """
    x, c = np.asarray(values, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    if x.ndim != 1 or c.ndim != 2 or c.shape[1] != x.size or x.size == 0 or np.any(np.diff(x) <= 0):
        raise ValueError("values must be ascending, shape (K,), counts of shape (groups, K)")
    if x[0] < lower or x[-1] > upper or not 0.5 <= confidence < 1:
        raise ValueError("values must lie in [lower, upper], confidence in [0.5, 1)")
    n_units = c.sum(axis=1)
    if np.any(c < 0) or np.any(n_units <= 0):
        raise ValueError("counts must be >= 0 with a positive sum in every group")
    width = 2 ** int(np.ceil(np.log2(x.size)))
    padded = np.pad(x, (0, width - x.size), mode="edge")[:, None]
    z = -float(special.ndtri((1 - confidence) / 2))
    low, high = np.empty(len(c)), np.empty(len(c))
    step = max(1, _BLOCK_CELLS // width)
    for start in range(0, len(c), step):
        rows = slice(start, start + step)
        n = n_units[rows]
        block = np.pad(c[rows].T, ((0, width - x.size), (0, 0)))
        both = np.broadcast_to(padded, block.shape)
        estimate = _tree_sum(block * both) / n
        low[rows] = np.minimum(lower + _bounded_distance(both - lower, block, n, z), estimate)
        high[rows] = np.maximum(upper - _bounded_distance(upper - both, block, n, z), estimate)
    return low, high


@dataclass(frozen=True)
class HistogramGroups:
    """Groups of a histogram: `keys` has one row per group, sorted; `n_units` are their sizes (units)."""

    keys: pd.DataFrame
    n_units: Floats
    _supports: _Supports
    _lower: float
    _upper: float

    def reach(self, rows: Ints, z: Floats, end: End) -> Floats:
        """How far the bounded interval of z (> 0) standard normal quantiles reaches beyond the estimate.

        `rows` are positions in `keys` (they may repeat), each with a positive weight; `z` has their
        shape. The result is >= 0, in score units.
        """
        supports = self._supports
        at = np.searchsorted(supports.group, rows)
        asked = replace(
            supports, group=np.arange(len(rows)), first=supports.first[at], size=supports.size[at],
            total=supports.total[at],
        )  # fmt: skip
        result = np.empty(len(rows))
        for questions, values, shares in _padded_blocks(asked):
            n = self.n_units[rows[questions]]
            estimate = np.clip(_tree_sum(shares * values), values[0], values[-1])
            distance, gap = _mirrored(values, estimate, "above" if end == "low" else "below", self._lower, self._upper)
            result[questions] = np.maximum(gap - _bounded_distance(distance, shares * n, n, z[questions]), 0.0)
        return result

    def sums(self, term: Callable[[Floats, Ints], Floats]) -> Floats:
        """Sum of units x term(value, row) over the histogram of every group; 0 without weight.

        `term` gets values of shape (width, rows) and the rows, positions in `keys`.
        """
        result = np.zeros(len(self.n_units))
        for rows, values, shares in _padded_blocks(self._supports):
            result[rows] = _tree_sum(shares * self.n_units[rows] * term(values, rows))
        return result


def histogram_groups(
    histogram: pd.DataFrame,
    keys: Sequence[str],
    *,
    n_eff: pd.DataFrame | None = None,
    lower: float = 0.0,
    upper: float = 1.0,
) -> HistogramGroups:
    """The groups of a histogram, in the order of `mean_intervals`; arguments as there."""
    _check_arguments(histogram, keys, 0.95, "bca", lower, upper)
    supports = _supports(histogram, keys, lower, upper)
    return HistogramGroups(supports.keys, _effective_sizes(supports, keys, n_eff), supports, lower, upper)


def bootstrap_monte_carlo(
    values: ArrayLike,
    counts: ArrayLike,
    *,
    n_resamples: int,
    seed_key: Sequence[str | int | float | None],
    ci_method: CiMethod = "bca",
    confidence: float = 0.95,
) -> Interval:
    """Bootstrap interval of a mean by resampling: the witness of the saddlepoint, for tests.

    A resample of n units has Multinomial(n, counts / n) counts, so counts are drawn, not rows. The
    stream is PCG64 seeded by blake2b(json(seed_key)): it depends on no other group. `values` are
    distinct, shape (K,), `counts` whole numbers of units. A single value gives a zero-width result.
    BCa: Efron 1987, eq. 2.3 and 6.6; z0 with mid-ranks, as resampled lattice means often tie.
    """
    x, c = np.asarray(values, dtype=np.float64), np.asarray(counts)
    if x.ndim != 1 or x.shape != c.shape or x.size == 0:
        raise ValueError("values and counts must be one-dimensional, of one length, not empty")
    if np.any(c < 0) or np.any(c != np.floor(c)) or c.sum() < 1:
        raise ValueError("counts must be whole numbers >= 0 with a positive sum")
    if n_resamples < 1 or not 0 < confidence < 1 or ci_method not in ("bca", "percentile"):
        raise ValueError("need n_resamples >= 1, 0 < confidence < 1, a known ci_method")
    order = np.lexsort((x, -c))  # frequent values first: the chain of binomial draws ends early
    x, c = x[order], c[order].astype(np.int64)
    n = int(c.sum())
    mean = float(c @ x) / n

    digest = blake2b(json.dumps(list(seed_key)).encode(), digest_size=16).digest()
    rng = np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))
    rows = max(1, _DRAW_CELLS // x.size)
    sizes = [min(rows, n_resamples - start) for start in range(0, n_resamples, rows)]
    means = np.concatenate([rng.multinomial(n, c / n, size=size) @ x / n for size in sizes])

    z = special.ndtri(np.array([0.5 - confidence / 2, 0.5 + confidence / 2]))
    deviations = x - mean
    sum_squares = float(c @ deviations**2)
    if ci_method == "bca" and sum_squares > 0:
        acceleration = float(c @ deviations**3) / (6 * sum_squares**1.5)
        ties = np.abs(means - mean) <= 1e-12
        z0 = special.ndtri(np.mean(np.where(ties, 0.5, means < mean)))
        z = z0 + (z0 + z) / (1 - acceleration * (z0 + z))
    low, high = np.quantile(means, special.ndtr(z))
    return Interval(float(low), float(high))


# ---- validation and layout ----------------------------------------------------------------------


def _check_arguments(
    histogram: pd.DataFrame,
    keys: Sequence[str],
    confidence: float,
    ci_method: str,
    lower: float,
    upper: float,
) -> None:
    reserved = {"value", "weight", "n_eff", "ci_method", *_STATISTICS}
    if isinstance(keys, str) or not keys or len(set(keys)) < len(keys) or reserved & set(keys):
        raise ValueError(f"keys must be distinct column names outside {sorted(reserved)}: {keys!r}")
    missing = [name for name in (*keys, "value", "weight") if name not in histogram.columns]
    if missing:
        raise ValueError(f"histogram lacks the columns {missing}")
    if not 0.5 <= confidence < 1:
        raise ValueError(f"confidence must be in [0.5, 1), got {confidence}")
    if ci_method not in ("bca", "percentile"):
        raise ValueError(f"ci_method must be 'bca' or 'percentile', got {ci_method!r}")
    if not -np.inf < lower < upper < np.inf:
        raise ValueError(f"lower must be below upper, both finite, got {lower} and {upper}")


def _supports(histogram: pd.DataFrame, keys: Sequence[str], lower: float, upper: float) -> _Supports:
    """Number the groups in key order, then add the weights of equal values (exact: integers)."""
    value = histogram["value"].to_numpy(dtype=np.float64, na_value=np.nan) + 0.0  # -0.0 becomes 0.0
    outside = ~((value >= lower) & (value <= upper))
    if outside.any():
        raise ValueError(f"value {value[outside][0]} lies outside [{lower}, {upper}]")
    raw = histogram["weight"].to_numpy(dtype=np.float64, na_value=np.nan)
    bad = ~((raw >= 0) & (raw == np.floor(raw)))
    if bad.any():
        raise ValueError(f"weight {raw[bad][0]} is not a whole number of millionths >= 0")
    if raw.sum() >= 2**62:
        raise ValueError("the weights add up to more than fits a 64-bit integer")
    weight = histogram["weight"].to_numpy(dtype=np.int64)

    names = histogram[list(keys)]
    numbers = names.groupby(list(keys), dropna=False, sort=True, observed=True).ngroup().to_numpy()
    n_groups = int(numbers.max(initial=-1)) + 1
    row_of_group = np.empty(n_groups, dtype=np.int64)
    row_of_group[numbers] = np.arange(len(numbers))

    order = np.lexsort((value, numbers))
    order = order[weight[order] > 0]
    group, value, weight = numbers[order], value[order], weight[order]
    is_new = np.ones(len(order), dtype=np.bool_)
    is_new[1:] = (group[1:] != group[:-1]) | (value[1:] != value[:-1])
    starts = np.flatnonzero(is_new)
    group, value = group[starts], value[starts]
    weight = np.add.reduceat(weight, starts) if len(starts) else weight
    present, first, size = np.unique(group, return_index=True, return_counts=True)
    total = np.add.reduceat(weight, first) if len(first) else weight
    key_rows = names.iloc[row_of_group].reset_index(drop=True)
    return _Supports(key_rows, present.astype(np.int64), first, size, total, value, weight)


def _effective_sizes(supports: _Supports, keys: Sequence[str], n_eff: pd.DataFrame | None) -> Floats:
    """Units behind each row of `supports.keys`: what the caller says, else the summed weights."""
    sizes = np.zeros(len(supports.keys))
    sizes[supports.group] = supports.total / MILLIONTHS
    if n_eff is None:
        return sizes
    missing = [name for name in (*keys, "n_eff") if name not in n_eff.columns]
    if missing:
        raise ValueError(f"n_eff lacks the columns {missing}")
    named = n_eff[[*keys, "n_eff"]]
    joined = supports.keys.merge(named, on=list(keys), how="left", validate="one_to_one")
    given = joined["n_eff"].to_numpy(dtype=np.float64, na_value=np.nan)
    given = np.where(np.isnan(given) | (sizes == 0), sizes, given)
    if np.any((given <= 0) & (sizes > 0)) or np.isinf(given).any():
        raise ValueError("n_eff must be positive and finite")
    return given


def per_group(groups: pd.DataFrame, keys: Sequence[str], given: pd.DataFrame | float, name: str) -> Floats:
    """One number per row of `groups`: `given` itself, or its column `name` joined on `keys` (NaN where absent)."""
    if not isinstance(given, pd.DataFrame):
        return np.full(len(groups), float(given))
    missing = [column for column in (*keys, name) if column not in given.columns]
    if missing:
        raise ValueError(f"{name}: the columns {missing} are missing")
    joined = groups[list(keys)].merge(given[[*keys, name]], on=list(keys), how="left", validate="many_to_one")
    return joined[name].to_numpy(dtype=np.float64, na_value=np.nan)


def _mirrored(values: Floats, threshold: Floats, side: Side, lower: float, upper: float) -> tuple[Floats, Floats]:
    """Distances of the values, and of the threshold, from the end of the range that holds the extra unit."""
    if side == "below":
        return upper - values, upper - threshold
    return values - lower, threshold - lower


def _padded_blocks(supports: _Supports) -> Iterator[tuple[Ints, Floats, Floats]]:
    """Yield (groups, values, shares) of bounded size; all supports of a block share one width."""
    widths = 2 ** np.ceil(np.log2(supports.size)).astype(np.int64)
    for width in np.unique(widths):
        members = np.flatnonzero(widths == width)
        step = max(1, _BLOCK_CELLS // int(width))
        cell = np.arange(width)[:, None]
        for start in range(0, len(members), step):
            rows = members[start : start + step]
            inside = cell < supports.size[rows]
            index = supports.first[rows] + np.minimum(cell, supports.size[rows] - 1)
            weights = np.where(inside, supports.weights[index], 0)
            yield supports.group[rows], supports.scores[index], weights / supports.total[rows]


# ---- statistics of one block --------------------------------------------------------------------


def _block_statistics(
    values: Floats,
    shares: Floats,
    n: Floats,
    confidence: float,
    ci_method: CiMethod,
    lower: float,
    upper: float,
) -> dict[str, Floats]:
    """Every published statistic, and `has_width` (1 where a bootstrap interval has a width)."""
    z = -float(special.ndtri((1 - confidence) / 2))
    counts = shares * n
    estimate = np.clip(_tree_sum(shares * values), values[0], values[-1])
    # mirrored, the two ends are one problem: how near may the mean come to the end of the range?
    bound_low = np.minimum(lower + _bounded_distance(values - lower, counts, n, z), estimate)
    bound_high = np.maximum(upper - _bounded_distance(upper - values, counts, n, z), estimate)

    deviations = values - estimate
    squares = shares * deviations**2
    variance = _tree_sum(squares)
    is_spread = (variance > 0) & (n > 1)
    sigma = np.sqrt(np.where(is_spread, variance, 1.0))
    # plug-in sigma / sqrt(n - 1) = (sigma with ddof 1) / sqrt(n)
    std_error = np.where(n > 1, np.sqrt(variance / np.where(n > 1, n - 1, 1.0)), np.nan)

    skew = _tree_sum(squares * deviations) / (sigma**3 * 6 * np.sqrt(n))
    ends = [
        _bootstrap_end(values, shares, n, sigma, skew, target)
        for target in (_normal_quantile(-z, skew, ci_method), _normal_quantile(z, skew, ci_method))
    ]
    # with whole units an interval has a width and holds the estimate; millionths can break both
    has_width = is_spread & (ends[0] < ends[1]) & (ends[0] <= estimate) & (estimate <= ends[1])
    return {
        "estimate": estimate,
        "std_error": std_error,
        "ci_low": np.where(has_width, ends[0], bound_low),
        "ci_high": np.where(has_width, ends[1], bound_high),
        "bound_low": bound_low,
        "bound_high": bound_high,
        "mdd": np.fmax(MDD_FACTOR * std_error, estimate - bound_low),
        "has_width": has_width.astype(np.float64),
    }


def _tree_sum(terms: Floats) -> Floats:
    """Sum over axis 0, whose length is a power of two, in an order fixed by that length alone."""
    while len(terms) > 1:
        half = len(terms) // 2
        terms = terms[:half] + terms[half:]
    total: Floats = terms[0]
    return total


def _solve(score: Callable[[Floats], Floats], low: Floats, high: Floats, lowest: Floats, highest: Floats) -> Floats:
    """Root of an increasing function by a fixed number of bisections and one secant step.

    [low, high] is where the root is expected; an end that does not bracket moves to lowest/highest.
    """
    score_low, score_high = score(low), score(high)
    low, score_low = _choose(score_low < 0, (low, score_low), (lowest, -np.ones_like(low)))
    high, score_high = _choose(score_high >= 0, (high, score_high), (highest, np.ones_like(high)))
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        tried = (middle, score(middle))
        is_below = tried[1] < 0
        low, score_low = _choose(is_below, tried, (low, score_low))
        high, score_high = _choose(is_below, (high, score_high), tried)
    return low + (high - low) * (score_low / (score_low - score_high))


def _choose(
    condition: NDArray[np.bool_], yes: tuple[Floats, Floats], no: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    return np.where(condition, yes[0], no[0]), np.where(condition, yes[1], no[1])


# ---- bootstrap ----------------------------------------------------------------------------------


def _normal_quantile(z: float, skew: Floats, ci_method: CiMethod) -> Floats:
    """Normal quantile at which the bootstrap law is read: z, or for BCa Efron 1987, eq. 2.3.

    For a mean z0 = a = gamma / (6 sqrt n), which whole units keep within 1/6; fractions of a unit
    are held to the same limit. Past the pole at a (z0 + z) = 1 the end is the extreme of the data.
    """
    if ci_method == "percentile":
        return np.full_like(skew, z)
    a = np.clip(skew, -1 / 6, 1 / 6)
    room = 1 - a * (a + z)
    return np.where(room > 0, a + (a + z) / np.where(room > 0, room, 1.0), np.sign(z) * np.inf)


def _bootstrap_end(values: Floats, shares: Floats, n: Floats, sigma: Floats, skew: Floats, z: Floats) -> Floats:
    """Quantile Phi(z) of the mean of n draws from the histogram, within its [min, max].

    Lugannani & Rice 1980, in the r* form (Barndorff-Nielsen 1986): P(mean <= K'(t)) = Phi(r*) with
    r* = w + log(u/w)/w, w = sqrt(2n(tK' - K)), u = t sqrt(nK''). With d the distance from the
    extreme in whose direction the mean moves: w^2/2 = -n(t m + log sum p e^(-td)), m = d tilted.
    """
    upward = z > skew
    distance = np.where(upward, values[-1] - values, values - values[0])
    z, skew = np.where(upward, z, -z), np.where(upward, skew, -skew)
    share_of_extreme = _tree_sum(np.where(distance == 0, shares, 0.0))
    gap = np.min(np.where(distance > 0, distance, np.inf), axis=0)

    def tilt(log_t: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        t = np.exp(log_t)
        terms = shares * np.exp(-t * distance)
        mass = _tree_sum(terms)
        m = _tree_sum(terms * distance) / mass
        u = t * np.sqrt(n * _tree_sum(terms * (distance - m) ** 2) / mass)
        w = np.sqrt(2 * n * np.maximum(-t * m - np.log(mass), 0.0))
        return m, w, u, n * (1 - share_of_extreme / mass)

    def score(log_t: Floats) -> Floats:
        _, w, u, draws_elsewhere = tilt(log_t)
        r_star = np.where(w < _SMALL_W, w + skew, _r_star(w, u))
        # less than 0.1 expected draws off the extreme: r* turns down again, the end is reached
        return np.where(draws_elsewhere < 0.1, 1.0, r_star - target)

    target = np.clip(z, -30.0, 30.0)
    with np.errstate(divide="ignore", invalid="ignore"):  # groups without width: discarded
        scale = np.log((target - skew) / (sigma * np.sqrt(n)))
        reached = np.log(np.log(1 + 10 * n / share_of_extreme) / gap)  # there the end is reached
        near, far = scale - 2.0, np.minimum(scale + 2.0, reached)
        m, *_ = tilt(_solve(score, near, far, scale - 20.0, reached))
        # all draws at the extreme: an atom of the bootstrap law that is known exactly
        in_atom = n * np.log(share_of_extreme) >= special.log_ndtr(-z)
    m = np.where(in_atom, 0.0, m)
    end: Floats = np.where(upward, values[-1] - m, values[0] + m)
    inside: Floats = np.minimum(np.maximum(end, values[0]), values[-1])
    return inside


def _r_star(w: Floats, u: Floats) -> Floats:
    """Barndorff-Nielsen's r* = w + log(u/w)/w, for w >= _SMALL_W (a harmless value below)."""
    safe_w = np.maximum(w, _SMALL_W)
    return w + np.log(np.maximum(u, 1e-300) / safe_w) / safe_w


# ---- bounded mean -------------------------------------------------------------------------------


def _bounded_distance(distance: Floats, counts: Floats, n: Floats, z: float | Floats) -> Floats:
    """Quantile Phi(-z) of sum D_v d_v, D ~ Dirichlet(counts, 1 extra at distance 0).

    `distance` is from the end of the range that carries the extra unit (Gaffke 2005). At most one
    distinct value off that end: a scaled Beta quantile, exact. Else a saddlepoint.
    """
    is_off = (distance > 0) & (counts > 0)
    n_off = np.count_nonzero(is_off, axis=0)
    count_off = _tree_sum(np.where(is_off, counts, 0.0))
    count_at = 1 + _tree_sum(np.where(is_off, 0.0, counts))
    alpha = special.ndtr(-z)
    alpha = np.broadcast_to(alpha, n.shape)
    result = np.zeros(n.shape)
    single = n_off == 1  # the Beta quantile is the dearer the larger n: only where it is the answer
    farthest = np.max(distance, axis=0, where=is_off, initial=0.0)
    result[single] = farthest[single] * special.betaincinv(count_off[single], count_at[single], alpha[single])
    several = n_off > 1
    if several.any():
        result[several] = _gamma_saddlepoint(
            distance[:, several], counts[:, several], n[several], count_off[several],
            np.broadcast_to(z, n.shape)[several],
        )  # fmt: skip
    return result


def _gamma_saddlepoint(distance: Floats, counts: Floats, n: Floats, count_off: Floats, z: Floats) -> Floats:
    """The m with P(G_0 (0 - m) + sum G_v (d_v - m) <= 0) = Phi(-z), G_v ~ Gamma(c_v), G_0 ~ Exp(1).

    With K(s) = -sum c log(1 - s(d - m)) and the saddlepoint written as s = -phi / (1 + phi m), the
    root of K' is m = sum c d r / sum c r with r = 1 / (1 + phi d): one unknown, phi > 0. First r*
    (see `_bootstrap_end`), then Newton steps on the second-order formula of Lugannani & Rice
    (Daniels 1987, Int. Stat. Rev. 55), which an exponential G_0 needs at small n.
    """

    def tilt(log_phi: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        phi = np.exp(log_phi)
        r = 1 / (1 + phi * distance)
        weighted = counts * r
        m = _tree_sum(weighted * distance) / (1 + _tree_sum(weighted))
        log_ratio = -_tree_sum(counts * np.log(r)) - (n + 1) * np.log1p(phi * m)
        w = np.sqrt(2 * np.maximum(log_ratio, 0.0))
        scaled = (distance - m) * r
        square = m**2 + _tree_sum(counts * scaled**2)
        return phi, m, w, phi * np.sqrt(square), square

    def score(log_phi: Floats) -> Floats:
        _, _, w, u, _ = tilt(log_phi)
        return np.where(w < _SMALL_W, w, _r_star(w, u)) - z

    def polish(log_phi: Floats) -> Floats:
        phi, m, w, u, square = tilt(log_phi)
        w = np.maximum(w, _SMALL_W)
        tail = _second_order_tail(distance, counts, phi, m, w, u, square)
        missing = z + special.ndtri(np.clip(tail, 1e-300, 0.5))
        slope = u**2 / (w * (1 + phi * m))  # dw / d log phi
        step: Floats = np.minimum(np.maximum(missing / slope, -1.0), 1.0)
        return log_phi + step

    mean = _tree_sum(counts * distance) / (n + 1)
    variance = mean**2 + _tree_sum(counts * (distance - mean) ** 2)
    scale = np.log(z / np.sqrt(variance))
    far = np.minimum(scale + 2.0 + 6.0 / count_off, _MAX_LOG_PHI)
    log_phi = _solve(score, scale - 2.0, far, scale - 20.0, np.full_like(scale, _MAX_LOG_PHI))
    for _ in range(_POLISHINGS):
        log_phi = polish(log_phi)
    return tilt(log_phi)[1]


def _second_order_tail(
    distance: Floats, counts: Floats, phi: Floats, m: Floats, w: Floats, u: Floats, square: Floats
) -> Floats:
    """P(sum D_v d_v <= m) at the saddlepoint phi of `_gamma_saddlepoint`, not yet held to [0, 1]."""
    spread = np.sqrt(square)
    own, extra = (distance - m) / (1 + phi * distance) / spread, m / spread
    cubes = counts * own * own * own
    rho_3 = 2 * (_tree_sum(cubes) - extra**3)
    rho_4 = 6 * (_tree_sum(cubes * own) + extra**4)
    inner = (rho_4 / 8 - 5 * rho_3**2 / 24) / u + rho_3 / (2 * u**2) - 1 / u**3 + 1 / w**3
    tail: Floats = special.ndtr(-w) + np.exp(-(w**2) / 2) / np.sqrt(2 * np.pi) * (1 / u - 1 / w + inner)
    return tail


def _bounded_tail(distance: Floats, counts: Floats, n: Floats, m: Floats) -> Floats:
    """P(sum D_v d_v <= m), D ~ Dirichlet(counts, 1 extra at distance 0): `_bounded_distance` inverted."""
    is_off = (distance > 0) & (counts > 0)
    n_off = np.count_nonzero(is_off, axis=0)
    count_off = _tree_sum(np.where(is_off, counts, 0.0))
    count_at = 1 + _tree_sum(np.where(is_off, 0.0, counts))
    farthest = np.max(distance, axis=0, where=is_off, initial=0.0)
    share = np.clip(m / np.where(n_off > 0, farthest, 1.0), 0.0, 1.0)
    result: Floats = np.where(n_off > 0, np.where(m > 0, share, 0.0) >= 1, m >= 0).astype(np.float64)
    single = n_off == 1
    result[single] = special.betainc(count_off[single], count_at[single], share[single])
    several = (n_off > 1) & (m > 0) & (m < farthest)
    if several.any():
        # padding, and values without a count, may lie beyond the farthest distance that counts
        near = np.minimum(distance[:, several], farthest[several])
        result[several] = _gamma_tail(near, counts[:, several], n[several], farthest[several], m[several])
    return result


def _gamma_tail(distance: Floats, counts: Floats, n: Floats, farthest: Floats, m: Floats) -> Floats:
    """`_bounded_tail` by saddlepoint, for 0 < m < farthest and at least two distances off 0.

    The unknown is x = log(1 + phi farthest): phi > 0 below the mean, negative above it. Near the
    mean, where the formula is 0/0, the normal quantile is interpolated linearly between two m.
    """
    part = distance / farthest

    def meets(x: Floats) -> Floats:
        r = 1 / ((1 - part) + part * np.exp(x))
        weighted = counts * r
        reached: Floats = _tree_sum(weighted * distance) / (1 + _tree_sum(weighted))
        return reached

    def normal_quantile(x: Floats) -> tuple[Floats, Floats, Floats]:
        m, phi = meets(x), np.expm1(x) / farthest
        share = m / farthest
        is_small = np.abs(x) < 1
        logs = np.where(is_small, np.log1p(phi * distance), np.log((1 - part) + part * np.exp(x)))
        log_m = np.where(is_small, np.log1p(phi * m), np.log((1 - share) + share * np.exp(x)))
        w = np.sign(x) * np.sqrt(2 * np.maximum(_tree_sum(counts * logs) - (n + 1) * log_m, 0.0))
        square = m**2 + _tree_sum(counts * ((distance - m) / ((1 - part) + part * np.exp(x))) ** 2)
        safe_w = np.where(np.abs(w) < _SMALL_W, _SMALL_W, w)
        u = np.where(np.abs(w) < _SMALL_W, _SMALL_W, phi * np.sqrt(square))
        tail = _second_order_tail(distance, counts, phi, m, safe_w, u, square)
        return m, w, special.ndtri(np.clip(tail, 1e-300, 1 - 1e-16))

    low, high = np.full_like(m, -100.0), np.full_like(m, 100.0)
    for _ in range(_TAIL_BISECTIONS):
        middle = (low + high) / 2
        is_above = meets(middle) > m  # m falls with x
        low, high = np.where(is_above, middle, low), np.where(is_above, high, middle)
    at_low, at_high = meets(low), meets(high)
    gap = at_low - at_high
    x = low + (high - low) * np.where(gap > 0, (at_low - m) / np.where(gap > 0, gap, 1.0), 0.5)
    _, w, quantile = normal_quantile(x)

    mean = _tree_sum(counts * distance) / (n + 1)
    step = 2 * _NEAR_CENTRE * farthest / np.sqrt(mean**2 + _tree_sum(counts * (distance - mean) ** 2))
    above, _, quantile_above = normal_quantile(np.log1p(-np.minimum(step, 0.5)))
    below, _, quantile_below = normal_quantile(np.log1p(step))
    between = quantile_below + (quantile_above - quantile_below) * (m - below) / (above - below)
    result: Floats = special.ndtr(np.where(np.abs(w) < _NEAR_CENTRE, between, quantile))
    return result
