"""OpenTelemetry GenAI retrieval spans (status of the convention: Development).

https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from retrieval_quality.adapters.attributes import indexed
from retrieval_quality.adapters.calls import Node, Step
from retrieval_quality.adapters.documents import read_documents
from retrieval_quality.adapters.rows import Document, Item, metadata_values, text_of, whole_number_of
from retrieval_quality.adapters.spans import Convention, Span, node_of, resource_values, rows_of_spans

_OPERATION: Final = "gen_ai.operation.name"
_DOCUMENTS: Final = "gen_ai.retrieval.documents"
_QUERY: Final = "gen_ai.retrieval.query.text"
_SESSION: Final = ("gen_ai.conversation.id", "session.id")
_USER: Final = ("user.id", "enduser.id")
_ALWAYS_KEPT: Final = (_OPERATION, *_SESSION, *_USER)


def read_genai(paths: Sequence[Path]) -> Iterator[Item]:
    """Rows of spans with `gen_ai.operation.name` = retrieval, in OTLP/JSON or JSON lines."""
    return rows_of_spans(paths, GENAI)


def _is_retrieval(span: Span) -> bool:
    attributes = span.attributes
    return attributes.get(_OPERATION) == "retrieval" or _QUERY in attributes or _DOCUMENTS in attributes


def _node(span: Span) -> Node:
    label = text_of(span.attributes.get(_OPERATION)) or f"no {_OPERATION}"
    return node_of(span, _step(span) if _is_retrieval(span) else None, label, _SESSION, _USER)


def _step(span: Span) -> Step:
    attributes = span.attributes
    documents = _documents(attributes)
    top_k = whole_number_of(attributes.get("gen_ai.request.top_k"))
    error = span.error or text_of(attributes.get("error.type"))
    has_documents = _DOCUMENTS in attributes
    return Step(
        kind="retriever",
        query=text_of(attributes.get(_QUERY)),
        documents=documents,
        error=error,
        problem=f"{_DOCUMENTS} cannot be read" if has_documents else f"no documents: {_DOCUMENTS} is opt-in",
        values={
            **resource_values(span),
            **metadata_values(attributes),
            **({"top_k": top_k} if top_k is not None else {}),
        },
    )


def _documents(attributes: Mapping[str, object]) -> tuple[Document, ...] | None:
    """A list, the JSON text of one, or one attribute per member."""
    if _DOCUMENTS in attributes:
        value = attributes[_DOCUMENTS]
        # an exporter that only has lists of text writes one JSON text per document
        return read_documents(value)
    members = indexed(attributes, _DOCUMENTS)
    return read_documents(members) if members else None


def _no_feedback(span: Span, trace_id: str, session_id: str | None) -> Iterator[Item]:  # noqa: ARG001
    return iter(())


def _no_annotation(record: Mapping[str, object]) -> None:  # noqa: ARG001
    return None


def _kept(span: Span) -> Mapping[str, object]:
    if _is_retrieval(span):
        return span.attributes
    return {key: value for key, value in span.attributes.items() if key in _ALWAYS_KEPT}


GENAI: Final = Convention(node=_node, feedback=_no_feedback, kept=_kept, annotated=_no_annotation)
