"""A run of alerting as lines of text, or as JSON."""

import datetime as dt
from collections.abc import Sequence

from retrieval_quality.alerts.decide import Verdict
from retrieval_quality.alerts.events import Alert
from retrieval_quality.alerts.messages import shown
from retrieval_quality.alerts.run import AlertReport, Send
from retrieval_quality.settings import ALERT_URLS


def describe(report: AlertReport) -> list[str]:
    """The run as lines of text; of a dry run also the messages that would be sent."""
    opened = "would open" if report.is_dry_run else "opened"
    resolved = "would be resolved" if report.is_dry_run else "resolved"
    changes = f"{len(report.opened)} {opened}, {len(report.resolved)} {resolved}, {len(report.open)} open"
    lines = [f"Alerts: {changes}; newest verdicts breached or worth a page: {len(report.breached)}."]
    new = {alert.alert_id for alert in report.opened}
    lines += [f"  {_alert_line(alert, 'new' if alert.alert_id in new else 'open')}" for alert in report.open]
    lines += [f"  {_alert_line(alert, 'resolved')}" for alert in report.resolved]
    paged = {alert.key for alert in report.open}
    lines += [f"  {_verdict_line(verdict)}" for verdict in report.breached if verdict.key not in paged]
    if report.is_dry_run:
        for dry in report.sends:
            lines += ["", f"To {dry.message.channel} (key {dry.message.dedup_key}, {dry.message.action}):"]
            lines += [f"  {line}" for line in (dry.message.title, *dry.message.body.splitlines())]
    elif report.sends:
        lines.append(f"Messages: {len(report.sends) - len(report.failed)} sent, {len(report.failed)} failed.")
    if report.open and not report.has_channels and not report.is_dry_run:
        lines.append(f"Recorded, nobody told: {ALERT_URLS} is not set.")
    return lines


def problems(report: AlertReport) -> list[str]:
    """What went wrong, a line each: for standard error."""
    lines = [
        f"error: message about {send.message.slo_id} did not reach {send.message.channel} "
        f"({_error(send)} after {_attempts(send)}); it is kept and tried again by the next run"
        for send in report.failed
    ]
    if report.n_unreadable:
        lines.append(f"warning: {report.n_unreadable} lines of alert_events cannot be read and are ignored")
    return lines


def record(report: AlertReport) -> dict[str, object]:
    """The run as a JSON object; times in ISO 8601 UTC."""
    return {
        "publication_id": report.status.publication_id,
        "as_of": f"{report.status.as_of.isoformat()}Z",
        "dry_run": report.is_dry_run,
        "opened": _ids(report.opened),
        "resolved": _ids(report.resolved),
        "open": [_alert_record(alert) for alert in report.open],
        "breached": [
            {"slo_id": verdict.slo_id, "segment_value": verdict.segment_value, "night_on": verdict.night_on.isoformat(),
             "state": verdict.state, "estimate": verdict.estimate, "is_page": bool(verdict.is_page)}
            for verdict in report.breached
        ],
        "messages": [
            {"channel": send.message.channel, "dedup_key": send.message.dedup_key, "action": send.message.action,
             "alert_ids": _ids(send.message.alerts), "title": send.message.title, "body": send.message.body,
             "n_attempts": send.outcome.n_attempts if send.outcome else 0,
             "is_sent": send.outcome is not None and send.outcome.error is None,
             "error": send.outcome.error if send.outcome else None}
            for send in report.sends
        ],
        "exit_code": report.exit_code,
    }  # fmt: skip


def _alert_record(alert: Alert) -> dict[str, object]:
    known = alert.opened
    return {
        "alert_id": alert.alert_id,
        "dedup_key": known.dedup_key,
        "slo_id": known.slo_id,
        "segment_value": known.segment_value,
        "severity": known.severity,
        "opened_night_on": alert.opened_night_on.isoformat(),
        "known_estimate": known.estimate,
        "known_bound_low": known.bound_low,
        "known_bound_high": known.bound_high,
        "known_n_units": known.n_units,
        "is_acknowledged": alert.acknowledged is not None,
    }


def _ids(alerts: Sequence[Alert]) -> list[str]:
    return [alert.alert_id for alert in alerts]


def _alert_line(alert: Alert, word: str) -> str:
    known = alert.opened
    acknowledged = f", taken by {shown(alert.acknowledged.actor)}" if alert.acknowledged is not None else ""
    bounds = f"[{_score(known.bound_low)}, {_score(known.bound_high)}]"
    return (
        f"{word:<8} {alert.alert_id}  {shown(known.severity)}: {shown(known.slo_id)}, {shown(known.segment_value)}: "
        f"{known.metric}@{known.k} was {_score(known.estimate)} {bounds} on {_day(alert.opened_night_on)}, "
        f"objective {_score(known.objective)}{acknowledged}"
    )


def _verdict_line(verdict: Verdict) -> str:
    return (
        f"{'breached':<8} {'no alert':<12}  {shown(verdict.severity)}: {shown(verdict.slo_id)}, "
        f"{shown(verdict.segment_value)}: {verdict.metric}@{verdict.k} is {_score(verdict.estimate)} "
        f"[{_score(verdict.bound_low)}, {_score(verdict.bound_high)}] on {_day(verdict.night_on)}, "
        f"objective {_score(verdict.objective)}"
    )


def _day(day: dt.date) -> str:
    return day.isoformat()


def _score(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _error(send: Send) -> str:
    return (send.outcome.error if send.outcome else None) or "not_delivered"


def _attempts(send: Send) -> str:
    n = send.outcome.n_attempts if send.outcome else 0
    return "1 attempt" if n == 1 else f"{n} attempts"
