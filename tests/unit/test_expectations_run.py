"""A run of the checks: what stops, what warns, what is an error, what is landed, and what is sampled."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from dataclasses import fields
from datetime import timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from unit.expectation_cases import NOW, Place, expected, trace, traces

from retrieval_quality.contracts import LandingCheck
from retrieval_quality.expectations import CheckRow, LandingBlocked, LandingReport
from retrieval_quality.expectations import measures as measures_module
from retrieval_quality.expectations.measuring import Asked, Measure
from retrieval_quality.landing_check import LandingError, check_landing


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


SESSION = expected("not_null", name="session", column="session_id", mostly=0.9)
# text against numbers: Great Expectations raises TypeError
TEXT_AS_NUMBER = expected("between", name="text", column="session_id", minimum=0, maximum=1)


def blocks(row: dict[str, str]) -> dict[str, str]:
    return row | {"severity": "block"}


def landed_rows(place: Place) -> list[dict[str, object]]:
    files = sorted((place.root / "landing" / "landing_checks").rglob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


# --- what follows ----------------------------------------------------------------------------


def test_a_failed_expectation_blocks_or_warns_by_its_severity(place: Place) -> None:
    place.expect(blocks(SESSION), SESSION | {"expectation_id": "soft"}, expected("not_null", column="ts"))
    place.land("retrieval_traces", [{"ts": 1_774_000_000}])
    report = place.check()
    assert [(row.expectation_id, row.outcome, row.stops) for row in report.rows] == [
        ("session", "failed", True),
        ("soft", "failed", False),
        ("not_null", "passed", False),
    ]
    assert (report.n_passed, report.n_warned, report.n_blocked, report.n_errors) == (1, 1, 1, 0)
    assert report.summary == "3 checks of 1 new files: 1 passed, 1 warned, 1 blocked, 0 errors"
    said = "it is off: 0% are fine, 1 of 1 are not, expected 90% or more; "
    assert [line[: line.index(" are fine")] for line in report.warnings] == [
        "landing check soft (retrieval_traces): it is off: 0%"
    ]
    (line,) = LandingBlocked(report).lines
    assert line.startswith(f"landing check session (retrieval_traces): {said}")


@pytest.mark.parametrize("severity", ["block", "warn"])
def test_what_raised_is_an_error_and_not_a_failure(place: Place, severity: str) -> None:
    place.expect(TEXT_AS_NUMBER | {"severity": severity})
    place.land("retrieval_traces", traces(3))
    report = place.check()
    (row,) = report.rows
    assert (row.outcome, row.observed, row.n_failed, row.examples) == ("error", None, None, ())
    # and not "it is off", which would speak of the data
    assert row.message == "Column values, min_value, and max_value must either be None or of the same type."
    assert row.line.startswith("landing check text (retrieval_traces): could not run, which is an error: ")
    assert (report.n_errors, report.n_warned, report.n_blocked) == (1, 0, 0)
    # a check that could not run is no pass
    assert report.blocking == ((row,) if severity == "block" else ())
    assert report.warnings == ((row.line,) if severity == "warn" else ())


def test_what_cannot_be_counted_is_an_error(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoilt(asked: Asked) -> Measure:
        asked.connection.execute("select nothing from nowhere")
        raise AssertionError

    measures = dict(measures_module._MEASURES) | {"repeated_share": spoilt}
    monkeypatch.setattr(measures_module, "_MEASURES", measures)
    place.expect(blocks(expected("repeated_share", maximum=0.1)), expected("unknown_keys", maximum=0))
    place.land("retrieval_traces", traces(3))
    report = place.check()
    broken, other = report.rows
    assert (broken.outcome, broken.stops, other.outcome) == ("error", True, "passed")
    assert broken.message.startswith("Catalog Error: Table with name nowhere does not exist")


def test_a_line_that_cannot_be_read_is_one_fault_and_not_many(place: Place) -> None:
    place.expect(SESSION, expected("known_key_share", minimum=0.9))
    place.land("retrieval_traces", b'no json\n{"other": 1}\n{"session_id": "s", "ts": 1}\n{"query": "q"}\n')
    session, known = place.check().rows
    assert (known.outcome, known.observed) == ("failed", 0.5)
    # {"query": "q"} has no session; the first two say nothing at all
    assert (session.observed, session.n_rows, session.n_sampled, session.n_failed) == (0.5, 4, 2, 1)


def test_below_min_lines_an_expectation_is_not_applied(place: Place) -> None:
    place.expect(blocks(SESSION) | {"min_lines": "3"}, expected("repeated_share", maximum=0, min_lines=3))
    place.land("retrieval_traces", [{"ts": 1}, {"ts": 1}])
    for row in place.check().rows:
        assert (row.outcome, row.observed, row.n_rows) == ("passed", None, 2)
        assert row.message == "not applied to 2 lines, only from 3 on"
    place.land("retrieval_traces", [{"ts": 1}, {"ts": 1}, {"ts": 1}])
    assert [row.outcome for row in place.check().rows] == ["failed", "failed"]


def test_contracts_without_new_files_have_no_rows_but_freshness(place: Place) -> None:
    place.expect(
        SESSION,
        expected("not_null", "feedback", name="f", column="ts"),
        expected("hours_since_newest", maximum=26),
        expected("repeated_share", maximum=0.1),
    )
    place.land("feedback", [{"ts": 1_774_000_000, "trace_id": "t0", "rating": 1}])
    assert [row.expectation_id for row in place.check().rows] == ["f", "hours_since_newest"]


def test_what_is_read_from_a_table_is_not_checked(place: Place) -> None:
    """What a table gained since the last night is not known before dbt runs."""
    place.expect(
        SESSION,
        expected("hours_since_newest", maximum=26),
        expected("without_trace_share", "feedback", maximum=0.1),
        expected("not_null", "feedback", name="f", column="ts"),
        project_vars="{landing_relations: {retrieval_traces: {relation: app.traces}}}",
    )
    place.land("feedback", [{"ts": 1_774_000_000, "trace_id": "of the table", "rating": 1}])
    assert [row.expectation_id for row in place.check().rows] == ["f"]


# --- new files -------------------------------------------------------------------------------


def register(place: Place, file: Path) -> None:
    """As the ledger does: path below the landing folder, size, and time of change in UTC."""
    with duckdb.connect(str(place.settings.warehouse)) as connection:
        connection.execute("set timezone = 'UTC'")
        connection.execute(
            "insert into stg_landing_files select 2, ?, size, last_modified at time zone 'UTC' from read_blob(?)",
            [str(file.relative_to(place.settings.landing)), str(file)],
        )


def test_files_are_new_until_the_ledger_holds_them_as_they_are(place: Place) -> None:
    place.expect(SESSION)
    place.stage([("t0", NOW)])
    file = place.land("retrieval_traces", traces(2), "dt=2026-03-30/a.jsonl")
    place.land("retrieval_traces", [{"ts": 1}], "_tmp/b.jsonl")
    place.land("retrieval_traces", [{"ts": 1}], ".c.jsonl")
    assert place.check().n_files == 1
    register(place, file)
    assert place.check().n_files == 0
    place.land("retrieval_traces", traces(3), "dt=2026-03-30/a.jsonl")
    assert place.check().n_files == 1


def test_the_warehouse_is_let_go_of(place: Place) -> None:
    place.expect(SESSION)
    place.stage([("t0", NOW)])
    place.land("retrieval_traces", traces(2))
    place.check()
    with duckdb.connect(str(place.settings.warehouse)) as connection:
        connection.execute("create table now_it_can_be_written as select 1")


def test_a_warehouse_that_is_none_is_told(place: Place) -> None:
    place.expect(SESSION)
    place.land("retrieval_traces", traces(2))
    place.settings.warehouse.write_bytes(b"no database" * 1000)
    with pytest.raises(LandingError, match=r"^warehouse \S+ cannot be read: IO Error"):
        place.check()


def test_a_damaged_file_is_named(place: Place) -> None:
    place.expect(SESSION)
    packed = gzip.compress(random.Random(1).randbytes(40_000))
    file = place.land("retrieval_traces", packed[: len(packed) // 2], "a.jsonl.gz")
    with pytest.raises(LandingError, match=rf"{file.name}: damaged, cannot be decompressed"):
        place.check()


def test_a_zstd_file_that_is_cut_off_is_named(place: Place) -> None:
    place.expect(SESSION)
    file = place.land("retrieval_traces", b"", "a.jsonl.zst")
    with pa.CompressedOutputStream(str(file), "zstd") as packed:
        packed.write(b'{"session_id": "s"}\n' * 9)
    assert place.check().n_passed == 1
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(LandingError, match=rf"{file.name}: damaged, .* \(its last bytes are missing\)$"):
        place.check()


# --- what is landed --------------------------------------------------------------------------


def test_rows_are_landed_as_the_contract_says(place: Place) -> None:
    place.expect(SESSION, expected("repeated_share", maximum=0.1), TEXT_AS_NUMBER)
    place.land("retrieval_traces", traces(3))
    report = place.check()
    assert report.file is not None
    assert report.file.parent == place.root / "landing" / "landing_checks" / "dt=2026-03-31"
    assert report.file.name == "20260331T020000000000Z.jsonl"
    landed = landed_rows(place)
    assert [LandingCheck.model_validate(row).expectation_id for row in landed] == ["session", "repeated_share", "text"]
    assert set(landed[0]) == set(LandingCheck.model_fields) == {field.name for field in fields(CheckRow)}
    assert landed[0]["check_id"] == "20260331T020000000000Z:session"
    assert landed[0]["checked_at"] == landed[0]["ingested_at"] == "2026-03-31T02:00:00.000000Z"
    check_landing(place.settings.landing)
    assert [path.name for path in report.file.parent.iterdir()] == [report.file.name]


def test_checks_are_no_reason_to_check_and_rows_only_add_up(place: Place) -> None:
    place.expect(SESSION)
    place.stage()
    file = place.land("retrieval_traces", traces(3))
    assert place.check().n_files == 1
    assert place.check(now=NOW + timedelta(minutes=1)).n_files == 1  # no night has read it yet
    assert len({row["check_id"] for row in landed_rows(place)}) == 2
    register(place, file)
    report = place.check(now=NOW + timedelta(minutes=2))
    assert (report.n_files, report.rows, report.file) == (0, (), None)
    assert report.summary == "No new files: nothing to check."
    assert len(landed_rows(place)) == 2


def test_nothing_new_is_told_once_when_it_gets_stale(place: Place) -> None:
    place.expect(expected("hours_since_newest", maximum=26))
    place.stage([("t0", NOW - timedelta(hours=20))])
    fresh = place.check()
    assert (fresh.rows, fresh.file, fresh.elapsed_import_seconds) == ((), None, 0.0)
    stale = place.check(now=NOW + timedelta(hours=7))
    assert [row.outcome for row in stale.rows] == ["failed"]
    assert stale.file is not None
    assert len(stale.warnings) == 1
    again = place.check(now=NOW + timedelta(hours=31))
    assert (len(again.warnings), again.file) == (1, None)  # still said, not landed again


def test_nothing_expected_is_nothing_checked(place: Place) -> None:
    place.expect()
    place.land("retrieval_traces", b"\xff")
    assert place.check().summary == "1 new files: nothing to check."


# --- the cost --------------------------------------------------------------------------------


def imported_by(program: str) -> set[str]:
    program += "; import sys; print({'great_expectations', 'pandas', 'duckdb'} & set(sys.modules))"
    return set(eval(subprocess.check_output([sys.executable, "-c", program], text=True)))  # noqa: S307


def test_great_expectations_waits_until_it_is_needed(place: Place) -> None:
    assert imported_by("import retrieval_quality.cli, retrieval_quality.nightly") & {"great_expectations"} == set()
    call = "from click.testing import CliRunner; from retrieval_quality.cli import main; CliRunner().invoke(main, "
    assert imported_by(f"{call}['check-landing', '--help'])") == set()
    place.expect(expected("hours_since_newest", maximum=1e9))
    place.stage([("t0", NOW)])
    (place.root / "landing").mkdir()
    environment = {"RQ_PROJECT_DIR": str(place.root / "project"), "RQ_LANDING": str(place.root / "landing")}
    environment["RQ_WAREHOUSE"] = str(place.settings.warehouse)
    idle = f"import os; os.environ.update({environment}); {call}['check-landing'], catch_exceptions=False)"
    assert imported_by(idle) == {"duckdb"}


# --- samples ---------------------------------------------------------------------------------


def sampled(root: Path, lines: list[dict[str, object]], cuts: list[int]) -> LandingReport:
    place = Place(root)
    place.expect(expected("not_null", column="session_id", mostly=0.5), expected("repeated_share", maximum=1))
    for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(lines)], strict=True)):
        place.land("retrieval_traces", lines[start:end], f"{number}.jsonl")
    return place.check(sample_lines=100)


def test_a_sample_depends_on_lines_alone_and_is_stated(tmp_path: Path) -> None:
    """400 lines, 100 of them without session; as many repeats as were added."""
    lines = [trace(n, session_id=None if n % 4 == 0 else f"s{n}") for n in range(400)]
    lines += [{"ts": "2026-03-30"}] * 40  # equal in every way
    one = sampled(tmp_path / "one", lines, [])
    shuffled = random.Random(7).sample(lines, len(lines))
    other = sampled(tmp_path / "other", shuffled, [50, 51, 300])

    session, repeated = one.rows
    assert (session.n_rows, session.n_sampled) == (440, 100)
    assert "looked at" not in repeated.message
    # counted over all lines: one of forty is not a repeat
    assert (repeated.n_sampled, repeated.n_failed, repeated.observed) == (440, 39, 39 / 440)
    assert session.message.endswith("; 100 of 440 lines were looked at")
    assert one.rows == tuple(other.rows)
    # 140 of 440 have no session: 32 of 100 expected, give or take four standard errors of 4.1
    assert session.n_failed is not None
    assert 15 <= session.n_failed <= 48
    # equal lines are drawn one by one: neither all forty nor none, or the others would be 25 of 100 at most
    assert session.observed == 1 - session.n_failed / 100


def test_up_to_the_limit_all_lines_are_looked_at(tmp_path: Path) -> None:
    session, _ = sampled(tmp_path, traces(100), []).rows
    assert (session.n_rows, session.n_sampled) == (100, 100)


@pytest.mark.slow
def test_a_large_night_is_sampled_at_the_stated_size(place: Place) -> None:
    place.expect(SESSION, expected("repeated_share", maximum=0), expected("unknown_keys", maximum=0))
    (place.root / "landing" / "retrieval_traces").mkdir(parents=True)
    duckdb.execute(
        f"copy (select 't' || n as trace_id, case when n % 5 > 0 then 's' || n end as session_id, "
        "1774828800 + n as ts, [{'chunk_id': 'c', 'score': 0.5, 'rank': 1}] as retrieved from range(250000) as r(n)) "
        f"to '{place.root}/landing/retrieval_traces/a.jsonl' (format json)"
    )
    session, repeated, unknown = place.check().rows
    assert (session.n_rows, session.n_sampled, session.outcome) == (250_000, 50_000, "failed")
    assert session.observed == pytest.approx(0.8, abs=0.005)
    assert (repeated.n_rows, repeated.n_sampled, repeated.n_failed) == (250_000, 250_000, 0)
    assert (unknown.n_sampled, unknown.outcome) == (50_000, "passed")
