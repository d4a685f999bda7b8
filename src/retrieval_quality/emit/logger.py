"""`TraceLogger`: what serving code calls."""

import math
import os
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Final, Self

from retrieval_quality.emit.calls import CALL_COLUMNS, CallPort, RetrievalCall, Versions
from retrieval_quality.emit.decorator import P, R, traced
from retrieval_quality.emit.finishing import Finisher, told
from retrieval_quality.emit.redaction import Redact
from retrieval_quality.emit.sampling import SMALLEST_RATE, is_sampled
from retrieval_quality.emit.sinks.base import Sink
from retrieval_quality.emit.sinks.jsonl import JsonlSink
from retrieval_quality.emit.stats import Stats
from retrieval_quality.emit.values import Place, ids_of, places_of, plain
from retrieval_quality.emit.writer import Writer

Time = float | str | datetime

_ID_BYTES: Final = 16


class TraceLogger:
    """Logs retrievals, feedback and answers without waiting: rows go into a bounded queue, and a
    daemon thread writes them.

    `sink`: a landing folder, or any `Sink`. `sample_rate`: share of sessions that are traced, 0 (none)
    or 0.000001 to 1. `redact`: makes of every query and answer text what may leave the process.
    `chunk`: from an object of your search to an id, (id, score), (id, score, rank) or a mapping.
    `queue_rows`: how many rows may wait. `flush_seconds`: how long a row waits at most before it is
    written. `report_seconds`: between two warnings of one kind.

    Methods raise for a wrong call of theirs only (TypeError). What goes wrong with a row is counted
    in `stats()` and logged as a warning by the logger `retrieval_quality.emit`. Raises ValueError
    for settings out of their range.
    """

    def __init__(
        self,
        sink: Sink | str | os.PathLike[str],
        *,
        versions: Versions | None = None,
        environment: str | None = None,
        score_type: str | None = None,
        higher_is_better: bool | None = None,
        sample_rate: float = 1.0,
        redact: Redact | None = None,
        chunk: Callable[[Any], object] | None = None,
        queue_rows: int = 10_000,
        flush_seconds: float = 1.0,
        report_seconds: float = 60.0,
    ) -> None:
        if sample_rate != 0 and not SMALLEST_RATE <= sample_rate <= 1:
            raise ValueError(f"sample_rate is 0 or from {SMALLEST_RATE:f} to 1, not {sample_rate}")
        if queue_rows < 1:
            raise ValueError(f"queue_rows is at least 1, not {queue_rows}")
        if not (flush_seconds > 0 and math.isfinite(flush_seconds)):
            raise ValueError(f"flush_seconds is a positive number, not {flush_seconds}")
        known = told(versions or Versions())
        traces = {
            **known,
            "environment": environment,
            "score_type": score_type,
            "higher_is_better": higher_is_better,
            "sample_rate": sample_rate or None,
        }
        answers = {"prompt_version": known.get("prompt_version")}
        self._sample_rate = sample_rate
        self._chunk = chunk
        self._writer = Writer(
            sink if isinstance(sink, Sink) else JsonlSink(sink),
            Finisher({"retrieval_traces": traces, "answers": answers}, redact),
            queue_rows,
            flush_seconds,
            report_seconds,
        )
        self._shows_errors = redact is None
        self._running: ContextVar[RetrievalCall | None] = ContextVar("retrieval_quality.emit.call", default=None)
        finalizer: Any = weakref.finalize(self, self._writer.close_soon)
        finalizer.atexit = False  # at exit the writer closes itself

    def log_retrieval(
        self,
        query: str | None,
        retrieved: Iterable[Any] | None,
        *,
        session_id: str | None = None,
        trace_id: str | None = None,
        user_id: str | None = None,
        query_id: str | None = None,
        top_k: int | None = None,
        candidates: Iterable[Any] | None = None,
        versions: Versions | None = None,
        experiment_id: str | None = None,
        experiment_bucket: str | None = None,
        intent: str | None = None,
        environment: str | None = None,
        eval_run_id: str | None = None,
        filters: Any = None,
        filter_empty: bool | None = None,
        retrieval_latency_ms: float | None = None,
        rerank_latency_ms: float | None = None,
        score_type: str | None = None,
        higher_is_better: bool | None = None,
        error: str | None = None,
        ts: Time | None = None,
    ) -> str:
        """Log a search that is over; the trace id, also where the session is not traced.

        `retrieved`: the final list, best first; None: the search failed (`error` says how).
        `ts`: when it happened, default now; a datetime, ISO 8601, or epoch s, ms, us, ns.
        """
        trace_id = trace_id or _new_id()
        try:
            values = {
                "trace_id": trace_id,
                "session_id": session_id,
                "user_id": user_id,
                "ts": ts,
                "query": query,
                "query_id": query_id,
                "top_k": top_k,
                "retrieved": None if retrieved is None else self._places(retrieved),
                "candidates": None if candidates is None else self._places(candidates),
                "versions": versions,
                "experiment_id": experiment_id,
                "experiment_bucket": experiment_bucket,
                "intent": intent,
                "environment": environment,
                "eval_run_id": eval_run_id,
                "filters": filters,
                "filter_empty": filter_empty,
                "retrieval_latency_ms": retrieval_latency_ms,
                "rerank_latency_ms": rerank_latency_ms,
                "score_type": score_type,
                "higher_is_better": higher_is_better,
                "error": error,
            }
            self._put_retrieval(values)
        except Exception as fault:
            self._refuse("retrieval_traces", fault)
        return trace_id

    def retrieval(
        self,
        query: str | None,
        *,
        session_id: str | None = None,
        trace_id: str | None = None,
        user_id: str | None = None,
        query_id: str | None = None,
        top_k: int | None = None,
        filters: Any = None,
        versions: Versions | None = None,
        experiment_id: str | None = None,
        experiment_bucket: str | None = None,
        eval_run_id: str | None = None,
    ) -> RetrievalCall:
        """`with logger.retrieval(query, ...) as call:` around a search, also an awaited one: measures
        it and logs it when the block ends. An exception passes through and is logged as a fault.
        """
        return RetrievalCall(
            self._port(),
            trace_id or _new_id(),
            query=query,
            session_id=session_id,
            user_id=user_id,
            query_id=query_id,
            top_k=top_k,
            filters=filters,
            versions=versions,
            experiment_id=experiment_id,
            experiment_bucket=experiment_bucket,
            eval_run_id=eval_run_id,
        )

    def traced(
        self,
        *,
        arguments: Mapping[str, str] | None = None,
        result: Callable[[Any], Iterable[Any]] | None = None,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """`@logger.traced()` on a search function, plain or `async`: every call of it is logged.

        Parameters named as a column (`query`, `session_id`, `top_k`, `filters`, `experiment_bucket`,
        `index_version`, ...) are captured; `arguments` names others: `{"question": "query"}`.
        What it returns is the final list, or `result` of it, unless it calls
        `logger.call().retrieved(...)`.
        """

        def decorate(function: Callable[P, R]) -> Callable[P, R]:
            return traced(function, lambda: self.retrieval(None), self._running, arguments or {}, result)

        return decorate

    def call(self) -> RetrievalCall:
        """The call of the traced function that is running in this thread or task. Outside of one: a
        call that is never logged.
        """
        return self._running.get() or self.retrieval(None)

    def log_feedback(
        self,
        session_id: str | None = None,
        chunk_ids: Iterable[str] | str | None = None,
        rating: float | bool | str | None = None,
        implicit: bool = False,
        *,
        trace_id: str | None = None,
        rating_scale: str | None = None,
        grade: int | None = None,
        signal: str | None = None,
        answer_correct: bool | None = None,
        rater_id: str | None = None,
        label_class: str | None = None,
        weight: float | None = None,
        inclusion_probability: float | None = None,
        dwell_ms: float | None = None,
        feedback_id: str | None = None,
        ts: Time | None = None,
    ) -> str:
        """Log what somebody said of a session's or trace's chunks; the feedback id.

        `chunk_ids`: None speaks of the whole final list, `[]` of nothing. Name the session that the
        retrieval had: it decides whether the trace was sampled. Feedback without one is always kept.
        """
        feedback_id = feedback_id or _new_id()
        now = time.time_ns()
        try:
            if not self._is_kept(session_id, None, None):
                return feedback_id
            values = {
                "feedback_id": feedback_id,
                "trace_id": trace_id,
                "session_id": session_id,
                "ts": now if ts is None else ts,
                "chunk_ids": None if chunk_ids is None else ids_of(chunk_ids),
                "rating": rating,
                "rating_scale": rating_scale,
                "grade": grade,
                "implicit": implicit,
                "signal": signal,
                "answer_correct": answer_correct,
                "rater_id": rater_id,
                "label_class": label_class,
                "weight": weight,
                "inclusion_probability": inclusion_probability,
                "dwell_ms": dwell_ms,
                "ingested_at": now,
            }
        except Exception as fault:
            self._refuse("feedback", fault)
        else:
            self._writer.put("feedback", values)
        return feedback_id

    def log_answer(
        self,
        answer_text: str | None = None,
        *,
        session_id: str | None = None,
        trace_id: str | None = None,
        answer_id: str | None = None,
        citations: Iterable[Any] | None = None,
        prompt_chunk_ids: Iterable[str] | None = None,
        is_correct: bool | None = None,
        schema_valid: bool | None = None,
        scores: Mapping[str, float] | None = None,
        model: str | None = None,
        prompt_version: str | None = None,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cached_tokens: int | None = None,
        cost_usd: float | None = None,
        attempts: int | None = None,
        latency_ms: float | None = None,
        ts: Time | None = None,
    ) -> str:
        """Log what the language model answered; the answer id. Sampled as feedback is.

        `citations`: chunk ids, or mappings with `chunk_id`, `quote`, `claim`, `supported`.
        """
        answer_id = answer_id or _new_id()
        now = time.time_ns()
        try:
            if not self._is_kept(session_id, None, None):
                return answer_id
            values = {
                "answer_id": answer_id,
                "trace_id": trace_id,
                "session_id": session_id,
                "ts": now if ts is None else ts,
                "citations": None if citations is None else [plain(citation) for citation in ids_of(citations)],
                "prompt_chunk_ids": None if prompt_chunk_ids is None else ids_of(prompt_chunk_ids),
                "answer_text": answer_text,
                "is_correct": is_correct,
                "schema_valid": schema_valid,
                "scores": plain(scores),
                "model": model,
                "prompt_version": prompt_version,
                "input_tokens": input_tokens,
                "output_tokens": output_tokens,
                "cached_tokens": cached_tokens,
                "cost_usd": cost_usd,
                "attempts": attempts,
                "latency_ms": latency_ms,
                "ingested_at": now,
            }
        except Exception as fault:
            self._refuse("answers", fault)
        else:
            self._writer.put("answers", values)
        return answer_id

    def stats(self) -> Stats:
        """The counts of this process so far."""
        return self._writer.stats()

    def flush(self, timeout: float = 5.0) -> bool:
        """Wait until the sink has what was logged so far; False when `timeout` seconds were not
        enough. Files stay hidden until they are complete.
        """
        return self._writer.flush(timeout)

    def close(self, timeout: float = 5.0) -> None:
        """Write what is queued and publish the files, for `timeout` seconds at most. What is logged
        afterwards is refused, and counted. Called at exit; child processes of `multiprocessing`
        have to call it.
        """
        self._writer.close(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _is_kept(self, session_id: object, trace_id: str | None, eval_run_id: str | None) -> bool:
        """Is this row of a traced session? Without a session the trace decides, without both the row
        is kept; so is every trace of an evaluation run, which has to be complete. Counts the others.
        """
        if self._sample_rate == 1 or (eval_run_id is not None and self._sample_rate > 0):
            return True
        session = "" if session_id is None else str(session_id)
        decisive = session if session.strip() else trace_id
        if self._sample_rate > 0 and (decisive is None or is_sampled(decisive, self._sample_rate)):
            return True
        self._writer.skip()
        return False

    def _port(self) -> CallPort:
        """Made for each call: kept here it would keep the logger alive."""
        return CallPort(read=self._places, log=self._log_call, shows_errors=self._shows_errors)

    def _places(self, chunks: Iterable[Any]) -> tuple[Place, ...]:
        return places_of(chunks, self._chunk)

    def _log_call(self, call: RetrievalCall) -> None:
        try:
            values = {column: getattr(call, column) for column in CALL_COLUMNS}
            values["retrieved"], values["candidates"] = call.places()
            self._put_retrieval(values)
        except Exception as fault:
            self._refuse("retrieval_traces", fault)

    def _put_retrieval(self, values: dict[str, Any]) -> None:
        eval_run_id = values["eval_run_id"]
        if not self._is_kept(values["session_id"], values["trace_id"], eval_run_id):
            return
        if eval_run_id is not None:
            values["sample_rate"] = 1.0
        if values["filters"] is not None:
            values["filters"] = plain(values["filters"])
        values["ingested_at"] = now = time.time_ns()
        if values["ts"] is None:
            values["ts"] = now
        self._writer.put("retrieval_traces", values)

    def _refuse(self, contract: str, fault: Exception) -> None:
        """Texts of unknown errors stay out of the report: they might quote the row."""
        detail = str(fault) if isinstance(fault, TypeError | ValueError) else type(fault).__name__
        self._writer.refuse("invalid", f"{contract}: {detail}")


def _new_id() -> str:
    return os.urandom(_ID_BYTES).hex()
