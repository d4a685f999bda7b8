"""Exports of other tools become landing rows, or are reported with the reason."""

import base64
import gzip
import json
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import SHARED, needs_shared

from retrieval_quality.adapters import (
    ADAPTERS,
    IngestError,
    IngestReport,
    LandingRow,
    Skipped,
    Unmapped,
    describe,
    ingest,
)
from retrieval_quality.adapters.attributes import otel_id
from retrieval_quality.adapters.reading import Record, read_records
from retrieval_quality.adapters.rows import content_id, part_id, time_us
from retrieval_quality.adapters.spans import SPAN_TREE
from retrieval_quality.landing_check import check_landing

TRACES = SHARED / "data" / "traces"
TRACE = "5b8efff798038103d269b633813fc60c"
START_NS = 1_796_000_000_000_000_000
DAY = "2026-11-30"

# what a sample says beyond its expected rows, under names of the contract
MORE_KEYS = {"retrieval_latency_ms", "user_id", "index_version"}
MORE_FEEDBACK_KEYS = {"feedback_id", "rater_id", "name"}


def written(landing: Path, contract: str = "retrieval_traces") -> list[dict[str, object]]:
    files = sorted((landing / contract).rglob("*.jsonl"))
    # not `splitlines`, which ends lines at U+0085 too
    return [json.loads(line) for file in files for line in file.read_bytes().split(b"\n") if line]


def save(path: Path, *records: object) -> Path:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def ids(row: Mapping[str, object], key: str = "retrieved") -> list[str]:
    listed = row[key]
    assert isinstance(listed, list)
    return [item["chunk_id"] for item in listed]


def span(number: int, kind: str, parent: int | None = None, **attributes: object) -> dict[str, object]:
    """A span as the OpenTelemetry SDK writes it; `__` in an attribute's name is a dot."""
    return {
        "name": f"span {number}",
        "context": {"trace_id": f"0x{TRACE}", "span_id": f"0x{number:016x}"},
        "parent_id": None if parent is None else f"0x{parent:016x}",
        "start_time": f"2026-11-30T12:00:{number:02d}Z",
        "end_time": f"2026-11-30T12:00:{number:02d}.5Z",
        "status": {"status_code": "OK"},
        "attributes": {
            "openinference.span.kind": kind,
            "session.id": "s1",
            **{key.replace("__", "."): value for key, value in attributes.items()},
        },
    }


def documents(*chunk_ids: str, prefix: str = "retrieval.documents", scores: bool = True) -> dict[str, object]:
    flat: dict[str, object] = {}
    for position, chunk_id in enumerate(chunk_ids):
        flat[f"{prefix}.{position}.document.id"] = chunk_id
        if scores:
            flat[f"{prefix}.{position}.document.score"] = 1.0 - position / 10
    return flat


def run(tmp_path: Path, name: str, *records: object) -> tuple[list[dict[str, object]], IngestReport]:
    report = ingest(name, [save(tmp_path / "export.jsonl", *records)], tmp_path / "landing")
    return written(tmp_path / "landing"), report


# samples


@needs_shared
@pytest.mark.parametrize(
    ("name", "sample", "expected"),
    [
        *(
            ("openinference", f"openinference_{framework}.{encoding}", f"openinference_{framework}")
            for framework in ("langchain", "llamaindex", "haystack")
            for encoding in ("spans.jsonl", "otlp.json")
        ),
        ("mlflow", "mlflow.traces.jsonl", "mlflow"),
        ("bedrock", "bedrock_retrieve.jsonl", "bedrock_retrieve"),
    ],
)
def test_a_sample_becomes_its_expected_rows(tmp_path: Path, name: str, sample: str, expected: str) -> None:
    report = ingest(name, [TRACES / sample], tmp_path)
    rows = written(tmp_path)
    wanted = [json.loads(line) for line in (TRACES / "expected" / f"{expected}.jsonl").read_text().splitlines()]
    assert [{key: row.get(key) for key in want} for row, want in zip(rows, wanted, strict=True)] == wanted
    for row, want in zip(rows, wanted, strict=True):
        assert row.keys() - want.keys() <= MORE_KEYS
    assert report.rows["retrieval_traces"] == len(wanted)
    assert not report.unmapped
    check_landing(tmp_path)


@needs_shared
def test_assessments_of_mlflow_become_their_expected_feedback(tmp_path: Path) -> None:
    ingest("mlflow", [TRACES / "mlflow.traces.jsonl"], tmp_path)
    (row,) = written(tmp_path, "feedback")
    (want,) = [json.loads(line) for line in (TRACES / "expected" / "mlflow.feedback.jsonl").read_text().splitlines()]
    assert {key: row.get(key) for key in want} == want
    assert row.keys() - want.keys() == MORE_FEEDBACK_KEYS
    assert row["rater_id"] == "u1"


@needs_shared
def test_samples_without_expected_rows(tmp_path: Path) -> None:
    ingest("otel-genai", [TRACES / "otel_genai_retrieval.constructed.json"], tmp_path)
    (row,) = written(tmp_path)
    assert ids(row) == ["doc_123", "doc_456", "doc_789"]
    assert (row["session_id"], row["ts"], row["latency_ms"]) == ("sess-0", 1_796_000_000.0, 45.0)
    report = ingest("langfuse", [TRACES / "langfuse_llamaindex.trace.json"], tmp_path)
    assert not report.rows
    assert report.skipped == {
        "no retrieval: SPAN": 1,
        "no retrieval: GENERATION": 1,
        "the same observation again: merged": 2,
    }


@needs_shared
def test_what_a_sample_says_beyond_its_expected_rows_is_kept(tmp_path: Path) -> None:
    ingest("openinference", [TRACES / "openinference_langchain.spans.jsonl"], tmp_path)
    assert {(row["user_id"], row["index_version"]) for row in written(tmp_path)} == {("u1", "v1")}


# calls


def test_a_retriever_inside_a_retriever_is_one_call_at_any_depth(tmp_path: Path) -> None:
    rows, report = run(
        tmp_path,
        "openinference",
        span(4, "RETRIEVER", parent=3, input__value="inner", **documents("z")),
        span(3, "EMBEDDING", parent=2),
        span(2, "RETRIEVER", parent=1, input__value="outer", **documents("a", "b")),
        span(1, "CHAIN"),
    )
    (row,) = rows
    assert (row["trace_id"], row["query"], ids(row)) == (TRACE, "outer", ["a", "b"])
    assert report.skipped["nested in another retrieval of the same call"] == 1
    assert sum(report.rows.values()) + sum(report.skipped.values()) == 4


def test_an_outer_retriever_without_documents_takes_those_of_the_inner(tmp_path: Path) -> None:
    rows, _ = run(
        tmp_path,
        "openinference",
        span(1, "RETRIEVER", input__value="q"),
        span(2, "RETRIEVER", parent=1, **documents("a")),
    )
    assert [(row["query"], ids(row)) for row in rows] == [("q", ["a"])]


def test_parents_that_form_a_ring_end(tmp_path: Path) -> None:
    rows, _ = run(
        tmp_path,
        "openinference",
        span(1, "RETRIEVER", parent=2, input__value="q", **documents("a")),
        span(2, "CHAIN", parent=1),
    )
    assert len(rows) == 1


def test_the_same_span_and_the_same_call_twice_are_one_row(tmp_path: Path) -> None:
    one = span(1, "RETRIEVER", input__value="q", **documents("a"))
    rows, report = run(tmp_path, "openinference", one, one, span(2, "RETRIEVER", input__value="q", **documents("a")))
    assert len(rows) == 1
    assert report.skipped == {"the same span again": 1, "repeats another retrieval of the same call": 1}


def test_several_calls_of_one_trace_have_ids_of_their_own(tmp_path: Path) -> None:
    rows, _ = run(
        tmp_path,
        "openinference",
        span(3, "RETRIEVER", input__value="second", **documents("b")),
        span(1, "RETRIEVER", input__value="first", **documents("a")),
    )
    assert [(row["trace_id"], row["query"]) for row in rows] == [
        (TRACE, "first"),
        (f"{TRACE}:{3:016x}", "second"),
    ]


def test_a_reranker_joins_its_retriever(tmp_path: Path) -> None:
    rows, report = run(
        tmp_path,
        "openinference",
        span(1, "RETRIEVER", input__value="q", **documents("a", "b", "c")),
        span(
            2,
            "RERANKER",
            reranker__query="q",
            **documents("a", "b", "c", prefix="reranker.input_documents", scores=False),
            **documents("c", "a", prefix="reranker.output_documents"),
        ),
    )
    (row,) = rows
    assert ids(row) == ["c", "a"]
    assert row["candidates"] == [
        {"chunk_id": "a", "score": 1.0, "rank": 1},
        {"chunk_id": "b", "score": 0.9, "rank": 2},
        {"chunk_id": "c", "score": 0.8, "rank": 3},
    ]
    assert (row["trace_id"], row["retrieval_latency_ms"], row["rerank_latency_ms"]) == (TRACE, 500.0, 500.0)
    assert report.skipped == {"reranker: joined to its retrieval": 1}


def test_a_reranker_alone_is_a_call_and_two_retrievers_can_feed_one(tmp_path: Path) -> None:
    reranker = span(
        3,
        "RERANKER",
        input__value="q",
        **documents("a", "b", prefix="reranker.input_documents", scores=False),
        **documents("b", prefix="reranker.output_documents"),
    )
    rows, _ = run(tmp_path, "openinference", reranker)
    assert [(ids(row), ids(row, "candidates")) for row in rows] == [(["b"], ["a", "b"])]
    (tmp_path / "two").mkdir()
    rows, report = run(
        tmp_path / "two",
        "openinference",
        span(1, "RETRIEVER", input__value="q", **documents("a")),
        span(2, "RETRIEVER", input__value="q", **documents("b")),
        reranker,
    )
    assert [(ids(row), ids(row, "candidates")) for row in rows] == [(["b"], ["a", "b"])]
    assert report.skipped["input of a reranker of the same call"] == 1


CALL = [
    span(1, "CHAIN"),
    span(2, "RETRIEVER", parent=1, input__value="q", **documents("a", "b")),
    span(3, "RETRIEVER", parent=2, **documents("a", "b")),
    span(4, "RERANKER", parent=1, **documents("b", prefix="reranker.output_documents")),
    span(5, "RETRIEVER", parent=1, input__value="q2", output__value="[]"),
]


@settings(deadline=None, max_examples=30)
@given(st.permutations(CALL))
def test_the_order_of_spans_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, spans: list[dict[str, object]]
) -> None:
    rows, _ = run(tmp_path_factory.mktemp("order"), "openinference", *spans)
    assert [(row["trace_id"], row["query"], row["retrieved"], row.get("candidates")) for row in rows] == [
        (
            TRACE,
            "q",
            [{"chunk_id": "b", "score": 1.0, "rank": 1}],
            [{"chunk_id": "a", "score": 1.0, "rank": 1}, {"chunk_id": "b", "score": 0.9, "rank": 2}],
        ),
        (f"{TRACE}:{5:016x}", "q2", [], None),
    ]


# documents


def test_missing_ids_are_built_and_counted(tmp_path: Path) -> None:
    flat = {
        "retrieval.documents.0.document.content": "text one",
        "retrieval.documents.1.document.content": "text two",
        "retrieval.documents.1.document.metadata": '{"doc_id": "d"}',
        "retrieval.documents.2.document.content": "text three",
        "retrieval.documents.2.document.metadata": '{"chunk_id": "d#3", "score": 0.5}',
        "retrieval.documents.3.document.id": 17,
        "retrieval.documents.5.document.id": 0,
        "retrieval.documents.6.document.id": 18.0,
        "retrieval.documents.4.document.score": 0.1,
    }
    rows, report = run(tmp_path, "openinference", span(1, "RETRIEVER", input__value="q", **flat))
    (row,) = rows
    assert ids(row) == [content_id("text one"), part_id("d", "text two"), "d#3", "17", "", "0", "18"]
    assert isinstance(row["retrieved"], list)
    assert row["retrieved"][1]["doc_id"] == "d"
    assert row["retrieved"][2]["score"] == 0.5
    assert report.n_built_ids == 2


def test_a_built_id_is_the_same_for_the_same_content_only() -> None:
    assert content_id("a") == content_id("a") != content_id("b")
    assert part_id("2222", "x") != part_id("2223", "x")
    assert content_id("\ud800")


def test_lists_longer_than_ten_keep_their_order(tmp_path: Path) -> None:
    chunk_ids = [f"c{n}" for n in range(12)]
    flat = dict(reversed(documents(*chunk_ids).items()))
    rows, _ = run(tmp_path, "openinference", span(1, "RETRIEVER", input__value="q", **flat))
    assert ids(rows[0]) == chunk_ids


def test_nested_attributes_and_columns_of_phoenix(tmp_path: Path) -> None:
    listed = [{"document.id": "a", "document.score": 1}, {"document.id": "b"}]
    nested = span(1, "RETRIEVER")
    nested["attributes"] = {
        "openinference": {"span": {"kind": "RETRIEVER"}},
        "session": {"id": "s1"},
        "input": {"value": "q"},
        "retrieval": {"documents": [{"document": {"id": "a", "score": 1}}, {"document": {"id": "b"}}]},
    }
    columns = {
        "name": "r",
        "span_kind": "RETRIEVER",
        "context.trace_id": "f" * 32,
        "context.span_id": "e" * 16,
        "parent_id": None,
        "start_time": 1_796_000_000_000,
        "end_time": 1_796_000_000_020,
        "attributes.input.value": "q",
        "attributes.session.id": "s1",
        "attributes.retrieval.documents": listed,
    }
    rows, _ = run(tmp_path, "openinference", nested, columns)
    assert [(row["query"], row["session_id"], ids(row)) for row in rows] == [("q", "s1", ["a", "b"])] * 2
    assert {(row["ts"], row["latency_ms"]) for row in rows} == {(1_796_040_001.0, 500.0), (1_796_000_000.0, 20.0)}


def test_a_search_that_found_nothing_is_not_a_fault_and_an_error_is(tmp_path: Path) -> None:
    failed = span(3, "RETRIEVER", input__value="failed")
    failed["status"] = {"status_code": "ERROR", "description": "timeout"}
    rows, report = run(
        tmp_path,
        "openinference",
        span(1, "RETRIEVER", input__value="nothing", output__value='{"documents": []}'),
        span(2, "RETRIEVER", input__value="nothing either", output__value="[]"),
        failed,
    )
    assert [(row["retrieved"], row.get("error")) for row in rows] == [([], None), ([], None), (None, "timeout")]
    assert not report.unmapped


# spans that cannot be mapped


def test_what_cannot_be_mapped_is_counted_with_its_reason(tmp_path: Path) -> None:
    no_time = span(1, "RETRIEVER", input__value="q1", **documents("a"))
    no_time["start_time"] = "yesterday"
    no_trace = span(2, "RETRIEVER")
    no_trace["context"] = {"span_id": "1"}
    export = save(
        tmp_path / "export.jsonl",
        no_time,
        no_trace,
        span(3, "RETRIEVER", input__value="q3"),
        span(4, "RETRIEVER", input__value="q4", output__value="__REDACTED__"),
        span(5, "RETRIEVER", input__value="q5", output__value='["<NodeWithScore(id_=1)>"]'),
        span(6, "RERANKER", input__value="q6"),
        span(7, ""),
        [1],
        {},
        span(8, "RETRIEVER", input__value="q8", **documents("a")),
    )
    with export.open("ab") as file:
        file.write(b'\n{"name": "\xff"}\n{"name": "cut')
    report = ingest("openinference", [export], tmp_path / "landing")
    assert report.rows == {"retrieval_traces": 1}
    assert report.unmapped == {
        "no start time, or one that cannot be read": 1,
        "no trace id": 1,
        "no documents: neither document attributes nor output.value": 1,
        "documents are hidden: output.value is redacted": 1,
        "documents cannot be read from output.value": 1,
        "reranker: no documents: neither document attributes nor output.value": 1,
        "not a JSON object": 1,
        "no span: neither trace id nor span id": 1,
        "not UTF-8": 1,
        "invalid JSON: the last line is cut off": 1,
    }
    assert report.skipped == {"no retrieval: no openinference.span.kind": 1}
    assert {example.where for example in report.examples} >= {"export.jsonl:2", "export.jsonl:13"}


# ids and times


@pytest.mark.parametrize(
    ("given_id", "wanted"),
    [
        (f"0x{TRACE}", TRACE),
        (TRACE.upper(), TRACE),
        (base64.b64encode(bytes.fromhex(TRACE)).decode(), TRACE),
        ("VC0swc65ecw=", "542d2cc1ceb979cc"),
        ("0" * 16, None),
        ("AAAAAAAAAAA=", None),
        ("", None),
        (None, None),
        ("tr-cbe5557584df23a779408451e607b8b8", "tr-cbe5557584df23a779408451e607b8b8"),
        ("my-own-id", "my-own-id"),
        (17, "17"),
    ],
)
def test_ids_in_hex_and_base64(given_id: object, wanted: str | None) -> None:
    assert otel_id(given_id) == wanted


@pytest.mark.parametrize(
    "moment",
    [
        1_796_000_000_000_000_000,
        "1796000000000000000",
        1_796_000_000_000_000,
        1_796_000_000_000,
        1_796_000_000,
        "1796000000.0",
        "2026-11-30T00:53:20Z",
        "2026-11-30 00:53:20+00:00",
        "2026-11-30T01:53:20.000000000+01:00",
        "2026-11-30T00:53:20",
    ],
)
def test_one_moment_in_every_form(moment: object) -> None:
    assert time_us(moment) == 1_796_000_000_000_000


@pytest.mark.parametrize("value", [None, True, "", "soon", -1, "1969-12-31", 10**30, float("nan"), float("inf"), []])
def test_what_is_no_time(value: object) -> None:
    assert time_us(value) is None


def otlp(*spans: object) -> dict[str, object]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": list(spans)}]}]}


def otlp_span(trace_id: str, start: object) -> dict[str, object]:
    texts = {"openinference.span.kind": "RETRIEVER", "input.value": "q", "retrieval.documents.0.document.id": "a"}
    return {
        "traceId": trace_id,
        "spanId": "eee19b7ec3c1b174",
        "startTimeUnixNano": start,
        "attributes": [
            *({"key": key, "value": {"stringValue": text}} for key, text in texts.items()),
            {"key": "retrieval.documents.0.document.score", "value": {"intValue": "3"}},
            {"key": "session.id", "value": {"intValue": 7}},
        ],
    }


@pytest.mark.parametrize("trace_id", [TRACE, base64.b64encode(bytes.fromhex(TRACE)).decode()])
@pytest.mark.parametrize("start", [START_NS, str(START_NS)])
@pytest.mark.parametrize("indent", [None, 1])
def test_otlp_with_hex_and_base64_ids_and_ns_as_text_and_number(
    tmp_path: Path, trace_id: str, start: object, indent: int | None
) -> None:
    export = tmp_path / "export.json"
    export.write_text(json.dumps(otlp(otlp_span(trace_id, start)), indent=indent))
    ingest("openinference", [export], tmp_path / "landing")
    (row,) = written(tmp_path / "landing")
    assert (row["trace_id"], row["ts"], row["session_id"]) == (TRACE, 1_796_000_000.0, "7")
    assert row["retrieved"] == [{"chunk_id": "a", "score": 3.0, "rank": 1}]


# reading


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("wrap", ["lines", "array", "document"])
def test_records_are_found_in_every_form_of_file(tmp_path: Path, wrap: str, indent: int | None) -> None:
    members = [{"n": n, "text": "x" * 300_000} for n in range(12)]  # more than one chunk of the reader
    path = tmp_path / "export.json"
    if wrap == "lines":
        text = "\n".join(json.dumps(member, indent=indent) for member in members)
    elif wrap == "array":
        text = json.dumps(members, indent=indent)
    else:
        text = json.dumps({"note": 1, **otlp(*members), "more": [1, {"spans": 2}]}, indent=indent)
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    found = list(read_records(path, SPAN_TREE))
    assert [record.value["n"] for record in found if isinstance(record, Record)] == list(range(12))
    assert len(found) == 12


def test_a_gzip_file_is_read_and_a_damaged_one_reported(tmp_path: Path) -> None:
    packed = gzip.compress(b'{"n": 1}\n' * 1000)
    (tmp_path / "a.jsonl.gz").write_bytes(packed)
    assert len(list(read_records(tmp_path / "a.jsonl.gz"))) == 1000
    (tmp_path / "b.jsonl.gz").write_bytes(packed[:-9])
    assert isinstance(list(read_records(tmp_path / "b.jsonl.gz"))[-1], Unmapped)


def test_a_document_that_is_cut_off_gives_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps(otlp({"n": 1}, {"n": 2}), indent=1)[:-40])
    first, last = read_records(path, SPAN_TREE)
    assert isinstance(first, Record)
    assert last == Unmapped("export.json#2", "invalid JSON; the rest of the file is not read")


@settings(deadline=None)  # files on a shared disk
@given(st.binary(max_size=200))
def test_no_bytes_break_an_adapter(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("bytes") / "export"
    path.write_bytes(content)
    for adapter in ADAPTERS.values():
        list(adapter.read([path]))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(
    [
        *("context", "trace_id", "traceId", "span_id", "spanId", "attributes", "status", "start_time", "annotations"),
        *("info", "data", "spans", "assessments", "feedback", "request", "response", "retrievalResults", "content"),
        *("location", "metadata", "id", "run_type", "inputs", "outputs", "extra", "run_id", "key", "trace", "scores"),
        *("observations", "type", "input", "output", "startTime", "value", "post", "patch", "parent_id", "error"),
        *("request_metadata", "source", "timestamp", "dataType", "resourceSpans", "scopeSpans", "retrievalQuery"),
    ]
)
RECORDS = st.dictionaries(KEYS, JSON | st.dictionaries(KEYS, JSON, max_size=5), max_size=10)


@settings(deadline=None)
@given(st.lists(RECORDS, min_size=1, max_size=3))
def test_no_record_breaks_an_adapter(
    tmp_path_factory: pytest.TempPathFactory, records: Sequence[Mapping[str, object]]
) -> None:
    path = save(tmp_path_factory.mktemp("records") / "export.jsonl", *records)
    for name, adapter in ADAPTERS.items():
        if not name.startswith("trec"):
            list(adapter.read([path]))


# feedback


def test_annotations_become_feedback(tmp_path: Path) -> None:
    flat = {
        "annotations.0.annotation.name": "thumb",
        "annotations.0.annotation.label": "thumbs_up",
        "annotations.0.annotation.annotator_kind": "HUMAN",
        "annotations.1.annotation.name": "relevance",
        "annotations.1.annotation.score": 0.25,
        "annotations.1.annotation.annotator_kind": "LLM",
        "annotations.2.annotation.name": "nothing",
        "session.annotations.0.annotation.name": "csat",
        "session.annotations.0.annotation.score": 1,
    }
    root = span(1, "CHAIN", **flat)
    step = span(
        2, "RETRIEVER", 1, input__value="q", **documents("a"), **{k: v for k, v in flat.items() if "session" in k}
    )
    step["annotations"] = [
        {
            "id": "x1",
            "name": "n",
            "result": {"score": 0},
            "created_at": "2026-12-01T00:00:00Z",
            "annotator_kind": "HUMAN",
        }
    ]
    _, report = run(tmp_path, "openinference", step, root)
    rows = written(tmp_path / "landing", "feedback")
    told = {(row["name"], row.get("trace_id"), row["session_id"], row["rating"], row.get("signal")) for row in rows}
    assert told == {
        ("thumb", TRACE, "s1", "thumbs_up", None),
        ("relevance", TRACE, "s1", 0.25, "judge"),
        ("csat", None, "s1", 1, None),
        ("n", TRACE, "s1", 0, None),
    }
    assert len(rows) == 4
    assert report.unmapped == {"feedback: neither label nor score": 1}
    assert len({row["feedback_id"] for row in rows}) == 4


# further formats


def test_genai_documents_as_a_list_of_any_values(tmp_path: Path) -> None:
    one = {
        "kvlistValue": {
            "values": [{"key": "id", "value": {"stringValue": "a"}}, {"key": "score", "value": {"doubleValue": 0.5}}]
        }
    }
    attributes = [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "retrieval"}},
        {"key": "gen_ai.retrieval.documents", "value": {"arrayValue": {"values": [one]}}},
        {"key": "gen_ai.request.top_k", "value": {"doubleValue": 3.0}},
    ]
    base = {"traceId": TRACE, "startTimeUnixNano": START_NS}
    rows, report = run(
        tmp_path,
        "otel-genai",
        {**base, "spanId": "1" * 16, "attributes": attributes},
        {**base, "spanId": "2" * 16, "attributes": attributes[:1]},
        {
            **base,
            "spanId": "3" * 16,
            "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}],
        },
    )
    (row,) = rows
    assert (row["retrieved"], row["top_k"]) == ([{"chunk_id": "a", "score": 0.5, "rank": 1}], 3)
    assert report.unmapped == {"no documents: gen_ai.retrieval.documents is opt-in": 1}
    assert report.skipped == {"no retrieval: chat": 1}


def test_mlflow_traces_without_parts(tmp_path: Path) -> None:
    info = {"request_id": "r1", "request_metadata": {"mlflow.trace.session": "s9"}}
    old_span = {
        "name": "retrieve",
        "context": {"span_id": "0x1", "trace_id": "0x2"},
        "start_time": START_NS,
        "end_time": START_NS + 2_000_000,
        "attributes": {
            "mlflow.spanType": "RETRIEVER",
            "mlflow.spanInputs": {"query": "q", "k": 2},
            "mlflow.spanOutputs": [{"page_content": "text", "metadata": {"doc_uri": "u"}}],
        },
    }
    rated = {"assessment_name": "a", "feedback": {"value": "yes"}, "create_time": "2026-11-30T12:00:00Z"}
    assessments = [rated, {**rated, "valid": False}, {"expectation": {}}, {**rated, "create_time": None}]
    rows, report = run(
        tmp_path,
        "mlflow",
        {"info": {**info, "assessments": assessments}, "data": {"spans": [old_span]}},
        {"info": {}, "data": {}},
        {"info": info},
    )
    (row,) = rows
    assert (row["trace_id"], row["session_id"], row["query"], row["top_k"]) == ("r1", "s9", "q", 2)
    assert ids(row) == [part_id("u", "text")]
    assert report.rows == {"retrieval_traces": 1, "feedback": 1}
    assert report.unmapped == {
        "no trace: info has neither trace_id nor request_id": 1,
        "no spans: data.spans is no list": 1,
        "feedback: no time, or one that cannot be read": 1,
    }


def test_bedrock_takes_the_time_of_the_response_and_lends_one(tmp_path: Path) -> None:
    result = {"content": {"text": "t"}, "location": {"type": "S3", "s3Location": {"uri": "s3://b/k"}}, "score": 0.5}
    headers = {"RequestId": "r-1", "HTTPHeaders": {"date": "Mon, 30 Nov 2026 12:00:00 GMT"}}
    dated = {"request": {}, "response": {"retrievalResults": [result], "ResponseMetadata": headers}}
    undated = {"retrievalResults": []}
    rows, report = run(tmp_path, "bedrock", dated, undated, {"message": "x"})
    assert (report.n_undated, report.unmapped) == (1, {"no retrievalResults": 1})
    assert ids(rows[0]) == [part_id("s3://b/k", "t")]
    assert (rows[0]["trace_id"], rows[0]["ts"]) == ("r-1", 1_796_040_000.0)
    assert "ts" not in rows[1]
    lent = ingest("bedrock", [tmp_path / "export.jsonl"], tmp_path / "lent", at=datetime(2026, 12, 1, tzinfo=UTC))
    assert lent.n_undated == 0
    assert sorted(file.parent.name for file in lent.new_files) == ["dt=2026-11-30", "dt=2026-12-01"]


def test_trec_files(tmp_path: Path) -> None:
    run_file = tmp_path / "run.txt"
    run_file.write_text(
        "q1 Q0 d9 1 2.0 bm25\nq2 Q0 d1 1 1 bm25\nq1 Q0 d10 2 2.0 bm25\nq1 Q0 d3 9 nan bm25\n"
        "q1 Q0 d4 8 7 bm25\nq1 x\nq1 Q0 d 1 high t\n"
    )
    report = ingest("trec-run", [run_file], tmp_path / "landing", at=datetime(2026, 11, 30, tzinfo=UTC))
    first, second = written(tmp_path / "landing")
    assert (first["trace_id"], first["query_id"], first["eval_run_id"]) == ("bm25:q1", "q1", "bm25")
    assert ids(first) == ["d4", "d9", "d10", "d3"]
    assert ids(second) == ["d1"]
    assert report.unmapped == {
        "not 6 columns: query_id Q0 doc_id rank score run_tag": 1,
        "score is no number": 1,
    }
    qrels = tmp_path / "qrels.txt"
    qrels.write_text("q1 0 d4 2\n\nq1 0 d9 -1\nq1 0 d9 x\n")
    report = ingest("trec-qrels", [qrels], tmp_path / "landing")
    assert written(tmp_path / "landing", "qrels") == [
        {"query_id": "q1", "chunk_id": "d4", "grade": 2},
        {"query_id": "q1", "chunk_id": "d9", "grade": -1},
    ]
    assert (report.n_undated, report.unmapped) == (0, {"grade is no whole number": 1})


def test_langsmith_merges_post_and_patch(tmp_path: Path) -> None:
    post = {
        "id": "r1",
        "trace_id": "t1",
        "run_type": "retriever",
        "inputs": {"query": "q"},
        "start_time": "2026-11-30 12:00:00.5+00:00",
        "session_name": "project",
        "extra": {"metadata": {"session_id": "s1", "index_version": "v1"}},
        "outputs": None,
    }
    listed = [
        {"id": None, "page_content": "text", "metadata": {}},
        {"id": "b", "page_content": "b", "metadata": {"score": 2}},
    ]
    patch = {
        "id": "r1",
        "trace_id": "t1",
        "end_time": "2026-11-30T12:00:01",
        "outputs": {"documents": listed},
        "inputs": None,
    }
    save(tmp_path / "b.jsonl", {"patch": [patch], "post": []})
    save(
        tmp_path / "a.jsonl",
        {"event": "post", "run": post},
        {**post, "id": "r2", "trace_id": "t2"},
        {"run_id": "r1", "key": "thumb", "score": 1, "id": "f1", "created_at": "2026-11-30T13:00:00Z"},
        {"run_type": "llm"},
    )
    report = ingest("langsmith", [tmp_path / "b.jsonl", tmp_path / "a.jsonl"], tmp_path / "landing")
    (row,) = written(tmp_path / "landing")
    assert (row["trace_id"], row["session_id"], row["query"], row["latency_ms"]) == ("t1", "s1", "q", 500.0)
    assert ids(row) == [content_id("text"), "b"]
    (rated,) = written(tmp_path / "landing", "feedback")
    assert (rated["trace_id"], rated["session_id"], rated["rating"]) == ("t1", "s1", 1)
    assert report.unmapped == {
        "run without id": 1,
        "no outputs: the run was posted and never patched": 1,
    }


def test_langfuse_joins_records_of_their_own(tmp_path: Path) -> None:
    observation = {
        "id": "o1",
        "traceId": "t1",
        "type": "RETRIEVER",
        "startTime": "2026-11-30T12:00:00.000Z",
        "endTime": "2026-11-30T12:00:00.040Z",
        "input": '{"query": "q"}',
        "output": '[{"id": "a", "score": 0.5}]',
        "metadata": "{}",
    }
    score = {"id": "x", "traceId": "t1", "name": "thumb", "timestamp": "2026-11-30T13:00:00Z"}
    scores = [
        {**score, "dataType": "BOOLEAN", "value": 1, "source": "API"},
        {**score, "id": "y", "data_type": "CATEGORICAL", "value": 0, "string_value": "bad", "source": "ANNOTATION"},
        {**score, "id": "z", "dataType": "CORRECTION", "stringValue": "better"},
        {**score, "id": "w", "traceId": None, "sessionId": "s1", "value": 0.5, "source": "EVAL"},
    ]
    trace = {"id": "t1", "timestamp": "2026-11-30T12:00:00Z", "sessionId": "s1", "userId": "u1"}
    save(tmp_path / "scores.jsonl", *scores)
    save(tmp_path / "observations.jsonl", observation)
    save(tmp_path / "traces.jsonl", {"trace": {**trace, "observations": [observation], "scores": scores[:1]}}, {"x": 1})
    paths = [tmp_path / f"{name}.jsonl" for name in ("scores", "observations", "traces")]
    report = ingest("langfuse", paths, tmp_path / "landing")
    (row,) = written(tmp_path / "landing")
    assert (row["trace_id"], row["session_id"], row["user_id"], row["query"]) == ("t1", "s1", "u1", "q")
    assert (ids(row), row["latency_ms"]) == (["a"], 40.0)
    rated = written(tmp_path / "landing", "feedback")
    assert {(r["feedback_id"], r.get("trace_id"), r["rating"], r.get("signal")) for r in rated} == {
        ("x", "t1", 1, None),
        ("y", "t1", "bad", None),
        ("w", None, 0.5, "judge"),
    }
    assert report.skipped == {
        "no rating: score of type CORRECTION": 1,
        "the same observation again: merged": 1,
        "the same score again": 1,
    }
    assert report.unmapped == {"neither trace nor observation nor score": 1}


# files


def test_the_same_export_twice_adds_nothing(tmp_path: Path) -> None:
    export = save(tmp_path / "a.jsonl", span(1, "RETRIEVER", input__value="q", **documents("a")))
    landing = tmp_path / "landing"
    first = ingest("openinference", [export], landing)
    (file,) = first.new_files
    assert file.parent == landing / "retrieval_traces" / f"dt={DAY}"
    before = (file.read_bytes(), file.stat().st_mtime_ns)
    copy = tmp_path / "renamed.jsonl"
    copy.write_bytes(export.read_bytes())
    # a time is lent only to rows that have none, so it makes no other file of these
    second = ingest("openinference", [export, copy], landing, at=datetime(2026, 12, 24, tzinfo=UTC))
    assert (second.rows, second.new_rows, second.new_files) == ({"retrieval_traces": 1}, {}, ())
    assert second.skipped == {"the same span again": 1}
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before
    assert [entry.name for entry in landing.iterdir()] == ["retrieval_traces"]
    assert first.new_rows == {"retrieval_traces": 1}
    check_landing(landing)


def test_an_ingest_that_was_stopped_is_completed_by_the_next(tmp_path: Path) -> None:
    later = span(2, "RETRIEVER", input__value="q2", **documents("b"))
    later["start_time"] = "2026-12-01T00:00:00Z"
    export = save(tmp_path / "a.jsonl", span(1, "RETRIEVER", input__value="q", **documents("a")), later)
    landing = tmp_path / "landing"
    first = ingest("openinference", [export], landing)
    whole = {file: file.read_bytes() for file in first.new_files}
    first.new_files[1].unlink()
    second = ingest("openinference", [export], landing)
    assert second.new_files == first.new_files[1:]
    assert {file: file.read_bytes() for file in first.new_files} == whole


def test_since_leaves_out_days_and_changes_no_file(tmp_path: Path) -> None:
    later = span(2, "RETRIEVER", input__value="q2", **documents("b"))
    later["start_time"] = "2026-12-01T00:00:00Z"
    export = save(tmp_path / "a.jsonl", span(1, "RETRIEVER", input__value="q", **documents("a")), later)
    landing = tmp_path / "landing"
    cut = ingest("openinference", [export], landing, since=date(2026, 12, 1))
    assert (cut.rows, cut.n_before_since) == ({"retrieval_traces": 1}, 1)
    assert [file.parent.name for file in cut.new_files] == ["dt=2026-12-01"]
    whole = ingest("openinference", [export], landing)
    assert [file.parent.name for file in whole.new_files] == [f"dt={DAY}"]


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export = save(tmp_path / "a.jsonl", span(1, "RETRIEVER", input__value="q", **documents("a")))

    def refuse(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="No space"):
        ingest("openinference", [export], tmp_path / "landing")
    assert [path for path in (tmp_path / "landing").rglob("*") if path.is_file()] == []
    assert not list((tmp_path / "landing").glob("_*"))


def test_folders_are_read_and_faults_of_the_call_named(tmp_path: Path) -> None:
    (tmp_path / "in" / "_part").mkdir(parents=True)
    save(tmp_path / "in" / "_part" / "x.jsonl", {})
    save(tmp_path / "in" / "a.jsonl", span(1, "RETRIEVER", input__value="q", **documents("a")))
    assert ingest("openinference", [tmp_path / "in"], tmp_path / "landing").n_files == 1
    with pytest.raises(IngestError, match="unknown format 'phoenix'"):
        ingest("phoenix", [tmp_path], tmp_path / "landing")
    with pytest.raises(IngestError, match="no such file"):
        ingest("mlflow", [tmp_path / "none"], tmp_path / "landing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(IngestError, match="no files"):
        ingest("mlflow", [tmp_path / "empty"], tmp_path / "landing")


def test_a_lone_surrogate_is_written_as_utf8(tmp_path: Path) -> None:
    rows, _ = run(tmp_path, "openinference", span(1, "RETRIEVER", input__value="a\ud800b", **documents("c")))
    assert rows[0]["query"] == "a?b"


def test_what_is_written_is_strict_json(tmp_path: Path) -> None:
    asked = '{"query": "q", "filters": {"year": [NaN, 1e999, 2]}}'
    flat = {"retrieval.documents.0.document.id": "a", "retrieval.documents.0.document.score": float("nan")}
    rows, _ = run(tmp_path, "openinference", span(1, "RETRIEVER", input__value=asked, **flat))
    (line,) = next((tmp_path / "landing").rglob("*.jsonl")).read_text().splitlines()
    assert "NaN" not in line
    assert "Infinity" not in line
    assert rows[0]["filters"] == {"year": [None, None, 2]}
    assert rows[0]["retrieved"] == [{"chunk_id": "a", "score": None, "rank": 1}]


def test_the_report_for_people(tmp_path: Path) -> None:
    flat = {"retrieval.documents.0.document.content": "text"}
    _, report = run(
        tmp_path, "openinference", span(1, "RETRIEVER", input__value="q", **flat), span(2, "CHAIN"), {"name": "x"}
    )
    assert describe(report) == (
        "openinference: 1 retrieval_traces from 1 file",
        "new: 1 retrieval_traces in 1 file",
        "without an id, built from the content: 1 chunk id",
        "no row of its own: 1 (no retrieval: CHAIN)",
        "not mapped: 1 (no span: neither trace id nor span id)",
        "  export.jsonl:3: no span: neither trace id nor span id",
    )


def test_every_item_says_where_or_is_a_row(tmp_path: Path) -> None:
    export = save(tmp_path / "a.jsonl", span(1, "RETRIEVER"), span(2, "CHAIN"))
    items = list(ADAPTERS["openinference"].read([export]))
    assert {type(item) for item in items} == {Unmapped, Skipped}
    assert all(isinstance(item, LandingRow) or item.where.startswith("a.jsonl:") for item in items)


# memory

GROWTH = textwrap.dedent(
    """
    import resource, sys
    from pathlib import Path
    from retrieval_quality.adapters import ingest

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = ingest("openinference", [Path(sys.argv[1])], Path(sys.argv[2]))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(report.rows["retrieval_traces"], (after - before) * (1 if sys.platform == "darwin" else 1024))
    """
)


@pytest.mark.parametrize("form", ["lines", "document"])
def test_a_large_export_is_streamed(tmp_path: Path, form: str) -> None:
    """50 MB as JSON lines, and as one OTLP document on one line."""
    content = "y" * 50_000
    n_spans = 1000
    export = tmp_path / "export"
    with export.open("w") as file:
        if form == "document":
            file.write('{"resourceSpans": [{"scopeSpans": [{"spans": [')
        for number in range(n_spans):
            listed = {"retrieval.documents.0.document.content": f"{number}{content}"}
            one = span(number % 60, "RETRIEVER", input__value="q", **listed)
            one["context"] = {"trace_id": f"{number + 1:032x}", "span_id": f"{number + 1:016x}"}
            file.write(json.dumps(one) + ("\n" if form == "lines" else "," if number < n_spans - 1 else "]}]}]}"))
    assert export.stat().st_size > 50_000_000
    done = subprocess.run(
        [sys.executable, "-c", GROWTH, str(export), str(tmp_path / "landing")],
        check=True,
        capture_output=True,
        text=True,
    )
    n_rows, growth = (int(word) for word in done.stdout.split())
    assert n_rows == n_spans
    assert growth < 100 * 2**20
