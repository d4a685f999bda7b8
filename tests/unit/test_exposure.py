"""Examination propensities and precision corrected by them, by hand and on simulated chains."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from retrieval_quality.exposure import (
    ASSUMPTIONS,
    COLUMNS,
    KEY,
    PROPENSITY,
    examination_propensities,
    exposure_sensitivity,
)
from retrieval_quality.intervals import mean_intervals

STEP = ["rank", "n_signals", "upper_sum", "lower_sum", "variance_sum"]
UNIT = 1_000_000
WINDOW = {
    "window_name": "trailing_28d",
    "window_start_at": pd.Timestamp("2026-11-02"),
    "window_end_at": pd.Timestamp("2026-11-30"),
}
TOTAL = WINDOW | {"segment_dimension": "total", "segment_value": "total"}


def steps(*rows: tuple[int, int, int, int, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=STEP)


def depths(*n_looked: int) -> pd.DataFrame:
    """Of the cascade: how many lists were looked at down to rank 1, 2, ..."""
    pairs = list(pairwise(n_looked))
    return steps(
        *(
            (rank, above, above * UNIT, here * UNIT, (above - here) * UNIT)
            for rank, (above, here) in enumerate(pairs, 2)
        )
    )


def propensities(rank_variation: pd.DataFrame, cascade: pd.DataFrame) -> pd.DataFrame:
    return examination_propensities(rank_variation, cascade, confidence=0.95).set_index("rank")


def test_steps_are_chained_to_rank_1() -> None:
    found = propensities(
        steps((2, 90, 40 * UNIT, 20 * UNIT, 30 * UNIT), (3, 60, 25 * UNIT, 20 * UNIT, 5 * UNIT)), depths(100, 80, 70)
    )
    assert found["propensity"].tolist() == [1.0, 0.5, 0.4]
    assert found["weight"].tolist() == [1_000_000, 2_000_000, 2_500_000]
    assert set(found["method"]) == {"rank_variation"}
    # logarithms: 30 / (40 x 20) = .0375 and 5 / (25 x 20) = .01 more
    assert found.loc[2, "propensity_low"] == pytest.approx(0.5 * math.exp(-1.959964 * math.sqrt(0.0375)))
    assert found.loc[3, "propensity_high"] == pytest.approx(0.4 * math.exp(1.959964 * math.sqrt(0.0475)))
    assert found["n_signals"].isna().tolist() == [True, False, False]
    assert found["reason"].isna().all()


def test_the_cascade_is_the_share_of_lists_with_a_signal_so_deep() -> None:
    found = propensities(steps(), depths(200, 150, 90))
    assert found["propensity"].tolist() == pytest.approx([1.0, 0.75, 0.45])
    assert set(found["method"]) == {"cascade"}
    assert set(found["assumption"]) == {ASSUMPTIONS["cascade"]}
    # Greenwood: 50 / (200 x 150) + 60 / (150 x 90), which is that of a share of 90 in 200: 110 / (200 x 90)
    assert found.loc[3, "propensity_low"] == pytest.approx(0.45 * math.exp(-1.959964 * math.sqrt(110 / 18_000)))


@pytest.mark.parametrize(
    "varied",
    [
        # one signal too few in the last step; the last step is not there
        ((2, 90, 40 * UNIT, 20 * UNIT, UNIT), (3, 49, 25 * UNIT, 20 * UNIT, UNIT)),
        ((2, 90, 40 * UNIT, 20 * UNIT, UNIT),),
    ],
    ids=["too few", "absent"],
)
def test_rank_variation_that_does_not_reach_every_rank_leaves_all_to_the_cascade(
    varied: tuple[tuple[int, int, int, int, int], ...],
) -> None:
    found = propensities(steps(*varied), depths(200, 150, 90))
    assert set(found["method"]) == {"cascade"}


def test_readers_who_look_further_than_they_signal_get_too_low_a_propensity() -> None:
    """Simulated: each looks from the top down to a depth of its own, and copies two chunks in five of those."""
    rng = np.random.default_rng(11)
    looked_at = np.array([1.0, 0.7, 0.5, 0.35, 0.25])
    depth = (rng.random((20_000, 1)) < looked_at).sum(axis=1)
    ranks = np.arange(1, 6)
    copied = (rng.random((20_000, 5)) < 0.4) & (ranks <= depth[:, None])
    deepest = np.where(copied.any(axis=1), (copied * ranks).max(axis=1), 0)
    found = propensities(steps(), depths(*((deepest >= rank).sum() for rank in ranks)))
    assert (found["propensity_high"].to_numpy()[1:] < looked_at[1:]).all()


def test_from_the_floor_on_a_weight_is_at_its_most() -> None:
    found = propensities(steps(), depths(1000, 500, 60, 10, 0))
    # .06 is below the floor of .1: published as it is, weighed as the floor. Deeper ranks need no signals
    assert found["propensity"].tolist()[:3] == pytest.approx([1.0, 0.5, 0.06])
    assert found["propensity"].isna().tolist() == [False, False, False, True, True]
    assert found["weight"].tolist() == [1_000_000, 2_000_000, 10_000_000, 10_000_000, 10_000_000]
    assert found["reason"].tolist()[3:] == ["below_floor", "below_floor"]
    none_deeper = propensities(steps(), depths(60, 0))
    assert none_deeper["weight"].tolist() == [1_000_000, 10_000_000]
    assert none_deeper["reason"].tolist()[1] == "below_floor"


def test_where_signals_are_few_nothing_is_said_from_there_on() -> None:
    found = propensities(steps(), depths(80, 49, 45, 40))
    assert found["propensity"].isna().tolist() == [False, False, True, True]
    assert found["weight"].isna().tolist() == [False, False, True, True]
    assert found["reason"].tolist()[2:] == ["too_few_signals", "too_few_signals"]


def test_a_rank_is_never_looked_at_more_than_rank_1() -> None:
    found = propensities(steps((2, 90, 20 * UNIT, 22 * UNIT, 9 * UNIT)), depths(100, 80))
    assert (found.loc[2, "propensity"], found.loc[2, "propensity_high"], found.loc[2, "weight"]) == (1.0, 1.0, UNIT)


def test_no_list_with_a_signal_is_no_propensity() -> None:
    found = examination_propensities(steps(), steps(), confidence=0.95)
    assert (list(found.columns), len(found)) == (PROPENSITY, 0)


# --- precision -------------------------------------------------------------------------------


def raw(k: int, estimate: float | None, n: int, **other: object) -> dict[str, object]:
    return TOTAL | {
        "k": k, "estimate": estimate, "bound_low": 0.0, "bound_high": 1.0, "n_units": n,
        "n_eff": float(n) if n else None, "n_traces": n + 7, "n_scored": n, "is_identifiable": False,
    } | other  # fmt: skip


def sensitivity(
    values: dict[int, list[tuple[float, int]]],
    rows: list[dict[str, object]],
    cascade: pd.DataFrame,
    hits: list[tuple[int, int]] | None = None,
) -> pd.DataFrame:
    """Sessions by corrected precision, by k; hits are (rank, sessions)."""
    times = dict.fromkeys(["window_start_at", "window_end_at"], "datetime64[us]")
    cells = [(k, value, n) for k, of_k in values.items() for value, n in of_k]
    histograms = pd.DataFrame(
        [TOTAL | {"k": k, "value": value, "n_units": n, "weight": n * UNIT} for k, value, n in cells],
        columns=[*KEY, "value", "n_units", "weight"],
    ).astype({"k": "int32", "value": "float64"} | times)
    by_rank = pd.DataFrame(
        [TOTAL | {"rank": rank, "hit_sum": n * UNIT} for rank, n in hits or []], columns=[*TOTAL, "rank", "hit_sum"]
    ).astype({"rank": "int32", "hit_sum": "int64"} | times)
    known = examination_propensities(steps(), cascade, confidence=0.95)
    published = pd.DataFrame(rows).astype({"k": "int32"})
    return exposure_sensitivity(histograms, by_rank, published, known, confidence=0.95)


def test_corrected_precision_is_a_bounded_mean() -> None:
    # propensities 1, .5: a hit at both ranks is (1 + 2) / 2 = 1.5, the most there is. 12 of 40 sessions have
    # it, the others nothing: the mean is .45, and the bounds are Clopper-Pearson's times 1.5
    found = sensitivity({2: [(1.5, 12), (0.0, 28)]}, [raw(2, 0.3, 40)], depths(200, 100))
    (row,) = found.to_dict("records")
    exact = stats.binomtest(12, 40).proportion_ci(0.95, "exact")
    assert list(found.columns) == COLUMNS
    assert row["estimate"] == 0.3
    assert row["exposure_corrected_estimate"] == pytest.approx(0.45)
    assert row["exposure_corrected_low"] == pytest.approx(1.5 * exact.low, abs=1e-6)
    assert row["exposure_corrected_high"] == pytest.approx(1.5 * exact.high, abs=1e-6)
    assert (row["exposure_method"], row["lowest_propensity"], row["n_signals"]) == ("cascade", 0.5, 200)
    assert (row["reason"], row["assumption"]) == (None, ASSUMPTIONS["cascade"]) or pd.isna(row["reason"])


def test_the_error_of_the_propensities_widens_the_interval() -> None:
    # propensities 1, .5, .25 of 200, 100 and 50 lists: steps with variances 100 / (200 x 100) = .005 and
    # 50 / (100 x 50) = .01. 40 sessions, 20 hits at rank 1, 10 at 2, 5 at 3: each rank gives 20 / 3 / 40 = 1/6.
    # The first step moves ranks 2 and 3, the second rank 3: .005 (1/3)^2 + .01 (1/6)^2 = .000833
    values = {3: [(7 / 3, 5), (1.0, 5), (1 / 3, 10), (0.0, 20)]}
    (row,) = sensitivity(values, [raw(3, 0.3, 40)], depths(200, 100, 50), [(1, 20), (2, 10), (3, 5)]).to_dict("records")
    (alone,) = sensitivity(values, [raw(3, 0.3, 40)], depths(200, 100, 50)).to_dict("records")
    estimate, error = row["exposure_corrected_estimate"], 1.959964 * math.sqrt(0.005 / 9 + 0.01 / 36)
    assert estimate == pytest.approx(0.5) == alone["exposure_corrected_estimate"]
    for end in ("low", "high"):
        bound = alone[f"exposure_corrected_{end}"] - estimate
        assert abs(row[f"exposure_corrected_{end}"] - estimate) == pytest.approx(math.hypot(bound, error))


def test_sessions_that_resemble_each_other_count_for_fewer_here_too() -> None:
    values = {2: [(1.5, 12), (0.0, 28)]}
    (few,) = sensitivity(values, [raw(2, 0.3, 40, n_eff=10.0)], depths(200, 100)).to_dict("records")
    scaled = pd.DataFrame({"g": "x", "value": [1.0, 0.0], "weight": [12 * UNIT, 28 * UNIT]})
    plain = mean_intervals(scaled, ["g"], n_eff=pd.DataFrame({"g": ["x"], "n_eff": [10.0]})).iloc[0]
    assert few["exposure_corrected_low"] == pytest.approx(1.5 * plain["bound_low"])


def test_propensities_of_one_are_no_correction() -> None:
    values = {2: [(1.0, 9), (0.5, 20), (0.0, 11)]}
    (row,) = sensitivity(values, [raw(2, 0.475, 40)], depths(200, 200)).to_dict("records")
    plain = mean_intervals(
        pd.DataFrame({"g": "x", "value": [1.0, 0.5, 0.0], "weight": [9 * UNIT, 20 * UNIT, 11 * UNIT]}), ["g"]
    ).iloc[0]
    assert row["exposure_corrected_estimate"] == plain["estimate"]
    ends = (row["exposure_corrected_low"], row["exposure_corrected_high"])
    assert ends == pytest.approx((plain["bound_low"], plain["bound_high"]))


def test_a_k_that_needs_an_unknown_propensity_says_why() -> None:
    found = sensitivity({2: [(1.5, 1), (0.0, 1)]}, [raw(2, 0.5, 2), raw(5, 0.4, 2)], depths(80, 40, 20)).set_index("k")
    assert found.loc[2, "exposure_corrected_estimate"] == pytest.approx(0.75)
    assert found.loc[5, "reason"] == "too_few_signals"
    assert found.loc[5, ["exposure_corrected_estimate", "exposure_corrected_low", "exposure_method"]].isna().all()
    assert found.loc[5, "estimate"] == 0.4


def test_nothing_signalled_is_no_correction_and_nothing_scored_the_whole_range() -> None:
    (silent,) = sensitivity({}, [raw(5, 0.0, 3)], depths()).to_dict("records")
    assert (silent["reason"], silent["estimate"]) == ("no_placed_signals", 0.0)
    assert math.isnan(silent["exposure_corrected_high"])
    (unscored,) = sensitivity({}, [raw(2, None, 0)], depths(200, 100)).to_dict("records")
    assert math.isnan(unscored["exposure_corrected_estimate"])
    assert (unscored["exposure_corrected_low"], unscored["exposure_corrected_high"]) == (0.0, 1.5)


def test_no_row_has_the_types_of_rows() -> None:
    rows = sensitivity({2: [(1.5, 1)]}, [raw(2, 0.5, 1)], depths(80, 40))
    first = pd.DataFrame([raw(2, 0.5, 1) | {"value": 0.5, "weight": UNIT, "rank": 1, "hit_sum": UNIT}])
    nothing = first.astype({"k": "int32", "rank": "int32"}).iloc[:0]
    none = exposure_sensitivity(
        nothing[[*KEY, "value", "n_units", "weight"]],
        nothing[[*TOTAL, "rank", "hit_sum"]],
        nothing.drop(columns=["value", "weight", "rank", "hit_sum"]),
        examination_propensities(steps(), steps(), confidence=0.95),
        confidence=0.95,
    )
    assert len(none) == 0
    assert none.dtypes.to_dict() == rows.dtypes.to_dict()


def test_ranks_that_no_list_has_can_still_be_hit_by_signals_on_the_whole_answer() -> None:
    # ranks 1 and 2 weigh 1 and 2; 3 to 5 have no placed signal: at most (1 + 2 + 3) / 5
    (row,) = sensitivity({5: [(1.2, 3)]}, [raw(5, 0.5, 3)], depths(200, 100)).to_dict("records")
    assert row["exposure_corrected_high"] == pytest.approx(1.2)


def test_sessions_that_are_not_those_of_the_raw_row_are_refused() -> None:
    with pytest.raises(ValueError, match="disagree on how many sessions were scored"):
        sensitivity({2: [(1.5, 12)]}, [raw(2, 0.3, 40)], depths(200, 100))
