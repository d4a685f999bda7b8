"""One run of the checks: new files in, findings out, and landed beside what they are about."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, Final

from retrieval_quality.expectations.landed import connected, first_line, new_files
from retrieval_quality.expectations.lines import load_lines, n_lines, rows_frame
from retrieval_quality.expectations.report import (
    LandingReport,
    last_outcomes,
    row_not_applied,
    row_of_lines,
    row_of_measure,
    write_rows,
)
from retrieval_quality.expectations.seed import read_expectations
from retrieval_quality.expectations.validation import Batch, Finding, import_seconds, validate
from retrieval_quality.expectations.variables import as_of, project_vars
from retrieval_quality.landing_check import refuse_cut_off

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from retrieval_quality.expectations.landed import NewFiles
    from retrieval_quality.expectations.measuring import Measure
    from retrieval_quality.expectations.report import CheckRow
    from retrieval_quality.expectations.seed import Expectation
    from retrieval_quality.settings import Settings

SAMPLE_LINES: Final = 50_000

# what is worth asking although nothing came
_ALWAYS: Final = "hours_since_newest"
# what compares a contract with traces
_OF_TRACES: Final = "without_trace_share"


def run_landing_checks(
    settings: Settings, *, variables: str | None, now: datetime, sample_lines: int = SAMPLE_LINES
) -> LandingReport:
    """Check the new files below `settings.landing`, and land what was found as `landing_checks`.

    `now` is the clock (with time zone); the var `as_of` goes before it where times are compared. Of a
    contract with more than `sample_lines` new lines that many are looked at; all are counted.

    Raises ExpectationsError (the seed), VarsError, LandingError (files or warehouse cannot be read) and
    OSError (the rows cannot be written). That an expectation fails or raises is in the report.
    """
    started = time.perf_counter()
    known_vars = project_vars(settings, variables)
    expectations = _about_files(read_expectations(settings.project_dir), known_vars)
    moment = as_of(known_vars) or now
    check_run_id = f"{now.astimezone(UTC):%Y%m%dT%H%M%S%fZ}"
    stamp = {"check_run_id": check_run_id, "checked_at": f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"}

    with connected(settings) as connection:
        files = new_files(connection, settings.landing)
        refuse_cut_off(path for item in files for path in item.json)
        counted = _load(connection, settings, files, expectations, now=max(moment, now), sample_lines=sample_lines)
        measures, broken = _measure(connection, expectations, counted, now=moment)
        if not files and not broken and not _is_any_out_of_bounds(expectations, measures):
            measures = {}
        batches = _batches(connection, expectations, counted, measures)

    findings, elapsed_import_seconds = _evaluate(batches)
    n_looked_at = {batch.name: len(batch.frame) for batch in batches}
    rows = _rows(expectations, counted, measures, findings | broken, n_looked_at=n_looked_at, stamp=stamp)
    return LandingReport(
        check_run_id=check_run_id,
        checked_at=now,
        moment=moment,
        n_files=sum(item.n_files for item in files),
        rows=rows,
        file=write_rows(settings.landing, rows, check_run_id=check_run_id, checked_at=now.astimezone(UTC))
        if _is_worth_landing(settings, rows, has_new_files=bool(files))
        else None,
        elapsed_seconds=time.perf_counter() - started,
        elapsed_import_seconds=elapsed_import_seconds,
    )


def _about_files(expectations: Sequence[Expectation], known_vars: Mapping[str, object]) -> tuple[Expectation, ...]:
    """Without those whose contract is read from a table (vars: landing_relations), or is compared with one that is:
    what a table gained since the last night is not known here.
    """
    relations = known_vars.get("landing_relations")
    tables = set(relations) if isinstance(relations, Mapping) else set()
    return tuple(
        item
        for item in expectations
        if item.contract not in tables and not (item.kind == _OF_TRACES and "retrieval_traces" in tables)
    )


def _load(
    connection: DuckDBPyConnection,
    settings: Settings,
    files: Sequence[NewFiles],
    expectations: Sequence[Expectation],
    *,
    now: datetime,
    sample_lines: int,
) -> dict[str, int]:
    """Read the new files of each contract that something is expected of, and of traces: others refer to them.

    Returns the number of new lines by contract.
    """
    expected = {item.contract for item in expectations}
    if not expected:
        return {}
    counted = {}
    for item in files:
        if item.contract in expected | {"retrieval_traces"}:
            load_lines(connection, settings, item, expectations, now=now, sample_lines=sample_lines)
            counted[item.contract] = n_lines(connection, item.contract)
    return counted


def _measure(
    connection: DuckDBPyConnection, expectations: Sequence[Expectation], counted: Mapping[str, int], *, now: datetime
) -> tuple[dict[str, Measure], dict[str, Finding]]:
    """The number of every expectation that bounds one, and what could not be counted; by expectation_id."""
    import duckdb

    from retrieval_quality.expectations.measures import measure
    from retrieval_quality.expectations.measuring import Asked, Measure

    measures: dict[str, Measure] = {}
    broken: dict[str, Finding] = {}
    for expectation in expectations:
        if expectation.is_per_line or not _is_applied(expectation, counted):
            continue
        try:
            measures[expectation.expectation_id] = measure(Asked(connection, expectation, now))
        except duckdb.Error as error:
            measures[expectation.expectation_id] = Measure(None)
            broken[expectation.expectation_id] = Finding(
                is_met=False, error=first_line(error), n_looked_at=0, n_failed=0, examples=()
            )
    return measures, broken


def _batches(
    connection: DuckDBPyConnection,
    expectations: Sequence[Expectation],
    counted: Mapping[str, int],
    measures: Mapping[str, Measure],
) -> list[Batch]:
    """Per contract one batch of lines; and one of a single row, the measures of all contracts."""
    batches = []
    for contract in counted:
        about_lines = [
            item
            for item in expectations
            if item.contract == contract and item.is_per_line and _is_applied(item, counted)
        ]
        if about_lines:
            columns = [item.column_name for item in about_lines if item.column_name is not None]
            frame = rows_frame(connection, contract, columns)
            batches.append(Batch(contract, frame, about_lines))
    about_measures = [item for item in expectations if item.expectation_id in measures]
    if about_measures:
        import pandas as pd

        values = {item.expectation_id: [measures[item.expectation_id].value] for item in about_measures}
        batches.append(Batch("measures", pd.DataFrame(values, dtype="float64"), about_measures))
    return batches


def _evaluate(batches: Sequence[Batch]) -> tuple[dict[str, Finding], float]:
    if not batches:
        return {}, 0.0
    elapsed_import_seconds = import_seconds()
    return validate(batches), elapsed_import_seconds


def _rows(
    expectations: Sequence[Expectation],
    counted: Mapping[str, int],
    measures: Mapping[str, Measure],
    findings: Mapping[str, Finding],
    *,
    n_looked_at: Mapping[str, int],
    stamp: Mapping[str, str],
) -> tuple[CheckRow, ...]:
    rows = []
    for item in expectations:
        n_rows = counted.get(item.contract, 0)
        if item.expectation_id in measures:
            measure, finding = measures[item.expectation_id], findings[item.expectation_id]
            rows.append(row_of_measure(item, finding, measure, n_rows=n_rows, stamp=stamp))
        elif item.expectation_id in findings:
            n_sampled = n_looked_at[item.contract]
            finding = findings[item.expectation_id]
            rows.append(row_of_lines(item, finding, n_rows=n_rows, n_sampled=n_sampled, stamp=stamp))
        elif item.contract in counted and not _is_applied(item, counted):
            rows.append(row_not_applied(item, n_rows=n_rows, stamp=stamp))
    return tuple(rows)


def _is_applied(expectation: Expectation, counted: Mapping[str, int]) -> bool:
    if expectation.kind == _ALWAYS:
        return True
    return expectation.contract in counted and counted[expectation.contract] >= expectation.min_lines


def _is_any_out_of_bounds(expectations: Iterable[Expectation], measures: Mapping[str, Measure]) -> bool:
    """Told without Great Expectations, so that a night with nothing new and nothing wrong does not import it."""
    return any(
        not (-inf if item.minimum is None else item.minimum) <= value <= (inf if item.maximum is None else item.maximum)
        for item in expectations
        if item.expectation_id in measures and (value := measures[item.expectation_id].value) is not None
    )


def _is_worth_landing(settings: Settings, rows: Sequence[CheckRow], *, has_new_files: bool) -> bool:
    """Not a file a night that says the same again: a landed file is itself something new."""
    if has_new_files or not rows:
        return bool(rows)
    recorded = last_outcomes(settings.landing)
    return any(recorded.get(row.expectation_id) != row.outcome for row in rows)
