"""Which alerts open and which are resolved: a pure function of the alerts so far and the verdicts."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from retrieval_quality.alerts.events import Alert

HEALTHY_STATES: Final = ("met", "at_risk")


@dataclass(frozen=True)
class Verdict:
    """A row of mart_slo_status: an objective and segment value on one night. Scores are shares."""

    slo_id: str
    segment_dimension: str
    segment_value: str
    night_on: dt.date
    is_newest: bool
    severity: str
    owner: str | None
    runbook: str | None
    metric: str
    k: int
    stage: str
    label_class: str
    traffic: str
    window_name: str
    window_starts_on: dt.date
    state: str
    estimate: float | None
    bound_low: float
    bound_high: float
    baseline_estimate: float | None
    objective: float
    margin: float
    n_units: int
    n_traces: int
    is_page: bool

    @property
    def key(self) -> tuple[str, str]:
        """Objective and segment value."""
        return (self.slo_id, self.segment_value)

    @property
    def is_healthy(self) -> bool:
        """Enough is known, nothing is breached, and the estimate reaches the objective."""
        return (
            self.state in HEALTHY_STATES
            and not self.is_page
            and self.estimate is not None
            and self.estimate >= self.objective
        )


@dataclass(frozen=True)
class Resolution:
    """An open alert that ends, the night that ends it, and the verdict of that night if there is one."""

    alert: Alert
    reason: Literal["recovered", "no_traffic", "by_hand"]
    night_on: dt.date
    verdict: Verdict | None


@dataclass(frozen=True)
class Decision:
    """What changes tonight."""

    to_open: tuple[Verdict, ...]
    to_resolve: tuple[Resolution, ...]


def decide(alerts: Sequence[Alert], verdicts: Sequence[Verdict], *, resolve_nights: int) -> Decision:
    """Open what is worth a page on its newest night; resolve what has been calm for `resolve_nights`.

    One alert at a time is open per objective and segment value, and no night opens two. An alert is
    calm on a night when it is healthy, or, being about a part of the traffic, when no trace of that
    part was seen while the objective saw others. The nights are the newest ones of the objective,
    each later than the one that opened the alert.
    """
    open_keys = {alert.key for alert in alerts if alert.is_open}
    told_until = {
        alert.key: max(other.resolved_night_on or other.opened_night_on for other in alerts if other.key == alert.key)
        for alert in alerts
    }
    to_open = tuple(
        verdict
        for verdict in verdicts
        if verdict.is_newest
        and verdict.is_page
        and verdict.key not in open_keys
        and verdict.night_on > told_until.get(verdict.key, dt.date.min)
    )
    resolutions = (_resolution(alert, verdicts, resolve_nights) for alert in alerts if alert.is_open)
    return Decision(to_open, tuple(resolution for resolution in resolutions if resolution is not None))


def _resolution(alert: Alert, verdicts: Sequence[Verdict], resolve_nights: int) -> Resolution | None:
    slo_id, _ = alert.key
    of_slo = [verdict for verdict in verdicts if verdict.slo_id == slo_id]
    nights = sorted({verdict.night_on for verdict in of_slo})[-resolve_nights:]
    if len(nights) < resolve_nights or nights[0] <= alert.opened_night_on:
        return None
    own = {verdict.night_on: verdict for verdict in of_slo if verdict.key == alert.key}
    busy = {verdict.night_on for verdict in of_slo if verdict.n_traces > 0}
    is_part = alert.opened.segment_dimension != "total"
    for night in nights:
        verdict = own.get(night)
        is_gone = is_part and night in busy and (verdict is None or verdict.n_traces == 0)
        if not is_gone and (verdict is None or not verdict.is_healthy):
            return None
    last = own.get(nights[-1])
    is_recovered = last is not None and last.is_healthy
    return Resolution(alert, "recovered" if is_recovered else "no_traffic", nights[-1], last)
