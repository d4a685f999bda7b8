"""Which alerts open, which are resolved, and which messages are still to be sent."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence

import pytest
from alerting import (
    AT_RISK_ABOVE,
    AT_RISK_BELOW,
    BREACHED,
    GONE,
    MET,
    MONDAY,
    SLOWLY_BAD,
    TOO_LITTLE,
    nights,
    of_segment,
)

from retrieval_quality.alerts.decide import Verdict, decide
from retrieval_quality.alerts.events import Alert, remember
from retrieval_quality.alerts.messages import pending_messages
from retrieval_quality.alerts.run import alert_key
from retrieval_quality.contracts import AlertEvent

DAY = dt.timedelta(days=1)


def alert_of(verdict: Verdict, resolved_on: dt.date | None = None, dedup_key: str | None = None) -> Alert:
    """The alert that the verdict of a night opened."""
    alert_id = alert_key(verdict.slo_id, verdict.segment_value, verdict.night_on)
    opened = AlertEvent(
        event_id=f"{alert_id}-opened",
        alert_id=alert_id,
        event="opened",
        occurred_at="2026-11-24T02:00:00+00:00",
        dedup_key=dedup_key or alert_id,
        slo_id=verdict.slo_id,
        segment_dimension=verdict.segment_dimension,
        segment_value=verdict.segment_value,
        severity=verdict.severity,
        night_on=verdict.night_on.isoformat(),
    )
    ended = [] if resolved_on is None else [step(alert_id, "resolved", night_on=resolved_on.isoformat())]
    (alert,) = remember([opened, *ended])
    return alert


def step(
    alert_id: str, event: str, about: str | None = None, channel: str | None = None, night_on: str | None = None
) -> AlertEvent:
    return AlertEvent.model_validate(
        {"event_id": f"{alert_id}-{event}-{about}-{channel}", "alert_id": alert_id, "event": event, "about": about,
         "channel": channel, "occurred_at": "2026-11-25T02:00:00+00:00", "night_on": night_on}
    )  # fmt: skip


def with_steps(alert: Alert, *steps: AlertEvent) -> Alert:
    (told,) = remember([*alert.events, *steps])
    return told


# --- opening -----------------------------------------------------------------------------------


def test_a_page_on_the_newest_night_opens_an_alert() -> None:
    verdicts = nights([BREACHED, MET]) + of_segment(nights([MET, BREACHED]), "v8")

    decision = decide([], verdicts, resolve_nights=2)

    assert [verdict.key for verdict in decision.to_open] == [("by_index", "v8")]


def test_a_breach_that_is_no_page_opens_none() -> None:
    assert decide([], nights([dataclasses.replace(BREACHED, is_page=False)]), resolve_nights=2).to_open == ()


def test_while_an_alert_is_open_no_second_one_opens() -> None:
    verdicts = nights([BREACHED, BREACHED, BREACHED])

    decision = decide([alert_of(verdicts[0])], verdicts, resolve_nights=2)

    assert decision.to_open == decision.to_resolve == ()


def test_after_it_is_resolved_a_later_page_opens_another() -> None:
    verdicts = nights([BREACHED, MET, MET, BREACHED])
    past = alert_of(verdicts[0], resolved_on=verdicts[2].night_on)

    (verdict,) = decide([past], verdicts, resolve_nights=2).to_open

    assert alert_key(*verdict.key, verdict.night_on) != past.alert_id


def test_the_night_that_ended_an_alert_or_an_earlier_one_opens_none() -> None:
    """A night that is run again, or for an as_of of the past, repeats nothing."""
    verdicts = nights([BREACHED, BREACHED])
    closed_tonight = alert_of(verdicts[0], resolved_on=verdicts[1].night_on)
    closed_later = alert_of(nights([BREACHED], MONDAY + 5 * DAY)[0], resolved_on=MONDAY + 9 * DAY)

    assert decide([closed_tonight], verdicts, resolve_nights=2).to_open == ()
    assert decide([closed_later], verdicts, resolve_nights=2).to_open == ()


# --- resolving ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "is_resolved"),
    [
        ([MET], False),
        ([MET, MET], True),
        ([AT_RISK_ABOVE, MET], True),
        ([AT_RISK_ABOVE, AT_RISK_ABOVE], True),
        ([AT_RISK_BELOW, MET], False),
        ([MET, AT_RISK_BELOW], False),
        ([MET, BREACHED], False),
        ([MET, BREACHED, MET], False),
        ([BREACHED, MET, MET], True),
        ([MET, SLOWLY_BAD], False),
        ([TOO_LITTLE, TOO_LITTLE], False),
        ([MET, TOO_LITTLE], False),
        ([GONE, GONE], False),
        ([], False),
    ],
)
def test_two_calm_nights_in_a_row_end_it(after: Sequence[Verdict], is_resolved: bool) -> None:
    verdicts = nights([BREACHED, *after])

    resolutions = decide([alert_of(verdicts[0])], verdicts, resolve_nights=2).to_resolve

    assert [(resolution.reason, resolution.night_on) for resolution in resolutions] == (
        [("recovered", verdicts[-1].night_on)] if is_resolved else []
    )


@pytest.mark.parametrize("resolve_nights", [1, 2, 3])
def test_how_many_nights_it_takes(resolve_nights: int) -> None:
    opened = alert_of(BREACHED)
    for n_calm in range(1, 5):
        verdicts = nights([BREACHED, *[MET] * n_calm])
        resolved = decide([opened], verdicts, resolve_nights=resolve_nights).to_resolve
        assert bool(resolved) == (n_calm >= resolve_nights)


def test_nights_before_it_opened_do_not_end_it() -> None:
    """Late labels may turn the past: what counts comes after."""
    verdicts = nights([MET, MET, MET])

    assert decide([alert_of(verdicts[1])], verdicts, resolve_nights=2).to_resolve == ()


def test_a_part_without_traffic_is_over_when_the_rest_goes_on() -> None:
    """After a roll-back nobody asks the index any more."""
    rolled_back = of_segment(nights([BREACHED, GONE, GONE]), "v8")
    others = of_segment(nights([MET, MET, MET]), "v7")
    opened = alert_of(rolled_back[0])

    (by_rows,) = decide([opened], rolled_back + others, resolve_nights=2).to_resolve
    (by_absence,) = decide([opened], others, resolve_nights=2).to_resolve

    assert by_rows.reason == by_absence.reason == "no_traffic"


def test_silence_of_the_whole_objective_ends_nothing() -> None:
    silent = of_segment(nights([BREACHED, GONE, GONE]), "v8") + of_segment(nights([MET, GONE, GONE]), "v7")

    assert decide([alert_of(silent[0])], silent, resolve_nights=2).to_resolve == ()
    assert decide([alert_of(silent[0])], [], resolve_nights=2).to_resolve == ()


# --- messages ----------------------------------------------------------------------------------


def test_alerts_that_opened_together_share_one_message_per_channel() -> None:
    alerts = [alert_of(verdict, dedup_key="together") for value in "ab" for verdict in of_segment([BREACHED], value)]
    alerts.append(alert_of(BREACHED))

    messages = pending_messages(alerts, "opened", {"page": ["slack:1"], "rollback": ["slack:1", "json:1"]})

    assert [(message.channel, len(message.alerts)) for message in messages if message.dedup_key == "together"] == [
        ("json:1", 2),
        ("slack:1", 2),
    ]
    assert [message.dedup_key for message in messages if message.dedup_key != "together"] == [alerts[-1].alert_id]


def test_only_channels_that_miss_it_get_it_again() -> None:
    alert = alert_of(BREACHED)
    sending = [step(alert.alert_id, "sending", "opened", channel) for channel in ("slack:1", "json:1")]
    half = with_steps(alert, *sending, step(alert.alert_id, "sent", "opened", "slack:1"))

    channels = {"page": ["slack:1", "json:1", "mailto:1"]}

    assert [message.channel for message in pending_messages([half], "opened", channels)] == ["json:1"]
    assert pending_messages([half], "resolved", channels) == ()


def test_an_end_is_told_where_the_opening_was() -> None:
    alert = alert_of(BREACHED)
    told = with_steps(alert, step(alert.alert_id, "sent", "opened", "slack:1"))
    failed = with_steps(alert, step(alert.alert_id, "sending", "opened", "slack:1"))
    end = step(alert.alert_id, "resolved", night_on="2026-11-25")
    channels = {"page": ["slack:1", "json:1"]}

    for before in (told, failed):
        over = with_steps(before, end)
        (message,) = pending_messages([over], "resolved", channels)
        assert (message.channel, message.action, message.dedup_key) == ("slack:1", "resolve", alert.alert_id)
        # nobody is woken for what is over
        assert pending_messages([over], "opened", channels) == ()


def test_channels_set_later_are_told_of_open_alerts_only() -> None:
    channels = {"page": ["slack:1"]}

    assert len(pending_messages([alert_of(BREACHED)], "opened", channels)) == 1
    assert pending_messages([alert_of(BREACHED, resolved_on=MONDAY + DAY)], "resolved", channels) == ()


def test_a_message_of_several_is_resolved_when_the_last_one_is() -> None:
    first, second = (
        with_steps(alert, step(alert.alert_id, "sent", "opened", "slack:1"))
        for value in "ab"
        for alert in [alert_of(of_segment([BREACHED], value)[0], dedup_key="together")]
    )
    channels = {"rollback": ["slack:1"]}
    first_over = with_steps(first, step(first.alert_id, "resolved", night_on="2026-11-25"))
    (partly,) = pending_messages([first_over, second], "resolved", channels)
    first_told = with_steps(first_over, step(first.alert_id, "sent", "resolved", "slack:1"))
    second_over = with_steps(second, step(second.alert_id, "resolved", night_on="2026-11-26"))
    (wholly,) = pending_messages([first_told, second_over], "resolved", channels)

    assert (partly.action, partly.dedup_key, len(partly.alerts)) == ("update", "together", 1)
    assert (wholly.action, wholly.dedup_key, len(wholly.alerts)) == ("resolve", "together", 1)


def test_what_came_with_the_data_is_no_markup_and_short() -> None:
    (verdict,) = of_segment([BREACHED], "<!channel>\n" + "x" * 500)

    (message,) = pending_messages([alert_of(verdict)], "opened", {"rollback": ["slack:1"]})

    assert "<" not in message.title
    assert "\n" not in message.title
    assert len(message.title) < 250
