"""OpenInference spans: RETRIEVER and RERANKER, and annotations as feedback.

https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from retrieval_quality.adapters.calls import Node, Step
from retrieval_quality.adapters.documents import (
    CHUNK_IDS_IN_METADATA,
    DOCUMENT_IDS,
    SCORES,
    read_documents,
    read_query,
)
from retrieval_quality.adapters.feedback import feedback_row
from retrieval_quality.adapters.rows import (
    Document,
    Item,
    Unmapped,
    first_of,
    make_document,
    mapping_of,
    metadata_values,
    text_of,
    whole_number_of,
)
from retrieval_quality.adapters.spans import Convention, Span, indexed, rows_of_spans

_KIND: Final = "openinference.span.kind"
_REDACTED: Final = "__REDACTED__"
_STEPS: Final = ("RETRIEVER", "RERANKER")
_ALWAYS_KEPT: Final = (_KIND, "session.id", "user.id")
_ANNOTATIONS: Final = ("annotations", "session.annotations")


def read_openinference(paths: Sequence[Path]) -> Iterator[Item]:
    """Rows of OpenInference spans in JSON lines (Phoenix, OpenTelemetry SDK) or OTLP/JSON."""
    return rows_of_spans(paths, OPENINFERENCE)


def _node(span: Span) -> Node:
    kind = (text_of(span.attributes.get(_KIND)) or "").upper()
    return Node(
        where=f"{span.where} span {span.span_id}",
        span_id=span.span_id,
        parent_id=span.parent_id,
        start_us=span.start_us,
        end_us=span.end_us,
        step=_retriever(span) if kind == "RETRIEVER" else _reranker(span) if kind == "RERANKER" else None,
        label=kind or f"no {_KIND}",
        session_id=text_of(span.attributes.get("session.id")),
        user_id=text_of(span.attributes.get("user.id")),
    )


def _retriever(span: Span) -> Step:
    attributes = span.attributes
    told = indexed(attributes, "retrieval.documents", "document.")
    output = attributes.get("output.value")
    documents = _documents(told, output) if told else read_documents(output)
    if documents is None and attributes.get("retrieval.documents") == []:
        documents = ()
    return Step(
        kind="retriever",
        query=read_query(attributes.get("input.value")),
        documents=None if documents == () and span.error else documents,
        error=span.error,
        problem=_problem(output),
        values=_values(span),
    )


def _reranker(span: Span) -> Step:
    attributes = span.attributes
    told = indexed(attributes, "reranker.output_documents", "document.")
    output = attributes.get("output.value")
    return Step(
        kind="reranker",
        query=text_of(attributes.get("reranker.query")) or read_query(attributes.get("input.value")),
        documents=_documents(told, output) if told else read_documents(output),
        inputs=_documents(indexed(attributes, "reranker.input_documents", "document."), None),
        error=span.error,
        problem=_problem(output),
        values=_values(span),
    )


def _documents(told: Sequence[Mapping[str, object]], output: object) -> tuple[Document, ...]:
    """Documents of the attributes; ids that are missing there (LangChain) from `output.value`, which
    lists the same documents in the same order.
    """
    in_output = read_documents(output) or ()
    others = in_output if len(in_output) == len(told) else (None,) * len(told)
    return tuple(_document(member, other) for member, other in zip(told, others, strict=True))


def _document(member: Mapping[str, object], other: Document | None) -> Document:
    metadata = mapping_of(member.get("metadata"))
    chunk_id = first_of(member, ("id",))
    if chunk_id is None and other is not None and other.chunk_id and not other.is_built and other.doc_id is None:
        chunk_id = other.chunk_id
    score = first_of(member, ("score",))
    if score is None:
        score = first_of(metadata, SCORES)
    if score is None and other is not None:
        score = other.score
    return make_document(
        chunk_id=chunk_id if chunk_id is not None else first_of(metadata, CHUNK_IDS_IN_METADATA),
        doc_id=first_of(metadata, DOCUMENT_IDS),
        content=text_of(member.get("content")),
        score=score,
    )


def _problem(output: object) -> str:
    if output is None:
        return "no documents: neither document attributes nor output.value"
    if output == _REDACTED:
        return "documents are hidden: output.value is redacted"
    return "documents cannot be read from output.value"


def _values(span: Span) -> dict[str, object]:
    attributes = span.attributes
    inputs = mapping_of(attributes.get("input.value"))
    top_k = whole_number_of(inputs.get("top_k")) or whole_number_of(attributes.get("reranker.top_k"))
    filters = inputs.get("filters")
    return {
        **metadata_values(mapping_of(attributes.get("metadata"))),
        **({"top_k": top_k} if top_k is not None else {}),
        **({"filters": filters} if filters else {}),
    }


def _feedback(span: Span, trace_id: str, session_id: str | None) -> Iterator[Item]:
    """Annotations of the span speak of its trace, those of the session of the session alone.

    Session annotations are on every span of a session: their feedback id is made of the session
    and the annotation, so that they count once.
    """
    where = f"{span.where} span {span.span_id}"
    members = [*indexed(span.attributes, "annotations", "annotation."), *span.annotations]
    for number, member in enumerate(members):
        yield _annotation(f"{where} annotation {number}", span, member, trace_id, session_id)
    for number, session_member in enumerate(indexed(span.attributes, "session.annotations", "annotation.")):
        yield _annotation(f"{where} session annotation {number}", span, session_member, None, session_id)


def _annotation(
    where: str, span: Span, member: Mapping[str, object], trace_id: str | None, session_id: str | None
) -> Item:
    result = mapping_of(member.get("result"))
    given_at = first_of(member, ("created_at", "updated_at", "timestamp"))
    if trace_id is None and session_id is None:
        return Unmapped(where, "session annotation without session.id")
    name = text_of(first_of(member, ("name", "annotation_name"))) or ""
    told = first_of(result or member, ("label", "score"))
    spoken_of = f"{trace_id}:{span.span_id}" if trace_id else session_id
    return feedback_row(
        where,
        feedback_id=text_of(member.get("id")) or f"{spoken_of}:{name}:{told}",
        trace_id=trace_id,
        session_id=session_id,
        label=first_of(result or member, ("label",)),
        score=first_of(result or member, ("score",)),
        given_at=given_at if given_at is not None else span.end_us or span.start_us,
        rater=first_of(member, ("annotator_kind",)),
        user=first_of(member, ("user_id", "identifier")),
        name=name,
    )


def _kept(span: Span) -> Mapping[str, object]:
    """All of a step, of other spans what they say of session, user and feedback."""
    attributes = span.attributes
    if (text_of(attributes.get(_KIND)) or "").upper() in _STEPS:
        return attributes
    return {key: value for key, value in attributes.items() if key in _ALWAYS_KEPT or key.startswith(_ANNOTATIONS)}


OPENINFERENCE: Final = Convention(node=_node, feedback=_feedback, kept=_kept)
