"""The production guide's own functions on landed files: parse, join, score, bootstrap, in plain Python.

    python benchmarks/guides.py LANDING [--resamples 1000]

Prints seconds by step as JSON. The functions are those of the guide: hits / k, hits / relevant, and a
percentile interval from `random.choices` in a loop. Segments: all sessions, intent, index version and arm of
the one window that is asked for.
"""

import argparse
import json
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

K = 5
SEGMENTS: dict[str, Callable[[dict], str]] = {
    "total": lambda _: "total",
    "intent": lambda trace: trace["query"].split()[0],
    "index_version": lambda trace: trace["index_version"],
    "experiment_bucket": lambda trace: trace["experiment_bucket"],
    "intent x index_version": lambda trace: f"{trace['query'].split()[0]} x {trace['index_version']}",
}


def precision_at_k(retrieved: list[str], relevant: set[str], k: int) -> float:
    return sum(chunk in relevant for chunk in retrieved[:k]) / k


def recall_at_k(retrieved: list[str], relevant: set[str], k: int) -> float:
    return sum(chunk in relevant for chunk in retrieved[:k]) / len(relevant) if relevant else 0.0


def bootstrap_ci(values: list[float], n_resamples: int, alpha: float = 0.05) -> tuple[float, float]:
    means = sorted(statistics.fmean(random.choices(values, k=len(values))) for _ in range(n_resamples))  # noqa: S311
    return means[int(alpha / 2 * n_resamples)], means[int((1 - alpha / 2) * n_resamples) - 1]


def rows(landing: Path, contract: str) -> Iterator[dict]:
    for file in sorted((landing / contract).rglob("*.jsonl")):
        with file.open() as lines:
            yield from map(json.loads, lines)


def main() -> int:
    """Time the steps."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("landing", type=Path)
    parser.add_argument("--resamples", type=int, default=1_000)
    arguments = parser.parse_args()
    random.seed(1)
    seconds, started = {}, time.perf_counter()

    def lap(name: str) -> None:
        nonlocal started
        now = time.perf_counter()
        seconds[name], started = now - started, now

    traces = {trace["trace_id"]: trace for trace in rows(arguments.landing, "retrieval_traces")}
    feedback = list(rows(arguments.landing, "feedback"))
    lap("parse")
    relevant: dict[str, set[str]] = defaultdict(set)
    for event in feedback:
        relevant[event["trace_id"]].update(event["chunk_ids"] if event["rating"] == "up" else ())
    lap("join")
    scores: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for trace_id, chunks in relevant.items():
        trace = traces[trace_id]
        retrieved = [chunk["chunk_id"] for chunk in trace["retrieved"]]
        both = precision_at_k(retrieved, chunks, K), recall_at_k(retrieved, chunks, K)
        for dimension, value in SEGMENTS.items():
            scores[dimension, value(trace)].append(both)
    lap("score")
    for pairs in scores.values():
        for values in zip(*pairs, strict=True):
            bootstrap_ci(list(values), arguments.resamples)
    lap("bootstrap")
    print(json.dumps({"seconds": seconds, "n_segments": len(scores), "n_resamples": arguments.resamples}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
