"""Position bias, on simulated readers whose looks are known: what is estimated of them, and what is left."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support import Warehouse

FIRST_DAY = 1_772_323_200  # 2026-03-01T00:00:00Z
AS_OF = {"as_of": "2026-03-29T00:00:00Z"}
LOOKED_AT = (1.0, 0.7, 0.5, 0.35, 0.25)
N_TRACES = 6000

Row = dict[str, object]


@dataclass
class Simulated:
    """Rows of simulated readers; by index version, the precision@5 had they looked at every rank as at the first."""

    traces: list[Row] = field(default_factory=list)
    feedback: list[Row] = field(default_factory=list)
    truth: dict[str, list[float]] = field(default_factory=lambda: {"v1": [], "v2": []})

    def show(
        self, number: int, question: str, chunks: list[str], signalled: list[str], *, asks_again: bool, **other: object
    ) -> None:
        """One list, and the copies on it; a reader without any may ask again, which is a signal too."""
        at = FIRST_DAY + (number % 28) * 86_400 + number
        self.traces.append(
            {"trace_id": f"t{number}", "ts": at, "query": question, "retrieved": [{"chunk_id": c} for c in chunks]}
            | other
        )
        signal: Row = {"signal": "copy", "rating": "up", "chunk_ids": signalled}
        if not signalled:
            signal = {"signal": "reformulation", "rating": "down", "chunk_ids": chunks[:1]}
        if signalled or asks_again:
            self.feedback.append({"feedback_id": f"f{number}", "trace_id": f"t{number}", "ts": at + 60} | signal)


def built(simulated: Simulated, root: Path) -> Warehouse:
    warehouse = Warehouse(root)
    warehouse.land("retrieval_traces", simulated.traces)
    warehouse.land("feedback", simulated.feedback)
    warehouse.build(AS_OF)
    return warehouse


def readers_in_an_experiment() -> Simulated:
    """Whether a rank is looked at is drawn by LOOKED_AT; arm b shows every chunk one rank higher, the first last.

    Half of the readers who copy nothing ask again (index v1), the others are silent (v2).
    """
    simulated, rng = Simulated(), random.Random(20260301)
    questions = []
    for n in range(50):
        relevance = sorted(rng.choices([0.9, 0.5, 0.1], k=5), reverse=True)  # a good ranking
        questions.append({f"c{n}-{place}": chance for place, chance in enumerate(relevance)})
    for number in range(N_TRACES):
        n = rng.randrange(len(questions))
        bucket = rng.choice("ab")
        chunks = list(questions[n])
        shown = chunks if bucket == "a" else [*chunks[1:], chunks[0]]
        signalled = [
            chunk
            for chunk, look in zip(shown, LOOKED_AT, strict=True)
            if rng.random() < look and rng.random() < questions[n][chunk]
        ]
        version = rng.choice(["v1", "v2"])
        simulated.truth[version].append(sum(questions[n].values()) / 5)
        simulated.show(
            number, f"question {n}", shown, signalled, asks_again=version == "v1", index_version=version,
            experiment_id="order", experiment_bucket=bucket,
        )  # fmt: skip
    return simulated


def readers_until_satisfied(n_traces: int = 900) -> Simulated:
    """A reader looks down to a depth that LOOKED_AT gives, and copies there; above it, one chunk in four."""
    simulated, rng = Simulated(), random.Random(20260302)
    for number in range(n_traces):
        drawn = rng.random()
        depth = max(rank for rank, look in enumerate(LOOKED_AT, 1) if drawn < look)
        copied = [rank == depth or rng.random() < 0.25 for rank in range(1, depth + 1)]
        chunks = [f"d{number}-{rank}" for rank in range(1, 6)]
        signalled = [chunk for chunk, is_copied in zip(chunks, copied, strict=False) if is_copied]
        simulated.show(number, f"what is {number}", chunks, signalled, asks_again=True)
    return simulated


def precision_at_5(warehouse: Warehouse, index_version: str) -> tuple[float, float, float, float]:
    """Upper bound of the raw estimate; corrected estimate and its bounds."""
    (row,) = warehouse.query(
        """
        select bound_high, exposure_corrected_estimate, exposure_corrected_low, exposure_corrected_high
        from mart_exposure_sensitivity where segment_dimension = 'index_version' and segment_value = ? and k = 5
        """,
        index_version,
    )
    return row  # type: ignore[return-value]


def propensities(warehouse: Warehouse) -> list[tuple[object, ...]]:
    return warehouse.query(
        "select method, propensity, propensity_low, propensity_high from int_examination_propensities order by rank"
    )


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> tuple[Simulated, Warehouse]:
    simulated = readers_in_an_experiment()
    return simulated, built(simulated, tmp_path_factory.mktemp("experiment"))


def test_rank_variation_finds_how_often_a_rank_is_looked_at(experiment: tuple[Simulated, Warehouse]) -> None:
    found = propensities(experiment[1])
    assert {row[0] for row in found} == {"rank_variation"}
    for (_, estimate, low, high), look in zip(found, LOOKED_AT, strict=True):
        # an interval of 95 % is 3.92 standard errors wide: within three of them
        assert abs(math.log(estimate / look)) <= 3 / 3.92 * math.log(high / low)  # type: ignore[operator, arg-type]
        assert high - low < 0.21  # type: ignore[operator]


def test_corrected_precision_is_near_the_truth_where_raw_is_not(experiment: tuple[Simulated, Warehouse]) -> None:
    simulated, warehouse = experiment
    truth = sum(simulated.truth["v1"]) / len(simulated.truth["v1"])
    raw_high, corrected, low, high = precision_at_5(warehouse, "v1")
    assert raw_high < truth - 0.1
    assert raw_high < low
    assert corrected == pytest.approx(truth, abs=0.03)
    assert low <= truth <= high


def test_what_silent_readers_leave_is_not_corrected(experiment: tuple[Simulated, Warehouse]) -> None:
    """A list that nobody signals on is in neither mean, so both are of readers who found something."""
    simulated, warehouse = experiment
    truth = sum(simulated.truth["v2"]) / len(simulated.truth["v2"])
    _, corrected, low, _ = precision_at_5(warehouse, "v2")
    assert truth < low < corrected


def test_every_row_stands_beside_its_raw_one(experiment: tuple[Simulated, Warehouse]) -> None:
    warehouse = experiment[1]
    rows = warehouse.query(
        """
        select count(*), count(*) filter (where sensitivity.n_units = quality.n_units),
            count(*) filter (where sensitivity.estimate is not distinct from quality.estimate)
        from mart_exposure_sensitivity as sensitivity
        inner join mart_retrieval_quality as quality
            using (window_name, window_start_at, segment_dimension, segment_value, k)
        where quality.traffic = 'production' and quality.stage = 'final' and quality.label_class = 'implicit'
            and quality.metric = 'precision'
        """
    )
    n_rows = warehouse.query("select count(*) from mart_exposure_sensitivity")[0][0]
    assert rows == [(n_rows, n_rows, n_rows)]
    assert n_rows > 10  # type: ignore[operator]


def test_the_cascade_is_found_where_readers_stop_at_their_last_signal(tmp_path: Path) -> None:
    simulated = readers_until_satisfied()
    warehouse = built(simulated, tmp_path)
    found = propensities(warehouse)
    assert {row[0] for row in found} == {"cascade"}
    assert [row[1] for row in found] == pytest.approx(LOOKED_AT, abs=0.05)
    # of those who look at a rank some stop there with a copy, and one in four of the others copies
    stops = [1 - deeper / here for here, deeper in zip(LOOKED_AT, [*LOOKED_AT[1:], 0], strict=True)]
    truth = sum(stop + (1 - stop) / 4 for stop in stops) / 5
    raw_high, corrected, low, high = precision_at_5(warehouse, "unknown")
    assert raw_high < truth - 0.1
    assert corrected == pytest.approx(truth, abs=0.03)
    assert low <= truth <= high


def test_nights_end_where_one_night_ends_and_few_signals_say_so(tmp_path: Path) -> None:
    """With corrected deliveries: a copy that was of another chunk, and a trace that was of another day."""
    simulated = readers_in_an_experiment()
    traces, feedback = simulated.traces[:120], simulated.feedback[:120]
    once = Warehouse(tmp_path / "once")
    once.land("retrieval_traces", traces)
    once.land("feedback", feedback)
    once.build(AS_OF)

    nights = Warehouse(tmp_path / "nights")
    said: list[Row] = [row | {"chunk_ids": ["elsewhere"]} if n % 7 == 0 else row for n, row in enumerate(feedback)]
    moved: list[Row] = [row | {"ts": FIRST_DAY + 5} if n % 11 == 0 else row for n, row in enumerate(traces)]
    nights.land("feedback", said[:80], "1.jsonl")
    nights.land("retrieval_traces", moved, "1.jsonl")
    nights.build(AS_OF)
    now = {"ingested_at": FIRST_DAY + 27.5 * 86_400}
    nights.land("feedback", [*(row | now for row in feedback[:80:7]), *feedback[80:]], "2.jsonl")
    nights.land("retrieval_traces", [row | now for row in traces[::11]], "2.jsonl")
    nights.build(AS_OF)

    for table in (
        "int_hit_patterns", "int_rank_variation", "int_examination_depths", "int_examination_propensities",
        "int_exposure_histograms", "int_exposure_hits", "mart_exposure_sensitivity",
    ):  # fmt: skip
        everything = f"select columns(lambda c: c <> 'day_version') from {table} order by all"
        assert nights.query(everything) == once.query(everything), table
    assert once.query("select count(*) > 0 from int_rank_variation") == [(True,)]
    told = "k, reason, exposure_corrected_estimate, exposure_method"
    assert once.query(f"select distinct {told} from mart_exposure_sensitivity order by k") == [
        (5, "too_few_signals", None, None),
        (10, "too_few_signals", None, None),
    ]
