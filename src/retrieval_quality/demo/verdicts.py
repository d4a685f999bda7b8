"""Simulated verdicts: an audit of a random sample, and a judge that is cheaper and errs more often.

Nobody looked at these lists. Both follow the relevance that the demo knows, with noise, and each
landed row says so (``"simulated": true``).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from retrieval_quality.demo.landing import digest
from retrieval_quality.demo.traffic import Trace

AUDIT_SHARE = 0.06
JUDGE_SHARE = 0.3


@dataclass(frozen=True)
class Verdict:
    """What a simulated auditor or judge says of some shown passages: all relevant, or none."""

    feedback_id: str
    session_id: str
    trace_id: str
    chunks: tuple[int, ...]
    rating: int
    signal: str
    inclusion_probability: float | None
    ts: int


@dataclass(frozen=True)
class _Labeller:
    """Who gives verdicts: how long after the trace, and how often wrong on a passage."""

    signal: str
    delay_s: int
    misses: float
    likes_anything: float


AUDITOR = _Labeller("audit", 20 * 3600, 0.02, 0.005)
JUDGE = _Labeller("judge", 600, 0.15, 0.04)


def simulate_verdicts(sessions: Sequence[Sequence[Trace]], seed: str) -> tuple[Verdict, ...]:
    """Simulated verdicts on every list of the sessions drawn.

    The audit draws sessions at random with probability ``AUDIT_SHARE``, which its rows name; the
    judge sees those, and of the others ``JUDGE_SHARE`` at random.
    """
    verdicts: list[Verdict] = []
    for session in sessions:
        rng = random.Random(f"{seed}:verdicts:{session[0].session_id}")
        is_audited = rng.random() < AUDIT_SHARE
        is_judged = is_audited or rng.random() < JUDGE_SHARE
        for trace in session:
            if is_audited:
                verdicts.extend(_verdicts(trace, AUDITOR, AUDIT_SHARE, rng, seed))
            if is_judged:
                verdicts.extend(_verdicts(trace, JUDGE, None, rng, seed))
    return tuple(verdicts)


def _verdicts(
    trace: Trace, labeller: _Labeller, inclusion_probability: float | None, rng: random.Random, seed: str
) -> Iterator[Verdict]:
    """The liked passages of a list in one verdict, the others in a second."""
    liked: list[int] = []
    others: list[int] = []
    for passage in dict.fromkeys(hit.passage for hit in trace.ranking.final):
        chance = 1 - labeller.misses if passage == trace.target else labeller.likes_anything
        (liked if rng.random() < chance else others).append(passage)
    for rating, chunks in ((1, liked), (0, others)):
        if chunks:
            yield Verdict(
                feedback_id=f"v-{digest(seed, trace.trace_id, labeller.signal, rating)}",
                session_id=trace.session_id,
                trace_id=trace.trace_id,
                chunks=tuple(chunks),
                rating=rating,
                signal=labeller.signal,
                inclusion_probability=inclusion_probability,
                ts=trace.ts + labeller.delay_s,
            )
