"""What serving code logs becomes valid landing rows, and never gets in its way."""

import asyncio
import gc
import json
import logging
import math
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval_quality.contracts import CONTRACTS
from retrieval_quality.emit import (
    CallableSink,
    Row,
    Sink,
    SinkUnavailableError,
    TraceLogger,
    Versions,
    hashed,
    is_sampled,
)
from retrieval_quality.emit.values import COLUMNS, iso_time, places_of


class Collected:
    """A sink that keeps lines, checked against the contracts."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, dict[str, object]]] = []
        self.sink = CallableSink(self._take)

    def _take(self, batch: Sequence[Row]) -> None:
        for row in batch:
            values = json.loads(row.line)
            CONTRACTS[row.contract].model_validate(values)
            assert values == row.values
            self.rows.append((row.contract, values))

    def of(self, contract: str = "retrieval_traces") -> list[dict[str, object]]:
        return [values for name, values in self.rows if name == contract]

    def one(self, contract: str = "retrieval_traces") -> dict[str, object]:
        (values,) = self.of(contract)
        return values


@pytest.fixture
def collected() -> Collected:
    return Collected()


def fast(sink: Sink, **settings: object) -> TraceLogger:
    return TraceLogger(sink, **{"flush_seconds": 0.02, **settings})  # type: ignore[arg-type]


# rows


def test_a_retrieval_with_every_column(collected: Collected) -> None:
    with fast(
        collected.sink, versions=Versions(index_version="v7", chunker_version="c1"), environment="prod"
    ) as logger:
        trace_id = logger.log_retrieval(
            "how do I reset my password",
            [("kb-12#3", 0.83), ("kb-40#1", 0.5)],
            session_id="s1",
            user_id=17,  # type: ignore[arg-type]
            query_id="q1",
            top_k=2,
            candidates=["kb-40#1", "kb-12#3", "kb-7#1"],
            versions=Versions(index_version="v8", prompt_version="p2"),
            experiment_id="e1",
            experiment_bucket="b",
            intent="account",
            filters={"tenant": UUID(int=1), "since": date(2026, 11, 1), "tags": {"a"}},
            filter_empty=False,
            retrieval_latency_ms=12.5,
            rerank_latency_ms=3,
            score_type="cosine",
            higher_is_better=True,
            ts=datetime(2026, 11, 30, 13, 0, 0, 250, tzinfo=timezone(timedelta(hours=1))),
        )
    row = collected.one()
    assert isinstance(row.pop("ingested_at"), str)
    assert row == {
        "trace_id": trace_id,
        "session_id": "s1",
        "user_id": "17",
        "ts": "2026-11-30T12:00:00.000250Z",
        "query": "how do I reset my password",
        "query_id": "q1",
        "top_k": 2,
        "retrieved": [
            {"chunk_id": "kb-12#3", "score": 0.83, "rank": 1},
            {"chunk_id": "kb-40#1", "score": 0.5, "rank": 2},
        ],
        "candidates": [
            {"chunk_id": "kb-40#1", "score": None, "rank": 1},
            {"chunk_id": "kb-12#3", "score": None, "rank": 2},
            {"chunk_id": "kb-7#1", "score": None, "rank": 3},
        ],
        "index_version": "v8",
        "chunker_version": "c1",
        "prompt_version": "p2",
        "experiment_id": "e1",
        "experiment_bucket": "b",
        "intent": "account",
        "environment": "prod",
        "sample_rate": 1.0,
        "filters": {"tenant": "00000000-0000-0000-0000-000000000001", "since": "2026-11-01", "tags": ["a"]},
        "filter_empty": False,
        "retrieval_latency_ms": 12.5,
        "rerank_latency_ms": 3,
        "score_type": "cosine",
        "higher_is_better": True,
    }


def test_feedback_and_answers(collected: Collected) -> None:
    with fast(collected.sink, versions=Versions(prompt_version="p1")) as logger:
        first = logger.log_feedback("s1", ["a", "b"], "up")
        logger.log_feedback("s1", "a", 2, True, trace_id="t1", rating_scale="stars", signal="copy", weight=0.5)
        answer_id = logger.log_answer(
            "Reset it in the settings.",
            session_id="s1",
            citations=["a", {"chunk_id": "b", "quote": "settings", "claim": None, "supported": True, "other": 1}],
            scores={"faithful": np.float32(0.5), "nan": math.nan},
            input_tokens=np.int64(12),  # type: ignore[arg-type]
        )
    explicit, implicit = collected.of("feedback")
    assert explicit["feedback_id"] == first
    assert [explicit[key] for key in ("session_id", "chunk_ids", "rating", "implicit")] == [
        "s1",
        ["a", "b"],
        "up",
        False,
    ]
    assert explicit["ts"] == explicit["ingested_at"]
    assert [implicit[key] for key in ("chunk_ids", "rating", "implicit", "weight")] == [["a"], 2, True, 0.5]
    answer = collected.one("answers")
    assert answer["answer_id"] == answer_id
    assert answer["citations"] == [{"chunk_id": "a"}, {"chunk_id": "b", "quote": "settings", "supported": True}]
    assert [answer[key] for key in ("scores", "input_tokens", "prompt_version")] == [{"faithful": 0.5}, 12, "p1"]


def test_the_columns_are_those_of_the_contracts() -> None:
    assert {contract: set(columns) for contract, columns in COLUMNS.items()} == {
        contract: set(CONTRACTS[contract].model_fields) for contract in COLUMNS
    }


def test_a_search_that_found_nothing_and_one_that_failed(collected: Collected) -> None:
    with fast(collected.sink) as logger:
        logger.log_retrieval("q", [])
        logger.log_retrieval("q", None, error="TimeoutError")
    nothing, failed = collected.of()
    assert (nothing["retrieved"], nothing.get("error")) == ([], None)
    assert (failed["retrieved"], failed["error"]) == (None, "TimeoutError")


@pytest.mark.parametrize(
    ("chunk", "expected"),
    [
        ("a", ("a", None, None)),
        (7, ("7", None, None)),
        (UUID(int=1), ("00000000-0000-0000-0000-000000000001", None, None)),
        (("a", 0.5), ("a", 0.5, None)),
        (("a", 0.5, 3), ("a", 0.5, 3)),
        ({"chunk_id": "a", "score": 0.5, "text": "x"}, ("a", 0.5, None)),
    ],
)
def test_shapes_of_chunks(chunk: object, expected: tuple[object, ...]) -> None:
    assert places_of([chunk], None) == (expected,)


def test_ranks_that_are_given_stay_and_scores_that_are_no_numbers_are_null(collected: Collected) -> None:
    with fast(collected.sink) as logger:
        logger.log_retrieval("q", [("a", np.float32(0.5), 2), ("b", math.nan, 1), ("c", -math.inf, np.int64(3))])
    assert collected.one()["retrieved"] == [
        {"chunk_id": "a", "score": 0.5, "rank": 2},
        {"chunk_id": "b", "score": None, "rank": 1},
        {"chunk_id": "c", "score": None, "rank": 3},
    ]


def test_what_the_caller_changes_afterwards_is_not_logged(collected: Collected) -> None:
    chunks: list[dict[str, object]] = [{"chunk_id": "a"}, {"chunk_id": "b"}]
    filters: dict[str, object] = {"tags": ["x"]}
    named = ["a"]
    with TraceLogger(collected.sink, flush_seconds=30) as logger:
        logger.log_retrieval("q", chunks, filters=filters)
        logger.log_feedback("s1", named, "up")
        with logger.retrieval("q") as call:
            call.candidates(chunks)
            chunks.reverse()
            call.retrieved(chunks)
        chunks[0]["chunk_id"] = "changed"
        filters["tags"] = named.append("changed")
    logged, measured = collected.of()
    assert logged["retrieved"] == [
        {"chunk_id": "a", "score": None, "rank": 1},
        {"chunk_id": "b", "score": None, "rank": 2},
    ]
    assert logged["filters"] == {"tags": ["x"]}
    assert measured["candidates"] == logged["retrieved"]
    assert [place["chunk_id"] for place in measured["retrieved"]] == ["b", "a"]  # type: ignore[attr-defined]
    assert collected.one("feedback")["chunk_ids"] == ["a"]


@pytest.mark.parametrize(
    "log",
    [
        lambda logger: logger.log_retrieval("q", [object()]),
        lambda logger: logger.log_retrieval("q", [{"id": "a"}]),
        lambda logger: logger.log_retrieval("q", "a"),
        lambda logger: logger.log_retrieval("q", ["a"], filters={"f": object()}),
        lambda logger: logger.log_retrieval(["q"], ["a"]),
        lambda logger: logger.log_retrieval("q", ["a"], top_k="5"),
        lambda logger: logger.log_retrieval("q", ["a"], retrieval_latency_ms=-1),
        lambda logger: logger.log_retrieval("q", [("a", "high")]),
        lambda logger: logger.log_feedback(None, ["a"], "up"),
        lambda logger: logger.log_feedback("s1", [" "], "up"),
        lambda logger: logger.log_feedback("s1", grade=11),
        lambda logger: logger.log_feedback("s1", rating=4, rating_scale="points"),
        lambda logger: logger.log_answer("text"),
        lambda logger: logger.log_answer("text", session_id="s1", input_tokens=-1),
        lambda logger: logger.log_answer("text", session_id="s1", cost_usd=-0.5),
        lambda logger: logger.log_answer("text", session_id="s1", citations=[{"chunk": "a"}]),
    ],
)
def test_a_row_that_fits_no_contract_is_counted_and_not_raised(
    log: Callable[[TraceLogger], object], collected: Collected
) -> None:
    with fast(collected.sink) as logger:
        log(logger)
        logger.log_retrieval("good", ["a"])
    stats = logger.stats()
    assert stats.lost == {"invalid": 1}
    assert (stats.written, stats.queued) == (1, 0)
    assert stats.accepted == stats.written + sum(stats.dropped.values())
    assert collected.one()["query"] == "good"


def test_a_number_that_json_cannot_hold_is_counted(collected: Collected) -> None:
    with fast(collected.sink) as logger:
        logger.log_retrieval("q", ["a"], filters={"n": 10**5000})
    assert logger.stats().dropped == {"not_serialisable": 1}


def test_a_wrong_keyword_is_an_error_of_the_program(collected: Collected) -> None:
    with fast(collected.sink) as logger, pytest.raises(TypeError):
        logger.log_retrieval("q", [], sesion_id="s1")  # type: ignore[call-arg]


def test_an_iterator_is_refused_and_not_emptied(collected: Collected) -> None:
    chunks = iter(["a", "b"])
    with fast(collected.sink) as logger:
        logger.log_retrieval("q", chunks)
    assert list(chunks) == ["a", "b"]
    assert logger.stats().refused == {"invalid": 1}


text = st.text(st.characters(exclude_categories=()), max_size=20)  # lone surrogates, too
names = st.one_of(text, st.integers(), st.uuids())
jsonable = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), text),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(text, inner, max_size=3)),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(query=text, ids=st.lists(names, max_size=4), scores=st.floats(), session=names, filters=jsonable)
def test_any_text_becomes_a_line_of_strict_utf8_json(
    query: str, ids: list[object], scores: float, session: str, filters: object
) -> None:
    collected = Collected()
    with TraceLogger(collected.sink, flush_seconds=30) as logger:
        logger.log_retrieval(query, [(name, scores) for name in ids], session_id=session, filters=filters)
    row = collected.one()
    assert row["query"] == query.encode("utf-8", "replace").decode()
    assert len(row["retrieved"]) == len(ids)  # type: ignore[arg-type]
    assert logger.stats().written == 1


def test_times_to_the_microsecond() -> None:
    assert iso_time(1_796_040_000_123_456_789) == "2026-11-30T12:00:00.123456Z"


# sampling


def test_decisions_never_change() -> None:
    """Fixed for ever: feedback days later, another process and the next version decide alike."""
    # blake2b with person "rq-sampling" as a share of 2^64, computed apart from the SDK
    shares = {
        "session-1": 0.754370572,
        "session-2": 0.720336567,
        "session-3": 0.236484671,
        "17": 0.147228073,
        "é": 0.602882073,
    }
    for session, share in shares.items():
        assert not is_sampled(session, share)
        assert is_sampled(session, share + 1e-8)


def test_the_share_of_sampled_sessions_and_nested_rates() -> None:
    sessions = [f"user-{number}" for number in range(20_000)]
    kept = {rate: {session for session in sessions if is_sampled(session, rate)} for rate in (0.01, 0.1, 0.5)}
    # four standard errors of a binomial share
    for rate, some in kept.items():
        assert abs(len(some) / 20_000 - rate) < 4 * math.sqrt(rate * (1 - rate) / 20_000)
    assert kept[0.01] < kept[0.1] < kept[0.5]


def test_a_sampled_session_keeps_its_feedback_and_answers(collected: Collected) -> None:
    sessions = [f"s{number}" for number in range(200)]
    with fast(collected.sink, sample_rate=0.25) as logger:
        for session in sessions:
            trace_id = logger.log_retrieval("q", ["a"], session_id=session)
            assert trace_id
            logger.log_feedback(session, ["a"], "up", trace_id=trace_id)
            logger.log_answer("x", session_id=session, trace_id=trace_id)
    kept = [session for session in sessions if is_sampled(session, 0.25)]
    for contract in ("retrieval_traces", "feedback", "answers"):
        assert [row["session_id"] for row in collected.of(contract)] == kept
    assert {row["sample_rate"] for row in collected.of()} == {0.25}
    assert logger.stats().sampled_out == 3 * (200 - len(kept))


def test_without_a_session_the_trace_decides_and_feedback_is_kept(collected: Collected) -> None:
    traces = [f"{number:032x}" for number in range(1, 101)]
    with fast(collected.sink, sample_rate=0.5) as logger:
        for trace_id in traces:
            logger.log_retrieval("q", ["a"], trace_id=trace_id, session_id=" ")
            logger.log_feedback(rating="up", trace_id=trace_id)
    assert [row["trace_id"] for row in collected.of()] == [trace for trace in traces if is_sampled(trace, 0.5)]
    assert [row["trace_id"] for row in collected.of("feedback")] == traces


def test_an_evaluation_run_is_never_sampled(collected: Collected) -> None:
    with fast(collected.sink, sample_rate=0.000001) as logger:
        logger.log_retrieval("q", ["a"], session_id="s1", eval_run_id="run-1")
    assert collected.one()["sample_rate"] == 1.0


def test_a_rate_of_zero_writes_nothing(collected: Collected) -> None:
    with fast(collected.sink, sample_rate=0) as logger:
        logger.log_retrieval("q", ["a"], eval_run_id="run-1")
        logger.log_feedback(trace_id="t1", rating="up")
    assert collected.rows == []
    assert logger.stats().sampled_out == 2


@pytest.mark.parametrize(
    "settings", [{"sample_rate": 1.1}, {"sample_rate": 1e-7}, {"queue_rows": 0}, {"flush_seconds": 0}]
)
def test_settings_out_of_their_range(settings: Mapping[str, float], collected: Collected) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        TraceLogger(collected.sink, **settings)  # type: ignore[arg-type]


# redaction


def test_texts_are_redacted_before_any_sink_sees_them(collected: Collected) -> None:
    with fast(collected.sink, redact=lambda text: text.replace("anna", "***")) as logger:
        logger.log_retrieval("who is anna", ["a"])
        logger.log_answer("anna is", trace_id="t", citations=[{"chunk_id": "a", "quote": "anna", "claim": "anna is"}])
        with pytest.raises(KeyError), logger.retrieval("anna"):
            raise KeyError("anna")
    assert "anna" not in json.dumps(collected.rows)
    assert [row["query"] for row in collected.of()] == ["who is ***", "***"]
    assert collected.of()[1]["error"] == "KeyError"


def test_a_hook_that_fails_drops_the_row_and_tells_no_text(
    collected: Collected, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(text: str) -> str:
        raise ValueError(f"cannot redact {text}")

    with caplog.at_level(logging.DEBUG), fast(collected.sink, redact=fails) as logger:
        logger.log_retrieval("secret", ["a"])
        logger.log_retrieval(None, ["a"])
    assert logger.stats().dropped == {"redaction_failed": 1}
    assert len(collected.rows) == 1
    assert "1 redaction_failed" in caplog.text
    assert "secret" not in caplog.text


def test_a_hook_that_returns_none_or_no_text(collected: Collected) -> None:
    with fast(collected.sink, redact=lambda text: None if text == "drop" else 1) as logger:  # type: ignore[arg-type,return-value]
        logger.log_retrieval("drop", ["a"])
        logger.log_retrieval("other", ["a"])
    assert "query" not in collected.one()
    assert logger.stats().dropped == {"redaction_failed": 1}


def test_hashed_texts_stay_equal() -> None:
    hook = hashed(b"key")
    assert hook("How do  I\n") == hook(" how do i")
    assert hook("how") != hook("why")
    assert hook("how") != hashed(b"other")("how")
    assert str(hook("\ud800")).startswith("h:")
    with pytest.raises(ValueError, match="1 to 64 bytes"):
        hashed(b"")


# context manager and decorator


def test_the_block_is_measured_apart_from_the_reranking(collected: Collected) -> None:
    with (
        fast(collected.sink) as logger,
        logger.retrieval("q", session_id="s1", top_k=1, filters={"a": 1}, experiment_bucket="b") as call,
    ):
        time.sleep(0.02)
        call.candidates(["a", "b"])
        with call.reranking():
            time.sleep(0.05)
        call.retrieved(["b"])
        call.filter_empty = False
    row = collected.one()
    # lower bounds only: a busy machine takes longer, never shorter
    assert row["retrieval_latency_ms"] >= 20  # type: ignore[operator]
    assert row["rerank_latency_ms"] >= 50  # type: ignore[operator]
    assert [row[key] for key in ("trace_id", "top_k", "filters", "filter_empty", "experiment_bucket")] == [
        call.trace_id,
        1,
        {"a": 1},
        False,
        "b",
    ]


def test_an_exception_passes_unchanged_and_is_a_fault(collected: Collected) -> None:
    fault = RuntimeError("index is down")
    with fast(collected.sink) as logger, pytest.raises(RuntimeError) as raised, logger.retrieval("q"):
        raise fault
    assert raised.value is fault
    row = collected.one()
    assert (row["retrieved"], row["error"]) == (None, "RuntimeError: index is down")


def test_a_block_that_tells_no_list_is_a_fault(collected: Collected) -> None:
    with fast(collected.sink) as logger, logger.retrieval("q"):
        pass
    assert (collected.one()["retrieved"], collected.one()["error"]) == (None, "retrieved() was never called")


def test_chunks_that_cannot_be_read_do_not_break_the_search(collected: Collected) -> None:
    with fast(collected.sink) as logger, logger.retrieval("q") as call:
        call.candidates([object()])
        call.retrieved(["a"])
    assert logger.stats().refused == {"invalid": 1}


def test_a_traced_function(collected: Collected) -> None:
    with fast(collected.sink, chunk=lambda found: found["id"]) as logger:

        @logger.traced(arguments={"k": "top_k"}, result=lambda answer: answer["matches"])
        def search(
            query: str, session_id: str | None = None, *, k: int = 10, index_version: str = "v1", other: object = None
        ) -> dict[str, list[dict[str, str]]]:
            """Finds."""
            return {"matches": [{"id": "a"}, {"id": "b"}]}

        assert search("q", "s1", k=3) == {"matches": [{"id": "a"}, {"id": "b"}]}
        search(session_id="s2", query="q2")
        assert search.__doc__ == "Finds."
    first, second = collected.of()
    keys = ("query", "session_id", "top_k", "index_version")
    assert [first[key] for key in keys] == ["q", "s1", 3, "v1"]
    assert [second[key] for key in keys] == ["q2", "s2", 10, "v1"]
    assert [place["chunk_id"] for place in first["retrieved"]] == ["a", "b"]  # type: ignore[attr-defined]
    assert first["retrieval_latency_ms"] > 0  # type: ignore[operator]


def test_a_traced_function_that_reranks_and_a_traced_method(collected: Collected) -> None:
    with fast(collected.sink) as logger:

        class Index:
            @logger.traced()
            def search(self, query: str) -> list[str]:  # noqa: ARG002 - captured by name
                call = logger.call()
                call.candidates(["b", "a"])
                with call.reranking():
                    return ["a"]

        assert Index().search("q") == ["a"]
        logger.call().retrieved(["outside of a search: not logged"])
    row = collected.one()
    assert row["query"] == "q"
    assert [place["chunk_id"] for place in row["candidates"]] == ["b", "a"]  # type: ignore[attr-defined]
    assert row["rerank_latency_ms"] > 0  # type: ignore[operator]


def test_a_traced_function_that_raises_or_whose_result_cannot_be_read(collected: Collected) -> None:
    with fast(collected.sink) as logger:

        @logger.traced()
        def fails(query: str) -> list[str]:
            raise LookupError

        @logger.traced(result=lambda answer: answer["matches"])
        def odd(query: str) -> int:
            return 7

        @logger.traced()
        def lazy(query: str) -> Iterator[str]:
            return iter(["a"])

        with pytest.raises(LookupError):
            fails("q")
        assert odd("q") == 7
        assert list(lazy("q")) == ["a"]
    assert collected.one()["error"] == "LookupError"
    assert logger.stats().refused == {"invalid": 2}


def test_what_cannot_be_traced_is_said_at_once(collected: Collected) -> None:
    with fast(collected.sink) as logger:
        with pytest.raises(TypeError, match="generator"):

            @logger.traced()
            def generates(query: str) -> Iterator[str]:
                yield "a"

        with pytest.raises(TypeError, match="no parameter q"):
            logger.traced(arguments={"q": "query"})(len)
        with pytest.raises(TypeError, match="no column question"):
            logger.traced(arguments={"obj": "question"})(len)


def test_asyncio_tasks_do_not_mix(collected: Collected) -> None:
    with fast(collected.sink) as logger:

        @logger.traced()
        async def search(query: str, session_id: str) -> list[str]:
            call = logger.call()
            await asyncio.sleep(0.01)
            assert logger.call() is call
            return [f"chunk of {query}"]

        async def block(query: str) -> None:
            with logger.retrieval(query) as call:
                await asyncio.sleep(0.01)
                call.retrieved([f"chunk of {query}"])

        async def cancelled() -> None:
            with logger.retrieval("cancelled"):
                await asyncio.sleep(60)

        async def main() -> None:
            task = asyncio.create_task(cancelled())
            await asyncio.gather(
                *(search(f"q{number}", f"s{number}") for number in range(20)),
                *(block(f"b{number}") for number in range(20)),
            )
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        asyncio.run(main())
    rows = {row["query"]: row for row in collected.of()}
    assert len(rows) == 41
    assert rows.pop("cancelled")["error"] == "CancelledError"
    assert all(row["retrieved"][0]["chunk_id"] == f"chunk of {query}" for query, row in rows.items())  # type: ignore[index]
    assert rows["q3"]["session_id"] == "s3"


# the queue


class Gate(Sink):
    """Takes nothing until it is opened."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.rows: list[Row] = []

    def write(self, batch: Sequence[Row]) -> None:
        self.open.wait()
        self.rows.extend(batch)


def test_a_full_queue_refuses_the_newest_and_counts() -> None:
    gate = Gate()
    logger = TraceLogger(gate, queue_rows=10, flush_seconds=0.01)
    logger.log_retrieval("first", [])
    while logger._writer._queue:  # the writer has it in hand, and hangs
        time.sleep(0.001)
    for number in range(25):
        logger.log_retrieval(str(number), [])
    stats = logger.stats()
    assert (stats.accepted, stats.queued, stats.refused) == (11, 11, {"queue_full": 15})
    gate.open.set()
    logger.close()
    logger.log_retrieval("late", [])
    stats = logger.stats()
    assert (stats.accepted, stats.written, stats.queued) == (11, 11, 0)
    assert stats.refused == {"queue_full": 15, "closed": 1}
    assert [row.values["query"] for row in gate.rows] == ["first", *map(str, range(10))]


def test_a_sink_that_hangs_does_not_hold_up_the_end() -> None:
    gate = Gate()
    logger = TraceLogger(gate, flush_seconds=0.01)
    for number in range(3):
        logger.log_retrieval(str(number), [])
    logger.close(0.05)
    stats = logger.stats()
    assert (stats.accepted, stats.written, stats.queued, stats.dropped) == (3, 0, 0, {"close_timeout": 3})
    gate.open.set()
    assert logger.stats() == stats


class Failing(Sink):
    """Raises what it is told to, then takes rows."""

    def __init__(self, *faults: Exception) -> None:
        self.faults = list(faults)
        self.rows: list[str] = []

    def write(self, batch: Sequence[Row]) -> None:
        if self.faults:
            fault = self.faults.pop(0)
            self.rows.extend(str(row.values["query"]) for row in batch[: getattr(fault, "n_taken", 0)])
            raise fault
        self.rows.extend(str(row.values["query"]) for row in batch)


def test_a_sink_that_fails_is_tried_again_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    sink = Failing(OSError(28, "No space left on device"), ConnectionError(), OSError(28, "No space left on device"))
    with caplog.at_level(logging.WARNING), fast(sink) as logger:
        for number in range(5):
            logger.log_retrieval(str(number), [])
        assert logger.flush()
        logger.log_retrieval("5", [])
    assert sink.rows == ["0", "1", "2", "3", "4", "5"]
    assert logger.stats().lost == {}
    assert "No space left on device; " in caplog.text
    assert caplog.text.count("the sink failed") == 1  # not once per attempt
    assert "the sink works again" in caplog.text


def test_rows_that_a_sink_took_before_it_failed_are_not_sent_again() -> None:
    sink = Failing(SinkUnavailableError("full", n_taken=2))
    with TraceLogger(sink, flush_seconds=30) as logger:
        for number in range(5):
            logger.log_retrieval(str(number), [])
    assert sink.rows == ["0", "1", "2", "3", "4"]
    assert logger.stats().written == 5


def test_a_row_that_breaks_the_sink_costs_only_itself(caplog: pytest.LogCaptureFixture) -> None:
    taken: list[str] = []

    def take(batch: Sequence[Row]) -> None:
        if any(row.values["query"] == "poison" for row in batch):
            raise ValueError("bad row")
        taken.extend(str(row.values["query"]) for row in batch)

    with TraceLogger(CallableSink(take), flush_seconds=0.2) as logger:
        for query in ("a", "poison", "b"):
            logger.log_retrieval(query, [])
        logger.flush()
        logger.log_retrieval("c", [])
    assert taken == ["a", "b", "c"]
    stats = logger.stats()
    assert (stats.written, stats.dropped) == (3, {"sink_failed": 1})
    assert "1 sink_failed" in caplog.text


def test_a_sink_that_never_works_again_loses_rows_at_the_end_only() -> None:
    sink = Failing(*(OSError() for _ in range(1000)))
    with fast(sink) as logger:
        logger.log_retrieval("a", [])
        assert not logger.flush(0.1)
        assert logger.stats().queued == 1
        logger.close(0.2)
    stats = logger.stats()
    assert (stats.written, stats.queued, stats.dropped) == (0, 0, {"sink_failed": 1})


def test_losses_are_reported_once_a_period(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), fast(CallableSink(len), report_seconds=3600) as logger:
        for _ in range(5):
            logger.log_retrieval(["no text"], [])  # type: ignore[arg-type]
            logger.flush()
            time.sleep(0.03)
        assert caplog.text.count("rows lost") == 1
    assert caplog.text.count("rows lost") == 2  # what came since, at the end
    assert "rows lost: 4 invalid (since the start: 5 invalid of 5); latest: retrieval_traces.query" in caplog.text


def test_eight_threads_lose_nothing_that_is_not_counted() -> None:
    taken: Counter[object] = Counter()
    logger = fast(CallableSink(lambda batch: taken.update(row.values["query"] for row in batch)), queue_rows=500)

    def work(thread: int) -> None:
        for number in range(500):
            logger.log_retrieval(f"{thread}-{number}", ["a"])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    logger.close(30)
    stats = logger.stats()
    assert stats.accepted + sum(stats.refused.values()) == 8 * 500
    assert stats.accepted == stats.written == len(taken)
    assert set(taken.values()) == {1}


def test_losses_are_reported_also_while_rows_keep_coming(caplog: pytest.LogCaptureFixture) -> None:
    with fast(CallableSink(lambda batch: time.sleep(0.001 * len(batch))), queue_rows=20) as logger:
        give_up_at = time.monotonic() + 30
        while "queue_full" not in caplog.text and time.monotonic() < give_up_at:
            logger.log_retrieval("q", ["a"])
        assert "queue_full" in caplog.text


def test_a_signal_handler_may_log() -> None:
    """It interrupts a call of the same thread anywhere: no lock may be waited for, no row miscounted."""
    program = """
import signal
from retrieval_quality.emit import CallableSink, TraceLogger

taken = []
logger = TraceLogger(CallableSink(taken.extend), flush_seconds=0.01, queue_rows=10**6)
handled = []

def handle(number, frame):
    handled.append(logger.log_retrieval("handler", ["a"]))

signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
for number in range(10_000):
    logger.log_retrieval("q", ["a"])
signal.setitimer(signal.ITIMER_REAL, 0)
logger.close(60)
assert handled
assert logger.stats().accepted == logger.stats().written == len(taken) == 10_000 + len(handled), logger.stats()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_a_logger_that_nobody_holds_writes_its_rows_and_ends_its_thread() -> None:
    taken: list[Row] = []
    logger = TraceLogger(CallableSink(taken.extend), flush_seconds=30)
    logger.log_retrieval("q", [])
    thread = logger._writer._thread
    assert thread is not None
    del logger
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()
    assert len(taken) == 1


def test_closing_twice_and_an_unused_logger() -> None:
    logger = TraceLogger(CallableSink(len))
    logger.close()
    logger.close()
    assert logger.flush()
    assert logger.stats() == replace(logger.stats(), accepted=0, written=0, queued=0)


def test_rows_at_the_end_of_the_interpreter_are_written(tmp_path: Path) -> None:
    program = (
        "import sys; from retrieval_quality.emit import TraceLogger\n"
        "logger = TraceLogger(sys.argv[1], flush_seconds=60)\n"
        "logger.log_retrieval('q', ['a'])\n"
        "def main():\n"
        "    TraceLogger(sys.argv[1], flush_seconds=60).log_retrieval('of a forgotten logger', ['a'])\n"
        "main()\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=60)
    lines = [line for path in tmp_path.rglob("emit-*.jsonl") for line in path.read_text().splitlines()]
    assert sorted(json.loads(line)["query"] for line in lines) == ["of a forgotten logger", "q"]


def test_the_import_is_light() -> None:
    program = (
        "import sys; before = set(sys.modules); import retrieval_quality.emit\n"
        "names = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(names - set(sys.stdlib_module_names)))"
    )
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    assert found.stdout.split() == ["retrieval_quality"]
