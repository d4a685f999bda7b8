"""OpenTelemetry spans in any of their JSON encodings, as one shape."""

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from retrieval_quality.adapters.calls import Node, rows_of_trace, session_of
from retrieval_quality.adapters.reading import Spool, Tree, read_records
from retrieval_quality.adapters.rows import Item, LandingRow, Unmapped, mapping_of, text_of, time_us

# OTLP/JSON, with the name of scopeSpans before OTLP 0.15; `data`: Phoenix's REST answer
SPAN_TREE: Final[Tree] = {
    "resourceSpans": {
        "scopeSpans": {"spans": {}},
        "instrumentationLibrarySpans": {"spans": {}},
    },
    "data": {},
}

_HEX: Final = re.compile(r"(0x)?([0-9a-fA-F]{16}|[0-9a-fA-F]{32})")
_ID_BYTES: Final = (8, 16)
# values that stay whole when nested attributes are made flat
_WHOLE: Final = ("metadata", "gen_ai.retrieval.documents", "mlflow.spanInputs", "mlflow.spanOutputs")


@dataclass(frozen=True)
class Span:
    """One span. Ids are lower-case hex without 0x where they are OpenTelemetry ids, else as given.

    Times in microseconds since 1970 UTC. `attributes`: flat, keys joined by dots. `error`: the
    message of a span with status ERROR. `annotations`: what was attached to it later.
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


@dataclass(frozen=True)
class Convention:
    """How a semantic convention is read: the node of a span, and its feedback rows given the trace
    id of its trace and the session.
    """

    node: Callable[[Span], Node]
    feedback: Callable[[Span, str, str | None], Iterator[Item]]
    kept: Callable[[Span], Mapping[str, object]]


def read_span(where: str, record: Mapping[str, object]) -> Span | Unmapped:
    """A span of OTLP/JSON, of the SDK's JSON, of Phoenix (nested, or `context.span_id` columns)."""
    context = mapping_of(record.get("context"))
    trace_id = otel_id(
        _first(record.get("traceId"), context.get("trace_id"), record.get("context.trace_id"), record.get("trace_id"))
    )
    span_id = otel_id(
        _first(record.get("spanId"), context.get("span_id"), record.get("context.span_id"), record.get("span_id"))
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
        **_attributes_of(record.get("attributes")),
    }
    start = _first(record.get("startTimeUnixNano"), record.get("start_time_unix_nano"), record.get("start_time"))
    end = _first(record.get("endTimeUnixNano"), record.get("end_time_unix_nano"), record.get("end_time"))
    annotations = _first(record.get("annotations"), record.get("span_annotations"))
    return Span(
        where=where,
        trace_id=trace_id,
        span_id=span_id,
        parent_id=otel_id(_first(record.get("parentSpanId"), record.get("parent_id"), record.get("parent_span_id"))),
        name=text_of(record.get("name")) or "",
        start_us=time_us(start),
        end_us=time_us(end),
        attributes=attributes,
        error=_error_of(record),
        annotations=tuple(a for a in annotations if isinstance(a, Mapping)) if isinstance(annotations, list) else (),
    )


def rows_of_spans(paths: Sequence[Path], convention: Convention, tree: Tree = SPAN_TREE) -> Iterator[Item]:
    """The rows of all traces in `paths`; spans of one trace may lie anywhere in them."""
    with Spool() as spool:
        for path in paths:
            for record in read_records(path, tree):
                span = record if isinstance(record, Unmapped) else read_span(record.where, record.value)
                if isinstance(span, Unmapped):
                    yield span
                else:
                    spool.add(span.trace_id, _packed(span, convention.kept(span)))
        for group in spool.groups():
            yield from rows_of_group([_unpacked(payload) for payload in group], convention)


def rows_of_group(spans: Sequence[Span], convention: Convention, trace_id: str | None = None) -> Iterator[Item]:
    """The rows of one trace: its retrievals, then its feedback."""
    nodes = [convention.node(span) for span in spans]
    row_id = trace_id or spans[0].trace_id
    yield from rows_of_trace(row_id, nodes)
    seen: set[object] = set()
    for span in spans:
        for item in convention.feedback(span, row_id, session_of(nodes)):
            key = item.values["feedback_id"] if isinstance(item, LandingRow) else item
            if key not in seen:
                seen.add(key)
                yield item


def otel_id(value: object) -> str | None:
    """Lower-case hex of a hex id (with or without 0x) or of a base64 id; other ids as they are.

    An id of zeros is none.
    """
    text = text_of(value)
    if text is None:
        return None
    if match := _HEX.fullmatch(text):
        return match[2].lower() if match[2].strip("0") else None
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text
    if len(raw) not in _ID_BYTES or not text.endswith("="):
        return text
    return raw.hex() if any(raw) else None


def flat_attributes(attributes: Mapping[str, object]) -> dict[str, object]:
    """Nested attributes under keys joined by dots; list positions are keys too."""
    flat: dict[str, object] = {}
    for key, value in attributes.items():
        _flatten(key, value, flat)
    return flat


def indexed(attributes: Mapping[str, object], prefix: str, inner: str = "") -> list[dict[str, object]]:
    """The list under `prefix.N.`: its members' values by what follows `inner` (such as `document.`).

    In the order of N; gaps close.
    """
    members: dict[int, dict[str, object]] = {}
    for key, value in attributes.items():
        if key.startswith(prefix + "."):
            position, _, rest = key[len(prefix) + 1 :].partition(".")
            if position.isdecimal() and rest:
                members.setdefault(int(position), {})[rest.removeprefix(inner)] = value
    return [members[position] for position in sorted(members)]


def _flatten(key: str, value: object, flat: dict[str, object]) -> None:
    if isinstance(value, dict) and value and not key.endswith(_WHOLE):
        for below, inner in value.items():
            _flatten(f"{key}.{below}", inner, flat)
    elif isinstance(value, list) and value and isinstance(value[0], dict) and not key.endswith(_WHOLE):
        for position, inner in enumerate(value):
            _flatten(f"{key}.{position}", inner, flat)
    else:
        flat[key] = value


def _attributes_of(attributes: object) -> dict[str, object]:
    if isinstance(attributes, list):  # OTLP: [{key, value: {stringValue: ...}}]
        pairs = [pair for pair in attributes if isinstance(pair, Mapping)]
        return flat_attributes({str(pair.get("key")): any_value(pair.get("value")) for pair in pairs})
    return flat_attributes(mapping_of(attributes))


def any_value(value: object) -> object:
    """The plain value of an OTLP AnyValue; 64-bit integers come as text."""
    if not isinstance(value, Mapping):
        return value
    if "arrayValue" in value:
        inner = mapping_of(value["arrayValue"]).get("values")
        return [any_value(element) for element in inner] if isinstance(inner, list) else []
    if "kvlistValue" in value:
        inner = mapping_of(value["kvlistValue"]).get("values")
        pairs = [pair for pair in inner if isinstance(pair, Mapping)] if isinstance(inner, list) else []
        return {str(pair.get("key")): any_value(pair.get("value")) for pair in pairs}
    if "intValue" in value:
        text = str(value["intValue"])
        return int(text) if text.removeprefix("-").isdecimal() else text
    return next(iter(value.values()), None)


def _error_of(record: Mapping[str, object]) -> str | None:
    status = mapping_of(record.get("status"))
    code = str(_first(status.get("code"), status.get("status_code"), record.get("status_code")))
    if code not in ("2", "ERROR", "STATUS_CODE_ERROR", "StatusCode.ERROR"):
        return None
    message = _first(status.get("message"), status.get("description"), record.get("status_message"))
    return text_of(message) or "error"


def _first(*values: object) -> object:
    return next((value for value in values if value is not None and value != ""), None)


def _packed(span: Span, attributes: Mapping[str, object]) -> dict[str, object]:
    return {**{field.name: getattr(span, field.name) for field in fields(span)}, "attributes": attributes}


def _unpacked(payload: object) -> Span:
    assert isinstance(payload, dict)
    payload["annotations"] = tuple(payload["annotations"])
    return Span(*(payload[field.name] for field in fields(Span)))
