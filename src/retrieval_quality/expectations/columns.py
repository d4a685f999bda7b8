"""The columns of a landed line as expectations see them: one DuckDB expression each.

The expressions stand over the reading types of a contract, and read as staging reads (`macros/landing`;
a test compares): ids are NULL where blank, times are UTC, numbers that are landed as text are numbers.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final

CHECKED_CONTRACTS: Final = (
    "retrieval_traces",
    "feedback",
    "answers",
    "queries",
    "qrels",
    "eval_runs",
    "corpus_documents",
    "corpus_chunks",
    "corpus_snapshots",
    "llm_calls",
    "traffic_counts",
)

# landed as text, so that staging can turn away what does not fit
_NUMBERS_AS_TEXT: Final = ("grade", "sample_rate", "n_queries")
_SCALARS: Final = ("BIGINT", "DOUBLE", "BOOLEAN")


def present(name: str) -> str:
    """A text, NULL where it is blank."""
    return f"case when {name} >= '!' or trim({name}) <> '' then {name} end"


def utc(name: str) -> str:
    """A landed time as a UTC timestamp, NULL where it is none from 1970 to 2200: see docs/landing.md."""
    number = f"try_cast({name} as decimal(38, 9))"
    iso = f"try_cast({name} as timestamptz) at time zone 'UTC'"
    year = "between '1970' and '2199'"
    return (
        f"case when {name} like '____-%' then case when left({name}, 4) {year} then {iso} end "
        f"when {number} between 0 and 7258118400 then make_timestamp(({number} * 1000000)::bigint) "
        f"when {number} between 100000000000 and 7258118400000 then make_timestamp(({number} * 1000)::bigint) "
        f"when {number} between 100000000000000 and 7258118400000000 then make_timestamp(({number})::bigint) "
        f"when {number} between 100000000000000000 and 7258118400000000000 "
        f"then make_timestamp(floor({number} * 0.001)::bigint) "
        f"when {number} is null and left(trim({name}), 4) {year} then {iso} end"
    )


def is_time(name: str) -> bool:
    return name in ("ts", "day") or name.endswith("_at")


@cache
def columns_of(contract: str) -> Mapping[str, str]:
    """Column to expression: those of the contract, `n_<list>` for its lists, and what is made of several.

    `$now` in an expression is the moment that counts as now. KeyError: no such contract.
    """
    from retrieval_quality.contracts import reading_types

    named = [_expression(name, duckdb_type) for name, duckdb_type in reading_types(contract).items()]
    return {**dict(item for item in named if item is not None), **_MADE.get(contract, {})}


@cache
def fitting_columns(contract: str) -> Mapping[str, str | None]:
    """Columns whose values can fail to fit: to the column of `columns_of` that is NULL then, or None for
    lists, which only have to be lists.
    """
    from retrieval_quality.contracts import reading_types

    return {
        name: None if duckdb_type.endswith("[]") else name
        for name, duckdb_type in reading_types(contract).items()
        if duckdb_type in _SCALARS or duckdb_type.startswith("STRUCT") or is_time(name) or name in _NUMBERS_AS_TEXT
    }


def is_text(contract: str, column: str) -> bool:
    """Is a column of `columns_of` a text?"""
    from retrieval_quality.contracts import reading_types

    duckdb_type = reading_types(contract).get(column, "VARCHAR")
    is_number = is_time(column) or column in _NUMBERS_AS_TEXT or column in _MADE_NUMBERS
    return duckdb_type == "VARCHAR" and not is_number and not column.startswith("n_")


def _expression(name: str, duckdb_type: str) -> tuple[str, str] | None:
    if is_time(name):
        return name, f"epoch({utc(name)})"
    if name in _NUMBERS_AS_TEXT:
        return name, f"try_cast({name} as double)"
    if duckdb_type == "VARCHAR":
        return name, present(name)
    if duckdb_type in _SCALARS:
        return name, name
    return (f"n_{name}", f"len({name})") if duckdb_type.startswith("STRUCT") else None


_TARGET: Final = {"session_or_trace_id": f"coalesce({present('trace_id')}, {present('session_id')})"}
_CONTENT: Final = {"content_or_hash": f"coalesce({present('content')}, {present('content_hash')})"}
_CLOCKS: Final = {
    "seconds_after_delivery": f"epoch({utc('ts')}) - epoch({utc('ingested_at')})",
    "seconds_ahead_of_now": f"epoch({utc('ts')}) - epoch($now)",
}
_MADE_NUMBERS: Final = ("first_rank", *_CLOCKS)
_MADE: Final[Mapping[str, Mapping[str, str]]] = {
    "retrieval_traces": {
        "retrieved_or_error": f"coalesce(len(retrieved)::varchar, {present('error')})",
        "session_or_run_id": f"coalesce({present('session_id')}, {present('eval_run_id')})",
        "first_rank": "list_min(list_transform(retrieved, lambda item: item.rank))",
        **_CLOCKS,
    },
    "feedback": {
        **_TARGET,
        "vote": f"coalesce({present('rating')}, {present('grade')}, {present('signal')})",
        **_CLOCKS,
    },
    "answers": {**_TARGET, **_CLOCKS},
    "qrels": {"chunk_or_doc_id": f"coalesce({present('chunk_id')}, {present('doc_id')})"},
    "corpus_documents": _CONTENT,
    "corpus_chunks": _CONTENT,
    "llm_calls": {"seconds_ahead_of_now": _CLOCKS["seconds_ahead_of_now"]},
}
