"""Langfuse exports: traces with their observations and scores, together or in records of their own;
and the spans that the SDK sends.

https://langfuse.com/docs/api-and-data-platform/features/export-from-ui
https://langfuse.com/docs/api-and-data-platform/features/blob-storage-export-fields
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from retrieval_quality.adapters.attributes import below
from retrieval_quality.adapters.calls import Node, Step, row_ids, rows_of_trace, session_of
from retrieval_quality.adapters.documents import read_documents, read_query
from retrieval_quality.adapters.feedback import feedback_row
from retrieval_quality.adapters.reading import TOO_DEEP, Record, Spool, read_records
from retrieval_quality.adapters.rows import (
    Item,
    Skipped,
    Unmapped,
    first_of,
    mapping_of,
    metadata_values,
    text_of,
    time_us,
    whole_number_of,
    without_none,
)
from retrieval_quality.adapters.spans import SPAN_TREE, Span, read_span, resource_values

_TRACE_IDS: Final = ("traceId", "trace_id")
_STARTS: Final = ("startTime", "start_time")
_ENDS: Final = ("endTime", "end_time")
_TYPES: Final = ("dataType", "data_type")
_TEXTS: Final = ("stringValue", "string_value")
_SESSIONS: Final = ("sessionId", "session_id")
_USERS: Final = ("userId", "user_id")
_OBSERVATION_IDS: Final = ("observationId", "observation_id")
_SUMS: Final = "scores without a time: export the scores too"
_BARE_IDS: Final = "only ids of its {}: export the {} too"
_AGAIN: Final = "the same observation again: merged"
_SCORED: Final = "the same score again"
_Part = tuple[str, str, Mapping[str, object]]


def read_langfuse(paths: Sequence[Path]) -> Iterator[Item]:
    """Rows of observations of type RETRIEVER (or OpenInference spans of that kind), and of scores.

    The parts of a trace may lie in any order and in several files. An observation or score that is
    exported twice (in its trace and in a list) is one.
    """
    with Spool() as spool:
        for path in paths:
            for record in read_records(path, SPAN_TREE):
                if isinstance(record, Unmapped):
                    yield record
                    continue
                for part in _parts(record):
                    if isinstance(part, Unmapped | Skipped):
                        yield part
                        continue
                    trace_id, kind, value = part
                    if not spool.add(trace_id, [trace_id, kind, record.where, value]):
                        yield Unmapped(record.where, TOO_DEEP)
        for group in spool.groups():
            yield from _rows_of_trace([part for part in group if isinstance(part, list)])


def _parts(record: Record) -> Iterator[_Part | Unmapped | Skipped]:
    """What a record holds. A score may hold a `trace` too: what the API says of the trace's session."""
    value = record.value
    trace = mapping_of(value.get("trace"))
    if "spanId" in value or "context" in value or ("span_id" in value and "attributes" in value):
        span = read_span(record.where, value, record.around)
        yield span if isinstance(span, Unmapped) else (span.trace_id, "observation", _observation(span))
    elif any(key in value for key in _TYPES) or ("value" in value and "observations" not in value):
        yield from _member(record.where, "score", value, None)
    elif "observations" in value or trace:
        yield from _trace_parts(record.where, trace or value)
        for kind in ("observation", "score") if trace else ():
            yield from _members(record.where, kind, value, text_of(trace.get("id")))
    elif any(key in value for key in _STARTS):
        yield from _member(record.where, "observation", value, None)
        if isinstance(value.get("scores"), Mapping) and value["scores"]:
            yield Skipped(record.where, _SUMS)
    elif "timestamp" in value and "id" in value:
        yield from _trace_parts(record.where, value)
    else:
        yield Unmapped(record.where, "neither trace nor observation nor score")


def _trace_parts(where: str, trace: Mapping[str, object]) -> Iterator[_Part | Unmapped | Skipped]:
    """A trace with its members; a trace that was downloaded has no record of its own, only members."""
    trace_id = text_of(trace.get("id"))
    if trace_id is not None:
        left_out = ("observations", "scores", "output")
        yield trace_id, "trace", {key: value for key, value in trace.items() if key not in left_out}
    elif not trace.get("observations") and not trace.get("scores"):
        yield Unmapped(where, "trace without id")
    yield from _members(where, "observation", trace, trace_id)
    yield from _members(where, "score", trace, trace_id)


def _members(
    where: str, kind: str, owner: Mapping[str, object], trace_id: str | None
) -> Iterator[_Part | Unmapped | Skipped]:
    told = owner.get(f"{kind}s")
    members = told if isinstance(told, list) else []
    yield from (
        part for member in members if isinstance(member, Mapping) for part in _member(where, kind, member, trace_id)
    )
    if any(isinstance(member, str) for member in members):
        yield Skipped(where, _BARE_IDS.format(f"{kind}s", f"{kind}s"))
    if kind == "score" and isinstance(told, Mapping) and told:
        yield Skipped(where, _SUMS)


def _member(where: str, kind: str, value: Mapping[str, object], trace_id: str | None) -> Iterator[_Part | Unmapped]:
    known = _score(value) if kind == "score" else value
    found = text_of(first_of(known, _TRACE_IDS)) or trace_id
    session_id = text_of(first_of(known, _SESSIONS)) if kind == "score" else None
    if found is None and session_id is None:
        yield Unmapped(where, f"{kind} without trace id")
    elif kind == "observation" and text_of(value.get("id")) is None:
        yield Unmapped(where, "observation without id")
    else:
        yield found or f"session {session_id}", kind, known


def _score(value: Mapping[str, object]) -> Mapping[str, object]:
    """A score with the ids of what it speaks of beside it, as the API had them before version 3."""
    subject = mapping_of(value.get("subject"))
    told, kind = text_of(subject.get("id")), subject.get("kind")
    ids = {
        "traceId": told if kind == "trace" else text_of(subject.get("traceId")),
        "sessionId": told if kind == "session" else None,
        "observationId": told if kind == "observation" else None,
    }
    return {**value, **without_none(ids)}


def _observation(span: Span) -> Mapping[str, object]:
    """The observation that a span of the SDK becomes in Langfuse."""
    attributes = span.attributes
    metadata = {**below(attributes, "langfuse.trace.metadata"), **below(attributes, "langfuse.observation.metadata")}
    level = "ERROR" if span.error else attributes.get("langfuse.observation.level")
    told: dict[str, object] = {
        "id": span.span_id,
        "parentObservationId": span.parent_id,
        "startTime": span.start_us,
        "endTime": span.end_us,
        "type": attributes.get("langfuse.observation.type"),
        "input": attributes.get("langfuse.observation.input"),
        "output": attributes.get("langfuse.observation.output"),
        "level": level,
        "statusMessage": attributes.get("langfuse.observation.status_message") or span.error,
        "sessionId": first_of(attributes, ("session.id", "langfuse.session.id")),
        "userId": first_of(attributes, ("user.id", "langfuse.user.id")),
        "environment": attributes.get("langfuse.environment"),
        "metadata": {**resource_values(span), **metadata},
    }
    return without_none(told)


def _rows_of_trace(parts: Sequence[Sequence[object]]) -> Iterator[Item]:
    trace_id = str(parts[0][0])
    trace: dict[str, object] = {}
    observations: dict[str, tuple[str, dict[str, object]]] = {}
    scores: dict[str, tuple[str, Mapping[str, object]]] = {}
    for _, kind, where, value in parts:
        part = mapping_of(value)
        if kind == "trace":
            trace |= without_none(part)
        elif kind == "observation":
            observation_id = str(part["id"])
            if observation_id in observations:
                yield Skipped(str(where), _AGAIN)
            _, known = observations.setdefault(observation_id, (str(where), {}))
            known |= without_none(part)
        else:
            # the identity of a score in Langfuse: id, name and date
            identity = repr(
                (part.get("id"), part.get("name"), part.get("timestamp") if part.get("id") is None else None)
            )
            if identity in scores:
                yield Skipped(str(where), _SCORED)
            scores[identity] = (str(where), part)
    nodes = [_node(where, observation, trace) for where, observation in observations.values()]
    items = list(rows_of_trace(trace_id, nodes))
    yield from items
    rated = row_ids(trace_id, nodes, items)
    session_id = text_of(first_of(trace, _SESSIONS)) or session_of(nodes)
    for where, score in scores.values():
        spoken_of = rated.get(str(first_of(score, _OBSERVATION_IDS)), trace_id)
        yield _feedback(where, score, spoken_of, session_id)


def _node(where: str, observation: Mapping[str, object], trace: Mapping[str, object]) -> Node:
    metadata = mapping_of(observation.get("metadata"))
    spoken = mapping_of(metadata.get("attributes")).get("openinference.span.kind")
    kind = (text_of(observation.get("type")) or "").upper()
    is_retriever = kind == "RETRIEVER" or spoken == "RETRIEVER"
    observation_id = str(observation["id"])
    return Node(
        where=f"{where} observation {observation_id}",
        span_id=observation_id,
        parent_id=text_of(first_of(observation, ("parentObservationId", "parent_observation_id"))),
        start_us=time_us(first_of(observation, _STARTS)),
        end_us=time_us(first_of(observation, _ENDS)),
        step=_step(observation, {**mapping_of(trace.get("metadata")), **metadata}, trace) if is_retriever else None,
        label=kind or "no type",
        # rows of the blob storage export have session and user of their trace
        session_id=text_of(first_of(observation, _SESSIONS)) or text_of(first_of(trace, _SESSIONS)),
        user_id=text_of(first_of(observation, _USERS)) or text_of(first_of(trace, _USERS)),
    )


def _step(observation: Mapping[str, object], metadata: Mapping[str, object], trace: Mapping[str, object]) -> Step:
    output = observation.get("output")
    is_error = observation.get("level") == "ERROR"
    error = (text_of(first_of(observation, ("statusMessage", "status_message"))) or "error") if is_error else None
    documents = read_documents(output)
    asked = mapping_of(observation.get("input"))
    top_k = whole_number_of(first_of(asked, ("top_k", "k")))
    environment = text_of(first_of(observation, ("environment",)) or trace.get("environment"))
    return Step(
        kind="retriever",
        query=read_query(observation.get("input")),
        documents=None if documents == () and error else documents,
        error=error,
        problem="no output" if output is None else "documents cannot be read from output",
        values=without_none({"environment": environment, **metadata_values(metadata), "top_k": top_k}),
    )


def _feedback(where: str, score: Mapping[str, object], trace_id: str, session_id: str | None) -> Item:
    """A score: BOOLEAN and NUMERIC by value, CATEGORICAL by its text; corrections and texts rate nothing."""
    data_type = text_of(first_of(score, _TYPES)) or "NUMERIC"
    if data_type in ("CORRECTION", "TEXT"):
        return Skipped(where, f"no rating: score of type {data_type}")
    own_session = text_of(first_of(score, _SESSIONS))
    of_trace = text_of(first_of(mapping_of(score.get("trace")), _SESSIONS))
    value = score.get("value")
    label = first_of(score, _TEXTS) if data_type == "CATEGORICAL" else None
    return feedback_row(
        where,
        feedback_id=text_of(score.get("id")),
        trace_id=text_of(first_of(score, _TRACE_IDS)) if own_session else trace_id,
        session_id=own_session or session_id or of_trace,
        label=label,
        score=value,
        given_at=first_of(score, ("timestamp", "createdAt", "created_at")),
        rater=score.get("source"),
        user=first_of(score, ("authorUserId", "author_user_id", "author")),
        name=text_of(score.get("name")) or "",
    )
