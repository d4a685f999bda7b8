"""One published value beside ours, and whose measure is which column of fct_query_scores."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from conformance.scoring import Qrels, Run, Scores

_NEEDS_RELEVANT: Final = frozenset(
    {
        *("recall", "context_recall", "hit_rate", "reciprocal_rank", "average_precision"),
        *("r_precision", "bpref", "ndcg", "ndcg_exp"),
    }
)
_NEEDS_RETURNED: Final = frozenset({"judged", "precision_returned"})
_GAINS: Final = frozenset({"ndcg", "ndcg_exp"})

_TREC_WHOLE: Final = {
    "map": "average_precision",
    "ndcg": "ndcg",
    "Rprec": "r_precision",
    "Rprec_mult_1.00": "r_precision",
    "bpref": "bpref",
    "recip_rank": "reciprocal_rank",
    "set_P": "precision",
    "set_recall": "recall",
    "num_ret": "n_returned",
    "num_rel": "n_relevant",
    "num_rel_ret": "n_hits",
}
_TREC_CUT: Final = {
    "P": "precision",
    "recall": "recall",
    "ndcg_cut": "ndcg",
    "map_cut": "average_precision",
    "success": "hit_rate",
    "unj": "judged",
}


@dataclass(frozen=True)
class Measure:
    """A measure of another tool, as a column and cutoff of ours.

    `is_complement`: it is 1 - ours. `is_sum`: its value over all queries is a sum, not a mean.
    """

    theirs: str
    metric: str
    k: int
    is_complement: bool = False
    is_sum: bool = False

    def of(self, ours: float) -> float:
        """Our value in their terms."""
        return 1 - ours if self.is_complement else ours

    @property
    def label(self) -> str:
        return label(self.theirs) if self.k else self.theirs


@dataclass(frozen=True)
class Compared:
    """One value of another tool and ours.

    `is_undefined` follows from the input alone: a complete class with nothing relevant, or nothing
    returned where the measure is a share of what was returned. Ours must then be NULL, theirs is 0.
    `explanation` says why a value must differ: a convention of theirs that we do not follow, shown
    by a test of its own.
    """

    case: str
    query: str
    measure: Measure
    expected: float
    ours: float | None
    tolerance: float
    is_undefined: bool = False
    explanation: str = ""

    @property
    def agrees(self) -> bool:
        if self.is_undefined:
            return self.ours is None and self.expected == 0
        return self.ours is not None and abs(self.ours - self.expected) <= self.tolerance

    def __str__(self) -> str:
        explained = f" (should differ: {self.explanation})" if self.explanation else ""
        return (
            f"{self.case}: {self.measure.theirs} of {self.query}: expected {self.expected!r}, "
            f"ours is {self.ours!r}{explained}"
        )


def label(name: str) -> str:
    """The name of a measure with k for its cutoff or other parameters: P_k, P@k, iprec_at_recall_k."""
    return re.sub(r"(?<=[_@])[-\d.,=]+$", "k", name)


def differences(compared: Iterable[Compared]) -> list[str]:
    """What differs without an explanation, and what agrees in spite of one: a line each."""
    return [str(value) for value in compared if value.agrees == bool(value.explanation)]


def trec_measure(name: str) -> Measure | None:
    """A measure of trec_eval or pytrec_eval by its printed name; None where it is not one of ours."""
    if name in _TREC_WHOLE:
        return Measure(name, _TREC_WHOLE[name], 0, is_sum=name.startswith("num_"))
    stem, _, cutoff = name.rpartition("_")
    if stem in _TREC_CUT and cutoff.isdecimal():
        return Measure(name, _TREC_CUT[stem], int(cutoff), is_complement=stem == "unj")
    return None


def compare_query(
    case: str,
    query: str,
    measure: Measure,
    expected: float,
    *,
    scores: Scores,
    run: Run,
    qrels: Qrels,
    tolerance: float,
    relevant_from: int = 1,
) -> Compared:
    """One query's value beside ours."""
    ours = scores.get((query, measure.metric, measure.k))
    ours = None if ours is None else measure.of(ours)
    undefined = is_undefined(measure.metric, run.get(query, ()), qrels[query], relevant_from)
    return Compared(case, query, measure, expected, ours, tolerance, undefined)


def compare_all(
    case: str,
    measure: Measure,
    expected: float,
    *,
    scores: Scores,
    queries: Iterable[str],
    tolerance: float,
) -> Compared:
    """The value over all queries beside the mean (or sum) of ours; what is NULL with us is 0 with them."""
    defined = [scores[query, measure.metric, measure.k] for query in queries]
    values = [0.0 if value is None else measure.of(value) for value in defined]
    ours = sum(values) if measure.is_sum else sum(values) / len(values)
    return Compared(case, "all", measure, expected, ours, tolerance)


def is_undefined(metric: str, chunks: Iterable[str], grades: Mapping[str, int], relevant_from: int) -> bool:
    """Is there nothing that the metric could be a share of? For a complete label class."""
    least_grade = 1 if metric in _GAINS else relevant_from
    nothing_relevant = all(grade < least_grade for grade in grades.values())
    return (metric in _NEEDS_RELEVANT and nothing_relevant) or (metric in _NEEDS_RETURNED and not list(chunks))
