"""What every run of the tests says at its end: executed and skipped tests, suite by suite."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

OUTCOMES = {"passed": "executed", "failed": "executed", "error": "executed", "skipped": "skipped"}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts = Counter(
        (_suite(report.nodeid), OUTCOMES[outcome])
        for outcome in OUTCOMES
        for report in terminalreporter.stats.get(outcome, [])
    )
    terminalreporter.section("suites")
    for suite in sorted({suite for suite, _ in counts}):
        terminalreporter.line(f"{suite}: {counts[suite, 'executed']} executed, {counts[suite, 'skipped']} skipped")


def _suite(nodeid: str) -> str:
    """The folder below tests/ that a test stands in."""
    parts = Path(nodeid.split("::")[0]).parts
    return parts[parts.index("tests") + 1] if "tests" in parts else parts[0]
