"""What SQL counts over new lines, and what the functions that count share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from retrieval_quality.expectations.landed import quoted

if TYPE_CHECKING:
    from datetime import datetime

    from duckdb import DuckDBPyConnection

    from retrieval_quality.expectations.seed import Expectation

MAX_EXAMPLES: Final = 5


@dataclass(frozen=True)
class Measure:
    """What was counted: `value` (None: not applicable, `note` says why; infinite: nothing there), and how
    many of `n_rows` lines or lists are at fault (None: not a matter of single lines), with examples.
    `n_sampled` lines were looked at for it (None: all).
    """

    value: float | None
    n_rows: int | None = None
    n_failed: int | None = None
    n_sampled: int | None = None
    examples: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Asked:
    """An expectation, the connection that has its lines, and the moment that counts as now."""

    connection: DuckDBPyConnection
    expectation: Expectation
    now: datetime

    @property
    def contract(self) -> str:
        return self.expectation.contract


def share_of(n_rows: int | None, n_failed: int, examples: Iterable[str] | None) -> Measure:
    """The share at fault; not applicable where there is nothing to be at fault."""
    if not n_rows:
        return Measure(None, n_rows=0, n_failed=0, note="no line has what it needs")
    return Measure(n_failed / n_rows, n_rows=n_rows, n_failed=n_failed, examples=tuple(examples or ()))


def has_table(connection: DuckDBPyConnection, name: str) -> bool:
    """Is there a table of new lines by this name?"""
    sql = f"select count(*) from duckdb_tables() where table_name = {quoted(name)} and temporary"
    return bool(connection.execute(sql).fetchall()[0][0])


def sql_time(moment: datetime) -> str:
    """A UTC time as a DuckDB timestamp."""
    return f"timestamp '{moment:%Y-%m-%d %H:%M:%S.%f}'"


def sql_list(texts: Iterable[str]) -> str:
    """Texts as a DuckDB list."""
    return f"[{', '.join(map(quoted, texts))}]"
