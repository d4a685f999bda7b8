"""Where very much is new: a sample tells what all lines tell, sees every file, and does not pretend to be all."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from unit.expectation_cases import Place, expected, ranked, trace, traces

from retrieval_quality.expectations import CheckRow
from retrieval_quality.expectations.sampling import FILE_LINES


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def by_id(place: Place, *, sample_lines: int) -> Mapping[str, CheckRow]:
    return {row.expectation_id: row for row in place.check(sample_lines=sample_lines).rows}


def is_within_error(observed: float | None, share: float, n_looked_at: int) -> bool:
    """Four standard errors of a share that so many lines tell."""
    return observed == pytest.approx(share, abs=4 * (share * (1 - share) / n_looked_at) ** 0.5)


# --- the same faults -------------------------------------------------------------------------


def hostile_lines() -> list[bytes]:
    """4,000 lines, with ends, quotes, blanks, bytes and a length as no writer should; 60 in 100 have a fault."""
    lines = []
    for number in range(4_000):
        row = trace(number, query='she said "no", \\ and left', higher_is_better=True, top_k=10)
        fault = number % 100
        if fault < 5:
            row = {"tenant": number}
        elif fault < 10:
            row["top_k"] = "many"
        elif fault < 20:
            row["retrieved"] = ranked(3, 2, 1, first=0)
        elif fault < 40:
            row |= {"session_id": " ", "retrieved": ranked(1, 2, 3)}
        line = json.dumps(row).encode()
        if 40 <= fault < 50:
            line = line.replace(b"she", b"\xff\xfe")
        elif 50 <= fault < 60:
            line = line[:20]
        elif number == 3_999:
            line = line.replace(b"she", b"x" * 17_000_000)
        lines.append(b"  " * (number % 3) + line + b"\r" * (number % 2) + b"\n")
    return [*lines, b" \t\r\n" * 5_000]


def test_a_sample_has_the_faults_of_the_whole(place: Place) -> None:
    place.expect(
        expected("known_key_share", minimum=0.5),
        expected("unknown_keys", maximum=0),
        expected("misfit_share", maximum=0.5),
        expected("not_null", name="session", column="session_id", mostly=0.9),
        expected("other_rank_base_share", maximum=0.05),
        expected("against_declared_share", maximum=0.05),
        expected("mixed_direction_share", maximum=0.5),
        expected("repeated_share", maximum=0),
    )
    lines = hostile_lines()
    place.land("retrieval_traces", b"".join(lines[:2_000]), "0.jsonl")
    place.land("retrieval_traces", b"".join(lines[2_000:]), "1.jsonl")
    whole, sample = by_id(place, sample_lines=4_000), by_id(place, sample_lines=1_000)

    assert {name: row.outcome for name, row in sample.items()} == {name: row.outcome for name, row in whole.items()}
    assert {row.n_rows for row in [*whole.values(), *sample.values()]} == {4_000}
    faults = {name: row.observed for name, row in whole.items() if row.observed is not None}
    assert faults.pop("known_key_share") == 0.75  # 5 foreign, 10 no UTF-8, 10 no JSON of 100
    assert faults.pop("unknown_keys") == sample["unknown_keys"].observed == 1
    assert faults == pytest.approx(
        {
            "misfit_share": 5 / 75,
            "session": 55 / 75,
            "other_rank_base_share": 10 / 75,
            "against_declared_share": 20 / 75,
            "mixed_direction_share": 20 / 75,
            "repeated_share": 0,
        }
    )
    for name, fault in faults.items():
        assert is_within_error(sample[name].observed, fault, 700), name
    assert is_within_error(sample["known_key_share"].observed, 0.75, FILE_LINES)
    assert sample["repeated_share"] == whole["repeated_share"]


def test_any_order_of_lines_and_files_is_the_same_sample(tmp_path: Path) -> None:
    lines = [line.rstrip(b"\r\n") for line in hostile_lines()]
    rows = []
    for root, seed in ((tmp_path / "one", 1), (tmp_path / "other", 2)):
        place = Place(root)
        place.expect(
            expected("not_null", name="session", column="session_id"),
            expected("misfit_share", maximum=0),
            expected("other_rank_base_share", maximum=0),
        )
        random.Random(seed).shuffle(lines)
        for number in range(seed):
            place.land("retrieval_traces", b"\n".join(lines[number::seed]), f"{seed - number}.jsonl")
        rows.append(place.check(sample_lines=300).rows)
    assert rows[0] == rows[1]
    assert {row.outcome for row in rows[0]} == {"failed"}


def test_a_fault_of_equal_lines_is_neither_whole_nor_missing(place: Place) -> None:
    """A third of the lines say the same, without a time: drawn by what they say alone they would be all or none."""
    place.expect(expected("not_null", column="ts", mostly=0.5, severity="block"))
    place.land("retrieval_traces", [*traces(2_000), *[{"query": "q"}] * 1_000])
    row = place.only(sample_lines=300)
    assert (row.n_sampled, row.outcome) == (300, "passed")
    assert is_within_error(row.observed, 2 / 3, 300)
    place.land("retrieval_traces", [*traces(1_000), *[{"query": "q"}] * 2_000])
    assert place.only(sample_lines=300).stops


# --- every file ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [20, FILE_LINES, 3 * FILE_LINES])
def test_a_small_foreign_file_among_large_ones_still_blocks(place: Place, n: int) -> None:
    place.expect(expected("known_key_share", minimum=0.01, min_lines=20, severity="block"))
    place.land("retrieval_traces", traces(20_000), "good.jsonl")
    place.land("retrieval_traces", [{"other": number} for number in range(n)], "foreign.jsonl")
    row = place.only(sample_lines=100)
    assert row.stops
    assert row.examples == (f"retrieval_traces/foreign.jsonl: 0 of {min(n, FILE_LINES)} lines",)
    assert (row.n_rows, row.n_sampled) == (20_000 + n, FILE_LINES + min(n, FILE_LINES))


def test_min_lines_are_those_of_the_file_and_not_those_looked_at(place: Place) -> None:
    place.expect(expected("known_key_share", minimum=0.01, min_lines=FILE_LINES + 1))
    place.land("retrieval_traces", traces(5_000), "good.jsonl")
    place.land("retrieval_traces", [{"other": number} for number in range(FILE_LINES)], "foreign.jsonl")
    assert place.only(sample_lines=100).outcome == "passed"
    place.land("retrieval_traces", [{"other": number} for number in range(FILE_LINES + 1)], "foreign.jsonl")
    assert place.only(sample_lines=100).outcome == "failed"


def test_a_small_file_weighs_no_more_in_a_share_than_its_lines(place: Place) -> None:
    """All of its 500 lines are looked at for their keys; they are still only one in ten."""
    place.expect(
        expected("misfit_share", column="top_k", maximum=0.2),
        expected("not_null", column="session_id", mostly=0.8),
        expected("other_rank_base_share", maximum=0.2),
    )
    place.land("retrieval_traces", traces(4_500, top_k=3), "large.jsonl")
    odd = {"top_k": "x", "session_id": None, "retrieved": ranked(2, 1, first=0)}
    place.land("retrieval_traces", [trace(number, **odd) for number in range(500)], "small.jsonl")
    rows = place.check(sample_lines=400).rows
    assert {(row.outcome, row.n_sampled) for row in rows} == {("passed", 400)}
    misfits, sessions, ranks = (row.n_failed for row in rows)
    assert is_within_error(rows[0].observed, 0.1, 400)
    assert misfits == sessions == ranks  # faults of the same lines


# --- what is said ----------------------------------------------------------------------------


def test_counts_and_words_are_those_of_the_lines_looked_at(place: Place) -> None:
    place.expect(
        expected("unknown_keys", maximum=0),
        expected("other_rank_base_share", maximum=0.5),
        expected("repeated_share", maximum=0),
    )
    place.land("retrieval_traces", traces(3 * FILE_LINES, tenant="x"))
    keys, ranks, repeated = place.check(sample_lines=200).rows
    assert (keys.n_rows, keys.n_sampled, keys.n_failed) == (3_000, FILE_LINES, FILE_LINES)
    assert keys.message == (
        "it is off: 1 (1,000 of 1,000), expected 0 or less; 1,000 of 3,000 lines were looked at; tenant (1000 lines)"
    )
    assert (ranks.n_rows, ranks.n_sampled, ranks.n_failed) == (3_000, 200, 0)
    assert ranks.message == "0% (0 of 200), expected 50% or less; 200 of 3,000 lines were looked at"
    assert (repeated.n_sampled, repeated.message) == (3_000, "0% (0 of 3,000), expected 0% or less")


# --- files -----------------------------------------------------------------------------------


def test_compressed_and_parquet_files_are_drawn_from_as_lines_are(place: Place) -> None:
    """A fifth of each file has no session; a Parquet file may say so in equal rows, and in types of its own."""
    place.expect(
        expected("not_null", column="session_id", mostly=0.9),
        expected("known_key_share", minimum=1),
        expected("unknown_keys", maximum=0),
        expected("between", column="first_rank", minimum=0, maximum=0),
    )
    text = b"".join(
        json.dumps(trace(number, session_id=None if number % 5 == 0 else "s")).encode() + b"\n"
        for number in range(2_000)
    )
    folder = place.land("retrieval_traces", gzip.compress(text), "a.jsonl.gz").parent
    with pa.CompressedOutputStream(str(folder / "b.jsonl.zst"), "zstd") as packed:
        packed.write(text.replace(b'"trace_id": "', b'"trace_id": "other-'))
    for number, session in enumerate(("7::bigint", "8.5::double")):
        duckdb.execute(
            "copy (select timestamp '2026-03-30 12:00:00' as ts, 'x' as tenant, "
            f"case when n % 5 > 0 then {session} end as session_id, "
            "[{'chunk_id': 1, 'rank': 1}] as retrieved from range(2000) as r(n)) "
            f"to '{folder}/{number}.parquet'"
        )
    session, known, unknown, first = place.check(sample_lines=1_000).rows
    assert (session.outcome, session.n_rows, session.n_sampled) == ("failed", 8_000, 1_000)
    assert is_within_error(session.observed, 0.8, 1_000)
    assert (known.outcome, known.observed) == ("passed", 1.0)
    assert (unknown.outcome, unknown.examples) == ("failed", ("tenant (4000 lines)",))
    assert (first.observed, first.n_failed) == (0.0, 1_000)
