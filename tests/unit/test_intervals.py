"""Intervals of means of bounded scores: hand-worked values, properties, and witnesses."""

import datetime as dt
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from retrieval_quality.intervals import (
    CiMethod,
    bootstrap_monte_carlo,
    bounded_ends,
    bounded_p_values,
    histogram_groups,
    mean_intervals,
)

UNIT = 1_000_000
STATISTICS = ["estimate", "std_error", "ci_low", "ci_high", "bound_low", "bound_high", "mdd"]
RUNS = Path(__file__).resolve().parents[3] / "shared" / "data" / "runs"

Histogram = dict[float, float]  # score -> units


def frame(groups: list[Histogram]) -> pd.DataFrame:
    """Histograms as the warehouse hands them over; `g` is the position in the list."""
    rows = [(g, x, round(c * UNIT)) for g, h in enumerate(groups) for x, c in h.items()]
    return pd.DataFrame(rows, columns=["g", "value", "weight"]).astype(
        {"g": "int64", "value": "float64", "weight": "int64"}
    )


def one(histogram: Histogram, **options: object) -> pd.Series:
    return mean_intervals(frame([histogram]), ["g"], **options).iloc[0]  # type: ignore[arg-type]


def bits(result: pd.DataFrame) -> list[tuple[object, ...]]:
    """Rows as exact tuples: floats as hexadecimal, so that equal means bit-identical."""
    return [
        tuple(v.hex() if isinstance(v, float) else v for v in row)
        for row in result[["n_eff", *STATISTICS, "ci_method"]].itertuples(index=False)
    ]


scores = st.one_of(
    st.integers(0, 5).map(lambda i: i / 5),
    st.integers(0, 100).map(lambda i: i / 100),
    st.sampled_from([0.0, 1 / 3, 0.5, 1.0]),
)
units = st.one_of(st.integers(1, 40).map(float), st.integers(1, 10**8).map(lambda w: w / UNIT))
histograms = st.dictionaries(scores, units, min_size=1, max_size=20)


# ---- worked by hand -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("histogram", "low", "high"),
    [
        # One score x, n times: the lower end is x * Beta(n, 1) with quantile x * .025^(1/n), the
        # upper end 1 - (1 - x) * .025^(1/n).
        ({1.0: 1}, 0.025, 1.0),  # .025^1
        ({0.4: 1}, 0.010, 0.985),  # .4 * .025;  1 - .6 * .025
        ({1.0: 10}, 0.6915, 1.0),  # .025^(1/10) = exp(-3.6889 / 10) = exp(-.36889)
        ({1.0: 30}, 0.8843, 1.0),  # exp(-3.6889 / 30) = exp(-.12296)
        ({1.0: 300}, 0.98778, 1.0),  # exp(-.012296)
        ({0.4: 30}, 0.3537, 0.4694),  # .4 * .8843;  1 - .6 * .8843
        ({0.0: 30}, 0.0, 0.1157),  # 1 - .8843
    ],
)
def test_one_distinct_value_gives_a_scaled_beta_interval(histogram: Histogram, low: float, high: float) -> None:
    row = one(histogram)
    assert row.bound_low == pytest.approx(low, abs=6e-5)
    assert row.bound_high == pytest.approx(high, abs=6e-5)
    assert (row.ci_method, row.ci_low, row.ci_high) == ("bounded", row.bound_low, row.bound_high)
    assert row.ci_low < row.ci_high
    (score,) = histogram
    assert row.estimate == score
    assert row.mdd == pytest.approx(score - row.bound_low)


def test_standard_error_and_mdd_by_hand() -> None:
    # 2 x 0, 2 x 1: mean 1/2, squares 4 * 1/4 = 1, ddof 1: sigma^2 = 1/3, se = sqrt(1/3 / 4).
    row = one({0.0: 2, 1.0: 2})
    assert row.estimate == 0.5
    assert row.std_error == pytest.approx(np.sqrt(1 / 12), rel=1e-14)
    assert row.mdd == pytest.approx(2.80 * np.sqrt(1 / 12), rel=1e-14)  # .81 > .5 - bound_low
    # 27 x 1, 3 x 0: se = sqrt(.09 / 29) = .05571, 2.80 se = .156; Clopper-Pearson low = .7347, so
    # estimate - bound_low = .165 is the larger.
    row = one({1.0: 27, 0.0: 3})
    assert row.std_error == pytest.approx(0.055709, abs=1e-6)
    assert row.mdd == pytest.approx(0.9 - 0.7347, abs=1e-4)


def test_one_unit_has_no_standard_error_and_the_bounded_interval() -> None:
    row = one({0.2: 0.5, 0.6: 0.5})
    assert np.isnan(row.std_error)
    assert row.estimate == pytest.approx(0.4)
    assert row.ci_method == "bounded"
    assert row.mdd == row.estimate - row.bound_low


def test_bootstrap_of_a_normal_sized_group_is_close_to_the_textbook_interval() -> None:
    # 500 x 0, 500 x 1: se of the bootstrap = .5 / sqrt(1000) = .015811; 1.96 se = .03099
    for method in ("percentile", "bca"):
        row = one({0.0: 500, 1.0: 500}, ci_method=method)
        assert row.ci_low == pytest.approx(0.5 - 0.03099, abs=1e-4)
        assert row.ci_high == pytest.approx(0.5 + 0.03099, abs=1e-4)
        assert row.ci_method == method


def test_percentile_end_is_the_maximum_when_all_draws_can_hit_it() -> None:
    # 29 of 30 at 1: P(every draw is 1) = (29/30)^30 = .36 > .025, so the upper end is exactly 1.
    # 27 of 30: .9^30 = .042 > .025, still 1. 26 of 30: .0137 < .025, below 1.
    assert one({1.0: 29, 0.0: 1}, ci_method="percentile").ci_high == 1.0
    assert one({1.0: 27, 0.0: 3}, ci_method="percentile").ci_high == 1.0
    assert one({1.0: 26, 0.0: 4}, ci_method="percentile").ci_high < 1.0


def test_bca_leans_away_from_the_long_tail() -> None:
    # gamma < 0: z0 = a < 0, so both ends move down
    skewed = {0.4: 1, 0.6: 1, 0.8: 3, 1.0: 25}
    percentile, bca = one(skewed, ci_method="percentile"), one(skewed, ci_method="bca")
    assert bca.ci_low < percentile.ci_low
    assert bca.ci_high < percentile.ci_high


# ---- exact and near-exact references ------------------------------------------------------------


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
def test_zero_one_scores_are_clopper_pearson(confidence: float) -> None:
    pairs = [(s, n) for n in (1, 2, 5, 30, 300, 10_000) for s in {0, 1, n // 3, n - 1, n}]
    groups = [{x: float(c) for x, c in ((0.0, n - s), (1.0, s)) if c} for s, n in pairs]
    result = mean_intervals(frame(groups), ["g"], confidence=confidence)
    for (s, n), row in zip(pairs, result.itertuples(), strict=True):
        exact = stats.binomtest(s, n).proportion_ci(confidence, method="exact")
        assert row.bound_low == pytest.approx(exact.low, abs=1e-12)
        assert row.bound_high == pytest.approx(exact.high, abs=1e-12)


def test_zero_one_scores_with_fractional_counts_are_beta_quantiles() -> None:
    row = one({0.0: 2.25, 1.0: 7.5})
    assert row.bound_low == pytest.approx(stats.beta.ppf(0.025, 7.5, 3.25), abs=1e-12)
    assert row.bound_high == pytest.approx(stats.beta.ppf(0.975, 8.5, 2.25), abs=1e-12)


def dirichlet_tail(histogram: Histogram, extra: float, t: float) -> float:
    """P(sum D_v x_v <= t), D ~ Dirichlet(counts, 1 at `extra`), by numerical inversion.

    Gil-Pelaez for sum Gamma(c_v) (x_v - t), integrated over log y: exact to about 1e-9.
    """
    a = np.array([*histogram, extra]) - t
    c = np.array([*histogram.values(), 1.0])
    y = np.exp((np.arange(-3000, 3000) + 0.5) * 0.015)
    log_characteristic = -(c[:, None] * np.log(1 - 1j * y * a[:, None])).sum(axis=0)
    return float(0.5 - np.exp(log_characteristic).imag.sum() * 0.015 / np.pi)


def test_bounded_interval_is_within_a_thousandth_of_the_exact_dirichlet_quantile() -> None:
    rng = np.random.default_rng(2)
    groups: list[Histogram] = []
    for _ in range(150):
        size = int(rng.integers(2, 7))
        x = rng.choice([0, 0.01, 0.1, 0.2, 0.25, 1 / 3, 0.4, 0.6, 0.8, 0.99, 1], size, False)
        n = rng.choice([2, 3, 5, 10, 30, 100])
        c = rng.dirichlet(np.full(size, rng.choice([0.5, 1, 5]))) * n
        groups.append({float(k): float(v) for k, v in zip(x, np.round(c, 6), strict=True) if v})
    result = mean_intervals(frame(groups), ["g"])
    for h, row in zip(groups, result.itertuples(), strict=True):
        for end, extra, q in ((row.bound_low, 0.0, 0.025), (row.bound_high, 1.0, 0.975)):
            # the exact quantile lies within +-.001: its tail probability is passed in between
            assert end - 0.001 <= 0 or dirichlet_tail(h, extra, end - 0.001) <= q
            assert end + 0.001 >= 1 or dirichlet_tail(h, extra, end + 0.001) >= q


def test_bounded_interval_agrees_with_dirichlet_draws() -> None:
    rng = np.random.default_rng(3)
    for h in ({0.2: 3, 0.6: 4, 1.0: 5}, {0.0: 1, 0.5: 1}, {0.1: 20, 0.2: 6, 0.9: 4}):
        x, c = np.array(list(h)), np.array(list(h.values()))
        row = one({k: float(v) for k, v in h.items()})
        for end, extra, q in ((row.bound_low, 0.0, 0.025), (row.bound_high, 1.0, 0.975)):
            means = rng.dirichlet([*c, 1.0], size=200_000) @ np.array([*x, extra])
            assert abs(end - np.quantile(means, q)) <= 0.003


# ---- properties ---------------------------------------------------------------------------------


@given(st.lists(histograms, min_size=1, max_size=6), st.sampled_from(["bca", "percentile"]))
@settings(max_examples=60, deadline=None)
def test_intervals_are_ordered_inside_the_range_and_never_empty(groups: list[Histogram], method: CiMethod) -> None:
    result = mean_intervals(frame(groups), ["g"], ci_method=method)
    assert len(result) == len(groups)
    assert result.drop(columns="std_error").notna().all(axis=None)
    assert (result.bound_low >= 0).all()
    assert (result.bound_high <= 1).all()
    assert (result.bound_low <= result.estimate).all()
    assert (result.estimate <= result.bound_high).all()
    assert (result.bound_low < result.bound_high).all()
    assert (result.ci_low < result.ci_high).all()
    assert (result.ci_low <= result.estimate).all()
    assert (result.estimate <= result.ci_high).all()
    assert (result.mdd >= result.estimate - result.bound_low).all()
    assert (result.std_error.isna() == (result.n_eff <= 1)).all()
    for h, row in zip(groups, result.itertuples(), strict=True):
        x, c = np.array(list(h)), np.array([round(v * UNIT) for v in h.values()])
        assert row.n_eff == c.sum() / UNIT
        assert row.estimate == pytest.approx((c @ x) / c.sum(), abs=1e-12)
        if row.ci_method != "bounded":
            assert x.min() <= row.ci_low < row.ci_high <= x.max()


@given(st.lists(histograms, min_size=1, max_size=6), st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_row_order_and_split_rows_change_no_bit(groups: list[Histogram], random: object) -> None:
    whole = frame(groups)
    taken = whole.weight // 3
    parts = pd.concat([whole.assign(weight=taken), whole.assign(weight=whole.weight - taken)])
    shuffled = parts.sample(frac=1, random_state=random.randrange(2**31))  # type: ignore[attr-defined]
    assert bits(mean_intervals(shuffled, ["g"])) == bits(mean_intervals(whole, ["g"]))


def crowd(n_groups: int, seed: int) -> list[Histogram]:
    """Groups of widely different support sizes and counts."""
    rng = np.random.default_rng(seed)
    groups: list[Histogram] = []
    for _ in range(n_groups):
        size = int(rng.choice([1, 2, 3, 6, 11, 40, 101]))
        x = rng.choice(101, size, replace=False) / 100
        c = rng.integers(1, rng.choice([3, 30, 3000]), size)
        groups.append({float(k): float(v) for k, v in zip(x, c, strict=True)})
    return groups


CROWD = crowd(2_000, seed=7)


@given(histograms)
@settings(max_examples=5, deadline=None)
def test_a_group_alone_has_the_bits_it_has_among_2000_others(histogram: Histogram) -> None:
    alone = bits(mean_intervals(frame([histogram]), ["g"]))
    middle = bits(mean_intervals(frame([*CROWD[:1234], histogram, *CROWD[1234:]]), ["g"]))
    assert middle[1234] == alone[0]


def test_batches_of_any_size_and_order_give_the_same_bits() -> None:
    everything = bits(mean_intervals(frame(CROWD), ["g"]))
    for step in (7, 500):
        chunks = [mean_intervals(frame(CROWD[i : i + step]), ["g"]) for i in range(0, 210, step)]
        rows = [row for chunk in chunks for row in bits(chunk)]
        assert rows == everything[: len(rows)]
    assert bits(mean_intervals(frame(CROWD[::-1]), ["g"])) == everything[::-1]


@given(histograms, st.floats(0.2, 500))
@settings(max_examples=30, deadline=None)
def test_n_eff_scales_the_counts(histogram: Histogram, n: float) -> None:
    data = frame([histogram])
    scaled = mean_intervals(data, ["g"], n_eff=pd.DataFrame({"g": [0], "n_eff": [n]})).iloc[0]
    plain = mean_intervals(data, ["g"]).iloc[0]
    assert scaled.n_eff == n
    assert scaled.estimate == plain.estimate
    if min(n, plain.n_eff) > 1:
        ratio = np.sqrt((plain.n_eff - 1) / (n - 1))
        assert scaled.std_error == pytest.approx(plain.std_error * ratio, rel=1e-9)


def test_n_eff_equals_a_histogram_of_that_many_units() -> None:
    data = frame([{0.2: 10, 0.6: 10, 1.0: 20}, {0.0: 1, 1.0: 3}])
    sizes = pd.DataFrame({"g": [1, 0, 9], "n_eff": [None, 20.0, 3.0]})  # unknown 9 is no group
    assert bits(mean_intervals(data, ["g"], n_eff=sizes)) == bits(
        mean_intervals(frame([{0.2: 5, 0.6: 5, 1.0: 10}, {0.0: 1, 1.0: 3}]), ["g"])
    )


@given(histograms)
@settings(max_examples=30, deadline=None)
def test_more_evidence_of_the_same_kind_narrows(histogram: Histogram) -> None:
    more = {x: c * 2 for x, c in histogram.items()}
    few, many = one(histogram), one(more)
    assert many.bound_high - many.bound_low < few.bound_high - few.bound_low + 1e-12


@given(histograms)
@settings(max_examples=30, deadline=None)
def test_one_more_unit_moves_both_bounds_its_way(histogram: Histogram) -> None:
    """A perfect unit raises the lower bound, a failure lowers the upper (.001: approximation)."""
    before = one(histogram)
    perfect = one({**histogram, 1.0: histogram.get(1.0, 0.0) + 1})
    failure = one({**histogram, 0.0: histogram.get(0.0, 0.0) + 1})
    assert perfect.bound_low >= before.bound_low - 1e-3
    assert failure.bound_high <= before.bound_high + 1e-3


@given(histograms)
@settings(max_examples=30, deadline=None)
def test_mirrored_scores_mirror_the_intervals(histogram: Histogram) -> None:
    row, mirror = one(histogram), one({1 - x: c for x, c in histogram.items()})
    assert mirror.bound_low == pytest.approx(1 - row.bound_high, abs=1e-9)
    assert mirror.bound_high == pytest.approx(1 - row.bound_low, abs=1e-9)
    if "bounded" not in (row.ci_method, mirror.ci_method):
        assert mirror.ci_low == pytest.approx(1 - row.ci_high, abs=1e-7)


def test_other_ranges_are_the_unit_range_stretched() -> None:
    unit = {0.1: 4, 0.5: 7, 0.75: 9}
    row = one({k: float(v) for k, v in unit.items()})
    stretched = one({2 * x - 1: float(c) for x, c in unit.items()}, lower=-1.0, upper=1.0)
    for name in ("estimate", "ci_low", "ci_high", "bound_low", "bound_high"):
        assert stretched[name] == pytest.approx(2 * row[name] - 1, abs=1e-9)


def test_splitting_scores_between_grid_neighbours_moves_ends_by_a_ten_thousandth() -> None:
    rng = np.random.default_rng(4)
    x = rng.beta(2, 1, 2_000)
    grid = np.floor(x * 100) / 100
    share = np.round((x - grid) * 100 * UNIT).astype(np.int64)
    split = pd.DataFrame(
        {
            "g": 0,
            "value": np.concatenate([np.round(grid, 2), np.round(grid + 0.01, 2)]),
            "weight": np.concatenate([UNIT - share, share]),
        }
    )
    exact = mean_intervals(pd.DataFrame({"g": 0, "value": x, "weight": UNIT}), ["g"]).iloc[0]
    row = mean_intervals(split, ["g"]).iloc[0]
    assert row.n_eff == exact.n_eff
    for name in ("ci_low", "ci_high", "bound_low", "bound_high"):
        assert row[name] == pytest.approx(exact[name], abs=2e-4 * (exact.ci_high - exact.ci_low))


def test_next_to_no_weight_off_one_value_never_gives_zero_width() -> None:
    remote = {0.66: 28.0, 0.67: 1.007403, 0.0: 0.005819}
    for h in ({1.0: 29.999999, 0.5: 0.000001}, {0.31: 30.0, 0.3: 0.000001}, remote):
        for method in ("percentile", "bca"):
            row = one(h, ci_method=method)
            assert row.ci_low < row.ci_high
            assert row.ci_low <= row.estimate <= row.ci_high


# ---- keys and input -----------------------------------------------------------------------------


def test_keys_of_many_types_with_nulls_are_groups_in_order() -> None:
    day, ts = dt.date(2024, 3, 1), pd.Timestamp("2024-03-01T05:00", tz="UTC")
    rows = [
        ("b", 2, day, ts, 0.0),
        (None, 1, None, pd.NaT, 1.0),
        ("a", 3, day, ts, 0.5),
        (None, 1, None, pd.NaT, 0.0),
        ("a", 1, day, ts, 1.0),
    ]
    keys = ["segment", "k", "on", "at"]
    data = pd.DataFrame(rows, columns=[*keys, "value"]).assign(weight=UNIT)
    result = mean_intervals(data, keys)
    assert result.k.tolist() == [1, 3, 2, 1]
    assert result.segment.isna().tolist() == [False, False, False, True]
    assert result.estimate.tolist() == [1.0, 0.5, 0.0, 0.5]
    assert result.dtypes[keys].tolist() == data.dtypes[keys].tolist()
    sizes = result[keys].assign(n_eff=[1.0, 2.0, 3.0, 4.0])
    assert mean_intervals(data, keys, n_eff=sizes).n_eff.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_an_empty_histogram_gives_a_typed_empty_frame() -> None:
    result = mean_intervals(pd.DataFrame(columns=["g", "value", "weight"]), ["g"])
    full = mean_intervals(frame([{1.0: 3}]), ["g"])
    assert len(result) == 0
    assert result.columns.tolist() == full.columns.tolist()
    assert (result.dtypes.iloc[1:] == full.dtypes.iloc[1:]).all()
    assert (full.dtypes[["n_eff", *STATISTICS]] == "float64").all()


def test_a_group_without_weight_knows_nothing() -> None:
    row = mean_intervals(frame([{0.5: 0}, {1.0: 2}]), ["g"]).iloc[0]
    assert (row.n_eff, row.bound_low, row.bound_high) == (0, 0, 1)
    assert (row.ci_method, row.ci_low, row.ci_high) == ("bounded", 0, 1)
    assert np.isnan(row.estimate)
    assert np.isnan(row.std_error)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"value": 1.2}, {}, r"value 1\.2 lies outside \[0\.0, 1\.0\]"),
        ({"value": np.nan}, {}, "value nan lies outside"),
        ({"weight": -1}, {}, "weight -1.0 is not a whole number"),
        ({"weight": 0.5}, {}, "weight 0.5 is not a whole number"),
        ({}, {"keys": ["g", "absent"]}, r"histogram lacks the columns \['absent'\]"),
        ({}, {"keys": []}, "keys must be distinct column names"),
        ({}, {"keys": ["value"]}, "keys must be distinct column names"),
        ({}, {"confidence": 1.0}, r"confidence must be in \[0\.5, 1\)"),
        ({}, {"confidence": 95}, r"confidence must be in \[0\.5, 1\)"),
        ({}, {"ci_method": "t"}, "ci_method must be 'bca' or 'percentile'"),
        ({}, {"lower": 1.0, "upper": 1.0}, "lower must be below upper"),
        ({}, {"n_eff": pd.DataFrame({"g": [0]})}, r"n_eff lacks the columns \['n_eff'\]"),
        ({}, {"n_eff": pd.DataFrame({"g": [0], "n_eff": [0.0]})}, "n_eff must be positive"),
        ({}, {"n_eff": pd.DataFrame({"g": [0, 0], "n_eff": [1.0, 2.0]})}, "not unique|one-to-one"),
    ],
)
def test_bad_input_is_named(change: dict[str, float], options: dict[str, object], message: str) -> None:
    data = frame([{0.5: 2}]).assign(**change)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        mean_intervals(data, **{"keys": ["g"], **options})  # type: ignore[arg-type]


# ---- p-values and other readings of the bounded-mean law -----------------------------------------


def p_value(histogram: Histogram, threshold: float, **options: object) -> float:
    return float(bounded_p_values(frame([histogram]), ["g"], threshold, **options).p_value[0])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("histogram", "threshold", "below", "above"),
    [
        # 10 trials, 2 hits, threshold .5: P(Bin <= 2) = 56/1024; above: P(Bin >= 2) = 1013/1024
        ({0.0: 8, 1.0: 2}, 0.5, 56 / 1024, 1013 / 1024),
        # one score x = .4: the upper end is 1 - .6 B with B ~ Beta(1, 1), P(1 - .6 B > .7) = 1/2;
        # the lower end .4 B lies below .7 always
        ({0.4: 1}, 0.7, 0.5, 1.0),
        ({0.4: 1}, 0.1, 1.0, 0.25),  # P(.4 B <= .1) = 1/4
        ({1.0: 5}, 1.0, 1.0, 1.0),  # a mean of 1 is not refuted by five ones
        ({0.0: 1, 1.0: 5}, 1.0, 0.0, 1.0),  # by one zero it is, for certain
    ],
)
def test_p_values_by_hand(histogram: Histogram, threshold: float, below: float, above: float) -> None:
    assert p_value(histogram, threshold, side="below") == pytest.approx(below, abs=1e-12)
    assert p_value(histogram, threshold, side="above") == pytest.approx(above, abs=1e-12)


@pytest.mark.parametrize("threshold", [0.01, 0.3, 0.5, 0.97])
def test_p_values_of_zero_one_scores_are_binomial_tails(threshold: float) -> None:
    pairs = [(s, n) for n in (1, 5, 30, 10_000) for s in {0, 1, n // 3, n}]
    groups = [{x: float(c) for x, c in ((0.0, n - s), (1.0, s)) if c} for s, n in pairs]
    for side, exact in (
        ("below", [stats.binom.cdf(s, n, threshold) for s, n in pairs]),
        ("above", [stats.binom.sf(s - 1, n, threshold) for s, n in pairs]),
    ):
        p = bounded_p_values(frame(groups), ["g"], threshold, side=side).p_value  # type: ignore[arg-type]
        assert p.to_numpy() == pytest.approx(np.array(exact), abs=1e-11)


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95, 0.999])
def test_p_values_invert_the_bounded_interval(confidence: float) -> None:
    """p < alpha/2 a ten-thousandth beyond the end, and not a ten-thousandth before it."""
    data = frame(CROWD)
    ends = mean_intervals(data, ["g"], confidence=confidence)
    half = (1 - confidence) / 2
    near = 1e-4 if confidence >= 0.95 else 1e-3
    for side, end, outward in (("below", "bound_high", 1), ("above", "bound_low", -1)):
        inside = (ends[end] > near) & (ends[end] < 1 - near)
        assert inside.sum() > 1_900
        for step, is_significant in ((near, True), (-near, False)):
            at = ends[["g"]].assign(threshold=ends[end] + outward * step)
            p = bounded_p_values(data, ["g"], at, side=side).p_value[inside]  # type: ignore[arg-type]
            assert ((p < half) == is_significant).all()
        exact = bounded_p_values(data, ["g"], ends[["g"]].assign(threshold=ends[end]), side=side)  # type: ignore[arg-type]
        assert (exact.p_value[inside] / half).between(0.98, 1.02).all()


def test_p_values_are_close_to_numerical_inversion_of_the_dirichlet_law() -> None:
    rng = np.random.default_rng(8)
    for _ in range(150):
        size = int(rng.integers(2, 7))
        x = rng.choice([0, 0.1, 0.2, 0.25, 1 / 3, 0.4, 0.6, 0.8, 0.99, 1], size, False)
        c = rng.multinomial(rng.choice([5, 10, 30, 100]), rng.dirichlet(np.ones(size)))
        h = {float(k): float(v) for k, v in zip(x, c, strict=True) if v}
        t = rng.uniform(min(h), 1)
        assert p_value(h, t) == pytest.approx(1 - dirichlet_tail(h, 1.0, t), abs=0.006)


def test_p_values_fall_steadily_through_the_centre() -> None:
    h = {0.2: 3.0, 0.4: 5.0, 0.6: 4.0, 0.8: 2.0, 1.0: 1.0}
    t = np.linspace(0.21, 0.999, 3_000)
    p = bounded_p_values(frame([h] * 3_000), ["g"], pd.DataFrame({"g": range(3_000), "threshold": t})).p_value
    assert (np.diff(p) <= 0).all()
    assert (np.diff(p[p < 0.999]) < 0).all()
    assert np.abs(np.diff(p)).max() < 3e-3  # no jump where the formula changes
    assert p.iloc[0] > 0.999
    assert p.iloc[-1] < 1e-15


def test_p_values_have_the_same_bits_in_any_batch_and_mirror() -> None:
    data = frame(CROWD[:300])
    at = pd.DataFrame({"g": range(300), "threshold": np.linspace(0.1, 0.9, 300)})
    whole = bounded_p_values(data, ["g"], at).p_value
    shuffled = bounded_p_values(data.sample(frac=1, random_state=1), ["g"], at.sample(frac=1, random_state=2)).p_value
    assert [p.hex() for p in whole] == [p.hex() for p in shuffled]
    for start in (0, 111, 250):
        part = bounded_p_values(data[data.g.between(start, start + 9)], ["g"], at).p_value
        assert [p.hex() for p in part] == [p.hex() for p in whole[start : start + 10]]
    mirrored = frame([{1 - x: c for x, c in h.items()} for h in CROWD[:300]])
    above = bounded_p_values(mirrored, ["g"], at.assign(threshold=1 - at.threshold), side="above").p_value
    assert above.to_numpy() == pytest.approx(whole.to_numpy(), abs=1e-9)


def test_p_values_of_nothing_and_of_unnamed_groups_are_nan() -> None:
    data = frame([{0.5: 0}, {0.0: 3}, {0.0: 3}])
    result = bounded_p_values(data, ["g"], pd.DataFrame({"g": [0, 1], "threshold": [0.5, 0.5]}))
    assert result.columns.tolist() == ["g", "n_eff", "threshold", "p_value"]
    assert result.p_value.isna().tolist() == [True, False, True]
    assert result.p_value[1] == pytest.approx(0.125)
    sizes = pd.DataFrame({"g": [1], "n_eff": [1.0]})
    assert bounded_p_values(data, ["g"], 0.5, n_eff=sizes).p_value[1] == pytest.approx(0.5)
    assert len(bounded_p_values(data[:0], ["g"], 0.5)) == 0
    with pytest.raises(ValueError, match="side must be"):
        bounded_p_values(data, ["g"], 0.5, side="left")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="finite"):
        bounded_p_values(data, ["g"], np.inf)
    with pytest.raises(ValueError, match="columns"):
        bounded_p_values(data, ["g"], pd.DataFrame({"g": [0]}))


def test_ends_of_arrays_and_ends_at_a_level_are_those_of_the_frame() -> None:
    values = np.arange(6) / 5
    counts = np.random.default_rng(9).multinomial(40, np.full(6, 1 / 6), size=500)
    groups = [{float(x): float(c) for x, c in zip(values, row, strict=True) if c} for row in counts]
    data = frame(groups)
    result = mean_intervals(data, ["g"])
    low, high = bounded_ends(values, counts)
    assert low == pytest.approx(result.bound_low.to_numpy(), abs=1e-12)
    assert high == pytest.approx(result.bound_high.to_numpy(), abs=1e-12)
    means = histogram_groups(data, ["g"])
    rows = np.array([7, 3, 3, 499])
    for end, bound in (("low", result.bound_low), ("high", result.bound_high)):
        reach = means.reach(rows, np.full(4, stats.norm.ppf(0.975)), end)  # type: ignore[arg-type]
        assert reach == pytest.approx((result.estimate - bound).abs().to_numpy()[rows], abs=1e-12)
    with pytest.raises(ValueError, match="ascending"):
        bounded_ends(values[::-1], counts)
    with pytest.raises(ValueError, match="positive sum"):
        bounded_ends(values, counts * 0)


# ---- Monte-Carlo witness ------------------------------------------------------------------------


def test_monte_carlo_depends_on_its_key_and_not_on_the_order_of_cells() -> None:
    x, c = np.array([0.0, 0.5, 1.0]), np.array([4, 4, 9])
    first = bootstrap_monte_carlo(x, c, n_resamples=500, seed_key=["a", 1])
    assert first == bootstrap_monte_carlo(x[::-1], c[::-1], n_resamples=500, seed_key=["a", 1])
    assert first != bootstrap_monte_carlo(x, c, n_resamples=500, seed_key=["a", 2])
    same = bootstrap_monte_carlo([0.3], [9], n_resamples=50, seed_key=[0])
    assert same.low == same.high == pytest.approx(0.3)
    with pytest.raises(ValueError, match="whole numbers"):
        bootstrap_monte_carlo([0.3], [0.5], n_resamples=50, seed_key=[0])


def endpoints_over_seeds(
    scores: np.ndarray, method: CiMethod, n_seeds: int, n_resamples: int
) -> tuple[np.ndarray, np.ndarray]:
    """(seeds, 2) ends of our witness and of scipy. Scores are whole numbers, so that ties are ties.

    scipy counts `< estimate` exactly: with scores like 0.2 rounding errors break ties at random.
    """
    values, counts = np.unique(scores, return_counts=True)
    ours, theirs = [], []
    for seed in range(n_seeds):
        mine = bootstrap_monte_carlo(values, counts, n_resamples=n_resamples, seed_key=[seed], ci_method=method)
        ours.append((mine.low, mine.high))
        witness = stats.bootstrap(
            (scores,),
            np.mean,
            n_resamples=n_resamples,
            method="BCa" if method == "bca" else "percentile",
            rng=np.random.default_rng(seed),
        ).confidence_interval
        theirs.append((witness.low, witness.high))
    return np.array(ours), np.array(theirs)


def assert_same_endpoints(ours: np.ndarray, theirs: np.ndarray, label: str) -> None:
    """|z| of the difference of mean ends, in units of its standard error over seeds, is small."""
    error = np.sqrt((ours.var(axis=0, ddof=1) + theirs.var(axis=0, ddof=1)) / len(ours))
    difference = np.abs(ours.mean(axis=0) - theirs.mean(axis=0))
    assert (difference <= 4 * error + 1e-9).all(), f"{label}: {difference / error}"


VECTORS = {
    "p@5 middle, n=30": (5, [3, 5, 10, 6, 4, 2]),
    "p@5 near 1, n=30": (5, [0, 0, 1, 1, 3, 25]),
    "p@5 near 0, n=60": (5, [40, 10, 6, 2, 1, 1]),
    "hit rate, n=80": (1, [20, 60]),
    "halves, n=200": (2, [50, 90, 60]),
}


@pytest.mark.parametrize("method", ["percentile", "bca"])
@pytest.mark.parametrize("name", VECTORS)
def test_witness_scipy_and_default_agree(name: str, method: CiMethod) -> None:
    k, counts = VECTORS[name]
    scores = np.repeat(np.arange(k + 1), counts)
    ours, theirs = endpoints_over_seeds(scores, method, n_seeds=20, n_resamples=1_000)
    assert_same_endpoints(ours, theirs, name)
    histogram = {i / k: float(c) for i, c in enumerate(counts) if c}
    row = one(histogram, ci_method=method)
    step = max(1 / (k * len(scores)), 0.002)
    for witness in (ours, theirs):
        assert np.abs(witness.mean(axis=0) / k - [row.ci_low, row.ci_high]).max() <= step


def real_scores(collection: str) -> pd.DataFrame:
    path = RUNS / collection / "expected_per_query.tsv.gz"
    if not path.exists():
        pytest.skip(f"needs the shared evaluation data: {Path(*path.parts[-5:])} is absent")
    return pd.read_csv(path, sep="\t", dtype={"query_id": "str"})


REAL_MEASURES = ["P@5", "R@5", "RR", "nDCG@10"]
LATTICE = 1e9  # real scores as whole numbers of 1e-9, see `endpoints_over_seeds`


@pytest.mark.parametrize("method", ["percentile", "bca"])
@pytest.mark.parametrize("run", ["bm25", "dense", "rerank"])
def test_default_agrees_with_both_on_real_scores(run: str, method: CiMethod) -> None:
    table = real_scores("cranfield").query("run == @run")
    for measure in REAL_MEASURES:
        scores = table.loc[table.measure == measure, "value"].to_numpy()
        whole = np.round(scores * LATTICE)
        ours, theirs = endpoints_over_seeds(whole, method, n_seeds=5, n_resamples=2_000)
        data = pd.DataFrame({"g": 0, "value": scores, "weight": UNIT})
        row = mean_intervals(data, ["g"], ci_method=method).iloc[0]
        assert len(scores) == 225
        assert row.ci_method == method
        for witness in (ours, theirs):
            ends = witness.mean(axis=0) / LATTICE
            noise = witness.std(axis=0, ddof=1) / LATTICE / np.sqrt(len(witness))
            difference = np.abs(ends - [row.ci_low, row.ci_high])
            assert (difference <= 0.002 + 3 * noise).all(), (run, measure, difference)


@pytest.mark.parametrize("method", ["percentile", "bca"])
@pytest.mark.parametrize("run", ["bm25", "badchunk"])
def test_witness_agrees_with_scipy_on_21_real_queries(run: str, method: CiMethod) -> None:
    table = real_scores("noveleval").query("run == @run")
    for measure in REAL_MEASURES:
        scores = table.loc[table.measure == measure, "value"].to_numpy()
        assert len(scores) == 21
        if np.ptp(scores) == 0:
            continue
        whole = np.round(scores * LATTICE)
        ours, theirs = endpoints_over_seeds(whole, method, n_seeds=20, n_resamples=500)
        assert_same_endpoints(ours, theirs, f"{run} {measure} {method}")
