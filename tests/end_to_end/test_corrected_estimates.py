"""Audits, judges and clicks from landing files to mart_corrected_estimates, against the closed formulas.

Every index version is a case of its own; lists have one chunk (two in `feedback`), so that hit@5 is 0 or 1.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats
from support import Warehouse

from retrieval_quality.build import BuildFailed

DAY = "2026-11-30"  # a Monday
NEXT_DAY = "2026-12-01"  # nobody audits it
AS_OF = {"as_of": "2026-12-08T06:00:00Z"}
PAIRS = (
    "trusted_class,cheap_class,is_zero_without_signal\naudit,judge,false\naudit,implicit,true\nexplicit,judge,false\n"
)


@dataclass(frozen=True)
class Sessions:
    """So many sessions of one trace: what an audit, a judge and a click say of its only chunk (None: nothing)."""

    n: int
    audit: int | None = None
    judge: int | None = None
    copied: bool = False
    chance: float | None = None
    rate: float | None = None
    explicit: int | None = None


CASES = {
    # audited 20 of 200; the judge saw these and 80 others, whom he liked more than the audited
    "plain": [
        Sessions(5, audit=1, judge=1, copied=True), Sessions(4, audit=1, judge=1), Sessions(3, audit=1, judge=0),
        Sessions(1, audit=0, judge=1, copied=True), Sessions(1, audit=0, judge=1), Sessions(6, audit=0, judge=0),
        Sessions(15, judge=1, copied=True), Sessions(40, judge=1), Sessions(25, judge=0), Sessions(20, copied=True),
        Sessions(80),
    ],
    # 12 of 24 audited at 1 in 2, 12 of 120 at 1 in 10; the others do not say which they are
    "strata": [
        Sessions(3, audit=1, judge=1, chance=0.5), Sessions(1, audit=1, judge=0, chance=0.5),
        Sessions(8, audit=0, judge=0, chance=0.5), Sessions(8, audit=1, judge=1, chance=0.1),
        Sessions(1, audit=1, judge=0, chance=0.1), Sessions(3, audit=0, judge=0, chance=0.1),
        Sessions(80, judge=1), Sessions(40, judge=0),
    ],
    # half of the questions were logged at 1 in 2
    "rates": [
        Sessions(7, audit=1, judge=1), Sessions(5, audit=0, judge=0), Sessions(4, audit=1, judge=1, rate=0.5),
        Sessions(8, audit=0, judge=0, rate=0.5), Sessions(40, judge=1), Sessions(20, judge=0),
        Sessions(5, judge=1, rate=0.5), Sessions(25, judge=0, rate=0.5),
    ],
    "few": [Sessions(5, audit=1, judge=1), Sessions(4, audit=0, judge=0), Sessions(50, judge=1)],
    "alone": [Sessions(8, audit=1, judge=1), Sessions(8, audit=0, judge=0)],
    "same": [Sessions(12, audit=1, judge=1), Sessions(50, judge=0)],
    "selected": [Sessions(20, explicit=1, judge=1), Sessions(20, explicit=0, judge=0), Sessions(50, judge=1)],
}  # fmt: skip


@dataclass(frozen=True)
class Feedback:
    """So many traces of an intent: what users said of the first and of the second chunk (None: nothing)."""

    n: int
    intent: str
    first: int | None = None
    second: int | None = None


FEEDBACK = [
    # of 40 easy ones 12 are judged at rank 1, 9 of them relevant; 6 at rank 2 as well, 2 of them relevant
    Feedback(2, "easy", 1, 1), Feedback(4, "easy", 1, 0), Feedback(3, "easy", 1), Feedback(3, "easy", 0),
    Feedback(28, "easy"),
    # of 20 hard ones 5 at rank 1, 1 of them relevant; none at rank 2
    Feedback(1, "hard", 1), Feedback(4, "hard", 0), Feedback(15, "hard"),
]  # fmt: skip


def rows() -> Iterator[tuple[str, dict[str, object]]]:
    for version, groups in CASES.items():
        names = (f"{version} {number}" for number in range(1000))
        for group in groups:
            for _ in range(group.n):
                name = next(names)
                more = {} if group.rate is None else {"sample_rate": group.rate}
                yield trace(name, version, ["a"], **more)
                yield from labels(group, name)
    names = (f"feedback {number}" for number in range(1000))
    for told in FEEDBACK:
        for _ in range(told.n):
            name = next(names)
            yield trace(name, "feedback", ["a", "b"], intent=told.intent)
            for chunk, said in (("a", told.first), ("b", told.second)):
                if said is not None:
                    yield verdict(name, "thumb", said, chunk=chunk)
    for number in range(30):
        name = f"not audited {number}"
        yield trace(name, "plain", ["a"], ts=f"{NEXT_DAY}T12:00:00Z")
        yield verdict(name, "judge", 1, ts=f"{NEXT_DAY}T13:00:00Z")
        yield verdict(name, "copy", 1, ts=f"{NEXT_DAY}T13:00:00Z")
    # one session of two traces, audited at different chances; of three, one of them copied
    for number, (version, n) in enumerate((("several", 2), ("clicks", 3))):
        for turn in range(n):
            yield trace(f"{version} {turn}", version, ["a"], session_id=f"session {number}")
            chance = {"inclusion_probability": 0.1 * (turn + 1)}
            yield verdict(f"{version} {turn}", "audit", turn % 2, **chance)
    yield verdict("clicks 1", "copy", 1)


def trace(name: str, version: str, chunks: list[str], **values: object) -> tuple[str, dict[str, object]]:
    return "retrieval_traces", {
        "trace_id": name, "session_id": f"s {name}", "ts": f"{DAY}T12:00:00Z", "query": name, "index_version": version,
        "retrieved": [{"chunk_id": chunk} for chunk in chunks],
    } | values  # fmt: skip


def verdict(
    name: str, signal: str, rating: int, *, chunk: str = "a", **values: object
) -> tuple[str, dict[str, object]]:
    return "feedback", {
        "trace_id": name, "ts": f"{DAY}T13:00:00Z", "signal": signal, "rating": rating, "chunk_ids": [chunk],
    } | values  # fmt: skip


def labels(group: Sessions, name: str) -> Iterator[tuple[str, dict[str, object]]]:
    if group.audit is not None:
        chance = {} if group.chance is None else {"inclusion_probability": group.chance}
        yield verdict(name, "audit", group.audit, **chance)
    if group.judge is not None:
        yield verdict(name, "judge", group.judge)
    if group.explicit is not None:
        yield verdict(name, "thumb", group.explicit)
    if group.copied:
        yield verdict(name, "copy", 1)


def land(warehouse: Warehouse, seed: int) -> None:
    """In an order of the seed's."""
    landed = list(rows())
    random.Random(seed).shuffle(landed)
    for contract in ("retrieval_traces", "feedback"):
        warehouse.land(contract, [row for name, row in landed if name == contract])


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    built = Warehouse(tmp_path_factory.mktemp("corrected"))
    land(built, seed=1)
    built.build(AS_OF, seeds={"corrections": PAIRS})
    return built


def row(
    warehouse: Warehouse, version: str, cheap: str | None, metric: str = "hit_rate", k: int = 5,
    method: str = "prediction_powered",
) -> dict[str, Any]:  # fmt: skip
    columns = [str(name) for (name,) in warehouse.query("select column_name from (describe mart_corrected_estimates)")]
    (found,) = warehouse.query(
        """
        select * from mart_corrected_estimates
        where window_name = 'week' and window_start_at = ? and segment_dimension = 'index_version'
            and segment_value = ? and stage = 'final' and method = ? and cheap_class is not distinct from ?
            and metric = ? and k = ?
        """,
        DAY, version, method, cheap, metric, k,
    )  # fmt: skip
    return dict(zip(columns, found, strict=True))


def units(version: str, cheap: str) -> tuple[np.ndarray, np.ndarray]:
    """(y, f, chance, logged) of the audited and (f, logged) of the others, one row per session."""
    audited, others = [], []
    for group in CASES[version]:
        score = group.judge if cheap == "judge" else int(group.copied)
        if score is None:
            continue
        logged = 1 / (group.rate or 1)
        if group.audit is None:
            others += [(score, logged)] * group.n
        else:
            audited += [(group.audit, score, group.chance or 1, logged)] * group.n
    return np.array(audited, dtype=float), np.array(others, dtype=float)


def closed_formula(version: str, cheap: str, tuning: float) -> tuple[float, float]:
    """The generalised difference estimator and its variance: the mean of f over all, and that of y - f corrected."""
    audited, others = units(version, cheap)
    y, f, chance, logged = audited.T
    w = logged / chance
    everyone = (f @ logged + others[:, 0] @ others[:, 1]) / (logged.sum() + others[:, 1].sum())
    share = tuning * (logged.sum() + others[:, 1].sum()) / others[:, 1].sum()
    rectified = y - share * f
    estimate = share * everyone + (w @ rectified) / w.sum()
    # the influence of every unit: of the audited on both terms, of the others on the first
    everybody = logged.sum() + others[:, 1].sum()
    mean_y, mean_f = (w @ y) / w.sum(), (w @ f) / w.sum()
    moved = w / w.sum() * (y - mean_y - share * (f - mean_f)) + share * logged / everybody * (f - mean_f)
    n, rest = len(y), len(others)
    others_mean = others[:, 0].mean() + (f - mean_f).sum() / rest
    spread = ((others[:, 0] - others_mean) ** 2).sum() / rest / (rest - 1)
    return float(estimate), float(n / (n - 1) * (moved**2).sum() + tuning**2 * spread)


@pytest.mark.parametrize(("version", "cheap"), [("plain", "judge"), ("plain", "implicit"), ("strata", "judge")])
def test_the_mart_is_the_closed_formula(warehouse: Warehouse, version: str, cheap: str) -> None:
    found = row(warehouse, version, cheap)
    audited, others = units(version, cheap)
    estimate, variance = closed_formula(version, cheap, found["tuning"])
    n_eff = found["n_eff"]
    assert found["reason"] is None
    assert (found["n_labelled"], found["n_units"]) == (len(audited), len(audited) + len(others))
    assert 0 < found["tuning"] < 1
    assert found["estimate"] == pytest.approx(estimate, abs=1e-12)
    assert found["std_error"] == pytest.approx(np.sqrt(variance * (n_eff - 1) / (n_eff - 2)), rel=1e-9)
    half = stats.t.ppf(0.975, n_eff - 2) * found["std_error"]
    assert (found["ci_low"], found["ci_high"]) == pytest.approx((estimate - half, estimate + half), abs=1e-9)
    assert found["tuning_source"] == "pooled"  # fewer than 30 audited: with the other index versions
    assert found["n_equivalent"] == pytest.approx(len(audited) / found["width_ratio"] ** 2)
    assert found["is_identifiable"]
    assert found["assumption"].startswith("sessions with a trusted label are a random sample")


def test_the_audit_alone_is_weighted_by_its_chances(warehouse: Warehouse) -> None:
    # 4 of 12 at 1 in 2, 9 of 12 at 1 in 10: (4 x 2 + 9 x 10) / (12 x 2 + 12 x 10) = 98 / 144
    found = row(warehouse, "strata", "judge")
    assert found["uncorrected_estimate"] == pytest.approx(98 / 144)
    assert found["n_eff"] == pytest.approx(144**2 / (12 * 4 + 12 * 100))
    plain = row(warehouse, "plain", "judge")
    assert (plain["uncorrected_estimate"], plain["n_eff"]) == (pytest.approx(12 / 20), 20)
    # the judge liked 55 of 80 others and 11 of the 20 audited: the audit was unlucky
    assert plain["estimate"] > plain["uncorrected_estimate"]


def test_sessions_logged_at_half_the_rate_count_twice(warehouse: Warehouse) -> None:
    # audited: (7 + 4 x 2) / (12 + 12 x 2)
    found = row(warehouse, "rates", "judge")
    estimate, _ = closed_formula("rates", "judge", found["tuning"])
    assert found["uncorrected_estimate"] == pytest.approx(15 / 36)
    assert found["estimate"] == pytest.approx(estimate, abs=1e-12)
    assert (found["n_labelled"], found["n_units"]) == (24, 114)


def test_without_a_signal_the_implicit_score_is_zero(warehouse: Warehouse) -> None:
    # of 180 others 35 copied; nobody else left a signal
    found = warehouse.query(
        """
        select value, weight / 1e6 from int_window_unlabelled
        where window_name = 'week' and segment_value = 'plain' and metric = 'hit_rate' and k = 5
            and cheap_class = 'implicit' and stage = 'final' order by value
        """
    )
    assert found == [(0.0, 145.0), (1.0, 35.0)]
    # one session of three traces, one of them copied: a unit with a signal, not a third of one
    assert warehouse.query(
        "select cheap_score, n_units from int_window_joint where window_name = 'week' and segment_value = 'clicks' "
        "and metric = 'hit_rate' and k = 5 and cheap_class = 'implicit' and stage = 'final'"
    ) == [(1.0, 1)]


def test_days_without_a_trusted_label_are_not_spoken_of(warehouse: Warehouse) -> None:
    # the week has 30 sessions more, all of them liked by the judge and copied, and without an audit
    quality = warehouse.query(
        """
        select label_class, n_traces, n_units from mart_retrieval_quality
        where window_name = 'week' and window_start_at = ? and segment_value = 'plain' and stage = 'final'
            and metric = 'hit_rate' and k = 5 and label_class in ('judge', 'audit') order by label_class
        """,
        DAY,
    )
    assert quality == [("audit", 230, 20), ("judge", 230, 130)]
    for cheap, n_units in (("judge", 100), ("implicit", 200)):
        found = row(warehouse, "plain", cheap)
        assert (found["n_days"], found["n_traces"], found["n_scored"], found["n_units"]) == (1, 200, 20, n_units)
    days = warehouse.query("select traced_on::varchar, traffic, trusted_class from int_trusted_days order by all")
    assert days == [(DAY, "production", "audit"), (DAY, "production", "explicit")]
    assert warehouse.query(f"select count(*) from int_listed_units where traced_on = '{NEXT_DAY}'") == [(0,)]
    assert warehouse.query(f"select count(*) > 0 from int_shown_lists where traced_on = '{NEXT_DAY}'") == [(True,)]


def test_a_session_audited_twice_has_the_greater_chance(warehouse: Warehouse) -> None:
    rows = warehouse.query(
        "select trusted_score, inclusion_probability, n_units from int_window_joint where window_name = 'week' "
        "and segment_value = 'several' and metric = 'hit_rate' and k = 5 and cheap_class = 'implicit'"
    )
    assert rows == [(0.5, 0.2, 1)]


@pytest.mark.parametrize(
    ("version", "reason", "n"),
    [("few", "too_few_trusted", 9), ("alone", "no_cheap", 16), ("same", "no_variation", 12)],
)
def test_what_cannot_be_corrected_says_why(warehouse: Warehouse, version: str, reason: str, n: int) -> None:
    found = row(warehouse, version, "judge")
    assert (found["reason"], found["n_labelled"]) == (reason, n)
    assert [found[name] for name in ("estimate", "ci_low", "uncorrected_estimate", "tuning")] == [None] * 4


def test_labels_of_those_who_chose_themselves_are_refused(warehouse: Warehouse) -> None:
    found = row(warehouse, "selected", "judge")
    assert (found["trusted_class"], found["reason"], found["n_labelled"]) == ("explicit", "not_random", 40)
    assert found["estimate"] is None
    assert warehouse.query(
        "select distinct reason from mart_corrected_estimates "
        "where method = 'prediction_powered' and trusted_class = 'explicit'"
    ) == [("not_random",)]


@pytest.mark.parametrize(
    ("pair", "problem"),
    [
        ("audit,oracle,false", "oracle: no label class is called oracle"),
        ("audit,judge,", "judge: is_zero_without_signal is missing"),
    ],
)
def test_a_pair_that_makes_no_sense_stops_the_build(tmp_path: Any, pair: str, problem: str) -> None:
    built = Warehouse(tmp_path)
    built.land("retrieval_traces", [trace("t", "v", ["a"])[1]])
    with pytest.raises(BuildFailed, match=f"seeds/corrections.csv: {problem}"):
        built.build(AS_OF, seeds={"corrections": f"{PAIRS.splitlines()[0]}\n{pair}\n"})


def test_feedback_weighted_by_intent_and_rank(warehouse: Warehouse) -> None:
    # propensities 12 / 40 and 6 / 40 of the easy ones, 5 / 20 of the hard ones; hard ones at rank 2: nobody.
    # at rank 1: (40 x 9/12 + 20 x 1/5) / 60 = 34 / 60; judged places as they are 10 / 17
    first = row(warehouse, "feedback", None, "precision", 1, "selection_weighted")
    assert first["estimate"] == pytest.approx(34 / 60)
    assert first["uncorrected_estimate"] == pytest.approx(10 / 17)
    assert (first["covered_share"], first["lowest_propensity"]) == (1, pytest.approx(1 / 4))
    # w = 10/3 for 12 of them, 4 for 5
    assert first["n_eff"] == pytest.approx(60**2 / (12 * (10 / 3) ** 2 + 5 * 16))

    # both ranks: (30 + 40 x 2/6 + 4) / 100 = .4733 of the covered 100 of 120 places; lists have 2 of 5 places
    both = row(warehouse, "feedback", None, "precision", 5, "selection_weighted")
    covered = (30 + 40 / 3 + 4) / 100
    assert both["estimate"] == pytest.approx(0.4 * covered)
    assert both["estimate_low"] == pytest.approx(0.4 * covered * 100 / 120)
    assert both["estimate_high"] == pytest.approx(0.4 * (covered * 100 + 20) / 120)
    assert (both["covered_share"], both["lowest_propensity"]) == (pytest.approx(100 / 120), pytest.approx(6 / 40))
    # 23 judged places of 17 sessions, 6 of them with two: (6 x 2 + 11)^2 / (6 x 4 + 11) = 15.11 independent ones;
    # w = 10/3 for 12, 20/3 for 6, 4 for 5
    independent = 23**2 / 35
    assert both["n_eff"] == pytest.approx(independent / 23 * 100**2 / (400 / 3 + 800 / 3 + 80))
    assert (both["n_labelled"], both["n_units"], both["n_traces"], both["n_days"]) == (17, 60, 60, None)
    squares = 100 / 9 * (9 * (1 - covered) ** 2 + 3 * covered**2) + 400 / 9 * (
        2 * (1 - covered) ** 2 + 4 * covered**2
    ) + 16 * ((1 - covered) ** 2 + 4 * covered**2)  # fmt: skip
    expected = independent / (independent - 1) * squares * (23 / independent) / 100**2
    assert both["std_error"] == pytest.approx(0.4 * np.sqrt(expected))
    assert both["bound_low"] < both["estimate"] < both["bound_high"]
    # it is one answer, and named so
    assert (both["trusted_class"], both["is_identifiable"], both["reason"]) == ("explicit", False, None)
    assert "does not depend on its relevance" in both["assumption"]


def test_files_in_another_order_make_the_same_mart(warehouse: Warehouse, tmp_path: Any) -> None:
    again = Warehouse(tmp_path)
    land(again, seed=2)
    again.build(AS_OF, seeds={"corrections": PAIRS})
    everything = "from mart_corrected_estimates"
    assert again.query(everything) == warehouse.query(everything)
