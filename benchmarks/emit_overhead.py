"""What logging a retrieval costs the serving thread: microseconds per call, queue included.

    python benchmarks/emit_overhead.py [--calls 20000] [--json]

Every call has 10 chunks with scores and goes through the queue to the background writer, which
writes JSON lines to a temporary folder meanwhile. The queue is large enough to refuse nothing.
"tight" calls follow each other without a pause, so that the writer competes for the interpreter all
the time; the target is for these. "paced" calls come 2 ms apart: after a pause any code is slower,
because caches and the processor are cold. `json.dumps` of the same 10 chunks is the yardstick.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Final

from retrieval_quality.emit import TraceLogger, Versions

TARGET_US: Final = 50.0
YARDSTICK: Final = "(json.dumps)"
CHUNKS: Final = [{"chunk_id": f"kb-{number}#1", "score": 1 / (number + 1), "rank": number + 1} for number in range(10)]
QUERY: Final = "how do I reset the password of my account when I no longer have the phone"


@dataclass(frozen=True)
class Measured:
    """Microseconds per call, and what became of the rows."""

    what: str
    threads: int
    pace: str
    calls: int
    p50_us: float
    p95_us: float
    p99_us: float
    written: int
    refused: int


def log_retrieval(logger: TraceLogger) -> Callable[[], object]:
    """The plain call."""
    return lambda: logger.log_retrieval(
        QUERY, CHUNKS, session_id="session-1", top_k=10, filters={"tenant": "t1"}, retrieval_latency_ms=12.5
    )


def decorator(logger: TraceLogger) -> Callable[[], object]:
    """A traced function that returns at once, so that what is measured is the decorator."""

    @logger.traced()
    def search(query: str, session_id: str, top_k: int) -> list[dict[str, object]]:  # noqa: ARG001 - captured by name
        return CHUNKS

    return lambda: search(QUERY, "session-1", 10)


def context_manager(logger: TraceLogger) -> Callable[[], object]:
    """The block with nothing but the list in it."""

    def call() -> None:
        with logger.retrieval(QUERY, session_id="session-1", top_k=10) as running:
            running.retrieved(CHUNKS)

    return call


def yardstick(logger: TraceLogger) -> Callable[[], object]:  # noqa: ARG001 - as the others
    """What everybody knows the cost of."""
    return lambda: json.dumps(CHUNKS)


def measure(
    what: str, make: Callable[[TraceLogger], Callable[[], object]], threads: int, calls: int, pace_s: float
) -> Measured:
    """Run `calls` calls in all, `pace_s` seconds apart in each thread."""
    with tempfile.TemporaryDirectory() as folder:
        logger = TraceLogger(
            folder, versions=Versions(index_version="v7", embedding_model="e5"), queue_rows=10 * calls + 1000
        )
        call = make(logger)
        for _ in range(100):
            call()
        taken: list[list[int]] = [[] for _ in range(threads)]
        runners = [
            threading.Thread(target=_run, args=(call, calls // threads, pace_s, taken[number]))
            for number in range(threads)
        ]
        for runner in runners:
            runner.start()
        for runner in runners:
            runner.join()
        logger.close(600)
        stats = logger.stats()
    times = sorted(ns for part in taken for ns in part)
    return Measured(
        what=what,
        threads=threads,
        pace="paced" if pace_s else "tight",
        calls=len(times),
        p50_us=_quantile_us(times, 0.50),
        p95_us=_quantile_us(times, 0.95),
        p99_us=_quantile_us(times, 0.99),
        written=stats.written,
        refused=sum(stats.refused.values()),
    )


def _run(call: Callable[[], object], calls: int, pace_s: float, taken: list[int]) -> None:
    clock = time.perf_counter_ns
    for _ in range(calls):
        start = clock()
        call()
        taken.append(clock() - start)
        if pace_s:
            time.sleep(pace_s)


def _quantile_us(times: list[int], share: float) -> float:
    return times[min(len(times) - 1, int(share * len(times)))] / 1000


def measurements(calls: int) -> Iterator[Measured]:
    """The cases of the table. Paced ones have a tenth of the calls, as they mostly wait."""
    for what, make in (
        ("log_retrieval", log_retrieval),
        ("context manager", context_manager),
        ("decorator", decorator),
        (YARDSTICK, yardstick),
    ):
        for threads in (1, 8):
            yield measure(what, make, threads, calls, 0)
            yield measure(what, make, threads, calls // 10, 0.002)


def main() -> int:
    """Print the table and the verdict; exit code 1 where the target is missed."""
    parser = argparse.ArgumentParser(description="overhead of retrieval_quality.emit per call")
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = list(measurements(arguments.calls))
    is_met = all(row.p50_us < TARGET_US for row in rows if row.pace == "tight" and row.what != YARDSTICK)
    if arguments.json:
        print(json.dumps({"target_us": TARGET_US, "is_met": is_met, "rows": [asdict(row) for row in rows]}, indent=2))
    else:
        print(
            f"{'call':<16}{'threads':>8}{'pace':>7}{'calls':>8}{'p50 us':>9}{'p95 us':>9}{'p99 us':>10}{'refused':>9}"
        )
        for row in rows:
            print(
                f"{row.what:<16}{row.threads:>8}{row.pace:>7}{row.calls:>8,}"
                f"{row.p50_us:>9.1f}{row.p95_us:>9.1f}{row.p99_us:>10.1f}{row.refused:>9,}"
            )
        print(f"p50 of tight calls below {TARGET_US:g} us: {'met' if is_met else 'missed'}")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
