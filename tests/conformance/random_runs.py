"""Random lists and judgments, scored by pytrec_eval and ir_measures and by the project's SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import ir_measures
import numpy as np
import pytrec_eval
from conformance.comparisons import Compared, Measure, compare_query, trec_measure
from conformance.peer_cases import ir_measure
from conformance.scoring import Qrels, Run, Scores, Scoring

SEED: Final = 20260701
N_BATCHES: Final = 8
QUERIES_PER_BATCH: Final = 250
CUTOFFS: Final = (1, 2, 3, 5, 10, 30, 100)
TOLERANCE: Final = 1e-9

_TREC_WHOLE: Final = ("map", "ndcg", "Rprec", "bpref", "recip_rank", "set_P", "set_recall", "num_ret", "num_rel_ret")
_TREC_CUT: Final = ("P", "recall", "ndcg_cut", "map_cut", "success")
_IR_WHOLE: Final = ("RR", "nDCG", "AP", "Rprec", "Bpref", "SetP", "SetR", "Judged")
_IR_CUT: Final = ("P", "R", "RR", "nDCG", "AP", "Success", "Judged")
_IR_WITHOUT_LEVEL: Final = frozenset({"nDCG", "Judged"})


@dataclass(frozen=True)
class Batch:
    """Lists and judgments; a judged query without a list was not answered."""

    name: str
    run: Run
    qrels: Qrels
    relevant_from: int

    @property
    def orders(self) -> dict[str, dict[str, float]]:
        """The lists for tools that order by score: minus the rank, so that nothing ties. Without the
        empty ones, which crash pytrec_eval (0.5.11) and divide by zero in ir_measures (0.4.3).
        """
        return {
            query: {chunk: float(-rank) for rank, chunk in enumerate(chunks, 1)}
            for query, chunks in self.run.items()
            if chunks
        }


@dataclass(frozen=True)
class PeerComparisons:
    pytrec_eval: tuple[Compared, ...]
    ir_measures: tuple[Compared, ...]


def random_batches(seed: int = SEED) -> Iterator[Batch]:
    """The same batches for the same seed."""
    rng = np.random.default_rng(seed)
    for number in range(1, N_BATCHES + 1):
        run: dict[str, list[str]] = {}
        qrels: dict[str, dict[str, int]] = {}
        for query in (f"q{place:03d}" for place in range(QUERIES_PER_BATCH)):
            pool = [f"d{name}" for name in rng.permutation(1000)[: rng.choice([4, 15, 60, 300])]]
            n_listed = rng.integers(0, len(pool), endpoint=True)
            is_judged = rng.random(len(pool)) < rng.choice([0.1, 0.5, 0.9])
            # every third query has nothing that gains, or little that does
            highest = rng.choice([-1, 0, 1, 4, 4, 4])
            grades = rng.integers(-2, highest, size=len(pool), endpoint=True)
            judged = {chunk: int(grade) for chunk, grade, holds in zip(pool, grades, is_judged, strict=True) if holds}
            qrels[query] = judged or {pool[-1]: 1}
            if rng.random() > 0.04:
                run[query] = pool[:n_listed]
        yield Batch(f"batch {number}", run, qrels, relevant_from=2 if number % 4 == 0 else 1)


def compare(batch: Batch, scoring: Scoring) -> PeerComparisons:
    """Every value of both peers beside ours."""
    scores = scoring.score(batch.run, batch.qrels, cutoffs=CUTOFFS, relevant_from=batch.relevant_from, complete=True)
    return PeerComparisons(
        pytrec_eval=tuple(compare_pytrec_eval(batch, scores)), ir_measures=tuple(compare_ir_measures(batch, scores))
    )


def compare_batches(scoring: Scoring) -> PeerComparisons:
    """The random batches, all of them."""
    compared = [compare(batch, scoring) for batch in random_batches()]
    return PeerComparisons(
        pytrec_eval=tuple(value for batch in compared for value in batch.pytrec_eval),
        ir_measures=tuple(value for batch in compared for value in batch.ir_measures),
    )


def compare_pytrec_eval(batch: Batch, scores: Scores) -> list[Compared]:
    """Every measure of ours that pytrec_eval has, ndcg_exp included: ndcg over gains 2^grade - 1."""
    measures = {*_TREC_WHOLE, *(f"{stem}.{','.join(map(str, CUTOFFS))}" for stem in _TREC_CUT)}
    gain_measures = {"ndcg", f"ndcg_cut.{','.join(map(str, CUTOFFS))}"}
    values = pytrec_values(batch, readable(batch.qrels), measures)
    gains = pytrec_values(batch, exponential_gains(batch.qrels), gain_measures)
    compared = []
    for query in batch.qrels:
        # it leaves out a query that was not answered, which trec_eval -c scores 0
        theirs = values[query] if query in values else dict.fromkeys(_printed(measures), 0.0)
        named = [(trec_measure(name), value) for name, value in theirs.items()]
        expected = [(measure, value) for measure, value in named if measure is not None]
        theirs = gains[query] if query in gains else dict.fromkeys(_printed(gain_measures), 0.0)
        expected += [(_exponential(name), value) for name, value in theirs.items()]
        compared += _beside_ours(batch, scores, query, expected)
    return compared


def compare_ir_measures(batch: Batch, scores: Scores) -> list[Compared]:
    """Every measure of ours that ir_measures has; it gives queries without a list 0, as we do."""
    names = [_level(name, batch.relevant_from) for name in _IR_WHOLE]
    names += [f"{_level(name, batch.relevant_from)}@{k}" for name in _IR_CUT for k in CUTOFFS]
    measures = {ir_measures.parse_measure(name): ir_measure(name) for name in names}
    compared = []
    for value in ir_measures.iter_calc(list(measures), _dicts(readable(batch.qrels)), batch.orders):
        ours = measures[value.measure]
        if ours is None:
            raise ValueError(f"not a measure of ours: {value.measure}")
        compared += _beside_ours(batch, scores, value.query_id, [(ours.measure, float(value.value))])
    return compared


def pytrec_values(batch: Batch, qrels: Qrels, measures: set[str]) -> Mapping[str, Mapping[str, float]]:
    """pytrec_eval's values by query and measure, for the lists in their order."""
    evaluator = pytrec_eval.RelevanceEvaluator(_dicts(qrels), measures, relevance_level=batch.relevant_from)
    return evaluator.evaluate(batch.orders)


def readable(qrels: Qrels) -> Qrels:
    """Judgments that pytrec_eval survives: where all of a query are negative it reads beyond its
    arrays (0.5.11, a crash or any number), so they are 0.
    """
    return {query: grades if max(grades.values()) >= 0 else dict.fromkeys(grades, 0) for query, grades in qrels.items()}


def exponential_gains(qrels: Qrels) -> Qrels:
    """Grades whose linear gain is the exponential gain of the original ones."""
    return {
        query: {chunk: 2 ** max(grade, 0) - 1 for chunk, grade in grades.items()} for query, grades in qrels.items()
    }


def _beside_ours(batch: Batch, scores: Scores, query: str, expected: list[tuple[Measure, float]]) -> list[Compared]:
    return [
        compare_query(
            *(batch.name, query, measure, value),
            scores=scores,
            run=batch.run,
            qrels=batch.qrels,
            tolerance=TOLERANCE,
            relevant_from=batch.relevant_from,
        )
        for measure, value in expected
    ]


def _printed(measures: set[str]) -> list[str]:
    """The names of the values that pytrec_eval gives for these measures."""
    names = []
    for measure in sorted(measures):
        stem, _, cutoffs = measure.partition(".")
        names += [f"{stem}_{cutoff}" for cutoff in cutoffs.split(",")] if cutoffs else [stem]
    return names


def _exponential(name: str) -> Measure:
    cutoff = name.removeprefix("ndcg").removeprefix("_cut_")
    return Measure(f"exponential {name}", "ndcg_exp", int(cutoff or 0))


def _level(name: str, relevant_from: int) -> str:
    return name if relevant_from == 1 or name in _IR_WITHOUT_LEVEL else f"{name}(rel={relevant_from})"


def _dicts(qrels: Qrels) -> dict[str, dict[str, int]]:
    return {query: dict(grades) for query, grades in qrels.items()}
