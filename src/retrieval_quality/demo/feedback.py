"""Simulated feedback: thumbs, copies and reformulations, drawn from the known relevance.

Nobody gave this feedback. It follows the relevance that the demo knows, with noise, and each landed
row says so (``"simulated": true``).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from retrieval_quality.demo.landing import digest
from retrieval_quality.demo.traffic import Trace

FEEDBACK_SHARE = 0.18
FLIP_SHARE = 0.10
CORRECTNESS_FLIP_SHARE = 0.05
ANSWER_LEVEL_SHARE = 0.3
NO_TRACE_ID_SHARE = 0.1
LATE_SHARE = 0.05


@dataclass(frozen=True)
class Feedback:
    """One piece of simulated feedback. ``chunks`` None: about the whole answer."""

    feedback_id: str
    session_id: str
    trace_id: str | None
    chunks: tuple[int, ...] | None
    rating: int
    signal: str
    answer_correct: bool | None
    rater_id: str
    dwell_ms: int | None
    ts: int
    delivered_at: int
    is_flipped: bool

    @property
    def is_implicit(self) -> bool:
        """Inferred from behaviour, where a thumb is a statement."""
        return self.signal != "thumb"


def simulate_feedback(sessions: Sequence[Sequence[Trace]], seed: str) -> tuple[Feedback, ...]:
    """Simulated feedback of about ``FEEDBACK_SHARE`` of the sessions, from the known relevance.

    What a user perceives of the last answer is wrong with probability ``FLIP_SHARE``. A perceived
    hit gives a thumb up or a copy (sometimes both), a perceived miss a thumb down; a rephrased
    question often gives a reformulation against the answer before it.
    """
    events: list[Feedback] = []
    for session in sessions:
        rng = random.Random(f"{seed}:feedback:{session[0].session_id}")
        if rng.random() < FEEDBACK_SHARE:
            events.extend(_session_feedback(session, rng, seed))
    return tuple(events)


def _session_feedback(session: Sequence[Trace], rng: random.Random, seed: str) -> Iterator[Feedback]:
    """The simulated feedback of one session, at least one event."""
    for trace, following in pairwise(session):
        if trace.target == following.target and rng.random() < 0.6:
            chunks = _shown(trace, 3) if rng.random() < 0.75 else None
            yield _feedback(trace, rng, seed, signal="reformulation", rating=0, chunks=chunks, flipped=False)
    last = session[-1]
    flipped = rng.random() < FLIP_SHARE
    answer_level = rng.random() < ANSWER_LEVEL_SHARE
    right = (last.target,) if last.is_hit and last.target is not None else None
    if last.is_hit == flipped:
        chunks = None if answer_level else right or _shown(last, rng.randint(1, 3))
        yield _feedback(last, rng, seed, signal="thumb", rating=0, chunks=chunks, flipped=flipped)
        return
    liked = right or _shown(last, 1)
    behaviour = rng.random()
    if behaviour < 0.6 or liked is None:
        chunks = None if answer_level else liked
        yield _feedback(last, rng, seed, signal="thumb", rating=1, chunks=chunks, flipped=flipped)
    if behaviour >= 0.5 and liked is not None:
        yield _feedback(last, rng, seed, signal="copy", rating=1, chunks=liked, flipped=flipped)


def _shown(trace: Trace, n: int) -> tuple[int, ...] | None:
    """The first ``n`` passages shown, or None where nothing was."""
    return tuple(h.passage for h in trace.ranking.final[:n]) or None


def _feedback(
    trace: Trace,
    rng: random.Random,
    seed: str,
    *,
    signal: str,
    rating: int,
    chunks: tuple[int, ...] | None,
    flipped: bool,
) -> Feedback:
    """One simulated event shortly after its trace, now and then delivered a day late."""
    correct = None
    if signal == "thumb" and rng.random() < 0.5:
        correct = trace.is_hit != (rng.random() < CORRECTNESS_FLIP_SHARE)
    ts = trace.ts + rng.randint(4, 90)
    delay = rng.randint(20 * 3600, 30 * 3600) if rng.random() < LATE_SHARE else rng.randint(1, 20)
    return Feedback(
        feedback_id=f"f-{digest(seed, trace.trace_id, signal)}",
        session_id=trace.session_id,
        trace_id=None if rng.random() < NO_TRACE_ID_SHARE else trace.trace_id,
        chunks=chunks,
        rating=rating,
        signal=signal,
        answer_correct=correct,
        rater_id=trace.user_id or trace.session_id,
        dwell_ms=rng.randint(2_000, 90_000) if signal == "copy" else None,
        ts=ts,
        delivered_at=ts + delay,
        is_flipped=flipped,
    )
