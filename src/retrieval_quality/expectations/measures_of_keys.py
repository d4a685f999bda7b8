"""Whether lines are of the contract at all: their keys, and the types of what stands under them."""

from __future__ import annotations

import difflib

from retrieval_quality.expectations.columns import fitting_columns
from retrieval_quality.expectations.measuring import MAX_EXAMPLES, Asked, Measure, sql_list


def unknown_keys(asked: Asked) -> Measure:
    known = _known_keys(asked.contract)
    allowed = sql_list((*known, *asked.expectation.allowed_values))
    rows = asked.connection.execute(
        f"""
        select key, sum(n_lines)::bigint as n_lines
        from (select unnest(keys) as key, n_lines from keys_{asked.contract})
        where key not in (select unnest({allowed}))
        group by key order by n_lines desc, key
        """
    ).fetchall()
    n_rows, n_failed = asked.connection.execute(f"""
        select
            coalesce(sum(n_lines), 0)::bigint,
            coalesce(
                sum(n_lines) filter (len(list_filter(keys, lambda key: not list_contains({allowed}, key))) > 0), 0
            )::bigint
        from keys_{asked.contract}
        """).fetchall()[0]
    return Measure(
        float(len(rows)),
        n_rows=n_rows,
        n_failed=n_failed,
        examples=tuple(f"{key}{_did_you_mean(key, known)} ({n} lines)" for key, n in rows[:MAX_EXAMPLES]),
    )


def known_key_share(asked: Asked) -> Measure:
    """Of files with `min_lines` lines and more."""
    known = sql_list(_known_keys(asked.contract))
    rows = asked.connection.execute(
        f"""
        select
            path,
            sum(n_lines)::bigint as n_lines,
            coalesce(sum(n_lines) filter (len(list_intersect(keys, {known})) > 0), 0)::bigint as n_known
        from keys_{asked.contract}
        where path in (
            select rq_path from landed_{asked.contract}
            group by rq_path having count(*) >= {asked.expectation.min_lines}
        )
        group by path
        order by n_known / sum(n_lines), path
        """
    ).fetchall()
    if not rows:
        return Measure(None, note="no file has that many lines")
    least = 0.0 if asked.expectation.minimum is None else asked.expectation.minimum
    return Measure(
        rows[0][2] / rows[0][1],
        n_rows=sum(n for _, n, _ in rows),
        n_failed=sum(n - n_known for _, n, n_known in rows),
        examples=tuple(
            f"{path}: {n_known} of {n} lines" for path, n, n_known in rows[:MAX_EXAMPLES] if n_known / n < least
        ),
    )


def misfit_share(asked: Asked) -> Measure:
    """Parquet files have types of their own and are left out."""
    places = {name: place for place, name in enumerate(fitting_columns(asked.contract), start=1)}
    counted = {
        name: column
        for name, column in fitting_columns(asked.contract).items()
        if asked.expectation.column_name in (None, name)
    }
    found = []
    for name, column in counted.items():
        types = f"types[{places[name]}]"
        read = (
            f"(select count({column}) from lines_{asked.contract} where rq_is_json)"
            if column is not None
            else f"coalesce(sum(n_lines) filter ({types} = 'ARRAY'), 0)"
        )
        n_present, n_read, json_types = asked.connection.execute(f"""
            select
                coalesce(sum(n_lines), 0)::bigint,
                ({read})::bigint,
                array_to_string(list_sort(list_distinct(list({types}))), ', ')
            from keys_{asked.contract}
            where is_sampled and {types} is not null and {types} <> 'NULL'
            """).fetchall()[0]
        if n_present:
            found.append((n_present - n_read, n_present, name, json_types))
    worst = sorted(found, key=lambda item: (-item[0] / item[1], item[2]))
    return Measure(
        worst[0][0] / worst[0][1] if worst else 0.0,
        n_rows=max((n for _, n, _, _ in found), default=0),
        n_failed=sum(n for n, _, _, _ in found),
        examples=tuple(
            f"{name}: {n_misfits} of {n} ({json_types})"
            for n_misfits, n, name, json_types in worst[:MAX_EXAMPLES]
            if n_misfits
        ),
    )


def _known_keys(contract: str) -> tuple[str, ...]:
    from retrieval_quality.contracts import reading_types

    return tuple(reading_types(contract))


def _did_you_mean(key: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.8)
    return f", meant '{close[0]}'?" if close else ""
