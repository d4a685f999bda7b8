"""The new lines of one contract as tables.

`landed_<contract>`: every line, with a few short columns (`rq_…`): which, when, of what, from where.
`lines_<contract>`: the lines looked at, with what is asked of each.
`keys_<contract>`: which keys the lines looked at hold, by file, and of which JSON type.
`staged_<contract>`: the keys of landed lines that are staged already, and from which file.

Up to `sample_lines` lines all are looked at, else a sample of so many (`sampling`).
"""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from retrieval_quality.expectations.columns import columns_of, fitting_columns, present, utc
from retrieval_quality.expectations.directions import balance_of
from retrieval_quality.expectations.landed import JsonFiles, NewFiles, first_line, quoted
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
# of every contract, unless it has its own
_LANDED: Final[Mapping[str, str]] = {
    "rq_key": "null::varchar",
    "rq_at": "null::timestamp",
    "rq_is_production": "true",
}
# short columns only: every line is read for them, however many there are
_LANDED_OF: Final[Mapping[str, Mapping[str, str]]] = {
    "retrieval_traces": {
        "rq_key": _TRACE_KEY,
        "rq_at": utc("ts"),
        "rq_is_production": f"{present('eval_run_id')} is null",
        "rq_session": f"coalesce({present('session_id')}, {_TRACE_KEY})",
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
_LISTS_OF: Final[Mapping[str, Mapping[str, str]]] = {
    "retrieval_traces": {
        "rq_first_rank": "list_min(list_transform(retrieved, lambda item: item.rank))",
        "rq_balance": balance_of("retrieved"),
        "rq_index_version": present("index_version"),
        "rq_score_type": present("score_type"),
        "rq_higher_is_better": "higher_is_better",
    },
}


def load_lines(
    connection: DuckDBPyConnection,
    settings: Settings,
    files: NewFiles,
    expectations: Iterable[Expectation],
    *,
    now: datetime,
    sample_lines: int,
) -> None:
    """Make the tables of the new files of a contract; of more than `sample_lines` lines that many are looked at.

    Raises LandingError, with the damaged file where one is, when they cannot be read.
    """
    import duckdb

    columns = _columns(files.contract, expectations, now=now)
    try:
        with tempfile.TemporaryDirectory() as folder:
            _load(connection, settings.landing, files, columns, sample_lines=sample_lines, folder=Path(folder))
    except (duckdb.Error, OSError, EOFError, zlib.error) as error:
        damaged = damaged_files(settings.landing)
        raise LandingError(
            damaged[0] if damaged else f"new files of {files.contract} cannot be read: {first_line(error)}"
        ) from error


def n_lines(connection: DuckDBPyConnection, contract: str) -> int:
    """How many lines landed, readable or not; blank ones are none."""
    (count,) = connection.execute(f"select count(*) from landed_{contract}").fetchall()[0]
    return int(count)


def rows_frame(connection: DuckDBPyConnection, contract: str, columns: Iterable[str]) -> pd.DataFrame:
    """`line_key` and `columns` of the lines looked at that can be read.

    A line that is no JSON or has no key of the contract is one fault, which `known_key_share` counts; it is not also
    a line without time, without session and so on.
    """
    listed = ", ".join(["rq_key as line_key", *dict.fromkeys(columns)])
    return connection.execute(f"select {listed} from lines_{contract} where rq_is_read order by all").df()


def _load(
    connection: DuckDBPyConnection,
    landing: Path,
    files: NewFiles,
    columns: Mapping[str, str],
    *,
    sample_lines: int,
    folder: Path,
) -> None:
    contract = files.contract
    # read first, an empty file makes each of the others be cast from its own types
    empty = str(folder / "empty.parquet")
    nulls = ", ".join(f"null::{duckdb_type} as {name}" for name, duckdb_type in _reading_types(contract).items())
    connection.execute(f"copy (select {nulls} where false) to {quoted(empty)} (format parquet)")
    json, rows, more = JsonFiles(landing, files.json), _rows((empty, *files.parquet)), JsonFiles(folder, ())
    connection.execute(
        f"create temp table landed_{contract} as "
        f"select {_selected(_landed_columns(contract))}, {_place(landing)} as rq_path "
        f"from {_reader(contract, json, rows)}"
    )
    if n_lines(connection, contract) > sample_lines:
        from retrieval_quality.expectations.sampling import draw_sample

        numbered = _rows((empty, *files.parquet), is_numbered=True)
        hash_of_row = f"hash({', '.join(_reading_types(contract))})"
        hashed = connection.execute(f"select rq_file, file_row_number, {hash_of_row} as rq_hash from {numbered}").df()
        sample = draw_sample(json, hashed, n_lines=sample_lines, folder=folder)
        connection.register("sampled_rows", sample.rows)
        drawn = "(rq_file, file_row_number) in (select rq_file, file_row_number from sampled_rows)"
        json, rows, more = sample.json, f"(from {numbered} where {drawn})", sample.more
    connection.execute(
        f"create temp table lines_{contract} as "
        f"select {_selected(columns)}, rq_is_json from {_reader(contract, json, rows)}"
    )
    _load_keys(connection, landing, files, sample=json, more=more)
    # the staged lines may be very many: they are passed by, and only the few that meet a new one are kept
    connection.execute(
        f"create temp table staged_{contract} as select line_key, path from staged_lines "
        f"where contract = {quoted(contract)} and line_key in (select rq_key from landed_{contract})"
    )


def _columns(contract: str, expectations: Iterable[Expectation], *, now: datetime) -> dict[str, str]:
    expressions = columns_of(contract)
    asked = [expectation for expectation in expectations if expectation.contract == contract]
    named = {item.column_name for item in asked if item.is_per_line and item.column_name is not None}
    if any(item.kind == "misfit_share" for item in asked):
        named |= {column for column in fitting_columns(contract).values() if column is not None}
    return {
        "rq_key": _landed_columns(contract)["rq_key"],
        **_LISTS_OF.get(contract, {}),
        "rq_is_read": _is_read(contract),
        **{name: expressions[name].replace("$now", sql_time(now)) for name in sorted(named)},
    }


def _landed_columns(contract: str) -> dict[str, str]:
    return {**_LANDED, **_LANDED_OF.get(contract, {})}


def _selected(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{expression} as {name}" for name, expression in columns.items())


def _is_read(contract: str) -> str:
    """Does a line hold anything? Long lists other than that of the chunks are not read to know it."""
    asked = [
        name
        for name, duckdb_type in _reading_types(contract).items()
        if name == "retrieved" or duckdb_type in ("VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN")
    ]
    return " or ".join(f"{name} is not null" for name in asked)


def _reader(contract: str, json: JsonFiles, rows: str) -> str:
    """As staging reads (`macros/landing/landed_rows.sql`)."""
    columns = ", ".join(f"{name}: {quoted(duckdb_type)}" for name, duckdb_type in _reading_types(contract).items())
    lines = f"read_json({_json_arguments(json)}, columns = {{{columns}}})"
    return f"(select *, true as rq_is_json from {lines} union all by name select *, false as rq_is_json from {rows})"


def _reading_types(contract: str) -> dict[str, str]:
    """Lists of text as their JSON."""
    from retrieval_quality.contracts import reading_types

    return {
        name: "JSON" if duckdb_type == "VARCHAR[]" else duckdb_type
        for name, duckdb_type in reading_types(contract).items()
    }


def _rows(parquet: Iterable[str], *, is_numbered: bool = False) -> str:
    """With `file_row_number` only where it is asked for: a file may have a column of that name."""
    return (
        f"read_parquet({sql_list(parquet)}, union_by_name = true, filename = 'rq_file', "
        f"file_row_number = {is_numbered})"
    )


def _load_keys(
    connection: DuckDBPyConnection, landing: Path, files: NewFiles, *, sample: JsonFiles, more: JsonFiles
) -> None:
    """Few lists of keys and types over many lines; the types of `fitting_columns`, in its order."""
    paths = [f'$."{name}"' for name in fitting_columns(files.contract)]
    types = f"json_type(json, {sql_list(paths)})" if paths else "[]::varchar[]"
    of_lines = [
        f"""
        select {_place(json.root)} as path, {is_sampled} as is_sampled, keys, types, n_lines
        from (
            select rq_file, json_keys(json) as keys, {types} as types, count(*) as n_lines
            from read_json_objects({_json_arguments(json)})
            group by all
        )
        """
        for json, is_sampled in ((sample, True), (more, False))
    ]
    connection.execute(f"create temp table keys_{files.contract} as {' union all '.join(of_lines)}")
    if files.parquet:
        connection.execute(
            f"""
            insert into keys_{files.contract}
            select {_place(landing)}, true, keys, null, n_lines
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


def _json_arguments(json: JsonFiles) -> str:
    return (
        f"{sql_list(json.paths or ('/dev/null',))}, format = 'newline_delimited', ignore_errors = true, "
        f"filename = 'rq_file', maximum_object_size = {MAX_LINE_BYTES}, compression = {quoted(json.compression)}"
    )


def _place(root: Path) -> str:
    return f"right(rq_file, -{len(str(root)) + 1})"
