"""MLflow traces: one JSON object per trace, with `info` and `data.spans`.

https://mlflow.org/docs/latest/genai/concepts/trace/
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from retrieval_quality.adapters.calls import Node, Step, rows_of_trace
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
from retrieval_quality.adapters.spans import Span, read_span

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
    info = mapping_of(record.value.get("info"))
    trace_id = text_of(first_of(info, ("trace_id", "request_id")))
    spans = list_of(mapping_of(record.value.get("data")).get("spans"))
    if trace_id is None:
        yield Unmapped(record.where, "no trace: info has neither trace_id nor request_id")
        return
    metadata = {**_request_metadata(info.get("request_metadata")), **_request_metadata(info.get("trace_metadata"))}
    session_id = text_of(metadata.get("mlflow.trace.session"))
    user_id = text_of(metadata.get("mlflow.trace.user"))
    if spans is None:
        yield Unmapped(record.where, "no spans: data.spans is no list")
    else:
        nodes: list[Node] = []
        for number, member in enumerate(spans):
            # spans of MLflow 2 lack their trace's id in places: the trace is known here
            values = {"trace_id": trace_id, **mapping_of(member)}
            span = read_span(f"{record.where} span {number}", values)
            if isinstance(span, Unmapped):
                yield span
            else:
                nodes.append(_node(span, session_id, user_id, metadata))
        yield from rows_of_trace(trace_id, nodes)
    assessments = info.get("assessments")
    for number, assessment in enumerate(assessments if isinstance(assessments, list) else []):
        where = f"{record.where} assessment {number}"
        yield _feedback(where, mapping_of(assessment), trace_id, session_id)


def _request_metadata(value: object) -> Mapping[str, object]:
    """A mapping, or the list of {key, value} of older exports."""
    if isinstance(value, list):
        pairs = [mapping_of(pair) for pair in value]
        return {str(pair.get("key")): pair.get("value") for pair in pairs}
    return mapping_of(value)


def _node(span: Span, session_id: str | None, user_id: str | None, metadata: Mapping[str, object]) -> Node:
    kind = (text_of(json_of(span.attributes.get(_TYPE))) or "").upper()
    return Node(
        where=f"{span.where} ({span.span_id})",
        span_id=span.span_id,
        parent_id=span.parent_id,
        start_us=span.start_us,
        end_us=span.end_us,
        step=_step(span, "retriever" if kind == "RETRIEVER" else "reranker", metadata)
        if kind in ("RETRIEVER", "RERANKER")
        else None,
        label=kind or f"no {_TYPE}",
        session_id=session_id,
        user_id=user_id,
    )


def _step(span: Span, kind: str, metadata: Mapping[str, object]) -> Step:
    inputs = json_of(span.attributes.get(_INPUTS))
    outputs = json_of(span.attributes.get(_OUTPUTS))
    asked = mapping_of(inputs)
    documents = read_documents(outputs)
    top_k = whole_number_of(first_of(asked, ("top_k", "k", "num_results")))
    return Step(
        kind="retriever" if kind == "retriever" else "reranker",
        query=read_query(inputs),
        documents=None if documents == () and span.error else documents,
        inputs=(read_documents(asked) or ()) if kind == "reranker" else (),
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
