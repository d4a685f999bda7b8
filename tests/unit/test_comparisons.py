"""Differences, families of p-values, and planning: hand-worked values, properties, witnesses."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from retrieval_quality.comparisons import (
    anytime_interval,
    benjamini_hochberg,
    detectable_effect,
    holm,
    paired_differences,
    power_of,
    sample_ratio_mismatch,
    sessions_needed,
    steady_std_error,
    unpaired_differences,
)
from retrieval_quality.intervals import mean_intervals

UNIT = 1_000_000
PAIR = pd.DataFrame({"control": ["a"], "treatment": ["b"]})
Histogram = dict[float, float]


def arms(groups: list[tuple[Histogram, Histogram]]) -> pd.DataFrame:
    """(control a, treatment b) of group g."""
    rows = [
        (g, arm, x, round(c * UNIT))
        for g, pair in enumerate(groups)
        for arm, h in zip("ab", pair, strict=True)
        for x, c in h.items()
    ]
    return pd.DataFrame(rows, columns=["g", "arm", "value", "weight"]).astype({"value": "float64", "weight": "int64"})


def compare(control: Histogram, treatment: Histogram, **options: object) -> pd.Series:
    return unpaired_differences(arms([(control, treatment)]), ["g"], PAIR, **options).iloc[0]  # type: ignore[arg-type]


def paired(histogram: Histogram, **options: object) -> pd.Series:
    data = pd.DataFrame({"g": 0, "value": list(histogram), "weight": [round(c * UNIT) for c in histogram.values()]})
    return paired_differences(data, ["g"], **options).iloc[0]  # type: ignore[arg-type]


values = st.integers(0, 10).map(lambda i: i / 10)
histograms = st.dictionaries(values, st.integers(1, 60).map(float), min_size=1, max_size=6)


# ---- two arms -----------------------------------------------------------------------------------


def test_unpaired_difference_by_hand() -> None:
    # control 20 of 100, treatment 30 of 100. Clopper-Pearson: [.126656, .291843], [.212406, .399815].
    # MOVER: .1 - sqrt((.3 - .212406)^2 + (.291843 - .2)^2) = .1 - .126917
    #        .1 + sqrt((.399815 - .3)^2 + (.2 - .126656)^2) = .1 + .123865
    row = compare({0.0: 80, 1.0: 20}, {0.0: 70, 1.0: 30})
    assert (row.control, row.treatment, row.n_control, row.n_treatment) == ("a", "b", 100, 100)
    assert (row.mean_control, row.mean_treatment) == (0.2, 0.3)
    assert row.difference == pytest.approx(0.1)
    assert row.bound_low == pytest.approx(-0.026917, abs=2e-6)
    assert row.bound_high == pytest.approx(0.223865, abs=2e-6)
    # .16/99 + .21/99 = .0037374
    assert row.std_error == pytest.approx(0.0611340, abs=1e-7)
    assert row.mdd == pytest.approx(2.80 * 0.0611340, abs=1e-6)
    assert row.relative_change == pytest.approx(0.5)
    # both arms together: sd^2 = 200 * .0037374 = .74747; (1.959964 + .841621)^2 * .74747 / .01 = 586.7
    assert row.sessions_needed_observed == 587
    assert row.sessions_needed_wanted == 6_519  # 7.848880 * .74747 / .0009 = 6518.7
    # sqrt((...)^2) at z with 2 Phi(-z) = p reaches .1; a plain z-test has p = .1019
    assert 0.1 < row.p_value < 0.13


def test_a_level_where_the_interval_just_meets_zero_is_the_p_value() -> None:
    data = arms([({0.0: 80, 1.0: 20}, {0.0: 70, 1.0: 30}), ({0.2: 9, 0.6: 11}, {0.2: 3, 0.8: 30})])
    p = unpaired_differences(data, ["g"], PAIR).p_value
    for g in (0, 1):
        row = unpaired_differences(data, ["g"], PAIR, confidence=1 - p[g]).iloc[g]
        assert row.bound_low == pytest.approx(0.0, abs=1e-6)


@given(st.lists(st.tuples(histograms, histograms), min_size=1, max_size=5), st.sampled_from([0.5, 0.8, 0.95, 0.999]))
@settings(max_examples=25, deadline=None)
def test_p_agrees_with_the_interval_and_the_interval_with_its_arms(
    groups: list[tuple[Histogram, Histogram]], confidence: float
) -> None:
    result = unpaired_differences(arms(groups), ["g"], PAIR, confidence=confidence)
    excludes = (result.bound_low > 1e-9) | (result.bound_high < -1e-9)
    touches = (result.bound_low.abs() < 1e-6) | (result.bound_high.abs() < 1e-6)
    assert (((result.p_value < 1 - confidence) == excludes) | touches).all()
    assert (result.bound_low <= result.difference).all()
    assert (result.difference <= result.bound_high).all()
    assert (result.bound_low < result.bound_high).all()
    assert (result.bound_low >= -1).all()
    assert (result.bound_high <= 1).all()
    assert result.p_value.between(0, 1).all()
    single = mean_intervals(arms(groups), ["g", "arm"], confidence=confidence)
    width = (single.bound_high - single.bound_low).to_numpy().reshape(-1, 2)
    assert (result.bound_high - result.bound_low >= width.max(axis=1) - 1e-12).all()
    assert (result.bound_high - result.bound_low <= width.sum(axis=1) + 1e-12).all()


@given(histograms, histograms)
@settings(max_examples=15, deadline=None)
def test_exchanged_arms_mirror_the_difference(first: Histogram, second: Histogram) -> None:
    there, back = compare(first, second), compare(second, first)
    assert there.difference == -back.difference
    assert there.bound_low == pytest.approx(-back.bound_high, abs=1e-12)
    assert there.p_value == pytest.approx(back.p_value, rel=1e-9)


def test_large_arms_approach_the_normal_test() -> None:
    row = compare({0.0: 50_000, 1.0: 50_000}, {0.0: 49_500, 1.0: 50_500})
    z = 0.005 / row.std_error
    assert row.p_value == pytest.approx(2 * stats.norm.sf(z), rel=0.02)
    for kind in ("ci", "bound"):
        assert row[f"{kind}_low"] == pytest.approx(0.005 - 1.96 * row.std_error, abs=3e-5)
    assert row.ci_method == "bca"


def test_equal_arms_have_p_one_and_certain_differences_a_tiny_p() -> None:
    assert compare({0.0: 5, 1.0: 5}, {0.0: 50, 1.0: 50}).p_value == 1.0
    row = compare({0.0: 10_000_000}, {1.0: 10_000_000})
    assert 0 <= row.p_value < 1e-290
    assert row.bound_low > 0.999
    # ten zeros against ten ones: both ends at .3085 x 1.414 from the means
    row = compare({0.0: 10}, {1.0: 10})
    assert row.bound_low == pytest.approx(1 - np.sqrt(2) * 0.3085, abs=1e-4)
    assert row.ci_method == "bounded"
    assert (row.ci_low, row.ci_high) == (row.bound_low, row.bound_high)
    assert np.isnan(row.relative_change)


def test_p_is_continuous_where_intervals_end() -> None:
    """Above p = .5 the quantile is extrapolated; there is no jump at the seam."""
    groups = [({0.0: 5_000, 1.0: 5_000}, {0.0: 5_000.0 - s, 1.0: 5_000.0 + s}) for s in range(80)]
    p = unpaired_differences(arms(groups), ["g"], PAIR).p_value
    steps = -np.diff(p)
    assert (steps > 0).all()
    assert steps.max() < 0.03
    assert p[0] == 1
    assert p.iloc[-1] < 0.35


def test_pairs_choose_arms_by_group_and_absent_arms_know_nothing() -> None:
    rows = [
        ("x", "seg", "on", 1.0, 5),
        ("x", "seg", "off", 0.0, 5),
        ("y", None, "v2", 1.0, 4),
        ("y", None, "v1", 0.5, 4),
    ]
    data = pd.DataFrame(rows, columns=["experiment", "segment", "bucket", "value", "n"])
    data = data.assign(weight=data.n * UNIT)
    pairs = pd.DataFrame(
        [("x", "off", "on"), ("x", "off", "dark"), ("y", "v1", "v2"), ("z", "a", "b")],
        columns=["experiment", "control", "treatment"],
    )
    result = unpaired_differences(data, ["experiment", "segment"], pairs, arm="bucket")
    assert result[["experiment", "control", "treatment"]].to_numpy().tolist() == [
        ["x", "off", "dark"],
        ["x", "off", "on"],
        ["y", "v1", "v2"],
    ]
    assert result.segment.isna().tolist() == [False, False, True]
    assert result.difference.tolist()[1:] == [1.0, 0.5]
    empty = result.iloc[0]
    assert (empty.n_treatment, empty.bound_low, empty.bound_high) == (0, -1, 1)
    assert (empty.ci_low, empty.ci_high, empty.anytime_low, empty.anytime_high) == (-1, 1, -1, 1)
    assert np.isnan(empty.p_value)
    assert np.isnan(empty.difference)
    assert np.isnan(empty.sessions_needed_wanted)


def test_bits_depend_neither_on_batch_nor_on_order() -> None:
    rng = np.random.default_rng(4)
    groups = []
    for _ in range(200):
        size = int(rng.choice([1, 2, 6, 40]))
        groups.append(
            tuple(
                {
                    float(x) / 100: float(c)
                    for x, c in zip(rng.choice(101, size, False), rng.integers(1, 300, size), strict=True)
                }
                for _ in "ab"
            )
        )
    data = arms(groups)
    numbers = ["difference", "p_value", "bound_low", "bound_high", "ci_low", "ci_high", "anytime_low", "mdd"]
    whole = unpaired_differences(data, ["g"], PAIR)[numbers].to_numpy().view(np.int64)
    shuffled = unpaired_differences(data.sample(frac=1, random_state=3), ["g"], PAIR)[numbers].to_numpy().view(np.int64)
    assert (whole == shuffled).all()
    for start in (0, 57):
        part = unpaired_differences(data[data.g.between(start, start + 4)], ["g"], PAIR)[numbers].to_numpy()
        assert (part.view(np.int64) == whole[start : start + 5]).all()


def test_unpaired_sizes_scale_with_n_eff() -> None:
    data = arms([({0.0: 80, 1.0: 20}, {0.0: 70, 1.0: 30})])
    sizes = pd.DataFrame({"g": 0, "arm": ["a", "b"], "n_eff": [10.0, 10.0]})
    row = unpaired_differences(data, ["g"], PAIR, n_eff=sizes).iloc[0]
    small = compare({0.0: 8, 1.0: 2}, {0.0: 7, 1.0: 3})
    assert row.bound_low == pytest.approx(small.bound_low, abs=1e-12)
    assert row.p_value == pytest.approx(small.p_value, abs=1e-12)


@pytest.mark.parametrize(
    ("pairs", "options", "message"),
    [
        (pd.DataFrame({"control": ["a"]}), {}, "pairs lacks"),
        (pd.DataFrame({"control": ["a"], "treatment": ["a"]}), {}, "two different arms"),
        (pd.concat([PAIR, PAIR]), {}, "unique"),
        (PAIR, {"arm": "control"}, "arm must be"),
        (PAIR, {"wanted_effect": 0.0}, "wanted_effect > 0"),
        (PAIR, {"power": 1.0}, "power < 1"),
        (PAIR, {"confidence": 0.4}, "confidence must be"),
    ],
)
def test_bad_pairs_are_named(pairs: pd.DataFrame, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unpaired_differences(arms([({0.0: 1}, {1.0: 1})]), ["g"], pairs, **options)  # type: ignore[arg-type]


def test_no_rows_give_typed_empty_frames() -> None:
    data = arms([({0.0: 1}, {1.0: 1})])
    nothing = unpaired_differences(data[:0], ["g"], PAIR)
    assert len(nothing) == 0
    assert nothing.columns.tolist() == unpaired_differences(data, ["g"], PAIR).columns.tolist()
    assert len(paired_differences(data[:0], ["g"])) == 0


# ---- paired -------------------------------------------------------------------------------------


def test_paired_sign_flips_are_the_sign_test() -> None:
    # 8 of 10 queries flip from 0 to 1, 2 from 1 to 0: on [-1, 1] two end points, so p is the
    # two-sided binomial: 2 P(Bin(10, .5) >= 8) = 2 * 56/1024
    row = paired({-1.0: 2, 1.0: 8})
    assert row.difference == pytest.approx(0.6)
    assert row.p_value == pytest.approx(112 / 1024)
    exact = stats.binomtest(8, 10).proportion_ci(method="exact")
    assert row.bound_low == pytest.approx(2 * exact.low - 1, abs=1e-12)
    assert row.bound_high == pytest.approx(2 * exact.high - 1, abs=1e-12)
    assert (row.n_better, row.n_equal, row.n_worse, row.n_eff) == (8, 0, 2, 10)


@given(st.dictionaries(st.integers(-5, 5).map(lambda i: i / 5), st.integers(1, 40).map(float), min_size=1, max_size=7))
@settings(max_examples=20, deadline=None)
def test_paired_p_agrees_with_its_interval(histogram: Histogram) -> None:
    for confidence in (0.8, 0.95, 0.999):
        row = paired(histogram, confidence=confidence)
        excludes = row.bound_low > 1e-4 or row.bound_high < -1e-4
        touches = min(abs(row.bound_low), abs(row.bound_high)) <= 1e-4
        assert touches or (row.p_value < 1 - confidence) == excludes
        assert row.n_better + row.n_equal + row.n_worse == pytest.approx(row.n_eff)


def test_paired_queries_that_all_agree_are_no_evidence_and_no_proof() -> None:
    row = paired({0.0: 200})
    assert (row.difference, row.p_value) == (0, 1)
    assert row.bound_low == pytest.approx(-row.bound_high)
    assert row.bound_high > 0.01  # 1 - .025^(1/200) = .0183
    assert row.mdd == pytest.approx(1 - 0.025 ** (1 / 200), abs=1e-4)
    assert row.power_reached > 0.99
    weighted = pd.DataFrame({"g": 0, "value": [0.5, -0.5], "weight": [3 * UNIT, UNIT]})
    sizes = pd.DataFrame({"g": [0], "n_eff": [2.0]})
    scaled = paired_differences(weighted, ["g"], n_eff=sizes).iloc[0]
    assert (scaled.n_better, scaled.n_worse) == (1.5, 0.5)


# ---- looking every night ------------------------------------------------------------------------


def test_anytime_interval_by_hand() -> None:
    # alpha .05: -2 log alpha = 5.991465, + log 6.991465 = 7.936152; tuned_for 100, n 100: n r^2 =
    # 7.936152; 2 * 8.936152 / 7.936152 * log(sqrt(8.936152) / .05) = 2.252011 * 4.090798 = 9.212522
    interval = anytime_interval([100, 0], [0.5, np.nan], [0.02, np.nan], tuned_for=100, lower=0, upper=1)
    assert interval.low == pytest.approx([0.5 - 0.02 * np.sqrt(9.212522), 0.0], abs=1e-6)
    assert interval.high == pytest.approx([0.5 + 0.02 * np.sqrt(9.212522), 1.0], abs=1e-6)


def test_anytime_interval_is_narrowest_where_it_is_tuned() -> None:
    tunings = np.array([20, 50, 80, 100, 125, 200, 500])
    widths = [float(anytime_interval(100, 0.0, 0.1, tuned_for=t).high) for t in tunings]
    assert int(np.argmin(widths)) == 3
    one_look = 1.959964 * 0.1
    assert 1.4 < min(widths) / one_look < 1.6
    with pytest.raises(ValueError, match="tuned_for"):
        anytime_interval(10, 0.5, 0.1, tuned_for=0)


def test_steady_std_error_has_twelve_pseudo_units() -> None:
    # ten equal scores: 12 * 1/4 / 22 / 10
    assert steady_std_error(0.0, 10, 1.0) == pytest.approx(np.sqrt(3 / 220))
    assert steady_std_error(0.0003, 1e6, 1.0) == pytest.approx(0.0003, rel=1e-4)
    assert np.isnan(steady_std_error(np.nan, 1, 1.0))


# ---- families -----------------------------------------------------------------------------------


def test_holm_by_hand() -> None:
    # sorted .01 .02 .03 .04 times 4 3 2 1 = .04 .06 .06 .04 -> running maximum
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]).tolist() == []


@given(st.lists(st.one_of(st.floats(0, 1), st.just(0.02)), min_size=1, max_size=30))
@settings(max_examples=100, deadline=None)
def test_benjamini_hochberg_is_scipys(p: list[float]) -> None:
    assert benjamini_hochberg(p) == pytest.approx(stats.false_discovery_control(p), abs=1e-15)
    assert (holm(p) >= benjamini_hochberg(p) - 1e-15).all()
    assert (benjamini_hochberg(p) >= np.array(p)).all()


def test_families_are_apart_and_missing_tests_outside() -> None:
    p = np.array([0.01, np.nan, 0.04, 0.01, 0.04, 0.03])
    family = pd.DataFrame({"slo": ["s", "s", None, None, "s", None], "night": 1})
    assert holm(p, family) == pytest.approx([0.02, np.nan, 0.06, 0.03, 0.04, 0.06], nan_ok=True)
    expected = np.full(6, np.nan)
    for members in ([0, 4], [2, 3, 5]):
        expected[members] = stats.false_discovery_control(p[members])
    assert benjamini_hochberg(p, family) == pytest.approx(expected, nan_ok=True)
    order = np.array([3, 1, 5, 0, 2, 4])
    assert benjamini_hochberg(p[order], family.iloc[order]) == pytest.approx(expected[order], nan_ok=True)
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        holm([1.2])
    with pytest.raises(ValueError, match="same length"):
        holm([0.1], family)


# ---- sample ratio -------------------------------------------------------------------------------


def counted(rows: list[tuple[object, ...]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["e", "arm", "n"])


def test_sample_ratio_is_scipys_chi_square() -> None:
    counts = counted([("x", "a", 4_880), ("x", "b", 5_120), (None, "a", 50), (None, "b", 30), (None, "c", 20)])
    shares = pd.DataFrame({"e": ["x", "x", None, None, None], "arm": list("ababc"), "share": [1, 1, 0.5, 0.3, 0.2]})
    result = sample_ratio_mismatch(counts, ["e"], shares)
    exact = stats.chisquare([4_880, 5_120], [5_000, 5_000])
    assert result.e.isna().tolist() == [False, True]
    assert result.chi_square[0] == pytest.approx(exact.statistic)  # 120^2 / 5000 * 2 = 5.76
    assert result.p_value[0] == pytest.approx(exact.pvalue)
    assert result.largest_excess.abs()[0] == pytest.approx(0.012)
    assert result.chi_square[1] == pytest.approx(0, abs=1e-12)
    assert result.is_mismatch.tolist() == [False, False]
    assert sample_ratio_mismatch(counts, ["e"], shares, alarm_below=0.05).is_mismatch.tolist() == [True, False]


def test_sample_ratio_counts_absent_and_undeclared_arms() -> None:
    shares = pd.DataFrame({"arm": ["a", "b"], "share": [0.5, 0.5]})
    counts = counted([("x", "a", 20), ("x", "a", 10), ("x", "dark", 7), ("y", "dark", 3), ("z", "a", 1), ("z", "b", 0)])
    result = sample_ratio_mismatch(counts, ["e"], shares).set_index("e")
    assert result.loc["x", ["n_units", "n_undeclared", "n_arms"]].tolist() == [30, 7, 2]
    assert result.p_value["x"] == pytest.approx(stats.chisquare([30, 0]).pvalue)
    assert result.is_mismatch.to_dict() == {"x": True, "y": False, "z": False}
    assert np.isnan(result.p_value["y"])
    assert result.p_value["z"] == pytest.approx(stats.chisquare([1, 0]).pvalue)


@pytest.mark.parametrize(
    ("counts", "shares", "message"),
    [
        ({"n": 0.5}, {}, "whole numbers"),
        ({"n": -1}, {}, "whole numbers"),
        ({}, {"share": 0.0}, "positive"),
        ({}, {"arm": "a"}, "twice"),
    ],
)
def test_bad_counts_are_named(counts: dict[str, object], shares: dict[str, object], message: str) -> None:
    declared = pd.DataFrame({"arm": ["a", "b"], "share": [0.5, 0.5]}).assign(**shares)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        sample_ratio_mismatch(counted([("x", "a", 1)]).assign(**counts), ["e"], declared)  # type: ignore[arg-type]


# ---- planning -----------------------------------------------------------------------------------


def test_sizes_of_the_table_in_the_reference() -> None:
    # statistics.md section 6: one-sided 5 %, power 80 %
    for sd, sizes in ((0.270, [46, 181, 501, 1_126, 4_504]), (0.4, [99, 396, 1_100, 2_474, 9_893])):
        needed = sessions_needed(sd, [0.1, 0.05, 0.03, 0.02, 0.01], sides=1)
        assert np.abs(needed / np.array(sizes) - 1).max() < 0.012
        assert (np.abs(needed - sizes) <= [1, 1, 1, 2, 5]).all()
    assert detectable_effect(0.27, [30, 100, 300, 1_000], sides=1) == pytest.approx(
        [0.123, 0.067, 0.039, 0.021], abs=6e-4
    )
    # two-sided 5 %: 7.85 sd^2 / effect^2
    assert sessions_needed(0.27, 0.03) == np.ceil(7.848880 * 0.0729 / 0.0009)


def test_baselines_and_clusters_cost_more() -> None:
    alone = sessions_needed(0.4, 0.03, sides=1)
    assert sessions_needed(0.4, 0.03, sides=1, n_baseline="equal") == pytest.approx(2 * alone, abs=2)
    n = float(sessions_needed(0.4, 0.03, sides=1, n_baseline=5_000.0))
    assert n == pytest.approx(1_099.1 * (1 + n / 5_000), rel=1e-3)  # n = A (1 + n / n_base)
    assert sessions_needed(0.4, 0.03, n_baseline=500.0) == np.inf
    assert sessions_needed(0.4, 0.03, sides=1, design_effect=2.0) == pytest.approx(2 * alone, abs=2)
    assert sessions_needed(0.4, [0.0, np.nan, -0.03], sides=1).tolist()[::2] == [np.inf, float(alone)]
    for base in ("fixed", "equal", 9_000.0):
        n = sessions_needed(0.3, 0.04, n_baseline=base, design_effect=1.5)  # type: ignore[arg-type]
        effect = detectable_effect(0.3, n, n_baseline=base, design_effect=1.5)  # type: ignore[arg-type]
        assert effect == pytest.approx(0.04, rel=2e-3)


def test_power_at_the_detectable_effect_is_the_power_asked_for() -> None:
    effect = detectable_effect(0.3, 400)
    assert power_of(0.3 / 20, effect) == pytest.approx(0.8, abs=1e-4)
    assert power_of(0.3 / 20, 0.0) == pytest.approx(0.05)
    assert power_of(0.3 / 20, 0.0, sides=1) == pytest.approx(0.05)
    # p@5, n = 500, .47 against .50: one-sided 5 % power .802 by simulation (statistics.md section 6)
    assert power_of(0.27 / np.sqrt(500), 0.03, sides=1) == pytest.approx(0.80, abs=0.01)
    with pytest.raises(ValueError, match="sides"):
        power_of(0.1, 0.1, sides=3)  # type: ignore[arg-type]
