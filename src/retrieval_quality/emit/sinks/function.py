"""Any function as a sink."""

from collections.abc import Callable, Sequence

from retrieval_quality.emit.rows import Row
from retrieval_quality.emit.sinks.base import Sink


class CallableSink(Sink):
    """Hands each batch to a function, in the background thread.

    The function raises OSError for "try again later". It sees a row again where it raised after
    having taken it.
    """

    def __init__(self, function: Callable[[Sequence[Row]], object]) -> None:
        self._function = function

    def write(self, batch: Sequence[Row]) -> None:
        self._function(batch)
