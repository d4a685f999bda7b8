"""What landed since the last night, and what is staged already: both on one DuckDB connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from retrieval_quality.expectations.columns import CHECKED_CONTRACTS
from retrieval_quality.landing_check import LandingError
from retrieval_quality.settings import engine_limits

if TYPE_CHECKING:
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from retrieval_quality.settings import Settings


@dataclass(frozen=True)
class NewFiles:
    """Absolute paths of the files of one contract that the ledger does not hold, in order."""

    contract: str
    json: tuple[str, ...]
    parquet: tuple[str, ...]

    @property
    def n_files(self) -> int:
        return len(self.json) + len(self.parquet)


@dataclass(frozen=True)
class JsonFiles:
    """Absolute paths of files of JSON lines, at their places below `root`."""

    root: Path
    paths: tuple[str, ...]
    compression: str = "auto_detect"

    def place_of(self, path: str) -> str:
        return path[len(str(self.root)) + 1 :]


@contextmanager
def connected(settings: Settings) -> Iterator[DuckDBPyConnection]:
    """A connection in memory with the warehouse beside it, read-only and let go of at the end.

    It has the views `registered_files`, `staged_traces`, `staged_sessions` and `staged_lines`, empty where there is no
    warehouse or table yet. Raises LandingError where the warehouse cannot be opened.
    """
    import duckdb

    with duckdb.connect(":memory:", config=engine_limits(settings.warehouse)) as connection:
        connection.execute("set timezone = 'UTC'")
        try:
            if settings.warehouse.exists():
                connection.execute(f"attach {quoted(str(settings.warehouse))} as warehouse (read_only)")
            tables = connection.execute(
                "select table_name from duckdb_tables() where database_name = 'warehouse' and schema_name = 'main'"
            ).fetchall()
            for statement in _history({name for (name,) in tables}):
                connection.execute(statement)
        except duckdb.Error as error:
            raise LandingError(f"warehouse {settings.warehouse} cannot be read: {first_line(error)}") from error
        yield connection


def new_files(connection: DuckDBPyConnection, landing: Path) -> tuple[NewFiles, ...]:
    """The new files of every contract that is checked, by the rule of the ledger (`set_unregistered_files`)."""
    rows = connection.execute(
        """
        select split_part(path, '/', 1) as contract, filename
        from (
            select filename, right(filename, -length($landing) - 1) as path, size, last_modified
            from read_blob($landing || '/*/**')
        )
        where not regexp_matches('/' || path, '/[._]')
            and regexp_matches(path, '\\.(jsonl|jsonl\\.gz|jsonl\\.zst|parquet)$')
            and (path, size, last_modified at time zone 'UTC') not in (from registered_files)
        order by filename
        """,
        {"landing": str(landing)},
    ).fetchall()
    return tuple(
        NewFiles(
            contract,
            json=tuple(path for name, path in rows if name == contract and not path.endswith(".parquet")),
            parquet=tuple(path for name, path in rows if name == contract and path.endswith(".parquet")),
        )
        for contract in CHECKED_CONTRACTS
        if any(name == contract for name, _ in rows)
    )


def quoted(text: str) -> str:
    """A text as SQL."""
    return "'" + text.replace("'", "''") + "'"


def first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


# contract → its staging table, key, time, and what tells production
_STAGED_LINES: Final[Mapping[str, tuple[str, str, str, str]]] = {
    "retrieval_traces": ("stg_retrieval_traces", "trace_id", "traced_at", "eval_run_id is null"),
    "feedback": ("stg_feedback", "feedback_id", "given_at", "true"),
    "answers": ("stg_answers", "answer_id", "answered_at", "true"),
    "llm_calls": ("stg_llm_calls", "call_id", "called_at", "true"),
}


def _history(tables: set[str]) -> Iterator[str]:
    ledger = "stg_landing_files" in tables
    traces = "stg_retrieval_traces" in tables
    yield "create temp view registered_files as " + (
        "select path, size_bytes, modified_at from warehouse.main.stg_landing_files where size_bytes is not null"
        if ledger
        else "select null::varchar, null::bigint, null::timestamp where false"
    )
    yield "create temp view staged_traces as " + (
        "select traced_on, traced_at, index_version, score_type, retrieved, trace_id, session_id "
        "from warehouse.main.stg_retrieval_traces"
        if traces
        else "select null::date as traced_on, null::timestamp as traced_at, null::varchar as index_version, "
        "null::varchar as score_type, []::struct(rank integer, chunk_id varchar, score double)[] as retrieved, "
        "null::varchar as trace_id, null::varchar as session_id where false"
    )
    lines = [
        f"select {quoted(contract)} as contract, {key} as line_key, {time} as happened_at, "
        f"{is_production} as is_production, files.path "
        f"from warehouse.main.{table} inner join warehouse.main.stg_landing_files as files using (file_id)"
        for contract, (table, key, time, is_production) in _STAGED_LINES.items()
        if ledger and table in tables
    ]
    none = (
        "select null::varchar as contract, null::varchar as line_key, null::timestamp as happened_at, "
        "null::boolean as is_production, null::varchar as path where false"
    )
    yield "create temp view staged_lines as " + (" union all ".join(lines) or none)
