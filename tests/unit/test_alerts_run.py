"""Alerting from a publication to a webhook: recorded first, sent once, retried, resolved; no secret shown."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from alerting import BREACHED, MET, Webhook, landed_events, nights, of_segment, publish_verdicts, webhook
from click.testing import CliRunner, Result
from support import PROJECT

from retrieval_quality.alerts import AlertError, AlertReport, Outside, acknowledge, describe, problems, run_alerts
from retrieval_quality.alerts.decide import Verdict
from retrieval_quality.alerts.events import only_one
from retrieval_quality.alerts.messages import Message
from retrieval_quality.alerts.run import alert_key
from retrieval_quality.alerts.send import Channel, _addressed, channels_of, deliver_by_apprise
from retrieval_quality.cli import main
from retrieval_quality.landing_check import check_landing

SECRET = "s3cr3t-t0ken"  # noqa: S105
URLS = {"RQ_ALERT_URLS": "json://hooks.example/a slack://TokenA/TokenB/TokenC"}
START = dt.datetime(2026, 11, 30, 2, tzinfo=dt.UTC)


@dataclass
class World:
    """A landing folder and publications, a clock that ticks, and what was delivered where."""

    root: Path
    environ: dict[str, str] = field(default_factory=lambda: dict(URLS))
    delivered: list[tuple[str, Message]] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    errors: list[str | None] = field(default_factory=list)
    ticks: int = 0
    n_published: int = 0

    @property
    def landing(self) -> Path:
        return self.root / "landing"

    @property
    def published(self) -> Path:
        return self.root / "published"

    @property
    def events(self) -> list[dict[str, Any]]:
        return landed_events(self.landing)

    def now(self) -> dt.datetime:
        self.ticks += 1
        return START + dt.timedelta(seconds=self.ticks)

    def deliver(self, channel: Channel, message: Message) -> str | None:
        error = self.errors.pop(0) if self.errors else None
        if error is None:
            self.delivered.append((channel.name, message))
        return error

    def night(
        self,
        *verdicts: Verdict,
        is_dry_run: bool = False,
        deliver: Callable[[Channel, Message], str | None] | None = None,
    ) -> AlertReport:
        self.n_published += 1
        database = publish_verdicts(self.published, verdicts, self.n_published)
        outside = Outside(self.environ, now=self.now, sleep=self.slept.append, deliver=deliver or self.deliver)
        return run_alerts(database, self.landing, resolve_nights=2, outside=outside, is_dry_run=is_dry_run)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with webhook() as started:
        yield started


def kinds(world: World) -> list[str]:
    return [event["event"] for event in world.events]


# --- one alert's life --------------------------------------------------------------------------


def test_it_opens_once_and_is_resolved_with_the_same_key(world: World) -> None:
    past = nights([BREACHED, BREACHED])
    first = world.night(*past)
    again = world.night(*past)
    calm = world.night(*nights([BREACHED, BREACHED, MET]))
    over = world.night(*nights([BREACHED, BREACHED, MET, MET]))
    after = world.night(*nights([BREACHED, BREACHED, MET, MET, MET]))

    assert [report.exit_code for report in (first, again, calm, over, after)] == [1, 1, 0, 0, 0]
    assert [len(report.open) for report in (first, again, calm, over, after)] == [1, 1, 1, 0, 0]
    key = alert_key("daily", "total", past[-1].night_on)
    assert [(channel, message.action, message.dedup_key) for channel, message in world.delivered] == [
        ("json:1", "trigger", key),
        ("slack:1", "trigger", key),
        ("json:1", "resolve", key),
        ("slack:1", "resolve", key),
    ]


def test_a_clock_that_jumps_neither_repeats_nor_loses_a_message(world: World) -> None:
    past = nights([BREACHED, BREACHED])
    world.errors = ["http_500"] * 3  # the first channel fails for good
    world.night(*past)
    world.ticks = -10_000_000
    world.night(*past)
    world.ticks = 100_000_000
    world.night(*past)
    world.ticks = -20_000_000
    over = world.night(*nights([BREACHED, BREACHED, MET, MET]))

    assert over.open == ()
    key = alert_key("daily", "total", past[-1].night_on)
    assert sorted((channel, message.action, message.dedup_key) for channel, message in world.delivered) == [
        ("json:1", "resolve", key),
        ("json:1", "trigger", key),
        ("slack:1", "resolve", key),
        ("slack:1", "trigger", key),
    ]


def test_what_was_known_is_recorded_with_the_opening(world: World) -> None:
    world.night(*nights([BREACHED]))

    opened = world.events[0]
    assert opened["event"] == "opened"
    assert (opened["estimate"], opened["bound_low"], opened["bound_high"], opened["n_units"]) == (0.5, 0.4, 0.6, 200)
    assert opened["versions"] == ["embedding_model=bge", "index_version=v8", "index_version=v7"]
    # v8 is .4 below the objective on 120 of 200 units; how_to is nearly everything, the cross no plain dimension
    assert opened["top_segments"] == [
        {"segment_dimension": "index_version", "segment_value": "v8", "estimate": 0.3, "n_units": 120,
         "contribution": 0.24},
        {"segment_dimension": "intent", "segment_value": "where", "estimate": 0.5, "n_units": 5, "contribution": 0.005},
    ]  # fmt: skip
    assert opened["publication_id"] == "20261130T000000Z-0001"


def test_of_a_segment_its_own_versions_and_dimension_are_recorded(world: World) -> None:
    world.night(*of_segment(nights([BREACHED]), "v8"))

    opened = world.events[0]
    assert opened["versions"] == ["index_version=v8", "embedding_model=bge"]
    assert [segment["segment_value"] for segment in opened["top_segments"]] == ["v8"]


def test_segments_that_page_together_are_one_message_and_an_alert_each(world: World) -> None:
    verdicts = [night for value in ("v7", "v8") for night in of_segment(nights([BREACHED]), value)]
    world.night(*verdicts)

    assert kinds(world).count("opened") == 2
    assert [channel for channel, _ in world.delivered] == ["json:1", "slack:1"]
    message = world.delivered[0][1]
    assert "v7" in message.body
    assert "v8" in message.body
    assert {event["dedup_key"] for event in world.events} == {message.dedup_key}
    assert kinds(world).count("sent") == 4


def test_severities_have_their_own_channels() -> None:
    environ = {
        "RQ_ALERT_URLS": "slack://a/b/c mailto://x",
        "RQ_ALERT_URLS_PAGE": "pagerduty://a@b",
        "RQ_ALERT_URLS_TICKET": "",
    }

    names = {
        severity: [channel.name for channel in channels_of(severity, environ)]
        for severity in ("page", "ticket", "rollback", "other")
    }

    general = ["slack:1", "mailto:1"]
    assert names == {"page": ["pagerduty:1"], "ticket": general, "rollback": general, "other": general}
    assert [channel.name for channel in channels_of("x", {"RQ_ALERT_URLS": "json://a json://b nonsense"})] == [
        "json:1",
        "json:2",
        "unknown:1",
    ]


def test_without_a_url_alerts_are_recorded_and_sent_when_there_is_one(world: World) -> None:
    world.environ = {}
    quiet = world.night(*nights([BREACHED]))
    assert (quiet.exit_code, kinds(world)) == (1, ["opened"])
    assert describe(quiet)[-1] == "Recorded, nobody told: RQ_ALERT_URLS is not set."

    world.environ = dict(URLS)
    world.night(*nights([BREACHED, BREACHED]))
    assert [channel for channel, _ in world.delivered] == ["json:1", "slack:1"]


def test_a_dry_run_prints_and_writes_nothing(world: World) -> None:
    report = world.night(*nights([BREACHED]), is_dry_run=True)

    assert not world.landing.exists()
    assert world.delivered == []
    assert report.exit_code == 1
    text = "\n".join(describe(report))
    assert "1 would open" in text
    assert "[page] daily: hit_rate@5 is below its objective" in text
    world.night(*nights([BREACHED]))
    before = world.events
    calm = world.night(*nights([BREACHED, MET, MET]), is_dry_run=True)
    assert world.events == before
    assert "1 would be resolved" in describe(calm)[0]
    assert [send.message.action for send in calm.sends] == ["resolve", "resolve"]


def test_a_night_without_anything_to_do_leaves_the_landing_folder_alone(world: World) -> None:
    assert world.night(*nights([MET])).exit_code == 0
    assert not world.landing.exists()


def test_what_it_writes_is_a_landing_folder(world: World) -> None:
    world.night(*nights([BREACHED]))

    check_landing(world.landing)
    assert not [path for path in world.landing.rglob(".*") if path.name != ".lock"]


# --- nothing is lost ---------------------------------------------------------------------------


def test_the_intent_is_on_disk_before_anything_is_sent(world: World) -> None:
    seen: list[list[str]] = []

    def look(channel: Channel, message: Message) -> None:
        seen.append(kinds(world))

    world.night(*nights([BREACHED]), deliver=look)

    assert seen == [["opened", "sending", "sending"], ["opened", "sending", "sending", "sent"]]


def test_a_failed_send_is_retried_recorded_and_tried_again_by_the_next_run(world: World) -> None:
    world.errors = ["http_500", "http_500", "http_500"]
    failed = world.night(*nights([BREACHED]))

    assert failed.exit_code == 2
    assert world.slept == [1.0, 4.0]
    assert [channel for channel, _ in world.delivered] == ["slack:1"]
    assert [(event["channel"], event["error"], event["n_attempts"]) for event in world.events if "error" in event] == [
        ("json:1", "http_500", 3)
    ]
    (told,) = problems(failed)
    assert told.startswith("error: message about daily did not reach json:1 (http_500 after 3 attempts); it is kept")
    mended = world.night(*nights([BREACHED]))
    assert mended.exit_code == 1
    assert [(channel, message.dedup_key) for channel, message in world.delivered[1:]] == [
        ("json:1", world.delivered[0][1].dedup_key)
    ]
    assert world.night(*nights([BREACHED])).sends == ()


def test_a_second_attempt_that_arrives_is_no_failure(world: World) -> None:
    world.errors = ["http_503"]
    report = world.night(*nights([BREACHED]))

    assert report.exit_code == 1
    assert [event["n_attempts"] for event in world.events if event["event"] == "sent"] == [2, 1]


def test_a_url_that_is_none_is_not_retried(world: World) -> None:
    world.environ = {"RQ_ALERT_URLS": f"nonsense-{SECRET}"}
    report = world.night(*nights([BREACHED]), deliver=deliver_by_apprise)

    assert report.exit_code == 2
    assert "unknown:1 (unusable_url after 1 attempt)" in problems(report)[0]
    assert SECRET not in json.dumps(world.events)


@pytest.mark.parametrize("has_arrived", [False, True], ids=["before it is sent", "after it is sent"])
def test_a_kill_while_sending_sends_again_with_the_same_key(tmp_path: Path, hook: Webhook, has_arrived: bool) -> None:
    database = publish_verdicts(tmp_path / "published", nights([BREACHED]))
    landing = tmp_path / "landing"
    program = f"""
import os
from pathlib import Path
from retrieval_quality.alerts import Outside, run_alerts
from retrieval_quality.alerts.send import deliver_by_apprise

def killed(channel, message):
    if {has_arrived}:
        assert deliver_by_apprise(channel, message) is None
    os._exit(9)

outside = Outside({{"RQ_ALERT_URLS": {hook.url()!r}}}, deliver=killed)
run_alerts(Path({str(database)!r}), Path({str(landing)!r}), resolve_nights=2, outside=outside)
"""
    killed = subprocess.run([sys.executable, "-c", program], env=environment(), check=False)
    assert killed.returncode == 9
    assert [event["event"] for event in landed_events(landing)] == ["opened", "sending"]

    outside = Outside({"RQ_ALERT_URLS": hook.url()})
    reports = [run_alerts(database, landing, resolve_nights=2, outside=outside) for _ in range(2)]

    assert [len(report.sends) for report in reports] == [1, 0]
    assert len(hook.received) == 1 + has_arrived
    (key,) = {body["dedup_key"] for body in hook.received}
    assert key == alert_key("daily", "total", BREACHED.night_on)
    assert [event["event"] for event in landed_events(landing)] == ["opened", "sending", "sending", "sent"]


def test_a_kill_before_the_intent_loses_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two segments that opened together still share a message when it is sent by the next run."""
    verdicts = [night for value in ("v7", "v8") for night in of_segment(nights([BREACHED]), value)]
    monkeypatch.setattr("retrieval_quality.alerts.run._send_all", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        world.night(*verdicts)
    monkeypatch.undo()
    assert kinds(world) == ["opened", "opened"]

    world.night(*verdicts)

    assert [len(message.alerts) for _, message in world.delivered] == [2, 2]
    assert {message.dedup_key for _, message in world.delivered} == {world.events[0]["dedup_key"]}


def test_one_command_at_a_time(world: World) -> None:
    with only_one(world.landing), pytest.raises(AlertError, match="another command is alerting"):
        world.night(*nights([BREACHED]))
    assert world.night(*nights([BREACHED])).exit_code == 1


def test_a_line_that_cannot_be_read_is_told_and_the_rest_remembered(world: World) -> None:
    world.night(*nights([BREACHED]))
    broken = world.landing / "alert_events" / "broken.jsonl"
    broken.write_text('{"event_id": "x", \n{"event": "snoozed"}\n')

    report = world.night(*nights([BREACHED]))

    assert report.opened == ()
    assert problems(report) == ["warning: 2 lines of alert_events cannot be read and are ignored"]


def test_memory_may_be_packed_into_other_files(world: World) -> None:
    import duckdb

    world.night(*nights([BREACHED]))
    folder = world.landing / "alert_events"
    duckdb.sql(f"copy (from read_json('{folder}/*/*.jsonl')) to '{folder}/packed.parquet'")
    for file in folder.rglob("*.jsonl"):
        file.unlink()

    report = world.night(*nights([BREACHED]))

    assert (len(report.open), report.opened, report.sends, report.n_unreadable) == (1, (), (), 0)


# --- by hand -----------------------------------------------------------------------------------


def test_acknowledging_is_recorded(world: World) -> None:
    (alert,) = world.night(*nights([BREACHED])).open
    acknowledge(world.landing, alert.alert_id, by="anna", note="rolling back", at=world.now())

    report = world.night(*nights([BREACHED, BREACHED]))

    assert report.sends == ()
    assert ", taken by anna" in describe(report)[1]
    with pytest.raises(AlertError, match=rf"alert nope is unknown; open: {alert.alert_id}"):
        acknowledge(world.landing, "nope", by="anna", note=None, at=world.now())


# --- webhooks, pager, secrets ------------------------------------------------------------------


def environment(**variables: str) -> dict[str, str]:
    """Of a subprocess: this checkout's package, no RQ_* but those given."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("RQ_", "DBT_"))}
    return inherited | {"PYTHONPATH": str(PROJECT / "src"), "NO_PROXY": "127.0.0.1"} | variables


def alert_command(root: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    program = "from retrieval_quality.cli import main; main()"
    places = {"RQ_LANDING": str(root / "landing"), "RQ_PUBLISHED": str(root / "published")}
    return subprocess.run(
        [sys.executable, "-c", program, "alert", *arguments],
        cwd=root,
        env=environment(**places, **variables),
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_webhook_gets_the_key_and_says_when_it_is_over(tmp_path: Path, hook: Webhook) -> None:
    publish_verdicts(tmp_path / "published", nights([BREACHED]))
    opened = alert_command(tmp_path, "--json", RQ_ALERT_URLS=hook.url())
    publish_verdicts(tmp_path / "published", nights([BREACHED, MET, MET]), 2)
    over = alert_command(tmp_path, "--json", RQ_ALERT_URLS=hook.url())

    assert (opened.returncode, opened.stderr, over.returncode, over.stderr) == (1, "", 0, "")
    key = alert_key("daily", "total", BREACHED.night_on)
    told = [(body["dedup_key"], body["action"], body["type"], body["alert_ids"]) for body in hook.received]
    assert told == [(key, "trigger", "failure", key), (key, "resolve", "success", key)]
    assert hook.received[0]["title"] == "[page] daily: hit_rate@5 is below its objective"
    assert "docs/runbook.md#an-objective-is-breached" in hook.received[0]["message"]
    assert [message["is_sent"] for message in json.loads(opened.stdout)["messages"]] == [True]
    assert json.loads(over.stdout)["open"] == []


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_a_failing_server_never_shows_a_secret(tmp_path: Path, hook: Webhook, arguments: tuple[str, ...]) -> None:
    publish_verdicts(tmp_path / "published", nights([BREACHED]))
    hook.statuses = [500, 500, 500]
    url = f"json://user:{SECRET}@127.0.0.1:{hook.port}/{SECRET}?+X-Token={SECRET}&-key={SECRET}"

    failed = alert_command(tmp_path, *arguments, RQ_ALERT_URLS=f"{url} nonsense-{SECRET}")

    assert failed.returncode == 2
    assert "did not reach json:1 (http_500 after 3 attempts)" in failed.stderr
    assert "did not reach unknown:1 (unusable_url after 1 attempt)" in failed.stderr
    assert SECRET not in failed.stdout + failed.stderr
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path

    mended = alert_command(tmp_path, *arguments, RQ_ALERT_URLS=url)
    assert mended.returncode == 1
    assert len(hook.received) == 1


def test_nothing_is_logged_even_where_everything_is(
    world: World, hook: Webhook, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    handler = logging.StreamHandler()
    root = logging.getLogger()
    root.addHandler(handler)
    before = root.level
    root.setLevel(1)
    try:
        hook.statuses = [500, 500, 500]
        nowhere = f"json://127.0.0.1:9/{SECRET}"
        world.environ = {"RQ_ALERT_URLS": f"{hook.url(SECRET)} {nowhere} slack://{SECRET}"}
        report = world.night(*nights([BREACHED]), deliver=deliver_by_apprise)
        logging.getLogger("urllib3").warning("heard again")
    finally:
        root.setLevel(before)
        root.removeHandler(handler)

    assert [send.outcome and send.outcome.error for send in report.failed] == [
        "http_500",
        "not_delivered",
        "unusable_url",
    ]
    shown = caplog.text + "".join(capfd.readouterr()) + repr(report) + json.dumps(world.events)
    assert SECRET not in shown
    assert "heard again" in shown


def test_a_pager_gets_the_key_and_is_told_the_end() -> None:
    import apprise

    message = dataclasses.replace(_message(), dedup_key="k1")
    for url in ("pagerduty://apikey@integration", "pagerduty://apikey@integration/source/component?region=eu"):
        service = apprise.Apprise.instantiate(_addressed(url, message))
        assert service is not None
        assert (service.dedup, service.action) == ("k1", "map")
    for url in ("slack://TokenA/TokenB/TokenC", "mailto://user:pass@example.com"):
        assert _addressed(url, message) == url


def _message() -> Message:
    return Message("opened", "trigger", "k", "page", "daily", "pagerduty:1", (), "title", "body")


# --- the command -------------------------------------------------------------------------------


def command(root: Path, *arguments: str) -> Result:
    places = ("--published", str(root / "published"), "--landing", str(root / "landing"))
    return CliRunner().invoke(main, ["alert", *places, *arguments])


@pytest.fixture
def quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in [name for name in os.environ if name.startswith(("RQ_", "DBT_"))]:
        monkeypatch.delenv(variable)
    return tmp_path


def test_the_command_says_by_its_exit_code_how_it_stands(quiet: Path) -> None:
    nothing = command(quiet)
    assert (nothing.exit_code, nothing.stderr.count("\n")) == (2, 1)
    publish_verdicts(quiet / "published", nights([MET]))
    assert command(quiet).exit_code == 0
    publish_verdicts(quiet / "published", nights([MET, BREACHED]), 2)
    dry = command(quiet, "--dry-run")
    assert (dry.exit_code, landed_events(quiet / "landing")) == (1, [])
    assert "To no channel (key " in dry.stdout
    assert command(quiet).exit_code == 1

    (alert_id,) = {event["alert_id"] for event in landed_events(quiet / "landing")}
    taken = command(quiet, "--acknowledge", alert_id, "--by", "anna", "--note", "on it")
    assert (taken.exit_code, taken.stdout) == (0, f"{alert_id} is acknowledged by anna\n")
    closed = command(quiet, "--resolve", alert_id, "--by", "anna", "--note", "known")
    assert closed.exit_code == 1
    ended = landed_events(quiet / "landing")[-1]
    assert (ended["event"], ended["reason"], ended["actor"], ended["note"]) == ("resolved", "by_hand", "anna", "known")
    again = command(quiet, "--resolve", alert_id)
    assert (again.exit_code, again.stderr) == (2, f"error: alert {alert_id} is resolved already; open: none\n")
    # it pages the next night as well, and that is another alert
    publish_verdicts(quiet / "published", nights([MET, BREACHED, BREACHED]), 3)
    assert "1 opened" in command(quiet).stdout


@pytest.mark.parametrize(
    "arguments",
    [("--dry-run", "--acknowledge", "a"), ("--resolve", "a", "--acknowledge", "b"), ("--by", "anna")],
)
def test_options_that_contradict_are_refused(quiet: Path, arguments: tuple[str, ...]) -> None:
    assert command(quiet, *arguments).exit_code == 2
