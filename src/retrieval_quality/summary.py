"""The headline numbers of a publication, for a terminal or as JSON."""

import dataclasses
import datetime as dt
import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WINDOWS: Final = (("rolling_24h", "Last 24 hours"), ("trailing_28d", "Four weeks"))
HEADLINES: Final = (
    ("final", "precision", 5),
    ("final", "recall", 5),
    ("final", "reciprocal_rank", 10),
    ("retriever", "recall", 10),
)
WIDE: Final = 108
NOT_IDENTIFIABLE_NOTE: Final = (
    "~ the labels of this class do not cover enough to identify the metric; no verdict uses such a row"
)

WINDOWS_NOTE: Final = "Windows hold full UTC hours and days before as_of (the newest production trace, unless set)."


class SummaryError(Exception):
    """The published database has no readable mart_retrieval_quality; one line."""


@dataclass(frozen=True)
class SummaryRow:
    """One headline metric of one window over the whole traffic. Scores and their intervals are
    shares (0-1); window ends are UTC; `n_units` counts sessions per day.
    """

    window_name: str
    window_start_at: dt.datetime
    window_end_at: dt.datetime
    traffic: str
    label_class: str
    stage: str
    metric: str
    k: int
    estimate: float | None
    ci_low: float | None
    ci_high: float | None
    ci_method: str | None
    bound_low: float | None
    bound_high: float | None
    n_units: int
    n_traces: int
    n_scored: int
    is_identifiable: bool


def read_summary(database: Path) -> tuple[SummaryRow, ...]:
    """Headline rows of the newest 24 hours and four weeks. Raises SummaryError."""
    columns = ", ".join(
        f"{field.name}::timestamp" if field.name.endswith("_at") else field.name
        for field in dataclasses.fields(SummaryRow)
    )
    windows = ", ".join(f"'{name}'" for name, _ in WINDOWS)
    metrics = ", ".join(
        f"('{stage}', '{metric}', {k}, {position})" for position, (stage, metric, k) in enumerate(HEADLINES)
    )
    query = f"""
        with headlines(stage, metric, k, position) as (values {metrics}),
        ranked as (
            select *, max(window_end_at) over (partition by window_name) as newest_end_at
            from mart_retrieval_quality
            where window_name in ({windows}) and segment_dimension = 'total'
        )
        select {columns}
        from ranked join headlines using (stage, metric, k)
        where window_end_at = newest_end_at
        order by window_name, label_class, traffic, position
    """
    try:
        with closing(duckdb.connect(str(database), read_only=True)) as con:
            rows = con.execute(query).fetchall()
    except duckdb.Error as error:
        raise SummaryError(f"{database}: {str(error).splitlines()[0]}") from error
    return tuple(SummaryRow(*row) for row in rows)


def summary_records(rows: Sequence[SummaryRow]) -> list[dict[str, str | int | float | bool | None]]:
    """The rows as JSON objects; times in ISO 8601 UTC, what is not finite as null."""
    return [{field.name: _json_value(getattr(row, field.name)) for field in dataclasses.fields(row)} for row in rows]


def print_summary(database: Path, console: "Console") -> None:
    """Print a table per window and where the published database is. Raises SummaryError.

    Below WIDE columns the bounds and session counts are left out, and a line says so.
    """
    rows = read_summary(database)
    is_wide = console.width >= WIDE
    for window_name, title in WINDOWS:
        of_window = [row for row in rows if row.window_name == window_name]
        if of_window:
            console.print(_table(title, of_window, is_wide=is_wide))
        else:
            console.print(f"{title}: nothing was scored. {WINDOWS_NOTE}")
    if not all(row.is_identifiable for row in rows):
        console.print(NOT_IDENTIFIABLE_NOTE)
    if rows and not is_wide:
        console.print(f"Bounds and sessions are left out below {WIDE} columns.", highlight=False)
    console.print(f"Published database: {database}", soft_wrap=True, highlight=False)


def _table(title: str, rows: Sequence[SummaryRow], *, is_wide: bool) -> "Table":
    from rich import box
    from rich.table import Table

    span = f"{rows[0].window_start_at:%Y-%m-%d %H:%M} to {rows[0].window_end_at:%Y-%m-%d %H:%M} UTC"
    table = Table(
        title=f"{title} ({span})", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    for heading in ("labels", "traffic", "stage", "metric"):
        table.add_column(heading, overflow="fold")
    for heading in ("estimate [95%]", *(("bound", "sessions") if is_wide else ()), "scored/traces"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        bound = f"[{_score(row.bound_low)}, {_score(row.bound_high)}]"
        table.add_row(
            row.label_class,
            row.traffic,
            row.stage,
            f"{row.metric}@{row.k}" + ("" if row.is_identifiable else " ~"),
            f"{_score(row.estimate)} [{_score(row.ci_low)}, {_score(row.ci_high)}]",
            *((bound, f"{row.n_units:,}") if is_wide else ()),
            f"{row.n_scored:,}/{row.n_traces:,}",
            style="" if row.is_identifiable else "dim",
        )
    return table


def _score(value: float | None) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:.3f}"


def _json_value(
    value: str | float | bool | dt.datetime | None,
) -> str | int | float | bool | None:
    if isinstance(value, dt.datetime):
        utc = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
        return utc.isoformat().replace("+00:00", "Z")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
