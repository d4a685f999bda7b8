"""What is sent, and to which channels: one message for the alerts of an objective that opened together."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from retrieval_quality.alerts.events import Alert
from retrieval_quality.contracts import AlertEvent

About = Literal["opened", "resolved"]
Action = Literal["trigger", "update", "resolve"]

MAX_LISTED: Final = 10
# what wakes somebody goes first
SEVERITIES: Final = ("page", "rollback", "ticket")
MAX_NAME_CHARS: Final = 80


@dataclass(frozen=True)
class Message:
    """A message about `alerts`, for one channel. The same alerts always get the same `dedup_key`.

    `action` is `resolve` when none of the alerts that share the key is open any more, `update` when
    some still are, and `trigger` for the first message.
    """

    about: About
    action: Action
    dedup_key: str
    severity: str
    slo_id: str
    channel: str
    alerts: tuple[Alert, ...]
    title: str
    body: str


def pending_messages(
    alerts: Sequence[Alert], about: About, channels: Mapping[str, Sequence[str]]
) -> tuple[Message, ...]:
    """Every message that has not arrived, by the recorded steps; `channels` are names by severity.

    `opened` goes to all channels, while the alert is open; a channel that was added later does not
    get what others already got. `resolved` goes to the channels that were told of the opening, or
    should have been: an alert that ended before it could be announced is announced by its end.
    """
    groups: dict[tuple[str, str], list[Alert]] = {}
    for alert in alerts:
        for channel in _targets(alert, about, channels.get(alert.opened.severity or "", ())):
            groups.setdefault((_dedup_key(alert), channel), []).append(alert)
    messages = [
        _message(about, dedup_key, channel, of_message, alerts) for (dedup_key, channel), of_message in groups.items()
    ]
    return tuple(sorted(messages, key=_urgency))


def _urgency(message: Message) -> tuple[int, str, str, str]:
    rank = SEVERITIES.index(message.severity) if message.severity in SEVERITIES else len(SEVERITIES)
    return (rank, message.slo_id, message.dedup_key, message.channel)


def _targets(alert: Alert, about: About, configured: Sequence[str]) -> list[str]:
    if about == "opened":
        if not alert.is_open:
            return []
        begun = [channel for channel in configured if ("opened", channel) in alert.intended]
        return [channel for channel in begun or configured if ("opened", channel) not in alert.sent]
    if alert.is_open:
        return []
    return [
        channel
        for channel in configured
        if ("opened", channel) in alert.intended and ("resolved", channel) not in alert.sent
    ]


def _dedup_key(alert: Alert) -> str:
    return alert.opened.dedup_key or alert.alert_id


def _message(
    about: About, dedup_key: str, channel: str, of_message: Sequence[Alert], alerts: Sequence[Alert]
) -> Message:
    opened = of_message[0].opened
    still_open = [alert for alert in alerts if _dedup_key(alert) == dedup_key and alert.is_open]
    action: Action
    if about == "opened":
        title, body, action = _opened_title(opened, of_message), _opened_body(dedup_key, of_message), "trigger"
    else:
        title, body = _resolved_title(opened, of_message, still_open), _resolved_body(dedup_key, of_message, still_open)
        action = "update" if still_open else "resolve"
    return Message(
        about=about,
        action=action,
        dedup_key=dedup_key,
        severity=opened.severity or "",
        slo_id=opened.slo_id or "",
        channel=channel,
        alerts=tuple(of_message),
        title=title,
        body=body,
    )


def _opened_title(opened: AlertEvent, alerts: Sequence[Alert]) -> str:
    where = f" in {len(alerts)} segments" if len(alerts) > 1 else _in_segment(opened)
    return f"[{shown(opened.severity)}] {shown(opened.slo_id)}: {_metric(opened)} is below its objective{where}"


def _resolved_title(opened: AlertEvent, alerts: Sequence[Alert], still_open: Sequence[Alert]) -> str:
    where = f" in {len(alerts)} segments" if len(alerts) > 1 else _in_segment(opened)
    rest = f", {len(still_open)} still open" if still_open else ""
    return f"[resolved] {shown(opened.slo_id)}: {_metric(opened)} is no longer below its objective{where}{rest}"


def _opened_body(dedup_key: str, alerts: Sequence[Alert]) -> str:
    opened = alerts[0].opened
    window = f"Night {opened.night_on}, window {opened.window_name} from {opened.window_starts_on}"
    lines = [
        f"{window}: stage {opened.stage}, labels {opened.label_class}, traffic {opened.traffic}.",
        f"Objective {_score(opened.objective)}, breached below {_score(_breach_below(opened))}.",
    ]
    for alert in alerts[:MAX_LISTED]:
        known = alert.opened
        lines.append(
            f"- {shown(known.segment_value)}: {_interval(known)}"
            + (f", 28 days before {_score(known.baseline_estimate)}" if known.baseline_estimate is not None else "")
            + f" (alert {alert.alert_id})"
        )
        if known.versions:
            lines.append(f"  versions seen: {', '.join(map(shown, known.versions))}")
    lines += _further(alerts)
    if opened.top_segments:
        lines.append("Largest parts of the shortfall:")
        lines += [
            f"- {shown(segment.segment_dimension)} = {shown(segment.segment_value)}: {_score(segment.estimate)} "
            f"on {segment.n_units:,} units, takes {_score(segment.contribution)} off the whole"
            for segment in opened.top_segments
        ]
    lines += [
        f"Owner: {shown(opened.owner)}. What to do: {shown(opened.runbook)}",
        f"De-duplication key: {dedup_key}. Take it: retrieval-quality alert --acknowledge {alerts[0].alert_id}",
    ]
    return "\n".join(lines)


def _resolved_body(dedup_key: str, alerts: Sequence[Alert], still_open: Sequence[Alert]) -> str:
    lines = []
    for alert in alerts[:MAX_LISTED]:
        end = alert.resolved
        now = f", now {_interval(end)}" if end is not None and end.estimate is not None else ""
        why = (end.reason or "") if end is not None else ""
        lines.append(
            f"- {shown(alert.opened.segment_value)}: {_REASONS.get(why, why)} by night {alert.resolved_night_on}; "
            f"opened on {alert.opened_night_on} at {_score(alert.opened.estimate)}{now} (alert {alert.alert_id})"
        )
    lines += _further(alerts)
    if still_open:
        lines.append(f"Still open: {', '.join(shown(alert.opened.segment_value) for alert in still_open[:MAX_LISTED])}")
    lines.append(f"De-duplication key: {dedup_key}.")
    return "\n".join(lines)


_REASONS: Final = {"recovered": "recovered", "no_traffic": "no traffic any more", "by_hand": "closed by hand"}


def _further(alerts: Sequence[Alert]) -> list[str]:
    n_more = len(alerts) - MAX_LISTED
    return [f"- and {n_more} more, see mart_alerts"] if n_more > 0 else []


def _in_segment(opened: AlertEvent) -> str:
    return "" if opened.segment_dimension == "total" else f" in {shown(opened.segment_value)}"


def _metric(event: AlertEvent) -> str:
    return f"{event.metric}@{event.k}" if event.k else f"{event.metric}"


def _interval(event: AlertEvent) -> str:
    bounds = f"[{_score(event.bound_low)}, {_score(event.bound_high)}]"
    return f"{_score(event.estimate)} {bounds} on {event.n_units or 0:,} units"


def _breach_below(event: AlertEvent) -> float | None:
    return None if event.objective is None or event.margin is None else event.objective - event.margin


def _score(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def shown(text: str | None) -> str:
    """Text that came with the data, in one short line that no chat program reads as markup."""
    line = re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text or "unknown").replace("<", "‹").replace(">", "›")
    return line if len(line) <= MAX_NAME_CHARS else f"{line[: MAX_NAME_CHARS - 1]}…"
