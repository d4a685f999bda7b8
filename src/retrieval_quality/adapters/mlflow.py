"""MLflow traces: one JSON object per trace, with `info` and `data.spans`.

https://mlflow.org/docs/latest/genai/concepts/trace/
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from retrieval_quality.adapters.attributes import otel_id
from retrieval_quality.adapters.calls import Node, Step, row_ids, rows_of_trace
from retrieval_quality.adapters.documents import read_documents, read_query
from retrieval_quality.adapters.feedback import feedback_row
from retrieval_quality.adapters.reading import Record, Tree, read_records
from retrieval_quality.adapters.rows import (
    Item,
    Skipped,
    Unmapped,
    first_of,
    json_of,
    list_of,
    mapping_of,
    metadata_values,
    text_of,
    whole_number_of,
)
from retrieval_quality.adapters.spans import Span, node_of, read_span

_TREE: Final[Tree] = {"traces": {}}
_TYPE: Final = "mlflow.spanType"
_INPUTS: Final = "mlflow.spanInputs"
_OUTPUTS: Final = "mlflow.spanOutputs"


def read_mlflow(paths: Sequence[Path]) -> Iterator[Item]:
    """Rows of the traces, and of their assessments as feedback."""
    for path in paths:
        for record in read_records(path, _TREE):
            if isinstance(record, Unmapped):
                yield record
            else:
                yield from _rows_of(record)


def _rows_of(record: Record) -> Iterator[Item]:
    # a row of the data frame of `search_traces` has the trace as JSON text
    value = record.value if "info" in record.value else mapping_of(record.value.get("trace"))
    info = mapping_of(value.get("info"))
    trace_id = text_of(first_of(info, ("trace_id", "request_id")))
    spans = list_of(mapping_of(value.get("data")).get("spans"))
    if trace_id is None:
        yield Unmapped(record.where, "no trace: info has neither trace_id nor request_id")
        return
    metadata = {**_request_metadata(info.get("request_metadata")), **_request_metadata(info.get("trace_metadata"))}
    session_id = text_of(metadata.get("mlflow.trace.session"))
    user_id = text_of(metadata.get("mlflow.trace.user"))
    rated: dict[str, str] = {}
    if spans is None:
        yield Unmapped(record.where, "no spans: data.spans is no list")
    else:
        nodes: list[Node] = []
        for number, member in enumerate(spans):
            # spans of MLflow 2 lack their trace's id in places: the trace is known here
            span = read_span(f"{record.where} span {number}", {"trace_id": trace_id, **mapping_of(member)})
            if isinstance(span, Unmapped):
                yield span
            else:
                nodes.append(_node(span, session_id, user_id, metadata))
        items = list(rows_of_trace(trace_id, nodes))
        yield from items
        rated = row_ids(trace_id, nodes, items)
    assessments = info.get("assessments")
    for number, member in enumerate(assessments if isinstance(assessments, list) else []):
        assessment = mapping_of(member)
        spoken_of = rated.get(otel_id(assessment.get("span_id")) or "", trace_id)
        yield _feedback(f"{record.where} assessment {number}", assessment, spoken_of, session_id)


def _request_metadata(value: object) -> Mapping[str, object]:
    """A mapping, or the list of {key, value} of older exports."""
    if isinstance(value, list):
        pairs = [mapping_of(pair) for pair in value]
        return {str(pair.get("key")): pair.get("value") for pair in pairs}
    return mapping_of(value)


def _node(span: Span, session_id: str | None, user_id: str | None, metadata: Mapping[str, object]) -> Node:
    kind = (text_of(json_of(span.attributes.get(_TYPE))) or "").upper()
    step = _step(span, kind, metadata) if kind in ("RETRIEVER", "RERANKER") else None
    return replace(node_of(span, step, kind or f"no {_TYPE}"), session_id=session_id, user_id=user_id)


def _step(span: Span, kind: str, metadata: Mapping[str, object]) -> Step:
    inputs = json_of(span.attributes.get(_INPUTS))
    outputs = json_of(span.attributes.get(_OUTPUTS))
    asked = mapping_of(inputs)
    documents = read_documents(outputs)
    top_k = whole_number_of(first_of(asked, ("top_k", "k", "num_results")))
    return Step(
        kind="retriever" if kind == "RETRIEVER" else "reranker",
        query=read_query(inputs),
        documents=None if documents == () and span.error else documents,
        inputs=(read_documents(asked) or ()) if kind == "RERANKER" else (),
        error=span.error,
        problem=f"no documents: {_OUTPUTS} is missing"
        if outputs is None
        else f"documents cannot be read from {_OUTPUTS}",
        values={**metadata_values(metadata), **({"top_k": top_k} if top_k is not None else {})},
    )


def _feedback(where: str, assessment: Mapping[str, object], trace_id: str, session_id: str | None) -> Item:
    if "feedback" not in assessment:
        return Skipped(where, "no feedback: an expectation")
    if assessment.get("valid") is False:
        return Skipped(where, "feedback that was overridden")
    source = mapping_of(assessment.get("source"))
    value = mapping_of(assessment["feedback"]).get("value")
    return feedback_row(
        where,
        feedback_id=text_of(assessment.get("assessment_id")),
        trace_id=trace_id,
        session_id=session_id,
        label=value if isinstance(value, str) else None,
        score=value,
        given_at=first_of(assessment, ("create_time", "last_update_time")),
        rater=source.get("source_type"),
        user=source.get("source_id"),
        name=text_of(assessment.get("assessment_name")) or "",
    )
