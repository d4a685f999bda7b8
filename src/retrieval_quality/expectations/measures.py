"""Which function counts what an expectation of a kind bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from retrieval_quality.expectations.measures_of_keys import known_key_share, misfit_share, unknown_keys
from retrieval_quality.expectations.measures_of_lines import (
    hours_since_newest,
    repeated_share,
    volume_ratio,
    without_trace_share,
)
from retrieval_quality.expectations.measures_of_lists import (
    against_declared_share,
    direction_flips,
    mixed_direction_share,
    other_rank_base_share,
)
from retrieval_quality.expectations.measuring import Asked, Measure

_MEASURES: Final[Mapping[str, Callable[[Asked], Measure]]] = {
    "hours_since_newest": hours_since_newest,
    "volume_ratio": volume_ratio,
    "repeated_share": repeated_share,
    "without_trace_share": without_trace_share,
    "unknown_keys": unknown_keys,
    "known_key_share": known_key_share,
    "misfit_share": misfit_share,
    "other_rank_base_share": other_rank_base_share,
    "against_declared_share": against_declared_share,
    "mixed_direction_share": mixed_direction_share,
    "direction_flips": direction_flips,
}


def measure(asked: Asked) -> Measure:
    """Count what an expectation bounds. Raises duckdb.Error where that cannot be counted."""
    return _MEASURES[asked.expectation.kind](asked)
