"""Seven retriever runs over two collections through the whole project, as published."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb
import pytrec_eval
from conformance.comparisons import Compared, Measure
from support import SHARED, Warehouse, edited_seed

from retrieval_quality.publish import current_database, publish

DATA: Final = SHARED / "data"
COLLECTIONS: Final = ("cranfield", "noveleval")
RUNS: Final = ("bm25", "dense", "hybrid", "rerank", "rerank_small", "shuffled", "badchunk")
TOLERANCE: Final = 1e-6
MEASURES: Final = tuple(
    Measure(name, metric, k)
    for name, metric, k in (
        ("P@5", "precision", 5),
        ("P@10", "precision", 10),
        ("R@5", "recall", 5),
        ("R@10", "recall", 10),
        ("R@100", "recall", 100),
        ("RR", "reciprocal_rank", 0),
        ("RR@10", "reciprocal_rank", 10),
        ("nDCG@5", "ndcg", 5),
        ("nDCG@10", "ndcg", 10),
        ("AP", "average_precision", 0),
        ("AP@10", "average_precision", 10),
        ("Success@5", "hit_rate", 5),
        ("Success@10", "hit_rate", 10),
        ("Judged@10", "judged", 10),
        ("Rprec", "r_precision", 0),
        ("Bpref", "bpref", 0),
    )
)
FEEDBACK_MEASURES: Final = tuple(measure for measure in MEASURES if measure.theirs in {"P@5", "R@5", "RR", "Success@5"})
RETRIEVER_MEASURES: Final = tuple(
    measure for measure in MEASURES if measure.theirs in {"R@10", "R@100", "nDCG@10", "RR", "AP"}
)
TIES: Final = "the recorded value orders tied scores by document id, not by the recorded rank"
TIED: Final = frozenset(
    {
        ("cranfield", "dense", "206", "Judged@10"),
        ("cranfield", "badchunk", "153", "Judged@10"),
        ("cranfield", "badchunk", "35", "RR"),
        ("cranfield", "badchunk", "35", "AP"),
        ("cranfield", "badchunk", "39", "AP"),
    }
)

EVAL_RUN: Final = "noveleval-nightly"
UNANSWERED: Final = "7"
"""The golden query that the evaluation run never answered."""

_AS_OF: Final = "2026-12-02T00:00:00Z"
_EVAL_STARTED_AT: Final = "2026-11-30T12:00:00Z"
_CHUNK_OF_DOCUMENT: Final = "^([^:]+):[0-9]+:[0-9a-f]{8}$"
_EXPERIMENT: Final = "intent x experiment_bucket"


@dataclass(frozen=True)
class Listed:
    """A recorded list of documents, best first, each at its first chunk, with that chunk's score."""

    documents: tuple[str, ...]
    scores: tuple[float, ...]


@dataclass(frozen=True)
class Published:
    """What the build of both collections published, and the warehouse it came from."""

    database: Path
    warehouse: Warehouse

    def query(self, sql: str, *parameters: object) -> list[tuple[object, ...]]:
        with duckdb.connect(str(self.database), read_only=True) as connection:
            return connection.execute(sql, parameters).fetchall()


def publish_runs(root: Path) -> Published:
    """Land both collections below `root`, build with dbt, publish.

    Every run is production traffic of the intent named as its collection and of the experiment
    bucket named as the run. Beside them an evaluation run repeats NovelEval's bm25 and leaves one
    golden query out.
    """
    warehouse = Warehouse(root)
    for collection in COLLECTIONS:
        for run in RUNS:
            warehouse.land("retrieval_traces", read_traces(collection, run), f"{collection}-{run}.jsonl")
        with gzip.open(DATA / "runs" / collection / "feedback_from_qrels.jsonl.gz") as file:
            warehouse.land("feedback", file.read(), f"{collection}.jsonl")
        judged = [
            {"query_id": f"{collection}-{query}", "doc_id": document, "grade": grade}
            for query, grades in read_qrels(collection).items()
            for document, grade in grades.items()
        ]
        warehouse.land("qrels", judged, f"{collection}.jsonl")
    asked = [
        {"query_id": trace["query_id"], "query": trace["query"], "query_set": "golden", "intent": "noveleval"}
        for trace in read_traces("noveleval", "bm25")
    ]
    warehouse.land("queries", asked)
    warehouse.land("eval_runs", [{"eval_run_id": EVAL_RUN, "started_at": _EVAL_STARTED_AT, "query_set": "golden"}])
    warehouse.land(
        "retrieval_traces",
        [
            trace | {"eval_run_id": EVAL_RUN, "session_id": f"{EVAL_RUN}-{trace['query_id']}", "ts": _EVAL_STARTED_AT}
            for trace in read_traces("noveleval", "bm25")
            if trace["query_id"] != f"noveleval-{UNANSWERED}"
        ],
        "eval.jsonl",
    )
    warehouse.build(
        {
            "as_of": _AS_OF,
            "cutoffs": {"final": [1, 5, 10, 100], "retriever": [10, 100]},
            "segment_dimensions": ["intent", "intent x index_version", _EXPERIMENT],
            "document_id_pattern": _CHUNK_OF_DOCUMENT,
        },
        seeds={"label_classes": edited_seed("label_classes", golden={"evidence_level": "document"})},
    )
    published = root / "published"
    publish(warehouse.path, published, keep=1, fact_days=28)
    return Published(current_database(published), warehouse)


def read_traces(collection: str, run: str) -> Iterator[dict[str, object]]:
    with gzip.open(DATA / "runs" / collection / f"traces_{run}.jsonl.gz", "rt") as file:
        for line in file:
            trace = json.loads(line)
            yield trace | {"query_id": f"{collection}-{trace['query_id']}", "intent": collection}


def read_qrels(collection: str) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = {}
    with (DATA / "collections" / collection / "qrels.tsv").open(newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            qrels.setdefault(row["query_id"], {})[row["doc_id"]] = int(row["relevance"])
    return qrels


def read_expected(collection: str) -> dict[tuple[str, str, str], float]:
    """Reference values by run, query and measure; RR@10 is RR where that is at least 0.1, else 0."""
    with gzip.open(DATA / "runs" / collection / "expected_per_query.tsv.gz", "rt", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t")
        expected = {(row["run"], row["query_id"], row["measure"]): float(row["value"]) for row in rows}
    return expected | {
        (run, query, "RR@10"): value if value >= 0.1 else 0.0
        for (run, query, measure), value in expected.items()
        if measure == "RR"
    }


def read_list(collection: str, run: str, query: str) -> Listed:
    """The documents of one recorded list, by recorded rank."""
    trace = next(t for t in read_traces(collection, run) if t["query_id"] == f"{collection}-{query}")
    retrieved = sorted(trace["retrieved"], key=lambda item: item["rank"])  # type: ignore[call-overload]
    first: dict[str, float] = {}
    for item in retrieved:
        document = item["chunk_id"].rsplit(":", 2)[0] if run == "badchunk" else item["chunk_id"]
        first.setdefault(document, item["score"])
    return Listed(tuple(first), tuple(first.values()))


def compare_golden(published: Published, collection: str) -> list[Compared]:
    """Every reference value of a collection beside the published score of the golden class."""
    return _compare(published, collection, "golden", "final", MEASURES, {run: run for run in RUNS})


def compare_feedback(published: Published, collection: str) -> list[Compared]:
    """The same scores from thumbs on what was shown; nobody gave thumbs on badchunk."""
    rated = {run: run for run in RUNS if run != "badchunk"}
    return _compare(published, collection, "explicit", "final", FEEDBACK_MEASURES, rated)


def compare_first_stage(published: Published, collection: str) -> list[Compared]:
    """What the reranker was given is bm25's list."""
    return _compare(published, collection, "golden", "retriever", RETRIEVER_MEASURES, {"rerank": "bm25"})


def peer_value(listed: Listed, grades: Mapping[str, int], measure: Measure, *, by_score: bool) -> float:
    """pytrec_eval's value of a list, ordered by its scores (ties by id) or as recorded."""
    scores = listed.scores if by_score else range(0, -len(listed.documents), -1)
    order = {document: float(score) for document, score in zip(listed.documents, scores, strict=True)}
    if measure.metric == "judged":
        by_id = sorted(order)
        top = sorted(by_id, key=lambda document: -order[document])[: measure.k]
        return sum(document in grades for document in top) / len(top)
    name = {"reciprocal_rank": "recip_rank", "average_precision": "map"}[measure.metric]
    value = pytrec_eval.RelevanceEvaluator({"q": dict(grades)}, {name}).evaluate({"q": order})["q"][name]
    return 0.0 if measure.k and value < 1 / measure.k else value


def _compare(
    published: Published,
    collection: str,
    label_class: str,
    stage: str,
    measures: tuple[Measure, ...],
    expected_of: Mapping[str, str],
) -> list[Compared]:
    columns = sorted({measure.metric for measure in measures})
    rows = published.query(
        f"""
        select retrievals.experiment_bucket, retrievals.query_id, scores.k, {", ".join(f"scores.{c}" for c in columns)}
        from fct_query_scores as scores
        inner join fct_retrievals as retrievals using (trace_id)
        where retrievals.traffic = 'production' and retrievals.intent = ?
            and scores.label_class = ? and scores.stage = ?
        """,
        *(collection, label_class, stage),
    )
    ours = {
        (run, str(query).removeprefix(f"{collection}-"), column, k): value
        for run, query, k, *values in rows
        for column, value in zip(columns, values, strict=True)
    }
    expected = read_expected(collection)
    queries = sorted({query for _, query, _ in expected})
    return [
        Compared(
            case=f"{collection} {run}",
            query=query,
            measure=measure,
            expected=expected[expected_of[run], query, measure.theirs],
            ours=ours.get((run, query, measure.metric, measure.k)),
            tolerance=TOLERANCE,
            explanation=TIES if (collection, run, query, measure.theirs) in TIED and label_class == "golden" else "",
        )
        for run in expected_of
        for measure in measures
        for query in queries
    ]
