"""The report of the landing checks on a terminal: what did not pass first."""

from typing import Final

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from retrieval_quality.expectations.report import CheckRow, LandingReport

_ORDER: Final = ("blocked", "error", "warned", "passed")


def print_checks(report: LandingReport, console: Console) -> None:
    """One line per check, then what did not pass in words, then the counts."""
    rows = sorted(report.rows, key=lambda row: _ORDER.index(_verdict(row)))
    if rows:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for name in ("verdict", "contract", "check"):
            table.add_column(name, no_wrap=True)
        for name in ("observed", "minimum", "maximum", "lines"):
            table.add_column(name, justify="right", no_wrap=True)
        for row in rows:
            shown = (_shown(row.observed), _shown(row.minimum), _shown(row.maximum), f"{row.n_rows or 0:,}")
            table.add_row(_verdict(row), row.contract, escape(row.expectation_id), *shown)
        console.print(table)
    for row in rows:
        if row.outcome != "passed":
            console.print(escape(f"{_verdict(row)}: {row.line}"), soft_wrap=True, highlight=False)
    console.print(escape(report.summary), soft_wrap=True, highlight=False)


def _verdict(row: CheckRow) -> str:
    if row.outcome == "error":
        return "error"
    return "passed" if row.outcome == "passed" else "blocked" if row.stops else "warned"


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
