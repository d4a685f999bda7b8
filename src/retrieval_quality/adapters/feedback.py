"""Ratings of other tools as `feedback` rows."""

from collections.abc import Sequence
from typing import Final

from retrieval_quality.adapters.rows import (
    Item,
    LandingRow,
    Unmapped,
    number_of,
    seconds,
    text_of,
    time_us,
    without_none,
)

_JUDGES: Final = ("LLM", "LLM_JUDGE", "CODE", "EVAL", "MODEL", "AI_JUDGE")


def feedback_row(
    where: str,
    *,
    feedback_id: str | None,
    trace_id: str | None,
    session_id: str | None,
    label: object,
    score: object,
    given_at: object,
    rater: object,
    user: object,
    name: str,
    chunk_ids: Sequence[str] | None = None,
) -> Item:
    """One event. `score`: number or boolean; `label`: a word; the label goes before the score where
    there are both. Truth is 1 or 0; a score from 0 to 1 is read as such (scale `unit`).

    `rater`: what kind of rater (HUMAN, LLM, ...): programs and models are the signal `judge`.
    `chunk_ids`: what it speaks of; None is the whole answer. `name`: what was rated. `source`,
    `user` and `name` are no keys of the contract.
    """
    ts_us = time_us(given_at)
    if ts_us is None:
        return Unmapped(where, "feedback: no time, or one that cannot be read")
    rating = _rating(label, score)
    if rating is None:
        return Unmapped(where, "feedback: neither label nor score")
    kind = text_of(rater)
    is_judge = kind is not None and kind.upper() in _JUDGES
    is_unit = isinstance(rating, float) and 0 <= rating <= 1
    values = {
        "feedback_id": feedback_id,
        "trace_id": trace_id,
        "session_id": session_id,
        "chunk_ids": None if chunk_ids is None else list(chunk_ids),
        "rating": rating,
        "rating_scale": "unit" if is_unit else None,
        "implicit": False,
        "signal": "judge" if is_judge else None,
        "source": kind,
        "user": text_of(user),
        "rater_id": text_of(user) or (name or None if is_judge else None),
        "name": name or None,
        "ts": seconds(ts_us),
    }
    return LandingRow("feedback", without_none(values), ts_us)


def _rating(label: object, score: object) -> str | int | float | None:
    """A word as it is; truth as 1 or 0; whole numbers whole."""
    for value in (label, score):
        if isinstance(value, bool):
            return int(value)
        number = number_of(value)
        if number is not None:
            return int(number) if number.is_integer() else number
        if isinstance(value, str) and value.strip():
            return value.strip()
    return None
