"""Kafka topics, through `confluent_kafka.Producer` or whatever has its methods."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from retrieval_quality.emit.rows import Row
from retrieval_quality.emit.sinks.base import Sink, SinkUnavailableError
from retrieval_quality.emit.stats import SinkStats

_ROOM_WAIT_S: Final = 0.1


class KafkaProducer(Protocol):
    """The part of `confluent_kafka.Producer` that is used.

    `produce` raises BufferError while its own queue is full; `on_delivery(error, message)` is called
    from `poll` or `flush`; `flush` returns how many messages are still undelivered.
    """

    def produce(
        self, topic: str, value: bytes, key: bytes, *, on_delivery: Callable[[object, object], None]
    ) -> None: ...

    def poll(self, timeout: float) -> int: ...

    def flush(self, timeout: float) -> int: ...


class KafkaSink(Sink):
    """One message per row: the landing line, keyed by session, so that a session stays in order.

    `producer`: the configuration of a `confluent_kafka.Producer` (needs `retrieval-quality[kafka]`),
    or a function that makes a producer; it is called in the process that writes, again after a
    fork. `topics`: topic by contract; without it the contract's name after `prefix`.
    `timeout_seconds`: how long `close` waits for deliveries.

    A row counts as written when the producer has it; one that the broker then refuses, or that is
    undelivered after `close`, counts as `delivery_failed`. Topics hold landing lines: whatever moves
    them to the landing folder writes them there as they are.
    """

    def __init__(
        self,
        producer: Mapping[str, object] | Callable[[], KafkaProducer],
        topics: Mapping[str, str] | None = None,
        prefix: str = "",
        timeout_seconds: float = 4.0,
    ) -> None:
        self._make = producer if callable(producer) else lambda: _confluent_producer(producer)
        self._topics = dict(topics or {})
        self._prefix = prefix
        self._timeout_seconds = timeout_seconds
        self._lock = threading.Lock()
        self._producer: KafkaProducer | None = None
        self._n_failed = 0

    def write(self, batch: Sequence[Row]) -> None:
        producer = self._running()
        for n_taken, row in enumerate(batch):
            if not self._is_produced(producer, row):
                raise SinkUnavailableError("the producer's queue is full", n_taken)
        producer.poll(0)

    def flush(self) -> None:
        """Let delivery reports in."""
        if self._producer is not None:
            self._producer.poll(0)

    def close(self) -> None:
        if self._producer is not None:
            n_left = self._producer.flush(self._timeout_seconds)
            self._producer = None
            with self._lock:
                self._n_failed += n_left

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self._producer = None
        self._n_failed = 0

    def stats(self) -> SinkStats:
        return SinkStats(lost={"delivery_failed": self._n_failed} if self._n_failed else {})

    def _running(self) -> KafkaProducer:
        if self._producer is None:
            self._producer = self._make()
        return self._producer

    def _is_produced(self, producer: KafkaProducer, row: Row) -> bool:
        """Twice, as a full queue may have room after a poll."""
        topic = self._topics.get(row.contract, f"{self._prefix}{row.contract}")
        key = row.key.encode("utf-8", "replace")
        for wait_s in (_ROOM_WAIT_S, 0.0):
            try:
                producer.produce(topic, row.line, key, on_delivery=self._delivered)
            except BufferError:
                producer.poll(wait_s)
            else:
                return True
        return False

    def _delivered(self, error: object, message: object) -> None:
        del message
        if error is not None:
            with self._lock:
                self._n_failed += 1


def _confluent_producer(config: Mapping[str, object]) -> KafkaProducer:
    from confluent_kafka import Producer

    return Producer(dict(config))
