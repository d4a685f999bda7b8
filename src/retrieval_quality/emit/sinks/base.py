"""Where rows go."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from retrieval_quality.emit.rows import Row
from retrieval_quality.emit.stats import SinkStats, Stats


class SinkUnavailableError(OSError):
    """The sink cannot take rows now; the writer tries again.

    `n_taken`: how many rows of the batch, from its start, were taken before it failed.
    """

    def __init__(self, message: str, n_taken: int = 0) -> None:
        super().__init__(message)
        self.n_taken = n_taken


class Sink(ABC):
    """Takes finished rows. All methods run in the background thread, one at a time; `after_fork`
    runs in the child, before any other there.
    """

    @abstractmethod
    def write(self, batch: Sequence[Row]) -> None:
        """Take all rows of a batch; they are of one contract, in the order they were logged.

        Raising means that none was taken. An OSError (so ConnectionError, TimeoutError and
        SinkUnavailableError) is tried again until it works; after any other exception a batch is tried
        three times, then row by row, and what still fails is dropped as `sink_failed`.
        """

    def flush(self) -> None:  # noqa: B027 - optional
        """Called after each round of writing, and at least every `flush_seconds`. May raise as `write`."""

    def close(self) -> None:  # noqa: B027 - optional
        """The last call. May raise: it is reported."""

    def after_fork(self) -> None:  # noqa: B027 - optional
        """In a forked child: let go of what belongs to the parent."""

    def report(self, stats: Stats) -> None:  # noqa: B027 - optional
        """Rows were lost since the last call, or the logger closes after losses. May raise: it is ignored."""

    def stats(self) -> SinkStats:
        """Called from any thread."""
        return SinkStats(lost={})
