"""Ranked lists: from where ranks count, and which way scores run."""

from __future__ import annotations

from typing import Final

from retrieval_quality.expectations.directions import MIN_LISTS, balance_of, rises
from retrieval_quality.expectations.measuring import MAX_EXAMPLES, Asked, Measure, share_of

DIRECTION_HISTORY_DAYS: Final = 7
DIRECTION_SAMPLE: Final = 20_000


def other_rank_base_share(asked: Asked) -> Measure:
    rows = asked.connection.execute(
        f"""
        select rq_first_rank, count(*) as n
        from lines_{asked.contract}
        where rq_first_rank is not null
        group by rq_first_rank order by n desc, rq_first_rank
        """
    ).fetchall()
    n_lists = sum(n for _, n in rows)
    n_others = sum(n for _, n in rows[1:])
    return Measure(
        n_others / n_lists if n_lists else None,
        n_rows=n_lists,
        n_failed=n_others,
        examples=tuple(f"from rank {rank:g}: {n} lists" for rank, n in rows[:MAX_EXAMPLES]) if n_others else (),
        note="" if n_lists else "no list has ranks",
    )


def against_declared_share(asked: Asked) -> Measure:
    rows = asked.connection.execute(
        f"""
        select
            count(*),
            count(*) filter (rises = rq_higher_is_better),
            min(rq_key, {MAX_EXAMPLES}) filter (rises = rq_higher_is_better)
        from (
            select rq_key, rq_higher_is_better, {rises("rq_balance")} as rises from lines_{asked.contract}
        )
        where rises is not null and rq_higher_is_better is not null
        """
    ).fetchall()
    return share_of(*rows[0])


def mixed_direction_share(asked: Asked) -> Measure:
    rows = asked.connection.execute(f"{_new_directions(asked.contract)} from directions").fetchall()
    if not rows:
        return Measure(None, note=f"fewer than {MIN_LISTS} lists with scores")
    worst = sorted(rows, key=lambda row: (-min(row[2], row[3]) / (row[2] + row[3]), row[0], row[1]))
    n_against = sum(min(n_rising, n_falling) for _, _, n_rising, n_falling in rows)
    return Measure(
        min(worst[0][2:]) / sum(worst[0][2:]),
        n_rows=sum(n_rising + n_falling for _, _, n_rising, n_falling in rows),
        n_failed=n_against,
        examples=tuple(
            f"{_named(version, score_type)}: {n_falling} lists fall, {n_rising} rise"
            for version, score_type, n_rising, n_falling in worst[:MAX_EXAMPLES]
            if min(n_rising, n_falling)
        ),
    )


def direction_flips(asked: Asked) -> Measure:
    """Against the last staged days: of the same index_version, else of the same score_type. Of more than
    `DIRECTION_SAMPLE` staged lists about so many are looked at, chosen by the hash of their trace_id.
    """
    recent = f"traced_on > (select max(traced_on) from staged_traces) - {DIRECTION_HISTORY_DAYS}"
    (n_lists,) = asked.connection.execute(f"select count(*) from staged_traces where {recent}").fetchall()[0]
    rows = asked.connection.execute(
        f"""
        {_new_directions(asked.contract)},

        sampled as materialized (
            select index_version, score_type, retrieved from staged_traces
            where {recent} and hash(trace_id) % {max(1, n_lists // DIRECTION_SAMPLE)} = 0
        ),

        staged as (
            select coalesce(index_version, '') as index_version, coalesce(score_type, '') as score_type,
                {rises(balance_of("retrieved"))} as rises
            from sampled
        ),

        history as (
            select index_version, score_type, count(*) filter (rises) as n_rising,
                count(*) filter (not rises) as n_falling
            from staged where rises is not null
            group by grouping sets ((index_version, score_type), (score_type))
            having count(*) >= {MIN_LISTS}
        )

        select directions.index_version, directions.score_type, directions.n_rising > directions.n_falling as rises
        from directions
        left join history as same
            on directions.score_type = same.score_type and directions.index_version = same.index_version
        left join history as alike
            on directions.score_type = alike.score_type and alike.index_version is null
        where rises <> coalesce(same.n_rising > same.n_falling, alike.n_rising > alike.n_falling)
        order by all
        """
    ).fetchall()
    return Measure(
        float(len(rows)),
        examples=tuple(
            f"{_named(version, score_type)}: now {'rises' if is_rising else 'falls'} with the rank"
            for version, score_type, is_rising in rows[:MAX_EXAMPLES]
        ),
    )


def _new_directions(contract: str) -> str:
    """The CTE `directions`: index_version, score_type, n_rising, n_falling of groups that are large enough."""
    return f"""
        with lines as (
            select coalesce(rq_index_version, '') as index_version, coalesce(rq_score_type, '') as score_type,
                {rises("rq_balance")} as rises
            from lines_{contract}
        ),

        directions as (
            select index_version, score_type, count(*) filter (rises) as n_rising,
                count(*) filter (not rises) as n_falling
            from lines where rises is not null
            group by index_version, score_type
            having count(*) >= {MIN_LISTS}
        )
    """


def _named(index_version: str, score_type: str) -> str:
    return f"index_version {index_version or 'NULL'}, score_type {score_type or 'NULL'}"
