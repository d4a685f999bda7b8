"""Nights that see the same files in parts end in the tables of one night that sees them all."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pytest
from support import Warehouse

from retrieval_quality.build import BuildFailed

AS_OF = {"as_of": "2026-03-10T00:00:00Z"}
DAY = 86_400
FIRST_DAY = 1_772_323_200  # 2026-03-01T00:00:00Z

# The ledger, versions and accounting are technical, and outside the equality.
TECHNICAL = {
    "file_id", "load_id", "changed_in_load", "lost_deliveries", "day_version", "policy_version", "previous_days",
}  # fmt: skip
APART = {
    "stg_landing_files", "stg_landing_accounting", "stg_accepted_lines", "stg_rejected_lines", "stg_quarantine",
    "stg_unsettled_loads", "stg_frozen_lines", "int_day_versions", "int_policy_versions", "int_built_versions",
}  # fmt: skip
# an equality of nothing with nothing would show nothing
FILLED = (
    "stg_retrieval_traces", "stg_feedback", "stg_queries", "stg_qrels", "stg_eval_runs",
    "int_relevance_labels", "int_relevant_sets", "int_judged_chunks", "fct_retrievals", "fct_query_scores",
    "int_score_histograms", "int_score_denominators", "int_score_histograms_hourly", "int_score_denominators_hourly",
    "int_trusted_days", "int_listed_units", "int_joint_histograms", "int_shown_lists", "int_judged_places",
    "mart_retrieval_quality", "mart_segment_weekly", "mart_corrected_estimates", "dim_versions",
)  # fmt: skip
Contents = dict[str, list[tuple[object, ...]]]


def trace(number: int, day: int, *, session: str | None = None, **other: object) -> dict[str, object]:
    chunks = [f"c{(number * 7 + place) % 11}" for place in range(5)]
    return {
        "trace_id": f"t{number}",
        "session_id": session or f"s{number}",
        "ts": FIRST_DAY + day * DAY + number * 37.25,
        "query": f"question {number % 4}",
        "retrieved": [{"chunk_id": chunk, "score": 1 / (1 + place)} for place, chunk in enumerate(chunks)],
        "index_version": f"v{number % 2}",
    } | other


def thumb(number: int, given_day: int, **other: object) -> dict[str, object]:
    return {
        "feedback_id": f"f{number}",
        "session_id": f"s{number}",
        "chunk_ids": [f"c{(number * 7) % 11}", f"c{(number * 7 + 2) % 11}"],
        "rating": number % 3 > 0,
        "ts": FIRST_DAY + given_day * DAY + 80_000 + number,
    } | other


def verdict(number: int, signal: str) -> dict[str, object]:
    chance = {"inclusion_probability": 0.25 + number % 4 / 4} if signal == "audit" else {}
    return thumb(number, 4) | {"feedback_id": f"{signal}{number}", "signal": signal} | chance


def nights() -> list[list[tuple[str, str, list[dict[str, object]]]]]:
    """Three nights of (contract, file, rows): with what makes nights differ from one another."""
    first = [trace(n, n % 4) for n in range(24)]
    labels = [*(thumb(n, 4) for n in range(12)), *(verdict(n, "audit") for n in range(0, 16, 2))]
    evaluation = [trace(100 + n, 2, query_id=f"q{n}", eval_run_id="e1") for n in range(3)]
    moved = trace(5, 3) | {"ingested_at": FIRST_DAY + 6 * DAY}  # its day was 1, and is emptied of it
    rerouting = trace(200, 1, session="s8")  # a second trace of the session: its label has to choose
    return [
        [
            ("retrieval_traces", "a.jsonl", first),
            ("feedback", "a.jsonl", labels),
            ("queries", "a.jsonl", [{"query_id": f"q{n}", "query": f"q {n}", "query_set": "gold"} for n in range(4)]),
            ("qrels", "a.jsonl", [{"query_id": f"q{n}", "chunk_id": f"c{n}", "grade": n} for n in range(4)]),
        ],
        [
            ("retrieval_traces", "b.jsonl", [*evaluation, *first[:3], moved]),
            ("eval_runs", "a.jsonl", [{"eval_run_id": "e1", "started_at": FIRST_DAY + 2 * DAY, "query_set": "gold"}]),
            # the first is before its trace
            ("feedback", "b.jsonl", [thumb(30, 5), thumb(13, 5), *(verdict(n, "judge") for n in range(20))]),
        ],
        [
            ("retrieval_traces", "c.jsonl", [rerouting, trace(30, 4), trace(31, 8), {"trace_id": "broken"}]),
            ("feedback", "c.jsonl", [thumb(2, 6, rating=False, ingested_at=FIRST_DAY + 8 * DAY), thumb(31, 8)]),
            ("qrels", "b.jsonl", [{"query_id": "q1", "chunk_id": "c3", "grade": 2, "labelled_at": FIRST_DAY}]),
        ],
    ]


def contents(warehouse: Warehouse) -> Contents:
    """The rows of every table that has to be the same, in a fixed order, without what is technical in them."""
    with duckdb.connect(str(warehouse.path), read_only=True) as connection:
        names = connection.execute(
            "select table_name from duckdb_tables() where schema_name = 'main' and table_name not like '%__dbt_%'"
        ).fetchall()
        columns = f"columns(lambda name: not list_contains({sorted(TECHNICAL)}, name))"
        return {
            table: connection.execute(f"select {columns} from {table} order by all").fetchall()
            for (table,) in names
            if table not in APART
        }


def differing(found: Contents, expected: Contents) -> list[str]:
    """Tables whose rows differ, down to the last bit of a float; a table that only one of them has is one."""
    return sorted(
        table
        for table in found.keys() | expected.keys()
        # compared as text: NaN equals NaN, and 0.1 + 0.2 is not 0.3
        if repr(found.get(table)) != repr(expected.get(table))
    )


@pytest.fixture(scope="module")
def one_night(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    warehouse = Warehouse(tmp_path_factory.mktemp("one_night"))
    for night in nights():
        for contract, file, rows in night:
            warehouse.land(contract, rows, file)
    warehouse.build(AS_OF)
    return contents(warehouse)


@pytest.mark.parametrize(
    "order",
    [(2, 0, 1), pytest.param((0, 1, 2), marks=pytest.mark.slow)],
    ids=["out of order", "as they came"],
)
def test_nights_end_where_one_night_ends(order: tuple[int, ...], one_night: Contents, tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    shuffled = random.Random(len(order) + order[0])
    for night in order:
        for contract, file, rows in nights()[night]:
            warehouse.land(contract, shuffled.sample(rows, len(rows)), file)
        warehouse.build(AS_OF)

    assert all(one_night[table] for table in FILLED)
    assert differing(contents(warehouse), one_night) == []


def test_a_night_without_new_files_changes_nothing(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    for contract, file, rows in nights()[0]:
        warehouse.land(contract, rows, file)
    warehouse.build(AS_OF)
    before = contents(warehouse), warehouse.query("from int_day_versions")
    warehouse.build(AS_OF)
    assert (contents(warehouse), warehouse.query("from int_day_versions")) == before
    assert warehouse.query("select count(*), max(load_id) from stg_landing_files") == [(4, 1)]


def test_a_night_that_dies_before_its_rows_are_settled_is_made_good(one_night: Contents, tmp_path: Path) -> None:
    """Rows are committed, then settled: in between they hold rejected lines and several rows of a key."""
    warehouse = Warehouse(tmp_path)
    dies = {"macros/landing/settle_deliveries.sql": ("begin transaction;", "select error('killed');")}
    for night, edits in zip(nights(), (dies, None, dies), strict=True):
        for contract, file, rows in night:
            warehouse.land(contract, rows, file)
        if edits:
            with pytest.raises(BuildFailed, match="killed"):
                warehouse.build(AS_OF, edits=edits)
            assert warehouse.query("select count(*) > 0 from stg_unsettled_loads") == [(True,)]
        else:
            warehouse.build(AS_OF)
    assert warehouse.query("select count(*) from stg_retrieval_traces where reject_reason is not null") == [(1,)]

    warehouse.build(AS_OF)

    assert warehouse.query("from stg_unsettled_loads") == []
    assert warehouse.query("select line_number, reject_reason from stg_quarantine") == [(4, "missing_ts")]
    assert differing(contents(warehouse), one_night) == []


def test_parquet_files_of_one_night_do_not_change_one_another(tmp_path: Path) -> None:
    """Ids and times are cast from the types of their own file, not from what it shares with the others."""
    warehouse = Warehouse(tmp_path)
    folder = warehouse.landing / "retrieval_traces"
    folder.mkdir(parents=True)
    with duckdb.connect() as connection:
        connection.execute(
            "copy (select 't1' as trace_id, 7::bigint as session_id, 1772323200.25::double as ts, "
            f"[{{'chunk_id': 1}}] as retrieved) to '{folder}/a.parquet'"
        )
        connection.execute(
            "copy (select 't2' as trace_id, 8.5::double as session_id, timestamp '2026-03-01 00:00:01' as ts, "
            f"[{{'chunk_id': 'x', 'score': 0.5}}] as retrieved) to '{folder}/b.parquet'"
        )
    warehouse.build(AS_OF)
    assert warehouse.query(
        "select trace_id, session_id, traced_at::varchar, [chunk.chunk_id for chunk in retrieved] "
        "from stg_retrieval_traces order by trace_id"
    ) == [("t1", "7", "2026-03-01 00:00:00.25", ["1"]), ("t2", "8.5", "2026-03-01 00:00:01", ["x"])]
