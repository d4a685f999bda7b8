"""Did the alert fire? What is expected of a drill, and what it found."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from retrieval_quality.drill.lists import CANDIDATE_RECALL, CONTROL, PRECISION, Degradation, Target
from retrieval_quality.drill.traces import Period
from retrieval_quality.drill.warehouse import Outcome

Verdict = Literal["caught", "missed", "silent", "false_page", "cannot_move"]


@dataclass(frozen=True)
class Finding:
    """One target of one variant. `nights_to_page` counts degraded nights, the one that paged included."""

    variant: str
    target: Target
    is_expected: bool
    objective: float
    healthy_mean: float
    degraded_mean: float
    nights_to_page: int | None
    units_to_page: int | None
    verdict: Verdict


@dataclass(frozen=True)
class DrillReport:
    """What a drill did and found. `source` says whose traces were degraded."""

    drill_id: str
    drilled_at: datetime
    source: str
    label_class: str
    period: Period
    n_traces_per_night: float
    degradations: tuple[Degradation, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def failures(self) -> tuple[str, ...]:
        """Why the drill is red, one line each; none where every degradation was caught and nothing else paged."""
        return tuple(
            f"{finding.variant}: {finding.target.name} {reason}"
            for finding in self.findings
            if (reason := _failure(finding)) is not None
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the numbers teach, where they do."""
        by_key = {(finding.variant, finding.target): finding for finding in self.findings}
        remarks = [
            f"{variant}: {_names(still)} cannot move, because the chunks in the top k are the same in any order; "
            f"{_names(caught)} caught it."
            for variant in dict.fromkeys(finding.variant for finding in self.findings)
            if (still := _targets(self.findings, variant, "cannot_move", stage="final"))
            and (caught := _targets(self.findings, variant, "caught"))
        ]
        cut = by_key.get(("cut_candidates", CANDIDATE_RECALL))
        kept = by_key.get(("cut_candidates", PRECISION))
        if cut is not None and kept is not None and cut.verdict == "caught" and kept.verdict != "caught":
            remarks.append(
                f"cut_candidates: {cut.target.name} fell from {cut.healthy_mean:.3f} to {cut.degraded_mean:.3f} while "
                f"{kept.target.name} went from {kept.healthy_mean:.3f} to {kept.degraded_mean:.3f}: the reranker hides "
                "it from objectives on the final list, the objective on the first stage caught it."
            )
        return tuple(remarks)


def finding_of(
    degradation: Degradation, target: Target, outcome: Outcome, objective: float, period: Period, *, is_movable: bool
) -> Finding:
    """Compare what a degradation had to do with what the warehouse says."""
    is_expected = target in degradation.must_page
    return Finding(
        variant=degradation.name,
        target=target,
        is_expected=is_expected,
        objective=objective,
        healthy_mean=outcome.healthy_mean,
        degraded_mean=outcome.degraded_mean,
        nights_to_page=_nights(period.degraded_from, outcome.paged_on),
        units_to_page=None if outcome.paged_on is None else outcome.n_units,
        verdict=_verdict(outcome, is_expected=is_expected, is_movable=is_movable, is_control=degradation is CONTROL),
    )


def _verdict(outcome: Outcome, *, is_expected: bool, is_movable: bool, is_control: bool) -> Verdict:
    is_paged = outcome.paged_on is not None
    if outcome.is_paged_before or (is_paged and (is_control or not is_movable)):
        return "false_page"
    if is_control:
        return "silent"
    if not is_movable:
        return "cannot_move"
    if is_paged:
        return "caught"
    return "missed" if is_expected else "silent"


def _failure(finding: Finding) -> str | None:
    if finding.verdict == "false_page":
        return "paged, and nothing was wrong"
    if finding.verdict == "missed":
        return "did not page"
    return "cannot move, so it cannot page" if finding.is_expected and finding.verdict == "cannot_move" else None


def _nights(degraded_from: date, paged_on: date | None) -> int | None:
    return None if paged_on is None else (paged_on - degraded_from).days + 1


def _targets(findings: tuple[Finding, ...], variant: str, verdict: Verdict, stage: str = "") -> list[Target]:
    return [
        finding.target
        for finding in findings
        if finding.variant == variant and finding.verdict == verdict and finding.target.stage.startswith(stage)
    ]


def _names(targets: list[Target]) -> str:
    return " and ".join(f"{target.metric}@{target.k}" for target in targets)
