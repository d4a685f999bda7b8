"""Runs that the real LangSmith SDK sends and returns become landing rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from test_adapters import ids, save, written

from retrieval_quality.adapters import ingest
from retrieval_quality.adapters.rows import content_id, time_us

pytest.importorskip("langsmith", reason="needs langsmith (extra dev)")
pytest.importorskip("langchain_core", reason="needs langchain-core (extra dev)")

import requests
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langsmith import Client, schemas, traceable
from langsmith.run_helpers import tracing_context

CONTENTS = {"fern-1": "A fern wants shade.", "cactus-1": "A cactus wants sun."}
Run = dict[str, Any]


class TwoPlants(BaseRetriever):
    """Both contents; the second without an id. Fails when asked to."""

    def _get_relevant_documents(self, query: str) -> list[Document]:
        if query == "fail":
            raise TimeoutError("index did not answer")
        return [
            Document(id="fern-1", page_content=CONTENTS["fern-1"], metadata={"score": 0.75}),
            Document(page_content=CONTENTS["cactus-1"]),
        ]


@traceable(run_type="retriever", metadata={"thread_id": "visit-3"})
def search(query: str, k: int) -> list[dict[str, object]]:
    return [{"page_content": CONTENTS["cactus-1"], "type": "Document", "metadata": {"chunk_id": "cactus-1"}}][:k]


class Wire(requests.Session):
    """Instead of the network: answers everything with `{}` and keeps what was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[str, str, dict[str, Any]]] = []

    def request(self, method: str, url: str, *_: object, data: Any = None, **__: object) -> requests.Response:  # type: ignore[override]
        response = requests.Response()
        response.status_code = 200
        response._content = b"{}"
        if data is not None:
            self.sent.append((method, url, json.loads(data)))
        return response


@dataclass(frozen=True)
class Traced:
    """What the SDK sent: runs in the order of sending, and feedback."""

    events: list[tuple[str, Run]]
    feedback: list[Run]

    @property
    def runs(self) -> list[Run]:
        """Each run once, as the server would keep it."""
        merged: dict[str, Run] = {}
        for _, event in self.events:
            known = merged.setdefault(event["id"], {})
            known |= {key: value for key, value in event.items() if value}
        return list(merged.values())


@contextmanager
def client_of(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    client = Client(
        api_url="http://127.0.0.1:9",
        api_key="none",
        session=wire,
        auto_batch_tracing=False,
        info={},
    )
    with tracing_context(enabled=True, client=client, project_name="plant-shop"):
        yield client


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Traced:
    wire = Wire()
    with client_of(wire, monkeypatch) as client:
        retriever = TwoPlants()
        retriever.invoke("shade?", config={"metadata": {"session_id": "visit-1", "index_version": "v7"}})
        chain = RunnableLambda(lambda asked: asked["question"]) | retriever
        chain.invoke({"question": "sun?"}, config={"metadata": {"thread_id": "visit-2", "user_id": "visitor"}})
        search("cactus?", k=1)
        with pytest.raises(TimeoutError):
            retriever.invoke("fail", config={"metadata": {"session_id": "visit-1"}})
        runs = [body for method, url, body in wire.sent if method == "POST" and url.endswith("/runs")]
        in_chain = next(run for run in runs if run["inputs"] == {"query": "sun?"})
        client.create_feedback(in_chain["id"], "thumb", score=1, trace_id=in_chain["trace_id"], session_id=uuid4())
        client.create_feedback(in_chain["id"], "tone", value="good", trace_id=in_chain["trace_id"], session_id=uuid4())
    return Traced(
        [(method, body) for method, url, body in wire.sent if "/runs" in url],
        [body for _, url, body in wire.sent if url.endswith("/feedback")],
    )


def sent_bodies(traced: Traced) -> list[object]:
    """As a proxy would log them: post and patch of a run on lines of their own."""
    return [body for _, body in traced.events]


def patches_first(traced: Traced) -> list[object]:
    return sent_bodies(traced)[::-1]


def batches(traced: Traced) -> list[object]:
    """The bodies of `POST /runs/batch`."""
    post = [body for method, body in traced.events if method == "POST"]
    patch = [body for method, body in traced.events if method == "PATCH"]
    return [{"post": post, "patch": patch[:3]}, {"post": [], "patch": patch[3:]}]


def schema_of(run: Run) -> schemas.Run:
    """The run as `client.list_runs()` returns it; `session_id` is the project there."""
    return schemas.Run(**{**run, "session_id": UUID(int=7), "app_path": "/o/1/projects/p/7/r/1", "child_run_ids": None})


def listed_as_json(traced: Traced) -> list[object]:
    return [schema_of(run).model_dump(mode="json") for run in traced.runs]


def listed_as_dict(traced: Traced) -> list[object]:
    """`json.dumps(run.dict(), default=str)`: times with a blank in them."""
    return [json.loads(json.dumps(schema_of(run).model_dump(), default=str)) for run in traced.runs]


def query_answer(traced: Traced) -> list[object]:
    """The body of `POST /runs/query`."""
    return [{"runs": listed_as_json(traced), "cursors": {"next": None}}]


def flat_as_parquet(traced: Traced) -> list[object]:
    """The bulk export, turned to JSON lines: what is nested is JSON text."""
    return [
        {key: json.dumps(value) if isinstance(value, dict | list) else value for key, value in run.items()}
        for run in traced.runs
    ]


@pytest.mark.parametrize(
    "export_of",
    [sent_bodies, patches_first, batches, listed_as_json, listed_as_dict, query_answer, flat_as_parquet],
    ids=lambda function: function.__name__,
)
def test_runs_of_the_sdk_become_rows(
    tmp_path: Path, traced: Traced, export_of: Callable[[Traced], list[object]]
) -> None:
    export = save(tmp_path / "runs.jsonl", *export_of(traced), *traced.feedback)

    report = ingest("langsmith", [export], tmp_path / "landing")

    rows = {row["query"]: row for row in written(tmp_path / "landing")}
    runs = {run["inputs"].get("query"): run for run in traced.runs if run["run_type"] == "retriever"}
    assert rows.keys() == runs.keys() == {"shade?", "sun?", "cactus?", "fail"}
    assert {query: row.get("session_id") for query, row in rows.items()} == {
        "shade?": "visit-1",
        "sun?": "visit-2",
        "cactus?": "visit-3",
        "fail": "visit-1",
    }
    for query in ("shade?", "sun?"):
        assert rows[query]["retrieved"] == [
            {"chunk_id": "fern-1", "score": 0.75, "rank": 1},
            {"chunk_id": content_id(CONTENTS["cactus-1"]), "score": None, "rank": 2},
        ]
    assert (ids(rows["cactus?"]), rows["cactus?"]["top_k"]) == (["cactus-1"], 1)
    assert rows["fail"]["retrieved"] is None
    assert str(rows["fail"]["error"]).startswith("TimeoutError")
    assert (rows["shade?"]["index_version"], rows["sun?"]["user_id"]) == ("v7", "visitor")
    for query, row in rows.items():
        assert row["trace_id"] == runs[query]["trace_id"]
        assert row["ts"] == (time_us(runs[query]["start_time"]) or 0) / 10**6
        assert row["retrieval_latency_ms"] is not None
    assert not report.unmapped
    assert report.skipped.get("no retrieval: chain") == 2
    assert report.n_built_ids == 2


def test_feedback_of_the_sdk_speaks_of_its_run(tmp_path: Path, traced: Traced) -> None:
    save(tmp_path / "runs.jsonl", *listed_as_json(traced))
    # as `client.list_feedback()` returns it
    listed = [schemas.Feedback(**body).model_dump(mode="json") for body in traced.feedback]
    save(tmp_path / "feedback.jsonl", *listed)

    report = ingest("langsmith", [tmp_path], tmp_path / "landing")

    (run,) = [run for run in traced.runs if run["inputs"].get("query") == "sun?"]
    rated = written(tmp_path / "landing", "feedback")
    assert {(row["name"], row["rating"], row["trace_id"], row["session_id"]) for row in rated} == {
        ("thumb", 1, run["trace_id"], "visit-2"),
        ("tone", "good", run["trace_id"], "visit-2"),
    }
    assert {row["feedback_id"] for row in rated} == {body["id"] for body in traced.feedback}
    assert report.rows == {"retrieval_traces": 4, "feedback": 2}


def test_a_run_that_was_only_posted_says_so(tmp_path: Path, traced: Traced) -> None:
    posts = [body for method, body in traced.events if method == "POST"]

    report = ingest("langsmith", [save(tmp_path / "runs.jsonl", *posts)], tmp_path / "landing")

    assert report.unmapped == {"no outputs: the run was posted and never patched": 4}
    assert not report.rows


def test_events_add_up(tmp_path: Path, traced: Traced) -> None:
    export = save(tmp_path / "runs.jsonl", *sent_bodies(traced))

    report = ingest("langsmith", [export], tmp_path / "landing")

    n_events = len(traced.events)
    assert n_events == 12  # six runs, each posted and patched
    assert report.skipped["another event of the same run: merged"] == 6
    assert total(report.rows) + total(report.skipped) + total(report.unmapped) == n_events


def test_sums_of_feedback_are_not_taken_for_feedback(tmp_path: Path, traced: Traced) -> None:
    run = {**traced.runs[0], "feedback_stats": {"thumb": {"n": 3, "avg": 0.3}}}

    report = ingest("langsmith", [save(tmp_path / "runs.jsonl", run)], tmp_path / "landing")

    assert report.skipped == {"feedback_stats are sums without a time: export the feedback too": 1}


def total(counts: Mapping[str, int]) -> int:
    return sum(counts.values())
