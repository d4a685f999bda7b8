"""Drills through the whole project: what is broken on purpose pages, what is healthy does not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from conformance.real_runs import read_qrels, read_traces
from end_to_end.first_run import Places
from support import PROJECT, Warehouse, needs_shared

from retrieval_quality.drill import DEGRADATIONS, Degradation, DrillReport, Finding, Lists, Source, run_drill
from retrieval_quality.drill.lists import (
    CANDIDATE_RECALL,
    NDCG,
    PRECISION,
    RECALL,
    RECIPROCAL_RANK,
    TARGETS,
    cut_candidates,
    shuffled,
    shuffled_top,
)

pytestmark = pytest.mark.xdist_group("drill")


@dataclass(frozen=True)
class SmallDrill:
    """`retrieval-quality drill --small --json`, as a user runs it."""

    code: int
    errors: str
    told: Mapping[str, Any]
    places: Places

    def verdict(self, variant: str, metric: str, k: int, stage: str = "final") -> Mapping[str, Any]:
        (row,) = [
            row
            for row in self.told["results"]
            if (row["variant"], row["metric"], row["k"], row["stage"]) == (variant, metric, k, stage)
        ]
        return dict(row)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> SmallDrill:
    pytest.importorskip("bm25s")
    places = Places(tmp_path_factory.mktemp("drill"))
    drill = places.run(
        "drill", "--small", "--json", "--keep", str(places.root / "kept"),
        "--record", str(places.landing), "--report", str(places.root / "drill.md"),
    )  # fmt: skip
    assert drill.stdout, drill.stderr
    return SmallDrill(drill.returncode, drill.stderr, json.loads(drill.stdout), places)


# --- the demo: simulated traffic, real questions and rankings ----------------------------------


def test_the_demo_drill_is_green(small: SmallDrill) -> None:
    assert (small.code, small.errors) == (0, "")
    assert (small.told["is_green"], small.told["failures"], small.told["notes"]) == (True, [], [])
    assert {row["variant"] for row in small.told["results"]} == {"control", *(each.name for each in DEGRADATIONS)}


def test_the_healthy_control_is_silent(small: SmallDrill) -> None:
    control = [row for row in small.told["results"] if row["variant"] == "control"]
    assert len(control) == len(TARGETS)
    assert {row["verdict"] for row in control} == {"silent"}
    for row in control:
        assert row["degraded_mean"] == pytest.approx(row["healthy_mean"], abs=1e-9)
        assert row["objective"] < row["healthy_mean"]


def test_order_moves_no_precision_and_no_recall_and_is_caught_by_rank(small: SmallDrill) -> None:
    for metric in ("precision", "recall"):
        row = small.verdict("shuffled_top_5", metric, 5)
        assert (row["verdict"], row["is_paged"]) == ("cannot_move", False)
        assert row["degraded_mean"] == pytest.approx(row["healthy_mean"], abs=1e-9)
    for metric in ("reciprocal_rank", "ndcg"):
        assert small.verdict("shuffled_top_5", metric, 10)["verdict"] == "caught"
    assert any(remark.startswith("shuffled_top_5: precision@5 and recall@5 cannot") for remark in small.told["remarks"])


def test_a_cut_candidate_set_is_caught_by_its_stage_alone(small: SmallDrill) -> None:
    candidates = small.verdict("cut_candidates", "recall", 100, "retriever")
    assert candidates["verdict"] == "caught"
    assert candidates["degraded_mean"] < candidates["healthy_mean"] - 0.05
    final = small.verdict("cut_candidates", "precision", 5)
    assert final["verdict"] == "silent"
    assert final["degraded_mean"] >= final["healthy_mean"] - 0.01
    assert any(remark.startswith("cut_candidates: retriever recall@100 fell") for remark in small.told["remarks"])


def test_a_page_comes_after_nights_and_sessions(small: SmallDrill) -> None:
    """The evaluation asks 100 questions a night, each a session of its own."""
    caught = [row for row in small.told["results"] if row["verdict"] == "caught"]
    assert len(caught) >= 2 * len(DEGRADATIONS) - 1
    for row in caught:
        assert 1 <= row["nights_to_page"] <= row["n_nights"] == 5
        assert row["units_to_page"] == 100 * row["nights_to_page"]


def test_the_page_and_the_landed_rows_say_the_same(small: SmallDrill) -> None:
    page = (small.places.root / "drill.md").read_text()
    assert f"# Drill {small.told['drill_id']}" in page
    assert page.count("| caught |") == sum(row["verdict"] == "caught" for row in small.told["results"])

    (landed,) = (small.places.landing / "drill_reports").rglob("*.jsonl")
    assert [json.loads(line) for line in landed.read_text().splitlines()] == small.told["results"]
    assert [path.name for path in small.places.work.iterdir()] == []


# --- what is not caught ------------------------------------------------------------------------


def one_chunk_of_fifty(lists: Lists, random: Random, _: object) -> Lists:
    return Lists(tuple("nothing" if random.random() < 0.02 else chunk for chunk in lists.final), lists.candidates)


@pytest.mark.slow
def test_a_drill_says_what_was_not_caught(small: SmallDrill, tmp_path: Path) -> None:
    """Too weak to be found in two nights; and an expectation that order could move a set."""
    report = run_drill(
        Source("demo", small.places.root / "kept" / "demo", date(2026, 11, 24)),
        tmp_path,
        project_dir=PROJECT,
        degradations=[
            Degradation("weak", "Hardly anything.", one_chunk_of_fifty, (PRECISION,)),
            Degradation("wrong", "Order only.", shuffled_top, (PRECISION, NDCG)),
        ],
        drilled_at=datetime(2026, 11, 30, tzinfo=UTC),
        nights=2,
        history=2,
        on_progress=lambda _: None,
    )
    assert report.failures == (
        "weak: final precision@5 did not page",
        "wrong: final precision@5 cannot move, so it cannot page",
    )
    assert finding(report, "wrong", NDCG).verdict == "caught"


# --- real runs ---------------------------------------------------------------------------------


def finding(report: DrillReport, variant: str, target: object) -> Finding:
    (found,) = [each for each in report.findings if (each.variant, each.target) == (variant, target)]
    return found


@needs_shared
def test_a_cut_candidate_set_is_the_recorded_small_reranker() -> None:
    """rerank re-scores bm25's first hundred, rerank_small its first ten: 225 lists, one by one."""
    cut = cut_candidates(10)
    small = {trace["query_id"]: trace for trace in read_traces("cranfield", "rerank_small")}
    rerank = list(read_traces("cranfield", "rerank"))
    assert len(rerank) == 225
    for trace in rerank:
        lists = Lists(ids(trace["retrieved"]), ids(trace["candidates"]))
        assert cut(lists, Random(1), ()).final[:10] == ids(small[trace["query_id"]]["retrieved"])[:10]


@pytest.mark.slow
@needs_shared
def test_real_lists_broken_on_purpose(tmp_path: Path) -> None:
    """Cranfield, as data/README.md has it: R@100 .735 to .397 while P@5 rises from .334 to .356."""
    warehouse = Warehouse(tmp_path / "source")
    questions = list(read_traces("cranfield", "rerank"))
    for day in range(1, 6):
        run = f"run{day}"
        rows = [
            trace | {"trace_id": f"{run}/{n}", "session_id": f"{run}/{n}", "eval_run_id": run, "ts": f"2026-11-0{day}"}
            for n, trace in enumerate(questions)
        ]
        warehouse.land("retrieval_traces", rows, f"{run}.jsonl")
        warehouse.land(
            "eval_runs", [{"eval_run_id": run, "started_at": f"2026-11-0{day}", "query_set": "golden"}], f"{run}.jsonl"
        )
    judged = [
        {"query_id": f"cranfield-{query}", "chunk_id": document, "grade": grade}
        for query, grades in read_qrels("cranfield").items()
        for document, grade in grades.items()
    ]
    warehouse.land("qrels", judged)

    report = run_drill(
        Source("cranfield", warehouse.landing),
        tmp_path / "scratch",
        project_dir=PROJECT,
        degradations=[
            Degradation("shuffled", "Hundred documents in any order.", shuffled, (PRECISION, RECALL, NDCG)),
            Degradation("cut", "Ten candidates.", cut_candidates(10), (CANDIDATE_RECALL,)),
        ],
        drilled_at=datetime(2026, 11, 30, tzinfo=UTC),
        nights=3,
        history=2,
        on_progress=lambda _: None,
    )
    assert report.failures == ()
    assert report.label_class == "golden"
    candidates = finding(report, "cut", CANDIDATE_RECALL)
    assert (candidates.healthy_mean, candidates.degraded_mean) == pytest.approx((0.7354, 0.3971), abs=5e-5)
    final = finding(report, "cut", PRECISION)
    assert (final.healthy_mean, final.degraded_mean) == pytest.approx((0.3342, 0.3556), abs=5e-5)
    assert final.verdict == "silent"
    assert finding(report, "shuffled", CANDIDATE_RECALL).verdict == "cannot_move"
    assert finding(report, "shuffled", RECIPROCAL_RANK).verdict == "caught"


def ids(places: object) -> tuple[str, ...]:
    assert isinstance(places, list)
    return tuple(place["chunk_id"] for place in sorted(places, key=lambda place: float(place["rank"])))
