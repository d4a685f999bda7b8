"""Dirty input through the whole path: files land, `dbt build` runs, and the tables say what became of them."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from support import SHARED, Warehouse, needs_shared

DIRTY = SHARED / "data" / "dirty"
FOLDERS = sorted(folder.name for folder in DIRTY.iterdir() if folder.is_dir()) if DIRTY.is_dir() else []
VARS = {"as_of": "2027-02-01", "label_lookback_days": 30, "max_quarantined_share": 1.0}
PREFIXED = re.compile(rb'("(?:session_id|trace_id|query_id|index_version)"\s*:\s*")')
# trec_eval's names for what fct_query_scores calls otherwise, and where it cuts
MEASURES = {
    "recip_rank": ("reciprocal_rank", 0),
    "P_5": ("precision", 5),
    "recall_5": ("recall", 5),
    "ndcg": ("ndcg", 0),
    "ndcg_cut_5": ("ndcg", 5),
    "success_5": ("hit_rate", 5),
}
LABELS = {"pos": "positive", "neg": "negative", "neutral": "neutral", "unknown": "unknown"}


class Case:
    """One folder of dirty input in the common warehouse: its ids carry its name, its files too."""

    def __init__(self, warehouse: Warehouse, folder: str) -> None:
        self.warehouse = warehouse
        self.folder = folder
        self.outcome: dict[str, Any] = json.loads((DIRTY / folder / "expected.json").read_text())["outcome"]

    def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        return self.warehouse.query(sql, *parameters)

    def id(self, name: str) -> str:
        return f"{self.folder}:{name}"

    def name(self, identifier: str) -> str:
        return identifier.removeprefix(f"{self.folder}:")

    def sessions(self) -> list[str]:
        rows = self.query(
            "select session_id from stg_retrieval_traces where starts_with(session_id, ?) order by all", self.id("")
        )
        return [self.name(session) for (session,) in rows]

    def ids_in_order(self, session: str) -> list[str | None]:
        return self.column(session, "list_transform(retrieved, lambda chunk: chunk.chunk_id)")

    def column(self, session: str, expression: str, table: str = "stg_retrieval_traces") -> Any:
        ((value,),) = self.query(f"select {expression} from {table} where session_id = ?", self.id(session))
        return value

    def scores(self, session: str, measure: str, label_class: str = "explicit") -> Any:
        """The measure of each trace of the session; golden for queries, explicit for feedback."""
        column, k = MEASURES[measure]
        rows = self.query(
            f"""
            select scores.{column} from fct_query_scores as scores
            inner join fct_retrievals using (trace_id, traced_on)
            where session_id = ? and stage = 'final' and label_class = ? and k = ?
            """,
            self.id(session), label_class, k,
        )  # fmt: skip
        ((value,),) = rows
        return value

    def assert_metrics(self, session: str, expected: Mapping[str, float], label_class: str = "explicit") -> None:
        found = {measure: self.scores(session, measure, label_class) for measure in expected}
        assert found == pytest.approx(dict(expected), abs=5e-6)

    def accounting(self, contract: str) -> dict[str, int]:
        columns = ("n_lines", "n_staged", "n_duplicates", "n_superseded", "n_quarantined")
        (row,) = self.query(
            f"select {', '.join(columns)} from stg_landing_accounting where contract = ? and path like ?",
            contract, f"{contract}/{self.folder}.%",
        )  # fmt: skip
        return dict(zip(columns, row, strict=True))

    def quarantined_lines(self) -> list[int]:
        rows = self.query(
            "select line_number from stg_quarantine where path_to_read like ? order by line_number",
            f"%/retrieval_traces/{self.folder}.%",
        )
        return [number for (number,) in rows]

    def attachments(self) -> list[tuple[str | None, str, str]]:
        """(trace it went to, what became of it, trace it named or the session's name) of each feedback row."""
        return self.query(
            """
            select routed.trace_id, routed.attachment, coalesce(feedback.trace_id, feedback.session_id)
            from int_feedback_traces as routed inner join stg_feedback as feedback using (feedback_id)
            where starts_with(coalesce(feedback.trace_id, feedback.session_id), ?)
            order by all
            """,
            self.id(""),
        )

    def labels(self, trace: str) -> list[tuple[str, int, int]]:
        """(chunk, grade, raters) of each label of the trace or of the session's only trace."""
        return self.query(
            """
            select evidence_id, grade, n_raters from int_relevance_labels
            inner join fct_retrievals using (trace_id, traced_on)
            where ? in (trace_id, session_id) order by all
            """,
            self.id(trace),
        )

    def mart(self, columns: str, metric: str, k: int, traffic: str, label_class: str) -> tuple[Any, ...]:
        (row,) = self.query(
            f"""
            select {columns} from mart_retrieval_quality
            where window_name = 'week' and segment_dimension = 'index_version' and segment_value = ?
                and stage = 'final' and metric = ? and k = ? and traffic = ? and label_class = ? and n_traces > 0
            """,
            self.id("v2"), metric, k, traffic, label_class,
        )  # fmt: skip
        return row


def land_case(warehouse: Warehouse, folder: str) -> None:
    """Land the bytes of a case; only the ids get the folder's name before them, so that cases do not meet."""
    for file in sorted((DIRTY / folder).iterdir()):
        stem, suffix = file.name.split(".", maxsplit=1)
        if stem not in {"traces", "feedback", "labels"}:
            continue
        content = gzip.decompress(file.read_bytes()) if suffix == "jsonl.gz" else file.read_bytes()
        content = prefixed(content, folder)
        if stem == "labels":
            land_labels(warehouse, folder, content)
        else:
            contract = {"traces": "retrieval_traces", "feedback": "feedback"}[stem]
            packed = gzip.compress(content, compresslevel=1) if suffix == "jsonl.gz" else content
            warehouse.land(contract, packed, f"{folder}.{suffix}")


def prefixed(content: bytes, folder: str) -> bytes:
    return PREFIXED.sub(rb"\g<1>" + folder.encode() + b":", content)


def land_labels(warehouse: Warehouse, folder: str, content: bytes) -> None:
    """A labels file is a golden set: its judgments, its queries, and one scheduled run over them."""
    labels = [json.loads(line) for line in content.splitlines() if line.strip()]
    warehouse.land(
        "qrels",
        [
            {"query_id": label["query_id"], "chunk_id": label["chunk_id"], "grade": label["relevance"]}
            for label in labels
        ],
        f"{folder}.jsonl",
    )
    queries = sorted({label["query_id"] for label in labels})
    warehouse.land(
        "queries",
        [{"query_id": query, "query": query, "query_set": f"{folder}:golden"} for query in queries],
        f"{folder}.jsonl",
    )
    warehouse.land(
        "eval_runs",
        [
            {
                "eval_run_id": f"{folder}:run", "started_at": 1796000000, "query_set": f"{folder}:golden",
                "kind": "scheduled", "index_version": f"{folder}:v2",
            }
        ],
        f"{folder}.jsonl",
    )  # fmt: skip
    online = prefixed((DIRTY / folder / "traces.jsonl").read_bytes(), folder)
    warehouse.land(
        "retrieval_traces",
        [
            row | {"eval_run_id": f"{folder}:run", "session_id": f"{row['session_id']}:run"}
            for row in map(json.loads, online.splitlines())
        ],
        f"{folder}:run.jsonl",
    )


@pytest.fixture(scope="session")
def dirty(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    warehouse = Warehouse(tmp_path_factory.mktemp("dirty"))
    for folder in FOLDERS:
        land_case(warehouse, folder)
    warehouse.build(VARS)
    return warehouse


def check_01(case: Case) -> None:
    for session, hits in case.outcome["hits_at_5"].items():
        rows = case.query(
            "select n_hits from fct_query_scores inner join fct_retrievals using (trace_id) "
            "where session_id = ? and stage = 'final' and k = 5",
            case.id(session),
        )
        assert rows == [(hits,)]
        relevant = case.query(
            "select chunk_id from int_judged_chunks inner join fct_retrievals using (trace_id) "
            "where session_id = ? and is_relevant order by rank",
            case.id(session),
        )
        assert [chunk for (chunk,) in relevant] == case.outcome["relevant"][session]
    labelled = {chunk for chunk, _, _ in case.labels("s2")}
    assert labelled == set(case.outcome["not_equal"])


def check_04(case: Case) -> None:
    assert case.ids_in_order("s1") == case.outcome["order"]
    assert case.column("s1", "list_transform(retrieved, lambda chunk: chunk.score)") == case.outcome["scores"]
    assert case.column("s1", "n_non_finite_scores", "fct_retrievals") == case.outcome["flagged"]


def check_05(case: Case) -> None:
    case.assert_metrics("s1", case.outcome["metrics"])
    assert case.column("s1", "n_non_finite_scores", "fct_retrievals") == 0


def check_06(case: Case) -> None:
    assert case.ids_in_order("s1") == case.outcome["order"]
    assert case.column("s1", "n_duplicates", "fct_retrievals") == case.outcome["duplicates"]
    case.assert_metrics("s1", case.outcome["metrics"])


def check_07(case: Case) -> None:
    for session, expected in case.outcome["normalised_rank"].items():
        ranks = json.loads(expected.rpartition("-> ")[2]) if isinstance(expected, str) else expected
        assert case.column(session, "list_transform(retrieved, lambda chunk: chunk.rank)") == ranks
        assert case.ids_in_order(session) == ["a", "b", "c"]


def check_09(case: Case) -> None:
    assert case.ids_in_order("s1") == case.ids_in_order("s2") == case.outcome["order"]
    assert case.outcome["score_direction"] in case.column("s1", "score_type", "fct_retrievals")
    landed = [json.loads(line) for line in (DIRTY / case.folder / "traces.jsonl").read_text().splitlines()]
    for trace in landed:
        raw = [chunk["score"] for chunk in trace["retrieved"]]
        assert case.column(trace["session_id"], "list_transform(retrieved, lambda chunk: chunk.score)") == raw
    case.assert_metrics("s1", case.outcome["metrics"])


def check_11(case: Case) -> None:
    for session, metrics in case.outcome["metrics"].items():
        case.assert_metrics(session, metrics)
    traces = case.query(
        "select session_id, is_fault, is_no_results from fct_retrievals where starts_with(session_id, ?)", case.id("")
    )
    faults = {case.name(session) for session, is_fault, _ in traces if is_fault}
    assert faults == set(case.outcome["instrumentation_faults"])
    empty = [session for session, _, is_no_results in traces if is_no_results]
    assert f"{len(empty)} of {len(traces) - len(faults)} well-formed" == case.outcome["no_results_rate"]
    scored = case.query(
        "select distinct session_id from fct_query_scores inner join fct_retrievals using (trace_id) "
        "where starts_with(session_id, ?)",
        case.id(""),
    )
    assert {case.name(session) for (session,) in scored} == set(case.outcome["metrics"])
    columns = "n_traces, n_scored, n_no_results, n_fault"
    assert case.mart(columns, "recall", 5, "production", "explicit") == (len(traces), 1, len(empty), len(faults))


def check_12(case: Case) -> None:
    assert case.ids_in_order("s1") == case.outcome["order"]
    blank = case.outcome["order"].count(None)
    assert case.column("s1", "n_blank_chunk_ids", "fct_retrievals") == blank
    case.assert_metrics("s1", case.outcome["metrics"])


def check_13(case: Case) -> None:
    case.assert_metrics("s1", case.outcome["metrics"])


def check_14(case: Case) -> None:
    joined = [case.name(named) for _, outcome, named in case.attachments() if outcome == "attached"]
    orphans = [case.name(named) for _, outcome, named in case.attachments() if outcome == "orphan"]
    assert (joined, orphans) == (case.outcome["joined"], case.outcome["orphans"])
    assert case.sessions() == case.outcome["joined"]


def check_15(case: Case) -> None:
    (metric_day,) = {day for (day,) in case.query(
        "select distinct traced_on::varchar from fct_query_scores inner join fct_retrievals using (trace_id, traced_on) "
        "where starts_with(session_id, ?)", case.id(""),
    )}  # fmt: skip
    assert metric_day == case.outcome["metric_day"]
    fates = {case.name(named): outcome for _, outcome, named in case.attachments()}
    for session, expected in case.outcome["with_lookback_30d"].items():
        if isinstance(expected, str):
            assert (fates[session], case.labels(session)) == (expected, [])
        else:
            assert (fates[session], len(case.labels(session))) == ("attached", expected)


def check_16(case: Case) -> None:
    for session, vote in case.outcome["votes"].items():
        assert {(grade, raters) for _, grade, raters in case.labels(session)} == {(vote["rating"], vote["n"])}


def check_18(case: Case) -> None:
    routed = {case.name(named): case.name(trace) for trace, _, named in case.attachments() if trace}
    # the first feedback names its trace; the second only its session
    assert [routed[trace] for trace in case.outcome["labelled_traces"]] == case.outcome["labelled_traces"]
    assert routed["s1"] == case.outcome["by_time_rule"]["fb_without_trace_id"]
    # every trace of the session showed chunk a: only the one that was named has the label
    assert ("a", 1, 1) in case.labels(*case.outcome["labelled_traces"])
    for trace in case.outcome["unlabelled_traces"]:
        assert "a" not in {chunk for chunk, _, _ in case.labels(trace)}


def check_19(case: Case) -> None:
    attached = [row for row in case.attachments() if row[1] == "attached"]
    assert len(attached) == case.outcome["joined"]
    assert len(case.labels("t2")) == case.outcome["null_null_joined"]
    # feedback that names neither session nor trace can never find one: turned away, not lost
    assert case.accounting("feedback")["n_quarantined"] == 1


def check_20(case: Case) -> None:
    accounting = case.accounting("retrieval_traces")
    assert accounting["n_staged"] == case.outcome["traces"] == len(case.sessions())
    assert accounting["n_duplicates"] + accounting["n_superseded"] == case.outcome["duplicates"]
    assert case.ids_in_order("s1") == case.outcome["order"]


def check_22_and_23(case: Case) -> None:
    assert case.sessions() == case.outcome["good"]
    assert case.quarantined_lines() == case.outcome["quarantined_lines"]


def check_26(case: Case) -> None:
    assert [session for session in case.sessions() if session != "s2"] == case.outcome["good"]
    loaded = "s2" in case.sessions()
    assert case.outcome["either"] == "s2 loaded or quarantined"
    assert loaded != (case.quarantined_lines() == [2])
    if loaded:
        assert case.column("s2", "length(query)") >= 20_000_000


def check_28(case: Case) -> None:
    mean, n_missing = case.mart("estimate, n_missing", "recall", 5, "scheduled_eval", "golden")
    assert (mean, n_missing) == (case.outcome["offline_mean_recall_5"], 1)
    mean, n_scored, n_traces = case.mart("estimate, n_scored, n_traces", "recall", 5, "production", "golden")
    assert mean == case.outcome["online_mean_recall_5"]
    assert n_scored / n_traces == case.outcome["online_coverage"]


def check_29(case: Case) -> None:
    for column, expected in (("recall", "recall_5"), ("precision", "precision_5")):
        rows = case.query(
            f"select query_id, {column} from fct_query_scores inner join fct_retrievals using (trace_id, traced_on) "
            "where traffic = 'production' and starts_with(query_id, ?) and k = 5",
            case.id(""),
        )
        assert {case.name(query): score for query, score in rows} == case.outcome[expected]
    columns = "estimate, estimate_low, n_no_relevant"
    estimate, estimate_low, n_no_relevant = case.mart(columns, "recall", 5, "production", "golden")
    assert estimate == case.outcome["mean_recall_excluding_undefined"]
    # both are published: what is not scored counted as 0 is the formula of the guide
    assert estimate_low == case.outcome["mean_recall_seed_formula"]
    assert n_no_relevant == list(case.outcome["recall_5"].values()).count(None)


def check_30(case: Case) -> None:
    case.assert_metrics("s1", case.outcome["metrics"], "golden")


def check_32(case: Case) -> None:
    landed = [json.loads(line) for line in (DIRTY / case.folder / "feedback.jsonl").read_text().splitlines()]
    expected = [LABELS[label.partition("(")[0]] for label in case.outcome["label"]]
    found = [
        case.query(
            "select rating_label from stg_feedback where session_id = ? "
            "and rating is not distinct from ? and rating_scale is not distinct from ?",
            case.id("s1"), as_text(row["rating"]), row.get("rating_scale"),
        )
        for row in landed
    ]  # fmt: skip
    assert found == [[(label,)] for label in expected]


def as_text(value: object) -> str | None:
    return value if isinstance(value, str) or value is None else json.dumps(value)


CHECKS: dict[str, Callable[[Case], None]] = {
    "01_int_and_string_ids": check_01,
    "04_nan_infinity_scores": check_04,
    "05_null_scores": check_05,
    "06_duplicate_chunk_in_list": check_06,
    "07_rank_base": check_07,
    "09_distance_scores": check_09,
    "11_empty_retrieved": check_11,
    "12_blank_chunk_id": check_12,
    "13_fewer_than_k": check_13,
    "14_feedback_before_trace": check_14,
    "15_late_feedback": check_15,
    "16_repeated_feedback_same_user": check_16,
    "18_several_queries_one_session": check_18,
    "19_null_session": check_19,
    "20_duplicate_delivery": check_20,
    "22_bad_lines": check_22_and_23,
    "23_invalid_unicode": check_22_and_23,
    "26_huge_query": check_26,
    "28_labels_and_traces_do_not_match": check_28,
    "29_no_relevant_in_middle": check_29,
    "30_ideal_from_all_labels": check_30,
    "32_rating_types": check_32,
}


@needs_shared
@pytest.mark.parametrize("folder", CHECKS)
def test_dirty_case(dirty: Warehouse, folder: str) -> None:
    CHECKS[folder](Case(dirty, folder))


@needs_shared
def test_every_line_of_every_case_is_accounted_for(dirty: Warehouse) -> None:
    rows = dirty.query(
        "select path from stg_landing_accounting "
        "where n_lines <> n_staged + n_duplicates + n_superseded + n_quarantined"
    )
    assert rows == []


@needs_shared
def test_all_folders_are_covered() -> None:
    assert sorted(CHECKS) == FOLDERS
    assert len(FOLDERS) == 22
    index = (DIRTY / "INDEX.tsv").read_text().splitlines()[1:]
    assert sorted(line.partition("\t")[0] for line in index) == FOLDERS
