"""Corrected estimates of windows: the two methods side by side, refusals, contradictions, types."""

from __future__ import annotations

import pandas as pd
import pytest

from retrieval_quality.corrections import COLUMNS, KEY, PAIR, PLACES, corrected_estimates
from retrieval_quality.prediction_powered import prediction_powered, selection_weighted

UNIT = 1_000_000
WINDOW = {
    "window_name": "week", "window_start_at": pd.Timestamp("2026-11-30"), "window_end_at": pd.Timestamp("2026-12-07"),
    "traffic": "production", "segment_dimension": "total", "segment_value": "total",
}  # fmt: skip
COUNTED = {"n_traces": 700, "n_scored": 60, "judged_share": 1.0}


def pair(metric: str = "precision", k: int = 5, cheap_class: str = "judge", **of: object) -> dict[str, object]:
    score = {"stage": "final", "trusted_class": "audit", "cheap_class": cheap_class, "metric": metric, "k": k}
    return WINDOW | score | of


def counted(n_labelled: int, n_units: int, **of: object) -> dict[str, object]:
    more = {"sampling": "random", "n_labelled": n_labelled, "n_units": n_units, "n_days": 5, "is_identifiable": True}
    return pair() | COUNTED | more | {"n_eff": float(n_units - n_labelled)} | of


def joint(cells: dict[tuple[float, float | None], int], **of: object) -> list[dict[str, object]]:
    return [
        pair() | {"trusted_score": y, "cheap_score": f, "inclusion_probability": 0.1, "unit_weight": UNIT, "n_units": n}
        | of
        for (y, f), n in cells.items()
    ]  # fmt: skip


def unlabelled(cells: dict[float, int], **of: object) -> list[dict[str, object]]:
    return [pair() | {"value": f, "weight": n * UNIT} | of for f, n in cells.items()]


def place(rank: int, weight: float, intent: str = "a", **of: object) -> dict[str, object]:
    return WINDOW | {"k": 5, "intent": intent, "rank": rank, "weight": round(weight * UNIT)} | of


JOINT = joint({(0.2, 0.2): 20, (0.2, None): 10, (0.0, None): 20, (0.0, 0.2): 10})
UNLABELLED = unlabelled({0.2: 300, 0.0: 340})
PAIRS = [counted(60, 700)]
FEEDBACK = [WINDOW | COUNTED | {"k": 5, "n_labelled": 40, "n_units": 700, "n_eff": 40.0, "shown_share": 0.4}]
# rank 1 judged on 30 of 700 lists, 15 of them relevant; rank 2 on 10, 2 of them relevant
JUDGED = [place(1, 15, value=1.0), place(1, 15, value=0.0), place(2, 2, value=1.0), place(2, 8, value=0.0)]
SHOWN = [place(1, 700), place(2, 700)]


def estimates(
    pairs: list[dict[str, object]] = PAIRS, joint_rows: list[dict[str, object]] = JOINT,
    others: list[dict[str, object]] = UNLABELLED, feedback: list[dict[str, object]] = FEEDBACK,
    judged: list[dict[str, object]] = JUDGED, shown: list[dict[str, object]] = SHOWN,
) -> pd.DataFrame:  # fmt: skip
    frames = [
        pd.DataFrame(rows) if rows else pd.DataFrame(typed).iloc[:0]
        for rows, typed in ((pairs, PAIRS), (joint_rows, JOINT), (others, UNLABELLED), (feedback, FEEDBACK),
                            (judged, JUDGED), (shown, SHOWN))
    ]  # fmt: skip
    return corrected_estimates(*frames, confidence=0.95)


def test_both_methods_say_what_the_functions_say() -> None:
    rows = estimates()
    assert list(rows.columns) == COLUMNS
    assert rows["method"].tolist() == ["prediction_powered", "selection_weighted"]
    predicted, weighted = rows.to_dict("records")

    labelled = pd.DataFrame(JOINT).rename(columns={"trusted_score": "trusted", "cheap_score": "cheap"})
    labelled = labelled.fillna({"cheap": 0.0}).assign(weight=labelled["n_units"] * UNIT)
    alone = prediction_powered(labelled, pd.DataFrame(UNLABELLED), PAIR).iloc[0]
    for name in ("estimate", "std_error", "ci_low", "ci_high", "tuning", "width_ratio", "n_equivalent"):
        assert predicted[name] == alone[name], name
    assert (predicted["uncorrected_estimate"], predicted["uncorrected_low"]) == (
        alone["trusted_estimate"], alone["trusted_low"],
    )  # fmt: skip
    assert (predicted["n_labelled"], predicted["n_units"], predicted["n_traces"]) == (60, 700, 700)
    assert rows["n_days"].tolist() == [5, pd.NA]
    assert pd.isna(predicted["bound_low"]) and pd.isna(predicted["covered_share"])  # noqa: PT018

    # .5 of the first places, .2 of the second, which stand for two of five: .4 x .35
    assert weighted["estimate"] == pytest.approx(0.14)
    plain = selection_weighted(pd.DataFrame(JUDGED), pd.DataFrame(SHOWN), PLACES, ["intent", "rank"]).iloc[0]
    for name in ("estimate", "std_error", "ci_high", "bound_low", "estimate_low"):
        assert weighted[name] == pytest.approx(0.4 * plain[name]), name
    assert weighted["uncorrected_estimate"] == pytest.approx(0.4 * 17 / 40)
    assert (weighted["n_labelled"], weighted["n_units"], weighted["lowest_propensity"]) == (40, 700, 10 / 700)
    assert pd.isna(weighted["cheap_class"]) and pd.isna(weighted["tuning"])  # noqa: PT018


def test_a_random_sample_contradicts_what_feedback_says() -> None:
    assert not estimates()["is_contradicted"][1]
    everything = joint({(0.8, 0.8): 40, (0.6, 0.4): 20})
    rows = estimates(joint_rows=everything, others=unlabelled({0.8: 400, 0.4: 240}))
    assert rows["ci_low"][0] > rows["ci_high"][1]
    assert rows["is_contradicted"].tolist() == [pd.NA, True]
    # nothing to compare with: not identifiable, refused, another k
    for pairs in ([counted(60, 700, is_identifiable=False)], [counted(60, 700, sampling="not_random")]):
        assert estimates(pairs=pairs, joint_rows=everything)["is_contradicted"].isna().all()
    other = {"k": 1}
    rows = estimates([counted(60, 700, **other)], joint({(0.0, 0.0): 30, (1.0, 1.0): 30}, **other),
                     unlabelled({0.0: 300, 1.0: 340}, **other))  # fmt: skip
    assert rows["is_contradicted"].isna().all()


def test_what_is_refused_keeps_its_row() -> None:
    rows = estimates(
        pairs=[counted(9, 700), counted(60, 700, metric="hit_rate", sampling="not_random")],
        joint_rows=[
            *joint({(0.2, 0.2): 5, (0.0, 0.0): 4}),
            *joint({(1.0, 1.0): 30, (0.0, 0.0): 30}, metric="hit_rate"),
        ],
        others=[*UNLABELLED, *unlabelled({1.0: 640}, metric="hit_rate")],
        feedback=[FEEDBACK[0] | {"n_eff": 9.0}],
    ).set_index(["method", "metric"])
    assert rows["reason"].to_dict() == {
        ("prediction_powered", "hit_rate"): "not_random",
        ("prediction_powered", "precision"): "too_few_trusted",
        ("selection_weighted", "precision"): "too_few_labelled",
    }
    numbers = ["estimate", "std_error", "ci_low", "uncorrected_estimate", "bound_low", "estimate_low", "tuning"]
    assert rows[numbers].isna().all(axis=None)
    assert (rows["n_labelled"] > 0).all()
    assert rows["assumption"].notna().all()


def test_segments_with_few_labels_share_a_tuning_within_their_dimension() -> None:
    few = {(0.2, 0.2): 8, (0.0, 0.0): 7, (0.2, 0.0): 3}
    segments = [("intent", "a"), ("intent", "b"), ("long_tail", "head")]
    of = [{"segment_dimension": dimension, "segment_value": value} for dimension, value in segments]
    cells = [few, {(0.2, 0.0): 9, (0.0, 0.0): 9}, few]
    rows = estimates(
        [counted(18, 700, **where) for where in of],
        [row for where, n in zip(of, cells, strict=True) for row in joint(n, **where)],
        [row for where in of for row in unlabelled({0.2: 300, 0.0: 340}, **where)],
        feedback=[], judged=[], shown=[],
    )  # fmt: skip
    assert rows["tuning_source"].tolist() == ["pooled", "pooled", "own"]
    assert rows["tuning"][0] == rows["tuning"][1] != rows["tuning"][2]


def test_rows_in_any_order_make_the_same_bits() -> None:
    numbers = ["estimate", "std_error", "ci_low", "bound_low", "tuning", "n_eff"]
    backwards = estimates(PAIRS[::-1], JOINT[::-1], UNLABELLED[::-1], FEEDBACK[::-1], JUDGED[::-1], SHOWN[::-1])
    pd.testing.assert_frame_equal(backwards[numbers], estimates()[numbers], check_exact=True)


def test_without_labels_there_is_an_empty_typed_frame() -> None:
    empty = estimates([], [], [], [], [], [])
    assert len(empty) == 0
    assert empty.dtypes.to_dict() == estimates().dtypes.to_dict()
    assert len(estimates(feedback=[], judged=[], shown=[])) == len(estimates([], [], [])) == 1


def test_labels_and_counts_belong_together() -> None:
    for missing in ({"pairs": []}, {"joint_rows": [], "others": []}, {"feedback": []}, {"judged": [], "shown": []}):
        with pytest.raises(ValueError, match="labels without counts, or counts without labels"):
            estimates(**missing)  # type: ignore[arg-type]


def test_the_key_is_unique() -> None:
    assert not estimates().duplicated(KEY).any()
