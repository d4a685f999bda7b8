"""OpenInference spans, through any OpenTelemetry span exporter.

https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from retrieval_quality.emit.rows import Row
from retrieval_quality.emit.sinks.base import Sink, SinkUnavailableError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

_KIND: Final = "openinference.span.kind"
_TRACE_BYTES: Final = 16
_SPAN_BYTES: Final = 8
_JSON: Final = "application/json"
# what a span says elsewhere
_TOLD: Final = frozenset(
    {"trace_id", "session_id", "user_id", "ts", "query", "top_k", "filters", "retrieved", "candidates", "error"}
)
# feedback that means more than a rating of the whole answer
_BEYOND_ANNOTATIONS: Final = frozenset(
    {"chunk_ids", "grade", "signal", "label_class", "weight", "dwell_ms", "answer_correct", "inclusion_probability"}
)


class OTelSink(Sink):
    """A retrieval becomes a RETRIEVER span, with candidates also a RERANKER span and a CHAIN span around
    both; feedback an EVALUATOR span in the same trace; an answer an LLM span.

    `exporter`: an `opentelemetry.sdk.trace.export.SpanExporter` (needs `retrieval-quality[otel]`),
    called in the background thread; a FAILURE is tried again. `resource`: attributes of the process,
    such as `service.name`. Trace ids of 32 hex digits stay, others are hashed to that form.

    An explicit rating of a whole answer becomes an annotation, which `ingest --from openinference`
    reads. Other feedback (of named chunks, implicit, graded) has no form there: it is only in the
    span's `metadata`.
    """

    def __init__(self, exporter: "SpanExporter", resource: Mapping[str, str] | None = None) -> None:
        self._exporter = exporter
        self._resource = dict(resource or {})

    def write(self, batch: Sequence[Row]) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace.export import SpanExportResult

        resource = Resource(self._resource)
        spans = [span for row in batch for span in spans_of(row, resource)]
        if self._exporter.export(spans) is not SpanExportResult.SUCCESS:
            raise SinkUnavailableError("the span exporter reported a failure")

    def close(self) -> None:
        self._exporter.shutdown()


def spans_of(row: Row, resource: Any) -> "list[ReadableSpan]":
    """The spans of one row. `resource`: an OpenTelemetry Resource."""
    values: Mapping[str, Any] = row.values
    if row.contract == "retrieval_traces":
        return _retrieval(row, values, resource)
    start_ns = _ns(values["ts"])
    if row.contract == "feedback":
        return [_span(row, "feedback", "EVALUATOR", _feedback(values), start_ns, start_ns, resource)]
    attributes = {
        **_common(values),
        "metadata": _json(values),
        **_without_none(
            {
                "output.value": values.get("answer_text"),
                "llm.model_name": values.get("model"),
                "llm.token_count.prompt": values.get("input_tokens"),
                "llm.token_count.completion": values.get("output_tokens"),
            }
        ),
    }
    end_ns = start_ns + _ns_of_ms(values.get("latency_ms"))
    return [_span(row, "answer", "LLM", attributes, start_ns, end_ns, resource)]


def _retrieval(row: Row, values: Mapping[str, Any], resource: Any) -> "list[ReadableSpan]":
    """A search that failed is one span with the status ERROR and no documents. With candidates the
    retriever and the reranker stand side by side: one below the other would be one call.
    """
    start_ns = _ns(values["ts"])
    middle_ns = start_ns + _ns_of_ms(values.get("retrieval_latency_ms"))
    retrieved, candidates, error = values["retrieved"], values.get("candidates") or [], values.get("error")
    fault = str(error or "no result") if error or retrieved is None else None
    is_reranked = candidates != [] and retrieved is not None
    end_ns = middle_ns + _ns_of_ms(values.get("rerank_latency_ms"))
    common = _common(values)
    whole = _span(row, "search", "CHAIN", common, start_ns, end_ns, resource) if is_reranked else None
    attributes = {**common, **_input(values), "metadata": _json(_rest(values))}
    if retrieved is not None:
        attributes |= _documents("retrieval.documents", candidates if is_reranked else retrieved)
    spans = [_span(row, "retrieval", "RETRIEVER", attributes, start_ns, middle_ns, resource, fault, whole)]
    if whole is not None:
        reranking = {
            **common,
            **_without_none({"reranker.query": values.get("query"), "reranker.top_k": values.get("top_k")}),
            **_documents("reranker.input_documents", candidates),
            **_documents("reranker.output_documents", retrieved),
        }
        spans += [_span(row, "rerank", "RERANKER", reranking, middle_ns, end_ns, resource, None, whole), whole]
    return spans


def _feedback(values: Mapping[str, Any]) -> dict[str, Any]:
    attributes = {**_common(values), "metadata": _json(values)}
    if not _is_annotation(values):
        return attributes
    rating = values["rating"]
    prefix = f"{'annotations' if values.get('trace_id') else 'session.annotations'}.0.annotation"
    told = {
        "id": values["feedback_id"],
        "name": "feedback",
        "label": rating if isinstance(rating, str) else None,
        "score": None if isinstance(rating, str) else float(rating),
        "created_at": values["ts"],
        "annotator_kind": "HUMAN",
        "user_id": values.get("rater_id"),
    }
    return attributes | {f"{prefix}.{key}": value for key, value in told.items() if value is not None}


def _is_annotation(values: Mapping[str, Any]) -> bool:
    return (
        values.get("rating") is not None
        and not values.get("implicit")
        and values.get("rating_scale", "thumb") in ("thumb", "unit")
        and not _BEYOND_ANNOTATIONS & set(values)
    )


def _common(values: Mapping[str, Any]) -> dict[str, Any]:
    return _without_none({"session.id": values.get("session_id"), "user.id": values.get("user_id")})


def _input(values: Mapping[str, Any]) -> dict[str, Any]:
    """The query; with what was asked for beside it as JSON."""
    asked = {key: values[key] for key in ("query", "top_k", "filters") if values.get(key) is not None}
    if set(asked) <= {"query"}:
        return {"input.value": asked["query"], "input.mime_type": "text/plain"} if asked else {}
    return {"input.value": _json(asked), "input.mime_type": _JSON}


def _documents(prefix: str, places: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """In the order of the ranks where they are distinct, as staging reads them; an empty list has no
    attribute of its own, so the output says it.
    """
    ranks = [place["rank"] for place in places]
    is_ordered = None not in ranks and len(set(ranks)) == len(ranks)
    ordered = sorted(places, key=lambda place: place["rank"]) if is_ordered else places
    flat: dict[str, Any] = {} if ordered else {"output.value": "[]", "output.mime_type": _JSON}
    for position, place in enumerate(ordered):
        told = {"id": place["chunk_id"], "score": place["score"]}
        flat |= {f"{prefix}.{position}.document.{key}": value for key, value in told.items() if value is not None}
    return flat


def _span(
    row: Row,
    name: str,
    kind: str,
    attributes: Mapping[str, Any],
    start_ns: int,
    end_ns: int,
    resource: Any,
    fault: str | None = None,
    parent: "ReadableSpan | None" = None,
) -> "ReadableSpan":
    """Ids follow from the row, so that a row that is sent twice is one span."""
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

    context = SpanContext(
        trace_id=_trace_id(row),
        span_id=_hash(name.encode() + row.line, _SPAN_BYTES),
        is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )
    return ReadableSpan(
        name=name,
        context=context,
        parent=None if parent is None else parent.get_span_context(),
        resource=resource,
        attributes={_KIND: kind, **attributes},
        status=Status(StatusCode.OK) if fault is None else Status(StatusCode.ERROR, fault),
        start_time=start_ns,
        end_time=end_ns,
    )


def _trace_id(row: Row) -> int:
    """Feedback and answers without a trace get a trace of their session."""
    told = str(row.values.get("trace_id") or row.key)
    if len(told) == 2 * _TRACE_BYTES and set(told) <= set("0123456789abcdef") and told.strip("0"):
        return int(told, 16)
    return _hash(told.encode("utf-8", "surrogatepass"), _TRACE_BYTES)


def _hash(text: bytes, n_bytes: int) -> int:
    return int.from_bytes(blake2b(text, digest_size=n_bytes).digest(), "big") or 1


def _rest(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in _TOLD}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _ns(ts: str | float) -> int:
    """Nanoseconds since 1970 of a landing time."""
    if isinstance(ts, str):
        moment = datetime.fromisoformat(ts)
        return (int(moment.timestamp()) * 10**6 + moment.microsecond) * 1000
    for least, ns in ((10**17, 1), (10**14, 10**3), (10**11, 10**6)):
        if ts >= least:
            return int(ts * ns)
    return int(ts * 10**9)


def _ns_of_ms(ms: float | None) -> int:
    return int((ms or 0) * 10**6)
