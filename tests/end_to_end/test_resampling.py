"""vars: resampling_unit, from landing files to intervals: worked by hand, and the same after any nights."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from support import Warehouse

from retrieval_quality.build import BuildFailed
from retrieval_quality.clusters import cluster_intervals

FIRST_DAY = 1_772_323_200  # 2026-03-01T00:00:00Z, a Sunday
AS_OF = "2026-03-29T00:00:00Z"
UNIT = 1_000_000
OBJECTIVES = {
    "slo_targets": "slo_id,metric,k,stage,label_class,segment,window_name,objective,margin,tolerance,severity,owner,"
    "runbook\nmonth,precision,1,final,explicit,total,trailing_28d,0.5,0.02,0.1,ticket,me,\n"
}
MONTH = "window_name = 'trailing_28d' and segment_dimension = 'total' and metric = 'precision' and k = 1"

Row = dict[str, object]


def trace(name: str, day: int, user: str | None, *, session: str | None = None, **other: object) -> Row:
    return {
        "trace_id": name, "session_id": session or name, "user_id": user, "ts": FIRST_DAY + day * 86_400 + 60,
        "query": f"what is {name}", "index_version": "v1" if day < 10 else "v2", "retrieved": [{"chunk_id": "c"}],
    } | other  # fmt: skip


def thumb(name: str, day: int, *, up: bool) -> Row:
    return {
        "feedback_id": name, "trace_id": name, "chunk_ids": ["c"], "rating": up, "ts": FIRST_DAY + day * 86_400 + 90
    }  # fmt: skip


# Sessions and their precision@1, by user: ana 1, 1, 1; ben 0, 0, 1; cai .5, the mean of two traces;
# nobody 0. By night: the 1st 1, 1, 0; the 2nd 1, 0; the 15th 0, 1, .5.
TRACES = [
    trace("a1", 0, "ana"), trace("a2", 0, "ana"), trace("a3", 1, "ana"),
    trace("b1", 0, "ben"), trace("b2", 14, "ben"), trace("b3", 14, "ben"),
    trace("c1", 14, "cai"), trace("c2", 14, "cai", session="c1"),
    trace("d1", 1, None),
]  # fmt: skip
THUMBS = [
    thumb("a1", 0, up=True), thumb("a2", 0, up=True), thumb("a3", 1, up=True),
    thumb("b1", 0, up=False), thumb("b2", 14, up=False), thumb("b3", 14, up=True),
    thumb("c1", 14, up=True), thumb("c2", 14, up=False),
    thumb("d1", 1, up=False),
]  # fmt: skip
# as first delivered, b3 was ana's, and a2 of another day
FIRST_SAID = {"b3": {"user_id": "ana"}, "a2": {"ts": FIRST_DAY + 3 * 86_400}}
CORRECTED = [row | {"ingested_at": FIRST_DAY + 20 * 86_400} for row in TRACES if row["trace_id"] in FIRST_SAID]


def night(warehouse: Warehouse, unit: str) -> None:
    warehouse.build({"as_of": AS_OF, "resampling_unit": unit}, seeds=OBJECTIVES)


def rows(warehouse: Warehouse, sql: str) -> list[Row]:
    with duckdb.connect(str(warehouse.path), read_only=True) as connection:
        return connection.execute(sql).df().to_dict("records")  # type: ignore[return-value]


@pytest.fixture(scope="module")
def by_user(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    warehouse = Warehouse(tmp_path_factory.mktemp("by_user"))
    warehouse.land("retrieval_traces", TRACES)
    warehouse.land("feedback", THUMBS)
    night(warehouse, "user")
    return warehouse


def expected(pairs: list[tuple[float, float]]) -> Mapping[str, object]:
    """What `cluster_intervals` says of hand-made (sum of scores, units) of the eight sessions."""
    clusters = pd.DataFrame(
        [("x", round(s * UNIT), round(m * UNIT), 1) for s, m in pairs],
        columns=["g", "score_sum", "unit_sum", "n_clusters"],
    )
    sessions = pd.DataFrame({"g": "x", "value": [1.0, 0.0, 0.5], "weight": [4 * UNIT, 3 * UNIT, 1 * UNIT]})
    result: Mapping[str, object] = cluster_intervals(clusters, sessions, ["g"]).iloc[0].to_dict()
    return result


STATISTICS = (
    "estimate", "std_error", "design_effect", "n_eff", "n_clusters", "ci_low", "ci_high", "ci_method", "bound_low",
    "bound_high", "mdd",
)  # fmt: skip


def test_by_user_by_hand(by_user: Warehouse) -> None:
    # (3, 3), (1, 3), (.5, 1), (0, 1): 4.5 / 8 = .5625. Residuals 1.3125, -.6875, -.0625, -.5625: squares
    # 2.515625; 4/3 * 2.515625 / 64 = .0524089. Eight independent sessions: .2148438 / 7 = .0306920.
    (month,) = rows(by_user, f"select * from mart_retrieval_quality where {MONTH}")
    assert (month["resampling_unit"], month["n_clusters"], month["n_units"], month["n_traces"]) == ("user", 4, 8, 9)
    assert month["estimate"] == 0.5625
    assert month["std_error"] == pytest.approx(0.0524089**0.5, rel=1e-5)
    assert month["design_effect"] == pytest.approx(0.0524089 / 0.0306920, rel=1e-4)
    few = (stats.t.ppf(0.975, 3) / stats.norm.ppf(0.975)) ** 2
    assert month["n_eff"] == pytest.approx(8 / (month["design_effect"] * few))  # type: ignore[operator]
    by_hand = expected([(3, 3), (1, 3), (0.5, 1), (0, 1)])
    assert {name: month[name] for name in STATISTICS} == {name: by_hand[name] for name in STATISTICS}


def test_a_user_is_one_within_each_segment(by_user: Warehouse) -> None:
    found = rows(
        by_user,
        """
        select segment_value, n_units, n_clusters, resampling_unit from mart_retrieval_quality
        where window_name = 'trailing_28d' and segment_dimension = 'index_version' and metric = 'precision' and k = 1
        order by segment_value
        """,
    )
    assert found == [
        # a1, a2, a3; b1; d1
        {"segment_value": "v1", "n_units": 5, "n_clusters": 3, "resampling_unit": "user"},
        # b2, b3; c1
        {"segment_value": "v2", "n_units": 3, "n_clusters": 2, "resampling_unit": "user"},
    ]


def test_a_window_in_which_every_user_has_one_session_resamples_sessions(by_user: Warehouse) -> None:
    found = rows(
        by_user,
        """
        select window_name, window_start_at::date::varchar as starts_on, n_units, resampling_unit
        from mart_retrieval_quality
        where segment_dimension = 'total' and metric = 'precision' and k = 1 and n_units > 0
        order by window_name, starts_on
        """,
    )
    assert [tuple(row.values()) for row in found] == [
        ("day", "2026-03-01", 3, "user"),
        ("day", "2026-03-02", 2, "session"),
        ("day", "2026-03-15", 3, "user"),
        ("trailing_28d", "2026-03-01", 8, "user"),
        # ISO weeks: Sunday the 1st ends one, Monday the 2nd and Sunday the 15th begin and end two more
        ("week", "2026-02-23", 3, "user"),
        ("week", "2026-03-02", 2, "session"),
        ("week", "2026-03-09", 3, "user"),
    ]
    assert rows(
        by_user, "select count(*) as n from mart_segment_weekly where resampling_unit = 'user' and n_clusters > 1"
    )[0]["n"]  # fmt: skip


def test_verdicts_read_the_same_bounds(by_user: Warehouse) -> None:
    # the newest matured night is the 26th, and its 28 days hold the same eight sessions
    (month,) = rows(by_user, f"select * from mart_retrieval_quality where {MONTH}")
    (verdict,) = rows(by_user, "select * from mart_slo_status where is_newest")
    assert verdict["resampling_unit"] == "user"
    for name in STATISTICS:
        assert verdict[name] == month[name], name
    # .5625 is .0625 above the objective: 7.85 * std_error^2 * n_eff / .0625^2 effective units are wanted
    wanted = 7.85 * month["std_error"] ** 2 * month["n_eff"] / 0.0625**2  # type: ignore[operator]
    sessions_each = 8 / month["n_eff"]  # type: ignore[operator]
    assert verdict["n_units_needed"] == np.ceil((wanted - month["n_eff"]) * sessions_each)  # type: ignore[operator]


def test_nights_that_switch_the_unit_end_where_one_night_ends(by_user: Warehouse, tmp_path: Path) -> None:
    """Users that a correction changes, a trace that leaves its day, and a night that resamples sessions in between."""
    warehouse = Warehouse(tmp_path)
    said = [row | FIRST_SAID.get(str(row["trace_id"]), {}) for row in TRACES]
    warehouse.land("retrieval_traces", said, "1.jsonl")
    warehouse.land("feedback", THUMBS[:5], "1.jsonl")
    night(warehouse, "user")
    # ana's a1, a2, a3, ben's b1, b2
    pairs = f"select score_sum, unit_sum from int_window_clusters where {MONTH} order by all"
    assert warehouse.query(pairs) == [(0, 2 * UNIT), (3 * UNIT, 3 * UNIT)]

    warehouse.land("feedback", THUMBS[5:], "2.jsonl")
    night(warehouse, "session")
    told = "resampling_unit, estimate, n_eff, n_clusters, design_effect"
    assert warehouse.query(f"select {told} from mart_retrieval_quality where {MONTH}") == [
        ("session", 0.5625, 8, None, None)
    ]
    assert warehouse.query("select count(*) from int_window_clusters") == [(0,)]

    warehouse.land("retrieval_traces", CORRECTED, "3.jsonl")
    night(warehouse, "user")
    for table in ("int_user_day_scores", "int_window_clusters", "mart_retrieval_quality", "mart_slo_status"):
        ordered = f"select * from {table} order by all".replace(
            "*", "* exclude (day_version)" if table == "int_user_day_scores" else "*"
        )
        assert warehouse.query(ordered) == by_user.query(ordered), table
        assert warehouse.query(ordered), table


def test_by_night_by_hand(by_user: Warehouse, tmp_path: Path) -> None:
    shutil.copytree(by_user.root, tmp_path / "copy")
    by_night = Warehouse(tmp_path / "copy")
    night(by_night, "night")
    # (2, 3), (1, 2), (1.5, 3). Residuals .3125, -.125, -.1875: squares .1484375; 3/2 * .1484375 / 64 = .0034790
    (month,) = rows(by_night, f"select * from mart_retrieval_quality where {MONTH}")
    assert (month["resampling_unit"], month["n_clusters"], month["n_units"]) == ("night", 3, 8)
    assert month["std_error"] == pytest.approx(0.0034790**0.5, rel=1e-4)
    # nights are more alike than independent sessions would be: that never makes the bounds narrower
    assert (month["design_effect"], month["n_eff"]) == (pytest.approx(0.113353, rel=1e-4), 8)
    by_hand = expected([(2, 3), (1, 2), (1.5, 3)])
    assert {name: month[name] for name in STATISTICS} == {name: by_hand[name] for name in STATISTICS}
    assert by_user.query(f"select estimate from mart_retrieval_quality where {MONTH}") == [(month["estimate"],)]

    units = by_night.query(
        "select distinct window_name, resampling_unit from mart_retrieval_quality where n_units > 0 order by all"
    )
    assert units == [("day", "session"), ("trailing_28d", "night"), ("week", "session")]
    assert by_night.query(
        "select distinct window_role, resampling_unit from int_slo_estimates where n_units > 1 order by all"
    ) == [("judged", "night"), ("night", "session"), ("week", "session")]
    assert by_night.query("select count(*) from int_cluster_days where min_window_days = 1") == [(0,)]


def test_another_unit_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match="var resampling_unit must be 'session', 'user' or 'night', got week"):
        night(Warehouse(tmp_path), "week")
