"""Prediction-powered and selection-weighted estimates: by hand, against numpy and ppi_py, refusals."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from retrieval_quality.intervals import mean_intervals
from retrieval_quality.prediction_powered import prediction_powered, selection_weighted

UNIT = 1_000_000

# labelled units (trusted, cheap): count, and cheap scores of the others: what ppi_py below was given
JOINT = {
    (0.0, 0.0): 10, (0.0, 0.2): 2, (0.2, 0.0): 1, (0.2, 0.2): 3, (0.2, 0.4): 3, (0.4, 0.2): 1, (0.4, 0.4): 4,
    (0.4, 0.6): 2, (0.6, 0.4): 4, (0.6, 0.6): 9, (0.6, 0.8): 1, (0.8, 0.6): 1, (0.8, 0.8): 5, (0.8, 1.0): 4,
    (1.0, 0.8): 1, (1.0, 1.0): 9,
}  # fmt: skip
CHEAP = {0.0: 80, 0.2: 79, 0.4: 77, 0.6: 73, 0.8: 96, 1.0: 95}
# ppi_mean_pointestimate and ppi_mean_ci of ppi-python 0.2.3 on these units, by lam
PPI_PY = {
    0.0: (0.51, 0.42214103, 0.59785897),
    0.3: (0.51032, 0.44637347, 0.57426653),
    0.8: (0.51085333, 0.4713973, 0.55030937),
    1.0: (0.51106667, 0.46893571, 0.55319762),
}

Joint = dict[tuple[float, float], int]


def joint_frame(groups: dict[str | None, Joint]) -> pd.DataFrame:
    rows = [(g, y, f, n * UNIT) for g, joint in groups.items() for (y, f), n in joint.items()]
    return pd.DataFrame(rows, columns=["g", "trusted", "cheap", "weight"]).astype({"weight": "int64"})


def cheap_frame(groups: dict[str | None, dict[float, int]]) -> pd.DataFrame:
    rows = [(g, f, n * UNIT) for g, cheap in groups.items() for f, n in cheap.items()]
    return pd.DataFrame(rows, columns=["g", "value", "weight"]).astype({"weight": "int64"})


def units(joint: Joint) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.repeat(np.array(list(joint)), list(joint.values()), axis=0)
    return pairs[:, 0], pairs[:, 1]


def by_numpy(y: np.ndarray, f: np.ndarray, others: np.ndarray, lam: float, ddof: int) -> tuple[float, float]:
    """Estimate and variance from the unit vectors, as the paper writes them."""
    rectified = y - lam * f
    variance = rectified.var(ddof=ddof) / len(y) + lam**2 * others.var(ddof=ddof) / len(others)
    return float(rectified.mean() + lam * others.mean()), float(variance)


def test_the_numpy_witness_is_ppi_py() -> None:
    y, f = units(JOINT)
    others = np.repeat(list(CHEAP), list(CHEAP.values()))
    for lam, (estimate, low, high) in PPI_PY.items():
        mine, variance = by_numpy(y, f, others, lam, ddof=0)
        half = stats.norm.ppf(0.975) * np.sqrt(variance)
        assert mine == pytest.approx(estimate, abs=1e-7)
        assert (mine - half, mine + half) == pytest.approx((low, high), abs=1e-7)


def test_the_estimate_is_the_witness_with_t_and_one_degree_of_freedom() -> None:
    row = prediction_powered(joint_frame({"a": JOINT}), cheap_frame({"a": CHEAP}), ["g"]).iloc[0]
    y, f = units(JOINT)
    others = np.repeat(list(CHEAP), list(CHEAP.values()))
    estimate, variance = by_numpy(y, f, others, row.tuning, ddof=1)
    n = len(y)
    assert (row.n_trusted, row.n_cheap, row.n_eff) == (60, 500, 60)
    assert row.reason is None or pd.isna(row.reason)
    assert row.estimate == pytest.approx(estimate, abs=1e-14)
    assert row.std_error == pytest.approx(np.sqrt(variance * (n - 1) / (n - 2)), rel=1e-12)
    half = stats.t.ppf(0.975, n - 2) * row.std_error
    assert (row.ci_low, row.ci_high) == pytest.approx((estimate - half, estimate + half), abs=1e-12)
    # cov / (var_n + n / N var_N): the formula of the reference, with the variance of each sample
    expected = np.cov(y, f)[0, 1] / (f.var(ddof=1) + n / 500 * others.var(ddof=1))
    assert row.tuning == pytest.approx(expected, rel=1e-12)
    assert row.tuning_source == "own"
    alone = stats.t.ppf(0.975, n - 1) * y.std(ddof=1) / np.sqrt(n)
    assert (row.trusted_low, row.trusted_high) == pytest.approx((y.mean() - alone, y.mean() + alone), abs=1e-12)
    assert row.width_ratio == pytest.approx(half / alone, rel=1e-12)
    assert row.n_equivalent == pytest.approx(60 / row.width_ratio**2, rel=1e-12)
    assert row.correlation == pytest.approx(np.corrcoef(y, f)[0, 1], rel=1e-12)
    # no other tuning has a smaller variance
    for lam in (0.0, 0.5, 1.0, row.tuning - 0.02, row.tuning + 0.02):
        assert by_numpy(y, f, others, lam, ddof=1)[1] >= variance


def test_by_hand() -> None:
    # labelled: 10 x (1, 1), 10 x (0, 0); others: 60 ones, 20 zeros. Means .5 .5 .75; var y = var f =
    # cov = 5/19 = .263158; var_N = 80/79 * .1875 = .189873
    # tuning = .263158 / (.263158 + 20/80 * .189873) = .847185; estimate = .5 + .847185 * .25
    joint, cheap = joint_frame({"a": {(1.0, 1.0): 10, (0.0, 0.0): 10}}), cheap_frame({"a": {1.0: 60, 0.0: 20}})
    row = prediction_powered(joint, cheap, ["g"]).iloc[0]
    assert row.tuning == pytest.approx(0.847185, abs=1e-6)
    assert row.estimate == pytest.approx(0.711796, abs=1e-6)
    # [.263158 (1 - .847185)^2] / 20 + .847185^2 * .189873 / 80 = .0003073 + .0017034; x 19/18
    assert row.std_error == pytest.approx(np.sqrt(0.0020107 * 19 / 18), abs=1e-5)


def test_a_useless_cheap_score_changes_nothing_but_degrees_of_freedom() -> None:
    joint = {(y, f): 5 for y in (0.0, 0.5, 1.0) for f in (0.0, 1.0)}
    row = prediction_powered(joint_frame({"a": joint}), cheap_frame({"a": {0.0: 50, 1.0: 950}}), ["g"]).iloc[0]
    assert row.tuning == 0
    assert row.estimate == row.trusted_estimate == 0.5
    assert 1 < row.width_ratio < 1.03
    # anti-correlated: clipped at 0; constant: 0
    opposed = {(0.0, 1.0): 9, (1.0, 0.0): 9, (0.5, 0.5): 9}
    constant = {(0.0, 0.5): 9, (1.0, 0.5): 9}
    result = prediction_powered(
        joint_frame({"a": opposed, "b": constant}), cheap_frame({"a": CHEAP, "b": {0.5: 300}}), ["g"]
    )
    assert result.tuning.tolist() == [0, 0]
    assert np.isnan(result.correlation[1])


def test_what_cannot_be_estimated_says_why() -> None:
    good = {(0.0, 0.2): 6, (1.0, 0.8): 6}
    joint = joint_frame(
        {
            "few": {(0.0, 0.0): 4, (1.0, 1.0): 5},
            "none": good,
            "same": {(1.0, 0.4): 9, (1.0, 0.2): 9},
            None: good,
            "z": good,
        }
    )
    cheap = cheap_frame({"few": CHEAP, "same": CHEAP, "only cheap": CHEAP, None: CHEAP, "z": CHEAP})
    sampling = pd.DataFrame(
        {
            "g": ["few", "none", "same", "only cheap", None, "z"],
            "sampling": ["random", "random", "random", "random", "random", "self_selected"],
        }
    )
    result = prediction_powered(joint, cheap, ["g"], sampling=sampling)
    assert result.g.isna().tolist() == [False] * 5 + [True]
    reasons = dict(zip(result.g.fillna("NULL"), result.reason.fillna("fine"), strict=True))
    assert reasons == {
        "few": "too_few_trusted",
        "none": "no_cheap",
        "only cheap": "too_few_trusted",
        "same": "no_variation",
        "z": "not_random",
        "NULL": "fine",
    }
    refused = result[result.reason.notna()]
    assert refused[["estimate", "ci_low", "trusted_low", "tuning", "width_ratio", "n_equivalent"]].isna().all(axis=None)
    assert refused.n_trusted.tolist() == [9, 12, 0, 18, 12]
    assert (prediction_powered(joint, cheap, ["g"], sampling="curated").reason == "not_random").all()
    unnamed = prediction_powered(joint, cheap, ["g"], sampling=sampling.iloc[:1])
    assert (unnamed.reason[1:] == "not_random").all()  # a segment that is not declared random is not


def test_small_segments_share_their_tuning() -> None:
    strong, weak = {(0.0, 0.0): 8, (1.0, 1.0): 8}, {(0.0, 0.0): 4, (0.0, 1.0): 4, (1.0, 0.0): 4, (1.0, 1.0): 4}
    large = {cell: 10 * n for cell, n in strong.items()}
    joint = joint_frame({"a": strong, "b": weak, "c": large, "d": strong}).assign(metric="m")
    cheap = cheap_frame({g: {0.0: 500, 1.0: 500} for g in "abcd"}).assign(metric="m")
    joint.loc[joint.g == "d", "metric"] = "other"
    cheap.loc[cheap.g == "d", "metric"] = "other"
    own = prediction_powered(joint, cheap, ["metric", "g"])
    pooled = prediction_powered(joint, cheap, ["metric", "g"], pool=["metric"])
    assert pooled.tuning_source.tolist() == ["pooled", "pooled", "own", "own"]  # c is large, d alone in its pool
    assert pooled.tuning[0] == pooled.tuning[1]
    assert own.tuning[1] < pooled.tuning[1] < own.tuning[0]
    assert pooled.tuning[2] == own.tuning[2]
    # sum n^2 cov / sum n^2 (var f + var others), cov of means = cov / n
    n = np.array([16, 16, 160])
    var = n / (n - 1) / 4 / n
    others = 1000 / 999 / 4 / 1000
    assert pooled.tuning[0] == pytest.approx((n**2 * var * [1, 0, 1]).sum() / (n**2 * (var + others)).sum(), rel=1e-12)
    with pytest.raises(ValueError, match="pool names"):
        prediction_powered(joint, cheap, ["metric", "g"], pool=["stage"])


def test_strata_sampled_at_different_rates_are_weighted_back() -> None:
    # stratum A: 1,000 units, 1 in 10 labelled, mean y .2; B: 100 units, 1 in 2 labelled, mean y .8
    joint = pd.DataFrame(
        [("s", 1.0, 1.0, 20, 0.1), ("s", 0.0, 0.0, 80, 0.1), ("s", 1.0, 1.0, 40, 0.5), ("s", 0.0, 0.0, 10, 0.5)],
        columns=["g", "trusted", "cheap", "weight", "inclusion_probability"],
    ).assign(weight=lambda x: x.weight * UNIT)
    cheap = cheap_frame({"s": {1.0: 180 + 40, 0.0: 720 + 10}})
    row = prediction_powered(joint, cheap, ["g"]).iloc[0]
    truth = (1_000 * 0.2 + 100 * 0.8) / 1_100
    assert row.trusted_estimate == pytest.approx(truth, abs=1e-12)  # unweighted it would be 60 / 150 = .4
    assert row.estimate == pytest.approx(truth, abs=1e-12)
    assert row.n_trusted == 150
    assert row.n_eff == pytest.approx((100 * 10 + 50 * 2) ** 2 / (100 * 100 + 50 * 4))
    # variance of the Hajek mean from unit vectors
    y = np.repeat([1.0, 0, 1, 0], [20, 80, 40, 10])
    w = np.repeat([10.0, 10, 2, 2], [20, 80, 40, 10])
    var = 150 / 149 * (w**2 * (y - truth) ** 2).sum() / w.sum() ** 2
    half = stats.t.ppf(0.975, row.n_eff - 1) * np.sqrt(var)
    assert row.trusted_high - row.trusted_low == pytest.approx(2 * half, rel=1e-12)
    # mean f of the others 220 / 950, put back 150 / 950 (.4 - .2545): .2545. How far a unit of A moves the
    # contrast: (10 x 1,100 / 1,100 - 1) / 950, one of B: (2 - 1) / 950; a mean of y: 10 / 1,100, 2 / 1,100
    on_f, on_y = np.repeat([9, 1], [100, 50]) / 950, w / 1_100
    others = np.repeat([1.0, 0.0], [220, 730])
    var_f = 150 / 149 * (on_f**2 * (y - truth) ** 2).sum()
    cov = 150 / 149 * (on_f * on_y * (y - truth) ** 2).sum()
    var_others = ((others - truth) ** 2).sum() / 950 / 949
    assert row.tuning == pytest.approx(cov / (var_f + var_others), rel=1e-12)
    factor = 1 if row.n_eff >= 100 else (row.n_eff - 1) / (row.n_eff - 2)
    expected = factor * (var + row.tuning**2 * (var_f + var_others) - 2 * row.tuning * cov)
    assert row.std_error == pytest.approx(np.sqrt(expected), rel=1e-12)


def test_constant_rates_are_no_weighting() -> None:
    joint, cheap = joint_frame({"a": JOINT}), cheap_frame({"a": CHEAP})
    plain = prediction_powered(joint, cheap, ["g"])
    # one in ten logged: every other unit stands for ten, and there are as many as before
    rates = joint.assign(inclusion_probability=0.3, sample_rate=0.1)
    n_eff = pd.DataFrame({"g": ["a"], "n_eff": [500.0]})
    equal = prediction_powered(rates, cheap.assign(weight=cheap.weight * 10), ["g"], n_eff=n_eff)
    for name in ("estimate", "std_error", "tuning", "n_trusted", "n_cheap", "n_eff", "trusted_low"):
        assert equal[name][0] == pytest.approx(plain[name][0], rel=1e-12), name
    with pytest.raises(ValueError, match="n_eff must be above 0"):
        prediction_powered(joint, cheap, ["g"], n_eff=n_eff.assign(n_eff=0.0))
    with pytest.raises(ValueError, match="n_eff lacks"):
        prediction_powered(joint, cheap, ["g"], n_eff=n_eff[["g"]])


def test_a_unit_that_was_logged_at_half_the_rate_counts_twice() -> None:
    # rate 1: 10 x (1, 1), 10 others with f = 1; rate 1/2: 10 x (0, 0), 10 others with f = 0, each for two.
    # mean y = mean f = 10 / 30 = mean f of the others: nothing to put back, nothing to correct
    joint = joint_frame({"a": {(1.0, 1.0): 10, (0.0, 0.0): 10}}).assign(sample_rate=[1.0, 0.5])
    n_eff = pd.DataFrame({"g": ["a"], "n_eff": [18.0]})  # (10 + 20)^2 / (10 + 40)
    row = prediction_powered(joint, cheap_frame({"a": {1.0: 10, 0.0: 20}}), ["g"], n_eff=n_eff).iloc[0]
    assert (row.n_trusted, row.n_cheap, row.n_eff) == (20, 18, pytest.approx(18))
    assert row.trusted_estimate == pytest.approx(1 / 3)
    assert row.estimate == pytest.approx(1 / 3)


cells = st.dictionaries(
    st.tuples(st.integers(0, 5).map(lambda i: i / 5), st.integers(0, 5).map(lambda i: i / 5)),
    st.integers(1, 30),
    min_size=3,
    max_size=12,
)
scores = st.dictionaries(st.integers(0, 5).map(lambda i: i / 5), st.integers(5, 300), min_size=1, max_size=6)


@given(cells, scores)
@settings(max_examples=60, deadline=None)
def test_any_histogram_agrees_with_its_units(joint: Joint, cheap: dict[float, int]) -> None:
    row = prediction_powered(joint_frame({"a": joint}), cheap_frame({"a": cheap}), ["g"]).iloc[0]
    y, f = units(joint)
    if isinstance(row.reason, str):
        assert row.reason == ("too_few_trusted" if len(y) < 10 else "no_variation")
        return
    others = np.repeat(list(cheap), list(cheap.values()))
    estimate, variance = by_numpy(y, f, others, row.tuning, ddof=1)
    factor = (len(y) - 1) / (len(y) - 2) if len(y) < 100 else 1
    assert 0 <= row.tuning <= 1
    assert row.estimate == pytest.approx(np.clip(estimate, 0, 1), abs=1e-12)
    assert row.std_error**2 == pytest.approx(variance * factor, rel=1e-9, abs=1e-15)
    assert 0 <= row.ci_low <= row.estimate <= row.ci_high <= 1


def test_bits_depend_neither_on_order_nor_on_other_segments() -> None:
    joint = joint_frame({"a": JOINT, "b": {(0.2, 0.4): 7, (0.6, 0.4): 8}, None: JOINT})
    cheap = cheap_frame({"a": CHEAP, "b": CHEAP, None: {0.2: 90, 1.0: 31}})
    numbers = ["estimate", "std_error", "tuning", "ci_low", "trusted_low", "width_ratio"]
    whole = prediction_powered(joint, cheap, ["g"])[numbers].to_numpy().view(np.int64)
    halves = pd.concat([joint.assign(weight=joint.weight // 3), joint.assign(weight=joint.weight - joint.weight // 3)])
    shuffled = prediction_powered(halves.sample(frac=1, random_state=2), cheap.sample(frac=1, random_state=3), ["g"])
    assert (shuffled[numbers].to_numpy().view(np.int64) == whole).all()
    alone = prediction_powered(joint[joint.g == "b"], cheap[cheap.g == "b"], ["g"])[numbers].to_numpy()
    assert (alone.view(np.int64) == whole[1:2]).all()


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"trusted": 1.5}, {}, "trusted must lie in"),
        ({"weight": 0.5}, {}, "whole numbers"),
        ({"inclusion_probability": None}, {}, "must not be NULL"),
        ({}, {"keys": ["x"]}, "lacks the columns"),
        ({}, {"keys": ["trusted"]}, "keys must be"),
        ({}, {"confidence": 1.0}, "confidence < 1"),
        ({}, {"sampling": pd.DataFrame({"g": ["a"]})}, "sampling lacks"),
        ({}, {"sampling": pd.DataFrame({"sampling": ["random"]})}, "at least one of keys"),
    ],
)
def test_bad_input_is_named(change: dict[str, object], options: dict[str, object], message: str) -> None:
    joint = joint_frame({"a": JOINT}).assign(**change)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        prediction_powered(joint, cheap_frame({"a": CHEAP}), **{"keys": ["g"], **options})  # type: ignore[arg-type]
    for name in ("inclusion_probability", "sample_rate"):
        with pytest.raises(ValueError, match=rf"{name} must be in \(0, 1\]"):
            prediction_powered(joint_frame({"a": JOINT}).assign(**{name: 0.0}), cheap_frame({"a": CHEAP}), ["g"])


def test_nothing_gives_an_empty_typed_frame() -> None:
    joint, cheap = joint_frame({"a": JOINT}), cheap_frame({"a": CHEAP})
    nothing = prediction_powered(joint[:0], cheap[:0], ["g"], pool=[])
    assert len(nothing) == 0
    assert nothing.columns.tolist() == prediction_powered(joint, cheap, ["g"]).columns.tolist()


# ---- selection-weighted -------------------------------------------------------------------------


def selected(rows: list[tuple[object, ...]], columns: list[str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=columns).assign(weight=lambda x: x.weight * UNIT)


LABELLED = selected(
    [("w", "en", 1.0, 30), ("w", "en", 0.0, 10), ("w", None, 1.0, 2), ("w", None, 0.0, 18)],
    ["g", "intent", "value", "weight"],
)
POPULATION = selected([("w", "en", 400), ("w", None, 600), ("w", "de", 250)], ["g", "intent", "weight"])


def test_selection_weights_by_hand() -> None:
    # en: 40 of 400 labelled, mean .75; NULL: 20 of 600, mean .1; de: nobody. Covered 1,000 of 1,250.
    row = selection_weighted(LABELLED, POPULATION, ["g"], ["intent"]).iloc[0]
    assert (row.n_labelled, row.n_all, row.covered_share) == (60, 1_250, 0.8)
    assert row.labelled_estimate == pytest.approx(32 / 60)
    alone = stats.t.ppf(0.975, 59) * np.sqrt(32 / 60 * 28 / 60 / 59)
    assert (row.labelled_low, row.labelled_high) == pytest.approx((32 / 60 - alone, 32 / 60 + alone))
    assert row.estimate == pytest.approx(0.4 * 0.75 + 0.6 * 0.1)  # .36
    assert row.lowest_propensity == pytest.approx(1 / 30)
    assert row.n_eff == pytest.approx(1_000**2 / (40 * 100 + 20 * 900))
    assert (row.estimate_low, row.estimate_high) == pytest.approx((0.288, 0.488))
    # 60/59 * [100 (30 * .64^2 + 10 * .36^2) + 900 (2 * .64^2 + 18 * .36^2)] / 1000^2
    squares = 100 * (30 * 0.64**2 + 10 * 0.36**2) + 900 * (2 * 0.64**2 + 18 * 0.36**2)
    assert row.std_error == pytest.approx(np.sqrt(60 / 59 * squares) / 1_000)
    half = stats.t.ppf(0.975, row.n_eff - 1) * row.std_error
    assert (row.ci_low, row.ci_high) == pytest.approx((0.36 - half, 0.36 + half))
    exact = stats.beta.ppf(
        [0.025, 0.975], [0.36 * row.n_eff, 0.36 * row.n_eff + 1], [0.64 * row.n_eff + 1, 0.64 * row.n_eff]
    )
    assert (row.bound_low, row.bound_high) == pytest.approx(tuple(exact), abs=1e-6)


def test_equal_propensities_are_the_plain_mean() -> None:
    population = selected([("w", "en", 400), ("w", None, 200)], ["g", "intent", "weight"])
    row = selection_weighted(LABELLED, population, ["g"], ["intent"]).iloc[0]
    plain = mean_intervals(LABELLED, ["g"]).iloc[0]
    assert row.estimate == pytest.approx(row.labelled_estimate) == pytest.approx(plain.estimate)
    assert row.std_error == pytest.approx(plain.std_error)
    assert row.n_eff == pytest.approx(60)
    assert row.bound_low == pytest.approx(plain.bound_low, abs=1e-9)
    assert row.covered_share == 1


def test_labels_that_come_in_clusters_count_as_few() -> None:
    n_eff = pd.DataFrame({"g": ["w"], "n_eff": [30.0]})
    plain = selection_weighted(LABELLED, POPULATION, ["g"], ["intent"]).iloc[0]
    row = selection_weighted(LABELLED, POPULATION, ["g"], ["intent"], n_eff=n_eff).iloc[0]
    assert (row.estimate, row.lowest_propensity, row.n_labelled) == (plain.estimate, plain.lowest_propensity, 30)
    assert row.n_eff == pytest.approx(plain.n_eff / 2)
    assert row.std_error**2 == pytest.approx(plain.std_error**2 * 2 * (30 / 29) / (60 / 59))
    assert row.bound_high - row.bound_low > plain.bound_high - plain.bound_low


def test_selection_refuses_and_raises() -> None:
    few = LABELLED.assign(weight=UNIT)
    population = pd.concat([POPULATION, POPULATION.assign(g="empty")])
    result = selection_weighted(few, population, ["g"], ["intent"]).set_index("g")
    assert result.reason.to_dict() == {"empty": "no_labels", "w": "too_few_labelled"}
    assert result[["estimate", "bound_low", "ci_high", "estimate_low"]].isna().all(axis=None)
    assert result.n_labelled.tolist() == [0, 4]
    with pytest.raises(ValueError, match="more labels than units"):
        selection_weighted(LABELLED, POPULATION.assign(weight=UNIT), ["g"], ["intent"])
    with pytest.raises(ValueError, match="more labels than units"):
        selection_weighted(LABELLED.assign(intent="fr"), POPULATION, ["g"], ["intent"])
    with pytest.raises(ValueError, match="population lacks"):
        selection_weighted(LABELLED, POPULATION.drop(columns="intent"), ["g"], ["intent"])
    shuffled = selection_weighted(LABELLED.iloc[::-1], POPULATION.iloc[::-1], ["g"], ["intent"])
    pd.testing.assert_frame_equal(
        shuffled, selection_weighted(LABELLED, POPULATION, ["g"], ["intent"]), check_exact=True
    )
