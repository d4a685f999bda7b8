"""How fresh, how many, how often, and of which trace: counts over lines, new and staged."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from retrieval_quality.expectations.landed import quoted
from retrieval_quality.expectations.measuring import MAX_EXAMPLES, Asked, Measure, has_table, share_of, sql_time

HISTORY_DAYS: Final = 28
MIN_HISTORY_DAYS: Final = 7
MIN_SAME_WEEKDAYS: Final = 3
# Below this median the count of a day says little about the next.
MIN_MEDIAN: Final = 20


def hours_since_newest(asked: Asked) -> Measure:
    """Lines more than an hour ahead of now say nothing: one wrong clock would hide that nothing comes any more."""
    (newest,) = asked.connection.execute(f"""
        select coalesce(max(happened_at) filter (is_production), max(happened_at))
        from (
            {_all_lines(asked)}
        )
        where happened_at <= {sql_time(asked.now)} + interval 1 hour
        """).fetchall()[0]
    if not isinstance(newest, datetime):
        return Measure(float("inf"), note="nothing has landed yet")
    hours = max(0.0, (asked.now.replace(tzinfo=None) - newest).total_seconds() / 3600)
    return Measure(hours, note=f"newest at {newest:%Y-%m-%d %H:%M} UTC")


def volume_ratio(asked: Asked) -> Measure:
    """Of the days that new lines are of and that ended before now, the one that is furthest off.

    A day is all its production lines, new and staged. It is compared with the median of the staged days among
    the 28 before it, of the same weekday where there are three; with fewer than seven days it is not.
    """
    low = 0.0 if asked.expectation.minimum is None else asked.expectation.minimum
    high = float("inf") if asked.expectation.maximum is None else asked.expectation.maximum
    rows = asked.connection.execute(
        f"""
        with staged as (
            select happened_at::date as day, count(*) as n
            from staged_lines where contract = {quoted(asked.contract)} and is_production group by day
        ),

        landed as (
            select rq_at::date as day, count(distinct rq_key) as n
            from landed_{asked.contract}
            where rq_is_production and rq_at < date_trunc('day', {sql_time(asked.now)})
                and rq_key not in (select line_key from staged_{asked.contract})
            group by day
        ),

        usual as (
            select
                landed.day,
                landed.n + coalesce(any_value(today.n), 0) as n,
                median(before.n) as median_of_days,
                count(*) filter (dayofweek(before.day) = dayofweek(landed.day)) as n_weekdays,
                median(before.n) filter (dayofweek(before.day) = dayofweek(landed.day)) as median_of_weekdays
            from landed
            inner join staged as before on before.day between landed.day - {HISTORY_DAYS} and landed.day - 1
            left join staged as today on landed.day = today.day
            group by landed.day, landed.n
            having count(*) >= {MIN_HISTORY_DAYS}
        ),

        ratios as (
            select
                day, n,
                case when n_weekdays >= {MIN_SAME_WEEKDAYS} then median_of_weekdays else median_of_days end as median_n,
                n / median_n as ratio
            from usual
            where median_n >= {MIN_MEDIAN}
        )

        select day::varchar, n, median_n, ratio
        from ratios
        order by ratio not between $low and $high desc, greatest(ratio, 1 / ratio) desc, day
        """,
        {"low": low, "high": high},
    ).fetchall()
    if not rows:
        return Measure(
            None, note=f"not enough history: {MIN_HISTORY_DAYS} days of {MIN_MEDIAN} lines and more are needed"
        )
    off = [row for row in rows if not low <= row[3] <= high]
    return Measure(
        rows[0][3],
        examples=tuple(f"{day}: {n} lines, usually {median:g}" for day, n, median, _ in (off or rows)[:MAX_EXAMPLES]),
        note=f"{len(rows)} full days",
    )


def repeated_share(asked: Asked) -> Measure:
    """A file that grew repeats its own lines, and is not blamed for it."""
    rows = asked.connection.execute(
        f"""
        with keys as (
            select
                lines.rq_key,
                count(*) as n_lines,
                -- all but the first are repeats, and the first too where another file was staged with it
                count(*) - 1 + coalesce(bool_or(staged.path <> lines.rq_path), false)::integer as n_repeats
            from landed_{asked.contract} as lines
            left join staged_{asked.contract} as staged on lines.rq_key = staged.line_key
            where lines.rq_key is not null
            group by lines.rq_key
        )

        select
            sum(n_lines)::bigint,
            coalesce(sum(n_repeats), 0)::bigint,
            min(rq_key, {MAX_EXAMPLES}) filter (n_repeats > 0)
        from keys
        """
    ).fetchall()
    return share_of(*rows[0])


def without_trace_share(asked: Asked) -> Measure:
    """Found by trace_id or by session_id, as labels find their trace; both may be new or staged."""
    lines = f"landed_{asked.contract}"
    has_new_traces = has_table(asked.connection, "landed_retrieval_traces")
    new_traces = "union all select rq_key from landed_retrieval_traces" if has_new_traces else ""
    new_sessions = "union all select rq_session from landed_retrieval_traces" if has_new_traces else ""
    rows = asked.connection.execute(
        f"""
        with traces as materialized (
            select trace_id from staged_traces where trace_id in (select rq_trace from {lines}) {new_traces}
        ),

        sessions as materialized (
            select session_id from staged_traces where session_id in (select rq_session from {lines}) {new_sessions}
        ),

        lines as (
            select
                coalesce(rq_trace, rq_session) as named,
                coalesce(rq_trace not in (select trace_id from traces where trace_id is not null), true)
                and coalesce(rq_session not in (select session_id from sessions where session_id is not null), true)
                    as is_foreign
            from {lines}
            where rq_trace is not null or rq_session is not null
        )

        select count(*), count(*) filter (is_foreign), min(named, {MAX_EXAMPLES}) filter (is_foreign) from lines
        """
    ).fetchall()
    return share_of(*rows[0])


def _all_lines(asked: Asked) -> str:
    staged = f"select happened_at, is_production from staged_lines where contract = {quoted(asked.contract)}"
    if not has_table(asked.connection, f"landed_{asked.contract}"):
        return staged
    return f"{staged} union all select rq_at, rq_is_production from landed_{asked.contract}"
