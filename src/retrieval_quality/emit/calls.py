"""A retrieval while it runs: what it was asked, how long it takes, what it finds."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from retrieval_quality.emit.values import Place

NOT_TOLD: Final = "retrieved() was never called"
CALL_COLUMNS: Final = (
    "trace_id",
    "query",
    "session_id",
    "user_id",
    "query_id",
    "top_k",
    "filters",
    "filter_empty",
    "versions",
    "experiment_id",
    "experiment_bucket",
    "intent",
    "environment",
    "eval_run_id",
    "score_type",
    "higher_is_better",
    "error",
    "ts",
    "retrieval_latency_ms",
    "rerank_latency_ms",
)


@dataclass(frozen=True)
class Versions:
    """The versions in force: of the logger, or of one call, where None means that of the logger."""

    index_version: str | None = None
    embedding_model: str | None = None
    chunker_version: str | None = None
    reranker_version: str | None = None
    prompt_version: str | None = None
    corpus_snapshot_id: str | None = None


class CallPort(NamedTuple):
    """What a call needs of its logger. `read`: chunks to places, raises for a shape it does not know.

    `shows_errors`: may the message of an exception be logged, or only its type?
    """

    read: Callable[[Iterable[Any]], tuple[Place, ...]]
    log: "Callable[[RetrievalCall], None]"
    shows_errors: bool


@dataclass(slots=True, eq=False)
class RetrievalCall:
    """One search, between `with logger.retrieval(...) as call:` and the end of the block.

    The public attributes are columns of `retrieval_traces` and may be set until the block ends.
    `retrieval_latency_ms`, where it is not set, is the time of the block without `reranking()`.
    """

    port: CallPort = field(repr=False)
    trace_id: str
    query: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    query_id: str | None = None
    top_k: int | None = None
    filters: Any = None
    filter_empty: bool | None = None
    versions: Versions | None = None
    experiment_id: str | None = None
    experiment_bucket: str | None = None
    intent: str | None = None
    environment: str | None = None
    eval_run_id: str | None = None
    score_type: str | None = None
    higher_is_better: bool | None = None
    error: str | None = None
    ts: float | str | datetime | None = None
    retrieval_latency_ms: float | None = None
    rerank_latency_ms: float | None = None
    candidate_places: tuple[Place, ...] | None = field(default=None, init=False, repr=False)
    retrieved_places: tuple[Place, ...] | None = field(default=None, init=False, repr=False)
    misread: Exception | None = field(default=None, init=False, repr=False)
    rerank_ns: int | None = field(default=None, init=False, repr=False)
    started_ns: int = field(default=0, init=False, repr=False)

    def candidates(self, chunks: Iterable[Any]) -> None:
        """The first-stage list, best first, as it is before a reranker. It is copied."""
        self.candidate_places = self._read(lambda: chunks)

    def retrieved(self, chunks: Iterable[Any]) -> None:
        """The final list, best first; `[]` is a search that found nothing. It is copied."""
        self.retrieved_by(lambda: chunks)

    def retrieved_by(self, chunks: Callable[[], Iterable[Any]]) -> None:
        """As `retrieved`, of a function that may raise: the row is then refused, and counted."""
        self.retrieved_places = self._read(chunks)

    def reranking(self) -> "Reranking":
        """`with call.reranking():` around the reranker measures it. Several blocks add up."""
        return Reranking(self)

    def places(self) -> tuple[tuple[Place, ...] | None, tuple[Place, ...] | None]:
        """The final list and the candidates. Raises what reading them raised."""
        if self.misread is not None:
            raise self.misread
        return self.retrieved_places, self.candidate_places

    def _read(self, chunks: Callable[[], Iterable[Any]]) -> tuple[Place, ...] | None:
        try:
            return self.port.read(chunks())
        except Exception as error:  # counted where the call is logged
            self.misread = error
            return None

    def __enter__(self) -> Self:
        if self.ts is None:
            self.ts = time.time_ns()
        self.started_ns = time.perf_counter_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Log the call. An exception of the search goes on; the call is logged as a fault."""
        took_ns = time.perf_counter_ns() - self.started_ns
        if self.retrieval_latency_ms is None:
            self.retrieval_latency_ms = (took_ns - (self.rerank_ns or 0)) / 1e6
        if self.rerank_latency_ms is None and self.rerank_ns is not None:
            self.rerank_latency_ms = self.rerank_ns / 1e6
        if kind is not None:
            self.retrieved_places = None
            self.error = _shown(error, kind) if self.port.shows_errors else kind.__name__
        elif self.retrieved_places is None and self.error is None:
            self.error = NOT_TOLD
        self.port.log(self)


class Reranking:
    """Measures a block and adds it to the reranking time of its call."""

    __slots__ = ("_call", "_started_ns")

    def __init__(self, call: RetrievalCall) -> None:
        self._call = call
        self._started_ns = 0

    def __enter__(self) -> None:
        self._started_ns = time.perf_counter_ns()

    def __exit__(self, *_: object) -> None:
        took_ns = time.perf_counter_ns() - self._started_ns
        self._call.rerank_ns = (self._call.rerank_ns or 0) + took_ns


def _shown(error: BaseException | None, kind: type[BaseException]) -> str:
    try:
        text = str(error)
    except Exception:  # what cannot be printed must not hide the error that is on its way
        return kind.__name__
    return f"{kind.__name__}: {text}" if text else kind.__name__
