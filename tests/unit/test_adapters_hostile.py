"""Exports as they should not be: every record ends as a row or with a reason, and nothing raises."""

from __future__ import annotations

import copy
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_adapters import TRACE, documents, ids, run, save, span, written

from retrieval_quality.adapters import ADAPTERS, IngestReport, LandingRow, ingest
from retrieval_quality.adapters.reading import read_records
from retrieval_quality.adapters.spans import SPAN_TREE
from retrieval_quality.landing_check import check_landing

EXPORTS = Path(__file__).parents[1] / "fixtures" / "exports"
Json = Any


def total(report: IngestReport) -> int:
    return sum(sum(counts.values()) for counts in (report.rows, report.skipped, report.unmapped))


# one good record of each format, as small as it can be

GENAI = {
    "traceId": TRACE,
    "spanId": "1" * 16,
    "startTimeUnixNano": "1796040000000000000",
    "endTimeUnixNano": "1796040000040000000",
    "attributes": [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "retrieval"}},
        {"key": "gen_ai.retrieval.query.text", "value": {"stringValue": "q"}},
        {"key": "gen_ai.retrieval.documents", "value": {"stringValue": '[{"id": "a", "score": 0.5}]'}},
    ],
}
LANGSMITH = {
    "id": "r1",
    "trace_id": "r1",
    "run_type": "retriever",
    "start_time": "2026-11-30T12:00:00+00:00",
    "end_time": "2026-11-30T12:00:01+00:00",
    "inputs": {"query": "q"},
    "outputs": {"documents": [{"id": "a", "page_content": "text", "metadata": {}}]},
    "extra": {"metadata": {"session_id": "s1"}},
}
LANGFUSE = {
    "id": "o1",
    "traceId": "t1",
    "type": "RETRIEVER",
    "startTime": "2026-11-30T12:00:00.000Z",
    "endTime": "2026-11-30T12:00:00.040Z",
    "input": {"query": "q"},
    "output": [{"id": "a", "score": 0.5}],
}
MLFLOW = {
    "info": {"trace_id": "tr-1", "trace_metadata": {"mlflow.trace.session": "s1"}},
    "data": {
        "spans": [
            {
                "trace_id": TRACE,
                "span_id": "1" * 16,
                "start_time_unix_nano": 1_796_040_000_000_000_000,
                "attributes": {
                    "mlflow.spanType": '"RETRIEVER"',
                    "mlflow.spanInputs": '{"query": "q"}',
                    "mlflow.spanOutputs": '[{"id": "a", "page_content": "text"}]',
                },
            }
        ]
    },
}
BEDROCK = {
    "ts": "2026-11-30T12:00:00Z",
    "request": {"retrievalQuery": {"text": "q"}},
    "response": {"retrievalResults": [{"content": {"text": "text"}, "score": 0.5}]},
}
OPENINFERENCE = span(1, "RETRIEVER", input__value="q", **documents("a"))
GOOD: dict[str, Json] = {
    "openinference": OPENINFERENCE,
    "otel-genai": GENAI,
    "mlflow": MLFLOW,
    "langsmith": LANGSMITH,
    "langfuse": LANGFUSE,
    "bedrock": BEDROCK,
}


def changed(record: Json, value: Json, *path: str | int) -> Json:
    """A copy with another value at `path`."""
    result = copy.deepcopy(record)
    inner = result
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return result


@pytest.mark.parametrize("name", GOOD)
def test_the_good_record_is_one_row(tmp_path: Path, name: str) -> None:
    rows, report = run(tmp_path, name, GOOD[name])
    assert len(rows) == total(report) == 1
    assert isinstance(rows[0]["retrieved"], list)


NO_TIME = "no start time, or one that cannot be read"
OUT = "mlflow.spanOutputs"
TEXT = {"stringValue": "what"}


@pytest.mark.parametrize(
    ("name", "record", "reason"),
    [
        # missing ids
        ("openinference", changed(OPENINFERENCE, {}, "context"), "no span: neither trace id nor span id"),
        ("openinference", changed(OPENINFERENCE, "", "context", "span_id"), "no span id"),
        ("openinference", changed(OPENINFERENCE, "0" * 32, "context", "trace_id"), "no trace id"),
        ("otel-genai", changed(GENAI, None, "spanId"), "no span id"),
        ("mlflow", changed(MLFLOW, None, "info", "trace_id"), "no trace: info has neither trace_id nor request_id"),
        ("mlflow", changed(MLFLOW, " ", "data", "spans", 0, "span_id"), "no span id"),
        ("langsmith", changed(LANGSMITH, None, "id"), "run without id"),
        ("langfuse", changed(LANGFUSE, None, "traceId"), "observation without trace id"),
        ("langfuse", changed(LANGFUSE, [], "id"), "observation without id"),
        # wrong types
        ("openinference", changed(OPENINFERENCE, [7], "context"), "no span: neither trace id nor span id"),
        ("mlflow", changed(MLFLOW, "none", "data"), "no spans: data.spans is no list"),
        ("mlflow", changed(MLFLOW, {}, "data", "spans"), "no spans: data.spans is no list"),
        ("langsmith", changed(LANGSMITH, 7, "outputs"), "documents cannot be read from outputs"),
        ("langfuse", changed(LANGFUSE, "a text", "output"), "documents cannot be read from output"),
        ("langfuse", changed(LANGFUSE, None, "output"), "no output"),
        ("bedrock", changed(BEDROCK, {}, "response", "retrievalResults"), "no retrievalResults"),
        ("bedrock", {"message": "denied"}, "no retrievalResults"),
        # documents that are none
        ("otel-genai", changed(GENAI, TEXT, "attributes", 2, "value"), "gen_ai.retrieval.documents cannot be read"),
        (
            "mlflow",
            changed(MLFLOW, '["<Document 1>"]', "data", "spans", 0, "attributes", OUT),
            f"documents cannot be read from {OUT}",
        ),
        (
            "mlflow",
            changed(MLFLOW, None, "data", "spans", 0, "attributes", OUT),
            f"no documents: {OUT} is missing",
        ),
        # bad times
        ("openinference", changed(OPENINFERENCE, "30/11/2026", "start_time"), NO_TIME),
        ("openinference", changed(OPENINFERENCE, None, "start_time"), NO_TIME),
        ("otel-genai", changed(GENAI, "-5", "startTimeUnixNano"), NO_TIME),
        ("mlflow", changed(MLFLOW, 10**40, "data", "spans", 0, "start_time_unix_nano"), NO_TIME),
        ("langsmith", changed(LANGSMITH, math.nan, "start_time"), NO_TIME),
        ("langfuse", changed(LANGFUSE, True, "startTime"), NO_TIME),
    ],
)
def test_a_bad_record_has_its_reason_and_costs_no_other(tmp_path: Path, name: str, record: Json, reason: str) -> None:
    other = json.loads(json.dumps(GOOD[name]).replace('"tr-1"', '"tr-2"').replace('"r1"', '"r2"'))
    other = json.loads(json.dumps(other).replace('"t1"', '"t2"').replace(TRACE, "f" * 32))
    rows, report = run(tmp_path, name, record, other)
    assert len(rows) == 1
    assert report.unmapped == {reason: 1}
    assert total(report) == 2
    assert [example.reason for example in report.examples] == [reason]


@pytest.mark.parametrize(
    ("name", "record"),
    [
        (
            "openinference",
            span(
                1, "RETRIEVER", input__value="q", output__value='{"documents": [{"id": "a", "page_content": "text"}]}'
            ),
        ),
        ("openinference", span(1, "RETRIEVER", input__value="q", output__value='"[{\\"id\\": \\"a\\"}]"')),
        ("openinference", changed(OPENINFERENCE, '[{"document.id": "a"}]', "attributes", "retrieval.documents")),
        ("langsmith", changed(LANGSMITH, '{"documents": [{"id": "a"}]}', "outputs")),
        ("langsmith", changed(LANGSMITH, [{"id": "a"}], "outputs", "documents")),
        ("langfuse", changed(LANGFUSE, '[{"id": "a"}]', "output")),
        ("langfuse", changed(LANGFUSE, {"results": '[{"id": "a"}]'}, "output")),
        ("mlflow", changed(MLFLOW, [{"id": "a"}], "data", "spans", 0, "attributes", OUT)),
        (
            "otel-genai",
            changed(GENAI, {"arrayValue": {"values": [{"stringValue": '{"id": "a"}'}]}}, "attributes", 2, "value"),
        ),
    ],
)
def test_documents_as_text_and_as_lists(tmp_path: Path, name: str, record: Json) -> None:
    rows, report = run(tmp_path, name, record)
    assert [ids(row) for row in rows] == [["a"]]
    assert not report.unmapped


@pytest.mark.parametrize("name", GOOD)
def test_a_line_that_is_cut_off_costs_one_record(tmp_path: Path, name: str) -> None:
    export = save(tmp_path / "export.jsonl", GOOD[name])
    whole = export.read_text()
    export.write_text(f"{whole}{whole[: len(whole) // 2]}\n{whole}{whole[: len(whole) // 2]}")
    report = ingest(name, [export], tmp_path / "landing")
    assert report.unmapped == {"invalid JSON": 1, "invalid JSON: the last line is cut off": 1}
    assert report.rows["retrieval_traces"] >= 1
    check_landing(tmp_path / "landing")


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("depth", [60, 400, 900, 960, 980, 990])
def test_deep_nesting_is_no_crash(tmp_path: Path, name: str, depth: int) -> None:
    deep = '{"documents":' * depth + "1" + "}" * depth
    text = json.dumps(GOOD[name])
    inside = {
        "openinference": text.replace('"q"', f'"q", "output.value": {deep}, "metadata": {deep}, "x": {deep}'),
        "otel-genai": text.replace('{"stringValue": "q"}', f'{{"kvlistValue": {deep}}}'),
        "mlflow": text.replace('"mlflow.spanInputs"', f'"x": {deep}, "mlflow.spanInputs"'),
        "langsmith": text.replace('"extra"', f'"metadata": {deep}, "extra"').replace('"a"', deep),
        "langfuse": text.replace('"input"', f'"metadata": {deep}, "input"'),
        "bedrock": text.replace(
            '"request": {',
            f'"request": {{"retrievalConfiguration": {{"vectorSearchConfiguration": {{"filter": {deep}}}}}, ',
        ),
    }[name]
    assert inside != text
    export = tmp_path / "export.jsonl"
    export.write_text(f"{inside}\n{text}\n")
    report = ingest(name, [export], tmp_path / "landing")
    assert total(report) == 2
    assert report.rows["retrieval_traces"] >= 1
    assert set(report.unmapped) <= {"invalid JSON", "nested too deeply", *_CANNOT}


_CANNOT = (
    "documents cannot be read from output.value",
    "documents cannot be read from outputs",
    f"documents cannot be read from {OUT}",
)


def test_ten_thousand_documents_in_one_span(tmp_path: Path) -> None:
    chunk_ids = [f"c{number}" for number in range(10_000)]
    rows, _ = run(tmp_path, "openinference", span(1, "RETRIEVER", input__value="q", **documents(*chunk_ids)))
    assert ids(rows[0]) == chunk_ids


def test_a_trace_of_many_calls_in_a_chain_of_parents(tmp_path: Path) -> None:
    """Depth of the tree is no depth of recursion."""
    chain = [span(number % 60, "CHAIN") for number in range(3000)]
    for number, link in enumerate(chain, start=1):
        link["context"] = {"trace_id": TRACE, "span_id": f"{number:016x}"}
        link["parent_id"] = f"{number - 1:016x}" if number > 1 else None
    chain[0]["attributes"] |= {"openinference.span.kind": "RETRIEVER", **documents("a")}  # type: ignore[operator]
    chain[-1]["attributes"] |= {"openinference.span.kind": "RETRIEVER", **documents("b")}  # type: ignore[operator]
    rows, report = run(tmp_path, "openinference", *chain[::-1])
    assert [ids(row) for row in rows] == [["a"]]
    assert report.skipped == {"no retrieval: CHAIN": 2998, "nested in another retrieval of the same call": 1}


@pytest.mark.parametrize(
    "parents", [{1: 1}, {1: 2, 2: 1}, {1: 2, 2: 3, 3: 1}, {1: 99}], ids=["own", "two", "three", "absent"]
)
def test_parents_without_an_end(tmp_path: Path, parents: Mapping[int, int]) -> None:
    spans = [
        span(number, "RETRIEVER", parent=parents.get(number), input__value=f"q{number}", **documents(f"d{number}"))
        for number in (1, 2, 3)
    ]
    rows, report = run(tmp_path, "openinference", *spans)
    n_rows = {1: {1: 3, 99: 3}, 2: {2: 2}, 3: {2: 1}}[len(parents)]
    assert len(rows) == n_rows[parents[1]]
    assert rows[0]["query"] == "q1"
    assert total(report) == 3


def test_kinds_that_nobody_knows(tmp_path: Path) -> None:
    _, report = run(
        tmp_path,
        "openinference",
        span(1, "GUARDRAIL"),
        changed(span(2, ""), 7, "attributes", "openinference.span.kind"),
        changed(span(3, ""), ["RETRIEVER"], "attributes", "openinference.span.kind"),
        span(4, "retriever", input__value="q", **documents("a")),
    )
    assert report.rows == {"retrieval_traces": 1}
    assert report.skipped == {
        "no retrieval: GUARDRAIL": 1,
        "no retrieval: 7": 1,
        "no retrieval: no openinference.span.kind": 1,
    }


def test_the_end_before_the_start_has_no_duration(tmp_path: Path) -> None:
    rows, _ = run(tmp_path, "openinference", changed(OPENINFERENCE, "2026-11-30T11:00:00Z", "end_time"))
    assert "retrieval_latency_ms" not in rows[0]


def test_scores_that_are_no_numbers(tmp_path: Path) -> None:
    one = span(1, "RETRIEVER", input__value="q", **documents("a", "b", "c", "d", "e"))
    scores = [math.nan, math.inf, "0.5", True, [1]]
    for place, score in enumerate(scores):
        one["attributes"][f"retrieval.documents.{place}.document.score"] = score  # type: ignore[index]
    rows, _ = run(tmp_path, "openinference", one)
    assert [item["score"] for item in rows[0]["retrieved"]] == [None, None, 0.5, None, None]  # type: ignore[attr-defined]


def test_trec_lines_that_are_none(tmp_path: Path) -> None:
    run_file = tmp_path / "run.txt"
    run_file.write_bytes(
        b"q1 Q0 d1 1 1.5 tag\n\xff Q0 d2 1 1 tag\nq1 Q0 d3\nq1 Q0 d4 1 high tag\n\n\nq1 Q0 d1 2 0.5 tag"
    )
    report = ingest("trec-run", [run_file], tmp_path / "landing")
    assert report.rows == {"retrieval_traces": 1}
    assert report.unmapped == {
        "not UTF-8": 1,
        "not 6 columns: query_id Q0 doc_id rank score run_tag": 1,
        "score is no number": 1,
    }


# random damage

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.just(10**400),
    st.floats(),
    st.text(max_size=4),
    st.sampled_from(["", " ", "[]", "{}", "[null]", '"', "NaN", "null", "\ud800", "RETRIEVER", "2026-11-30T12:00:00Z"]),
    st.just([]),
    st.just({}),
    st.just([None, 1, "x", {"id": None}]),
    st.just({"id": {"id": []}, "documents": 7}),
)


def places(value: Json, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in members:
        yield (*path, key)
        yield from places(inner, (*path, key))


def recorded(name: str, tree: Mapping[str, Any] | None = None) -> list[Json]:
    """The records of a recorded export; with `tree`, its spans with what is around them folded in."""
    found = read_records(EXPORTS / name, tree or {})
    return [{**record.around, **record.value} for record in found]  # type: ignore[union-attr]


POOLS: dict[str, list[Json]] = {
    "openinference": [*recorded("llamaindex.spans.jsonl")[:2], *recorded("haystack.spans.jsonl")[:3], OPENINFERENCE],
    "otel-genai": [GENAI, *recorded("llamaindex.otlp.jsonl", SPAN_TREE)[:1]],
    "langsmith": [LANGSMITH, {**LANGSMITH, "inputs": None, "outputs": {}}, {**LANGSMITH, "id": "r2"}],
    "langfuse": [LANGFUSE, {**LANGFUSE, "id": "o2"}, *recorded("langfuse.otlp.jsonl", SPAN_TREE)[:2]],
    "bedrock": [BEDROCK],
}


@st.composite
def damaged(draw: st.DrawFn, name: str) -> list[Json]:
    """Some records of a format, in any order and number, with odd values or nothing at random places."""
    chosen = draw(st.lists(st.sampled_from(POOLS[name]), min_size=1, max_size=5))
    records = [copy.deepcopy(record) for record in chosen]
    for _ in range(draw(st.integers(0, 4))):
        record = draw(st.sampled_from(records))
        all_places = list(places(record))
        if not all_places:
            continue
        *above, last = draw(st.sampled_from(all_places))
        inner = record
        for step in above:
            inner = inner[step]
        if draw(st.booleans()):
            inner[last] = copy.deepcopy(draw(ODD))
        else:
            del inner[last]
    return records


@pytest.mark.parametrize("name", POOLS)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_damage_is_counted_and_never_raises(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    """Each record is exactly one row, or has one reason why it is none; annotations come on top."""
    records = data.draw(damaged(name))
    folder = tmp_path_factory.mktemp("damaged")
    export = save(folder / "export.jsonl", *records)
    report = ingest(name, [export], folder / "landing")

    n_feedback = report.rows.get("feedback", 0) + sum(
        count for reason, count in report.unmapped.items() if reason.startswith(("feedback", "annotation", "session"))
    )
    assert total(report) - n_feedback == len(records)
    rows = written(folder / "landing")
    assert len(rows) == report.rows.get("retrieval_traces", 0)
    if "trace_id" in (rows[0] if rows else {}):
        assert max(Counter(row.get("trace_id") for row in rows).values()) == 1 or name == "bedrock"
    if rows:
        check_landing(folder / "landing")


@settings(deadline=None, max_examples=60)
@given(cut=st.integers(0, 6000), junk=st.binary(max_size=20))
@pytest.mark.parametrize("recorded_name", sorted(path.name for path in EXPORTS.glob("*.jsonl")))
def test_bytes_cut_out_of_an_export_never_raise(
    tmp_path_factory: pytest.TempPathFactory, recorded_name: str, cut: int, junk: bytes
) -> None:
    content = (EXPORTS / recorded_name).read_bytes()
    path = tmp_path_factory.mktemp("cut") / "export"
    path.write_bytes(content[:cut] + junk + content[cut + len(junk) + 5 :])
    for adapter in (ADAPTERS["openinference"], ADAPTERS["mlflow"], ADAPTERS["langfuse"]):
        items = list(adapter.read([path]))
        assert all(isinstance(item, LandingRow) or item.reason for item in items)
        assert items
