"""What the checks found: rows of the `landing_checks` contract, and what follows for the night."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from retrieval_quality.expectations.measuring import Measure
    from retrieval_quality.expectations.seed import Expectation
    from retrieval_quality.expectations.validation import Finding

CONTRACT: Final = "landing_checks"

Outcome = Literal["passed", "failed", "error"]


@dataclass(frozen=True)
class CheckRow:
    """One line of the `landing_checks` contract.

    `observed` has to lie from `minimum` to `maximum`. `n_rows` counts new lines of the contract, `n_sampled`
    those that were looked at (all that can be read, or a sample), `n_failed` those of them at fault. Times are ISO
    8601, UTC.
    """

    check_id: str
    checked_at: str
    check_run_id: str
    contract: str
    expectation_id: str
    severity: Literal["block", "warn"]
    outcome: Outcome
    message: str
    column_name: str | None
    observed: float | None
    minimum: float | None
    maximum: float | None
    n_rows: int | None
    n_sampled: int | None
    n_failed: int | None
    examples: tuple[str, ...]
    ingested_at: str

    @property
    def stops(self) -> bool:
        """Does it stop the night? A check that could not run is no pass."""
        return self.severity == "block" and self.outcome != "passed"

    @property
    def line(self) -> str:
        """For a person: which check, and what it found."""
        raised = "could not run, which is an error: " if self.outcome == "error" else ""
        return f"landing check {self.expectation_id} ({self.contract}): {raised}{self.message}"


@dataclass(frozen=True)
class LandingReport:
    """What one run of the checks looked at and found.

    `moment` is what counted as now (as_of, else the clock). `file` is where the rows were landed, None
    where there was nothing new to say. `elapsed_import_seconds` is 0 where nothing had to be evaluated.
    """

    check_run_id: str
    checked_at: datetime
    moment: datetime
    n_files: int
    rows: tuple[CheckRow, ...]
    file: Path | None
    elapsed_seconds: float
    elapsed_import_seconds: float

    @property
    def n_passed(self) -> int:
        return sum(row.outcome == "passed" for row in self.rows)

    @property
    def n_warned(self) -> int:
        return sum(row.outcome == "failed" and not row.stops for row in self.rows)

    @property
    def n_blocked(self) -> int:
        return sum(row.outcome == "failed" and row.stops for row in self.rows)

    @property
    def n_errors(self) -> int:
        return sum(row.outcome == "error" for row in self.rows)

    @property
    def blocking(self) -> tuple[CheckRow, ...]:
        return tuple(row for row in self.rows if row.stops)

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(row.line for row in self.rows if row.outcome != "passed" and not row.stops)

    @property
    def summary(self) -> str:
        if not self.rows:
            return f"{self.n_files or 'No'} new files: nothing to check."
        return (
            f"{len(self.rows)} checks of {self.n_files} new files: {self.n_passed} passed, {self.n_warned} warned, "
            f"{self.n_blocked} blocked, {self.n_errors} errors"
        )


class LandingBlocked(Exception):  # noqa: N818
    """A `block` expectation failed or could not run; `lines` has one per expectation."""

    def __init__(self, report: LandingReport) -> None:
        self.report = report
        self.lines = tuple(row.line for row in report.blocking)
        super().__init__("\n".join(self.lines))


def row_of_lines(
    expectation: Expectation, finding: Finding, *, n_rows: int, n_sampled: int, stamp: Mapping[str, str]
) -> CheckRow:
    """Of an expectation about single lines: observed is the share of lines that do, minimum the share that must."""
    share = 1 - finding.n_failed / finding.n_looked_at if finding.n_looked_at else None
    counted = f"{_percent(share)} are fine, {finding.n_failed:,} of {finding.n_looked_at:,} are not"
    counted = counted if share is not None else "no line has it"
    said = f"{counted}, expected {_percent(expectation.mostly)} or more{_left_out(n_rows, n_sampled)}"
    return _row(
        expectation,
        outcome=_outcome(finding),
        message=_message(expectation, finding, said, finding.examples),
        observed=share,
        bounds=(expectation.mostly, 1.0),
        counts=(n_rows, n_sampled, None if finding.error else finding.n_failed),
        examples=finding.examples,
        stamp=stamp,
    )


def row_of_measure(
    expectation: Expectation, finding: Finding, measure: Measure, *, n_rows: int, stamp: Mapping[str, str]
) -> CheckRow:
    """Of an expectation about a number that was counted."""
    n_sampled = n_rows if measure.n_sampled is None else measure.n_sampled
    shown = _percent if expectation.kind.endswith("_share") else _number
    counted = "" if measure.n_failed is None else f" ({measure.n_failed:,} of {measure.n_rows or 0:,})"
    value = f"{shown(measure.value)}{counted}" if _is_finite(measure.value) else ""
    known = ", ".join(part for part in (value, measure.note) if part)
    said = f"{known}, expected {_bounds(expectation, shown)}{_left_out(n_rows, n_sampled)}"
    return _row(
        expectation,
        outcome=_outcome(finding),
        message=_message(expectation, finding, said, measure.examples),
        observed=measure.value if _is_finite(measure.value) else None,
        bounds=(expectation.minimum, expectation.maximum),
        counts=(n_rows, n_sampled, None if finding.error else measure.n_failed),
        examples=measure.examples,
        stamp=stamp,
    )


def row_not_applied(expectation: Expectation, *, n_rows: int, stamp: Mapping[str, str]) -> CheckRow:
    """Too few new lines to say anything: passed, and said so."""
    return _row(
        expectation,
        outcome="passed",
        message=f"not applied to {n_rows} lines, only from {expectation.min_lines} on",
        observed=None,
        bounds=(expectation.mostly, 1.0) if expectation.is_per_line else (expectation.minimum, expectation.maximum),
        counts=(n_rows, n_rows, None),
        examples=(),
        stamp=stamp,
    )


def write_rows(landing: Path, rows: Iterable[CheckRow], *, check_run_id: str, checked_at: datetime) -> Path:
    """Land the rows as one new file, whole or not at all. Raises OSError."""
    from retrieval_quality.contracts import LandingCheck

    records = [asdict(row) for row in rows]
    for record in records:
        LandingCheck.model_validate(record | {"examples": list(record["examples"])})
    folder = landing / CONTRACT / f"dt={checked_at:%Y-%m-%d}"
    folder.mkdir(parents=True, exist_ok=True)
    hidden, file = folder / f".{check_run_id}.jsonl", folder / f"{check_run_id}.jsonl"
    with hidden.open("w", encoding="utf-8") as out:
        out.writelines(f"{json.dumps(record, ensure_ascii=False, allow_nan=False)}\n" for record in records)
        out.flush()
        os.fsync(out.fileno())
    hidden.rename(file)
    return file


def last_outcomes(landing: Path) -> dict[str, str]:
    """The outcome of every expectation as it was last recorded in the landing folder; damaged lines say nothing."""
    found: dict[str, str] = {}
    for file in sorted((landing / CONTRACT).rglob("[!.]*.jsonl")):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                row = json.loads(line)
                found[row["expectation_id"]] = row["outcome"]
            except (ValueError, KeyError, TypeError):
                continue
    return found


def _row(
    expectation: Expectation,
    *,
    outcome: Outcome,
    message: str,
    observed: float | None,
    bounds: tuple[float | None, float | None],
    counts: tuple[int, int, int | None],
    examples: tuple[str, ...],
    stamp: Mapping[str, str],
) -> CheckRow:
    return CheckRow(
        check_id=f"{stamp['check_run_id']}:{expectation.expectation_id}",
        checked_at=stamp["checked_at"],
        check_run_id=stamp["check_run_id"],
        contract=expectation.contract,
        expectation_id=expectation.expectation_id,
        severity=expectation.severity,
        outcome=outcome,
        message=message,
        column_name=expectation.column_name,
        observed=observed,
        minimum=bounds[0],
        maximum=bounds[1],
        n_rows=counts[0],
        n_sampled=counts[1],
        n_failed=counts[2],
        examples=examples,
        ingested_at=stamp["checked_at"],
    )


def _outcome(finding: Finding) -> Outcome:
    if finding.error is not None:
        return "error"
    return "passed" if finding.is_met else "failed"


def _message(expectation: Expectation, finding: Finding, said: str, examples: tuple[str, ...]) -> str:
    if finding.error is not None:
        return finding.error
    if finding.is_met:
        return said
    return "; ".join((f"{expectation.description}: {said}", *examples))


def _left_out(n_rows: int, n_sampled: int) -> str:
    return f"; {n_sampled:,} of {n_rows:,} lines were looked at" if n_sampled < n_rows else ""


def _bounds(expectation: Expectation, shown: Callable[[float | None], str]) -> str:
    low, high = expectation.minimum, expectation.maximum
    if low is None:
        return f"{shown(high)} or less"
    return f"{shown(low)} or more" if high is None else f"{shown(low)} to {shown(high)}"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


def _percent(share: float | None) -> str:
    """Not rounded up to all: 99.996 % of the lines are not 100 %."""
    return "none" if share is None else f"{math.floor(share * 10_000) / 100:g}%"


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
