"""A drill from a landing folder to a report."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Final

from retrieval_quality.drill.lists import CONTROL, TARGETS, Degradation
from retrieval_quality.drill.traces import DrillError, Period, movable, read_evaluations, write_variant
from retrieval_quality.drill.verdicts import DrillReport, finding_of
from retrieval_quality.drill.warehouse import ScratchWarehouse

NIGHTS: Final = 5
HISTORY: Final = 7
HISTORY_SMALL: Final = 3
REPORTED_DAYS: Final = 28


@dataclass(frozen=True)
class Source:
    """What is drilled: a landing folder, its name in the report, and the UTC day its nights end before.

    Without `ends_on` the newest evaluated day is the last.
    """

    name: str
    landing: Path
    ends_on: date | None = None


def run_drill(
    source: Source,
    scratch: Path,
    *,
    project_dir: Path,
    degradations: Sequence[Degradation],
    drilled_at: datetime,
    nights: int = NIGHTS,
    history: int = HISTORY,
    variables: Mapping[str, object] | None = None,
    on_progress: Callable[[str], None],
) -> DrillReport:
    """Degrade the last `nights` of a copy of `source` below `scratch`, after `history` healthy days.

    Every degradation, and a control beside them, is an index version of one warehouse, built by the
    project in `project_dir` with objectives drawn from the healthy days. `source` and the project
    are only read. Raises DrillError when there is nothing to drill on, and what a build raises.
    """
    _check_days(nights, history)
    warehouse = ScratchWarehouse(scratch)
    warehouse.copy_project(project_dir)
    on_progress("reading the evaluations")
    everything = read_evaluations(source.landing, warehouse.label_classes)
    ends_on = source.ends_on or everything.newest_day + timedelta(days=1)
    degraded_from = ends_on - timedelta(days=nights)
    period = Period(degraded_from - timedelta(days=history), degraded_from, ends_on)
    evaluations = everything.within(period)

    variants = (CONTROL, *degradations)
    for variant in variants:
        on_progress(f"landing {variant.name}")
        write_variant(warehouse.landing, evaluations, variant, period)
    for contract in ("queries", "qrels"):
        if (source.landing / contract).is_dir():
            shutil.copytree(source.landing / contract, warehouse.landing / contract)
    warehouse.score(period, variables or {}, on_progress)

    label_class = evaluations.label_class
    means = warehouse.means(label_class, period.starts_on, period.degraded_from)
    healthy = {target: mean for target in TARGETS if (mean := means.get((CONTROL.name, target))) is not None}
    if not healthy:
        raise DrillError(f"the warehouse scored nothing of the evaluated traces by {label_class} labels")
    objectives = warehouse.set_objectives(label_class, [variant.name for variant in variants], healthy)
    warehouse.judge(period, variables or {}, on_progress)

    outcomes = warehouse.outcomes(label_class, period)
    moved = {variant.name: movable(evaluations, variant, period, TARGETS) for variant in variants}
    drilled = [
        variant
        for variant in variants
        if variant is CONTROL or (moved[variant.name] and objectives.keys() & set(variant.must_page))
    ]
    findings = [
        finding_of(
            variant, target, outcomes[variant.name, target], objective, period, is_movable=target in moved[variant.name]
        )
        for variant in drilled
        for target, objective in objectives.items()
    ]
    return DrillReport(
        drill_id=f"{source.name}-{drilled_at:%Y%m%dT%H%M%SZ}",
        drilled_at=drilled_at,
        source=source.name,
        label_class=label_class,
        period=period,
        n_traces_per_night=sum(trace.day >= degraded_from for trace in evaluations.traces) / nights,
        degradations=tuple(drilled),
        findings=tuple(findings),
        notes=_notes([target.name for target in TARGETS if target not in objectives], set(variants) - set(drilled)),
    )


def _check_days(nights: int, history: int) -> None:
    if nights < 1 or history < 1:
        raise DrillError("a drill needs at least one degraded night and one healthy day before it")
    if nights + history > REPORTED_DAYS:
        raise DrillError(f"nights and history add up to {nights + history} days, at most {REPORTED_DAYS} are judged")


def _notes(unwatched: Sequence[str], left_out: set[Degradation]) -> tuple[str, ...]:
    return (
        *(f"{name} is not watched: it has no scores, or they are too low for an objective" for name in unwatched),
        *(
            f"{name} is left out: it changes no list here, or nothing that has to catch it is watched"
            for name in sorted(variant.name for variant in left_out)
        ),
    )
