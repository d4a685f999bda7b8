"""trec_eval's own regression cases: what it printed, beside the project's scoring SQL."""

from __future__ import annotations

import csv
import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from conformance.comparisons import Compared, compare_all, compare_query, trec_measure
from conformance.scoring import Qrels, Run, Scoring
from support import SHARED

FOLDER: Final = SHARED / "data" / "peers" / "trec_eval"
CASES: Final = (
    *("base_all_trec", "comments", "complete_c", "complete_c_M100"),
    *("meas_params", "rel_level_2"),
)
TOLERANCE: Final = 5e-5 + 1e-9
"""trec_eval prints four decimals."""
NOT_OURS: Final = frozenset(
    {
        *("11pt_avg", "11pt_avg_k", "G", "Rndcg", "Rprec_mult_k", "binG", "gm_bpref", "gm_map", "infAP"),
        *("iprec_at_recall_k", "ndcg_k", "ndcg_rel", "num_nonrel_judged_ret", "num_q", "rbp", "rbp_resid"),
        *("relative_P_k", "relstring", "relstring_k", "runid", "set_F", "set_map", "set_relative_P"),
        *("utility", "utility_k"),
    }
)
"""What trec_eval prints and fct_query_scores does not hold; k stands for any parameter (ndcg_k: gains)."""
NEGATIVE_GRADES: Final = "trec_eval reads a negative grade as unjudged"
_UNJUDGED_BY_TREC_EVAL: Final = frozenset({("rel_level_2", "303"), ("rel_level_2", "all")})


@dataclass(frozen=True)
class TrecCase:
    """A case of trec_eval's suite; `run` is in trec_eval's order, which ignores the rank column."""

    name: str
    run: Run
    qrels: Qrels
    expected: tuple[tuple[str, str, str], ...]
    relevant_from: int
    is_complete: bool


@dataclass(frozen=True)
class TrecResult:
    compared: tuple[Compared, ...]
    not_ours: frozenset[str]


def read_case(name: str) -> TrecCase:
    folder = FOLDER / name
    options = json.loads((folder / "case.json").read_text())["command"].split()
    depth = next((int(option[2:]) for option in options if option.startswith("-M")), None)
    level = next((int(option[2:]) for option in options if option.startswith("-l")), 1)
    scores: dict[str, list[tuple[float, bytes]]] = defaultdict(list)
    for query, _, chunk, _, score, *_ in _lines(folder, "run"):
        scores[query].append((float(score), chunk.encode()))
    qrels: dict[str, dict[str, int]] = defaultdict(dict)
    for query, _, chunk, grade, *_ in _lines(folder, "qrels"):
        qrels[query][chunk] = int(grade)
    with (folder / "expected.tsv").open(newline="") as file:
        rows = csv.DictReader(file, delimiter="\t")
        expected = tuple((row["query_id"], row["measure"], row["value"]) for row in rows)
    return TrecCase(
        name=name,
        run={query: _best_first(listed)[:depth] for query, listed in scores.items()},
        qrels=dict(qrels),
        expected=expected,
        relevant_from=level,
        is_complete="-c" in options,
    )


def compare(case: TrecCase, scoring: Scoring) -> TrecResult:
    """Every value trec_eval printed of a measure that is ours; the names of those that are not."""
    scores = scoring.score(case.run, case.qrels, relevant_from=case.relevant_from, complete=case.is_complete)
    queries = sorted(case.qrels if case.is_complete else case.qrels.keys() & case.run.keys())
    compared = []
    not_ours = set()
    for query, name, value in case.expected:
        measure = trec_measure(name)
        if measure is None:
            not_ours.add(name)
        elif query == "all":
            compared.append(
                compare_all(case.name, measure, float(value), scores=scores, queries=queries, tolerance=TOLERANCE)
            )
        else:
            compared.append(
                compare_query(
                    *(case.name, query, measure, float(value)),
                    scores=scores,
                    run=case.run,
                    qrels=case.qrels,
                    tolerance=TOLERANCE,
                    relevant_from=case.relevant_from,
                )
            )
    return TrecResult(tuple(_explained(value) for value in compared), frozenset(not_ours))


def without_negative_grades(case: TrecCase) -> TrecCase:
    """The case as trec_eval reads it: a chunk of a negative grade is not judged."""
    qrels = {
        query: {chunk: grade for chunk, grade in grades.items() if grade >= 0} for query, grades in case.qrels.items()
    }
    return replace(case, qrels=qrels)


def _explained(value: Compared) -> Compared:
    is_exception = value.measure.metric == "judged" and (value.case, value.query) in _UNJUDGED_BY_TREC_EVAL
    return replace(value, explanation=NEGATIVE_GRADES) if is_exception else value


def _best_first(listed: list[tuple[float, bytes]]) -> list[str]:
    """By score, ties by the last id, as trec_eval sorts."""
    return [chunk.decode() for _, chunk in sorted(listed, reverse=True)]


def _lines(folder: Path, name: str) -> Iterator[list[str]]:
    """The fields of every line that is not a comment, of a file that may be gzipped."""
    packed = folder / f"{name}.gz"
    with gzip.open(packed, "rt") if packed.exists() else (folder / name).open() as file:
        for line in file:
            if line.strip() and not line.lstrip().startswith("#"):
                yield line.split()
