"""The report of a drill: for a terminal, as a page, as JSON, and as rows of `drill_reports`."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from retrieval_quality.drill.demo import DEMO
from retrieval_quality.drill.verdicts import DrillReport, Finding

if TYPE_CHECKING:
    from rich.console import Console

CONTRACT: Final = "drill_reports"

_DEMO: Final = "The demo's traffic is simulated; its questions and rankings are real."

_HEADINGS: Final = (
    "variant", "must page", "stage", "metric", "healthy", "degraded", "objective", "nights", "sessions", "verdict",
)  # fmt: skip


def report_rows(report: DrillReport) -> list[dict[str, Any]]:
    """The report as rows of the landing contract `drill_reports`."""
    drilled_at = _iso(report.drilled_at)
    return [
        {
            "drill_result_id": f"{report.drill_id}/{finding.variant}/{finding.target.name}",
            "drill_id": report.drill_id,
            "drilled_at": drilled_at,
            "source": report.source,
            "variant": finding.variant,
            "is_expected_catch": finding.is_expected,
            "metric": finding.target.metric,
            "k": finding.target.k,
            "stage": finding.target.stage,
            "label_class": report.label_class,
            "objective": finding.objective,
            "healthy_mean": finding.healthy_mean,
            "degraded_mean": None if math.isnan(finding.degraded_mean) else finding.degraded_mean,
            "is_paged": finding.nights_to_page is not None,
            "nights_to_page": finding.nights_to_page,
            "units_to_page": finding.units_to_page,
            "n_nights": report.period.n_nights,
            "verdict": finding.verdict,
        }
        for finding in report.findings
    ]


def record(report: DrillReport, landing: Path) -> Path:
    """Append the report to a landing folder: one new file, visible when it is complete."""
    folder = landing / CONTRACT / f"dt={report.drilled_at.date().isoformat()}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{report.drill_id}.jsonl"
    hidden = folder / f".{path.name}"
    hidden.write_text("".join(f"{json.dumps(row)}\n" for row in report_rows(report)))
    return hidden.replace(path)


def report_record(report: DrillReport) -> dict[str, Any]:
    """The report for machines."""
    return {
        "drill_id": report.drill_id,
        "is_green": not report.failures,
        "failures": list(report.failures),
        "remarks": list(report.remarks),
        "notes": list(report.notes),
        "healthy_from": report.period.starts_on.isoformat(),
        "degraded_from": report.period.degraded_from.isoformat(),
        "degraded_to": _last_day(report).isoformat(),
        "n_traces_per_night": report.n_traces_per_night,
        "results": report_rows(report),
    }


def markdown(report: DrillReport) -> str:
    """The report as a page."""
    lines = [
        f"# Drill {report.drill_id}",
        "",
        summary_line(report),
        "",
        *_setting(report),
        "",
        *(f"* `{degradation.name}`: {degradation.description}" for degradation in report.degradations),
        "",
        f"| {' | '.join(_HEADINGS)} |",
        "|---|---|---|---|--:|--:|--:|--:|--:|---|",
        *(f"| {' | '.join(_cells(finding))} |" for finding in report.findings),
        "",
        *(f"* {line}" for line in (*report.remarks, *report.notes)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def print_report(report: DrillReport, console: Console) -> None:
    """The report as a table and a few lines of text."""
    from rich import box
    from rich.table import Table

    for line in _setting(report):
        console.print(line, highlight=False, markup=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for heading in _HEADINGS:
        is_number = heading in {"healthy", "degraded", "objective", "nights", "sessions"}
        table.add_column(heading, justify="right" if is_number else "left", no_wrap=True)
    previous = ""
    for finding in report.findings:
        if previous not in {"", finding.variant}:
            table.add_section()
        table.add_row(*_cells(finding))
        previous = finding.variant
    console.print(table)
    for line in (*report.remarks, *report.notes, summary_line(report)):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def summary_line(report: DrillReport) -> str:
    """Green or red, and why."""
    if report.failures:
        return f"Red: {'; '.join(report.failures)}."
    n_degradations = sum(bool(degradation.must_page) for degradation in report.degradations)
    return f"Green: all {n_degradations} degradations were caught, and the healthy control stayed silent."


def _setting(report: DrillReport) -> list[str]:
    period = report.period
    healthy_to = period.degraded_from - timedelta(days=1)
    what = f"{report.n_traces_per_night:.0f} evaluated traces a night, judged by {report.label_class} labels"
    degraded = f"degraded from {period.degraded_from} to {_last_day(report)} ({period.n_nights} nights)"
    return [
        f"Drilled {report.source}: {what}.",
        f"Healthy from {period.starts_on} to {healthy_to}, {degraded}.",
        *([_DEMO] if report.source == DEMO else []),
    ]


def _cells(finding: Finding) -> list[str]:
    return [
        finding.variant,
        "yes" if finding.is_expected else "",
        finding.target.stage,
        f"{finding.target.metric}@{finding.target.k}",
        f"{finding.healthy_mean:.3f}",
        f"{finding.degraded_mean:.3f}",
        f"{finding.objective:.3f}",
        "" if finding.nights_to_page is None else str(finding.nights_to_page),
        "" if finding.units_to_page is None else f"{finding.units_to_page:,}",
        finding.verdict,
    ]


def _last_day(report: DrillReport) -> date:
    return report.period.ends_on - timedelta(days=1)


def _iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
