"""Alerts: opened and resolved by the published verdicts, remembered in `alert_events`, sent by apprise."""

from retrieval_quality.alerts.events import AlertError
from retrieval_quality.alerts.report import describe, problems, record
from retrieval_quality.alerts.run import AlertReport, Outside, acknowledge, resolve_by_hand, run_alerts
from retrieval_quality.alerts.status import read_status

__all__ = [
    "AlertError",
    "AlertReport",
    "Outside",
    "acknowledge",
    "describe",
    "problems",
    "read_status",
    "record",
    "resolve_by_hand",
    "run_alerts",
]
