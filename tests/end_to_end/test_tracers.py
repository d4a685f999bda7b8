"""A real LangChain retriever, traced by the real OpenInference package: from its export to the marts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from end_to_end.first_run import Places

pytest.importorskip("langchain_core", reason="needs langchain-core (extra dev)")
pytest.importorskip("openinference.instrumentation.langchain", reason="needs OpenInference (extra dev)")
pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk (extras dev, otel)")

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from openinference.instrumentation import using_metadata, using_session
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor, SpanExporter
from opentelemetry.trace import Tracer

pytestmark = pytest.mark.xdist_group("tracers")

CONTENTS = {
    "fern-1": "A fern wants shade and damp soil.",
    "cactus-1": "A cactus wants sun and dry soil.",
    "cactus-2": "Repot a cactus in spring.",
    "basil-1": "Basil wants sun. Pinch off the flowers.",
}
RESOURCE = {"service.name": "plant-shop", "deployment.environment.name": "staging"}

# question -> what the retriever finds, best first; words in common with the content, then the id
FOUND = {
    "Which plant wants shade?": ["fern-1", "basil-1"],
    "When do I repot a cactus?": ["cactus-2", "cactus-1"],
    "Does basil want sun?": ["basil-1", "cactus-1"],
    "Is dry soil good?": ["cactus-1", "fern-1"],
    "Who wrote this?": [],
}
# chunks that people called helpful
HELPFUL = {
    "Which plant wants shade?": ["fern-1"],
    "When do I repot a cactus?": ["cactus-2"],
    "Does basil want sun?": ["cactus-1"],
}


class WordRetriever(BaseRetriever):
    """The two contents with most words of the question."""

    def _get_relevant_documents(self, query: str) -> list[Document]:
        asked = words(query)
        scored = [(len(asked & words(content)), chunk_id) for chunk_id, content in CONTENTS.items()]
        best = sorted(((score, chunk_id) for score, chunk_id in scored if score), key=lambda pair: (-pair[0], pair[1]))
        return [
            Document(id=chunk_id, page_content=CONTENTS[chunk_id], metadata={"score": score})
            for score, chunk_id in best[:2]
        ]


@dataclass(frozen=True)
class Night:
    places: Places
    ingested: CompletedProcess[str]
    nightly: CompletedProcess[str]


@contextmanager
def traced_into(exporter: SpanExporter) -> Iterator[Tracer]:
    provider = TracerProvider(resource=Resource(RESOURCE))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor = LangChainInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    try:
        yield provider.get_tracer("plant-shop")
    finally:
        instrumentor.uninstrument()
        provider.shutdown()


def ask_everything(tracer: Tracer) -> None:
    """Five questions in three sessions: one inside a chain, one rated by an annotation on its span."""
    retriever = WordRetriever()
    shade, repot, basil, soil, nothing = FOUND
    with using_session("visit-1"), using_metadata({"index_version": "v7"}):
        with tracer.start_as_current_span("answer", attributes={"openinference.span.kind": "CHAIN"}) as span:
            retriever.invoke(shade)
            span.set_attribute("annotations.0.annotation.name", "thumb")
            span.set_attribute("annotations.0.annotation.label", "thumbs_up")
            span.set_attribute("annotations.0.annotation.annotator_kind", "HUMAN")
        chain = RunnableLambda(lambda asked: asked["question"]) | retriever | RunnableLambda(len)
        assert chain.invoke({"question": repot}) == 2
    with using_session("visit-2"):
        retriever.invoke(basil)
        retriever.invoke(soil)
    with using_session("visit-3"):
        retriever.invoke(nothing)


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Night:
    """Traced, exported, ingested, built and published once."""
    places = Places(tmp_path_factory.mktemp("tracers"))
    export = places.root / "spans.jsonl"
    with (
        export.open("w", encoding="utf-8") as file,
        traced_into(ConsoleSpanExporter(out=file, formatter=lambda span: span.to_json(indent=None) + "\n")) as tracer,
    ):
        ask_everything(tracer)
    ingested = places.run("ingest", "--from", "openinference", str(export))
    land_feedback(places)
    as_of = (datetime.now(UTC) + timedelta(days=1)).date().isoformat()
    return Night(places, ingested, places.run("nightly", "--vars", f'{{as_of: "{as_of}T00:00:00Z"}}'))


def land_feedback(places: Places) -> None:
    """What the application itself recorded: the chunks that were helpful, for all but the first question."""
    rated = [
        {
            "trace_id": row["trace_id"],
            "ts": row["ts"],
            "rating": "up",
            "chunk_ids": HELPFUL[row["query"]],
        }
        for row in landed(places.landing)
        if row["query"] in list(HELPFUL)[1:]
    ]
    file = places.landing / "feedback" / "application.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rated))


def landed(landing: Path) -> list[dict[str, object]]:
    files = sorted((landing / "retrieval_traces").rglob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def words(text: str) -> set[str]:
    return {word.strip("?.,") for word in text.lower().split()} - {"a", "i", "do", "is", "does"}


def test_the_command_says_what_it_found(night: Night) -> None:
    assert (night.ingested.returncode, night.ingested.stderr) == (0, "")
    assert "openinference: 1 feedback, 5 retrieval_traces from 1 file" in night.ingested.stdout
    assert "not mapped" not in night.ingested.stdout


def test_the_night_is_published(night: Night) -> None:
    assert (night.nightly.returncode, night.nightly.stderr) == (0, "")
    assert "Published " in night.nightly.stdout


def test_every_question_is_a_retrieval(night: Night) -> None:
    rows = night.places.query("select query, session_id, index_version, environment from fct_retrievals order by all")
    shade, repot, basil, soil, nothing = FOUND
    assert set(rows) == {
        (shade, "visit-1", "v7", "staging"),
        (repot, "visit-1", "v7", "staging"),
        (basil, "visit-2", None, "staging"),
        (soil, "visit-2", None, "staging"),
        (nothing, "visit-3", None, "staging"),
    }
    assert len(rows) == len(FOUND)


def test_the_lists_are_those_of_the_retriever(night: Night) -> None:
    found = {
        str(row["query"]): [item["chunk_id"] for item in row["retrieved"]]  # type: ignore[attr-defined]
        for row in landed(night.places.landing)
    }
    assert found == FOUND


def test_the_mart_scores_what_was_rated(night: Night) -> None:
    """Helpful chunks at rank 1 and 1 in one session and 2 in another: the mean of the sessions is
    (1 + 1/2) / 2. The thumb on the first question speaks of its whole list, so that its first chunk
    counts.
    """
    rows = night.places.query(
        """
        select n_scored, estimate
        from mart_retrieval_quality
        where window_name = 'day' and traffic = 'production' and label_class = 'explicit' and stage = 'final'
            and segment_dimension = 'total' and metric = 'reciprocal_rank' and k = 10
            and n_scored > 0
        """
    )
    assert rows == [(3, pytest.approx((1 + 1 / 2) / 2))]


def test_otlp_json_gives_the_same_rows(tmp_path: Path, night: Night) -> None:
    """The same spans, as OTLP requests on lines: what the OpenTelemetry Collector writes."""
    encoder = pytest.importorskip(
        "opentelemetry.exporter.otlp.proto.common.trace_encoder",
        reason="needs opentelemetry-exporter-otlp-proto-common",
    )
    from google.protobuf.json_format import MessageToJson
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    memory = InMemorySpanExporter()
    with traced_into(memory) as tracer:
        ask_everything(tracer)
    requests = [MessageToJson(encoder.encode_spans([span]), indent=None) for span in memory.get_finished_spans()]
    export = tmp_path / "otlp.jsonl"
    export.write_text("".join(f"{request}\n" for request in requests))
    places = Places(tmp_path)
    ingested = places.run("ingest", "--from", "openinference", str(export))
    assert ingested.returncode == 0, ingested.stderr
    kept = ("query", "session_id", "retrieved", "environment", "index_version")
    assert [[row.get(key) for key in kept] for row in landed(places.landing)] == [
        [row.get(key) for key in kept] for row in landed(night.places.landing)
    ]
