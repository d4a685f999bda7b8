"""Treatment against control: designs, families, verdicts and warnings."""

from __future__ import annotations

import pandas as pd
import pytest

from retrieval_quality.experiments import COLUMNS, COUNTS, GROUP, KEY, SCORE, experiment_comparisons

ARMS = pd.DataFrame(
    {
        "experiment_id": ["e", "e"],
        "arm": ["a", "b"],
        "is_control": [True, False],
        "share": [0.5, 0.5],
        "wanted_effect": [0.05, 0.05],
    }
)
UNITS = pd.DataFrame({"experiment_id": ["e", "e"], "arm": ["a", "b"], "n": [1000, 1000]})
NO_DIFFERENCES = pd.DataFrame({name: pd.Series(dtype="object") for name in ["experiment_id", "control", "treatment"]})
NO_DIFFERENCES = NO_DIFFERENCES.assign(
    **{name: pd.Series(dtype="object") for name in SCORE},
    value=pd.Series(dtype="float64"),
    weight=pd.Series(dtype="int64"),
)


def group(metric: str = "hit_rate", segment_value: str = "total") -> dict[str, object]:
    return {
        "experiment_id": "e", "segment_dimension": "total" if segment_value == "total" else "intent",
        "segment_value": segment_value, "stage": "final", "label_class": "golden", "metric": metric, "k": 5,
    }  # fmt: skip


def binary(arm: str, hits: int, n: int, **of: str) -> list[dict[str, object]]:
    values = ((1.0, hits), (0.0, n - hits))
    return [group(**of) | {"arm": arm, "value": value, "weight": count * 1_000_000} for value, count in values]


def counted(arm: str, n: int, *, judged: float = 1.0, identifiable: bool = True, **of: str) -> dict[str, object]:
    row = group(**of) | {"arm": arm, "n_eff": float(n)}
    return row | dict(zip(COUNTS, (n, n, 1.0, judged, 0.0, identifiable), strict=True))


def compared(
    histograms: list[dict[str, object]],
    denominators: list[dict[str, object]],
    differences: pd.DataFrame = NO_DIFFERENCES,
    units: pd.DataFrame = UNITS,
) -> pd.DataFrame:
    return experiment_comparisons(
        pd.DataFrame(histograms), pd.DataFrame(denominators), differences, ARMS, units,
        confidence=0.95, ci_method="bca",
    )  # fmt: skip


def test_a_treatment_that_finds_more_is_better() -> None:
    rows = compared([*binary("a", 500, 1000), *binary("b", 600, 1000)], [counted("a", 1000), counted("b", 1000)])
    assert list(rows.columns) == COLUMNS
    (row,) = rows.to_dict("records")
    assert (row["design"], row["mean_control"], row["mean_treatment"], row["verdict"]) == (
        "unpaired",
        0.5,
        0.6,
        "better",
    )
    assert row["difference"] == pytest.approx(0.1)
    assert row["relative_change"] == pytest.approx(0.2)
    assert 0 < row["bound_low"] < 0.1 < row["bound_high"]
    assert row["anytime_low"] < row["bound_low"]
    assert row["bound_high"] < row["anytime_high"]
    assert pd.isna(row["warning"])


def test_the_family_is_the_pair_and_class_and_holds_what_is_identifiable() -> None:
    """Three rows of equal strength: alone p, of two identifiable ones the smaller p doubles, the third has none."""
    of = [{"metric": "hit_rate"}, {"metric": "precision"}, {"metric": "recall"}]
    histograms = [row for one in of for arm, hits in (("a", 500), ("b", 545)) for row in binary(arm, hits, 1000, **one)]
    denominators = [
        counted(arm, 1000, identifiable=one["metric"] != "recall", **one) for one in of for arm in ("a", "b")
    ]
    rows = compared(histograms, denominators).set_index("metric")
    p = rows.loc["hit_rate", "p_value"]
    assert 0.025 < p < 0.05
    assert rows.loc[["hit_rate", "precision"], "p_holm"].tolist() == pytest.approx([2 * p, 2 * p])
    assert rows["verdict"].to_dict() == {
        "hit_rate": "inconclusive", "precision": "inconclusive", "recall": "not_identifiable",
    }  # fmt: skip
    assert pd.isna(rows.loc["recall", "p_holm"])


def test_wrong_shares_disable_every_verdict() -> None:
    """1,000 to 1,150 where half and half was declared: chi-square 10.47, p .0012; to 1,200: 18.18, p .00002."""
    histograms = [*binary("a", 500, 1000), *binary("b", 600, 1000)]
    denominators = [counted("a", 1000), counted("b", 1000)]
    for n, expected in ((1150, "better"), (1200, "sample_ratio_mismatch")):
        (row,) = compared(histograms, denominators, units=UNITS.assign(n=[1000, n])).to_dict("records")
        assert row["verdict"] == expected
    assert row["srm_p_value"] == pytest.approx(2.0e-5, rel=0.02)


def test_questions_that_both_arms_answered_are_compared_in_pairs() -> None:
    """Of 40 questions 10 got better by .5 and none worse: paired it is told, unpaired it would not be."""
    scores = [(1.0, 20), (0.0, 20)]
    histograms = [group() | {"arm": "a", "value": v, "weight": n * 1_000_000} for v, n in scores]
    histograms += [
        group() | {"arm": "b", "value": v, "weight": n * 1_000_000} for v, n in [(1.0, 20), (0.5, 10), (0.0, 10)]
    ]
    pair = {"experiment_id": "e", "control": "a", "treatment": "b"}
    score = {name: group()[name] for name in SCORE}
    differences = pd.DataFrame(
        [pair | score | {"value": v, "weight": n * 1_000_000} for v, n in [(0.5, 10), (0.0, 30)]]
    )
    (row,) = compared(histograms, [counted("a", 40), counted("b", 40)], differences).to_dict("records")
    assert (row["design"], row["difference"], row["n_control"], row["verdict"]) == ("paired", 0.125, 40.0, "better")
    assert (row["mean_control"], row["mean_treatment"]) == (0.5, 0.625)
    (alone,) = compared(histograms, [counted("a", 40), counted("b", 40)]).to_dict("records")
    assert alone["verdict"] == "inconclusive"


def test_arms_that_are_judged_differently_are_flagged() -> None:
    rows = compared(
        [*binary("a", 500, 1000), *binary("b", 500, 1000)],
        [counted("a", 1000, judged=0.9), counted("b", 1000, judged=0.75)],
    )
    assert rows["warning"].tolist() == ["judged differently: control 0.90, treatment 0.75"]


def test_an_arm_without_scores_is_no_row() -> None:
    assert compared(binary("a", 5, 10), [counted("a", 10)]).empty
    assert list(compared(binary("a", 5, 10), [counted("a", 10)]).columns) == COLUMNS
    assert set(GROUP) < set(KEY)


def test_no_experiment_is_no_row() -> None:
    nothing = pd.DataFrame({name: pd.Series(dtype="object") for name in [*GROUP, "arm"]})
    histograms = nothing.assign(value=pd.Series(dtype="float64"), weight=pd.Series(dtype="int64"))
    denominators = nothing.assign(n_eff=pd.Series(dtype="float64"), **{c: pd.Series(dtype="object") for c in COUNTS})
    for arms in (ARMS, ARMS.iloc[:0]):
        found = experiment_comparisons(
            histograms, denominators, NO_DIFFERENCES, arms, UNITS.iloc[:0], confidence=0.95, ci_method="bca"
        )
        assert (list(found.columns), len(found)) == (COLUMNS, 0)
