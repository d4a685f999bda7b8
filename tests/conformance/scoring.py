"""The scoring SQL alone: dbt compiles the project once, then rows go straight into staging tables.

Nothing is copied from the models: what dbt compiled for every model between staging and
`fct_query_scores` runs in an in-memory database whose catalog has the name of the warehouse the SQL
was compiled for. Views are views there; the tables of the warehouse are tables, filled from their
compiled SQL within a transaction that is rolled back (views over views throughout are ten times
slower: each is planned anew for every reference). Seeds and staging models have the types dbt built.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from unittest import mock

import duckdb
import pyarrow as pa
from support import PROJECT, Warehouse

from retrieval_quality.build import one_line, release_database

Run = Mapping[str, Sequence[str]]
"""Chunk ids by query, best first."""
Qrels = Mapping[str, Mapping[str, int]]
"""Grades by query and chunk."""
Scores = dict[tuple[str, str, int], float | None]
"""Values by query, column of fct_query_scores, and k (0: the whole list)."""

CUTOFFS: Final = (1, 2, 3, 4, 5, 7, 10, 15, 20, 23, 30, 100, 200, 500, 1000, 2000)
COUNTS: Final = ("n_relevant", "n_returned", "n_judged", "n_hits")

_TARGET: Final = "model.retrieval_quality.fct_query_scores"
_ANSWERED_AT: Final = "timestamp '2026-01-02 12:00:00'"
_EVAL_RUN: Final = "conformance"


@dataclass(frozen=True)
class Scoring:
    """An in-memory catalog with the project's compiled scoring SQL over empty staging tables.

    `fills` are the statements that rebuild the tables between staging and the scores, in order.
    """

    connection: duckdb.DuckDBPyConnection
    metrics: tuple[str, ...]
    fills: tuple[str, ...]

    def score(
        self,
        run: Run,
        qrels: Qrels,
        *,
        label_class: str = "golden",
        cutoffs: Sequence[int] = CUTOFFS,
        relevant_from: int = 1,
        complete: bool = False,
    ) -> Scores:
        """Score ranked lists by a label class; every metric and count, at `cutoffs` and at 0.

        A query without judgments is not scored. With `complete` the lists are those of an evaluation
        run whose query set is every query of `qrels`, so that a query it never answered is scored too.
        """
        unknown = set(cutoffs) - set(CUTOFFS)
        if unknown:
            raise ValueError(f"the views are compiled for {CUTOFFS}, not for {sorted(unknown)}")
        repeated = [query for query, chunks in run.items() if len(set(chunks)) < len(chunks)]
        if repeated:
            raise ValueError(f"staging would have dropped repeated chunks of {repeated[:5]}: pass each once")
        columns = (*self.metrics, *COUNTS)
        with self._landed(run, qrels, label_class, relevant_from, complete):
            rows = self.connection.execute(
                f"""
                select retrievals.query_id, scores.k, {", ".join(f"scores.{column}" for column in columns)}
                from fct_query_scores as scores
                inner join fct_retrievals as retrievals using (trace_id)
                where scores.stage = 'final' and scores.label_class = ? and list_contains(?, scores.k)
                """,
                [label_class, [*cutoffs, 0]],
            ).fetchall()
        return {
            (query, column, k): value
            for query, k, *values in rows
            for column, value in zip(columns, values, strict=True)
        }

    @contextmanager
    def _landed(self, run: Run, qrels: Qrels, label_class: str, relevant_from: int, complete: bool) -> Iterator[None]:
        frames = {
            "conformance_queries": pa.table({"query_id": pa.array(list(run), pa.string())}),
            "conformance_run": _table(
                [(query, rank, chunk) for query, chunks in run.items() for rank, chunk in enumerate(chunks, 1)],
                query_id=pa.string(),
                rank=pa.int32(),
                chunk_id=pa.string(),
            ),
            "conformance_qrels": _table(
                [(query, chunk, grade) for query, grades in qrels.items() for chunk, grade in grades.items()],
                query_id=pa.string(),
                chunk_id=pa.string(),
                grade=pa.int32(),
            ),
        }
        for name, frame in frames.items():
            self.connection.register(name, frame)
        self.connection.begin()
        try:
            self._insert(label_class, relevant_from, complete)
            for fill in self.fills:
                self.connection.execute(fill)
            yield
        finally:
            self.connection.rollback()
            for name in frames:
                self.connection.unregister(name)

    def _insert(self, label_class: str, relevant_from: int, complete: bool) -> None:
        eval_run = f"'{_EVAL_RUN}'" if complete else "null"
        self.connection.execute(
            "update label_classes set relevant_from = ? where label_class = ?", [relevant_from, label_class]
        )
        self.connection.execute(
            f"""
            insert into stg_retrieval_traces by name
            select
                query_id as trace_id, query_id as session_id, query_id, {eval_run} as eval_run_id,
                {_ANSWERED_AT} as traced_at, {_ANSWERED_AT}::date as traced_on,
                coalesce(lists.retrieved, []) as retrieved,
                0 as n_duplicates, 0 as n_non_finite_scores, 1.0 as sample_rate, 1 as changed_in_load
            from conformance_queries
            left join (
                select
                    query_id,
                    list({{'rank': rank, 'chunk_id': chunk_id, 'score': null::double}} order by rank) as retrieved
                from conformance_run
                group by query_id
            ) as lists using (query_id)
            """
        )
        self.connection.execute(
            """
            insert into stg_qrels by name
            select
                query_id || ' ' || chunk_id as qrel_id, query_id, chunk_id, ? as label_class, '' as labeller,
                grade, 1 as changed_in_load
            from conformance_qrels
            """,
            [label_class],
        )
        if complete:
            self.connection.execute(
                f"""
                insert into stg_eval_runs by name
                select
                    '{_EVAL_RUN}' as eval_run_id, 'golden' as query_set, 'scheduled' as kind,
                    {_ANSWERED_AT} as started_at, 1 as changed_in_load
                """
            )
            self.connection.execute(
                """
                insert into stg_queries by name
                select distinct query_id, query_id as query, 'golden' as query_set, 1 as changed_in_load
                from conformance_qrels
                """
            )


def compile_scoring(root: Path, cutoffs: Sequence[int] = CUTOFFS) -> Scoring:
    """Build an empty landing below `root` with dbt, and take the compiled scoring SQL from it."""
    warehouse = Warehouse(root)
    _build_upstream(warehouse, _TARGET.rpartition(".")[2], cutoffs)
    nodes = json.loads((root / "target" / "manifest.json").read_text())["nodes"]
    order = _in_dependency_order(nodes, _TARGET)
    catalog = nodes[_TARGET]["database"]
    schema = nodes[_TARGET]["schema"]

    connection = duckdb.connect(config={"threads": 2})
    connection.execute(f"attach ':memory:' as {_name(catalog)}")
    connection.execute(f"create schema if not exists {_name(catalog)}.{_name(schema)}")
    connection.execute(f"use {_name(catalog)}.{_name(schema)}")
    connection.execute(f"attach '{warehouse.path}' as built (read_only)")
    fills = []
    for node_id in order:
        node = nodes[node_id]
        name = _name(node["alias"])
        if node["resource_type"] == "seed" or node["path"].startswith("staging/"):
            connection.execute(f"create table {name} as from built.{_name(node['schema'])}.{name}")
            continue
        compiled = (root / "target" / "compiled" / node["package_name"] / node["original_file_path"]).read_text()
        if node["config"]["materialized"] == "view":
            connection.execute(f"create view {name} as {compiled}")
        else:
            connection.execute(f"create table {name} as from ({compiled}\n) limit 0")
            fills.append(f"insert into {name} {compiled}")
    metrics = connection.execute("select metric from built.main.metric_catalog order by metric").fetchall()
    connection.execute("detach built")
    return Scoring(connection, tuple(metric for (metric,) in metrics), tuple(fills))


def _build_upstream(warehouse: Warehouse, model: str, cutoffs: Sequence[int]) -> None:
    """`dbt build` of a model and what it is made of, without the tests, over nothing."""
    from dbt.cli.main import dbtRunner

    warehouse.landing.mkdir(parents=True, exist_ok=True)
    arguments = [
        *("--quiet", "--no-print", "--log-level", "none", "--log-path", str(warehouse.root / "logs"), "build"),
        *("--project-dir", str(PROJECT), "--profiles-dir", str(PROJECT / "profiles")),
        *("--vars", json.dumps({"cutoffs": {"final": list(cutoffs), "retriever": [10]}})),
        *("--select", f"+{model}", "metric_catalog", "--exclude-resource-type", "test", "unit_test"),
    ]
    try:
        with mock.patch.dict(os.environ, warehouse.environment):
            outcome = dbtRunner().invoke(arguments)
    finally:
        release_database()
    if not outcome.success:
        broken = [
            f"{node.node.name}: {one_line(node.message or '')}"
            for node in getattr(outcome.result, "results", ())
            if str(node.status) == "error"
        ]
        raise RuntimeError(f"dbt cannot build {model}: {'; '.join(broken) or outcome.exception}")


def _in_dependency_order(nodes: Mapping[str, Mapping[str, object]], target: str) -> list[str]:
    """`target` and what it is made of, staging models and seeds first; nothing above staging."""
    order: dict[str, None] = {}

    def add(node_id: str) -> None:
        node = nodes[node_id]
        if node_id in order:
            return
        if node["resource_type"] != "seed" and not str(node["path"]).startswith("staging/"):
            for parent in node["depends_on"]["nodes"]:  # type: ignore[index]
                add(parent)
        order[node_id] = None

    add(target)
    return list(order)


def _table(rows: Sequence[tuple[object, ...]], **types: pa.DataType) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(types)
    return pa.table(
        {name: pa.array(list(values), type_) for (name, type_), values in zip(types.items(), columns, strict=True)}
    )


def _name(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'
