"""Cases recorded while the test suites of pytrec_eval, ir_measures and ranx ran."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import ir_measures
import numpy as np
from conformance.comparisons import Compared, Measure, compare_all, compare_query, trec_measure
from conformance.scoring import Scores, Scoring
from support import SHARED

FOLDER: Final = SHARED / "data" / "peers"
TOLERANCE: Final = 1e-9
GDEVAL_TOLERANCE: Final = 5e-6 + 1e-9
"""gdeval.pl prints five decimals."""

_WHOLE: Final = {
    "RR": "reciprocal_rank",
    "nDCG": "ndcg",
    "AP": "average_precision",
    "Rprec": "r_precision",
    "Bpref": "bpref",
    "SetP": "precision",
    "SetR": "recall",
    "Judged": "judged",
    "NumRel": "n_relevant",
}
_CUT: Final = {
    "P": "precision",
    "R": "recall",
    "RR": "reciprocal_rank",
    "nDCG": "ndcg",
    "AP": "average_precision",
    "Success": "hit_rate",
    "Judged": "judged",
}
_RANX: Final = {
    "hits@5": (Measure("hits@5", "n_hits", 5),),
    "hit_rate@5": (Measure("hit_rate@5", "hit_rate", 5),),
    "mrr@5": (Measure("mrr@5", "reciprocal_rank", 5),),
    "r-precision": (Measure("r-precision", "r_precision", 0),),
    "recall@2": (Measure("recall@2", "recall", 2),),
    "ndcg@10 (linear gain)": (Measure("ndcg@10", "ndcg", 10),),
    "ndcg_burges@10 (gain 2^rel-1)": (Measure("ndcg_burges@10", "ndcg_exp", 10),),
    "precision / recall": (Measure("precision", "precision", 0), Measure("recall", "recall", 0)),
}


@dataclass(frozen=True)
class PeerResult:
    """The values compared, the measures that are not ours, and how many recorded cases there are."""

    compared: tuple[Compared, ...]
    not_ours: frozenset[str]
    n_cases: int


@dataclass(frozen=True)
class IrMeasure:
    """A measure of ir_measures as ours, with the grade from which it counts a chunk as relevant."""

    measure: Measure
    relevant_from: int


def ir_measure(name: str) -> IrMeasure | None:
    """A measure by its ir_measures name, such as `P(rel=2)@5`; None where it is not one of ours."""
    parsed = ir_measures.parse_measure(name)
    parameters = dict(parsed.params)
    cutoff = parameters.pop("cutoff", None)
    relevant_from = parameters.pop("rel", 1)
    is_exponential = parameters.pop("dcg", None) == "exp-log2"
    if parsed.NAME == "NumRet":
        # counts what was retrieved, or what was retrieved and is relevant
        metric = "n_hits" if "rel" in parsed.params else "n_returned"
    else:
        metric = (_WHOLE if cutoff is None else _CUT).get(parsed.NAME, "")
    if not metric or parameters:
        return None
    if is_exponential:
        metric = "ndcg_exp"
    return IrMeasure(Measure(name, metric, cutoff or 0, is_sum=parsed.NAME.startswith("Num")), relevant_from)


def compare_pytrec_eval(scoring: Scoring) -> PeerResult:
    """Its order is trec_eval's, by scores in single precision."""
    compared: list[Compared] = []
    not_ours = set()
    cases = _recorded("pytrec_eval")
    for number, case in enumerate(cases, 1):
        qrels = case["qrels"]
        run = {query: _by_score(listed, last_id_first=True) for query, listed in case["run"].items()}
        scores = scoring.score(run, qrels)
        for query, values in case["per_query"].items():
            for name, value in values.items():
                measure = trec_measure(name)
                if measure is None:
                    not_ours.add(name)
                    continue
                compared.append(
                    compare_query(
                        *(f"{number} {case['test']}", query, measure, value),
                        scores=scores,
                        run=run,
                        qrels=qrels,
                        tolerance=TOLERANCE,
                    )
                )
    return PeerResult(tuple(compared), frozenset(not_ours), len(cases))


def compare_ir_measures(scoring: Scoring) -> PeerResult:
    """Every query's value and every mean, whichever of its providers gave them."""
    compared: list[Compared] = []
    not_ours = set()
    cases = _recorded("ir_measures")
    for number, case in enumerate(cases, 1):
        name = f"{number} {case['test']}"
        qrels: dict[str, dict[str, int]] = defaultdict(dict)
        for query, chunk, grade, *_ in case["qrels"]:
            qrels[query][chunk] = grade
        listed: dict[str, dict[str, float]] = defaultdict(dict)
        for query, chunk, score in case["run"]:
            listed[query][chunk] = score
        # trec_eval's code orders ties by the last id, the providers written in Python by the first
        last_id_first = case["provider"] in {"PytrecEvalProvider", "GdevalProvider", "CwlEvalProvider"}
        run = {query: _by_score(scored, last_id_first=last_id_first) for query, scored in listed.items()}
        tolerance = GDEVAL_TOLERANCE if case["provider"] == "GdevalProvider" else TOLERANCE
        scores_by_level: dict[int, Scores] = {}
        for text in case["per_query"].keys() | case["mean"].keys():
            ours = ir_measure(text)
            if ours is None:
                not_ours.add(text)
                continue
            level = ours.relevant_from
            if level not in scores_by_level:
                scores_by_level[level] = scoring.score(run, qrels, relevant_from=level, complete=True)
            measure = _exponential(ours.measure) if case["provider"] == "GdevalProvider" else ours.measure
            for query, value in case["per_query"].get(text, {}).items():
                compared.append(
                    compare_query(
                        *(name, query, measure, value),
                        scores=scores_by_level[level],
                        run=run,
                        qrels=qrels,
                        tolerance=tolerance,
                        relevant_from=level,
                    )
                )
            if text in case["mean"]:
                compared.append(
                    compare_all(
                        *(name, measure, case["mean"][text]),
                        scores=scores_by_level[level],
                        queries=sorted(qrels),
                        tolerance=tolerance,
                    )
                )
    return PeerResult(tuple(compared), frozenset(not_ours), len(cases))


def compare_ranx(scoring: Scoring) -> PeerResult:
    """The asserts of its unit tests, which are means over two or three lists."""
    compared: list[Compared] = []
    not_ours = set()
    cases = _recorded("ranx")
    for number, case in enumerate(cases, 1):
        measures = _RANX.get(case["measure"])
        if measures is None:
            not_ours.add(case["measure"])
            continue
        qrels = {str(query): _grades(judged) for query, judged in enumerate(case["qrels"])}
        # staging keeps the first of a repeated chunk; ranx's values are the same either way
        run = {str(query): list(dict.fromkeys(map(str, chunks))) for query, chunks in enumerate(case["run"])}
        scores = scoring.score(run, qrels)
        compared += [
            compare_all(
                *(f"{number} {case['test']}", measure, case["expected_mean"]),
                scores=scores,
                queries=sorted(qrels),
                tolerance=TOLERANCE,
            )
            for measure in measures
        ]
    return PeerResult(tuple(compared), frozenset(not_ours), len(cases))


def _recorded(peer: str) -> list[dict[str, Any]]:
    with (FOLDER / peer / "cases.jsonl").open() as file:
        return [json.loads(line) for line in file]


def _by_score(scores: Mapping[str, float], *, last_id_first: bool) -> list[str]:
    ordered = sorted(scores, reverse=last_id_first)
    return sorted(ordered, key=lambda chunk: -np.float32(scores[chunk]))


def _grades(judged: Sequence[int | Sequence[int]]) -> dict[str, int]:
    return {str(pair[0]): pair[1] for pair in ((chunk, 1) if isinstance(chunk, int) else chunk for chunk in judged)}


def _exponential(measure: Measure) -> Measure:
    return replace(measure, metric="ndcg_exp") if measure.metric == "ndcg" else measure
