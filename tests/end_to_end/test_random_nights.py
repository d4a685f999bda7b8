"""Whatever happens to a warehouse, it ends in the tables of one full refresh of all that landed.

Hypothesis looks for a history that ends elsewhere. It prints such a one as calls: pasted into a test, they replay it.
"""

from __future__ import annotations

import json
import math
import os
import random
import sys
import tempfile
from collections.abc import Collection, Mapping
from itertools import chain
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from dbt.cli.main import dbtRunner
from end_to_end.random_events import BAD_LINES, CORRECTABLE, Line, events, land
from end_to_end.test_nights import contents, differing, trace
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from support import PROJECT, Warehouse

from retrieval_quality.build import release_database
from retrieval_quality.purge import purge

AS_OF = st.sampled_from(["", "2026-03-04T00:00:00Z"])
SHARE = st.sampled_from([0.05, 0.2, 0.5])
FILE = st.sampled_from(["grows.jsonl", "grows.jsonl.gz", "{}.jsonl", "dt=2026-03-01/{}.jsonl.gz"])
MEASURED = ("mart_", "dim_", "int_score_", "int_window_")
# an equality of nothing with nothing would show nothing; no purge empties these
FILLED = ("stg_retrieval_traces", "int_score_histograms", "int_score_denominators", "mart_retrieval_quality")


def build_tables(
    warehouse: Warehouse,
    as_of: str,
    *,
    variables: Mapping[str, object] | None = None,
    project: Path = PROJECT,
    full_refresh: bool = False,
) -> None:
    """The tables without the tests."""
    text = json.dumps({"as_of": as_of} | dict(variables or {}))
    shared = warehouse.parsed_once(text) if project == PROJECT else {}
    arguments = [
        *("--quiet", "--no-print", "--log-level", "none", "--log-level-file", "none"),
        *("--log-path", str(warehouse.root / "logs"), "build"),
        *("--project-dir", str(project), "--profiles-dir", str(PROJECT / "profiles")),
        *("--vars", text),
        *("--exclude", "resource_type:test", "resource_type:unit_test"),
        *(["--full-refresh"] if full_refresh else []),
    ]
    with mock.patch.dict(os.environ, warehouse.environment | shared):
        try:
            outcome = dbtRunner().invoke(arguments)
        finally:
            release_database()
    assert outcome.success, outcome.exception or [(node.node.name, node.message) for node in outcome.result or ()]


# where all lines of a file came too late, a file that grew is read under its newest registration alone
NEWEST = "file_id in (select max(file_id) from stg_landing_files group by path)"


def unaccounted(warehouse: Warehouse, *, files: str = "true") -> list[tuple[object, ...]]:
    return warehouse.query(
        "select * exclude (unknown_keys) from stg_landing_accounting "
        "where n_lines <> n_staged + n_duplicates + n_superseded + n_quarantined + n_purged + n_too_late "
        f"and {files}"
    )


class History(RuleBasedStateMachine):
    """One set of events, delivered in parts over 1 to 8 nights."""

    def __init__(self, most_nights: int = 8) -> None:
        super().__init__()
        self.place = tempfile.TemporaryDirectory()
        self.warehouse = Warehouse(Path(self.place.name, "nights"))
        self.most_nights = most_nights
        self.n_nights = self.n_files = 0
        self.has_news = self.is_refreshed = False
        self.landed: list[list[Line]] = [[]]  # up to the first purge, from there to the second, ...

    # Rows come from a seed, because hypothesis gives up on examples of thousands of values. Not from 0: it begins
    # with the least of everything, which is not worth its nights.
    @initialize(
        seed=st.integers(0, 2**32).filter(bool),
        last_as_of=AS_OF,
        corrected=st.sets(st.sampled_from(CORRECTABLE), min_size=8),
        emptied_day=st.none() | st.integers(0, 5),
        future_day=st.none() | st.integers(20, 60),
        bad_lines=st.lists(st.sampled_from(BAD_LINES), max_size=5),
    )
    def begins(self, seed: int, last_as_of: str, **kinds: Any) -> None:
        self.rng = random.Random(seed)
        self.last_as_of = last_as_of
        self.delayed = events(seed, **kinds)

    @rule(share=SHARE, file=FILE)
    def lines_land(self, share: float, file: str) -> None:
        self.deliver(math.ceil(share * len(self.delayed)), file)

    @precondition(lambda self: any(self.landed))
    @rule(share=SHARE, file=FILE)
    def lines_land_again(self, share: float, file: str) -> None:
        landed = [*chain(*self.landed)]
        self.land(self.rng.choices(landed, k=math.ceil(share * len(landed))), file)

    @precondition(lambda self: self.has_news and self.n_nights < self.most_nights - 1)
    @rule(as_of=AS_OF)
    def night(self, as_of: str) -> None:
        self.build(as_of)

    # one is enough: it makes good whatever was wrong before
    @precondition(lambda self: 0 < self.n_nights < self.most_nights - 1 and not self.is_refreshed)
    @rule(as_of=AS_OF)
    def full_refresh(self, as_of: str) -> None:
        self.build(as_of, full_refresh=True)

    # not before the greater part has landed: what comes later for purged days is in no table
    @precondition(lambda self: sum(map(len, self.landed)) > len(self.delayed) and len(self.landed) < 3)
    @precondition(lambda self: self.n_nights < self.most_nights - 2)
    @rule(first_kept_day=st.integers(1, 5), is_refreshed=st.booleans())
    def old_days_are_purged(self, first_kept_day: int, is_refreshed: bool) -> None:
        """90 days later, after a night as the command does it. No number changes, not in a full refresh either."""
        newest = ("retrieval_traces", json.dumps(trace(900 + first_kept_day, first_kept_day + 90)))
        self.land([newest], "newest.jsonl")
        self.landed[-1].append(newest)
        self.build("")
        before = contents(self.warehouse)
        purge(self.warehouse.path, retention_days=90)
        self.landed.append([])
        if is_refreshed:
            self.build("", full_refresh=True)
            changed = differing(contents(self.warehouse), before)
            assert [table for table in changed if table.startswith(MEASURED)] == []

    def teardown(self) -> None:
        with self.place:
            # a step that failed, or that hypothesis gave up, has no end to compare
            if not any(sys.exc_info()):
                self.ends_as_if_all_had_landed_at_once()

    def ends_as_if_all_had_landed_at_once(self) -> None:
        """A purge is repeated after the lines that it followed: what comes for purged days later comes too late."""
        self.deliver(len(self.delayed), "last.jsonl")
        self.build(self.last_as_of)
        at_once = Warehouse(Path(self.place.name, "at_once"))
        *purged, rest = self.landed
        for n, lines in enumerate(purged):
            land(at_once, lines, f"{n}.jsonl")
            build_tables(at_once, "")
            purge(at_once.path, retention_days=90)
        land(at_once, rest)
        build_tables(at_once, self.last_as_of, full_refresh=True)
        assert unaccounted(at_once) == []

        expected = contents(at_once)
        assert [table for table in FILLED if not expected[table]] == []
        assert differing(contents(self.warehouse), expected) == []

    def deliver(self, n_lines: int, file: str) -> None:
        now, self.delayed = self.delayed[:n_lines], self.delayed[n_lines:]
        self.land(now, file)
        self.landed[-1] += now

    def land(self, lines: Collection[Line], file: str) -> None:
        self.n_files += 1
        land(self.warehouse, lines, file.format(self.n_files))
        self.has_news = True

    def build(self, as_of: str, *, full_refresh: bool = False) -> None:
        build_tables(self.warehouse, as_of, full_refresh=full_refresh)
        assert unaccounted(self.warehouse, files=NEWEST if len(self.landed) > 1 else "true") == []
        self.n_nights += 1
        self.has_news = False
        self.is_refreshed |= full_refresh


def test_two_nights_end_where_one_night_ends() -> None:
    history = History()
    history.begins(seed=1, last_as_of="", emptied_day=2, future_day=40)
    history.lines_land(share=0.5, file="grows.jsonl.gz")
    history.night(as_of="2026-03-04T00:00:00Z")
    history.lines_land_again(share=0.2, file="grows.jsonl.gz")
    history.lines_land(share=0.5, file="{}.jsonl")
    history.teardown()


def test_nights_before_and_after_a_purge_end_where_one_night_ends() -> None:
    history = History()
    history.begins(seed=2, last_as_of="", emptied_day=4)
    history.lines_land(share=0.8, file="{}.jsonl")
    history.old_days_are_purged(first_kept_day=2, is_refreshed=False)
    history.lines_land_again(share=0.2, file="dt=2026-03-01/{}.jsonl.gz")
    history.teardown()


# new ones in every run, also where hypothesis sees that it is CI
NEW = settings(deadline=None, database=None, derandomize=False)


def test_a_new_history_ends_where_one_night_ends() -> None:
    """Printed as it was found: to shrink it would take a minute for every attempt."""
    one = settings(NEW, max_examples=1, stateful_step_count=8, phases=[Phase.generate])
    run_state_machine_as_test(lambda: History(most_nights=3), settings=one)


@pytest.mark.slow
@pytest.mark.parametrize("most_nights", range(1, 9))
def test_new_histories_end_where_one_night_ends(most_nights: int) -> None:
    five = settings(NEW, max_examples=5, stateful_step_count=3 * most_nights, phases=[Phase.generate, Phase.shrink])
    run_state_machine_as_test(lambda: History(most_nights), settings=five)
