"""Cluster intervals: by hand, against a Monte-Carlo bootstrap of clusters, and the edges."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from retrieval_quality.clusters import cluster_intervals, resampled_estimates
from retrieval_quality.intervals import CiMethod, mean_intervals

UNIT = 1_000_000
Sessions = list[list[float]]  # scores of every cluster


def frames(groups: dict[str | None, Sessions]) -> tuple[pd.DataFrame, pd.DataFrame]:
    clusters = [
        (g, round(sum(scores) * UNIT), len(scores) * UNIT, 1) for g, users in groups.items() for scores in users
    ]
    units = [(g, score, UNIT) for g, users in groups.items() for scores in users for score in scores]
    return (
        pd.DataFrame(clusters, columns=["g", "score_sum", "unit_sum", "n_clusters"]),
        pd.DataFrame(units, columns=["g", "value", "weight"]),
    )


def one(users: Sessions, **options: object) -> pd.Series:
    return cluster_intervals(*frames({"a": users}), ["g"], **options).iloc[0]  # type: ignore[arg-type]


def few_users(seed: int, n_users: int = 40) -> Sessions:
    rng = np.random.default_rng(seed)
    return [(rng.binomial(5, chance, 1 + rng.poisson(3)) / 5).tolist() for chance in rng.beta(1.5, 1.0, size=n_users)]


def test_by_hand() -> None:
    # clusters (1, 1), (0, 0), (1): sums 2, 0, 1 of 2, 2, 1 units: .6. Residuals .8, -1.2, .4: squares
    # 2.24; 3/2 * 2.24 / 25 = .1344. Independent units: .24 / 4 = .06; design effect 2.24.
    row = one([[1.0, 1.0], [0.0, 0.0], [1.0]])
    assert (row.n_clusters, row.n_units) == (3, 5)
    assert row.estimate == 0.6
    assert row.std_error == pytest.approx(np.sqrt(0.1344))
    assert row.design_effect == pytest.approx(2.24)
    few = (stats.t.ppf(0.975, 2) / stats.norm.ppf(0.975)) ** 2
    assert row.n_eff == pytest.approx(5 / (2.24 * few))
    assert row.bound_low == pytest.approx(stats.beta.ppf(0.025, 0.6 * row.n_eff, 0.4 * row.n_eff + 1))
    assert row.mdd == pytest.approx(2.80 * row.std_error)


def test_clusters_of_one_unit_are_the_plain_interval() -> None:
    users = [[score] for score in np.random.default_rng(1).binomial(5, 0.6, 300) / 5]
    row, plain = one(users), mean_intervals(frames({"a": users})[1], ["g"]).iloc[0]
    assert row.design_effect == pytest.approx(1.0, abs=1e-12)
    for name in ("estimate", "std_error", "ci_low", "ci_high"):
        assert row[name] == pytest.approx(plain[name], abs=1e-12)
    assert row.bound_low == pytest.approx(plain.bound_low, abs=1e-3)  # (t / z)^2 at 299 is 1.008


def resampled_ratios(users: Sessions, n_resamples: int) -> np.ndarray:
    """The witness: resample whole clusters, take the ratio of sums."""
    rng = np.random.default_rng(99)
    sums, sizes = np.array([sum(scores) for scores in users]), np.array([len(scores) for scores in users])
    draws = rng.multinomial(len(users), np.full(len(users), 1 / len(users)), size=n_resamples)
    return (draws @ sums) / (draws @ sizes)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_percentile_ends_are_those_of_resampled_clusters(seed: int) -> None:
    users = few_users(seed)
    row = one(users, ci_method="percentile")
    ratios = resampled_ratios(users, 100_000)
    width = row.ci_high - row.ci_low
    assert np.quantile(ratios, [0.025, 0.975]) == pytest.approx([row.ci_low, row.ci_high], abs=0.02 * width)
    assert ratios.std() == pytest.approx(row.std_error, rel=0.04)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_bca_ends_are_those_of_scipys_ratio(seed: int) -> None:
    users = few_users(seed)
    sums, sizes = np.array([sum(scores) for scores in users]), np.array([len(scores) for scores in users])
    witness = stats.bootstrap(
        (sums, sizes), lambda s, m, axis: s.sum(axis=axis) / m.sum(axis=axis), paired=True, vectorized=True,
        n_resamples=50_000, method="BCa", rng=np.random.default_rng(5),
    ).confidence_interval  # fmt: skip
    row = one(users)
    width = row.ci_high - row.ci_low
    assert (row.ci_low, row.ci_high) == pytest.approx((witness.low, witness.high), abs=0.04 * width)


def test_duplicated_sessions_change_nothing_but_the_design_effect() -> None:
    users = few_users(4)
    row, doubled = one(users), one([scores * 2 for scores in users])
    assert doubled.design_effect == pytest.approx(row.design_effect * 2, rel=0.03)
    for name in ("estimate", "std_error", "ci_low", "ci_high"):
        assert doubled[name] == pytest.approx(row[name], abs=1e-9)
    assert doubled.bound_high == pytest.approx(row.bound_high, abs=0.003)


def test_pairs_may_come_counted() -> None:
    users = [[0.2, 0.6]] * 7 + [[1.0]] * 5 + [[0.0, 0.0, 0.4]] * 6
    clusters, units = frames({"a": users})
    counted = clusters.groupby(["g", "score_sum", "unit_sum"], as_index=False).n_clusters.sum()
    assert len(counted) == 3
    pd.testing.assert_frame_equal(
        cluster_intervals(counted, units, ["g"]), cluster_intervals(clusters, units, ["g"]), check_exact=True
    )


def test_where_resemblance_is_unknown_each_cluster_is_one_unit() -> None:
    single = one([[0.2, 0.4, 1.0, 0.6]])
    assert (single.n_clusters, single.n_eff, single.ci_method) == (1, 1, "bounded")
    assert np.isnan(single.std_error)
    assert np.isnan(single.design_effect)
    assert (single.ci_low, single.ci_high) == (single.bound_low, single.bound_high)
    perfect = one([[1.0] * 8] * 10)
    assert perfect.n_eff == 10
    assert np.isnan(perfect.design_effect)
    assert perfect.bound_low == pytest.approx(0.6915, abs=1e-4)  # ten scores of 1
    # clusters that all have the same mean cost nothing
    alike = one([[0.0, 1.0]] * 30)
    assert alike.design_effect == 0
    assert alike.n_eff == 60


def test_a_sample_of_unequal_rates_starts_from_its_n_eff() -> None:
    clusters, units = frames({"a": few_users(6)})
    sizes = pd.DataFrame({"g": ["a"], "n_eff": [110.0]})
    row, plain = cluster_intervals(clusters, units, ["g"], n_eff=sizes).iloc[0], one(few_users(6))
    # the spread of clusters is what it is, so the product of n_eff and its inverse share stays
    assert row.n_eff * row.std_error**2 == pytest.approx(plain.n_eff * plain.std_error**2, rel=0.05)


def test_sums_may_be_rounded_and_the_estimate_is_that_of_the_units() -> None:
    users = few_users(7)
    clusters, units = frames({"a": users})
    rounded = clusters.assign(score_sum=(clusters.score_sum / 300_000).round().astype(int) * 300_000)
    rounded["score_sum"] = np.minimum(rounded.score_sum, rounded.unit_sum)
    row, plain = cluster_intervals(rounded, units, ["g"]).iloc[0], mean_intervals(units, ["g"]).iloc[0]
    assert row.estimate == plain.estimate
    assert row.std_error == pytest.approx(one(users).std_error, rel=0.03)
    assert row.ci_low + row.ci_high == pytest.approx(one(users).ci_low + one(users).ci_high, abs=0.004)


def resampled(groups: dict[str | None, Sessions], clusters: pd.DataFrame) -> pd.DataFrame:
    histogram = frames(groups)[1]
    n_units = [sum(map(len, users)) for users in groups.values()]
    sizes = pd.DataFrame({"g": list(groups), "n_units": n_units, "n_eff": np.asarray(n_units, dtype=float)})
    result = resampled_estimates(
        histogram, clusters, sizes, ["g"], resampling_unit="user", confidence=0.95, ci_method="bca"
    )
    return result.set_index("g")


def test_a_group_whose_clusters_are_not_all_known_keeps_its_sessions() -> None:
    groups: dict[str | None, Sessions] = {"whole": few_users(8), "part": few_users(9), "none": few_users(10)}
    clusters = frames(groups)[0]
    lacking = clusters[(clusters.g == "whole") | ((clusters.g == "part") & (clusters.index % 2 == 0))]
    found = resampled(groups, lacking)
    assert found.resampling_unit.to_dict() == {"whole": "user", "part": "session", "none": "session"}
    assert found.n_clusters["whole"] == 40
    assert found.n_clusters[["part", "none"]].isna().all()
    assert found.design_effect[["part", "none"]].isna().all()
    by_user = cluster_intervals(*frames({"a": groups["whole"]}), ["g"]).iloc[0]
    by_session = mean_intervals(frames({"a": groups["part"]})[1], ["g"]).iloc[0]
    for name in ("estimate", "std_error", "n_eff", "ci_low", "ci_high", "bound_low", "bound_high", "mdd"):
        assert found.loc["whole", name] == by_user[name]
        assert found.loc["part", name] == by_session[name]


def test_users_of_one_session_each_are_sessions() -> None:
    single: dict[str | None, Sessions] = {"a": [[1.0], [0.0], [1.0], [0.4]]}
    found = resampled(single, frames(single)[0]).loc["a"]
    assert (found.resampling_unit, found.n_eff) == ("session", 4)
    mixed: dict[str | None, Sessions] = {"a": [[1.0], [0.0], [1.0, 0.4]]}
    assert resampled(mixed, frames(mixed)[0]).loc["a", "resampling_unit"] == "user"


users_of_any_size = st.lists(
    st.lists(st.integers(0, 5).map(lambda i: i / 5), min_size=1, max_size=6), min_size=1, max_size=12
)


@given(st.lists(users_of_any_size, min_size=1, max_size=4), st.sampled_from(["bca", "percentile"]))
@settings(max_examples=25, deadline=None)
def test_intervals_hold_their_estimate_within_the_range(groups: list[Sessions], method: CiMethod) -> None:
    clusters, units = frames({str(i): users for i, users in enumerate(groups)})
    result = cluster_intervals(clusters, units, ["g"], ci_method=method)
    plain = mean_intervals(units, ["g"])
    assert result.estimate.to_numpy() == pytest.approx(plain.estimate.to_numpy(), abs=1e-12)
    for kind in ("ci", "bound"):
        low, high = result[f"{kind}_low"], result[f"{kind}_high"]
        assert ((low >= 0) & (low <= result.estimate) & (result.estimate <= high) & (high <= 1)).all()
        assert (low < high).all()
    assert (result.n_eff <= result.n_units + 1e-12).all()
    assert (result.bound_high - result.bound_low >= plain.bound_high - plain.bound_low - 1e-3).all()


def test_bits_depend_neither_on_order_nor_on_other_groups() -> None:
    clusters, units = frames({"a": few_users(1), None: few_users(2, 9), "c": few_users(3, 90)})
    numbers = ["estimate", "std_error", "ci_low", "ci_high", "bound_low", "bound_high", "n_eff"]
    whole = cluster_intervals(clusters, units, ["g"])
    assert whole.g.isna().tolist() == [False, False, True]
    shuffled = cluster_intervals(clusters.sample(frac=1, random_state=1), units.sample(frac=1, random_state=2), ["g"])
    alone = cluster_intervals(clusters[clusters.g == "c"], units[units.g == "c"], ["g"])
    assert (shuffled[numbers].to_numpy().view(np.int64) == whole[numbers].to_numpy().view(np.int64)).all()
    assert (alone[numbers].to_numpy().view(np.int64) == whole[numbers].to_numpy().view(np.int64)[1:2]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score_sum": 0.5}, "whole numbers"),
        ({"unit_sum": 0}, "whole numbers"),
        ({"n_clusters": -1}, "whole numbers"),
        ({"score_sum": 9 * UNIT}, "outside"),
        ({"g": "b"}, "no histogram"),
    ],
)
def test_bad_input_is_named(change: dict[str, object], message: str) -> None:
    clusters, units = frames({"a": [[0.2], [0.8, 0.4]]})
    with pytest.raises(ValueError, match=message):
        cluster_intervals(clusters.assign(**change), units, ["g"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="clusters lacks"):
        cluster_intervals(clusters.drop(columns="unit_sum"), units, ["g"])


def test_no_clusters_give_an_empty_frame() -> None:
    clusters, units = frames({"a": [[0.2], [0.8, 0.4]]})
    nothing = cluster_intervals(clusters[:0], units[:0], ["g"])
    assert len(nothing) == 0
    assert nothing.columns.tolist() == cluster_intervals(clusters, units, ["g"]).columns.tolist()
