"""The command line: `retrieval-quality`. Imports that cost time wait for the command that needs
them.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from retrieval_quality.settings import (
    ALERT_RESOLVE_NIGHTS,
    KEEP_PUBLICATIONS,
    LANDING,
    PUBLISH_FACT_DAYS,
    PUBLISHED,
    WAREHOUSE,
    SettingsError,
    positive_int,
    resolve_place,
    resolve_settings,
)

if TYPE_CHECKING:
    from rich.console import Console

    from retrieval_quality.build import BuildResult
    from retrieval_quality.expectations import LandingReport
    from retrieval_quality.nightly import NightlyResult
    from retrieval_quality.publish import Publication

EXIT_BREACHED: Final = 1
EXIT_FAILED: Final = 2
PLAIN_WIDTH: Final = 130

_landing = click.option("--landing", metavar="DIR", help=f"Landing folder [env {LANDING[0]}, default {LANDING[1]}].")
_warehouse = click.option(
    "--warehouse",
    metavar="FILE",
    help=f"The builder's DuckDB file [env {WAREHOUSE[0]}, default {WAREHOUSE[1]}].",
)
_published = click.option(
    "--published",
    metavar="DIR",
    help=f"Folder of published versions [env {PUBLISHED[0]}, default {PUBLISHED[1]}].",
)
_variables = click.option("--vars", "variables", metavar="YAML", help="Mapping of dbt vars to override.")
_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")


class CommandError(Exception):
    """A command could not do its work for a reason its one line gives."""


class _Group(click.Group):
    """Turns every failure into exit code 2: 1 means that a verdict is breached."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.UsageError):
            raise
        except BrokenPipeError:
            # whoever reads the output has seen enough; it is printed after the work is done
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return ctx.exit(0)
        except (KeyboardInterrupt, click.Abort):
            click.echo("error: interrupted", err=True)
        except Exception as error:
            lines = _expected_lines(error)
            if not lines:
                traceback.print_exception(error)
            for line in lines:
                click.echo(line, err=True)
        return ctx.exit(EXIT_FAILED)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="retrieval-quality", prog_name="retrieval-quality")
def main() -> None:
    """How good is the retrieval of a production RAG system?

    Exit codes: 0 fine, 1 a verdict is breached, 2 the run failed.
    """


@main.command()
@_landing
@_warehouse
@_published
@_variables
@click.option("--full-refresh", is_flag=True, help="Rebuild incremental tables from scratch.")
@_as_json
@click.pass_context
def nightly(
    ctx: click.Context,
    landing: str | None,
    warehouse: str | None,
    published: str | None,
    variables: str | None,
    full_refresh: bool,
    as_json: bool,
) -> None:
    """Check what landed, build and test, publish, alert, print the headline numbers.

    A night that fails leaves the previous publication as it is; one that brings nothing new builds
    nothing. Exit code 1: a newest verdict is breached or worth a page.
    """
    from retrieval_quality.alerts import describe, problems, record
    from retrieval_quality.nightly import run_nightly
    from retrieval_quality.summary import print_summary, read_summary, summary_records

    settings = resolve_settings(
        landing=landing,
        warehouse=warehouse,
        published=published,
        environ=os.environ,
        current_dir=Path.cwd(),
    )
    with _progress() as say:
        result = run_nightly(settings, variables=variables, full_refresh=full_refresh, on_progress=say)
    for line in result.checks.warnings:
        click.echo(f"warning: {line}", err=True)
    if result.build is not None:
        for note in result.build.notes:
            click.echo(f"note: {note}", err=True)
        for warning in result.build.warnings:
            click.echo(f"warning: {warning.line}", err=True)
    if as_json:
        _echo_json(
            {
                "landing_checks": _checks_record(result.checks),
                "build": None if result.build is None else _build_record(result.build),
                "rebuilt_days": dict(result.rebuilt_days),
                "publication": None if result.publication is None else _publication_record(result.publication),
                "database": str(result.database),
                "alerts": record(result.alerts),
                "summary": summary_records(read_summary(result.database)),
            }
        )
    else:
        _echo_night(result, describe(result.alerts))
        print_summary(result.database, _console())
    for line in problems(result.alerts):
        click.echo(line, err=True)
    ctx.exit(result.alerts.exit_code)


@main.command()
@_landing
@_published
@click.option("--dry-run", is_flag=True, help="Print what would be sent; record and send nothing.")
@click.option("--acknowledge", "acknowledged", metavar="ALERT_ID", help="Take an open alert, and do nothing else.")
@click.option("--resolve", "resolved", metavar="ALERT_ID", help="Close an open alert by hand, then run.")
@click.option("--by", metavar="NAME", help="Who acknowledges or resolves [default: $USER].")
@click.option("--note", metavar="TEXT", help="What they say to it.")
@_as_json
@click.pass_context
def alert(
    ctx: click.Context,
    landing: str | None,
    published: str | None,
    dry_run: bool,
    acknowledged: str | None,
    resolved: str | None,
    by: str | None,
    note: str | None,
    as_json: bool,
) -> None:
    """Open and resolve alerts by the current publication, and send what has not arrived yet.

    Exit codes: 0 nothing is breached, 1 a newest verdict is breached or worth a page, 2 a message
    did not arrive or nothing could be read.
    """
    from retrieval_quality import alerts
    from retrieval_quality.publish import current_database

    if dry_run and (acknowledged or resolved):
        raise click.UsageError("--dry-run records nothing: leave out --acknowledge and --resolve")
    if acknowledged and resolved:
        raise click.UsageError("--acknowledge or --resolve, one at a time")
    if not (acknowledged or resolved) and (by or note):
        raise click.UsageError("--by and --note go with --acknowledge or --resolve")
    folder = _place(LANDING, landing)
    actor = by or os.environ.get("USER") or "unknown"
    if acknowledged:
        taken = alerts.acknowledge(folder, acknowledged, by=actor, note=note, at=datetime.now(UTC))
        click.echo(f"{taken.alert_id} is acknowledged by {actor}")
        return
    database = current_database(_place(PUBLISHED, published))
    if resolved:
        status = alerts.read_status(database)
        alerts.resolve_by_hand(folder, resolved, by=actor, note=note, status=status, at=datetime.now(UTC))
    report = alerts.run_alerts(
        database,
        folder,
        resolve_nights=positive_int(ALERT_RESOLVE_NIGHTS, os.environ),
        outside=alerts.Outside(environ=os.environ),
        is_dry_run=dry_run,
    )
    if as_json:
        _echo_json(alerts.record(report))
    else:
        for line in alerts.describe(report):
            click.echo(line)
    for line in alerts.problems(report):
        click.echo(line, err=True)
    ctx.exit(report.exit_code)


def _echo_night(result: "NightlyResult", alert_lines: Sequence[str]) -> None:
    if result.build is None or result.publication is None:
        click.echo(f"Nothing is new since publication {result.database.parent.name}: nothing was built.")
    else:
        n_nodes = sum(result.build.counts.values())
        click.echo(f"Built and tested {n_nodes} nodes in {result.build.elapsed_seconds:.1f} s.")
        if result.rebuilt_days:
            days = ", ".join(f"{n_days} by {cause}" for cause, n_days in result.rebuilt_days.items())
            click.echo(f"Days rebuilt: {days}.")
        click.echo(_publication_line(result.publication))
    for line in alert_lines:
        click.echo(line)


@main.command("check-landing")
@_landing
@_warehouse
@_variables
@_as_json
@click.pass_context
def check_landing(
    ctx: click.Context, landing: str | None, warehouse: str | None, variables: str | None, as_json: bool
) -> None:
    """Check the files that no night has read yet; `nightly` does so first.

    What is expected is in seeds/landing_expectations.csv. Exit code 2 where it would stop the night.
    """
    from retrieval_quality.expectations import run_landing_checks
    from retrieval_quality.expectations.table import print_checks
    from retrieval_quality.landing_check import check_landing as check_names

    settings = resolve_settings(landing=landing, warehouse=warehouse, environ=os.environ, current_dir=Path.cwd())
    with _progress() as say:
        say("checking what landed")
        check_names(settings.landing)
        report = run_landing_checks(settings, variables=variables, now=datetime.now(UTC))
    if as_json:
        _echo_json(_checks_record(report))
    else:
        print_checks(report, _console())
    if report.blocking:
        ctx.exit(EXIT_FAILED)


@main.command()
@_landing
@click.option("--days", type=click.IntRange(min=1), help="Days of traffic.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of everything random.")
def demo(landing: str | None, days: int | None, seed: int | None) -> None:
    """Land demo traffic, to try everything without own data."""
    from retrieval_quality.demo import DEFAULT_DAYS, DEFAULT_SEED, build_demo, format_summary

    with _progress() as say:
        try:
            landed = build_demo(
                _place(LANDING, landing),
                days=DEFAULT_DAYS if days is None else days,
                seed=DEFAULT_SEED if seed is None else seed,
                on_step=say,
            )
        except (ImportError, RuntimeError, ValueError) as error:
            raise CommandError(str(error)) from error
    click.echo(format_summary(landed))


@main.command()
@click.option("--landing", metavar="DIR", help="Landing folder of which a copy is drilled [default: a demo].")
@click.option("--nights", type=click.IntRange(min=1), help="Nights to degrade [default 5].")
@click.option("--history", type=click.IntRange(min=1), help="Healthy days before them [default 7].")
@click.option("--as-of", type=click.DateTime(["%Y-%m-%d"]), help="UTC day that the nights end before [default: all].")
@click.option("--small", is_flag=True, help="A smaller demo and fewer days, for CI.")
@click.option("--vars", "variables", metavar="YAML", help="Mapping of dbt vars to override.")
@click.option("--report", "page", type=click.Path(path_type=Path), metavar="FILE", help="Write the report, Markdown.")
@click.option("--record", "record_in", metavar="DIR", help="Landing folder that gets the report [default: --landing].")
@click.option("--keep", metavar="DIR", help="New folder for the scratch warehouse [default: a temporary one].")
@_as_json
def drill(
    landing: str | None,
    nights: int | None,
    history: int | None,
    as_of: datetime | None,
    small: bool,
    variables: str | None,
    page: Path | None,
    record_in: str | None,
    keep: str | None,
    as_json: bool,
) -> None:
    """Degrade a retriever on purpose in a scratch warehouse: does the alert fire?

    Exit codes: 0 every degradation was caught and the control stayed silent, 1 not so, 2 the drill
    failed to run.
    """
    from retrieval_quality.drill import HISTORY, HISTORY_SMALL, NIGHTS, markdown, print_report, record, report_record
    from retrieval_quality.drill.command import Request, run_request

    request = Request(
        landing=_absolute(landing),
        ends_on=as_of.date() if as_of else None,
        nights=nights or NIGHTS,
        history=history or (HISTORY_SMALL if small else HISTORY),
        is_small=small,
        variables=variables,
        keep=_absolute(keep),
    )
    with _progress() as say:
        try:
            report = run_request(request, environ=os.environ, current_dir=Path.cwd(), on_progress=say)
        except ImportError as error:
            raise CommandError(str(error)) from error
    recorded_in = _absolute(record_in) or request.landing
    if recorded_in is not None:
        record(report, recorded_in)
    if page is not None:
        page.write_text(markdown(report), encoding="utf-8")
    if as_json:
        _echo_json(report_record(report))
    else:
        print_report(report, _console())
    if report.failures:
        click.get_current_context().exit(EXIT_BREACHED)


@main.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--from", "format_name", required=True, metavar="FORMAT", help="openinference, otel-genai, mlflow, ...")
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), help="Leave out earlier UTC days.")
@click.option("--at", type=click.DateTime(), help="Time (UTC) of rows that the export does not date.")
@_landing
@_as_json
def ingest(
    paths: tuple[Path, ...],
    format_name: str,
    since: datetime | None,
    at: datetime | None,
    landing: str | None,
    as_json: bool,
) -> None:
    """Land an export of another tracer. The same export twice adds nothing."""
    from retrieval_quality.adapters import describe
    from retrieval_quality.adapters import ingest as ingest_export

    report = ingest_export(format_name, paths, _place(LANDING, landing), since.date() if since else None, at)
    if as_json:
        click.echo(json.dumps(asdict(report), default=str))
        return
    for line in describe(report):
        click.echo(line)


@main.command()
@_warehouse
@_as_json
def doctor(warehouse: str | None, as_json: bool) -> None:
    """Say in plain words what your data lack to produce each mart."""
    from retrieval_quality.doctor import describe, diagnose

    diagnosis = diagnose(_place(WAREHOUSE, warehouse))
    if as_json:
        _echo_json(asdict(diagnosis))
        return
    for line in describe(diagnosis):
        click.echo(line)


@main.command()
@_published
@_as_json
def summary(published: str | None, as_json: bool) -> None:
    """Print the headline numbers of the current publication."""
    from retrieval_quality.publish import current_database
    from retrieval_quality.summary import print_summary, read_summary, summary_records

    database = current_database(_place(PUBLISHED, published))
    if as_json:
        _echo_json({"database": str(database), "summary": summary_records(read_summary(database))})
    else:
        print_summary(database, _console())


@main.command()
@_warehouse
@_published
@_as_json
def publish(warehouse: str | None, published: str | None, as_json: bool) -> None:
    """Publish the warehouse as it is now; `nightly` does so after its tests have passed."""
    from retrieval_quality.publish import publish as publish_version

    with _progress() as say:
        say("publishing")
        publication = publish_version(
            _place(WAREHOUSE, warehouse),
            _place(PUBLISHED, published),
            keep=positive_int(KEEP_PUBLICATIONS, os.environ),
            fact_days=positive_int(PUBLISH_FACT_DAYS, os.environ),
        )
    if as_json:
        _echo_json(_publication_record(publication))
    else:
        click.echo(_publication_line(publication))


@main.command()
@click.argument("publication_id", required=False)
@_published
def rollback(publication_id: str | None, published: str | None) -> None:
    """Point `current` at PUBLICATION_ID, by default at the version before the current one."""
    from retrieval_quality.publish import rollback as roll_back

    click.echo(f"current is {roll_back(_place(PUBLISHED, published), publication_id)}")


@main.command()
@_landing
@_warehouse
@_variables
@click.option("--dry-run", is_flag=True, help="Build, and say what would be dropped; drop nothing.")
@_as_json
def purge(landing: str | None, warehouse: str | None, variables: str | None, dry_run: bool, as_json: bool) -> None:
    """Drop raw rows of days older than the var retention_days; histograms, denominators and marts stay.

    Builds first what landed. What arrives for a purged day later is too late.
    """
    from retrieval_quality.purge import describe, run_purge

    settings = resolve_settings(landing=landing, warehouse=warehouse, environ=os.environ, current_dir=Path.cwd())
    with _progress() as say:
        done = run_purge(settings, variables=variables, is_dry_run=dry_run, on_progress=say)
    if as_json:
        _echo_json({**asdict(done), "purged_until": done.purged_until.isoformat(), "as_of": _utc(done.as_of)})
        return
    for line in describe(done):
        click.echo(line)


def _place(place: tuple[str, str], option: str | None) -> Path:
    return resolve_place(place, option, environ=os.environ, current_dir=Path.cwd())


def _absolute(option: str | None) -> Path | None:
    return None if option is None else resolve_place(("", ""), option, environ={}, current_dir=Path.cwd())


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """A spinner with what is being done, on a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status("starting") as status:
        yield lambda text: status.update(escape(text))


def _console() -> "Console":
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # the group's matter: rich would exit with 1, a breached verdict

    return Output(width=None if sys.stdout.isatty() else PLAIN_WIDTH)


def _echo_json(record: object) -> None:
    click.echo(json.dumps(record, indent=2, allow_nan=False))


def _checks_record(report: "LandingReport") -> dict[str, object]:
    return {
        "check_run_id": report.check_run_id,
        "checked_at": _utc(report.checked_at),
        "as_of": _utc(report.moment),
        "n_files": report.n_files,
        "n_passed": report.n_passed,
        "n_warned": report.n_warned,
        "n_blocked": report.n_blocked,
        "n_errors": report.n_errors,
        "file": None if report.file is None else str(report.file),
        "elapsed_seconds": round(report.elapsed_seconds, 3),
        "elapsed_import_seconds": round(report.elapsed_import_seconds, 3),
        "rows": [asdict(row) for row in report.rows],
    }


def _build_record(result: "BuildResult") -> dict[str, object]:
    return {
        "status": result.status,
        "elapsed_seconds": round(result.elapsed_seconds, 3),
        "nodes": dict(result.counts),
        "warnings": [warning.line for warning in result.warnings],
        "notes": list(result.notes),
        "log": str(result.log_file),
    }


def _publication_record(publication: "Publication") -> dict[str, object]:
    return {
        "publication_id": publication.publication_id,
        "path": str(publication.path),
        "database": str(publication.database),
        "as_of": _utc(publication.as_of),
        "published_at": _utc(publication.published_at),
        "n_tables": publication.n_tables,
        "n_fact_days_written": publication.n_fact_days_written,
        "n_fact_days_linked": publication.n_fact_days_linked,
        "pruned": list(publication.pruned),
    }


def _utc(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _publication_line(publication: "Publication") -> str:
    return (
        f"Published {publication.publication_id}: {publication.n_tables} tables, "
        f"{publication.n_fact_days_written} fact days written, "
        f"{publication.n_fact_days_linked} unchanged."
    )


def _expected_lines(error: Exception) -> tuple[str, ...]:
    """What to print for a failure a user can act on; nothing for a defect."""
    from retrieval_quality.adapters import IngestError
    from retrieval_quality.alerts import AlertError
    from retrieval_quality.build import BuildFailed, VarsError
    from retrieval_quality.doctor import DoctorError
    from retrieval_quality.drill import DrillError
    from retrieval_quality.expectations import ExpectationsError, LandingBlocked
    from retrieval_quality.landing_check import LandingError
    from retrieval_quality.locks import BusyError
    from retrieval_quality.publish import PublishError
    from retrieval_quality.purge import PurgeError
    from retrieval_quality.summary import SummaryError

    expected = (
        AlertError,
        BusyError,
        CommandError,
        DoctorError,
        DrillError,
        ExpectationsError,
        IngestError,
        SettingsError,
        LandingError,
        VarsError,
        PublishError,
        PurgeError,
        SummaryError,
        OSError,
    )
    if isinstance(error, BuildFailed):
        return (
            *(f"error: {line}" for line in error.lines),
            f"details: {error.result.log_file}",
        )
    if isinstance(error, LandingBlocked):
        return tuple(f"error: {line}" for line in error.lines)
    return (f"error: {' '.join(str(error).split())}",) if isinstance(error, expected) else ()
