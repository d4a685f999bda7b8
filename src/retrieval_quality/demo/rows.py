"""The demo's records as rows of the landing contracts; an absent value has no key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime

from retrieval_quality.demo.corpus import CHUNKER_VERSION, Corpus, Passage
from retrieval_quality.demo.feedback import Feedback
from retrieval_quality.demo.search import BM25_NAME, RERANK_CONTROL, TOP_K, Hit
from retrieval_quality.demo.traffic import (
    EVAL_AT_HOUR,
    EXPERIMENT_ID,
    INTENTS,
    QUERY_SET,
    Schedule,
    Trace,
    eval_run_id_of,
    query_id_of,
    start_of,
)
from retrieval_quality.demo.verdicts import Verdict


def trace_row(
    trace: Trace, corpus: Corpus, *, last_score: float | None = None, replace_last: bool = False
) -> dict[str, object]:
    """A trace in the ``retrieval_traces`` contract; absent values have no key.

    With ``replace_last`` the last final score is landed as ``last_score`` (None or NaN).
    """
    retrieved = _ranked(trace.ranking.final, corpus)
    if replace_last and retrieved:
        retrieved[-1]["score"] = last_score
    return _present(
        {
            "trace_id": trace.trace_id,
            "session_id": trace.session_id,
            "user_id": trace.user_id,
            "query": trace.query,
            "query_id": trace.query_id,
            "top_k": TOP_K,
            "ts": trace.ts,
            "retrieved": retrieved,
            "candidates": _ranked(trace.ranking.candidates, corpus),
            "index_version": trace.index_version,
            "embedding_model": BM25_NAME,
            "chunker_version": CHUNKER_VERSION,
            "reranker_version": trace.reranker_version,
            "experiment_id": EXPERIMENT_ID if trace.experiment_bucket else None,
            "experiment_bucket": trace.experiment_bucket,
            "environment": "eval" if trace.eval_run_id else "production",
            "eval_run_id": trace.eval_run_id,
            "intent": trace.intent,
            "retrieval_latency_ms": trace.retrieval_latency_ms,
            "rerank_latency_ms": trace.rerank_latency_ms,
            "score_type": "bm25",
            "higher_is_better": True,
            "ingested_at": trace.delivered_at,
        }
    )


def feedback_row(feedback: Feedback, corpus: Corpus) -> dict[str, object]:
    """Simulated feedback in the ``feedback`` contract; absent values have no key."""
    chunks = feedback.chunks
    return _present(
        {
            "feedback_id": feedback.feedback_id,
            "session_id": feedback.session_id,
            "trace_id": feedback.trace_id,
            "chunk_ids": chunks and [corpus.passages[i].chunk_id for i in chunks],
            "rating": feedback.rating,
            "implicit": feedback.is_implicit,
            "signal": feedback.signal,
            "answer_correct": feedback.answer_correct,
            "rater_id": feedback.rater_id,
            "dwell_ms": feedback.dwell_ms,
            "ts": feedback.ts,
            "ingested_at": feedback.delivered_at,
            "simulated": True,
        }
    )


def verdict_row(verdict: Verdict, corpus: Corpus) -> dict[str, object]:
    """A simulated verdict in the ``feedback`` contract; absent values have no key."""
    return _present(
        {
            "feedback_id": verdict.feedback_id,
            "session_id": verdict.session_id,
            "trace_id": verdict.trace_id,
            "chunk_ids": [corpus.passages[i].chunk_id for i in verdict.chunks],
            "rating": verdict.rating,
            "signal": verdict.signal,
            "inclusion_probability": verdict.inclusion_probability,
            "rater_id": f"demo-{verdict.signal}",
            "ts": verdict.ts,
            "ingested_at": verdict.ts,
            "simulated": True,
        }
    )


def query_row(passage: Passage, added_at: datetime) -> dict[str, object]:
    """A synthetic question in the ``queries`` contract."""
    return {
        "query_id": query_id_of(passage),
        "query": passage.question,
        "intent": INTENTS[passage.kind],
        "query_set": QUERY_SET,
        "added_at": _iso(added_at),
    }


def qrel_row(passage: Passage, labelled_at: datetime) -> dict[str, object]:
    """The only relevant passage of a synthetic question, in the ``qrels`` contract."""
    return {
        "query_id": query_id_of(passage),
        "chunk_id": passage.chunk_id,
        "label_class": "synthetic",
        "grade": 1,
        "labeller": "demo",
        "labelled_at": _iso(labelled_at),
    }


def eval_run_row(schedule: Schedule, day: date) -> dict[str, object]:
    """One night's scheduled evaluation in the ``eval_runs`` contract."""
    started_at = datetime.fromtimestamp(start_of(day) + EVAL_AT_HOUR * 3600, tz=UTC)
    return {
        "eval_run_id": eval_run_id_of(day),
        "started_at": _iso(started_at),
        "query_set": QUERY_SET,
        "kind": "scheduled",
        "index_version": schedule.main_index(day),
        "chunker_version": CHUNKER_VERSION,
        "embedding_model": BM25_NAME,
        "reranker_version": RERANK_CONTROL.version,
        "prompt_version": "none",
        "code_sha": "demo",
    }


def _ranked(hits: Sequence[Hit], corpus: Corpus) -> list[dict[str, object]]:
    """A list of hits as landed: chunk id, score and 1-based rank, best first."""
    return [
        {"chunk_id": corpus.passages[h.passage].chunk_id, "score": h.score, "rank": rank}
        for rank, h in enumerate(hits, start=1)
    ]


def _present(row: Mapping[str, object]) -> dict[str, object]:
    """The row without its absent values."""
    return {key: value for key, value in row.items() if value is not None}


def _iso(moment: datetime) -> str:
    """ISO 8601 with a Z."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
