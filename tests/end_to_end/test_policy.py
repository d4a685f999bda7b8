"""A changed label policy, cutoff or segment rebuilds the days it changes, without being told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from end_to_end.random_events import events, land
from end_to_end.test_nights import contents, differing
from end_to_end.test_random_nights import build_tables
from support import PROJECT, Warehouse, edited_seed

VARIABLES: dict[str, object] = {
    "cutoffs": {"final": [2, 5, 10], "retriever": [10]},
    "document_id_pattern": "^(c[0-9])",
    "label_lookback_days": 1,
    "long_tail_max_sessions": 4,
    "max_rank": 3,
    "segment_dimensions": ["intent", "intent x index_version"],
    "upvote_without_correctness": "unjudged",
}
SEEDS = {
    "intent_rules": "priority,intent,pattern\n1,everything,.\n",
    "label_classes": edited_seed("label_classes", golden={"relevant_from": "2"}, audit={"evidence_level": "document"}),
    "label_signals": edited_seed("label_signals", thumb={"label_class": "judge"}),
    "metric_catalog": edited_seed("metric_catalog", recall={"reported_k": "5"}, ndcg={"grid": "0.1"}),
    "rank_discounts": edited_seed("rank_discounts", **{"2": {"discount": "500000000000000"}}),
    "rating_words": edited_seed("rating_words", up={"rating_label": "negative"}),
}
ALONE = [({name: value}, {}) for name, value in VARIABLES.items()] + [
    ({}, {name: text}) for name, text in SEEDS.items()
]


@pytest.mark.parametrize(
    ("variables", "seeds"),
    [
        pytest.param(VARIABLES, SEEDS, id="all"),
        *(pytest.param(*change, id="".join([*change[0], *change[1]]), marks=pytest.mark.slow) for change in ALONE),
    ],
)
def test_a_changed_policy_rebuilds_what_it_changes(
    variables: Mapping[str, object], seeds: Mapping[str, str], tmp_path: Path
) -> None:
    changing, fresh = Warehouse(tmp_path / "changing"), Warehouse(tmp_path / "fresh")
    for warehouse in (changing, fresh):
        land(warehouse, events(seed=1))
    build_tables(changing, "")
    before = contents(changing)
    for warehouse in (changing, fresh):
        project = warehouse.project(seeds=seeds) if seeds else PROJECT
        build_tables(warehouse, "", variables=variables, project=project)

    after, expected = contents(changing), contents(fresh)
    assert differing(after, expected) == []
    assert differing(after, before) != []
    reasons = "select contract, max(day_version) from int_day_versions group by contract"
    assert dict(changing.query(reasons))["policy"] == 2
    assert "policy" not in dict(fresh.query(reasons))
