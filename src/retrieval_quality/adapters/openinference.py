"""OpenInference spans: RETRIEVER and RERANKER, and annotations as feedback.

https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from retrieval_quality.adapters.attributes import below, indexed, otel_id
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
from retrieval_quality.adapters.spans import Convention, Span, node_of, resource_values, rows_of_spans

_KIND: Final = "openinference.span.kind"
_REDACTED: Final = "__REDACTED__"
_STEPS: Final = ("RETRIEVER", "RERANKER")
_ALWAYS_KEPT: Final = (_KIND, "session.id", "user.id")
_ANNOTATIONS: Final = ("annotations", "session.annotations")


def read_openinference(paths: Sequence[Path]) -> Iterator[Item]:
    """Rows of OpenInference spans in JSON lines (Phoenix, OpenTelemetry SDK) or OTLP/JSON.

    Annotations may be on the span, or records of their own as Phoenix gives them: `span_id`,
    `annotator_kind` and a result.
    """
    return rows_of_spans(paths, OPENINFERENCE)


def _node(span: Span) -> Node:
    kind = _kind(span)
    step = _retriever(span) if kind == "RETRIEVER" else _reranker(span) if kind == "RERANKER" else None
    return node_of(span, step, kind or f"no {_KIND}")


def _kind(span: Span) -> str:
    return (text_of(span.attributes.get(_KIND)) or "").upper()


def _retriever(span: Span) -> Step:
    attributes = span.attributes
    told = indexed(attributes, "retrieval.documents", "document.")
    output = attributes.get("output.value")
    documents = _documents(told, output) if told else read_documents(output)
    if documents is None and attributes.get("retrieval.documents") == []:
        documents = ()
    return Step(
        kind="retriever",
        query=_query(attributes),
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
        query=text_of(attributes.get("reranker.query")) or _query(attributes),
        documents=_documents(told, output) if told else read_documents(output),
        inputs=_documents(indexed(attributes, "reranker.input_documents", "document."), None),
        error=span.error,
        problem=_problem(output),
        values=_values(span),
    )


def _query(attributes: Mapping[str, object]) -> str | None:
    """The question; one that is plain text stays as it is, quotes and brackets too."""
    asked = attributes.get("input.value")
    if text_of(attributes.get("input.mime_type")) == "text/plain":
        return text_of(asked)
    is_quoted = isinstance(asked, str) and asked.lstrip().startswith('"')
    return text_of(asked) if is_quoted and "input.mime_type" not in attributes else read_query(asked)


def _documents(told: Sequence[Mapping[str, object]], output: object) -> tuple[Document, ...]:
    """Documents of the attributes; ids that are missing there (LangChain) from `output.value`, which
    lists the same documents in the same order.
    """
    in_output = read_documents(output) or ()
    others = in_output if len(in_output) == len(told) else (None,) * len(told)
    return tuple(_document(member, other) for member, other in zip(told, others, strict=True))


def _document(member: Mapping[str, object], other: Document | None) -> Document:
    metadata = below(member, "metadata")
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
        **resource_values(span),
        **metadata_values(below(attributes, "metadata")),
        **({"top_k": top_k} if top_k is not None else {}),
        **({"filters": filters} if filters else {}),
    }


def _feedback(span: Span, trace_id: str, session_id: str | None) -> Iterator[Item]:
    """Annotations of the span speak of its retrieval, those of the session of the session alone.

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
    result = below(member, "result")
    given_at = first_of(member, ("created_at", "updated_at", "timestamp"))
    if trace_id is None and session_id is None:
        return Unmapped(where, "session annotation without session.id")
    position = member.get("document_position")
    chunk_id = None if position is None else _chunk_at(span, position)
    if position is not None and chunk_id is None:
        return Unmapped(where, "annotation of a document that the span does not have")
    name = text_of(first_of(member, ("name", "annotation_name"))) or ""
    told = first_of(result or member, ("label", "score"))
    spoken_of = f"{span.trace_id}:{span.span_id}" if trace_id else session_id
    place = "" if chunk_id is None else f":{text_of(position)}"
    return feedback_row(
        where,
        feedback_id=text_of(member.get("id")) or f"{spoken_of}:{name}:{told}{place}",
        trace_id=trace_id,
        session_id=session_id,
        label=first_of(result or member, ("label",)),
        score=first_of(result or member, ("score",)),
        given_at=given_at if given_at is not None else span.end_us or span.start_us,
        rater=first_of(member, ("annotator_kind",)),
        user=first_of(member, ("user_id", "identifier")),
        name=name,
        chunk_ids=None if chunk_id is None else [chunk_id],
    )


def _chunk_at(span: Span, position: object) -> str | None:
    """The chunk at a place of the span's list, from 0."""
    kind, place = _kind(span), whole_number_of(position)
    step = _retriever(span) if kind == "RETRIEVER" else _reranker(span) if kind == "RERANKER" else None
    documents = step.documents if step is not None else None
    if not documents or place is None or not 0 <= place < len(documents):
        return None
    return documents[place].chunk_id or None


def _annotated(record: Mapping[str, object]) -> str | None:
    """The span that an annotation of Phoenix speaks of: from `get_span_annotations`, or a row of
    `get_span_annotations_dataframe`.
    """
    is_annotation = "annotator_kind" in record or "annotation_name" in record
    return otel_id(record.get("span_id")) if is_annotation and "start_time" not in record else None


def _kept(span: Span) -> Mapping[str, object]:
    """All of a step, of other spans what they say of session, user and feedback."""
    attributes = span.attributes
    if _kind(span) in _STEPS:
        return attributes
    return {key: value for key, value in attributes.items() if key in _ALWAYS_KEPT or key.startswith(_ANNOTATIONS)}


OPENINFERENCE: Final = Convention(node=_node, feedback=_feedback, kept=_kept, annotated=_annotated)
