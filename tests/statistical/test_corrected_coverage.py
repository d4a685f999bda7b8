"""Coverage of clustered and prediction-powered intervals, beside what ignores clusters or pools labels."""

import numpy as np
import pandas as pd
import pytest
from score_laws import UNIT, share

from retrieval_quality.clusters import cluster_intervals
from retrieval_quality.intervals import mean_intervals
from retrieval_quality.prediction_powered import prediction_powered, selection_weighted

# ---- clusters -----------------------------------------------------------------------------------


def users_and_sessions(replicates: int, n_users: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame, float]:
    """p@5 of users who differ (chance of a relevant chunk uniform in [0, 1]), with 1 + Poisson(3) sessions."""
    rng = np.random.default_rng(seed)
    sessions = 1 + rng.poisson(3, (replicates, n_users)).ravel()
    user = np.repeat(np.arange(replicates * n_users), sessions)
    hits = rng.binomial(5, rng.uniform(size=replicates * n_users)[user])
    clusters = pd.DataFrame(
        {
            "replicate": np.repeat(np.arange(replicates), n_users),
            "score_sum": np.bincount(user, hits, replicates * n_users).astype(np.int64) * (UNIT // 5),
            "unit_sum": sessions * UNIT,
            "n_clusters": 1,
        }
    )
    counts = np.bincount(user // n_users * 6 + hits, minlength=replicates * 6)
    histogram = pd.DataFrame(
        {
            "replicate": np.repeat(np.arange(replicates), 6),
            "value": np.tile(np.arange(6) / 5, replicates),
            "weight": counts * UNIT,
        }
    )
    return clusters, histogram, 0.5


def assert_clusters_cover(replicates: int, n_users: int, ci_at_least: float) -> None:
    clusters, histogram, truth = users_and_sessions(replicates, n_users, seed=n_users)
    clustered = cluster_intervals(clusters, histogram, ["replicate"])
    independent = mean_intervals(histogram, ["replicate"])
    assert share((clustered.bound_low <= truth) & (truth <= clustered.bound_high)) >= 0.95
    assert share((clustered.ci_low <= truth) & (truth <= clustered.ci_high)) >= ci_at_least
    # the control: sessions as if they were independent
    for kind in ("ci", "bound"):
        low, high = independent[f"{kind}_low"], independent[f"{kind}_high"]
        assert share((low <= truth) & (truth <= high)) < 0.80


@pytest.mark.slow
@pytest.mark.parametrize(("n_users", "ci_at_least"), [(60, 0.93), (14, 0.90)])
def test_cluster_intervals_cover(n_users: int, ci_at_least: float) -> None:
    assert_clusters_cover(20_000, n_users, ci_at_least)


def test_cluster_intervals_cover_in_fifteen_hundred_samples() -> None:
    assert_clusters_cover(1_500, 60, 0.93)


# ---- prediction-powered -------------------------------------------------------------------------

# accuracy of the judge per chunk, its leniency, trusted labels, width ratio of statistics.md section 4
JUDGES = [
    (0.95, 0.05, 30, 0.42), (0.85, 0.15, 30, 0.70), (0.85, 0.15, 100, 0.71), (0.75, 0.15, 100, 0.84),
    (0.60, 0.20, 100, 0.98),
]  # fmt: skip


def judged(
    replicates: int, accuracy: float, leniency: float, n: int, others: int, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """p@5 of mean .5 and sd .315, and a judge who likes any chunk with chance `leniency`, else errs by accuracy."""
    rng = np.random.default_rng(seed)

    def draw(size: int) -> tuple[np.ndarray, np.ndarray]:
        hits = rng.binomial(5, rng.beta(1.5, 1.5, size=(replicates, size)))
        liked, disliked = (leniency + (1 - leniency) * chance for chance in (accuracy, 1 - accuracy))
        return hits, rng.binomial(hits, liked) + rng.binomial(5 - hits, disliked)

    row = np.arange(replicates)[:, None]
    hits, said = draw(n)
    joint = np.bincount(((row * 6 + hits) * 6 + said).ravel(), minlength=replicates * 36)
    _, said = draw(others)
    cheap = np.bincount((row * 6 + said).ravel(), minlength=replicates * 6)
    fifths = np.arange(6) / 5
    return (
        pd.DataFrame(
            {
                "replicate": np.repeat(np.arange(replicates), 36),
                "trusted": np.tile(np.repeat(fifths, 6), replicates),
                "cheap": np.tile(fifths, replicates * 6),
                "weight": joint * UNIT,
            }
        ),
        pd.DataFrame(
            {
                "replicate": np.repeat(np.arange(replicates), 6),
                "value": np.tile(fifths, replicates),
                "weight": cheap * UNIT,
            }
        ),
    )


def assert_prediction_powered(judge: tuple[float, float, int, float], replicates: int, at_least: float) -> None:
    accuracy, leniency, n, width_ratio = judge
    joint, cheap = judged(replicates, accuracy, leniency, n, 2_000, seed=n + round(100 * accuracy))
    result = prediction_powered(joint, cheap, ["replicate"])
    assert result.reason.isna().all()
    assert share((result.ci_low <= 0.5) & (result.ci_high >= 0.5)) >= at_least
    assert share((result.trusted_low <= 0.5) & (result.trusted_high >= 0.5)) >= at_least
    widths = (result.ci_high - result.ci_low).mean() / (result.trusted_high - result.trusted_low).mean()
    assert widths == pytest.approx(width_ratio, abs=0.03)
    # the control: all labels in one pot
    pot = pd.concat([joint.rename(columns={"trusted": "value"}), cheap])[["replicate", "value", "weight"]]
    naive = mean_intervals(pot, ["replicate"])
    assert share((naive.bound_low <= 0.5) & (naive.bound_high >= 0.5)) < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("judge", JUDGES)
def test_prediction_powered_interval_covers(judge: tuple[float, float, int, float]) -> None:
    assert_prediction_powered(judge, 20_000, at_least=0.93)


@pytest.mark.parametrize("judge", [JUDGES[0], JUDGES[3]])
def test_prediction_powered_interval_covers_in_a_thousand_samples(judge: tuple[float, float, int, float]) -> None:
    assert_prediction_powered(judge, 1_000, at_least=0.93)


def test_pooled_tuning_helps_many_small_segments() -> None:
    """Twelve trusted labels in each of eight segments: covers as it should, one tuning for all."""
    joint, cheap = judged(1_600, 0.85, 0.15, 12, 250, seed=8)
    for frame in (joint, cheap):
        frame["window"], frame["segment"] = frame.replicate // 8, frame.replicate % 8
    keys = ["window", "segment"]
    own = prediction_powered(joint, cheap, keys)
    pooled = prediction_powered(joint, cheap, keys, pool=["window"])
    assert (pooled.tuning_source[pooled.reason.isna()] == "pooled").all()
    covered = {
        name: share((result.ci_low <= 0.5) & (result.ci_high >= 0.5))
        for name, result in (("own", own), ("pool", pooled))
    }
    assert covered["pool"] >= 0.93
    assert covered["pool"] >= covered["own"]
    assert pooled.tuning.std() < own.tuning.std() / 2


def test_unequal_inclusion_probabilities_are_weighted_back() -> None:
    """Hard questions are audited five times as often; nobody knows which of the others were hard."""
    rng = np.random.default_rng(11)
    replicates, n = 1_500, 1_000
    is_hard = rng.uniform(size=(replicates, n)) < 0.25
    hits = rng.binomial(5, np.where(is_hard, 0.3, 0.7))
    said = rng.binomial(hits, 0.85) + rng.binomial(5 - hits, 0.15)
    truth = 0.25 * 0.3 + 0.75 * 0.7
    chance = np.where(is_hard, 0.3, 0.06)
    is_audited = rng.uniform(size=hits.shape) < chance
    row = np.broadcast_to(np.arange(replicates)[:, None], hits.shape)
    joint = pd.DataFrame({"replicate": row[is_audited], "trusted": hits[is_audited] / 5, "cheap": said[is_audited] / 5,
                          "inclusion_probability": chance[is_audited], "weight": UNIT})  # fmt: skip
    cheap = pd.DataFrame({"replicate": row[~is_audited], "value": said[~is_audited] / 5, "weight": UNIT})
    result = prediction_powered(joint, cheap, ["replicate"])
    assert result.estimate.mean() == pytest.approx(truth, abs=0.003)
    assert share((result.ci_low <= truth) & (truth <= result.ci_high)) >= 0.93
    # the standard error is what the estimates spread, and smaller than that of the audit alone
    assert np.sqrt((result.std_error**2).mean()) == pytest.approx(result.estimate.std(), rel=0.07)
    assert result.width_ratio.median() < 0.9
    # the control: as if all had been chosen alike
    unweighted = prediction_powered(joint.drop(columns="inclusion_probability"), cheap, ["replicate"])
    assert share((unweighted.ci_low <= truth) & (truth <= unweighted.ci_high)) < 0.7


def test_self_selected_labels_stay_wrong_whatever_is_done_to_them() -> None:
    """Feedback after failure: why `not_random` is refused. Weighting helps where the cell explains it."""
    rng = np.random.default_rng(3)
    replicates, n = 300, 8_000
    intent = rng.uniform(size=(replicates, n)) < 0.3  # a third asks hard questions and fails more
    hits = rng.binomial(5, np.where(intent, 0.3, 0.6))
    truth = 0.3 * 0.3 + 0.7 * 0.6
    row = np.arange(replicates)[:, None]

    def frames(chance: np.ndarray) -> tuple[pd.DataFrame, pd.DataFrame]:
        labelled = rng.uniform(size=hits.shape) < chance
        cell = (row * 2 + intent) * 6 + hits
        scores = np.bincount(cell[labelled], minlength=replicates * 12).reshape(-1, 12)
        everyone = np.bincount((row * 2 + intent).ravel(), minlength=replicates * 2)
        cells = pd.MultiIndex.from_product([range(replicates), [0, 1], np.arange(6) / 5], names=["w", "hard", "value"])
        return (
            pd.DataFrame({"weight": scores.ravel() * UNIT}, index=cells).reset_index(),
            pd.DataFrame({"w": np.repeat(np.arange(replicates), 2), "hard": np.tile([0, 1], replicates),
                          "weight": everyone * UNIT}),
        )  # fmt: skip

    by_intent = selection_weighted(*frames(np.where(intent, 0.04, 0.012)), ["w"], ["hard"])
    assert abs(by_intent.labelled_estimate.mean() - truth) > 0.05
    assert by_intent.estimate.mean() == pytest.approx(truth, abs=0.005)
    assert share((by_intent.ci_low <= truth) & (truth <= by_intent.ci_high)) >= 0.93
    assert share((by_intent.bound_low <= truth) & (truth <= by_intent.bound_high)) >= 0.93
    by_failure = selection_weighted(*frames(np.where(hits <= 2, 0.04, 0.012)), ["w"], ["hard"])
    assert by_failure.estimate.mean() < truth - 0.08
    assert share((by_failure.ci_low <= truth) & (truth <= by_failure.ci_high)) < 0.5


def test_judged_places_of_a_session_count_as_one() -> None:
    """Half of the sessions that judge do so at one rank, half at all five; a session is mostly good or mostly bad."""
    rng = np.random.default_rng(5)
    replicates, n, k = 600, 2_000, 5
    quality = rng.beta(0.3, 0.5, size=(replicates, n))
    truth = 0.3 / 0.8
    relevant = rng.uniform(size=(replicates, n, k)) < quality[..., None]
    judges = rng.uniform(size=(replicates, n)) < 0.05
    # one rank: the first ones more often, whatever is there
    favourite = rng.choice(k, size=(replicates, n), p=[0.5, 0.2, 0.1, 0.1, 0.1])
    is_thorough = rng.uniform(size=(replicates, n)) < 0.5
    judged = judges[..., None] & (is_thorough[..., None] | (favourite[..., None] == np.arange(k)))
    window, _, rank = np.nonzero(judged)
    labelled = pd.DataFrame({"w": window, "rank": rank, "value": relevant[judged].astype(float), "weight": UNIT})
    shown = pd.DataFrame({"w": np.repeat(np.arange(replicates), k), "rank": np.tile(np.arange(k), replicates),
                          "weight": n * UNIT})  # fmt: skip
    of_session = judged.sum(axis=2)
    n_eff = of_session.sum(axis=1) ** 2 / (of_session**2).sum(axis=1)
    independent = pd.DataFrame({"w": np.arange(replicates), "n_eff": n_eff})
    result = selection_weighted(labelled, shown, ["w"], ["rank"], n_eff=independent)
    assert result.estimate.mean() == pytest.approx(truth, abs=0.005)
    for kind in ("ci", "bound"):
        assert share((result[f"{kind}_low"] <= truth) & (truth <= result[f"{kind}_high"])) >= 0.93, kind
    # the control: as if every place were a session of its own
    naive = selection_weighted(labelled, shown, ["w"], ["rank"])
    assert share((naive.ci_low <= truth) & (truth <= naive.ci_high)) < 0.90
