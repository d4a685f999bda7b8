"""One night: check what landed, build and test, publish, alert. Nothing is published from a build
that failed, so readers keep the previous publication; nothing is built where the current publication
was made from the very same.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from retrieval_quality.alerts import AlertReport, Outside, run_alerts
from retrieval_quality.build import BuildFailed, BuildResult, build, check_vars
from retrieval_quality.expectations import LandingBlocked, LandingReport, run_landing_checks
from retrieval_quality.inputs import inputs_sha256
from retrieval_quality.landing_check import LandingError, check_landing, damaged_files
from retrieval_quality.locks import changing
from retrieval_quality.publish import Publication, current_database, publish, published_inputs
from retrieval_quality.settings import Settings, exported


@dataclass(frozen=True)
class NightlyResult:
    """What a night did: checks that let it go on, a build whose tests passed and its publication (None
    where nothing was new), the published database that is current now, its alerts. `rebuilt_days` are
    UTC days by what changed them: a contract, `policy` or `as_of`.
    """

    checks: LandingReport
    build: BuildResult | None
    rebuilt_days: Mapping[str, int]
    publication: Publication | None
    database: Path
    alerts: AlertReport


def run_nightly(
    settings: Settings,
    *,
    variables: str | None = None,
    full_refresh: bool = False,
    on_progress: Callable[[str], None] | None = None,
) -> NightlyResult:
    """Run one night on `settings.landing`.

    `variables` is the YAML of dbt's `--vars`; `on_progress` is told what is being done. Raises
    VarsError, BusyError, LandingError, ExpectationsError, LandingBlocked, BuildFailed or PublishError; on each of
    them `current` is untouched unless the message says that the version is published. Raises AlertError
    and OSError when the night is published and alerting failed; a message that does not arrive is told
    by the result.
    """
    check_vars(variables)
    with changing(settings.warehouse):
        return _night(settings, variables, full_refresh, on_progress if on_progress is not None else _say_nothing)


def _night(settings: Settings, variables: str | None, full_refresh: bool, say: Callable[[str], None]) -> NightlyResult:
    say("checking what landed")
    check_landing(settings.landing)
    checks = run_landing_checks(settings, variables=variables, now=datetime.now(UTC))
    if checks.blocking:
        raise LandingBlocked(checks)
    inputs = inputs_sha256(settings, variables)
    result, publication, rebuilt = None, None, {}
    if full_refresh or not _is_current(settings, inputs):
        say("starting dbt")
        built_before = 0 if full_refresh else _newest_version(settings.warehouse)
        result = build_warehouse(settings, variables=variables, full_refresh=full_refresh, say=say)
        rebuilt = _rebuilt_days(settings.warehouse, built_before)
        say("publishing")
        publication = publish(
            settings.warehouse,
            settings.published,
            keep=settings.keep_publications,
            fact_days=settings.publish_fact_days,
            inputs=inputs,
        )
    database = publication.database if publication else current_database(settings.published)
    say("alerting")
    alerts = run_alerts(
        database,
        settings.landing,
        resolve_nights=settings.alert_resolve_nights,
        outside=Outside(environ=os.environ),
    )
    return NightlyResult(checks, result, rebuilt, publication, database, alerts)


def _is_current(settings: Settings, inputs: str | None) -> bool:
    return inputs is not None and settings.warehouse.is_file() and published_inputs(settings.published) == inputs


def _newest_version(warehouse: Path) -> int:
    rows = _day_versions(warehouse, "select coalesce(max(day_version), 0) from int_day_versions")
    return int(rows[0][0]) if rows else 0


def _rebuilt_days(warehouse: Path, since: int) -> dict[str, int]:
    """How many days were rebuilt after a version, by what changed them."""
    counted = "select contract, count(distinct traced_on) from int_day_versions where day_version > ? group by all"
    return dict(_day_versions(warehouse, f"{counted} order by all", since))


def _day_versions(warehouse: Path, sql: str, *parameters: int) -> list[tuple[Any, ...]]:
    if not warehouse.is_file():
        return []
    with closing(duckdb.connect(str(warehouse), read_only=True)) as con:
        known = con.execute("select 1 from duckdb_tables() where table_name = 'int_day_versions'").fetchall()
        return con.execute(sql, parameters).fetchall() if known else []


def build_warehouse(
    settings: Settings, *, variables: str | None, full_refresh: bool, say: Callable[[str], None]
) -> BuildResult:
    """Build and test what landed. Raises BuildFailed, or LandingError where a damaged file explains it."""
    try:
        with exported(settings):
            return build(
                project_dir=settings.project_dir,
                profiles_dir=settings.profiles_dir,
                log_dir=settings.log_dir,
                variables=variables,
                full_refresh=full_refresh,
                on_node=lambda node: say(f"building {node}"),
            )
    except BuildFailed as failed:
        damaged = damaged_files(settings.landing) if _may_be_a_file(failed) else ()
        if damaged:
            raise LandingError(damaged[0]) from failed
        raise


def _may_be_a_file(failed: BuildFailed) -> bool:
    return any("IO Error" in line for line in failed.lines)


def _say_nothing(_: str) -> None:
    return None
