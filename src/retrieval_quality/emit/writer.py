"""The bounded queue and the thread behind it: serving puts, the thread writes."""

import atexit
import os
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final

from retrieval_quality.emit.reporting import Reporter
from retrieval_quality.emit.rows import RefusedRowError, Row
from retrieval_quality.emit.sinks.base import Sink
from retrieval_quality.emit.stats import Stats

Logged = tuple[str, dict[str, Any]]
"""contract, values by column"""

BATCH_ROWS: Final = 500
_ATTEMPTS: Final = 3
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 5.0
_FORK_WAIT_S: Final = 1.0
_GRACE_S: Final = 0.5  # beyond its time, for a write that is under way
_POLL_S: Final = 0.005


class Writer:
    """Takes rows without waiting and writes them from a daemon thread, started with the first row.

    The lock is held for a few operations, never while a row is made, written or reported. It may
    be taken twice by one thread, because a signal handler may log.
    """

    def __init__(
        self,
        sink: Sink,
        finish: Callable[[str, dict[str, Any]], Row],
        queue_rows: int,
        flush_seconds: float,
        report_seconds: float,
    ) -> None:
        self._sink = sink
        self._finish = finish
        self._queue_rows = queue_rows
        self._flush_seconds = flush_seconds
        self._report_seconds = report_seconds
        self._wake_at = min(BATCH_ROWS, max(1, queue_rows // 2))
        self._start_afresh()
        this = weakref.ref(self)
        os.register_at_fork(
            before=lambda: _call(this(), Writer._before_fork),
            after_in_parent=lambda: _call(this(), Writer._after_fork_in_parent),
            after_in_child=lambda: _call(this(), Writer._after_fork_in_child),
        )

    def _start_afresh(self) -> None:
        self._lock = threading.RLock()
        self._sink_lock = threading.RLock()
        self._queue: deque[Logged] = deque()
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._accepted = self._written = self._sampled_out = 0
        self._taken = self._settled = 0  # rows out of the queue; rows before which nothing is pending
        self._refused: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()
        self._batches: deque[list[Row]] = deque()  # the thread's own
        self._attempts = 0
        self._pause_s = 0.0  # until the next attempt, while the sink fails
        self._is_failing = False
        self._closing_at: float | None = None  # monotonic: when to give up
        self._is_abandoned = False
        self._is_finished = False
        self._reporter = Reporter(self._sink, self._report_seconds)

    def put(self, contract: str, values: dict[str, Any]) -> None:
        """Queue a row, or count it as refused. Never waits."""
        with self._lock:
            if self._closing_at is not None:
                self._refused["closed"] += 1
                return
            n_queued = len(self._queue)
            if n_queued >= self._queue_rows:
                self._refused["queue_full"] += 1
                return
            self._queue.append((contract, values))
            self._accepted += 1
            if self._thread is None:
                self._start_thread()
        if n_queued + 1 == self._wake_at:
            self._wake.put(None)

    def refuse(self, reason: str, detail: str) -> None:
        """Count a row that could not be read."""
        with self._lock:
            self._refused[reason] += 1
            if self._thread is None and self._closing_at is None:
                self._start_thread()
        self._reporter.note(detail)

    def skip(self) -> None:
        """Count a row of a session that is not traced."""
        with self._lock:
            self._sampled_out += 1

    def stats(self) -> Stats:
        sink = self._sink.stats()
        with self._lock:
            n_queued = self._accepted - self._written - self._dropped.total()
            return Stats(
                accepted=self._accepted,
                written=self._written - sum(sink.lost.values()),
                queued=n_queued,
                sampled_out=self._sampled_out,
                refused=dict(self._refused),
                dropped=dict(self._dropped + Counter(sink.lost)),
                recovered_files=sink.recovered_files,
                torn_lines=sink.torn_lines,
            )

    def flush(self, timeout: float) -> bool:
        """Wait until the sink has everything logged so far; False when the time is up."""
        give_up_at = time.monotonic() + timeout
        target = self._accepted
        while self._settled < target:
            if time.monotonic() >= give_up_at:
                return False
            self._wake.put(None)
            time.sleep(_POLL_S)
        return True

    def close(self, timeout: float) -> None:
        """Write what is queued, for `timeout` seconds at most, and close the sink. Rows that are
        left then are dropped, and counted. Later calls only wait for the first.
        """
        with self._lock:
            is_first = self._closing_at is None
            if is_first:
                self._closing_at = time.monotonic() + timeout
            thread = self._thread
        self._wake.put(None)
        if thread is None:
            if is_first:
                self._finish_up()
        elif thread is not threading.current_thread() and not self._is_abandoned:
            thread.join(timeout + _GRACE_S)
            if not self._is_finished:
                self._abandon()

    def close_soon(self) -> None:
        """As `close`, without waiting for it: nobody holds the logger any more."""
        with self._lock:
            if self._closing_at is None:
                self._closing_at = time.monotonic() + _LONGEST_PAUSE_S
        self._wake.put(None)

    def _start_thread(self) -> None:
        self._thread = threading.Thread(target=self._run, name="retrieval_quality.emit", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no more threads, or the interpreter ends: the next row tries again, else `close` writes
            self._thread = None
            return
        atexit.register(self.close, _LONGEST_PAUSE_S)

    def _run(self) -> None:
        try:
            while self._closing_at is None:
                if self._pause_s or len(self._queue) < self._wake_at:
                    self._wait(self._pause_s or self._flush_seconds)
                self._round()
        finally:
            if self._closing_at is None:
                self._thread = None  # the next row starts another
        self._finish_up()
        atexit.unregister(self.close)

    def _wait(self, seconds: float) -> None:
        """Until something wakes the thread; after a failure until the pause is over, or the end."""
        give_up_at = time.monotonic() + seconds
        while True:
            try:
                self._wake.get(timeout=max(0.0, give_up_at - time.monotonic()))
            except Empty:
                return
            if self._pause_s == 0 or self._closing_at is not None:
                return

    def _round(self) -> None:
        """Write, then let the sink do its housekeeping and report losses, also under steady load."""
        if self._write_queued():
            try:
                with self._sink_lock:
                    self._sink.flush()
            except Exception as error:
                self._failed(error)
            else:
                self._pause_s = 0.0
                self._reporter.works()
        self._reporter.lost(self.stats(), is_last=False)

    def _finish_up(self) -> None:
        """Write the rest while there is time, drop what is left, close the sink."""
        while (self._batches or self._queue) and (n_seconds := self._seconds_left()) > 0:
            if not self._write_queued():
                self._wait(min(self._pause_s, n_seconds))
        with self._lock:
            self._drop_rest("sink_failed" if self._is_failing else "close_timeout")
        try:
            with self._sink_lock:
                self._sink.close()
        except Exception as error:
            self._reporter.failed(error, 0)
        self._is_finished = True
        self._reporter.lost(self.stats(), is_last=True)

    def _seconds_left(self) -> float:
        return float("inf") if self._closing_at is None else self._closing_at - time.monotonic()

    def _abandon(self) -> None:
        """The thread hangs in the sink: what it holds is counted as lost, whatever comes of it."""
        with self._lock:
            self._is_abandoned = True
            self._drop_rest("close_timeout")
        self._reporter.lost(self.stats(), is_last=True)

    def _drop_rest(self, reason: str) -> None:
        self._queue.clear()
        self._settled = self._accepted
        n_left = self._accepted - self._written - self._dropped.total()
        if n_left:
            self._dropped[reason] += n_left
        self._batches = deque()

    def _write_queued(self) -> bool:
        """Write what is queued, for `flush_seconds` or while there is time; False where the sink failed:
        then `_pause_s` is set.
        """
        stop_at = time.monotonic() + min(self._flush_seconds, self._seconds_left())
        while self._batches or self._queue:
            if time.monotonic() >= stop_at:
                return True
            if not self._batches:
                self._take()
                continue
            batch = self._batches[0]
            try:
                with self._sink_lock:
                    self._sink.write(batch)
            except OSError as error:
                self._done(batch, getattr(error, "n_taken", 0))
                self._failed(error)
                return False
            except Exception as error:
                self._attempts += 1
                self._failed(error)
                if self._attempts < _ATTEMPTS:
                    return False
                self._write_singly(batch)
            else:
                self._done(batch, len(batch))
            self._attempts = 0
            self._is_failing = False
        self._settled = self._taken
        return True

    def _write_singly(self, batch: list[Row]) -> None:
        """After a batch failed for good: its rows one by one; those that fail are dropped."""
        n_failed = 0
        for row in batch:
            try:
                with self._sink_lock:
                    self._sink.write([row])
            except Exception:  # reported with the batch
                n_failed += 1
        with self._lock:
            if not self._is_abandoned:
                self._dropped["sink_failed"] += n_failed
        self._done(batch, len(batch), n_failed)

    def _done(self, batch: list[Row], n_rows: int, n_failed: int = 0) -> None:
        with self._lock:
            if not self._is_abandoned:
                self._written += n_rows - n_failed
        del batch[:n_rows]
        if not batch and self._batches:
            self._batches.popleft()

    def _take(self) -> None:
        """Finish up to BATCH_ROWS queued rows, as batches of one contract."""
        self._settled = self._taken
        by_contract: dict[str, list[Row]] = {}
        for _ in range(BATCH_ROWS):
            try:
                contract, values = self._queue.popleft()
            except IndexError:
                break
            self._taken += 1
            try:
                row = self._finish(contract, values)
            except RefusedRowError as refused:
                self._drop(refused.reason, str(refused))
            except Exception as error:
                self._drop("not_serialisable", type(error).__name__)
            else:
                by_contract.setdefault(contract, []).append(row)
        self._batches.extend(by_contract.values())

    def _drop(self, reason: str, detail: str) -> None:
        with self._lock:
            if not self._is_abandoned:
                self._dropped[reason] += 1
        self._reporter.note(detail)

    def _failed(self, error: Exception) -> None:
        self._is_failing = True
        self._pause_s = min(max(2 * self._pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
        self._reporter.failed(error, self.stats().queued)

    def _before_fork(self) -> None:
        """No file may be open without the sink knowing it; but a sink that hangs does not stop a fork."""
        self._sink_lock.acquire(timeout=_FORK_WAIT_S)

    def _after_fork_in_parent(self) -> None:
        with suppress(RuntimeError):  # it was not to be had
            self._sink_lock.release()

    def _after_fork_in_child(self) -> None:
        """The parent writes its rows; the child begins with none, under locks nobody holds."""
        was_closed = self._closing_at
        if self._thread is not None:
            atexit.unregister(self.close)
        self._start_afresh()
        self._closing_at = was_closed
        self._sink.after_fork()


def _call(writer: Writer | None, method: Callable[[Writer], None]) -> None:
    if writer is not None:
        method(writer)
