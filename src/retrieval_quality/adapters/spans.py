"""OpenTelemetry spans in any of their JSON encodings, as one shape."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Final

from retrieval_quality.adapters.attributes import attributes_of, flat_attributes, one_of, otel_id
from retrieval_quality.adapters.calls import Node, Step, row_ids, rows_of_trace, session_of
from retrieval_quality.adapters.reading import TOO_DEEP, Record, Spool, Tree, read_records
from retrieval_quality.adapters.rows import (
    METADATA_KEYS,
    Item,
    LandingRow,
    Skipped,
    Unmapped,
    first_of,
    mapping_of,
    metadata_values,
    text_of,
    time_us,
    without_none,
)

# OTLP/JSON, with the name of scopeSpans before OTLP 0.15, and with the names of the protocol buffers;
# `data`: Phoenix's REST answer; `spans`: traces of Phoenix's command line
SPAN_TREE: Final[Tree] = {
    "resourceSpans": {
        "scopeSpans": {"spans": {}},
        "instrumentationLibrarySpans": {"spans": {}},
    },
    "resource_spans": {"scope_spans": {"spans": {}}},
    "data": {},
    "spans": {},
}

_SAME_FEEDBACK: Final = "the same feedback again"
# https://opentelemetry.io/docs/specs/semconv/resource/deployment-environment/
_ENVIRONMENTS: Final = ("deployment.environment.name", "deployment.environment", "environment")
_SESSIONS: Final = ("session.id",)
_USERS: Final = ("user.id", "enduser.id")
_OF_RESOURCE: Final = (*_ENVIRONMENTS, *_SESSIONS, *_USERS, *METADATA_KEYS, "sample_rate")


@dataclass(frozen=True)
class Span:
    """One span. Ids are lower-case hex without 0x where they are OpenTelemetry ids, else as given.

    Times in microseconds since 1970 UTC. `attributes`: flat, keys joined by dots. `error`: the
    message of a span with status ERROR. `annotations`: what was attached to it later. `resource`:
    of the attributes of the process those that say something of a retrieval.
    """

    where: str
    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    start_us: int | None
    end_us: int | None
    attributes: Mapping[str, object]
    error: str | None = None
    annotations: tuple[Mapping[str, object], ...] = ()
    resource: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Convention:
    """How a semantic convention is read.

    `node`: that of a span. `feedback`: its rows, given the id of the retrieval that a span is in, and
    the session. `kept`: the attributes that these two need. `annotated`: the id of the span that a
    record speaks of, where it is an annotation and no span.
    """

    node: Callable[[Span], Node]
    feedback: Callable[[Span, str, str | None], Iterator[Item]]
    kept: Callable[[Span], Mapping[str, object]]
    annotated: Callable[[Mapping[str, object]], str | None]


def read_span(where: str, record: Mapping[str, object], around: Mapping[str, object] | None = None) -> Span | Unmapped:
    """A span of OTLP/JSON, of the SDK's JSON, of Phoenix (nested, or `context.span_id` columns).

    `around`: what the objects that hold it say, such as `resource`.
    """
    context = mapping_of(record.get("context"))
    trace_id = otel_id(
        one_of(record.get("traceId"), context.get("trace_id"), record.get("context.trace_id"), record.get("trace_id"))
    )
    span_id = otel_id(
        one_of(record.get("spanId"), context.get("span_id"), record.get("context.span_id"), record.get("span_id"))
    )
    if trace_id is None and span_id is None:
        return Unmapped(where, "no span: neither trace id nor span id")
    if trace_id is None or span_id is None:
        return Unmapped(where, "no trace id" if trace_id is None else "no span id")
    columns = {key.removeprefix("attributes."): value for key, value in record.items() if key.startswith("attributes.")}
    kind = record.get("span_kind")
    attributes = {
        **({"openinference.span.kind": kind} if isinstance(kind, str) else {}),
        **flat_attributes(columns),
        **attributes_of(record.get("attributes")),
    }
    start = one_of(record.get("startTimeUnixNano"), record.get("start_time_unix_nano"), record.get("start_time"))
    end = one_of(record.get("endTimeUnixNano"), record.get("end_time_unix_nano"), record.get("end_time"))
    annotations = one_of(record.get("annotations"), record.get("span_annotations"))
    resource = mapping_of(one_of(record.get("resource"), (around or {}).get("resource")))
    of_resource = attributes_of(resource.get("attributes"))
    return Span(
        where=where,
        trace_id=trace_id,
        span_id=span_id,
        parent_id=otel_id(one_of(record.get("parentSpanId"), record.get("parent_id"), record.get("parent_span_id"))),
        name=text_of(record.get("name")) or "",
        start_us=time_us(start),
        end_us=time_us(end),
        attributes=attributes,
        error=_error_of(record),
        annotations=tuple(a for a in annotations if isinstance(a, Mapping)) if isinstance(annotations, list) else (),
        resource={key: of_resource[key] for key in _OF_RESOURCE if key in of_resource},
    )


def node_of(
    span: Span,
    step: Step | None,
    label: str,
    sessions: Sequence[str] = _SESSIONS,
    users: Sequence[str] = _USERS,
) -> Node:
    """The node of a span: session and user are the first of these attributes, else the process's."""
    return Node(
        where=f"{span.where} span {span.span_id}",
        span_id=span.span_id,
        parent_id=span.parent_id,
        start_us=span.start_us,
        end_us=span.end_us,
        step=step,
        label=label,
        session_id=text_of(first_of(span.attributes, sessions)) or text_of(first_of(span.resource, _SESSIONS)),
        user_id=text_of(first_of(span.attributes, users)) or text_of(first_of(span.resource, _USERS)),
    )


def resource_values(span: Span) -> dict[str, object]:
    """What the process says under names of the contract."""
    environment = text_of(first_of(span.resource, _ENVIRONMENTS))
    return without_none({**metadata_values(span.resource), "environment": environment})


def rows_of_spans(paths: Sequence[Path], convention: Convention) -> Iterator[Item]:
    """The rows of all traces in `paths`; spans of one trace, and annotations of a span that are
    records of their own, may lie anywhere in them.
    """
    with Spool() as spool, Spool() as remarks:
        n_remarks = 0
        for path in paths:
            for record in read_records(path, SPAN_TREE):
                if isinstance(record, Unmapped):
                    yield record
                elif (spoken_of := convention.annotated(record.value)) is not None:
                    n_remarks += 1
                    if not remarks.add(spoken_of, {**record.value, "where": record.where}):
                        yield Unmapped(record.where, TOO_DEEP)
                elif (fault := _spooled(record, convention, spool)) is not None:
                    yield fault
        for group in spool.groups():
            spans = [_unpacked(payload) for payload in group]
            yield from _rows_of_trace([_annotated(span, remarks) for span in spans] if n_remarks else spans, convention)
        for left in remarks.groups():
            yield from (
                Unmapped(str(mapping_of(remark)["where"]), "annotation of a span that is not in the export")
                for remark in left
            )


def _rows_of_trace(spans: Sequence[Span], convention: Convention) -> Iterator[Item]:
    """The rows of one trace: its retrievals, then its feedback."""
    nodes = [convention.node(span) for span in spans]
    trace_id = spans[0].trace_id
    items = list(rows_of_trace(trace_id, nodes))
    yield from items
    rated = row_ids(trace_id, nodes, items)
    seen: set[object] = set()
    for span in spans:
        for item in convention.feedback(span, rated[span.span_id], session_of(nodes)):
            key = item.values["feedback_id"] if isinstance(item, LandingRow) else item
            yield Skipped(f"{span.where} span {span.span_id}", _SAME_FEEDBACK) if key in seen else item
            seen.add(key)


def _spooled(record: Record, convention: Convention, spool: Spool) -> Unmapped | None:
    span = read_span(record.where, record.value, record.around)
    if isinstance(span, Unmapped):
        return span
    is_kept = spool.add(span.trace_id, _packed(span, convention.kept(span)))
    return None if is_kept else Unmapped(record.where, TOO_DEEP)


def _annotated(span: Span, remarks: Spool) -> Span:
    added = [mapping_of(remark) for remark in remarks.take(span.span_id)]
    return replace(span, annotations=(*span.annotations, *added)) if added else span


def _error_of(record: Mapping[str, object]) -> str | None:
    status = mapping_of(record.get("status"))
    code = str(one_of(status.get("code"), status.get("status_code"), record.get("status_code")))
    if code not in ("2", "ERROR", "STATUS_CODE_ERROR", "StatusCode.ERROR"):
        return None
    message = one_of(status.get("message"), status.get("description"), record.get("status_message"))
    return text_of(message) or "error"


def _packed(span: Span, attributes: Mapping[str, object]) -> dict[str, object]:
    return {**{field.name: getattr(span, field.name) for field in fields(span)}, "attributes": attributes}


def _unpacked(payload: object) -> Span:
    assert isinstance(payload, dict)
    payload["annotations"] = tuple(payload["annotations"])
    return Span(*(payload[field.name] for field in fields(Span)))
