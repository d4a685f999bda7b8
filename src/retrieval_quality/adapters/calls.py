"""From the steps of one trace to its retrievals: one row per call, however many spans report it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from retrieval_quality.adapters.rows import (
    Document,
    Item,
    LandingRow,
    Skipped,
    Unmapped,
    milliseconds,
    ranked,
    seconds,
    without_none,
)

NESTED: Final = "nested in another retrieval of the same call"
REPEATED: Final = "repeats another retrieval of the same call"
TWICE: Final = "the same span again"
RERANKED: Final = "input of a reranker of the same call"


@dataclass(frozen=True)
class Step:
    """What one span says of a retrieval or a reranking.

    `documents`: best first; None where the span does not tell, for the reason `problem`.
    `inputs`: what a reranker was given. `error`: the step failed. `values`: more of the contract.
    """

    kind: Literal["retriever", "reranker"]
    query: str | None
    documents: tuple[Document, ...] | None
    inputs: tuple[Document, ...] = ()
    error: str | None = None
    problem: str = "no documents"
    values: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Node:
    """One span of a trace. `step` is None where it is neither retrieval nor reranking: `label` says
    what it is. Times in microseconds since 1970 UTC.
    """

    where: str
    span_id: str
    parent_id: str | None
    start_us: int | None
    end_us: int | None
    step: Step | None
    label: str = "no retrieval"
    session_id: str | None = None
    user_id: str | None = None


@dataclass(frozen=True)
class _Call:
    """One retrieval: the span that stands for it, and what others add to it."""

    node: Node
    step: Step
    documents: tuple[Document, ...] | None
    candidates: tuple[Document, ...] = ()
    rerank_ms: float | None = None


def session_of(nodes: Sequence[Node]) -> str | None:
    """The session of a trace: of the first span that names one."""
    return next((node.session_id for node in nodes if node.session_id), None)


def row_ids(trace_id: str, nodes: Sequence[Node], items: Sequence[Item]) -> dict[str, str]:
    """For each span the id of the row that feedback on it speaks of: that of the retrieval which the
    span is, or lies in; else the trace's first.
    """
    parents = {node.span_id: node.parent_id or "" for node in nodes}
    told = {str(item.values["span_id"]): str(item.values["trace_id"]) for item in items if isinstance(item, LandingRow)}
    found: dict[str, str] = {}
    for span_id in parents:
        path: dict[str, None] = {}
        current = span_id
        while current in parents and current not in found and current not in told and current not in path:
            path[current] = None
            current = parents[current]
        row_id = told.get(current) or found.get(current, trace_id)
        found |= dict.fromkeys([*path, span_id], row_id)
    return found


def rows_of_trace(trace_id: str, nodes: Sequence[Node]) -> Iterator[Item]:
    """One `retrieval_traces` row per call of a trace, in order of time.

    A retriever inside a retriever (at any depth) is the same call, as is one with the same query
    and list. A reranker joins the call whose list it was given: its output is `retrieved`, its
    input `candidates`. The first call has the id of the trace, any other `trace_id:span_id`.
    Every span that gets no row is yielded as Skipped or Unmapped.
    """
    unique = _unique(nodes)
    yield from (Skipped(node.where, TWICE) for node in nodes if unique[node.span_id] is not node)
    members: dict[str, list[Node]] = {}
    for node in unique.values():
        if node.step is None:
            yield Skipped(node.where, f"no retrieval: {node.label}")
        else:
            members.setdefault(_outermost(node, unique).span_id, []).append(node)

    calls: list[_Call] = []
    rerankers: list[Node] = []
    for outer_id, group in members.items():
        outer = unique[outer_id]
        if outer.step is not None and outer.step.kind == "reranker":
            rerankers.append(outer)
        else:
            calls.append(_call(outer, group))
        yield from (Skipped(node.where, NESTED) for node in group if node is not outer)
    calls.sort(key=lambda call: _order(call.node))
    rerankers.sort(key=_order)
    for node in rerankers:
        calls, items = _reranked(calls, node)
        yield from items

    session_id = session_of(nodes)
    seen: set[tuple[str | None, tuple[str, ...]]] = set()
    n_rows = 0
    for call in calls:
        if reason := _fault(call):
            yield Unmapped(call.node.where, reason)
            continue
        identity = (call.step.query, tuple(document.chunk_id for document in call.documents or ()))
        if identity in seen and call.documents is not None:
            yield Skipped(call.node.where, REPEATED)
            continue
        seen.add(identity)
        n_rows += 1
        row_id = trace_id if n_rows == 1 else f"{trace_id}:{call.node.span_id}"
        yield _row(row_id, call, session_id)


def _unique(nodes: Sequence[Node]) -> dict[str, Node]:
    """One node per span id: the first that tells documents, else the first."""
    unique: dict[str, Node] = {}
    for node in nodes:
        kept = unique.setdefault(node.span_id, node)
        if not _tells(kept) and _tells(node):
            unique[node.span_id] = node
    return unique


def _tells(node: Node) -> bool:
    return node.step is not None and node.step.documents is not None


def _outermost(node: Node, by_id: Mapping[str, Node]) -> Node:
    """The highest retrieval above `node`, or itself. Parents that form a ring have no highest: there
    the first in time stands for all.

    A reranker around a retriever is not the retriever's call: it joins by its documents.
    """
    path = [node]
    places = {node.span_id: 0}
    while (parent := by_id.get(path[-1].parent_id or "")) is not None and parent.span_id not in places:
        places[parent.span_id] = len(path)
        path.append(parent)
    ring = [] if parent is None else [inner for inner in path[places[parent.span_id] :] if _retrieves(inner)]
    if ring:
        return min(ring, key=_order)
    return next((inner for inner in reversed(path) if _retrieves(inner)), node)


def _retrieves(node: Node) -> bool:
    return node.step is not None and node.step.kind == "retriever"


def _call(outer: Node, group: Sequence[Node]) -> _Call:
    """The call of a retriever and the steps inside it: what the outermost says counts; what it does
    not say is taken from the inner step that ended last.
    """
    assert outer.step is not None
    inner = sorted((node for node in group if node is not outer), key=lambda node: (-(node.end_us or 0), node.span_id))
    steps = [outer.step, *(node.step for node in inner if node.step is not None)]
    told = next((step for step in steps if step.documents is not None), outer.step)
    reranker = next((step for step in steps if step.kind == "reranker" and step.inputs), None)
    return _Call(
        node=outer,
        step=replace(outer.step, query=next((step.query for step in steps if step.query), None)),
        documents=told.documents,
        candidates=reranker.inputs if reranker else (),
    )


def _reranked(calls: list[_Call], node: Node) -> tuple[list[_Call], list[Item]]:
    """The calls after a reranker took over the list of those it was given."""
    step = node.step
    assert step is not None
    if step.documents is None:
        return calls, [Unmapped(node.where, "reranker failed" if step.error else f"reranker: {step.problem}")]
    given = {document.chunk_id for document in step.inputs}
    if given:
        joined = [call for call in calls if given & {document.chunk_id for document in call.documents or ()}]
    else:
        earlier = [call for call in calls if call.documents and (call.node.start_us or 0) <= (node.start_us or 0)]
        joined = earlier[-1:]
    if not joined:
        alone = _Call(node=node, step=step, documents=step.documents, candidates=step.inputs)
        return sorted([*calls, alone], key=lambda call: _order(call.node)), []
    first = joined[0]
    known = {document.chunk_id: document for call in joined for document in call.documents or ()}
    inputs = step.inputs or (first.documents or ())
    candidates = tuple(
        replace(document, score=known[document.chunk_id].score)
        if document.score is None and document.chunk_id in known
        else document
        for document in inputs
    )
    merged = replace(
        first,
        step=replace(first.step, query=first.step.query or step.query, values={**first.step.values, **step.values}),
        documents=step.documents,
        candidates=first.candidates or candidates,
        rerank_ms=(first.rerank_ms or 0) + (milliseconds(node.start_us, node.end_us) or 0),
    )
    others = [call for call in calls if not any(call is other for other in joined)]
    items: list[Item] = [Skipped(call.node.where, RERANKED) for call in joined[1:]]
    items.append(Skipped(node.where, "reranker: joined to its retrieval"))
    return sorted([merged, *others], key=lambda call: _order(call.node)), items


def _fault(call: _Call) -> str | None:
    if call.node.start_us is None:
        return "no start time, or one that cannot be read"
    if call.documents is None and call.step.error is None:
        return call.step.problem
    return None


def _order(node: Node) -> tuple[int, str]:
    return (node.start_us or 0, node.span_id)


def _row(trace_id: str, call: _Call, session_id: str | None) -> LandingRow:
    """`stage`, `span_id` and `latency_ms` are no keys of the contract: they say where a row is from."""
    node, step = call.node, call.step
    latency_ms = milliseconds(node.start_us, node.end_us)
    is_retriever = step.kind == "retriever"
    told = (*(call.documents or ()), *call.candidates)
    built = {document.chunk_id for document in told if document.is_built}
    values: dict[str, object] = {
        "trace_id": trace_id,
        "span_id": node.span_id,
        "session_id": node.session_id or session_id,
        "user_id": node.user_id,
        "query": step.query,
        "stage": step.kind,
        "ts": None if node.start_us is None else seconds(node.start_us),
        "latency_ms": latency_ms,
        "retrieval_latency_ms": latency_ms if is_retriever else None,
        "rerank_latency_ms": call.rerank_ms if is_retriever else latency_ms,
        "candidates": ranked(call.candidates) if call.candidates else None,
        "error": step.error,
        **step.values,
    }
    retrieved = None if call.documents is None else ranked(call.documents)
    return LandingRow(
        contract="retrieval_traces",
        values={**without_none(values), "retrieved": retrieved},
        ts_us=node.start_us,
        n_built_ids=len(built),
    )
