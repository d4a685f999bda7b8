"""Which function counts what an expectation of a kind bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
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
from retrieval_quality.expectations.seed import KINDS, About

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


_N_LOOKED_AT: Final[Mapping[About, str]] = {
    "keys": "select coalesce(sum(n_lines), 0)::bigint from keys_",
    "types": "select count(*) from lines_",
    "ranked lists": "select count(*) from lines_",
}


def measure(asked: Asked) -> Measure:
    """Count what an expectation bounds. Raises duckdb.Error where that cannot be counted."""
    kind = asked.expectation.kind
    counted = _MEASURES[kind](asked)
    about = KINDS[kind].about
    if about not in _N_LOOKED_AT:
        return counted
    (n_sampled,) = asked.connection.execute(f"{_N_LOOKED_AT[about]}{asked.contract}").fetchall()[0]
    return replace(counted, n_sampled=n_sampled)
