"""Langfuse exports: traces with their observations and scores, together or in records of their own.

https://langfuse.com/docs/api-and-data-platform/features/export-from-ui
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from retrieval_quality.adapters.calls import Node, Step, rows_of_trace
from retrieval_quality.adapters.documents import read_documents, read_query
from retrieval_quality.adapters.feedback import feedback_row
from retrieval_quality.adapters.reading import Record, Spool, Tree, read_records
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

_TREE: Final[Tree] = {"data": {}}
_TRACE_IDS: Final = ("traceId", "trace_id")
_STARTS: Final = ("startTime", "start_time")
_ENDS: Final = ("endTime", "end_time")
_TYPES: Final = ("dataType", "data_type")
_TEXTS: Final = ("stringValue", "string_value")
_SESSIONS: Final = ("sessionId", "session_id")
_USERS: Final = ("userId", "user_id")
_Part = tuple[str, str, Mapping[str, object]]


def read_langfuse(paths: Sequence[Path]) -> Iterator[Item]:
    """Rows of observations of type RETRIEVER (or OpenInference spans of that kind), and of scores.

    The parts of a trace may lie in any order and in several files. An observation or score that is
    exported twice (in its trace and in a list) is one.
    """
    with Spool() as spool:
        for path in paths:
            for record in read_records(path, _TREE):
                if isinstance(record, Unmapped):
                    yield record
                    continue
                for part in _parts(record):
                    if isinstance(part, Unmapped):
                        yield part
                    else:
                        trace_id, kind, value = part
                        spool.add(trace_id, [trace_id, kind, record.where, value])
        for group in spool.groups():
            yield from _rows_of_trace([part for part in group if isinstance(part, list)])


def _parts(record: Record) -> Iterator[_Part | Unmapped]:
    value = record.value
    trace = mapping_of(value.get("trace"))
    if trace or "observations" in value:
        yield from _trace_parts(record.where, trace or value)
        for kind in ("observation", "score"):
            if trace:
                yield from _members(record.where, f"{kind}s", kind, value, text_of(trace.get("id")))
    elif any(key in value for key in _STARTS):
        yield from _member(record.where, "observation", value, None)
    elif "value" in value or any(key in value for key in _TYPES):
        yield from _member(record.where, "score", value, None)
    elif "timestamp" in value and "id" in value:
        yield from _trace_parts(record.where, value)
    else:
        yield Unmapped(record.where, "neither trace nor observation nor score")


def _trace_parts(where: str, trace: Mapping[str, object]) -> Iterator[_Part | Unmapped]:
    trace_id = text_of(trace.get("id"))
    if trace_id is None:
        yield Unmapped(where, "trace without id")
        return
    yield (
        trace_id,
        "trace",
        {key: value for key, value in trace.items() if key not in ("observations", "scores", "output")},
    )
    yield from _members(where, "observations", "observation", trace, trace_id)
    yield from _members(where, "scores", "score", trace, trace_id)


def _members(
    where: str, key: str, kind: str, owner: Mapping[str, object], trace_id: str | None
) -> Iterator[_Part | Unmapped]:
    members = owner.get(key)
    for member in members if isinstance(members, list) else []:
        if isinstance(member, Mapping):  # the API lists only the ids of observations
            yield from _member(where, kind, member, trace_id)


def _member(where: str, kind: str, value: Mapping[str, object], trace_id: str | None) -> Iterator[_Part | Unmapped]:
    found = text_of(first_of(value, _TRACE_IDS)) or trace_id
    session_id = text_of(first_of(value, _SESSIONS)) if kind == "score" else None
    if found is None and session_id is None:
        yield Unmapped(where, f"{kind} without trace id")
    elif kind == "observation" and text_of(value.get("id")) is None:
        yield Unmapped(where, "observation without id")
    else:
        yield found or f"session {session_id}", kind, value


def _rows_of_trace(parts: Sequence[Sequence[object]]) -> Iterator[Item]:
    trace_id = str(parts[0][0])
    trace: dict[str, object] = {}
    observations: dict[str, tuple[str, dict[str, object]]] = {}
    scores: dict[object, tuple[str, Mapping[str, object]]] = {}
    for _, kind, where, value in parts:
        part = mapping_of(value)
        if kind == "trace":
            trace |= without_none(part)
        elif kind == "observation":
            _, known = observations.setdefault(str(part["id"]), (str(where), {}))
            known |= without_none(part)
        else:
            # the identity of a score in Langfuse: id, name and date
            identity = repr(
                (part.get("id"), part.get("name"), part.get("timestamp") if part.get("id") is None else None)
            )
            scores[identity] = (str(where), part)
    nodes = [_node(where, observation, trace) for where, observation in observations.values()]
    yield from rows_of_trace(trace_id, nodes)
    for where, score in scores.values():
        yield _feedback(where, score, trace_id, text_of(first_of(trace, _SESSIONS)))


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
        session_id=text_of(first_of(trace, _SESSIONS)),
        user_id=text_of(first_of(trace, _USERS)),
    )


def _step(observation: Mapping[str, object], metadata: Mapping[str, object], trace: Mapping[str, object]) -> Step:
    output = observation.get("output")
    is_error = observation.get("level") == "ERROR"
    error = (text_of(observation.get("statusMessage")) or "error") if is_error else None
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
    value = score.get("value")
    label = first_of(score, _TEXTS) if data_type == "CATEGORICAL" else None
    return feedback_row(
        where,
        feedback_id=text_of(score.get("id")),
        trace_id=text_of(first_of(score, _TRACE_IDS)) if own_session else trace_id,
        session_id=own_session or session_id,
        label=label,
        score=value,
        given_at=first_of(score, ("timestamp", "createdAt", "created_at")),
        rater=score.get("source"),
        user=first_of(score, ("authorUserId", "author_user_id", "author")),
        name=text_of(score.get("name")) or "",
    )
