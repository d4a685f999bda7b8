"""Losses and failures in the log of the process: at once, then once a minute at most."""

import logging
import time
from typing import Final

from retrieval_quality.emit.sinks.base import Sink
from retrieval_quality.emit.stats import Stats

_LOG: Final = logging.getLogger("retrieval_quality.emit")
_MAX_DETAIL: Final = 500


class Reporter:
    """Used by the writing thread alone, but for `note`. `every_seconds`: between two reports of a kind."""

    def __init__(self, sink: Sink, every_seconds: float) -> None:
        self._sink = sink
        self._every_seconds = every_seconds
        self._lost: dict[str, int] = {}
        self._lost_at = self._failed_at = -float("inf")
        self._is_failing = False
        self._detail: str | None = None

    def note(self, detail: str) -> None:
        """The latest reason in words, for the next report."""
        self._detail = detail

    def lost(self, stats: Stats, is_last: bool) -> None:
        """Report rows that were lost since the last report, when it is time."""
        now = time.monotonic()
        lost = dict(stats.lost)
        if lost == self._lost or (now - self._lost_at < self._every_seconds and not is_last):
            return
        new = {reason: n - self._lost.get(reason, 0) for reason, n in lost.items() if n > self._lost.get(reason, 0)}
        self._lost, self._lost_at = lost, now
        _LOG.warning(
            "rows lost: %s (since the start: %s of %s)%s",
            _counts(new),
            _counts(lost),
            stats.accepted + sum(stats.refused.values()),
            f"; latest: {self._detail[:_MAX_DETAIL]}" if self._detail else "",
        )
        self._detail = None
        try:
            self._sink.report(stats)
        except Exception as error:
            _LOG.debug("the report of lost rows could not be written: %s", type(error).__name__)

    def failed(self, error: Exception, n_queued: int) -> None:
        """The sink raised."""
        now = time.monotonic()
        if self._is_failing and now - self._failed_at < self._every_seconds:
            return
        self._is_failing, self._failed_at = True, now
        _LOG.warning(
            "the sink failed: %s: %s; %s rows are held, and it is tried again",
            type(error).__name__,
            str(error)[:_MAX_DETAIL],
            n_queued,
        )

    def works(self) -> None:
        """The sink took rows."""
        if self._is_failing:
            self._is_failing = False
            _LOG.warning("the sink works again")


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{n} {reason}" for reason, n in counts.items())
