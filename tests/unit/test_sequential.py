"""The e-CUSUM worked by hand, against a plain loop, and its bits."""

import datetime as dt
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval_quality.sequential import LAMBDAS, PagingRule, cusum_path, e_cusum, paging_table, simulate_paging

UNIT = 1_000_000
START = dt.date(2026, 3, 1)


def nights(histograms: list[dict[float, float]], group: str | None = "s") -> pd.DataFrame:
    rows = [
        (group, START + dt.timedelta(days=day), value, round(units * UNIT))
        for day, histogram in enumerate(histograms)
        for value, units in histogram.items()
    ]
    return pd.DataFrame(rows, columns=["slo", "night", "value", "weight"]).astype(
        {"value": "float64", "weight": "int64"}
    )


def by_loop(histograms: list[dict[float, float]], slo: float, lambdas: tuple[float, ...] = LAMBDAS) -> list[float]:
    """The definition, one number at a time."""
    total = dict.fromkeys(lambdas, 0.0)
    least = dict.fromkeys(lambdas, 0.0)
    result = []
    for histogram in histograms:
        exponents = []
        for bet in lambdas:
            total[bet] += math.fsum(n * math.log(1 + bet * (slo - value)) for value, n in histogram.items())
            exponents.append(total[bet] - least[bet])
            least[bet] = min(least[bet], total[bet])
        result.append(math.log(sum(math.exp(x) for x in exponents) / len(exponents)))
    return result


def test_two_nights_by_hand() -> None:
    # one bet of 1 against .5: a zero earns log 1.5 = .405465, a one costs log .5 = -.693147.
    # night 1: one 1 -> C = -.693147, g = C - 0; night 2: three 0 -> C = .523248, g = C + .693147
    result = e_cusum(nights([{1.0: 1}, {0.0: 3}]), ["slo"], 0.5, lambdas=[1.0], alarm=3.0)
    assert result.columns.tolist() == ["slo", "night", "objective", "n_units", "statistic", "is_alarming"]
    assert result.statistic.tolist() == pytest.approx([math.log(0.5), 3 * math.log(1.5)])
    assert result.is_alarming.tolist() == [False, True]  # log 3 = 1.0986 < 1.2164
    assert result.n_units.tolist() == [1.0, 3.0]


streams = st.lists(
    st.dictionaries(st.integers(0, 5).map(lambda i: i / 5), st.integers(1, 40).map(float), min_size=1, max_size=6),
    min_size=1,
    max_size=30,
)


@given(streams, st.sampled_from([0.35, 0.5, 0.8, 0.95]))
@settings(max_examples=40, deadline=None)
def test_the_definition_in_a_loop(histograms: list[dict[float, float]], slo: float) -> None:
    result = e_cusum(nights(histograms), ["slo"], slo)
    assert result.statistic.tolist() == pytest.approx(by_loop(histograms, slo), rel=1e-9, abs=1e-9)
    assert (result.is_alarming == (result.statistic >= math.log(1_000))).all()


def test_bets_that_could_lose_everything_are_left_out() -> None:
    # objective .2: 1 / .8 = 1.25, so 1.4 is out
    histograms = [{0.0: 5, 1.0: 1}, {0.2: 9}]
    result = e_cusum(nights(histograms), ["slo"], 0.2)
    assert result.statistic.tolist() == pytest.approx(by_loop(histograms, 0.2, LAMBDAS[:-1]), rel=1e-12)
    with pytest.raises(ValueError, match="no lambda"):
        e_cusum(nights(histograms), ["slo"], 0.2, lambdas=[1.25, 2.0])


def test_streams_have_their_own_objective_and_bits_of_their_own() -> None:
    rng = np.random.default_rng(5)
    data = pd.concat(
        [
            nights(
                [{float(i) / 5: float(c) for i, c in enumerate(rng.multinomial(60, np.full(6, 1 / 6))) if c}] * 3
                + [{0.2: float(rng.integers(1, 90))}, {0.0: 4.0, 1.0: 2.0}],
                group,
            )
            for group in ["a", "b", None, "c"]
        ]
    )
    objectives = pd.DataFrame({"slo": ["b", None, "a"], "objective": [0.3, 0.6, 0.5]})
    whole = e_cusum(data, ["slo"], objectives)
    assert len(whole) == 20
    assert whole.statistic.isna().tolist() == [name == "c" for name in whole.slo]
    assert not whole.is_alarming[whole.slo == "c"].any()
    shuffled = e_cusum(data.sample(frac=1, random_state=1), ["slo"], objectives)
    alone = e_cusum(data[data.slo == "b"], ["slo"], objectives)
    assert [x.hex() for x in shuffled.statistic] == [x.hex() for x in whole.statistic]
    assert [x.hex() for x in alone.statistic] == [x.hex() for x in whole.statistic[whole.slo == "b"]]
    assert whole.objective[whole.slo.isna()].eq(0.6).all()


def test_n_eff_scales_the_evidence() -> None:
    data = nights([{0.0: 4, 1.0: 4}])
    sizes = data[["slo", "night"]].drop_duplicates().assign(n_eff=2.0)
    scaled = e_cusum(data, ["slo"], 0.6, n_eff=sizes)
    assert scaled.statistic[0] == pytest.approx(by_loop([{0.0: 1, 1.0: 1}], 0.6)[0])


def test_the_statistic_survives_overwhelming_evidence() -> None:
    result = e_cusum(nights([{0.0: 1e6}, {1.0: 1e6}]), ["slo"], 0.5)
    # the boldest bet alone: 1e6 log 1.7 = 530,628, less log 5 for the mean of five bets
    assert result.statistic[0] == pytest.approx(1e6 * math.log(1.7) - math.log(5), rel=1e-12)
    assert np.isfinite(result.statistic).all()
    assert result.is_alarming.tolist() == [True, False]


@pytest.mark.parametrize(
    ("objective", "options", "message"),
    [
        (1.0, {}, r"objectives must lie in \(0, 1\)"),
        (0.5, {"lambdas": []}, "lambdas > 0"),
        (0.5, {"lambdas": [0.0]}, "lambdas > 0"),
        (0.5, {"alarm": 1.0}, "alarm > 1"),
        (pd.DataFrame({"slo": ["s"]}), {}, "objective: the columns"),
    ],
)
def test_bad_input_is_named(objective: float, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        e_cusum(nights([{0.5: 1}]), ["slo"], objective, **options)  # type: ignore[arg-type]


def test_empty_input_gives_an_empty_frame() -> None:
    assert len(e_cusum(nights([{0.5: 1}])[:0], ["slo"], 0.5)) == 0


# ---- the paging rule ----------------------------------------------------------------------------


def stream(*shares: tuple[int, list[int]]) -> np.ndarray:
    """(1, nights, 6): so many nights of these counts, one after the other."""
    return np.array([[counts for n, counts in shares for _ in range(n)]])


GOOD, MIDDLE, BAD = [0, 0, 0, 20, 20, 0], [0, 10, 10, 10, 10, 0], [20, 20, 0, 0, 0, 0]  # means .7, .5, .1


def test_one_bad_day_is_no_page_and_two_are() -> None:
    rule = PagingRule(objective=0.55)
    assert not rule.pages(stream((5, GOOD), (1, BAD), (5, GOOD))).any()
    assert np.flatnonzero(rule.pages(stream((5, GOOD), (2, BAD), (3, GOOD)))[0]).tolist() == [6]


def test_a_bad_week_pages_only_with_the_sequential_alarm() -> None:
    # mean .5 against .55: 40 a day never breach a day, 280 a week do (bound .527 < .53); the bets
    # need log 1000 of evidence first
    pages = PagingRule(objective=0.55).pages(stream((60, MIDDLE)))[0]
    first = int(pages.argmax())
    weeks = PagingRule(objective=0.55, alarm=1.0 + 1e-9).pages(stream((60, MIDDLE)))[0]
    assert int(weeks.argmax()) == 6
    assert 6 < first < 30
    assert pages[first:].all()
    assert not PagingRule(objective=0.55, margin=0.06).pages(stream((60, MIDDLE))).any()


def test_cusum_path_of_many_streams_is_that_of_each() -> None:
    log_e = np.random.default_rng(1).normal(size=(4, 30, 5))
    many = cusum_path(log_e)
    assert many.shape == (4, 30)
    for one, path in zip(log_e, many, strict=True):
        assert cusum_path(one).tolist() == path.tolist()


def test_simulated_paging_is_a_function_of_its_seed() -> None:
    options: dict[str, object] = {"n_replicates": 3, "units_per_day": [40], "night_sds": [0.0], "n_nights": 30}
    first, second = (simulate_paging(**options) for _ in range(2))  # type: ignore[arg-type]
    pd.testing.assert_frame_equal(first, second)
    assert first.scenario.tolist() == ["healthy", "drop"]
    table = paging_table(first)
    assert table.count("\n") == 3
    assert table.splitlines()[2].startswith("| 0 | 40 | ")
    with pytest.raises(ValueError, match="n_replicates"):
        simulate_paging(n_replicates=1)
