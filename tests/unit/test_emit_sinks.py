"""OpenTelemetry and Kafka behind the same interface. The Kafka broker is librdkafka's own mock cluster."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from retrieval_quality.adapters import IngestReport, ingest
from retrieval_quality.contracts import CONTRACTS
from retrieval_quality.emit import KafkaSink, OTelSink, Sink, TraceLogger, Versions

TS = "2026-11-30T12:00:00.250000Z"
SECONDS = 30


def fast(sink: Sink, **settings: Any) -> TraceLogger:
    return TraceLogger(sink, flush_seconds=0.02, **settings)


# OpenTelemetry


def ingested(spans: Sequence[ReadableSpan], folder: Path) -> tuple[IngestReport, dict[str, list[dict[str, Any]]]]:
    """What our own adapter makes of the spans, as the SDK writes them to JSON lines."""
    export = folder / "spans.jsonl"
    export.write_text("".join(f"{span.to_json(indent=None)}\n" for span in spans))
    report = ingest("openinference", [export], folder / "landing")
    rows: dict[str, list[dict[str, Any]]] = {}
    for path in (folder / "landing").rglob("*.jsonl"):
        for line in path.read_text().splitlines():
            rows.setdefault(path.parent.parent.name, []).append(json.loads(line))
    return report, rows


def emitted(log: Callable[[TraceLogger], object], **settings: Any) -> list[ReadableSpan]:
    exporter = InMemorySpanExporter()
    with fast(OTelSink(exporter, {"service.name": "search"}), **settings) as logger:
        log(logger)
        assert logger.flush(SECONDS)
        spans = list(exporter.get_finished_spans())
    assert logger.stats().lost == {}
    return spans


def test_a_retrieval_comes_back_from_its_span(tmp_path: Path) -> None:
    spans = emitted(
        lambda logger: logger.log_retrieval(
            "how do I reset my password",
            [("kb-12#3", 0.83), ("kb-40#1", 0.5)],
            session_id="s1",
            user_id="u1",
            trace_id="5b8efff798038103d269b633813fc60c",
            query_id="q1",
            top_k=2,
            experiment_id="e1",
            experiment_bucket="b",
            filters={"tenant": "t1"},
            retrieval_latency_ms=12.5,
            ts=TS,
        ),
        versions=Versions(index_version="v7", corpus_snapshot_id="c1"),
        environment="prod",
        score_type="cosine",
        sample_rate=1,
    )
    (span,) = spans
    assert (span.attributes or {})["openinference.span.kind"] == "RETRIEVER"
    report, rows = ingested(spans, tmp_path)
    assert report.unmapped == {}
    (row,) = rows["retrieval_traces"]
    CONTRACTS["retrieval_traces"].model_validate(row)
    about_the_span = {"span_id", "stage", "latency_ms"}
    assert {key: value for key, value in row.items() if key not in about_the_span} == {
        "trace_id": "5b8efff798038103d269b633813fc60c",
        "session_id": "s1",
        "user_id": "u1",
        "query": "how do I reset my password",
        "query_id": "q1",
        "ts": 1796040000.25,
        "top_k": 2,
        "retrieved": [
            {"chunk_id": "kb-12#3", "score": 0.83, "rank": 1},
            {"chunk_id": "kb-40#1", "score": 0.5, "rank": 2},
        ],
        "experiment_id": "e1",
        "experiment_bucket": "b",
        "filters": {"tenant": "t1"},
        "index_version": "v7",
        "corpus_snapshot_id": "c1",
        "environment": "prod",
        "score_type": "cosine",
        "sample_rate": 1.0,
        "retrieval_latency_ms": 12.5,
    }


def test_candidates_come_back_from_a_reranker_span(tmp_path: Path) -> None:
    spans = emitted(
        lambda logger: logger.log_retrieval(
            "q",
            [("b", 0.9), ("a", 0.4)],
            candidates=[("a", 11.5), ("b", 9.5), ("c", 2.0)],
            session_id="s1",
            retrieval_latency_ms=10,
            rerank_latency_ms=4,
            ts=TS,
        )
    )
    retriever, reranker, whole = spans
    assert retriever.parent == reranker.parent == whole.get_span_context()
    _, rows = ingested(spans, tmp_path)
    (row,) = rows["retrieval_traces"]
    assert [(place["chunk_id"], place["score"]) for place in row["retrieved"]] == [("b", 0.9), ("a", 0.4)]
    assert [(place["chunk_id"], place["score"]) for place in row["candidates"]] == [("a", 11.5), ("b", 9.5), ("c", 2.0)]
    assert (row["retrieval_latency_ms"], row["rerank_latency_ms"]) == (10, 4)


def test_nothing_found_and_faults_come_back(tmp_path: Path) -> None:
    def log(logger: TraceLogger) -> None:
        logger.log_retrieval("nothing", [], trace_id="1" * 32)
        logger.log_retrieval("all filtered", [], candidates=["a"], trace_id="2" * 32)
        logger.log_retrieval("failed", None, candidates=["a"], error="TimeoutError: 5 s", trace_id="3" * 32)

    report, rows = ingested(emitted(log), tmp_path)
    assert report.unmapped == {}
    found = {row["query"]: (row["retrieved"], row.get("error")) for row in rows["retrieval_traces"]}
    assert found == {"nothing": ([], None), "all filtered": ([], None), "failed": (None, "TimeoutError: 5 s")}


def test_ranks_decide_the_order_of_a_span(tmp_path: Path) -> None:
    spans = emitted(lambda logger: logger.log_retrieval("q", [("second", 1, 2), ("first", 2, 1)]))
    _, rows = ingested(spans, tmp_path)
    assert [place["chunk_id"] for place in rows["retrieval_traces"][0]["retrieved"]] == ["first", "second"]


def test_only_what_an_annotation_can_say_comes_back_as_feedback(tmp_path: Path) -> None:
    """Feedback on named chunks would come back as feedback on all of them: it stays in the metadata."""

    def log(logger: TraceLogger) -> None:
        logger.log_retrieval("q", ["a", "b"], trace_id="1" * 32, session_id="s1")
        logger.log_feedback("s1", rating="down", trace_id="1" * 32, feedback_id="f1", rater_id="anna", ts=TS)
        logger.log_feedback("s1", rating=0.75, rating_scale="unit", trace_id="1" * 32, feedback_id="f2")
        logger.log_feedback("s1", rating=True, feedback_id="f3")
        logger.log_feedback("s1", ["a"], "down", trace_id="1" * 32, feedback_id="named chunks")
        logger.log_feedback("s1", rating=1, implicit=True, feedback_id="implicit")
        logger.log_feedback("s1", rating=4, rating_scale="stars", feedback_id="stars")
        logger.log_answer("text", trace_id="1" * 32, session_id="s1", model="m", output_tokens=7)

    spans = emitted(log)
    report, rows = ingested(spans, tmp_path)
    assert report.unmapped == {}
    feedback = {row["feedback_id"]: row for row in rows["feedback"]}
    assert set(feedback) == {"f1", "f2", "f3"}
    assert [feedback["f1"][key] for key in ("rating", "trace_id", "rater_id", "ts")] == [
        "down",
        "1" * 32,
        "anna",
        1796040000.25,
    ]
    assert [feedback["f2"][key] for key in ("rating", "rating_scale")] == [0.75, "unit"]
    assert (feedback["f3"]["rating"], feedback["f3"]["session_id"], feedback["f3"].get("trace_id")) == (1, "s1", None)
    kept = [json.loads(str((span.attributes or {})["metadata"])) for span in spans if span.name == "feedback"]
    assert {row["feedback_id"] for row in kept} == {*feedback, "named chunks", "implicit", "stars"}
    (answer,) = [span for span in spans if span.name == "answer"]
    assert (answer.attributes or {})["llm.token_count.completion"] == 7


def test_other_trace_ids_are_hashed_alike_for_all_rows(tmp_path: Path) -> None:
    def log(logger: TraceLogger) -> None:
        logger.log_retrieval("q", ["a"], trace_id="request-1")
        logger.log_feedback(rating="up", trace_id="request-1")

    _, rows = ingested(emitted(log), tmp_path)
    assert rows["retrieval_traces"][0]["trace_id"] == rows["feedback"][0]["trace_id"]


class Refusing(SpanExporter):
    """Fails twice, then takes spans."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.calls.append(len(spans))
        return SpanExportResult.FAILURE if len(self.calls) < 3 else SpanExportResult.SUCCESS


def test_an_exporter_that_fails_is_tried_again() -> None:
    exporter = Refusing()
    with fast(OTelSink(exporter)) as logger:
        logger.log_retrieval("q", ["a"])
        assert logger.flush(SECONDS)
    assert exporter.calls == [1, 1, 1]
    assert logger.stats().written == 1


# Kafka


@pytest.fixture
def cluster() -> Iterator[str]:
    """Address of a mock cluster, which lives as long as the producer that holds it."""
    holder = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    brokers = holder.list_topics(timeout=SECONDS).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    del holder


def consumed(cluster: str, topics: list[str], n_messages: int) -> list[tuple[str, bytes, dict[str, Any]]]:
    consumer = Consumer({"bootstrap.servers": cluster, "group.id": "test", "auto.offset.reset": "earliest"})
    consumer.subscribe(topics)
    found = []
    give_up_at = time.monotonic() + SECONDS
    while len(found) < n_messages and time.monotonic() < give_up_at:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append((message.topic(), message.key(), json.loads(message.value())))
    consumer.close()
    return found


def test_rows_reach_topics_of_a_mock_cluster(cluster: str) -> None:
    sink = KafkaSink({"bootstrap.servers": cluster}, topics={"feedback": "ratings"}, prefix="rq.")
    with fast(sink) as logger:
        for number in range(20):
            logger.log_retrieval(f"q{number}", ["a"], session_id="s1")
        logger.log_feedback("s1", ["a"], "up")
    stats = logger.stats()
    assert (stats.accepted, stats.written, stats.lost) == (21, 21, {})
    found = consumed(cluster, ["rq.retrieval_traces", "ratings"], 21)
    assert {key for _, key, _ in found} == {b"s1"}
    traces = [values for topic, _, values in found if topic == "rq.retrieval_traces"]
    assert [values["query"] for values in traces] == [f"q{number}" for number in range(20)]
    for topic, _, values in found:
        CONTRACTS["feedback" if topic == "ratings" else "retrieval_traces"].model_validate(values)


def test_a_message_that_the_client_refuses_costs_its_row() -> None:
    """The real client: a broker that is not there, so that every message times out."""
    sink = KafkaSink({"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 100, "log_level": 0})
    with fast(sink) as logger:
        logger.log_retrieval("q", ["a"])
    stats = logger.stats()
    assert (stats.accepted, stats.written, stats.dropped) == (1, 0, {"delivery_failed": 1})


class Double:
    """A producer with room for two messages until it is polled often enough."""

    def __init__(self, polls_until_room: int, error: object = None, n_left: int = 0) -> None:
        self.polls_until_room = polls_until_room
        self.error = error
        self.n_left = n_left
        self.values: list[bytes] = []

    def produce(self, topic: str, value: bytes, key: bytes, *, on_delivery: Callable[[object, object], None]) -> None:  # noqa: ARG002
        if len(self.values) >= 2 and self.polls_until_room > 0:
            raise BufferError("Local: Queue full")
        self.values.append(value)
        on_delivery(self.error, None)

    def poll(self, timeout: float) -> int:  # noqa: ARG002
        self.polls_until_room -= 1
        return 0

    def flush(self, timeout: float) -> int:  # noqa: ARG002
        return self.n_left


def test_a_full_queue_of_the_client_is_waited_for() -> None:
    double = Double(polls_until_room=6)
    with TraceLogger(KafkaSink(lambda: double), flush_seconds=30) as logger:
        for number in range(5):
            logger.log_retrieval(str(number), ["a"])
    assert [json.loads(value)["query"] for value in double.values] == ["0", "1", "2", "3", "4"]
    assert logger.stats().written == 5


def test_deliveries_that_fail_or_never_come_are_counted() -> None:
    for double, n_lost in ((Double(0, error="refused"), 3), (Double(0, n_left=2), 2)):
        with fast(KafkaSink(lambda double=double: double)) as logger:
            for number in range(3):
                logger.log_retrieval(str(number), ["a"])
        stats = logger.stats()
        assert (stats.written, stats.dropped) == (3 - n_lost, {"delivery_failed": n_lost})


def test_a_forked_child_makes_its_own_producer() -> None:
    made: list[Double] = []

    def make() -> Double:
        made.append(Double(0))
        return made[-1]

    sink = KafkaSink(make)
    with fast(sink) as logger:
        logger.log_retrieval("parent", ["a"])
        assert logger.flush(SECONDS)
        sink.after_fork()
        logger.log_retrieval("child", ["a"])
    assert len(made) == 2
