"""Retention: raw and exploded rows of old days go, what was measured of them stays; the days are frozen."""

import datetime as dt
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb

from retrieval_quality.expectations.variables import project_vars
from retrieval_quality.locks import changing
from retrieval_quality.nightly import build_warehouse
from retrieval_quality.settings import Settings, engine_limits

# The day that raw rows are purged by; dbt_project.yml says the same to staging (meta raw_day).
RAW_DAYS: Final[Mapping[str, tuple[str, str]]] = {
    "stg_retrieval_traces": ("trace_id", "traced_on"),
    "stg_answers": ("answer_id", "answered_at"),
    "stg_llm_calls": ("call_id", "called_at"),
}
# What marts are made of, by day, and stands nowhere else; and the log of versions.
KEPT_BY_DAY: Final = frozenset(
    {
        "int_score_histograms",
        "int_score_denominators",
        "int_user_day_scores",
        "int_joint_histograms",
        "int_judged_places",
        "int_listed_units",
        "int_trusted_days",
        "int_shown_lists",
        "int_version_days",
        "int_experiment_unit_days",
        "int_experiment_question_days",
        "int_day_versions",
    }
)
# Sessions, for the feedback still to come; answers, so that no question of a run counts as unanswered.
_TOLD_OF_TRACES: Final = "session_id, eval_run_id, query_id, candidates is not null as has_candidates,"


class PurgeError(Exception):
    """Nothing was purged; one line."""


@dataclass(frozen=True)
class Purge:
    """What a purge dropped: rows by table, of days before `purged_until` (UTC). A dry run dropped nothing."""

    purged_until: dt.date
    as_of: dt.datetime
    retention_days: int
    n_rows: Mapping[str, int]
    is_dry_run: bool


def run_purge(
    settings: Settings,
    *,
    variables: str | None = None,
    is_dry_run: bool = False,
    on_progress: Callable[[str], None] = lambda _: None,
) -> Purge:
    """Build what landed, so that nothing is dropped before it was measured, then purge the warehouse.

    `variables` is the YAML of dbt's `--vars`. Raises VarsError, BusyError, BuildFailed, PurgeError and
    OSError; on each of them nothing was purged.
    """
    retention_days = project_vars(settings, variables)["retention_days"]
    with changing(settings.warehouse):
        on_progress("starting dbt")
        build_warehouse(settings, variables=variables, full_refresh=False, say=on_progress)
        on_progress("purging")
        return purge(settings.warehouse, retention_days=int(str(retention_days)), is_dry_run=is_dry_run)


def purge(warehouse: Path, *, retention_days: int, is_dry_run: bool = False) -> Purge:
    """Drop raw and exploded rows of days more than `retention_days` before as_of, in one transaction.

    As as_of counts that of the last night, but no later than the newest production trace; a boundary
    never moves back. Histograms, denominators, marts, questions and judgments stay. Raises PurgeError.
    """
    if not warehouse.is_file():
        raise PurgeError(f"nothing was purged: warehouse {warehouse} does not exist")
    try:
        with closing(duckdb.connect(str(warehouse), config=engine_limits(warehouse))) as con:
            con.execute("set timezone = 'UTC'")
            con.execute("begin transaction")
            done = _purge(con, retention_days, is_dry_run=is_dry_run)
            con.execute("rollback" if is_dry_run else "commit")
            con.execute("checkpoint")
            return done
    except duckdb.Error as error:
        raise PurgeError(f"nothing was purged: {str(error).splitlines()[0]}") from error


def describe(done: Purge) -> tuple[str, ...]:
    """For a person: the boundary, and a line for each table that lost rows."""
    verb = "Would drop" if done.is_dry_run else "Dropped"
    counted_from = f"{done.retention_days} days before {done.as_of:%Y-%m-%d %H:%M} UTC"
    boundary = f"Days before {done.purged_until} are frozen ({counted_from})."
    lines = [f"  {n_rows:>12,} of {table}" for table, n_rows in sorted(done.n_rows.items())]
    return (boundary, *((f"{verb}:", *lines) if lines else (f"{verb} nothing.",)))


def _purge(con: duckdb.DuckDBPyConnection, retention_days: int, *, is_dry_run: bool) -> Purge:
    as_of = _as_of(con)
    ((before,),) = con.execute("select max(purged_until) from stg_purges").fetchall()
    until = max(filter(None, (before, as_of.date() - dt.timedelta(days=retention_days))))
    if until != before:
        con.execute("insert into stg_purges values (?, ?, ?)", [until, as_of.replace(tzinfo=None), retention_days])
    n_rows = {"stg_feedback": _purge_feedback(con, until)}
    for table, (key, day) in RAW_DAYS.items():
        told = _TOLD_OF_TRACES if table == "stg_retrieval_traces" else ""
        con.execute(
            f"create or replace temp table doomed as select {key} as row_key, {told} {day}::date as happened_on "
            f"from {table} where {day}::date < ?",
            [until],
        )
        n_rows[table] = _purge_rows(con, table, key)
    for table in _tables_by_day(con):
        n_rows[table] = _count(con, f"delete from {table} where traced_on < ?", until)
    n_rows["stg_quarantine"] = _forget_raw_text(con, until)
    forgotten = until - dt.timedelta(days=retention_days)
    con.execute("delete from stg_purged_rows where happened_on < ?", [forgotten])
    return Purge(until, as_of, retention_days, {table: n for table, n in n_rows.items() if n}, is_dry_run)


def _as_of(con: duckdb.DuckDBPyConnection) -> dt.datetime:
    """A mistyped as_of in the future must not purge everything."""
    rows = con.execute(
        """
        select least(int_as_of.as_of, newest.traced_at)::timestamp
        from int_as_of
        cross join (
            select coalesce(max(traced_at) filter (where traffic = 'production'), max(traced_at)) as traced_at
            from fct_retrievals
            where not is_missing
        ) as newest
        """
    ).fetchall()
    if not rows or rows[0][0] is None:
        raise PurgeError("nothing was purged: there is no trace yet to count back from")
    as_of: dt.datetime = rows[0][0]
    return as_of.replace(tzinfo=dt.UTC)


def _purge_feedback(con: duckdb.DuckDBPyConnection, until: dt.date) -> int:
    """Feedback goes with its trace; what speaks of a kept trace too stays. What has none goes by its own day, and
    with the traces of its session, one of which may have been meant.
    """
    con.execute(
        """
        create or replace temp table doomed as
        select feedback_id as row_key, given_at::date as happened_on
        from stg_feedback
        left join (
            select feedback_id, min(traced_on) as first_traced_on, max(traced_on) as last_traced_on
            from int_feedback_traces
            group by feedback_id
        ) as attachments using (feedback_id)
        where coalesce(last_traced_on < $until, given_at::date < $until)
            or (last_traced_on is null and (
                feedback_id in (select feedback_id from int_feedback_traces where attachment = 'too_late')
                or (trace_id is null and session_id in (
                    select session_id from stg_retrieval_traces where traced_on < $until
                ))
            ))
        """,
        {"until": until},
    )
    con.execute("delete from int_feedback_traces where feedback_id in (select row_key from doomed)")
    frozen = "attachment = 'attached' and traced_on < ?"
    con.execute(f"update int_feedback_traces set attachment = 'too_late' where {frozen}", [until])
    return _purge_rows(con, "stg_feedback", "feedback_id")


def _purge_rows(con: duckdb.DuckDBPyConnection, table: str, key: str) -> int:
    """Drop the rows of `doomed`; their keys are remembered, and their lines counted by landed file."""
    con.execute(f"insert into stg_purged_rows by name select '{table}' as model, * from doomed")
    con.execute(
        f"""
        insert into stg_frozen_lines
        select file_id, 'purged' as outcome, count(*) as n_lines
        from (
            select unnest(list_append(list_transform(lost_deliveries, lambda lost: lost.file_id), file_id)) as file_id
            from {table}
            where {key} in (select row_key from doomed)
        )
        group by file_id
        """
    )
    return _count(con, f"delete from {table} where {key} in (select row_key from doomed)")


def _forget_raw_text(con: duckdb.DuckDBPyConnection, until: dt.date) -> int:
    """Rejected lines stay counted, with their reason; their text goes with the day their file was written."""
    is_old = "file_id in (select file_id from stg_landing_files where modified_at::date < ?)"
    texts = (("stg_rejected_lines", "rejected_text"), ("stg_quarantine", "raw_text"))
    *_, n_rows = (
        _count(con, f"update {table} set {text} = null where {text} is not null and {is_old}", until)
        for table, text in texts
    )
    return n_rows


def _tables_by_day(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Every other table that is replaced by day: one that nobody thought of is purged, not kept."""
    rows = con.execute(
        "select table_name from duckdb_columns() semi join duckdb_tables() "
        "using (database_name, schema_name, table_name) where database_name = current_database() "
        "and schema_name = 'main' and column_name in ('traced_on', 'day_version') "
        "group by table_name having count(*) = 2 order by table_name"
    ).fetchall()
    return [name for (name,) in rows if name not in KEPT_BY_DAY]


def _count(con: duckdb.DuckDBPyConnection, statement: str, *parameters: object) -> int:
    ((n_rows,),) = con.execute(statement, list(parameters)).fetchall()
    return int(n_rows)
