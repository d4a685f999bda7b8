"""Verdicts on the demo: what SQL computes equals its witnesses, and a target that makes no sense stops the build."""

from __future__ import annotations

import re
from collections.abc import Mapping

import duckdb
import numpy as np
import pandas as pd
import pytest
from end_to_end.first_run import FirstRun
from scipy import stats
from support import Warehouse

from retrieval_quality.sequential import e_cusum

STREAM = ["slo_id", "segment_value"]
FIRST_DAY = 1_772_323_200  # 2026-03-01T00:00:00Z


def frame(first_run: FirstRun, sql: str) -> pd.DataFrame:
    with duckdb.connect(str(first_run.places.warehouse), read_only=True) as connection:
        return connection.execute(sql).df()


def test_the_ecusum_in_sql_is_that_of_numpy(first_run: FirstRun) -> None:
    found = frame(first_run, "select * from int_slo_ecusum")
    histograms = frame(
        first_run,
        """
        select distinct nights.slo_id, nights.segment_value, histograms.traced_on as night, histograms.value, weight
        from int_slo_nights as nights
        inner join int_score_histograms as histograms
            using (traffic, segment_dimension, segment_value, stage, label_class, metric, k)
        where histograms.traced_on <= (select max(night_on) from int_slo_nights as other where slo_id = nights.slo_id)
        """,
    )
    objectives = frame(first_run, f"select distinct {', '.join(STREAM)}, objective from int_slo_nights")
    witness = e_cusum(histograms, STREAM, objectives.merge(histograms[STREAM].drop_duplicates(), on=STREAM))
    both = found.merge(witness, left_on=[*STREAM, "night_on"], right_on=[*STREAM, "night"], validate="one_to_one")
    assert len(both) == len(found) == len(witness) > 10
    np.testing.assert_allclose(both["ecusum"], both["statistic"], rtol=0, atol=1e-9)
    assert (both["is_alarm"] == both["is_alarming"]).all()


def test_p_values_are_adjusted_as_scipy_adjusts_them(first_run: FirstRun) -> None:
    rows = frame(first_run, "select * from mart_slo_status where p_value is not null")
    families = rows.groupby(["slo_id", "night_on"])
    assert families.size().max() > 2
    for _, family in families:
        expected = stats.false_discovery_control(family["p_value"], method="bh")
        np.testing.assert_allclose(family["p_adjusted"], expected, rtol=1e-12)


@pytest.fixture(scope="module")
def dropped(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Forty evaluated questions a night: 34 are found for eight nights, then 14."""
    warehouse = Warehouse(tmp_path_factory.mktemp("dropped"))
    questions = range(40)
    warehouse.land("queries", [{"query_id": f"q{n}", "query": f"question {n}", "query_set": "s"} for n in questions])
    warehouse.land(
        "qrels",
        [{"query_id": f"q{n}", "chunk_id": f"c{n}", "grade": 1, "label_class": "synthetic"} for n in questions],
    )
    for day in range(12):
        run, at = f"run {day}", FIRST_DAY + day * 86_400
        n_found = 34 if day < 8 else 14
        warehouse.land("eval_runs", [{"eval_run_id": run, "started_at": at, "query_set": "s"}], f"{day}.jsonl")
        warehouse.land(
            "retrieval_traces",
            [
                {
                    "trace_id": f"{run} q{n}", "ts": at + n, "eval_run_id": run, "query_id": f"q{n}",
                    "retrieved": [{"chunk_id": f"c{n}" if n < n_found else "other"}],
                }
                for n in questions
            ],
            f"{day}.jsonl",
        )  # fmt: skip
    warehouse.build({"as_of": "2026-03-13T00:00:00Z"})
    return warehouse


def test_a_drop_is_paged_on_its_second_night_and_health_never(dropped: Warehouse) -> None:
    rows = dropped.query(
        "select night_on::varchar, round(estimate, 2), state, is_page, is_ecusum_alarm from mart_slo_status "
        "where slo_id = 'evaluation_hit_rate_daily' and n_units > 0 order by night_on"
    )
    # 34 of 40 has the bound [.70, .94] and meets .70; 14 of 40 has [.21, .52], below .70 - .02
    assert [row[:4] for row in rows] == [
        *((f"2026-03-0{day}", 0.85, "met", False) for day in range(1, 9)),
        ("2026-03-09", 0.35, "breached", False),
        *((f"2026-03-{day}", 0.35, "breached", True) for day in (10, 11, 12)),
    ]
    # one such night at the largest stake: 14 ln(1 - .3 * 1.4) + 26 ln(1 + .7 * 1.4) = 10.1, of which the mean
    # over five stakes leaves at least 10.1 - ln 5 = 8.5, above ln 1000 = 6.9
    assert [row[4] for row in rows] == [False] * 8 + [True] * 4


@pytest.mark.parametrize(
    ("edits", "problem"),
    [
        ({"metric": "accuracy"}, "there is no metric accuracy"),
        ({"k": 7}, "hit_rate has no intervals at k = 7"),
        ({"stage": "rerank"}, "there is no stage rerank"),
        ({"label_class": "gold"}, "there is no landed label class gold"),
        ({"metric": "recall", "label_class": "explicit"}, "recall cannot be told from explicit labels"),
        ({"metric": "precision_high"}, "precision_high says nothing of synthetic labels"),
        ({"segment": "tenant=a"}, "there is no segment dimension tenant"),
        ({"window_name": "month"}, "window_name is none of day, week, trailing_28d"),
        ({"objective": 1.2}, "objective is not between 0 and 1"),
        ({"margin": 0.9}, "margin makes no sense"),
        ({"tolerance": 0}, "tolerance makes no sense"),
        ({"metric": "precision", "objective": 0.5}, "objective 0.5 is above 0.2, the highest precision"),
    ],
    ids=str,
)
def test_a_target_that_makes_no_sense_says_so(first_run: FirstRun, edits: Mapping[str, object], problem: str) -> None:
    (compiled,) = first_run.places.root.glob("target/compiled/**/int_slo_targets.sql")
    target: dict[str, object] = {
        "slo_id": "mine", "metric": "hit_rate", "k": 5, "stage": "final", "label_class": "synthetic",
        "segment": "total", "window_name": "day", "objective": 0.7, "margin": 0.02, "tolerance": 0.1,
        "severity": "page", "owner": "me",
        "runbook": "",
    }  # fmt: skip
    with duckdb.connect(str(first_run.places.warehouse), read_only=True) as connection:
        sql = re.sub(r'"\w+"\."main"\."slo_targets"', "seed", compiled.read_text())
        connection.register("seed", pd.DataFrame([target | dict(edits)]))
        with pytest.raises(duckdb.InvalidInputException, match=re.escape(f"seeds/slo_targets.csv: mine: {problem}")):
            connection.execute(sql).fetchall()
        connection.register("seed", pd.DataFrame([target]))
        assert len(connection.execute(sql).fetchall()) == 1
