"""What a team's data lack, said in plain words."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from retrieval_quality.doctor import NEEDS, DoctorError, describe, diagnose

TRACES = "update stg_retrieval_traces set"
COMPLETE = """
    create table stg_retrieval_traces as select
        't' || i as trace_id, 's' as session_id, 'q' as query, 'q1' as query_id, 'r1' as eval_run_id, [1] as candidates,
        'v' as index_version, 'v' as embedding_model, 'v' as chunker_version, 'b' as experiment_bucket,
        1.0 as retrieval_latency_ms
    from range(4) t(i);
    create table stg_feedback as select
        'positive' as rating_label, true as answer_correct, label_class, 0.1 as inclusion_probability,
        ['c'] as chunk_ids
        from (values ('audit'), ('judge'), ('implicit')) as classes (label_class);
    create view int_feedback as from stg_feedback;
    create table stg_qrels as select 'q1' as query_id;
    create table stg_eval_runs as select 'r1' as eval_run_id;
    create table int_feedback_traces as select 'attached' as attachment;
    create table stg_landing_checks as select 'c' as check_id;
    create table stg_landing_accounting as select
        'retrieval_traces' as contract, 5 as n_lines, 4 as n_staged, 1 as n_quarantined;
"""


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    path = tmp_path / "warehouse.duckdb"
    change(path, COMPLETE)
    return path


def change(path: Path, statements: str) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute(statements)


def test_nothing_is_missing(warehouse: Path) -> None:
    assert describe(diagnose(warehouse)) == [
        "What landed:",
        "  retrieval_traces: 5 lines, 4 staged, 1 in quarantine",
        "",
        "Nothing is missing.",
    ]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("delete from stg_retrieval_traces", "no traces landed"),
        ("delete from stg_feedback; delete from stg_qrels", "no labels landed"),
        (f"{TRACES} candidates = null", "no candidates logged: retriever stage is empty; log `cand"),
        ("delete from stg_qrels", "no judged questions"),
        ("update stg_qrels set query_id = 'other'", "no judged question was ever asked"),
        ("insert into stg_qrels values ('other')", "only 50% of the judged questions were ever asked"),
        ("delete from stg_eval_runs", "no evaluation run is declared"),
        ("update int_feedback_traces set attachment = 'orphan'", "no feedback finds its trace"),
        ("update stg_feedback set answer_correct = null", "no upvote says whether the answer was right"),
        ("update stg_feedback set label_class = 'explicit'", "no audited sample"),
        ("delete from stg_feedback where label_class = 'judge'", "no judge"),
        ("update stg_feedback set chunk_ids = null", "no implicit signal names a chunk"),
        (f"{TRACES} session_id = trace_id", "no sessions"),
        (f"{TRACES} session_id = trace_id where trace_id = 't0'", "only 75% of the traces have a session"),
        (f"{TRACES} query = null", "no query text"),
        (f"{TRACES} index_version = null", "no index_version logged"),
        (f"{TRACES} chunker_version = null where trace_id > 't0'", "only 25% of the traces say their chunker"),
        (f"{TRACES} experiment_bucket = null", "no experiment"),
        (f"{TRACES} retrieval_latency_ms = null", "no latency logged"),
        ("delete from stg_landing_checks", "the landing check has not run"),
    ],
)  # fmt: skip
def test_what_is_missing_is_said(warehouse: Path, statement: str, words: str) -> None:
    change(warehouse, statement)
    findings = diagnose(warehouse).findings
    assert any(finding.message.startswith(words) for finding in findings), findings


def test_what_cannot_be_asked_is_not_missing(warehouse: Path) -> None:
    """Without traces nothing else is said of them, and nothing of feedback that was never landed."""
    change(warehouse, "delete from stg_retrieval_traces; delete from stg_feedback; delete from int_feedback_traces")
    change(warehouse, "delete from stg_qrels; delete from stg_eval_runs")
    assert [finding.message.split(":")[0] for finding in diagnose(warehouse).findings] == ["no traces landed"]


def test_every_need_names_marts_that_exist() -> None:
    project = Path(__file__).parents[2]
    models = {path.stem for folder in ("models", "python_models") for path in (project / folder).rglob("*.*")}
    assert {mart for need in NEEDS for mart in need.marts} - {"every mart"} <= models


def test_a_warehouse_that_cannot_be_looked_at(tmp_path: Path) -> None:
    with pytest.raises(DoctorError, match="no warehouse at"):
        diagnose(tmp_path / "none.duckdb")
    change(tmp_path / "begun.duckdb", "create table other as select 1")
    with pytest.raises(DoctorError, match="not built to the end"):
        diagnose(tmp_path / "begun.duckdb")
