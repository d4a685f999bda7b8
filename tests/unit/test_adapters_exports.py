"""Recorded exports of real libraries, and the shapes in which tracers hand out what they have.

`tests/fixtures/record_exports.py` recorded them; `exports/versions.json` says with which versions.
"""

from __future__ import annotations

import getpass
import gzip
import json
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from test_adapters import DAY, TRACE, documents, ids, run, save, span, written

from retrieval_quality.adapters import ingest
from retrieval_quality.adapters.documents import read_query
from retrieval_quality.adapters.rows import content_id

EXPORTS = Path(__file__).parents[1] / "fixtures" / "exports"
RECORDED = sorted(path.name for path in EXPORTS.iterdir())

# question -> session, chunks of the two best with the share of the question's words in them
ASKED: dict[str, tuple[str, list[tuple[str, float]]]] = {
    "How often do I water a cactus?": ("visit-1", [("cactus-1", 0.4286), ("cactus-2", 0.2857)]),
    "Which plant wants shade?": ("visit-1", [("fern-1", 0.5), ("basil-1", 0.25)]),
    "When do I repot a cactus?": ("visit-2", [("cactus-2", 0.5), ("cactus-1", 0.3333)]),
}
BEST = {
    question: (
        session,
        [{"chunk_id": chunk_id, "score": score, "rank": n} for n, (chunk_id, score) in enumerate(two, 1)],
    )
    for question, (session, two) in ASKED.items()
}

Row = dict[str, Any]


def retrieved(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, object]]:
    return {row["query"]: (row["session_id"], row["retrieved"]) for row in rows}


# recorded exports


@pytest.mark.parametrize("recorded", RECORDED)
def test_a_recorded_export_names_no_machine(recorded: str) -> None:
    text = (EXPORTS / recorded).read_text(encoding="utf-8")
    private = {socket.gethostname(), getpass.getuser()} - {"localhost", "visitor"}
    assert not re.search(r"/(?:home|root|Users|tmp|work|private|var|usr|opt)/|[A-Z]:\\\\|site-packages|\.py\b", text)
    assert not [name for name in private if re.search(rf'"{re.escape(name)}\\*"', text)]


@pytest.mark.parametrize(
    ("name", "recorded"),
    [
        ("openinference", "llamaindex.spans.jsonl"),
        ("openinference", "llamaindex.otlp.jsonl"),
        ("mlflow", "mlflow.traces.jsonl"),
        ("mlflow", "mlflow.frame.jsonl"),
        ("langfuse", "langfuse.otlp.jsonl"),
    ],
)
def test_a_recorded_export_becomes_the_lists_of_its_retriever(tmp_path: Path, name: str, recorded: str) -> None:
    report = ingest(name, [EXPORTS / recorded], tmp_path)

    rows = written(tmp_path)
    assert retrieved(rows) == BEST
    assert len(rows) == 3
    assert not report.unmapped


def test_llamaindex_reports_each_call_twice(tmp_path: Path) -> None:
    report = ingest("openinference", [EXPORTS / "llamaindex.spans.jsonl"], tmp_path)
    assert report.skipped == {"nested in another retrieval of the same call": 3}


def test_both_encodings_of_llamaindex_give_the_same_file(tmp_path: Path) -> None:
    ingest("openinference", [EXPORTS / "llamaindex.spans.jsonl"], tmp_path / "sdk")
    ingest("openinference", [EXPORTS / "llamaindex.otlp.jsonl"], tmp_path / "otlp")
    assert written(tmp_path / "sdk") == written(tmp_path / "otlp")


def test_haystack_has_its_first_stage_as_candidates(tmp_path: Path) -> None:
    """MetaFieldRanker orders by the length of the content: fern-1 (56), cactus-1 (55), basil-1 (39), cactus-2 (38)."""
    report = ingest("openinference", [EXPORTS / "haystack.spans.jsonl"], tmp_path)

    rows = {row["query"]: row for row in written(tmp_path)}
    assert rows.keys() == ASKED.keys()
    longest_first = ["fern-1", "cactus-1", "basil-1", "cactus-2"]
    for row in rows.values():
        candidates = ids(row, "candidates")
        assert len(candidates) == 3
        assert ids(row) == sorted(candidates, key=longest_first.index)[:2]
        assert all(item["score"] is not None for item in row["candidates"])  # type: ignore[attr-defined]
        assert row["retrieval_latency_ms"] is not None
        assert row["rerank_latency_ms"] is not None
    assert report.skipped == {"no retrieval: CHAIN": 3, "reranker: joined to its retrieval": 3}


@pytest.mark.parametrize("recorded", ["llamaindex.spans.jsonl", "llamaindex.otlp.jsonl", "haystack.spans.jsonl"])
def test_what_the_process_says_is_in_every_row(tmp_path: Path, recorded: str) -> None:
    ingest("openinference", [EXPORTS / recorded], tmp_path)
    assert {(row["environment"], row["index_version"]) for row in written(tmp_path)} == {("staging", "v7")}


@pytest.mark.parametrize("recorded", ["mlflow.traces.jsonl", "mlflow.frame.jsonl"])
def test_assessments_recorded_by_mlflow(tmp_path: Path, recorded: str) -> None:
    report = ingest("mlflow", [EXPORTS / recorded], tmp_path)

    traces = {row["query"]: row["trace_id"] for row in written(tmp_path)}
    rated = {row["trace_id"]: (row["rating"], row["rater_id"], row["name"]) for row in written(tmp_path, "feedback")}
    assert rated == {
        traces["How often do I water a cactus?"]: (1, "visitor", "thumb"),
        traces["Which plant wants shade?"]: (0, "visitor", "thumb"),
    }
    assert report.skipped["no feedback: an expectation"] == 1


def test_langfuse_spans_have_user_and_top_k(tmp_path: Path) -> None:
    report = ingest("langfuse", [EXPORTS / "langfuse.otlp.jsonl"], tmp_path)
    assert {(row["user_id"], row["top_k"], row["environment"]) for row in written(tmp_path)} == {
        ("visitor", 2, "staging")
    }
    assert report.skipped == {"no retrieval: CHAIN": 3}


# Phoenix

PHOENIX_SPAN: Row = {
    "id": "U3BhbjoyNw==",
    "name": "retrieve",
    "context": {"trace_id": TRACE, "span_id": "00000000000000a1"},
    "span_kind": "RETRIEVER",
    "parent_id": None,
    "start_time": "2026-11-30T12:00:00+00:00",
    "end_time": "2026-11-30T12:00:00.250000+00:00",
    "status_code": "OK",
    "status_message": "",
    # the REST API flattens the attributes, metadata too
    "attributes": {
        "input.value": "q",
        "session.id": "s1",
        "metadata.index_version": "v7",
        "retrieval.documents.0.document.content": "first",
        "retrieval.documents.0.document.metadata.chunk_id": "a",
        "retrieval.documents.0.document.metadata.relevance_score": 0.5,
        "retrieval.documents.1.document.content": "second",
    },
    "events": [],
}
PHOENIX_ROW: Row = {
    "query": "q",
    "session_id": "s1",
    "index_version": "v7",
    "retrieved": [
        {"chunk_id": "a", "score": 0.5, "rank": 1},
        {"chunk_id": content_id("second"), "score": None, "rank": 2},
    ],
    "trace_id": TRACE,
    "ts": 1_796_040_000.0,
    "retrieval_latency_ms": 250.0,
}
# `get_spans_dataframe().to_json(orient="records", lines=True, date_format="iso")`: custom and empty columns are null
PHOENIX_FRAME: Row = {
    **{key: PHOENIX_SPAN[key] for key in ("name", "span_kind", "parent_id", "status_code", "status_message")},
    "context.trace_id": TRACE,
    "context.span_id": "00000000000000a1",
    "start_time": "2026-11-30T12:00:00.000Z",
    "end_time": "2026-11-30T12:00:00.250Z",
    "attributes.input.value": "q",
    "attributes.session.id": "s1",
    "attributes.metadata": {"index_version": "v7"},
    "attributes.retrieval.documents": [
        {"document.content": "first", "document.metadata": {"chunk_id": "a", "relevance_score": 0.5}},
        {"document.content": "second", "document.metadata": None},
    ],
    "attributes.reranker.output_documents": None,
    "attributes.llm.token_count.total": None,
    "events": [],
}
# `/v1/projects/{name}/spans/otlpv1`: names of the protocol buffers, hex ids, every field of a value
PHOENIX_OTLP: Row = {
    "trace_id": TRACE,
    "span_id": "00000000000000a1",
    "parent_span_id": None,
    "name": "retrieve",
    "start_time_unix_nano": 1_796_040_000_000_000_000,
    "end_time_unix_nano": 1_796_040_000_250_000_000,
    "status": {"code": 1, "message": None},
    "attributes": [
        {
            "key": key,
            "value": {"array_value": None, "int_value": None, "double_value": None, "string_value": None} | value,
        }
        for key, value in {
            "openinference.span.kind": {"string_value": "RETRIEVER"},
            "input.value": {"string_value": "q"},
            "session.id": {"string_value": "s1"},
            "metadata.index_version": {"string_value": "v7"},
            "retrieval.documents.0.document.content": {"string_value": "first"},
            "retrieval.documents.0.document.metadata.chunk_id": {"string_value": "a"},
            "retrieval.documents.0.document.metadata.relevance_score": {"double_value": 0.5},
            "retrieval.documents.1.document.content": {"string_value": "second"},
            "tag.tags": {"array_value": {"values": [{"string_value": "t"}]}},
        }.items()
    ],
}
PHOENIX_EXPORTS: dict[str, object] = {
    "rest": {"data": [PHOENIX_SPAN], "next_cursor": None},
    "rest otlp": {"data": [PHOENIX_OTLP], "next_cursor": None},
    "dataframe": PHOENIX_FRAME,
    "dataframe with epoch": {**PHOENIX_FRAME, "start_time": 1_796_040_000_000, "end_time": 1_796_040_000_250},
    "px trace get": {"traceId": TRACE, "spans": [PHOENIX_SPAN], "startTime": "2026-11-30T12:00:00Z"},
    "px trace list": [{"traceId": TRACE, "spans": [PHOENIX_SPAN]}],
    "otlp with names of protocol buffers": {"resource_spans": [{"scope_spans": [{"spans": [PHOENIX_OTLP]}]}]},
}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("shape", PHOENIX_EXPORTS)
def test_every_shape_of_phoenix_is_the_same_row(tmp_path: Path, shape: str, indent: int | None) -> None:
    export = tmp_path / "export.json"
    export.write_text(json.dumps(PHOENIX_EXPORTS[shape], indent=indent))

    report = ingest("openinference", [export], tmp_path / "landing")

    (row,) = written(tmp_path / "landing")
    assert {key: row.get(key) for key in PHOENIX_ROW} == PHOENIX_ROW
    assert not report.unmapped


ANNOTATION: Row = {
    "id": "U3BhbkFubm90YXRpb246MQ==",
    "created_at": "2026-11-30T13:00:00+00:00",
    "updated_at": "2026-11-30T13:00:00+00:00",
    "source": "APP",
    "user_id": None,
    "name": "thumb",
    "annotator_kind": "HUMAN",
    "result": {"label": "thumbs-up", "score": 1.0, "explanation": None},
    "metadata": {},
    "identifier": "",
    "span_id": "00000000000000a1",
}
# a row of `get_span_annotations_dataframe().reset_index()`
ANNOTATION_OF_FRAME: Row = {
    **{key: ANNOTATION[key] for key in ("id", "created_at", "annotator_kind", "span_id", "metadata")},
    "annotation_name": "thumb",
    "result.label": "thumbs-up",
    "result.score": 1.0,
    "result.explanation": None,
}


@pytest.mark.parametrize(
    "annotations", [{"data": [ANNOTATION], "next_cursor": None}, ANNOTATION_OF_FRAME], ids=["rest", "dataframe"]
)
@pytest.mark.parametrize("is_first", [True, False], ids=["before the spans", "after the spans"])
def test_annotations_of_phoenix_are_records_of_their_own(
    tmp_path: Path, annotations: Mapping[str, object], is_first: bool
) -> None:
    files = [save(tmp_path / "a.jsonl", annotations), save(tmp_path / "s.jsonl", PHOENIX_SPAN)]

    report = ingest("openinference", files if is_first else files[::-1], tmp_path / "landing")

    (row,) = written(tmp_path / "landing", "feedback")
    assert (row["feedback_id"], row["trace_id"], row["session_id"]) == (ANNOTATION["id"], TRACE, "s1")
    assert (row["rating"], row["ts"], row["name"]) == ("thumbs-up", 1_796_043_600.0, "thumb")
    assert "chunk_ids" not in row
    assert report.rows == {"retrieval_traces": 1, "feedback": 1}


def test_an_annotation_of_a_document_speaks_of_its_chunk(tmp_path: Path) -> None:
    at = [{**ANNOTATION, "id": f"d{place}", "name": "relevance", "document_position": place} for place in (0, 1, 2)]
    _, report = run(tmp_path, "openinference", PHOENIX_SPAN, *at)

    rated = written(tmp_path / "landing", "feedback")
    assert [row["chunk_ids"] for row in rated] == [["a"], [content_id("second")]]
    assert report.unmapped == {"annotation of a document that the span does not have": 1}


def test_an_annotation_without_its_span_is_reported(tmp_path: Path) -> None:
    _, report = run(tmp_path, "openinference", {**ANNOTATION, "span_id": "00000000000000ff"}, PHOENIX_SPAN)
    assert report.rows == {"retrieval_traces": 1}
    assert report.unmapped == {"annotation of a span that is not in the export": 1}


def test_feedback_on_a_span_is_of_the_retrieval_that_it_is_in(tmp_path: Path) -> None:
    """Two calls: the trace's id is that of the first, feedback on the second is not the first's."""
    thumb = {"annotations.0.annotation.name": "thumb", "annotations.0.annotation.label": "up"}
    rows, _ = run(
        tmp_path,
        "openinference",
        span(1, "CHAIN", **thumb),
        span(2, "RETRIEVER", parent=1, input__value="first", **documents("a"), **thumb),
        span(3, "RETRIEVER", parent=1, input__value="second", **documents("b")),
        span(4, "RETRIEVER", parent=3, **documents("b"), **thumb),
    )
    assert [row["trace_id"] for row in rows] == [TRACE, second := f"{TRACE}:{3:016x}"]
    rated = written(tmp_path / "landing", "feedback")
    assert sorted(row["trace_id"] for row in rated) == [TRACE, TRACE, second]  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("attributes", "query"),
    [
        ({"input.value": '"exact words"'}, '"exact words"'),
        ({"input.value": '"exact words"', "input.mime_type": "application/json"}, "exact words"),
        ({"input.value": '{"query": "q"}'}, "q"),
        ({"input.value": '{"query": "q"}', "input.mime_type": "text/plain"}, '{"query": "q"}'),
        ({"input.value": "[1] what?"}, "[1] what?"),
    ],
)
def test_a_question_in_quotes_keeps_them(tmp_path: Path, attributes: Mapping[str, object], query: str) -> None:
    rows, _ = run(tmp_path, "openinference", span(1, "RETRIEVER", **attributes, **documents("a")))
    assert rows[0]["query"] == query


# the process


def request(*spans: object, **resource: object) -> Row:
    attributes = [{"key": key.replace("__", "."), "value": {"stringValue": value}} for key, value in resource.items()]
    return {"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": [{"scope": {}, "spans": spans}]}]}


@pytest.mark.parametrize("indent", [None, 2], ids=["line", "document"])
def test_the_resource_speaks_where_the_span_does_not(tmp_path: Path, indent: int | None) -> None:
    """Session of the process only where no span names one; names of the contract from both, the span's first."""
    silent = span(1, "RETRIEVER", input__value="q1", **documents("a"))
    silent["attributes"].pop("session.id")  # type: ignore[attr-defined]
    spoken = span(2, "RETRIEVER", input__value="q2", metadata='{"index_version": "v8"}', **documents("b"))
    spoken["context"] = {"trace_id": "f" * 32, "span_id": "2" * 16}
    export = tmp_path / "export.json"
    body = request(
        silent, spoken, session__id="process", user__id="u", deployment__environment="prod", index_version="v7"
    )
    export.write_text(json.dumps(body, indent=indent))

    ingest("openinference", [export], tmp_path / "landing")

    rows = {row["query"]: row for row in written(tmp_path / "landing")}
    assert {q: (row["session_id"], row["environment"], row["index_version"]) for q, row in rows.items()} == {
        "q1": ("process", "prod", "v7"),
        "q2": ("s1", "prod", "v8"),
    }


def test_the_collector_rotates_its_files(tmp_path: Path) -> None:
    """One call whose two spans lie in two files is one row, whichever file comes first."""
    outer = request(span(1, "RETRIEVER", input__value="q", **documents("a")))
    inner = request(span(2, "RETRIEVER", parent=1, input__value="{}", **documents("a")))
    (tmp_path / "in").mkdir()
    save(tmp_path / "in" / "traces-1.json", inner)
    save(tmp_path / "in" / "traces-2.json", outer)

    report = ingest("openinference", [tmp_path / "in"], tmp_path / "landing")

    (row,) = written(tmp_path / "landing")
    assert (row["query"], row["trace_id"]) == ("q", TRACE)
    assert (report.n_files, report.skipped) == (2, {"nested in another retrieval of the same call": 1})


# Langfuse

OBSERVATION: Row = {
    "id": "o1",
    "traceId": "t1",
    "type": "RETRIEVER",
    "startTime": "2026-11-30T12:00:00.000Z",
    "endTime": "2026-11-30T12:00:00.040Z",
    "input": {"query": "q"},
    "output": [{"id": "a", "score": 0.5}],
}
SNAKE: Row = {
    "id": "o1",
    "trace_id": "t1",
    "type": "RETRIEVER",
    "start_time": "2026-11-30 12:00:00.000000",
    "end_time": "2026-11-30 12:00:00.040000",
    "input": '{"query": "q"}',
    "output": '[{"id": "a", "score": 0.5}]',
    "environment": "default",
    "level": "DEFAULT",
}
LANGFUSE_TRACE: Row = {"id": "t1", "timestamp": "2026-11-30T12:00:00.000Z", "sessionId": "s1", "userId": "u1"}
LANGFUSE_EXPORTS: dict[str, list[object]] = {
    "api trace": [{**LANGFUSE_TRACE, "observations": [OBSERVATION], "scores": []}],
    "api lists": [{"data": [OBSERVATION], "meta": {"page": 1}}, {"data": [LANGFUSE_TRACE], "meta": {"page": 1}}],
    "api version 2": [
        {
            "data": [
                {
                    **OBSERVATION,
                    **{key: json.dumps(OBSERVATION[key]) for key in ("input", "output")},
                    "sessionId": "s1",
                    "userId": "u1",
                }
            ],
            "meta": {"cursor": None},
        }
    ],
    "download of a trace": [{"observations": [{**OBSERVATION, "sessionId": "s1", "userId": "u1"}], "scores": []}],
    "tables": [OBSERVATION, {**LANGFUSE_TRACE, "scores": {}, "observationCount": 1}],
    "blob storage, enriched": [{**SNAKE, "session_id": "s1", "user_id": "u1", "trace_name": "answer"}],
    "blob storage, legacy": [
        SNAKE,
        {"id": "t1", "timestamp": "2026-11-30 12:00:00.000000", "session_id": "s1", "user_id": "u1", "release": None},
    ],
}


@pytest.mark.parametrize("shape", LANGFUSE_EXPORTS)
def test_every_shape_of_langfuse_is_the_same_row(tmp_path: Path, shape: str) -> None:
    rows, report = run(tmp_path, "langfuse", *LANGFUSE_EXPORTS[shape])
    (row,) = rows
    assert (row["trace_id"], row["session_id"], row["user_id"], row["query"]) == ("t1", "s1", "u1", "q")
    assert (ids(row), row["ts"], row["retrieval_latency_ms"]) == (["a"], 1_796_040_000.0, 40.0)
    assert not report.unmapped


SCORE: Row = {"id": "c1", "name": "thumb", "source": "API", "timestamp": "2026-11-30T13:00:00.000Z"}
LANGFUSE_SCORES: dict[str, Row] = {
    "version 1": {**SCORE, "traceId": "t1", "dataType": "BOOLEAN", "value": 1, "stringValue": "True"},
    "version 2": {
        **SCORE,
        "traceId": "t1",
        "dataType": "NUMERIC",
        "value": 1,
        "trace": {"sessionId": "s1", "tags": []},
    },
    "version 3": {**SCORE, "dataType": "BOOLEAN", "value": True, "subject": {"kind": "trace", "id": "t1"}},
    "version 3, observation": {
        **SCORE,
        "dataType": "BOOLEAN",
        "value": True,
        "subject": {"kind": "observation", "id": "o1", "traceId": "t1"},
    },
    "blob storage": {**SCORE, "trace_id": "t1", "data_type": "NUMERIC", "value": 1.0, "string_value": None},
}


@pytest.mark.parametrize("shape", LANGFUSE_SCORES)
def test_every_shape_of_a_langfuse_score_is_the_same_feedback(tmp_path: Path, shape: str) -> None:
    _, report = run(tmp_path, "langfuse", *LANGFUSE_EXPORTS["api lists"], LANGFUSE_SCORES[shape])
    (row,) = written(tmp_path / "landing", "feedback")
    assert (row["feedback_id"], row["trace_id"], row["session_id"], row["rating"]) == ("c1", "t1", "s1", 1)
    assert not report.unmapped


def test_a_langfuse_score_of_a_second_retrieval_is_of_that(tmp_path: Path) -> None:
    second = {**OBSERVATION, "id": "o2", "startTime": "2026-11-30T12:00:01Z", "input": "q2"}
    run(tmp_path, "langfuse", OBSERVATION, second, {**LANGFUSE_SCORES["version 1"], "observationId": "o2"})
    (row,) = written(tmp_path / "landing", "feedback")
    assert row["trace_id"] == "t1:o2"


def test_what_langfuse_exports_only_in_part_is_said(tmp_path: Path) -> None:
    _, report = run(
        tmp_path,
        "langfuse",
        {**LANGFUSE_TRACE, "observations": ["o1"], "scores": ["c1"]},
        {**OBSERVATION, "scores": {"thumb": [1]}},
        {"observations": [], "scores": []},
        {**SCORE, "dataType": "NUMERIC", "value": 1, "subject": {"kind": "experiment", "id": "e1"}},
    )
    assert report.rows == {"retrieval_traces": 1}
    assert report.skipped == {
        "only ids of its observations: export the observations too": 1,
        "only ids of its scores: export the scores too": 1,
        "scores without a time: export the scores too": 1,
    }
    assert report.unmapped == {"trace without id": 1, "score without trace id": 1}


# files


@pytest.mark.parametrize("name", ["openinference", "trec-qrels"])
def test_compressed_exports_are_read(tmp_path: Path, name: str) -> None:
    plain = b"q1 0 d4 2\n" if name == "trec-qrels" else (json.dumps(PHOENIX_SPAN) + "\n").encode()
    for suffix, packed in (
        ("gz", gzip.compress(plain)),
        ("zst", pa.compress(plain, "zstd", asbytes=True)),
        # two frames, as `cat a.zst b.zst` makes them
        ("2.zst", pa.compress(plain, "zstd", asbytes=True) + pa.compress(b"\n", "zstd", asbytes=True)),
    ):
        export = tmp_path / f"export.{suffix}"
        export.write_bytes(packed)
        report = ingest(name, [export], tmp_path / suffix)
        assert sum(report.rows.values()) == 1
        assert not report.unmapped


@pytest.mark.parametrize("name", ["openinference", "trec-qrels"])
@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_a_damaged_file_gives_what_can_be_read_and_is_reported(tmp_path: Path, name: str, kind: str) -> None:
    lines = [
        "q1 0 d4 2" if name == "trec-qrels" else json.dumps(span(n % 60, "CHAIN", text=f"{n * n:x}"))
        for n in range(3000)
    ]
    plain = "\n".join(lines).encode()
    packed = gzip.compress(plain) if kind == "gzip" else pa.compress(plain, "zstd", asbytes=True)
    export = tmp_path / "export"
    export.write_bytes(packed[:-9])

    report = ingest(name, [export], tmp_path / "landing")

    (reason,) = [reason for reason in report.unmapped if reason.startswith(f"damaged {kind} file: ")]
    assert report.unmapped[reason] == 1


def test_a_row_lies_below_its_day(tmp_path: Path) -> None:
    run(tmp_path, "openinference", PHOENIX_SPAN)
    assert [path.name for path in (tmp_path / "landing" / "retrieval_traces").iterdir()] == [f"dt={DAY}"]


def test_a_question_is_found_in_what_frameworks_ask_with() -> None:
    assert read_query('{"query_bundle": {"query_str": "q", "image_path": null}}') == "q"
    assert read_query({"data": {"retriever": {"query": "q"}}}) == "q"
