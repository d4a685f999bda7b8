"""Sequential evidence that a mean lies below its objective, and how often the paging rule pages.

The e-CUSUM is the numpy reference of a SQL model. A bet of size lambda against "mean >= objective"
multiplies by 1 + lambda (objective - score) for every unit; under the hypothesis its expectation
never grows, so large values are evidence (Shin, Ramdas & Rinaldo, arXiv:2203.03532, e-detectors).
Restarted at its running minimum and averaged over lambda it alarms at log 1000; for independent
sessions with a mean at the objective the expected time to a false alarm is at least 1,000 nights
(CUSUM <= Shiryaev-Roberts). Nights must be disjoint: rolling windows count a session several times.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from retrieval_quality.intervals import Floats, Ints, bounded_ends, histogram_groups, per_group

LAMBDAS = (0.1, 0.2, 0.4, 0.8, 1.4)
ALARM = 1_000.0  # expected nights to a false alarm

Bools = NDArray[np.bool_]
Scenario = Literal["healthy", "drop"]

# precision@5 in the middle of its range: mean .54, standard deviation .269
_SCORES = np.arange(6) / 5
_SHARES = np.array([0.05, 0.15, 0.25, 0.25, 0.2, 0.1])
_BATCH = 20  # simulated years at a time


def e_cusum(
    histogram: pd.DataFrame,
    keys: Sequence[str],
    objectives: pd.DataFrame | float,
    *,
    night: str = "night",
    n_eff: pd.DataFrame | None = None,
    lambdas: Sequence[float] = LAMBDAS,
    alarm: float = ALARM,
) -> pd.DataFrame:
    """e-CUSUM of every group, night by night.

    Per night and lambda le = sum n ln(1 + lambda (objective - value)); C its running sum over the
    nights of the group; g = C - min(0, least earlier C); statistic = ln mean_lambda exp(g). Bets of
    lambda >= 1 / (1 - objective) could lose everything on one perfect score: they are left out.

    Args:
        histogram: `keys`, `night`, `value` in [0, 1] and `weight` (millionths), as in
            `mean_intervals`. Nights are disjoint and sort in time order; a night without rows is
            no evidence and no row.
        keys: the columns that name a stream of nights (without `night`).
        objectives: one number, or `keys` and `objective`; in (0, 1).
        n_eff: `keys`, `night` and `n_eff`, as in `mean_intervals`.
        lambdas: bets, > 0, averaged with equal weight.
        alarm: mean evidence at which to alarm.

    Returns:
        One row per group and night, sorted: keys, night, objective, n_units, statistic, is_alarming
        (statistic >= ln alarm). NaN and False where a group has no objective.

    Raises:
        ValueError: as `mean_intervals`; an objective outside (0, 1); no bet is small enough.
    """
    bets = np.asarray(lambdas, dtype=np.float64)
    if bets.ndim != 1 or bets.size == 0 or not (bets > 0).all() or alarm <= 1:
        raise ValueError("need lambdas > 0 and alarm > 1")
    names = [*keys, night]
    nights = histogram_groups(histogram, names, n_eff=n_eff)
    objective = per_group(nights.keys, keys, objectives, "objective")
    if np.any((objective <= 0) | (objective >= 1)):
        raise ValueError("objectives must lie in (0, 1)")
    if np.any(bets.min() * (1 - objective) >= 1):
        raise ValueError("no lambda is below 1 / (1 - objective)")

    def log_evidence(bet: float) -> Floats:
        usable = np.where(bet * (1 - objective) < 1, objective, np.nan)
        return nights.sums(lambda values, rows: np.log1p(bet * (usable[rows] - values)))

    log_e = np.stack([log_evidence(float(bet)) for bet in bets], axis=-1)
    streams = nights.keys.groupby(list(keys), dropna=False, sort=False, observed=True)
    group: Ints = streams.ngroup().to_numpy().astype(np.int64)
    statistic = np.full(len(group), np.nan)
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    for first, last in zip(starts, np.append(starts[1:], len(group)), strict=len(group) > 0):
        usable = ~np.isnan(log_e[first])
        if usable.any():
            statistic[first:last] = cusum_path(log_e[first:last, usable])
    return nights.keys.assign(
        objective=objective,
        n_units=nights.n_units,
        statistic=statistic,
        is_alarming=statistic >= np.log(alarm),
    )


def cusum_path(log_e: Floats) -> Floats:
    """Statistic per night from log evidence of shape (..., nights, lambdas)."""
    total = np.cumsum(log_e, axis=-2)
    least = np.minimum(np.minimum.accumulate(total, axis=-2), 0.0)
    earlier = np.concatenate([np.zeros_like(least[..., :1, :]), least[..., :-1, :]], axis=-2)
    g = total - earlier
    top = g.max(axis=-1, keepdims=True)
    result: Floats = top[..., 0] + np.log(np.exp(g - top).mean(axis=-1))
    return result


# ---- the paging rule, simulated -----------------------------------------------------------------


@dataclass(frozen=True)
class PagingRule:
    """Page where the day is breached on two successive nights, or the week is breached and the e-CUSUM alarms.

    Breached: bound_high < objective - margin, at this confidence.
    """

    objective: float
    margin: float = 0.02
    confidence: float = 0.95
    alarm: float = ALARM

    def pages(self, counts: Ints) -> Bools:
        """Nights on which the rule holds; `counts` of the six p@5 scores: (streams, nights, 6)."""
        daily = self._breached(counts)
        total = np.cumsum(counts, axis=1)
        week = total[:, 6:].copy()
        week[:, 1:] -= total[:, :-7]
        weekly = np.zeros_like(daily)
        weekly[:, 6:] = self._breached(week)
        twice = daily.copy()
        twice[:, 0] = False
        twice[:, 1:] &= daily[:, :-1]
        bets = np.array([bet for bet in LAMBDAS if bet * (1 - self.objective) < 1])
        log_e = counts.astype(np.float64) @ np.log1p(bets * (self.objective - _SCORES[:, None]))
        result: Bools = twice | (weekly & (cusum_path(log_e) >= np.log(self.alarm)))
        return result

    def _breached(self, counts: Ints) -> Bools:
        limit = self.objective - self.margin
        units = counts.sum(axis=-1)
        # the upper end never lies below the mean: most nights are decided without an interval
        possible = counts @ _SCORES < limit * units
        result = np.zeros(units.shape, dtype=np.bool_)
        if possible.any():
            result[possible] = bounded_ends(_SCORES, counts[possible], confidence=self.confidence)[1] < limit
        return result


def simulate_paging(
    *,
    n_replicates: int,
    units_per_day: Sequence[int] = (40, 200, 2_000),
    night_sds: Sequence[float] = (0.0, 0.03),
    seed: int = 20_240_601,
    n_nights: int = 365,
    healthy_before: int = 60,
    watched_after: int = 120,
) -> pd.DataFrame:
    """False pages a year, and nights until a real drop is paged, for p@5 and the rule of `PagingRule`.

    Two scenarios: "healthy", a year with truth .52 against objective .50; "drop", `healthy_before`
    nights at .60 and then `watched_after` at .50, against objective .55. Every night has its own
    mean, truth + N(0, night_sd^2), and that many independent sessions of a law with this mean
    (the p@5 law of mean .54, tilted exponentially).

    A page is the first night of an episode, a run of nights on which the rule holds. Pages before
    the drop are counted over `healthy_before` nights. Delay 1 is the first degraded night. An
    episode that began before the drop and still holds counts as paged on that night.

    Returns:
        One row per scenario, night_sd and units_per_day: scenario, night_sd, units_per_day,
        objective, n_replicates, pages_per_year, pages_error (standard error of that mean),
        page_nights_per_year, paged_share (of replicates with a page: in the year, or after the
        drop), median_delay, p90_delay (nights; NaN when healthy, inf where it is not paged).
    """
    if n_replicates < 2:
        raise ValueError("need n_replicates >= 2")
    rows = []
    for scenario in ("healthy", "drop"):
        for night_sd in night_sds:
            for units in units_per_day:
                rng = np.random.default_rng([seed, scenario == "drop", round(night_sd * 1e6), units])
                rows.append(
                    _simulated_year(rng, units, night_sd, n_replicates, n_nights)
                    if scenario == "healthy"
                    else _simulated_drop(rng, units, night_sd, n_replicates, healthy_before, watched_after)
                )
    return pd.DataFrame(rows)


def _simulated_year(
    rng: np.random.Generator, units: int, night_sd: float, n_replicates: int, n_nights: int
) -> dict[str, object]:
    rule = PagingRule(objective=0.50)
    pages = np.concatenate(
        [rule.pages(_nights(rng, np.full(n_nights, 0.52), night_sd, units, size)) for size in _batches(n_replicates)]
    )
    return {
        "scenario": "healthy", "night_sd": night_sd, "units_per_day": units, "objective": rule.objective,
        **_page_counts(pages), "paged_share": float(pages.any(axis=1).mean()),
        "median_delay": np.nan, "p90_delay": np.nan,
    }  # fmt: skip


def _simulated_drop(
    rng: np.random.Generator, units: int, night_sd: float, n_replicates: int, before: int, after: int
) -> dict[str, object]:
    rule = PagingRule(objective=0.55)
    truth = np.repeat([0.60, 0.50], [before, after])
    pages = np.concatenate([rule.pages(_nights(rng, truth, night_sd, units, size)) for size in _batches(n_replicates)])
    later = pages[:, before:]
    paged = later.any(axis=1)
    delay = np.where(paged, later.argmax(axis=1) + 1.0, np.inf)
    return {
        "scenario": "drop", "night_sd": night_sd, "units_per_day": units, "objective": rule.objective,
        **_page_counts(pages[:, :before]), "paged_share": float(paged.mean()),
        "median_delay": float(np.quantile(delay, 0.5, method="inverted_cdf")),
        "p90_delay": float(np.quantile(delay, 0.9, method="inverted_cdf")),
    }  # fmt: skip


def _page_counts(pages: Bools) -> dict[str, object]:
    begins = pages.copy()
    begins[:, 1:] &= ~pages[:, :-1]
    years = pages.shape[1] / 365
    per_year = begins.sum(axis=1) / years
    return {
        "n_replicates": len(pages),
        "pages_per_year": float(per_year.mean()),
        "pages_error": float(per_year.std(ddof=1) / np.sqrt(len(pages))),
        "page_nights_per_year": float(pages.sum(axis=1).mean() / years),
    }


def _batches(n_replicates: int) -> list[int]:
    return [min(_BATCH, n_replicates - start) for start in range(0, n_replicates, _BATCH)]


def _nights(rng: np.random.Generator, truth: Floats, night_sd: float, units: int, streams: int) -> Ints:
    """Counts of the six scores, (streams, nights, 6)."""
    means = truth + night_sd * rng.standard_normal((streams, len(truth)))
    counts: Ints = rng.multinomial(units, _tilted(np.clip(means, 0.02, 0.98)))
    return counts


def _tilted(means: Floats) -> Floats:
    """Laws on the six scores with these means: shares of `_SHARES` times exp(t score), t by Newton."""
    t = np.zeros_like(means)
    for _ in range(40):
        raw = _SHARES * np.exp(t[..., None] * _SCORES)
        law = raw / raw.sum(axis=-1, keepdims=True)
        mean = law @ _SCORES
        variance = law @ _SCORES**2 - mean**2
        t = t + np.clip((means - mean) / variance, -3.0, 3.0)
    raw = _SHARES * np.exp(t[..., None] * _SCORES)
    result: Floats = raw / raw.sum(axis=-1, keepdims=True)
    return result


def paging_table(frame: pd.DataFrame) -> str:
    """`simulate_paging` as Markdown: one row per night_sd and units_per_day."""
    setting = ["night_sd", "units_per_day"]
    healthy = frame[frame["scenario"] == "healthy"].drop(columns=["median_delay", "p90_delay"])
    drop = frame.loc[frame["scenario"] == "drop", [*setting, "median_delay", "p90_delay"]]
    head = "night-to-night sd|sessions a day|false pages a year|nights of them a year|years with a page"
    names = [*head.split("|"), "drop: median nights to the page", "p90"]
    lines = [" | ".join(names), " | ".join(["---"] * len(names))]
    lines += [
        f"{row['night_sd']:g} | {row['units_per_day']:,} | {row['pages_per_year']:.2f} ± {row['pages_error']:.2f} "
        f"| {row['page_nights_per_year']:.2f} | {100 * row['paged_share']:.0f} % "
        f"| {row['median_delay']:.0f} | {row['p90_delay']:.0f}"
        for row in healthy.merge(drop, on=setting, validate="one_to_one").to_dict("records")
    ]
    return "".join(f"| {line} |\n" for line in lines)
