"""The first five minutes: demo, night, summary, rollback; and what a mistake looks like."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from end_to_end.first_run import AS_OF, FirstRun, Places

pytestmark = pytest.mark.xdist_group("first_run")

FIRST_ID = "20261130T000000Z-0001"
MARTS = {
    "mart_alerts",
    "mart_corrected_estimates",
    "mart_experiment_comparison",
    "mart_exposure_sensitivity",
    "mart_landing_checks",
    "mart_retrieval_quality",
    "mart_segment_weekly",
    "mart_slo_status",
}
DIMENSIONS = {"dim_label_classes", "dim_metrics", "dim_publication", "dim_versions"}
FACTS = {"fct_query_scores", "fct_retrievals"}


# --- a night ---------------------------------------------------------------------------------


def test_the_night_says_what_it_did(first_run: FirstRun) -> None:
    night = first_run.night

    # the regression at its end is too short of questions to be beyond doubt in so small a demo
    assert night.returncode == 0, night.stderr
    assert night.stderr == ""
    assert "Alerts: 0 opened, 0 resolved, 0 open; newest verdicts breached or worth a page: 0." in night.stdout
    assert re.search(r"^Built and tested \d+ nodes in [\d.]+ s\.$", night.stdout, flags=re.MULTILINE)
    assert f"Published {FIRST_ID}:" in night.stdout
    assert "Last 24 hours (2026-11-29 00:00 to 2026-11-30 00:00 UTC)" in night.stdout
    assert "Four weeks (2026-11-02 00:00 to 2026-11-30 00:00 UTC)" in night.stdout
    assert re.search(r"synthetic +scheduled_eval +final +recall@5 ", night.stdout)
    assert f"Published database: {first_run.places.current / 'rag_quality.duckdb'}" in night.stdout


def test_it_leaves_nothing_where_it_was_called(first_run: FirstRun) -> None:
    assert list(first_run.places.work.iterdir()) == []


def test_the_publication_is_whole(first_run: FirstRun) -> None:
    places = first_run.places

    assert (places.published / "current").is_symlink()
    assert places.current == places.published.resolve() / "versions" / FIRST_ID
    assert {path.name for path in places.current.iterdir()} == {"rag_quality.duckdb", "parquet"}
    tables = places.query("select table_name from duckdb_tables() where schema_name = 'main'")
    assert {name for (name,) in tables} == MARTS | DIMENSIONS | FACTS
    files = {path.relative_to(places.current / "parquet").parts[0] for path in parquet_files(places)}
    assert files == {f"{name}.parquet" for name in MARTS | DIMENSIONS} | FACTS
    assert not list(places.published.rglob(".tmp-*"))


def test_any_duckdb_since_1_2_reads_the_database(first_run: FirstRun) -> None:
    with (first_run.places.current / "rag_quality.duckdb").open("rb") as file:
        header = file.read(32)

    # the magic word follows a checksum of 8 bytes; then the number of the storage format, 65 since 1.2
    assert header[8:12] == b"DUCK"
    assert int.from_bytes(header[12:20], "little") == 65


def test_parquet_and_database_hold_the_same_rows(first_run: FirstRun) -> None:
    places = first_run.places
    for table in sorted(MARTS | DIMENSIONS):
        difference = f"(from {table} except all from '{places.current}/parquet/{table}.parquet')"
        assert places.query(f"select count(*) from {difference}") == [(0,)], table
    for table in sorted(FACTS):
        landed = f"read_parquet('{places.current}/parquet/{table}/*/*.parquet', hive_partitioning = true)"
        columns = ", ".join(name for (name,) in places.query(f"select column_name from (describe {table})"))
        difference = f"(select {columns} from {table} except all select {columns} from {landed})"
        assert places.query(f"select count(*) from {difference}") == [(0,)], table
        days = {path.parent.name for path in parquet_files(places) if table in path.parts}
        assert days == {f"traced_on={day}" for day in first_run.demo.schedule.days}


def test_every_landed_line_is_accounted_for(first_run: FirstRun) -> None:
    demo = first_run.demo
    landed = dict(
        first_run.places.query_warehouse(
            "select contract, sum(n_lines) from stg_landing_accounting where contract <> 'landing_checks' "
            "group by contract"
        )
    )
    assert landed == {contract.contract: contract.n_lines for contract in demo.contracts}
    assert first_run.places.query_warehouse(
        "select count(*) from stg_landing_accounting"
        " where n_lines <> n_staged + n_duplicates + n_superseded + n_quarantined"
    ) == [(0,)]
    planted = {blemish.name: blemish.n for blemish in demo.blemishes}
    assert first_run.places.query_warehouse("select count(*) from stg_quarantine") == [(planted["malformed_lines"],)]


# --- the numbers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "k", "witness"), [("recall", 5, "recall_5"), ("reciprocal_rank", 10, "reciprocal_rank_10")]
)
def test_every_night_has_the_score_that_the_demo_knows(first_run: FirstRun, metric: str, k: int, witness: str) -> None:
    rows = first_run.places.query(
        """
        select window_start_at::date::varchar, estimate, n_scored
        from mart_retrieval_quality
        where window_name = 'day' and traffic = 'scheduled_eval' and label_class = 'synthetic'
            and segment_dimension = 'total' and stage = 'final' and metric = ? and k = ?
        """,
        metric,
        k,
    )
    estimates = {f"eval-{day}": (estimate, n) for day, estimate, n in rows if n}

    nights = first_run.demo.nights
    assert {night.index_version for night in nights} == {"pydocs-v1", "pydocs-v2", "pydocs-v2.1"}
    assert set(estimates) == {night.eval_run_id for night in nights}
    for night in nights:
        estimate, n = estimates[night.eval_run_id]
        assert n == night.n_queries
        assert estimate == pytest.approx(getattr(night, witness), abs=1e-9)


def test_the_first_stage_has_the_recall_that_the_demo_knows(first_run: FirstRun) -> None:
    rows = first_run.places.query(
        """
        select eval_run_id, avg(recall)
        from fct_query_scores
        inner join fct_retrievals using (trace_id, traced_on)
        where stage = 'retriever' and label_class = 'synthetic' and k = 50
        group by eval_run_id
        """
    )
    witness = {night.eval_run_id: night.recall_50_retriever for night in first_run.demo.nights}
    assert dict(rows) == pytest.approx(witness, abs=1e-9)


# --- the other commands ----------------------------------------------------------------------


def test_summary_repeats_the_table_of_the_night(first_run: FirstRun) -> None:
    summary = first_run.places.run("summary")

    assert (summary.returncode, summary.stderr) == (0, "")
    assert first_run.night.stdout.endswith(summary.stdout)


def test_summary_for_machines_has_the_numbers_of_the_mart(first_run: FirstRun) -> None:
    summary = first_run.places.run("summary", "--json")

    assert (summary.returncode, summary.stderr) == (0, "")
    told = json.loads(summary.stdout)
    assert told["database"] == str(first_run.places.current / "rag_quality.duckdb")
    rows = [row for row in told["summary"] if row["window_name"] == "trailing_28d" and row["label_class"] == "explicit"]
    assert {(row["stage"], row["metric"], row["k"], row["estimate"], row["n_scored"]) for row in rows} == set(
        first_run.places.query(
            """
            select stage, metric, k, estimate, n_scored
            from mart_retrieval_quality
            where window_name = 'trailing_28d' and label_class = 'explicit' and segment_dimension = 'total'
                and (stage, metric, k) in (('final', 'precision', 5), ('final', 'recall', 5),
                    ('final', 'reciprocal_rank', 10), ('retriever', 'recall', 10))
            """
        )
    )


def test_a_reader_that_has_seen_enough_is_no_failure(first_run: FirstRun) -> None:
    """As in `retrieval-quality summary | head -1`: exit code 1 would say that a verdict is breached."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    summary = first_run.places.run("summary", stdout=write_end)
    os.close(write_end)

    assert (summary.returncode, summary.stderr) == (0, "")


def test_publish_and_roll_back(first_run: FirstRun, tmp_path: Path) -> None:
    places = first_run.places.copy_to(tmp_path)

    again = places.run("publish")
    assert (again.returncode, again.stderr) == (0, "")
    assert re.fullmatch(
        r"Published 20261130T000000Z-0002: 14 tables, 0 fact days written, 16 unchanged\.\n", again.stdout
    )
    back = places.run("rollback")
    assert (back.returncode, back.stdout, back.stderr) == (0, f"current is {FIRST_ID}\n", "")
    assert places.current.name == FIRST_ID
    forth = places.run("rollback", "20261130T000000Z-0002")
    assert (forth.returncode, places.current.name) == (0, "20261130T000000Z-0002")
    nowhere = places.run("rollback", "20261130T000000Z-0009")
    assert nowhere.returncode == 2
    assert nowhere.stderr.startswith("error: no version 20261130T000000Z-0009; there are: ")
    assert places.current.name == "20261130T000000Z-0002"


# --- mistakes --------------------------------------------------------------------------------


def no_landing(places: Places) -> None:
    places.landing.rename(places.root / "elsewhere")


def misspelt_contract(places: Places) -> None:
    (places.landing / "feedback").rename(places.landing / "feedbak")


def damaged_gzip(places: Places) -> None:
    file = next((places.landing / "retrieval_traces").rglob("*.gz"))
    lines = gzip.decompress(file.read_bytes())
    file.write_bytes(gzip.compress(lines + lines)[: file.stat().st_size // 2])


def nothing(places: Places) -> None:
    assert places.landing.is_dir()


@pytest.mark.parametrize(
    ("spoil", "variables", "message"),
    [
        (no_landing, AS_OF, r"landing folder \S+/landing does not exist"),
        (misspelt_contract, AS_OF, r"landing folder 'feedbak' is no contract; did you mean 'feedback'\? Known: .*"),
        (damaged_gzip, AS_OF, r"\S+/part-0000\.jsonl\.gz: damaged, cannot be decompressed \(.*\)"),
        (nothing, "reported_days", r"--vars must be a mapping such as .*, got 'reported_days'"),
        (nothing, "{reported_days: many}", r".*var reported_days must be a whole number >= 0, got many .*"),
    ],
    ids=["no landing", "misspelt contract", "damaged gzip", "vars no mapping", "var type"],
)
def test_a_mistake_is_told_in_one_line_and_changes_nothing(
    first_run: FirstRun, tmp_path: Path, spoil: Callable[[Places], None], variables: str, message: str
) -> None:
    places = first_run.places.copy_to(tmp_path)
    before = content_of(places.published)
    spoil(places)

    night = places.run("nightly", "--full-refresh", "--vars", variables)

    assert night.returncode == 2
    assert night.stdout == ""
    told = [line for line in night.stderr.splitlines() if not line.startswith("details: ")]
    assert len(told) == 1, night.stderr
    assert re.fullmatch(f"error: {message}", told[0])
    assert content_of(places.published) == before
    assert places.run("summary").returncode == 0


def parquet_files(places: Places) -> Iterator[Path]:
    return (places.current / "parquet").rglob("*.parquet")


def content_of(folder: Path) -> dict[str, str]:
    """Every file and link below a folder, and what it holds."""
    return {
        str(path.relative_to(folder)): str(path.readlink())
        if path.is_symlink()
        else sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }
