"""`kill -9` at any moment of a night: a plain re-run ends where an undisturbed night ends, and nobody saw a half."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from alerting import Webhook, webhook
from end_to_end.crashes import (
    AS_OF,
    PHASES,
    Reader,
    contents,
    copied,
    killed_night,
    land_first_night,
    land_second_night,
    leftovers,
    published_contents,
    read_whole,
    second_night,
)
from end_to_end.first_run import Places
from end_to_end.test_nights import Contents, differing
from support import Warehouse

N_KILLS = 200
IN_A_ROW = 4


@dataclass(frozen=True)
class Undisturbed:
    """The places before the night that is killed, and what it ends with when nobody kills it."""

    before: Places
    seconds: float
    contents: Contents
    published: Contents
    alerts: Counter[tuple[str, str]]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    root = tmp_path_factory.mktemp("undisturbed")
    before = Places(root / "before")
    land_first_night(Warehouse(before.root))
    first = before.run("nightly", "--vars", AS_OF["first"])
    assert first.returncode == 1, first.stderr
    land_second_night(Warehouse(before.root))
    places = copied(before, root / "places")
    with webhook() as hook:
        was_running, seconds = killed_night(places, hook, lambda _seconds, _log: False)
        alerts = keys(hook)
    assert not was_running
    assert set(alerts.values()) == {1}, alerts
    done = contents(places)
    assert leftovers(places) == []
    assert all(done[table] for table in ("stg_quarantine", "int_relevance_labels", "mart_slo_status")), done.keys()
    return Undisturbed(before, seconds, done, published_contents(places), alerts)


def keys(hook: Webhook) -> Counter[tuple[str, str]]:
    """How often each message arrived, by its de-duplication key and what it asks for."""
    return Counter((body["dedup_key"], body["action"]) for body in hook.received)


@dataclass
class Killed:
    """A copy of the places whose night is killed, while somebody reads and somebody is told."""

    places: Places
    hook: Webhook
    reader: Reader

    def kill(self, is_time: Callable[[float, str], bool], *options: str) -> bool:
        was_running, _ = killed_night(self.places, self.hook, is_time, *options)
        return was_running

    def kill_in(self, phase: str, *options: str) -> bool:
        return self.kill(lambda _seconds, log: PHASES[phase](self.places, self.hook, log), *options)


@pytest.fixture
def killed(undisturbed: Undisturbed, tmp_path: Path) -> Iterator[Killed]:
    places = copied(undisturbed.before, tmp_path / "places")
    with webhook() as hook, Reader(places.published) as reader:
        yield Killed(places, hook, reader)


def assert_made_good(killed: Killed, undisturbed: Undisturbed, n_kills: int) -> None:
    """A plain re-run, and everything is as if nothing had happened."""
    places = killed.places
    arguments, variables = second_night(killed.hook)
    night = places.run(*arguments, variables=variables)

    assert night.returncode == 1, night.stderr  # the verdict is breached, the run is fine
    assert differing(contents(places), undisturbed.contents) == []
    assert differing(published_contents(places), undisturbed.published) == []
    assert leftovers(places) == []
    assert not list(places.published.rglob(".tmp-*"))

    read_whole(places.published)
    assert killed.reader.faults == []
    assert sum(killed.reader.seen.values()) > 0

    received = keys(killed.hook)
    assert received.keys() == undisturbed.alerts.keys()
    assert sum((received - undisturbed.alerts).values()) <= n_kills, "at most one message is repeated by a kill"


def test_a_night_that_is_killed_in_every_phase_is_made_good(killed: Killed, undisturbed: Undisturbed) -> None:
    for phase in PHASES:
        assert killed.kill_in(phase)
    assert_made_good(killed, undisturbed, n_kills=1)


@pytest.mark.slow
@pytest.mark.parametrize("phases", [("staging", "mid-model"), ("settling", "staging"), ("mid-model",)], ids=str)
def test_a_full_refresh_that_is_killed_is_ended_by_a_plain_night(
    phases: tuple[str, ...], killed: Killed, undisturbed: Undisturbed
) -> None:
    for phase in phases:
        assert killed.kill_in(phase, "--full-refresh")
    assert_made_good(killed, undisturbed, n_kills=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(N_KILLS // IN_A_ROW))
def test_nights_that_are_killed_at_random_moments_are_made_good(
    seed: int, killed: Killed, undisturbed: Undisturbed
) -> None:
    """Each takes over what the one before it left."""
    rng = random.Random(seed)
    moments = [rng.uniform(0, undisturbed.seconds) for _ in range(IN_A_ROW)]
    n_kills = sum(killed.kill(lambda seconds, _log, moment=moment: seconds > moment) for moment in moments)
    assert_made_good(killed, undisturbed, n_kills=n_kills)


@pytest.mark.parametrize(
    "max_file_bytes",
    # the warehouse cannot grow; nor can dbt's log
    [3_000_000, pytest.param(300_000, marks=pytest.mark.slow)],
)
def test_a_disk_that_fills_is_one_error_and_nothing_else(
    max_file_bytes: int, killed: Killed, undisturbed: Undisturbed
) -> None:
    places = killed.places
    before = places.current
    arguments, variables = second_night(killed.hook)
    night = places.start(*arguments, variables=variables, max_file_bytes=max_file_bytes)
    _, errors = night.communicate()

    assert night.returncode == 2
    assert len(errors.splitlines()) == 2, errors
    assert re.match(r"error: .*File too large", errors), errors
    assert errors.splitlines()[1] == f"details: {places.root}/logs/dbt.log"
    assert places.current == before
    assert_made_good(killed, undisturbed, n_kills=0)


@pytest.mark.slow
def test_of_two_nights_at_once_one_is_told_and_does_nothing(killed: Killed, undisturbed: Undisturbed) -> None:
    places = killed.places
    arguments, variables = second_night(killed.hook)
    started = [places.start(*arguments, variables=variables) for _ in range(2)]
    ended = {night.returncode: errors for night in started for _, errors in [night.communicate()]}
    assert ended.keys() == {1, 2}
    (line,) = ended[2].splitlines()
    assert line.startswith(f"error: another command is working on {places.warehouse} (process ")
    assert differing(contents(places), undisturbed.contents) == []
    assert keys(killed.hook) == undisturbed.alerts
