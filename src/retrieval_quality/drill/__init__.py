"""The drill: a retriever is degraded on purpose in a scratch warehouse, and the alert has to fire.

`run_drill` lands the evaluations of a few nights once per degradation and once as a healthy control,
builds the shipped verdicts over them, and reports what paged, after how many nights and sessions.
"""

from __future__ import annotations

from retrieval_quality.drill.lists import CONTROL, DEGRADATIONS, Degradation, Lists, Target
from retrieval_quality.drill.report import markdown, print_report, record, report_record, report_rows
from retrieval_quality.drill.runner import HISTORY, HISTORY_SMALL, NIGHTS, Source, run_drill
from retrieval_quality.drill.traces import DrillError, Period
from retrieval_quality.drill.verdicts import DrillReport, Finding

__all__ = [
    "CONTROL",
    "DEGRADATIONS",
    "HISTORY",
    "HISTORY_SMALL",
    "NIGHTS",
    "Degradation",
    "DrillError",
    "DrillReport",
    "Finding",
    "Lists",
    "Period",
    "Source",
    "Target",
    "markdown",
    "print_report",
    "record",
    "report_record",
    "report_rows",
    "run_drill",
]
