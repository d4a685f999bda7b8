"""Each kind of expectation meets data that do and data that do not, with the number worked by hand."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from support import PROJECT
from unit.expectation_cases import NOW, Place, expected, naive, ranked, trace, traces

from retrieval_quality.expectations import CheckRow
from retrieval_quality.expectations.columns import present, utc
from retrieval_quality.expectations.directions import balance_of
from retrieval_quality.expectations.lines import _TRACE_KEY


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def found(row: CheckRow) -> tuple[str, float | None, int | None]:
    return row.outcome, None if row.observed is None else round(row.observed, 6), row.n_failed


def at(day: int, hour: float = 12) -> datetime:
    """A moment so many days before the day of NOW, 2026-03-31, a Tuesday."""
    return NOW.replace(hour=0) - timedelta(days=day) + timedelta(hours=hour)


# --- single lines ----------------------------------------------------------------------------


def test_not_null(place: Place) -> None:
    place.expect(expected("not_null", column="session_id", mostly=0.9))
    place.land("retrieval_traces", [*traces(9), trace(9, session_id=" ")])
    row = place.only()
    assert found(row) == ("passed", 0.9, 1)
    assert (row.minimum, row.maximum, row.n_rows, row.n_sampled) == (0.9, 1.0, 10, 10)

    place.land("retrieval_traces", [*traces(8), trace(8, session_id=None), trace(9, session_id="")])
    row = place.only()
    assert found(row) == ("failed", 0.8, 2)
    assert row.examples == ("t8", "t9")
    assert row.message == "it is off: 80% are fine, 2 of 10 are not, expected 90% or more; t8; t9"


def test_between(place: Place) -> None:
    place.expect(expected("between", column="top_k", minimum=1, maximum=100, mostly=0.5))
    place.land("retrieval_traces", [trace(0, top_k=1), trace(1, top_k="100"), trace(2, top_k=0), trace(3, top_k=101)])
    assert found(place.only()) == ("passed", 0.5, 2)

    # what has no top_k is not asked about: 2 of the 3 that have one
    place.land("retrieval_traces", [trace(0, top_k=1), trace(1), trace(2, top_k=0), trace(3, top_k=-5)])
    row = place.only()
    assert found(row) == ("failed", round(1 / 3, 6), 2)
    assert row.examples == ("t2: 0", "t3: -5")


def test_between_of_nothing_passes_and_says_so(place: Place) -> None:
    place.expect(expected("between", column="top_k", minimum=1))
    place.land("retrieval_traces", traces(3))
    row = place.only()
    assert found(row) == ("passed", None, 0)
    assert row.message == "no line has it, expected 100% or more"


def test_in_set(place: Place) -> None:
    place.expect(expected("in_set", "eval_runs", column="kind", allowed="scheduled|adhoc", mostly=0.6))
    run = {"eval_run_id": "e", "started_at": 1, "query_set": "gold"}
    place.land("eval_runs", [run | {"kind": "scheduled"}, run | {"kind": "adhoc"}, run | {"kind": "Adhoc"}, run])
    assert found(place.only()) == ("passed", round(2 / 3, 6), 1)
    place.land("eval_runs", [run | {"kind": "scheduled"}, run | {"kind": "nightly"}])
    assert found(place.only()) == ("failed", 0.5, 1)


def test_clocks(place: Place) -> None:
    """2026-03-31 02:00 is now; an hour of grace against it, a minute against the delivery."""
    place.expect(
        expected("between", name="delivery", column="seconds_after_delivery", maximum=60),
        expected("between", name="now", column="seconds_ahead_of_now", maximum=3600),
    )
    good = [
        trace(0, ts="2026-03-31T03:00:00Z"),
        trace(1, ts="2026-03-30T12:01:00Z", ingested_at="2026-03-30T12:00:00Z"),
    ]
    place.land("retrieval_traces", good)
    assert [found(row) for row in place.check().rows] == [("passed", 1.0, 0), ("passed", 1.0, 0)]

    ahead = trace(2, ts="2026-03-31T03:00:01Z", ingested_at="2026-03-31T03:00:01Z")
    early = trace(3, ts="2026-03-30T12:01:01Z", ingested_at="2026-03-30T12:00:00Z")
    place.land("retrieval_traces", [*good, ahead, early])
    delivery, now = place.check().rows
    assert (found(delivery), delivery.examples) == (("failed", round(2 / 3, 6), 1), ("t3: 61.0",))
    assert (found(now), now.examples) == (("failed", 0.75, 1), ("t2: 3601.0",))
    # with as_of in the past, lines between it and the clock are not ahead of anything
    assert place.check(variables="{as_of: '2026-03-01'}").rows[1].observed == 0.75


# --- keys and types --------------------------------------------------------------------------


def test_known_key_share_is_that_of_the_worst_file_that_is_large_enough(place: Place) -> None:
    place.expect(expected("known_key_share", minimum=0.5, min_lines=2))
    place.land("retrieval_traces", traces(4), "good.jsonl")
    place.land("retrieval_traces", b'{"other": 1}\n', "one line.jsonl")
    place.land(
        "retrieval_traces", b'{"other": 1}\nnot json\n[1]\n{"ts": 1}\n\n{"query": "q"}\n{"ts": 2}\n', "half.jsonl"
    )
    row = place.only()
    assert found(row) == ("passed", 0.5, 3)

    place.land("retrieval_traces", b'{"other": 1}\nnot json\n{"ts": 1}\n', "third.jsonl")
    row = place.only()
    assert found(row) == ("failed", round(1 / 3, 6), 5)
    assert row.examples == ("retrieval_traces/third.jsonl: 1 of 3 lines",)
    assert row.n_rows == 4 + 1 + 6 + 3


def test_unknown_keys(place: Place) -> None:
    place.expect(expected("unknown_keys", maximum=0, allowed="simulated"))
    place.land("retrieval_traces", traces(3, simulated=True))
    assert found(place.only()) == ("passed", 0.0, 0)

    place.land("retrieval_traces", [trace(0, sesion_id="x"), trace(1, sesion_id="y", tenant=None), trace(2)])
    row = place.only()
    assert found(row) == ("failed", 2.0, 2)
    assert row.examples == ("sesion_id, meant 'session_id'? (2 lines)", "tenant (1 lines)")


def test_misfit_share_is_that_of_the_worst_column(place: Place) -> None:
    place.expect(expected("misfit_share", maximum=0.25))
    values = {"top_k": "10", "retrieval_latency_ms": 3, "filter_empty": "true", "sample_rate": "0.5"}
    lines = [*traces(3, **values), trace(3, **values, rerank_latency_ms=None) | {"top_k": "ten"}]
    place.land("retrieval_traces", lines)
    row = place.only()
    # one top_k of four; NULL is no misfit
    assert found(row) == ("passed", 0.25, 1)
    assert row.examples == ("top_k: 1 of 4 (VARCHAR)",)

    place.land("retrieval_traces", [*lines, trace(4, retrieved="c1, c2", ts="yesterday"), trace(5, sample_rate="all")])
    row = place.only()
    # sample_rate has 4 + 1 values; top_k still 1 of 4; ts and retrieved 1 of 6
    assert found(row) == ("passed", 0.25, 4)
    place.expect(expected("misfit_share", column="ts", maximum=0.1))
    row = place.only()
    assert (found(row), row.examples) == (("failed", round(1 / 6, 6), 1), ("ts: 1 of 6 (VARCHAR)",))


# --- how fresh, how many ---------------------------------------------------------------------


def test_hours_since_newest(place: Place) -> None:
    place.expect(expected("hours_since_newest", maximum=26))
    place.stage([("t1", NOW - timedelta(hours=30))])
    place.land("retrieval_traces", [trace(0, ts=(NOW - timedelta(hours=26)).isoformat())])
    assert found(place.only()) == ("passed", 26.0, None)
    assert found(place.only(now=NOW + timedelta(minutes=30))) == ("failed", 26.5, None)
    # at as_of the one that landed was not there yet: the staged one was two hours old
    assert found(place.only(variables="{as_of: '2026-03-29T22:00:00Z'}")) == ("passed", 2.0, None)


def test_freshness_is_that_of_production_and_not_of_clocks_that_are_ahead(place: Place) -> None:
    place.expect(expected("hours_since_newest", maximum=26))
    evaluation = trace(0, eval_run_id="e1", ts=(NOW - timedelta(hours=1)).isoformat())
    ahead = trace(1, ts=(NOW + timedelta(days=400)).isoformat())
    place.land("retrieval_traces", [evaluation, ahead, trace(2, ts=(NOW - timedelta(hours=48)).isoformat())])
    assert found(place.only()) == ("failed", 48.0, None)
    place.land("retrieval_traces", [evaluation, ahead])  # where there is no production at all
    assert found(place.only()) == ("passed", 1.0, None)


def test_no_trace_at_all_is_not_fresh(place: Place) -> None:
    place.expect(expected("hours_since_newest", maximum=26))
    row = place.only()
    assert found(row) == ("failed", None, None)
    assert row.message == "it is off: nothing has landed yet, expected 26 or less"
    assert (row.n_rows, row.n_sampled) == (0, 0)


def staged_days(n_by_day: dict[int, int]) -> list[tuple[str, datetime]]:
    return [(f"old-{day}-{number}", at(day, 1)) for day, n in n_by_day.items() for number in range(n)]


def new_day(day: int, n: int) -> list[dict[str, object]]:
    return [trace(number, ts=at(day).isoformat()) for number in range(n)]


def test_volume_against_the_median_of_the_days_before(place: Place) -> None:
    place.expect(expected("volume_ratio", minimum=0.5, maximum=2))
    # seven days of 20 to 80: their median is 40; and 10 more of yesterday are staged already
    place.stage(staged_days({2: 80, 3: 40, 4: 20, 5: 40, 6: 30, 7: 60, 8: 40, 1: 10}))
    place.land("retrieval_traces", new_day(1, 10))
    assert found(place.only()) == ("passed", 0.5, None)
    place.land("retrieval_traces", new_day(1, 9))
    row = place.only()
    assert found(row) == ("failed", round(19 / 40, 6), None)
    assert row.examples == ("2026-03-30: 19 lines, usually 40",)
    place.land("retrieval_traces", new_day(1, 71))
    assert found(place.only()) == ("failed", round(81 / 40, 6), None)


def test_volume_of_a_day_that_is_not_over_is_not_judged(place: Place) -> None:
    place.expect(expected("volume_ratio", minimum=0.5, maximum=2))
    place.stage(staged_days(dict.fromkeys(range(1, 9), 40)))
    place.land("retrieval_traces", new_day(0, 2))
    assert found(place.only()) == ("passed", None, None)
    assert found(place.only(now=at(-1, 0))) == ("failed", 0.05, None)


def test_volume_needs_history(place: Place) -> None:
    place.expect(expected("volume_ratio", minimum=0.5, maximum=2))
    place.stage(staged_days(dict.fromkeys(range(2, 8), 40)))  # six days
    place.land("retrieval_traces", new_day(1, 1))
    row = place.only()
    assert (row.outcome, row.observed) == ("passed", None)
    assert row.message.startswith("not enough history: 7 days of 20 lines and more are needed")


def test_volume_of_a_weekend_is_compared_with_weekends(place: Place) -> None:
    """NOW is a Tuesday: two days before is a Sunday, as are 9, 16 and 23."""
    place.expect(expected("volume_ratio", minimum=0.5, maximum=2))
    sundays = {9: 20, 16: 24, 23: 20}
    place.stage(staged_days({day: sundays.get(day, 100) for day in range(3, 25)}))
    place.land("retrieval_traces", new_day(2, 20))
    assert found(place.only()) == ("passed", 1.0, None)
    place.land("retrieval_traces", new_day(1, 20))  # a Monday
    assert found(place.only()) == ("failed", 0.2, None)


def test_evaluation_is_no_volume(place: Place) -> None:
    place.expect(expected("volume_ratio", minimum=0.5, maximum=2))
    place.stage(staged_days(dict.fromkeys(range(2, 9), 20)))
    place.land("retrieval_traces", [*new_day(1, 20), *traces(100, eval_run_id="e1")])
    assert found(place.only()) == ("passed", 1.0, None)


# --- what lines have to do with others -------------------------------------------------------


def test_repeated_share(place: Place) -> None:
    place.expect(expected("repeated_share", maximum=0.25))
    place.land("retrieval_traces", [*traces(3), trace(0)])
    assert found(place.only()) == ("passed", 0.25, 1)

    # t1 is staged from another file: its first line is a repeat too
    place.stage([("t1", NOW), ("t77", NOW)])
    row = place.only()
    assert found(row) == ("failed", 0.5, 2)
    assert row.examples == ("t0", "t1")


def test_a_file_that_grew_does_not_repeat_itself(place: Place) -> None:
    place.expect(expected("repeated_share", maximum=0))
    place.stage([("t0", NOW), ("t1", NOW)], path="retrieval_traces/part-0.jsonl")
    place.land("retrieval_traces", traces(3))
    assert found(place.only()) == ("passed", 0.0, 0)


def test_lines_without_an_id_repeat_by_what_they_say_and_unreadable_ones_not_at_all(place: Place) -> None:
    place.expect(expected("repeated_share", maximum=0.2), expected("repeated_share", "feedback", name="f", maximum=0.2))
    nameless = {"ts": 1_774_000_000, "query": "q"}
    place.land("retrieval_traces", [nameless, nameless | {"query": "r"}, nameless])
    place.land("feedback", b'no\nno\n{"session_id": "s", "ts": 1774000000, "rating": 1}\n')
    one, other = place.check().rows
    assert found(one) == ("failed", round(1 / 3, 6), 1)
    assert (found(other), other.n_rows) == (("passed", 0.0, 0), 3)


def test_without_trace_share(place: Place) -> None:
    place.expect(expected("without_trace_share", "feedback", maximum=0.25))
    place.stage([("old", NOW)])  # of session s-old
    place.land("retrieval_traces", [trace(0), {"ts": 1_774_000_000, "trace_id": "alone"}])
    votes = [{"trace_id": "t0"}, {"session_id": "s-old"}, {"trace_id": "nobody", "session_id": "s0"}, {"trace_id": "x"}]
    place.land("feedback", [vote | {"ts": 1_774_000_000, "rating": 1} for vote in votes])
    row = place.only()
    assert (found(row), row.examples) == (("passed", 0.25, 1), ("x",))

    # a trace without session is a session of its own; a line that names nothing is not asked about
    more = [{"session_id": "alone"}, {"session_id": "y"}, {"rating": 1}]
    place.land("feedback", [vote | {"ts": 1_774_000_000, "rating": 1} for vote in [*votes, *more]])
    row = place.only()
    assert (found(row), row.examples) == (("failed", round(2 / 6, 6), 2), ("x", "y"))


# --- ranked lists ----------------------------------------------------------------------------


def test_rank_base(place: Place) -> None:
    place.expect(
        expected("other_rank_base_share", maximum=0.2),
        expected("between", name="first", column="first_rank", minimum=0, maximum=1),
    )
    unranked = trace(90, retrieved=[{"chunk_id": "a"}])
    from_zero = trace(91, retrieved=ranked(2, 1, first=0))
    place.land("retrieval_traces", [*traces(4), from_zero, unranked, trace(92, retrieved=[])])
    mix, first = place.check().rows
    assert (found(mix), mix.n_rows) == (("passed", 0.2, 1), 7)
    assert found(first) == ("passed", 1.0, 0)

    place.land("retrieval_traces", [*traces(2), from_zero, trace(93, retrieved=ranked(2, 1, first=5))])
    mix, first = place.check().rows
    assert found(mix) == ("failed", 0.5, 2)
    assert mix.examples == ("from rank 1: 2 lists", "from rank 0: 1 lists", "from rank 5: 1 lists")
    assert (found(first), first.examples) == (("failed", 0.75, 1), ("t93: 5.0",))


UP, DOWN = ranked(1, 2, 3), ranked(3, 2, 1)


@pytest.mark.parametrize(
    ("items", "balance"),
    [
        (DOWN, -1.0),
        (UP, 1.0),
        (list(reversed(UP)), 1.0),  # ranks decide, not places
        ([{"score": 1.0}, {"score": 2.0}], 1.0),
        (ranked(4, 3, 3, 1), -1.0),  # equal neighbours are no step
        (ranked(4, 3, 2, 3), -1 / 3),
        (ranked(1), None),
        (ranked(1, 1), None),
        ([], None),
        (None, None),
    ],
)
def test_the_direction_of_a_list(items: list[dict[str, object]] | None, balance: float | None) -> None:
    listed = "select ?::struct(chunk_id varchar, score double, rank double)[] as items"
    whole = None if items is None else [{"chunk_id": None, "score": None, "rank": None} | item for item in items]
    assert duckdb.execute(f"select {balance_of('items')} from ({listed})", [whole]).fetchall() == [(balance,)]


def test_scores_against_what_is_declared(place: Place) -> None:
    place.expect(expected("against_declared_share", maximum=0.2))
    distances = traces(4, retrieved=UP, higher_is_better=False)
    unclear = trace(5, retrieved=ranked(3, 1, 2), higher_is_better=False)
    undeclared = trace(6, retrieved=DOWN)
    place.land("retrieval_traces", [*distances, trace(4, higher_is_better=False), unclear, undeclared])
    row = place.only()
    assert (found(row), row.examples) == (("passed", 0.2, 1), ("t4",))
    place.land("retrieval_traces", traces(1, higher_is_better=True) + traces(1, retrieved=UP, higher_is_better=True))
    assert found(place.only()) == ("failed", 0.5, 1)


def test_mixed_directions(place: Place) -> None:
    place.expect(expected("mixed_direction_share", maximum=0.05))
    distances = traces(20, retrieved=UP, index_version="v2", score_type="l2")  # all alike, if the other way round
    place.land("retrieval_traces", [*traces(19), trace(19, retrieved=UP), *distances])
    assert found(place.only()) == ("passed", 0.05, 1)
    place.land("retrieval_traces", [*traces(18), trace(18, retrieved=UP), trace(19, retrieved=UP), *distances])
    row = place.only()
    assert found(row) == ("failed", 0.1, 2)
    assert row.examples == ("index_version v1, score_type NULL: 18 lists fall, 2 rise",)
    place.land("retrieval_traces", [*traces(10), *traces(9, retrieved=UP)])  # too few to tell
    assert place.only().message.startswith("fewer than 20 lists with scores")


@pytest.mark.parametrize("index_version", ["v1", "v9"], ids=["same index", "another index"])
def test_direction_flips_against_what_is_staged(place: Place, index_version: str) -> None:
    place.expect(expected("direction_flips", maximum=0))
    place.stage(
        [(f"old{number}", at(2)) for number in range(20)],
        retrieved="[{'rank': 1, 'chunk_id': 'a', 'score': 0.9}, {'rank': 2, 'chunk_id': 'b', 'score': 0.8}]",
    )
    place.land("retrieval_traces", traces(20, index_version=index_version))
    assert found(place.only()) == ("passed", 0.0, None)
    place.land("retrieval_traces", traces(20, index_version=index_version, retrieved=UP))
    row = place.only()
    assert found(row) == ("failed", 1.0, None)
    assert row.examples == (f"index_version {index_version}, score_type NULL: now rises with the rank",)
    # another kind of score is another matter
    place.land("retrieval_traces", traces(20, index_version=index_version, retrieved=UP, score_type="l2"))
    assert found(place.only()) == ("passed", 0.0, None)


# --- files -----------------------------------------------------------------------------------


def test_parquet_and_compressed_files_count_as_lines_do(place: Place) -> None:
    place.expect(
        expected("not_null", column="session_id"),
        expected("unknown_keys", maximum=0),
        expected("known_key_share", minimum=1),
        expected("misfit_share", maximum=0),
        expected("between", column="first_rank", minimum=0, maximum=0, mostly=0.5),
    )
    packed = place.land("retrieval_traces", b"", "a.jsonl.gz")
    packed.write_bytes(gzip.compress(b'{"ts": 1, "session_id": 7, "retrieved": [{"rank": 0}, {"rank": 1}]}\n'))
    for number, session in enumerate(("7::bigint", "null::double")):
        duckdb.execute(
            f"copy (select timestamp '2026-03-30 12:00:00' as ts, {session} as session_id, 'x' as tenant, "
            f"[{{'chunk_id': 1, 'rank': 1}}] as retrieved) to '{packed.parent}/{number}.parquet'"
        )
    session, unknown, known, misfit, first = place.check().rows
    assert (found(session), session.n_rows) == (("failed", round(2 / 3, 6), 1), 3)
    assert (found(unknown), unknown.examples) == (("failed", 1.0, 2), ("tenant (2 lines)",))
    assert found(known) == ("passed", 1.0, 0)
    assert found(misfit) == ("passed", 0.0, 0)
    assert found(first) == ("failed", round(1 / 3, 6), 2)


# --- as staging reads ------------------------------------------------------------------------


def test_ids_times_and_keys_are_read_as_staging_reads_them() -> None:
    """The macros of staging, rendered, and the expressions here agree on everything a producer may send."""
    import jinja2

    folder = PROJECT / "macros" / "landing"
    names = ("utc_timestamp", "present", "contract_retrieval_traces")
    template = jinja2.Template("".join((folder / f"{name}.sql").read_text() for name in names))
    macros = template.module
    values = [
        "2026-11-30T13:00:00+01:00", "2026-11-30 12:00:00", "2026-11-30", "1796040000", "1796040000123",
        "1796040000123456", "1796040000123456789", "1796040000.25", "1.79604e9", " 2026-11-30", "1969-12-31",
        "2200-01-01", "-1", "0", "99999999999", "", " ", "yesterday", "2026-13-01", "nan", "\t", "é", "!", None,
    ]  # fmt: skip
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        connection.execute("create table landed as select unnest(?) as ts", [values])
        connection.execute(
            "alter table landed add column trace_id varchar; alter table landed add column query varchar"
        )
        connection.execute("alter table landed add column session_id varchar; update landed set session_id = ts")
        for ours, theirs in ((utc("ts"), macros.utc_timestamp("ts")), (present("ts"), macros.present("ts"))):
            differing = f"select ts from landed where ({ours}) is distinct from ({theirs})"
            assert connection.execute(differing).fetchall() == []
        # where staging makes the key, ts is traced_at already
        staged = f"(select *, {utc('ts')} as traced_at from landed where ts is not null)"
        keys = f"select ts from {staged} where ({_TRACE_KEY}) is distinct from ({macros.trace_key()})"
        assert connection.execute(keys).fetchall() == []
        assert connection.execute(f"select {utc('ts')} from landed limit 1").fetchall() == [
            (naive(datetime(2026, 11, 30, 12, tzinfo=UTC)),)
        ]
