"""Experiments on real runs: the verdict names the metric and the stage that moved, or says it cannot tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest
from conformance.real_runs import read_qrels, read_traces
from support import Warehouse, edited_seed, needs_shared

# experiment: collection, control, treatment
EXPERIMENTS: Final[Mapping[str, tuple[str, str, str]]] = {
    f"{collection}-{treatment}": (collection, control, treatment)
    for collection in ("cranfield", "noveleval")
    for control, treatment in (("hybrid", "shuffled"), ("hybrid", "badchunk"), ("rerank", "rerank_small"))
}
SEED: Final = "experiment_id,arm,is_control,share,starts_on,ends_on,wanted_effect,owner\n" + "".join(
    f"{experiment},{arm},{arm == control},0.5,2026-11-01,,0.05,search\n"
    for experiment, (_, control, treatment) in EXPERIMENTS.items()
    for arm in (control, treatment)
)

pytestmark = needs_shared


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    warehouse = Warehouse(tmp_path_factory.mktemp("experiments"))
    for experiment, (collection, *arms) in EXPERIMENTS.items():
        for arm in arms:
            rows = [
                trace
                | {
                    "trace_id": f"{experiment}/{arm}/{trace['query_id']}",
                    "session_id": f"{experiment}/{arm}/{trace['query_id']}",
                    "experiment_id": experiment,
                    "experiment_bucket": arm,
                }
                for trace in read_traces(collection, arm)
            ]
            warehouse.land("retrieval_traces", rows, f"{experiment}-{arm}.jsonl")
    for collection in ("cranfield", "noveleval"):
        judged = [
            {"query_id": f"{collection}-{query}", "doc_id": document, "grade": grade}
            for query, grades in read_qrels(collection).items()
            for document, grade in grades.items()
        ]
        warehouse.land("qrels", judged, f"{collection}.jsonl")
    warehouse.build(
        {
            "as_of": "2026-12-10T00:00:00Z",
            "cutoffs": {"final": [1, 5, 10, 100], "retriever": [10, 100]},
            "document_id_pattern": "^([^:]+):[0-9]+:[0-9a-f]{8}$",
            "segment_dimensions": ["intent x index_version", "experiment_id x experiment_bucket"],
        },
        seeds={
            "experiments": SEED,
            "label_classes": edited_seed("label_classes", golden={"evidence_level": "document"}),
        },
    )
    return warehouse


def verdict(runs: Warehouse, experiment: str, stage: str, metric: str, k: int) -> tuple[object, ...]:
    (row,) = runs.query(
        "select verdict, design, round(mean_control, 3), round(mean_treatment, 3), warning "
        "from mart_experiment_comparison "
        "where experiment_id = ? and segment_dimension = 'total' and label_class = 'golden' "
        "and stage = ? and metric = ? and k = ?",
        experiment, stage, metric, k,
    )  # fmt: skip
    return row


def test_both_arms_answered_the_same_questions(runs: Warehouse) -> None:
    assert runs.query("select distinct design from mart_experiment_comparison where label_class = 'golden'") == [
        ("paired",)
    ]


@pytest.mark.parametrize("collection", ["cranfield", "noveleval"])
def test_a_shuffled_list_is_worse_where_order_counts_and_not_where_it_does_not(
    runs: Warehouse, collection: str
) -> None:
    """The whole list is shuffled: precision@5 and RR@10 fall, what is in the first hundred stays (data/README)."""
    experiment = f"{collection}-shuffled"
    assert verdict(runs, experiment, "final", "precision", 5)[0] == "worse"
    assert verdict(runs, experiment, "final", "reciprocal_rank", 10)[0] == "worse"
    assert verdict(runs, experiment, "final", "ndcg", 10)[0] == "worse"
    assert verdict(runs, experiment, "final", "recall", 100)[0] == "inconclusive"


def test_bad_chunks_are_worse_on_225_queries_and_cannot_be_told_on_21(runs: Warehouse) -> None:
    assert verdict(runs, "cranfield-badchunk", "final", "precision", 5)[:4] == ("worse", "paired", 0.362, 0.281)
    assert verdict(runs, "cranfield-badchunk", "final", "recall", 10)[0] == "worse"
    # -9.5 points, t p = .029, Wilcoxon p = .054 before the adjustment
    assert verdict(runs, "noveleval-badchunk", "final", "precision", 5)[:4] == ("inconclusive", "paired", 0.619, 0.524)


def test_a_small_reranker_loses_the_tail_and_not_the_head(runs: Warehouse) -> None:
    """It re-scores the top 10 alone, so recall@100 of its final list falls while precision@5 rises."""
    assert verdict(runs, "cranfield-rerank_small", "final", "recall", 100)[0] == "worse"
    found, _, control, treatment, _ = verdict(runs, "cranfield-rerank_small", "final", "precision", 5)
    assert found in ("better", "inconclusive")
    assert float(str(treatment)) > float(str(control))


def test_arms_that_are_judged_differently_are_flagged(runs: Warehouse) -> None:
    warning = verdict(runs, "cranfield-shuffled", "final", "precision", 5)[-1]
    assert str(warning).startswith("judged differently: control 0.")


def test_the_shares_are_as_declared(runs: Warehouse) -> None:
    assert runs.query("select distinct is_sample_ratio_mismatch from mart_experiment_comparison") == [(False,)]
