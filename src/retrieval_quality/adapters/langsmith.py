"""LangSmith runs: what the SDK sends (a run is posted, then patched) or `list_runs` gives.

https://docs.smith.langchain.com/reference/data_formats/run_data_format
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from retrieval_quality.adapters.calls import Node, Step, row_ids, rows_of_trace, session_of
from retrieval_quality.adapters.documents import read_documents, read_query
from retrieval_quality.adapters.feedback import feedback_row
from retrieval_quality.adapters.reading import TOO_DEEP, Record, Spool, Tree, read_records
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
)

_TREE: Final[Tree] = {"post": {}, "patch": {}, "runs": {}, "feedback": {}}
_WRAPPERS: Final = ("run", "body", "payload", "data")
_SESSIONS: Final = ("session_id", "thread_id", "conversation_id")
_USERS: Final = ("user_id", "ls_user_id")
_ANOTHER: Final = "another event of the same run: merged"
_SUMS: Final = "feedback_stats are sums without a time: export the feedback too"


def read_langsmith(paths: Sequence[Path]) -> Iterator[Item]:
    """Rows of runs of type retriever, and of feedback records.

    Events of one run are merged by its id: a later value replaces an earlier one, a missing, null or
    empty one does not (a run is posted with `outputs: {}`). The session is the metadata's
    `session_id` (or `thread_id`): the `session_id` and `session_name` of a run are the project's.
    """
    with Spool() as runs, Spool() as traces:
        for path in paths:
            for record in read_records(path, _TREE):
                event = record if isinstance(record, Unmapped) else _event(record)
                if isinstance(event, Unmapped):
                    yield event
                elif not runs.add(event[0], [record.where, event[1]]):
                    yield Unmapped(record.where, TOO_DEEP)
        for events in runs.groups():
            run, places, feedback = _merged(events)
            yield from (Skipped(where, _ANOTHER) for where in places[1:])
            # feedback of a run that is not in the export still names its trace
            named = run or {"id": feedback[0][1].get("run_id"), "trace_id": feedback[0][1].get("trace_id")}
            run_id = text_of(named["id"]) or ""
            trace_id = text_of(named.get("trace_id")) or run_id
            where = places[0] if places else feedback[0][0]
            if not traces.add(trace_id, [trace_id, where, run_id, run, feedback]):
                yield Unmapped(where, TOO_DEEP)
        for group in traces.groups():
            yield from _rows_of_trace([entry for entry in group if isinstance(entry, list)])


def _event(record: Record) -> tuple[str, Mapping[str, object]] | Unmapped:
    """The id of the run that a record is, or speaks of, and the record."""
    value = next((inner for key in _WRAPPERS if (inner := mapping_of(record.value.get(key)))), record.value)
    is_feedback = "run_id" in value and "key" in value
    run_id = text_of(value.get("run_id" if is_feedback else "id"))
    if run_id is None:
        return Unmapped(record.where, "feedback without run_id" if is_feedback else "run without id")
    return run_id, value


def _merged(events: Sequence[object]) -> tuple[dict[str, object], list[str], list[tuple[str, Mapping[str, object]]]]:
    """The run, where its events are, and its feedback."""
    run: dict[str, object] = {}
    places: list[str] = []
    feedback: list[tuple[str, Mapping[str, object]]] = []
    for event in events:
        assert isinstance(event, list)
        where, value = event
        if "run_id" in value and "key" in value:
            feedback.append((where, value))
            continue
        places.append(where)
        for key, new in value.items():
            old = run.get(key)
            if key == "extra" and isinstance(old, Mapping) and isinstance(new, Mapping):
                metadata = {**mapping_of(old.get("metadata")), **mapping_of(new.get("metadata"))}
                run[key] = {**old, **new, "metadata": metadata}
            elif new not in (None, {}, []) or key not in run:
                run[key] = new
    return run, places, feedback


def _rows_of_trace(entries: Sequence[Sequence[object]]) -> Iterator[Item]:
    """The rows of one trace; each entry is trace id, place, run id, run (empty: not there), feedback."""
    trace_id = str(entries[0][0])
    runs = [(str(where), mapping_of(run)) for _, where, _, run, _ in entries if run]
    nodes = [_node(where, run) for where, run in runs]
    items = list(rows_of_trace(trace_id, nodes))
    yield from items
    yield from (Skipped(where, _SUMS) for where, run in runs if mapping_of(run.get("feedback_stats")))
    rated = row_ids(trace_id, nodes, items)
    session_id = session_of(nodes)
    for _, _, run_id, _, feedback in entries:
        spoken_of = rated.get(str(run_id), trace_id)
        for where, value in feedback if isinstance(feedback, list) else []:
            yield _feedback(str(where), mapping_of(value), spoken_of, session_id)


def _node(where: str, run: Mapping[str, object]) -> Node:
    kind = (text_of(run.get("run_type")) or "").lower()
    metadata = mapping_of(mapping_of(run.get("extra")).get("metadata"))
    run_id = str(run["id"])
    return Node(
        where=f"{where} run {run_id}",
        span_id=run_id,
        parent_id=text_of(run.get("parent_run_id")),
        start_us=time_us(run.get("start_time")),
        end_us=time_us(run.get("end_time")),
        step=_step(run, metadata) if kind == "retriever" else None,
        label=kind or "no run_type",
        session_id=text_of(first_of(metadata, _SESSIONS)),
        user_id=text_of(first_of(metadata, _USERS)),
    )


def _step(run: Mapping[str, object], metadata: Mapping[str, object]) -> Step:
    outputs = run.get("outputs")
    error = text_of(run.get("error"))
    documents = read_documents(outputs)
    top_k = whole_number_of(first_of(mapping_of(run.get("inputs")), ("top_k", "k")))
    return Step(
        kind="retriever",
        query=read_query(run.get("inputs")),
        documents=None if documents == () and error else documents,
        error=error,
        problem="no outputs: the run was posted and never patched"
        if not outputs
        else "documents cannot be read from outputs",
        values={**metadata_values(metadata), **({"top_k": top_k} if top_k is not None else {})},
    )


def _feedback(where: str, value: Mapping[str, object], trace_id: str, session_id: str | None) -> Item:
    source = mapping_of(value.get("feedback_source"))
    score = value.get("score")
    told = value.get("value")
    return feedback_row(
        where,
        feedback_id=text_of(value.get("id")),
        trace_id=trace_id,
        session_id=session_id,
        label=told if score is None else None,
        score=score,
        given_at=first_of(value, ("created_at", "modified_at")),
        rater=source.get("type"),
        user=first_of(source, ("user_id", "user_name")),
        name=text_of(value.get("key")) or "",
    )
