"""The new lines of one contract as tables: read once, with the columns that its expectations need.

`lines_<contract>`: one row per line, what is asked of it beside a few columns of its own (`rq_…`).
`keys_<contract>`: which keys the lines of a file hold, and of which JSON type.
`staged_<contract>`: the keys among them that are staged already, and from which file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from retrieval_quality.expectations.columns import columns_of, fitting_columns, present, utc
from retrieval_quality.expectations.directions import balance_of
from retrieval_quality.expectations.landed import NewFiles, first_line, quoted
from retrieval_quality.expectations.measuring import sql_list, sql_time
from retrieval_quality.landing_check import LandingError, damaged_files

if TYPE_CHECKING:
    from datetime import datetime

    import pandas as pd
    from duckdb import DuckDBPyConnection

    from retrieval_quality.expectations.seed import Expectation
    from retrieval_quality.settings import Settings

MAX_LINE_BYTES: Final = 67_108_864

# as staging makes it (`trace_key`); a line that says nothing has no key
_TRACE_KEY: Final = (
    f"coalesce({present('trace_id')}, case when ts is not null "
    f"then sha256(row({present('session_id')}, {utc('ts')}, query)::varchar) end)"
)
# a column of every contract, unless the contract has its own
_OWN: Final[Mapping[str, str]] = {
    "rq_key": "null::varchar",
    "rq_at": "null::timestamp",
    "rq_is_production": "true",
}
_OWN_OF: Final[Mapping[str, Mapping[str, str]]] = {
    "retrieval_traces": {
        "rq_key": _TRACE_KEY,
        "rq_at": utc("ts"),
        "rq_is_production": f"{present('eval_run_id')} is null",
        "rq_session": f"coalesce({present('session_id')}, {_TRACE_KEY})",
        "rq_first_rank": "list_min(list_transform(retrieved, lambda item: item.rank))",
        "rq_balance": balance_of("retrieved"),
        "rq_index_version": present("index_version"),
        "rq_score_type": present("score_type"),
        "rq_higher_is_better": "higher_is_better",
    },
    "feedback": {
        "rq_key": f"coalesce({present('feedback_id')}, case when ts is not null then sha256(row(session_id, trace_id, "
        "ts, chunk_ids::varchar, rating, rating_scale, grade, signal, rater_id, label_class, weight, dwell_ms)"
        "::varchar) end)",
        "rq_at": utc("ts"),
        "rq_trace": present("trace_id"),
        "rq_session": present("session_id"),
    },
    "answers": {
        "rq_key": present("answer_id"),
        "rq_at": utc("ts"),
        "rq_trace": present("trace_id"),
        "rq_session": present("session_id"),
    },
    "llm_calls": {"rq_key": present("call_id"), "rq_at": utc("ts")},
}


def load_lines(
    connection: DuckDBPyConnection,
    settings: Settings,
    files: NewFiles,
    expectations: Iterable[Expectation],
    *,
    now: datetime,
) -> None:
    """Make the tables of the new files of a contract.

    Raises LandingError, with the damaged file where one is, when DuckDB cannot read them.
    """
    import duckdb

    try:
        _load_lines(connection, settings.landing, files, _columns(files.contract, expectations), now=now)
        _load_keys(connection, settings.landing, files)
        # the staged lines may be very many: they are passed by, and only the few that meet a new one are kept
        connection.execute(
            f"create temp table staged_{files.contract} as select line_key, path from staged_lines "
            f"where contract = {quoted(files.contract)} and line_key in (select rq_key from lines_{files.contract})"
        )
    except duckdb.Error as error:
        damaged = damaged_files(settings.landing)
        raise LandingError(
            damaged[0] if damaged else f"new files of {files.contract} cannot be read: {first_line(error)}"
        ) from error


def n_lines(connection: DuckDBPyConnection, contract: str) -> int:
    """How many lines landed, readable or not; blank ones are none."""
    (count,) = connection.execute(f"select count(*) from lines_{contract}").fetchall()[0]
    return int(count)


def rows_frame(
    connection: DuckDBPyConnection, contract: str, columns: Iterable[str], *, n_at_most: int
) -> pd.DataFrame:
    """`line_key` and `columns` of the new lines: of all that can be read, or of `n_at_most` where there are more.

    A line that is no JSON or has no key of the contract is one fault, which `known_key_share` counts; it is not also
    a line without time, without session and so on.

    Which lines stand for the others depends on their content alone, never on files or their order: those
    whose md5 is smallest. Equal lines are numbered, so that each has its own chance.
    """
    listed = ", ".join(["rq_key as line_key", *dict.fromkeys(columns)])
    (n_read,) = connection.execute(f"select count(*) from lines_{contract} where rq_is_read").fetchall()[0]
    if n_read <= n_at_most:
        return connection.execute(f"select {listed} from lines_{contract} where rq_is_read order by all").df()
    return connection.execute(
        f"""
        with lines as (
            select {listed} from lines_{contract} where rq_is_read
        ),

        described as (
            select *, md5(lines::varchar) as rq_content from lines
        ),

        numbered as (
            select *, row_number() over (partition by rq_content) as rq_copy from described
        ),

        sample as (
            select * exclude (rq_content, rq_copy)
            from numbered
            order by md5(rq_content || '-' || rq_copy)
            limit {n_at_most}
        )

        from sample order by all
        """
    ).df()


def _columns(contract: str, expectations: Iterable[Expectation]) -> dict[str, str]:
    expressions = columns_of(contract)
    asked = [expectation for expectation in expectations if expectation.contract == contract]
    named = {item.column_name for item in asked if item.is_per_line and item.column_name is not None}
    if any(item.kind == "misfit_share" for item in asked):
        named |= {column for column in fitting_columns(contract).values() if column is not None}
    return {
        **_OWN,
        **_OWN_OF.get(contract, {}),
        "rq_is_read": _is_read(contract),
        **{name: expressions[name] for name in sorted(named)},
    }


def _is_read(contract: str) -> str:
    """Does a line hold anything? Long lists other than that of the chunks are not read to know it."""
    from retrieval_quality.contracts import reading_types

    asked = [
        name
        for name, duckdb_type in reading_types(contract).items()
        if name == "retrieved" or duckdb_type in ("VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN")
    ]
    return " or ".join(f"{name} is not null" for name in asked)


def _load_lines(
    connection: DuckDBPyConnection, landing: Path, files: NewFiles, columns: Mapping[str, str], *, now: datetime
) -> None:
    selected = ", ".join(
        f"{expression.replace('$now', sql_time(now))} as {name}" for name, expression in columns.items()
    )
    with tempfile.TemporaryDirectory() as folder:
        connection.execute(
            f"create temp table lines_{files.contract} as "
            f"select {selected}, {_relative(landing)} as rq_path, rq_is_json "
            f"from {_reader(connection, files, Path(folder))}"
        )


def _reader(connection: DuckDBPyConnection, files: NewFiles, folder: Path) -> str:
    """As staging reads (`macros/landing/landed_rows.sql`), lists of text as their JSON."""
    from retrieval_quality.contracts import reading_types

    types = {
        name: "JSON" if duckdb_type == "VARCHAR[]" else duckdb_type
        for name, duckdb_type in reading_types(files.contract).items()
    }
    json = (
        f"select *, true as rq_is_json from read_json({sql_list(files.json or ('/dev/null',))}, "
        "format = 'newline_delimited', ignore_errors = true, filename = 'rq_file', "
        f"maximum_object_size = {MAX_LINE_BYTES}, "
        f"columns = {{{', '.join(f'{name}: {quoted(duckdb_type)}' for name, duckdb_type in types.items())}}})"
    )
    if not files.parquet:
        return f"({json})"
    # read first, an empty file makes each of the others be cast from its own types
    empty = str(folder / "empty.parquet")
    nulls = ", ".join(f"null::{duckdb_type} as {name}" for name, duckdb_type in types.items())
    connection.execute(f"copy (select {nulls} where false) to {quoted(empty)} (format parquet)")
    return (
        f"({json} union all by name select *, false as rq_is_json from "
        f"read_parquet({sql_list((empty, *files.parquet))}, union_by_name = true, filename = 'rq_file'))"
    )


def _load_keys(connection: DuckDBPyConnection, landing: Path, files: NewFiles) -> None:
    """Few lists of keys and types over many lines; the types of `fitting_columns`, in its order."""
    paths = [f'$."{name}"' for name in fitting_columns(files.contract)]
    types = f"json_type(json, {sql_list(paths)})" if paths else "[]::varchar[]"
    connection.execute(
        f"""
        create temp table keys_{files.contract} as
        select {_relative(landing)} as path, keys, types, n_lines
        from (
            select rq_file, json_keys(json) as keys, {types} as types, count(*) as n_lines
            from read_json_objects(
                {sql_list(files.json or ("/dev/null",))}, format = 'newline_delimited', ignore_errors = true,
                filename = 'rq_file', maximum_object_size = {MAX_LINE_BYTES}
            )
            group by all
        )
        """
    )
    if files.parquet:
        connection.execute(
            f"""
            insert into keys_{files.contract}
            select {_relative(landing)}, keys, null, n_lines
            from (
                select file_name as rq_file, list(distinct split_part(path_in_schema, ', ', 1)) as keys
                from parquet_metadata({sql_list(files.parquet)})
                group by file_name
            )
            inner join (
                select file_name as rq_file, num_rows as n_lines from parquet_file_metadata({sql_list(files.parquet)})
            ) using (rq_file)
            """
        )


def _relative(landing: Path) -> str:
    return f"right(rq_file, -{len(str(landing)) + 1})"
