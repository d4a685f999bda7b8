"""A contract that is a table instead of files: in an attached database, read by its arrival column."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest
from support import Warehouse

from retrieval_quality.build import BuildFailed

TRACES = """
    create table rag_traces (
        session_id integer, query varchar, retrieved struct(chunk_id varchar, score float, page integer)[],
        asked_at timestamptz, loaded_at timestamp
    )
"""
FEEDBACK = (
    "create table feedback (session_id integer, chunk_ids varchar[], rating integer, implicit boolean, loaded_at date)"
)
ACCOUNTING = "n_lines, n_staged, n_duplicates, n_superseded, n_quarantined"


def variables(prod: Path) -> dict[str, object]:
    return {
        "landing_databases": {"prod": str(prod)},
        "landing_relations": {
            "retrieval_traces": {
                "relation": "prod.main.rag_traces",
                "arrival_column": "loaded_at",
                "columns": {"ts": "asked_at"},
            },
            "feedback": {
                "relation": "prod.main.feedback",
                "arrival_column": "loaded_at",
                "columns": {"ts": "loaded_at"},
            },
        },
    }


def insert(prod: Path, *statements: str) -> None:
    with duckdb.connect(str(prod)) as connection:
        connection.execute("set TimeZone = 'UTC'")
        for statement in statements:
            connection.execute(statement)


def accounting(warehouse: Warehouse) -> dict[str, Sequence[object]]:
    """Arrival day (of traces) to the accounting of its newest registration."""
    rows = warehouse.query(
        f"select split_part(path, 'arrived=', 2), {ACCOUNTING} from stg_landing_accounting "
        "where contract = 'retrieval_traces' order by file_id"
    )
    return {str(day): numbers for day, *numbers in rows}


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """Three nights over one growing table; what each left behind."""
    root = tmp_path_factory.mktemp("relations")
    prod, warehouse = root / "prod.duckdb", Warehouse(root)
    insert(
        prod, TRACES, FEEDBACK,
        """insert into rag_traces values
            (1, 'first', [{'chunk_id': 'a', 'score': 0.5, 'page': 1}, {'chunk_id': 'b', 'score': 0.25, 'page': 2}],
             '2026-11-20 11:00:00+01', '2026-11-20 10:05:00'),
            (2, 'second', [], '2026-11-20 12:00:00', '2026-11-20 12:05:00'),
            (3, 'no time', [], null, '2026-11-21 00:05:00'),
            (4, 'never arrived', null, '2026-11-22', null)""",
        "insert into feedback values (1, ['b'], 1, false, '2026-11-20')",
    )  # fmt: skip
    found: list[dict[str, object]] = []

    def night() -> None:
        warehouse.build(variables(prod) | {"max_quarantined_share": 1.0})
        found.append(
            {
                "accounting": accounting(warehouse),
                "traces": warehouse.query(
                    "select session_id, query, traced_at::varchar, ingested_at::varchar, "
                    "list_transform(retrieved, lambda chunk: (chunk.rank, chunk.chunk_id)) "
                    "from stg_retrieval_traces order by query, traced_at"
                ),
                "quarantine": warehouse.query("select reject_reason, raw_text from stg_quarantine"),
                "scores": warehouse.query(
                    "select session_id, label_class, k, precision, reciprocal_rank from fct_query_scores "
                    "inner join fct_retrievals using (trace_id, traced_on) where k = 5"
                ),
            }
        )

    night()
    # a row committed late, into a day that was read; a correction of the first; a new day
    insert(
        prod,
        "insert into rag_traces values (5, 'late', [], '2026-11-20 09:00:00', '2026-11-20 09:05:00')",
        "insert into rag_traces select * replace ([{'chunk_id': 'b', 'score': 1, 'page': 1}] as retrieved, "
        "timestamp '2026-11-23 00:00:00' as loaded_at) from rag_traces where session_id = 1",
    )
    night()
    night()
    return found


def test_a_row_is_staged_as_a_line_would_be(nights: list[dict[str, object]]) -> None:
    assert nights[0]["traces"] == [
        ("1", "first", "2026-11-20 10:00:00", "2026-11-20 10:05:00", [(1, "a"), (2, "b")]),
        ("4", "never arrived", "2026-11-22 00:00:00", None, None),
        ("2", "second", "2026-11-20 12:00:00", "2026-11-20 12:05:00", []),
    ]
    # the guide's feedback(session_id, chunk_ids, rating, implicit): b, at rank 2, is the one relevant chunk
    assert nights[0]["scores"] == [("1", "explicit", 5, 0.2, 0.5)]


def test_every_row_is_accounted_for_by_its_day_of_arrival(nights: list[dict[str, object]]) -> None:
    assert nights[0]["accounting"] == {
        "2026-11-20": [2, 2, 0, 0, 0],
        "2026-11-21": [1, 0, 0, 0, 1],
        "unknown": [1, 1, 0, 0, 0],
    }


def test_a_bad_row_is_quarantined_as_it_stands(nights: list[dict[str, object]]) -> None:
    ((reason, raw),) = nights[0]["quarantine"]  # type: ignore[misc]
    assert reason == "missing_ts"
    assert json.loads(raw) == {
        "session_id": 3, "query": "no time", "retrieved": [], "asked_at": None, "loaded_at": "2026-11-21 00:05:00",
    }  # fmt: skip


def test_a_late_row_and_a_correction_are_found(nights: list[dict[str, object]]) -> None:
    assert nights[1]["traces"] == [
        ("1", "first", "2026-11-20 10:00:00", "2026-11-23 00:00:00", [(1, "b")]),
        ("5", "late", "2026-11-20 09:00:00", "2026-11-20 09:05:00", []),
        ("4", "never arrived", "2026-11-22 00:00:00", None, None),
        ("2", "second", "2026-11-20 12:00:00", "2026-11-20 12:05:00", []),
    ]
    assert nights[1]["scores"] == [("1", "explicit", 5, 0.2, 1.0)]
    # the day that grew was read again whole: of its three rows one is new, one was there, one has been superseded
    assert nights[1]["accounting"] == {
        "2026-11-20": [3, 1, 1, 1, 0],
        "2026-11-21": [1, 0, 0, 0, 1],
        "unknown": [1, 1, 0, 0, 0],
        "2026-11-23": [1, 1, 0, 0, 0],
    }


def test_a_night_without_new_rows_reads_nothing(nights: list[dict[str, object]]) -> None:
    assert nights[2] == nights[1]


def test_nested_values_may_be_json_text(tmp_path: Path) -> None:
    prod, warehouse = tmp_path / "prod.duckdb", Warehouse(tmp_path)
    insert(
        prod,
        "create table rag_traces (session_id varchar, retrieved varchar, ids varchar[], asked_at bigint, "
        "loaded_at timestamptz)",
        """insert into rag_traces values
            ('text', '[{"chunk_id": 7, "score": 1, "rank": 2}, {"chunk_id": "b", "rank": 1}]', ['x'], 1795996800,
                '2026-11-30'),
            ('no list', 'a, b', ['x', 'y'], 1795996800, '2026-11-30')""",
    )
    relations = {
        "retrieval_traces": {
            "relation": "prod.main.rag_traces",
            "arrival_column": "loaded_at",
            "columns": {"ts": "asked_at", "candidates": "list_transform(ids, lambda id: {'chunk_id': id})"},
        }
    }
    warehouse.build({"landing_databases": {"prod": str(prod)}, "landing_relations": relations})
    rows = warehouse.query(
        "select session_id, list_transform(retrieved, lambda chunk: chunk.chunk_id), "
        "list_transform(candidates, lambda chunk: chunk.chunk_id) from stg_retrieval_traces order by session_id"
    )
    assert rows == [("no list", None, ["x", "y"]), ("text", ["b", "7"], ["x"])]


@pytest.mark.parametrize(
    "relations",
    [
        *(
            pytest.param(relations, marks=pytest.mark.slow)
            for relations in (
                ["rag_traces"],
                {"traces": {"relation": "rag_traces", "arrival_column": "loaded_at"}},
                {"retrieval_traces": {"relation": "rag_traces"}},
                {"retrieval_traces": {"relation": "rag_traces", "arrival_column": "loaded_at", "since": "2026"}},
            )
        ),
        {"retrieval_traces": {"relation": "rag_traces", "arrival_column": "loaded_at", "columns": {"when": "ts"}}},
    ],
    ids=str,
)
def test_a_relation_that_makes_no_sense_is_said(tmp_path: Path, relations: object) -> None:
    with pytest.raises(BuildFailed, match="var landing_relations must be a mapping of contract to"):
        Warehouse(tmp_path).build({"landing_relations": relations})
