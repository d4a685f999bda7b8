"""`retrieval-quality alert`: read the verdicts, decide, record, send. Each step is on disk before the next."""

import datetime as dt
import hashlib
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from retrieval_quality.alerts.decide import Resolution, Verdict, decide
from retrieval_quality.alerts.events import Alert, AlertError, append, only_one, read_memory, remember
from retrieval_quality.alerts.messages import About, Message, pending_messages
from retrieval_quality.alerts.send import Channel, Deliver, Outcome, channels_of, deliver_by_apprise, send
from retrieval_quality.alerts.status import Status, read_status, what_was_seen
from retrieval_quality.contracts import AlertEvent

ID_CHARS: Final = 12
# where a dry run shows messages to that no channel is set for
NO_CHANNEL: Final = "no channel"
# an end is told after the opening
ABOUTS: Final[tuple[About, ...]] = ("opened", "resolved")

_Kind = Literal["opened", "sending", "sent", "send_failed", "acknowledged", "resolved"]


@dataclass(frozen=True)
class Send:
    """A message and what became of it; a dry run sends nothing and has no outcome."""

    message: Message
    outcome: Outcome | None


@dataclass(frozen=True)
class AlertReport:
    """What a run of alerting did. `breached` are newest verdicts; `open` are alerts, after the run."""

    status: Status
    opened: tuple[Alert, ...]
    resolved: tuple[Alert, ...]
    open: tuple[Alert, ...]
    sends: tuple[Send, ...]
    n_unreadable: int
    has_channels: bool
    is_dry_run: bool

    @property
    def failed(self) -> tuple[Send, ...]:
        """Messages that did not arrive; the next run tries them again."""
        return tuple(sent for sent in self.sends if sent.outcome is not None and sent.outcome.error is not None)

    @property
    def breached(self) -> tuple[Verdict, ...]:
        """Newest verdicts that are breached or worth a page."""
        return self.status.breached

    @property
    def exit_code(self) -> int:
        """2 a message did not arrive, 1 a newest verdict is breached or worth a page, 0 neither."""
        return 2 if self.failed else 1 if self.breached else 0


@dataclass(frozen=True)
class Outside:
    """What a run needs of the world: environment, clock, a way to wait and one to deliver."""

    environ: Mapping[str, str] = field(repr=False)
    now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)
    sleep: Callable[[float], None] = time.sleep
    deliver: Deliver = deliver_by_apprise


@dataclass(frozen=True)
class _Plan:
    """What a run has to do: events to record, and all alerts as they are with these."""

    opened: tuple[AlertEvent, ...]
    resolved: tuple[AlertEvent, ...]
    alerts: tuple[Alert, ...]
    channels: Mapping[str, Sequence[Channel]] = field(repr=False)
    n_unreadable: int

    def messages(self, alerts: Sequence[Alert], about: About, nowhere: Sequence[str] = ()) -> tuple[Message, ...]:
        """What is still to be sent of `alerts`; where no channel is set, to `nowhere`."""
        names = {severity: [channel.name for channel in found] or nowhere for severity, found in self.channels.items()}
        return pending_messages(alerts, about, names)

    @property
    def is_idle(self) -> bool:
        """Nothing to record and nothing to send?"""
        return not (self.opened or self.resolved or any(self.messages(self.alerts, about) for about in ABOUTS))


def run_alerts(
    database: Path, landing: Path, *, resolve_nights: int, outside: Outside, is_dry_run: bool = False
) -> AlertReport:
    """Open, resolve and announce alerts by the verdicts of a published database.

    What is decided is on disk before anything is sent, and so is the intent to send: a run that is
    killed in between is made good by the next, which may send once more, with the same key. A dry
    run writes and sends nothing, and a run without anything to do writes nothing. Raises AlertError
    and OSError; what was recorded by then stays.
    """
    status = read_status(database)
    plan = _plan(database, landing, status, resolve_nights, outside)
    alerts = plan.alerts
    sends: list[Send] = []
    if is_dry_run:
        sends = [Send(message, None) for about in ABOUTS for message in plan.messages(alerts, about, [NO_CHANNEL])]
    elif not plan.is_idle:
        with only_one(landing):
            # another command may have been at it meanwhile
            plan = _plan(database, landing, status, resolve_nights, outside)
            append(landing, [*plan.opened, *plan.resolved], at=outside.now())
            alerts = plan.alerts
            for about in ABOUTS:
                done, events = _send_all(landing, plan.messages(alerts, about), plan.channels, outside)
                sends += done
                alerts = _with(alerts, events)
    new_ids = {event.alert_id for event in plan.opened}
    ended_ids = {event.alert_id for event in plan.resolved}
    return AlertReport(
        status=status,
        opened=tuple(alert for alert in alerts if alert.alert_id in new_ids),
        resolved=tuple(alert for alert in alerts if alert.alert_id in ended_ids),
        open=tuple(alert for alert in alerts if alert.is_open),
        sends=tuple(sends),
        n_unreadable=plan.n_unreadable,
        has_channels=any(plan.channels.values()),
        is_dry_run=is_dry_run,
    )


def _plan(database: Path, landing: Path, status: Status, resolve_nights: int, outside: Outside) -> _Plan:
    memory = read_memory(landing)
    decision = decide(memory.alerts, status.verdicts, resolve_nights=resolve_nights)
    at = outside.now()
    opened = _opened_events(database, status, decision.to_open, at)
    resolved = [_resolved_event(resolution, status, at) for resolution in decision.to_resolve]
    alerts = _with(memory.alerts, [*opened, *resolved])
    severities = {alert.opened.severity or "" for alert in alerts}
    return _Plan(
        opened=tuple(opened),
        resolved=tuple(resolved),
        alerts=alerts,
        channels={severity: channels_of(severity, outside.environ) for severity in severities},
        n_unreadable=memory.n_unreadable,
    )


def acknowledge(landing: Path, alert_id: str, *, by: str, note: str | None, at: dt.datetime) -> Alert:
    """Record that somebody takes an alert. Raises AlertError when there is no such open alert."""
    alert = _open_alert(landing, alert_id)
    event = _step("acknowledged", alert_id, at, actor=by, note=note)
    append(landing, [event], at=at)
    return alert


def resolve_by_hand(
    landing: Path, alert_id: str, *, by: str, note: str | None, status: Status, at: dt.datetime
) -> Alert:
    """Record that an alert is over because somebody says so; the next run sends the message.

    It opens again on a later night that is worth a page. Raises AlertError when there is no such open
    alert.
    """
    alert = _open_alert(landing, alert_id)
    own = [verdict for verdict in status.verdicts if verdict.key == alert.key and verdict.is_newest]
    night_on = max([alert.opened_night_on, *(verdict.night_on for verdict in own)])
    resolution = Resolution(alert, "by_hand", night_on, own[0] if own else None)
    event = _resolved_event(resolution, status, at).model_copy(update={"actor": by, "note": note})
    append(landing, [event], at=at)
    return alert


def alert_key(slo_id: str, segment_value: str, night_on: dt.date) -> str:
    """The id of the alert that opens by this night's verdict."""
    return _digest(slo_id, segment_value, night_on.isoformat())


def _open_alert(landing: Path, alert_id: str) -> Alert:
    alerts = read_memory(landing).alerts
    for alert in alerts:
        if alert.alert_id == alert_id and alert.is_open:
            return alert
    is_known = any(alert.alert_id == alert_id for alert in alerts)
    open_ids = ", ".join(alert.alert_id for alert in alerts if alert.is_open) or "none"
    raise AlertError(f"alert {alert_id} is {'resolved already' if is_known else 'unknown'}; open: {open_ids}")


def _opened_events(database: Path, status: Status, to_open: Sequence[Verdict], at: dt.datetime) -> list[AlertEvent]:
    """One event per alert. Those of an objective share the key of their message: it stays the same
    when the message is sent again, because it is recorded with them.
    """
    ids = {verdict.key: alert_key(*verdict.key, verdict.night_on) for verdict in to_open}
    events = []
    for verdict in to_open:
        together = [
            ids[other.key] for other in to_open if (other.slo_id, other.severity) == (verdict.slo_id, verdict.severity)
        ]
        seen = what_was_seen(database, verdict)
        event = _step(
            "opened", ids[verdict.key], at, dedup_key=together[0] if len(together) == 1 else _digest(*sorted(together))
        )
        known = event.model_copy(
            update={
                "severity": verdict.severity,
                "owner": verdict.owner,
                "runbook": verdict.runbook,
                "metric": verdict.metric,
                "k": verdict.k,
                "stage": verdict.stage,
                "label_class": verdict.label_class,
                "traffic": verdict.traffic,
                "window_name": verdict.window_name,
                "window_starts_on": verdict.window_starts_on.isoformat(),
                "versions": list(seen.versions),
                "top_segments": list(seen.top_segments),
            }
        )
        events.append(_told(known, verdict, verdict.night_on, status))
    return events


def _resolved_event(resolution: Resolution, status: Status, at: dt.datetime) -> AlertEvent:
    event = _step("resolved", resolution.alert.alert_id, at, dedup_key=resolution.alert.opened.dedup_key)
    ended = event.model_copy(update={"reason": resolution.reason})
    return _told(ended, resolution.verdict, resolution.night_on, status)


def _told(event: AlertEvent, verdict: Verdict | None, night_on: dt.date, status: Status) -> AlertEvent:
    """The event with what is known on its night."""
    dated = event.model_copy(update={"night_on": night_on.isoformat(), "publication_id": status.publication_id})
    if verdict is None:
        return dated
    return dated.model_copy(
        update={
            "slo_id": verdict.slo_id,
            "segment_dimension": verdict.segment_dimension,
            "segment_value": verdict.segment_value,
            "state": verdict.state,
            "estimate": verdict.estimate,
            "bound_low": verdict.bound_low,
            "bound_high": verdict.bound_high,
            "baseline_estimate": verdict.baseline_estimate,
            "objective": verdict.objective,
            "margin": verdict.margin,
            "n_units": verdict.n_units,
        }
    )


def _send_all(
    landing: Path, messages: Sequence[Message], channels: Mapping[str, Sequence[Channel]], outside: Outside
) -> tuple[list[Send], list[AlertEvent]]:
    """Record the intent to send all of them, then send one after the other and record each outcome."""
    at = outside.now()
    events = [event for message in messages for event in _message_events("sending", message, at)]
    append(landing, events, at=at)
    sends = []
    for message in messages:
        channel = next(found for found in channels[message.severity] if found.name == message.channel)
        outcome = send(channel, message, deliver=outside.deliver, sleep=outside.sleep)
        at = outside.now()
        kind: _Kind = "sent" if outcome.error is None else "send_failed"
        done = _message_events(kind, message, at, outcome)
        append(landing, done, at=at)
        events += done
        sends.append(Send(message, outcome))
    return sends, events


def _message_events(kind: _Kind, message: Message, at: dt.datetime, outcome: Outcome | None = None) -> list[AlertEvent]:
    return [
        _step(kind, alert.alert_id, at, dedup_key=message.dedup_key).model_copy(
            update={
                "about": message.about,
                "channel": message.channel,
                "n_attempts": outcome.n_attempts if outcome is not None else None,
                "error": outcome.error if outcome is not None else None,
            }
        )
        for alert in message.alerts
    ]


def _step(
    kind: _Kind,
    alert_id: str,
    at: dt.datetime,
    *,
    dedup_key: str | None = None,
    actor: str | None = None,
    note: str | None = None,
) -> AlertEvent:
    return AlertEvent(
        event_id=uuid.uuid4().hex,
        alert_id=alert_id,
        event=kind,
        occurred_at=at.astimezone(dt.UTC).isoformat(timespec="microseconds"),
        dedup_key=dedup_key,
        actor=actor,
        note=note,
    )


def _with(alerts: Sequence[Alert], events: Sequence[AlertEvent]) -> tuple[Alert, ...]:
    return remember([*(event for alert in alerts for event in alert.events), *events])


def _digest(*parts: str) -> str:
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:ID_CHARS]
