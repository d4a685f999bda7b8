"""Intervals of 2,000 groups of precision@5 in one process, against resampling, and their cost by sessions.

    .venv/bin/python benchmarks/intervals.py [--groups 2000] [--json intervals.json]

Three tables. Seconds are CPU seconds of this process, in one run; ratios compare things of the same run.

1. Every kind of interval for all groups (30 to 3,000 sessions each), best of three.
2. Peers on a few of the same groups, extrapolated to all in proportion to their sessions:
   scipy.stats.bootstrap (percentile and BCa, B = 1,000) and the guide's loop (random.choices, mean,
   B = 1,000). The ratio is peer / `mean_intervals`, which computes bootstrap and bounded interval.
3. 2,000 groups of 1e3 to 1e7 sessions each, for 2, 6 and 101 distinct values: relative to 1e3.
"""

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from retrieval_quality.clusters import cluster_intervals
from retrieval_quality.comparisons import paired_differences, unpaired_differences
from retrieval_quality.intervals import MILLIONTHS, bounded_p_values, mean_intervals
from retrieval_quality.prediction_powered import prediction_powered

SCORES = np.arange(6) / 5
SHARES = np.array([0.05, 0.15, 0.25, 0.25, 0.2, 0.1])
RESAMPLES = 1_000


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """Best of some runs: the one that was disturbed least."""
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def histogram(values: np.ndarray, counts: np.ndarray) -> pd.DataFrame:
    """`counts` of shape (groups, values), as mean_intervals wants them."""
    groups, size = counts.shape
    return pd.DataFrame(
        {
            "group": np.repeat(np.arange(groups), size),
            "value": np.tile(values, groups),
            "weight": counts.ravel() * MILLIONTHS,
        }
    )


def our_seconds(sizes: np.ndarray, rng: np.random.Generator) -> dict[str, float]:
    data = histogram(SCORES, rng.multinomial(sizes, SHARES))
    arms = pd.concat([data.assign(arm="a"), histogram(SCORES, rng.multinomial(sizes, SHARES)).assign(arm="b")])
    pairs = pd.DataFrame({"control": ["a"], "treatment": ["b"]})
    steps = np.arange(-5, 6) / 5
    differences = histogram(steps, rng.multinomial(sizes, np.array([1, 2, 4, 8, 16, 40, 16, 8, 4, 2, 1]) / 102))
    users = pd.DataFrame(
        {
            "group": np.repeat(np.arange(len(sizes)), 60),
            "score_sum": rng.integers(0, 16, len(sizes) * 60) * (MILLIONTHS // 5),
            "unit_sum": 3 * MILLIONTHS,
            "n_clusters": 1,
        }
    )
    joint = histogram(np.arange(36), rng.multinomial(100, np.outer(SHARES, SHARES).ravel(), size=len(sizes)))
    joint = joint.assign(trusted=SCORES[joint.value // 6], cheap=SCORES[joint.value % 6]).drop(columns="value")
    keys = ["group"]
    return {
        "bootstrap (BCa) and bounded": seconds(lambda: mean_intervals(data, keys)),
        "bootstrap (percentile) and bounded": seconds(lambda: mean_intervals(data, keys, ci_method="percentile")),
        "p-values against an objective": seconds(lambda: bounded_p_values(data, keys, 0.5)),
        "two arms, with p-values": seconds(lambda: unpaired_differences(arms, keys, pairs), 1),
        "paired queries, with p-values": seconds(lambda: paired_differences(differences, keys), 1),
        "60 users as clusters": seconds(lambda: cluster_intervals(users, data, keys), 1),
        "prediction-powered": seconds(lambda: prediction_powered(joint, data, keys), 1),
    }


def guide_loop(scores: list[float]) -> tuple[float, float]:
    """The bootstrap of the production guide: resample rows, average, sort."""
    means = sorted(statistics.fmean(random.choices(scores, k=len(scores))) for _ in range(RESAMPLES))  # noqa: S311
    return means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES)]


def peer_seconds(sizes: np.ndarray, rng: np.random.Generator, n_groups: int) -> dict[str, float]:
    """Seconds of all groups, from a few of them, in proportion to sessions."""
    chosen = np.argsort(sizes, kind="stable")[np.linspace(0, len(sizes) - 1, n_groups).astype(int)]
    rows = [rng.choice(SCORES, p=SHARES, size=sizes[group]) for group in chosen]
    scale = float(sizes.sum() / sizes[chosen].sum())

    def scipy_bootstrap(method: str) -> Callable[[], object]:
        return lambda: [
            stats.bootstrap((part,), np.mean, n_resamples=RESAMPLES, method=method, rng=np.random.default_rng(1))
            for part in rows
        ]

    return {
        "scipy.stats.bootstrap, percentile": scale * seconds(scipy_bootstrap("percentile")),
        "scipy.stats.bootstrap, BCa": scale * seconds(scipy_bootstrap("BCa")),
        "the guide's loop": scale * seconds(lambda: [guide_loop(part.tolist()) for part in rows], 1),
    }


def by_sessions(n_groups: int, rng: np.random.Generator) -> dict[int, dict[int, float]]:
    """Distinct values -> sessions per group -> seconds of all groups."""
    result: dict[int, dict[int, float]] = {}
    for size in (2, 6, 101):
        shares = rng.dirichlet(np.full(size, 5.0))
        data = {
            n: histogram(np.linspace(0, 1, size), rng.multinomial(n, shares, size=n_groups))
            for n in (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
        }
        best = dict.fromkeys(data, np.inf)
        for _ in range(5):  # turn by turn, so that a busy moment hits all sizes
            for n, frame in data.items():
                best[n] = min(best[n], seconds(lambda frame=frame: mean_intervals(frame, ["group"]), 1))
        result[size] = best
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=2_000)
    parser.add_argument("--peer-groups", type=int, default=12, help="groups that the peers really compute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures")
    options = parser.parse_args()
    rng = np.random.default_rng(11)
    random.seed(11)
    sizes = rng.integers(30, 3_001, options.groups)

    ours = our_seconds(sizes, rng)
    peers = peer_seconds(sizes, rng, options.peer_groups)
    growth = by_sessions(options.groups, rng)
    base = ours["bootstrap (BCa) and bounded"]
    percentile = ours["bootstrap (percentile) and bounded"]
    ratios = {name: taken / (base if "BCa" in name else percentile) for name, taken in peers.items()}

    lines = [
        f"{options.groups:,} groups, {sizes.sum():,} sessions, precision@5, one process",
        "",
        "| intervals | CPU seconds |",
        "|---|---|",
        *(f"| {name} | {taken:.3f} |" for name, taken in ours.items()),
        "",
        f"| peer, B = {RESAMPLES:,} (from {options.peer_groups} groups) | CPU seconds | x mean_intervals |",
        "|---|---|---|",
        *(f"| {name} | {taken:,.0f} | {ratios[name]:,.0f} |" for name, taken in peers.items()),
        "",
        "| distinct values | CPU seconds at 1e3 sessions a group | 1e4 | 1e5 | 1e6 | 1e7 |",
        "|---|---|---|---|---|---|",
    ]
    for size, best in growth.items():
        first, *rest = best.values()
        lines.append(f"| {size} | {first:.3f} | " + " | ".join(f"x {taken / first:.2f}" for taken in rest) + " |")
    sys.stdout.write("\n".join(lines) + "\n")
    if options.json:
        figures = {
            "groups": options.groups, "sessions": int(sizes.sum()), "seconds": ours, "peer_seconds": peers,
            "ratios": ratios, "seconds_by_values_and_sessions": growth,
        }  # fmt: skip
        options.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
