"""The drill without a build: each degradation on a list worked by hand, what is read, what is said."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from support import PROJECT

from retrieval_quality.cli import main
from retrieval_quality.contracts import CONTRACTS
from retrieval_quality.drill import (
    CONTROL,
    DEGRADATIONS,
    DrillError,
    DrillReport,
    Finding,
    Lists,
    Period,
    Source,
    Target,
    markdown,
    record,
    report_record,
    report_rows,
    run_drill,
)
from retrieval_quality.drill import command as drill_command
from retrieval_quality.drill.lists import (
    CANDIDATE_RECALL,
    NDCG,
    PRECISION,
    RECALL,
    RECIPROCAL_RANK,
    TARGETS,
    can_move,
    cut_candidates,
    degraded,
    dropped_filters,
    replaced_chunks,
    shuffled,
    shuffled_top,
    stale_index,
)
from retrieval_quality.drill.traces import movable, read_evaluations, write_variant
from retrieval_quality.drill.verdicts import finding_of
from retrieval_quality.drill.warehouse import Outcome, objective_of

BY_NAME = {degradation.name: degradation for degradation in DEGRADATIONS}
SEED = PROJECT / "seeds" / "label_classes.csv"
CORPUS = tuple(f"other{number}" for number in range(50))
TEN = tuple("abcdefghij")
TWENTY = tuple(f"c{number:02d}" for number in range(20))
PERIOD = Period(date(2026, 11, 1), date(2026, 11, 3), date(2026, 11, 5))


# --- the lists -------------------------------------------------------------------------------


def test_shuffling_keeps_what_is_in_the_list() -> None:
    after = shuffled(Lists(TEN, TWENTY), Random(1), CORPUS)
    assert after.final != TEN
    assert sorted(after.final) == list(TEN)
    assert after.candidates == TWENTY


def test_shuffling_the_top_keeps_what_is_in_the_top_and_the_order_below() -> None:
    after = shuffled_top(Lists(TEN), Random(1), CORPUS)
    assert after.final[:5] != TEN[:5]
    assert sorted(after.final[:5]) == list(TEN[:5])
    assert after.final[5:] == TEN[5:]


def test_replaced_chunks_keep_their_places() -> None:
    after = replaced_chunks(Lists(TEN, TWENTY), Random(1), (*CORPUS, *TEN, *TWENTY))
    replaced = [new for old, new in zip(TEN, after.final, strict=True) if old != new]
    assert 2 <= len(replaced) <= 8
    assert len({*replaced}) == len(replaced)
    assert {*replaced} <= {*CORPUS}
    assert after.candidates == TWENTY


def test_chunks_are_invented_where_the_corpus_has_no_others() -> None:
    after = replaced_chunks(Lists(TEN), Random(1), TEN)
    assert {chunk for chunk in after.final if chunk not in TEN} <= {f"drill:foreign:{n}" for n in range(10)}


def test_a_cut_candidate_set_is_what_the_reranker_sees() -> None:
    """The first ten of twenty are kept; two of the five that the reranker chose are among them."""
    after = cut_candidates(10)(Lists(("c15", "c07", "c19", "c02", "c11"), TWENTY), Random(1), CORPUS)
    assert after.candidates == TWENTY[:10]
    assert after.final == ("c07", "c02", "c00", "c01", "c03")


def test_without_candidates_nothing_is_cut() -> None:
    assert cut_candidates(10)(Lists(TEN), Random(1), CORPUS) == Lists(TEN)


def test_a_stale_index_lacks_the_same_chunks_everywhere_and_others_move_up() -> None:
    many = tuple(f"chunk{number}" for number in range(1000))
    kept = stale_index(Lists((), many), Random(1), ()).candidates
    assert kept is not None
    assert len(kept) == pytest.approx(700, abs=45)
    gone = [chunk for chunk in many if chunk not in kept]
    assert stale_index(Lists((), many), Random(2), ()).candidates == kept

    lists = Lists((gone[0], kept[1], gone[1]), (kept[0], gone[0], kept[1], gone[1], kept[2]))
    after = stale_index(lists, Random(1), ())
    assert after.candidates == kept[:3]
    assert after.final == (kept[1], kept[0], kept[2])


def test_dropped_filters_push_chunks_down_and_out() -> None:
    after = dropped_filters(Lists(TEN, TWENTY), Random(1), CORPUS)
    for old, new in ((TEN, after.final), (TWENTY, after.candidates or ())):
        own = [chunk for chunk in new if chunk in old]
        assert len(new) == len(old)
        assert own == list(old[: len(own)])
        assert len(own) < len(old) / 2


@pytest.mark.parametrize("degradation", [CONTROL, *DEGRADATIONS], ids=lambda degradation: degradation.name)
@pytest.mark.parametrize("lists", [Lists(()), Lists(("a",)), Lists(("a", "", "b"), ()), Lists(TEN, TWENTY)])
def test_every_degradation_is_repeatable_and_makes_no_list_longer(degradation: object, lists: Lists) -> None:
    assert degradation in {CONTROL, *DEGRADATIONS}
    one = degraded(BY_NAME.get(degradation.name, CONTROL), "t1", lists, CORPUS)  # type: ignore[attr-defined]
    assert one == degraded(BY_NAME.get(degradation.name, CONTROL), "t1", lists, CORPUS)  # type: ignore[attr-defined]
    assert len(one.final) <= len(lists.final)
    assert len(one.candidates or ()) <= len(lists.candidates or ())


def test_the_control_is_the_control() -> None:
    assert degraded(CONTROL, "t1", Lists(TEN, TWENTY), CORPUS) == Lists(TEN, TWENTY)


def test_order_alone_moves_no_set_metric() -> None:
    """A shuffle with top_k = k: the set of the top k is the same."""
    before, after = Lists(TEN[:5], TWENTY), Lists(TEN[4::-1], TWENTY)
    moved = [target for target in TARGETS if can_move(target, before, after)]
    assert moved == [RECIPROCAL_RANK, NDCG]


def test_a_longer_list_moves_them_all() -> None:
    before, after = Lists(TEN, TWENTY), Lists(TEN[::-1], TWENTY[1:])
    assert all(can_move(target, before, after) for target in TARGETS)
    assert not can_move(Target("recall", 10, "final"), before, after)


# --- the landing folder ----------------------------------------------------------------------


def trace(number: int, day: int, **values: object) -> dict[str, object]:
    return {
        "trace_id": f"t{day}-{number}",
        "eval_run_id": f"run{day}",
        "query_id": f"q{number}",
        "ts": f"2026-11-{day:02d}T02:00:00Z",
        "retrieved": [{"chunk_id": chunk, "score": 1 - rank / 10, "rank": rank} for rank, chunk in enumerate(TEN[:5])],
        **values,
    }


def land(landing: Path, contract: str, rows: Sequence[Mapping[str, object]], name: str = "part.jsonl") -> None:
    path = landing / contract / name
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    landing = tmp_path / "landing"
    for day in range(1, 5):
        land(landing, "retrieval_traces", [trace(number, day) for number in range(3)], f"{day}.jsonl.gz")
    land(landing, "retrieval_traces", [{"trace_id": "production", "ts": "2026-11-09", "retrieved": []}])
    runs = [
        {"eval_run_id": f"run{day}", "started_at": f"2026-11-{day:02d}", "query_set": "golden"} for day in range(1, 5)
    ]
    land(landing, "eval_runs", [*runs, {"eval_run_id": "trial", "kind": "adhoc", "query_set": "golden"}])
    land(landing, "qrels", [{"query_id": f"q{number}", "chunk_id": "a", "grade": 1} for number in range(3)])
    return landing


def read_back(landing: Path, contract: str, name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (landing / contract / f"{name}.jsonl").read_text().splitlines()]


def test_only_scheduled_evaluations_are_drilled(landing: Path) -> None:
    land(landing, "retrieval_traces", [trace(0, 4, eval_run_id="trial"), trace(0, 4, eval_run_id="nobody")], "x.jsonl")
    evaluations = read_evaluations(landing, SEED)
    assert evaluations.label_class == "golden"
    assert len(evaluations.traces) == 12
    assert evaluations.newest_day == date(2026, 11, 4)
    assert evaluations.corpus == TEN[:5]


def test_parquet_and_odd_lines_are_read(landing: Path) -> None:
    (landing / "retrieval_traces" / "odd.jsonl").write_bytes(b'{"eval_run_id": "run4", \n\xff\n[1]\n\n')
    pq.write_table(
        pa.table({"eval_run_id": ["run4"], "query_id": ["q1"], "ts": [1793757600], "retrieved": [[{"chunk_id": 7}]]}),
        landing / "retrieval_traces" / "p.parquet",
    )
    evaluations = read_evaluations(landing, SEED)
    assert len(evaluations.traces) == 13
    assert evaluations.traces[-1].lists == Lists(("7",))
    assert evaluations.traces[-1].day == date(2026, 11, 4)


def test_the_rank_decides_where_ranks_are_distinct(landing: Path) -> None:
    ranked = [{"chunk_id": "b", "rank": 2}, {"chunk_id": "a", "rank": 1}]
    tied = [{"chunk_id": "b", "rank": 1}, {"chunk_id": None, "rank": 1}]
    land(landing, "retrieval_traces", [trace(0, 4, retrieved=ranked), trace(1, 4, retrieved=tied)], "z.jsonl")
    last = read_evaluations(landing, SEED).traces[-2:]
    assert [each.lists for each in last] == [Lists(("a", "b")), Lists(("b", ""))]


def test_a_variant_is_an_index_version_degraded_from_a_day_on(landing: Path, tmp_path: Path) -> None:
    evaluations = read_evaluations(landing, SEED).within(PERIOD)
    write_variant(tmp_path / "drill", evaluations, BY_NAME["shuffled"], PERIOD)
    rows = read_back(tmp_path / "drill", "retrieval_traces", "shuffled")
    runs = read_back(tmp_path / "drill", "eval_runs", "shuffled")

    assert {row["index_version"] for row in (*rows, *runs)} == {"shuffled"}
    assert [run["eval_run_id"] for run in runs] == [f"shuffled/run{day}" for day in range(1, 5)]
    assert {row["eval_run_id"] for row in rows} == {run["eval_run_id"] for run in runs}
    for row, landed in zip(rows, evaluations.traces, strict=True):
        assert (row["trace_id"], row["ts"]) == (f"shuffled/{landed.trace_id}", landed.row["ts"])
        retrieved = row["retrieved"]
        assert isinstance(retrieved, list)
        if landed.day < PERIOD.degraded_from:
            assert retrieved == landed.row["retrieved"]
        elif retrieved != landed.row["retrieved"]:
            assert sorted(place["chunk_id"] for place in retrieved) == list(TEN[:5])
            assert [place["score"] for place in retrieved] == [1 - rank / 10 for rank in range(5)]
            assert [place["rank"] for place in retrieved] == [1, 2, 3, 4, 5]


def test_a_trace_without_a_list_stays_without(landing: Path, tmp_path: Path) -> None:
    land(landing, "retrieval_traces", [trace(0, 4, retrieved=None, error="timeout")], "z.jsonl")
    evaluations = read_evaluations(landing, SEED).within(PERIOD)
    write_variant(tmp_path / "drill", evaluations, BY_NAME["replaced_chunks"], PERIOD)
    assert read_back(tmp_path / "drill", "retrieval_traces", "replaced_chunks")[-1]["retrieved"] is None


def test_what_can_move_is_told_from_the_lists(landing: Path) -> None:
    """Lists of five: a shuffle cannot move P@5 and R@5. There are no candidates to cut."""
    evaluations = read_evaluations(landing, SEED).within(PERIOD)
    assert movable(evaluations, BY_NAME["shuffled"], PERIOD, TARGETS) == {RECIPROCAL_RANK, NDCG}
    assert movable(evaluations, BY_NAME["replaced_chunks"], PERIOD, TARGETS) == {*TARGETS} - {CANDIDATE_RECALL}
    assert movable(evaluations, BY_NAME["cut_candidates"], PERIOD, TARGETS) == set()


@pytest.mark.parametrize(
    ("contract", "message"),
    [
        ("retrieval_traces", "no traces of scheduled evaluations"),
        ("eval_runs", "no traces of scheduled evaluations"),
        ("qrels", "needs `qrels` of a complete label class"),
    ],
)
def test_what_is_missing_is_said(landing: Path, contract: str, message: str) -> None:
    for path in (landing / contract).iterdir():
        path.unlink()
    with pytest.raises(DrillError, match=message):
        read_evaluations(landing, SEED)


def test_labels_of_what_was_retrieved_are_no_judgments_to_drill_on(landing: Path) -> None:
    land(landing, "qrels", [{"query_id": "q1", "chunk_id": "a", "grade": 1, "label_class": "audit"}])
    with pytest.raises(DrillError, match="complete label class"):
        read_evaluations(landing, SEED)


def test_both_halves_need_evaluations(landing: Path) -> None:
    evaluations = read_evaluations(landing, SEED)
    with pytest.raises(DrillError, match=r"to be healthy \(2026-10-01 to 2026-10-31\)"):
        evaluations.within(replace(PERIOD, starts_on=date(2026, 10, 1), degraded_from=date(2026, 11, 1)))
    with pytest.raises(DrillError, match=r"to be degraded \(2026-11-05 to 2026-11-05\)"):
        evaluations.within(replace(PERIOD, degraded_from=date(2026, 11, 5), ends_on=date(2026, 11, 6)))


def test_days_that_make_no_drill(landing: Path, tmp_path: Path) -> None:
    for nights, history, message in ((0, 7, "at least one"), (20, 9, "29 days, at most 28")):
        with pytest.raises(DrillError, match=message):
            run_drill(
                Source("landing", landing),
                tmp_path / "scratch",
                project_dir=PROJECT,
                degradations=DEGRADATIONS,
                drilled_at=datetime(2026, 11, 30, tzinfo=UTC),
                nights=nights,
                history=history,
                on_progress=lambda _: None,
            )


# --- verdicts --------------------------------------------------------------------------------

HEALTHY = Outcome(0.5, 0.5, is_paged_before=False, paged_on=None, n_units=200)
PAGED = replace(HEALTHY, degraded_mean=0.3, paged_on=date(2026, 11, 4))


@pytest.mark.parametrize(
    ("name", "target", "outcome", "is_movable", "verdict"),
    [
        ("control", NDCG, HEALTHY, False, "silent"),
        ("control", NDCG, PAGED, False, "false_page"),
        ("control", NDCG, PAGED, True, "false_page"),
        ("shuffled", NDCG, PAGED, True, "caught"),
        ("shuffled", NDCG, HEALTHY, True, "missed"),
        ("shuffled", NDCG, replace(PAGED, is_paged_before=True), True, "false_page"),
        ("shuffled", PRECISION, PAGED, True, "caught"),
        ("shuffled", PRECISION, HEALTHY, True, "silent"),
        ("shuffled", PRECISION, HEALTHY, False, "cannot_move"),
        ("shuffled", PRECISION, PAGED, False, "false_page"),
        ("shuffled", NDCG, HEALTHY, False, "cannot_move"),
    ],
)
def test_the_verdict(name: str, target: Target, outcome: Outcome, is_movable: bool, verdict: str) -> None:
    degradation = BY_NAME.get(name, CONTROL)
    finding = finding_of(degradation, target, outcome, 0.49, PERIOD, is_movable=is_movable)
    assert finding.verdict == verdict
    assert (finding.nights_to_page, finding.units_to_page) == ((2, 200) if outcome.paged_on else (None, None))


@pytest.mark.parametrize(
    ("mean", "objective"), [(0.5, 0.49), (0.1706, 0.16), (0.17, 0.16), (0.98, 0.97), (0.005, -0.005)]
)
def test_the_objective_is_a_little_below_the_healthy_mean(mean: float, objective: float) -> None:
    assert objective_of(mean) == objective


# --- the report and the command --------------------------------------------------------------


def found(name: str, target: Target, outcome: Outcome, is_movable: bool = True) -> Finding:
    return finding_of(BY_NAME.get(name, CONTROL), target, outcome, 0.49, PERIOD, is_movable=is_movable)


def report_of(*findings: Finding, degradations: Sequence[str] = ("shuffled",)) -> DrillReport:
    return DrillReport(
        drill_id="landing-20261130T120000Z",
        drilled_at=datetime(2026, 11, 30, 12, tzinfo=UTC),
        source="landing",
        label_class="golden",
        period=PERIOD,
        n_traces_per_night=100,
        degradations=(CONTROL, *(BY_NAME[name] for name in degradations)),
        findings=findings,
        notes=(),
    )


GREEN = report_of(
    found("control", NDCG, HEALTHY, is_movable=False),
    found("shuffled", PRECISION, HEALTHY, is_movable=False),
    found("shuffled", RECALL, HEALTHY, is_movable=False),
    found("shuffled", RECIPROCAL_RANK, PAGED),
    found("shuffled", NDCG, PAGED),
)


def test_a_shuffle_that_sets_cannot_see_is_explained() -> None:
    assert GREEN.failures == ()
    (remark,) = GREEN.remarks
    assert remark == (
        "shuffled: precision@5 and recall@5 cannot move, because the chunks in the top k are the same in any order; "
        "reciprocal_rank@10 and ndcg@10 caught it."
    )


def test_what_the_reranker_hides_is_explained() -> None:
    report = report_of(
        found("cut_candidates", PRECISION, replace(HEALTHY, degraded_mean=0.51)),
        found("cut_candidates", CANDIDATE_RECALL, PAGED),
        degradations=["cut_candidates"],
    )
    assert report.failures == ()
    (remark,) = report.remarks
    assert remark == (
        "cut_candidates: retriever recall@100 fell from 0.500 to 0.300 while final precision@5 went from 0.500 to "
        "0.510: the reranker hides it from objectives on the final list, the objective on the first stage caught it."
    )


def test_red_says_why() -> None:
    assert report_of(found("shuffled", NDCG, HEALTHY)).failures == ("shuffled: final ndcg@10 did not page",)
    assert report_of(found("control", NDCG, PAGED), found("shuffled", NDCG, PAGED)).failures == (
        "control: final ndcg@10 paged, and nothing was wrong",
    )
    assert report_of(found("shuffled", NDCG, HEALTHY, is_movable=False)).failures == (
        "shuffled: final ndcg@10 cannot move, so it cannot page",
    )


def test_the_rows_fit_their_contract(tmp_path: Path) -> None:
    rows = report_rows(GREEN)
    known = set(CONTRACTS["drill_reports"].model_fields)
    for row in rows:
        CONTRACTS["drill_reports"].model_validate(row)
        assert set(row) == known - {"ingested_at"}
    assert len({row["drill_result_id"] for row in rows}) == len(rows) == 5

    path = record(GREEN, tmp_path)
    assert path.relative_to(tmp_path).as_posix() == "drill_reports/dt=2026-11-30/landing-20261130T120000Z.jsonl"
    assert [json.loads(line) for line in path.read_text().splitlines()] == rows
    assert list(path.parent.iterdir()) == [path]


def test_the_page_has_a_row_per_finding() -> None:
    page = markdown(GREEN)
    assert "Green: all 1 degradations were caught, and the healthy control stayed silent." in page
    assert "| shuffled | yes | final | ndcg@10 | 0.500 | 0.300 | 0.490 | 2 | 200 | caught |" in page
    assert "| shuffled |  | final | recall@5 | 0.500 | 0.500 | 0.490 |  |  | cannot_move |" in page


def test_nothing_scored_in_the_degraded_nights_is_no_number() -> None:
    row = report_rows(report_of(found("shuffled", NDCG, replace(HEALTHY, degraded_mean=math.nan))))[0]
    assert row["degraded_mean"] is None


def run(report: DrillReport | Exception, *arguments: str) -> tuple[int, str]:
    def run_request(*_: object, **__: object) -> DrillReport:
        if isinstance(report, Exception):
            raise report
        return report

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drill_command, "run_request", run_request)
        result = CliRunner().invoke(main, ["drill", *arguments])
    return result.exit_code, result.output


def test_exit_codes(tmp_path: Path) -> None:
    red = report_of(found("shuffled", NDCG, HEALTHY))
    assert run(GREEN)[0] == 0
    assert run(red)[0] == 1
    assert "Red: shuffled: final ndcg@10 did not page." in run(red)[1]
    assert run(DrillError("no traces")) == (2, "error: no traces\n")
    code, output = run(ImportError("the demo needs bm25s"))
    assert (code, output) == (2, "error: the demo needs bm25s\n")


def test_the_report_goes_where_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, output = run(GREEN, "--json", "--report", "drill.md", "--record", "landing")
    assert (code, json.loads(output)) == (0, report_record(GREEN))
    assert (tmp_path / "drill.md").read_text() == markdown(GREEN)
    assert len(list((tmp_path / "landing" / "drill_reports").rglob("*.jsonl"))) == 1


def test_a_landing_without_evaluations_fails(tmp_path: Path, landing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RQ_PROJECT_DIR", str(PROJECT))
    (landing / "eval_runs" / "part.jsonl").unlink()
    result = CliRunner().invoke(main, ["drill", "--landing", str(landing)])
    assert result.exit_code == 2
    assert result.output.startswith("error: no traces of scheduled evaluations: a drill needs")
    assert not (landing / "drill_reports").exists()


def test_a_scratch_folder_is_never_mixed_with_another(landing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RQ_PROJECT_DIR", str(PROJECT))
    result = CliRunner().invoke(main, ["drill", "--landing", str(landing), "--keep", str(landing)])
    assert (result.exit_code, result.output) == (2, f"error: {landing} exists; a drill is kept in a new folder\n")
