"""`check-landing` and the night that begins with it, as a user meets them: a block stops, a warning goes on."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from end_to_end.first_run import AS_OF, COMMAND, FirstRun, Places
from support import PROJECT

DAY = datetime(2026, 3, 30, tzinfo=UTC)
VARS = '{as_of: "2026-03-31T00:00:00Z"}'


def land(places: Places, contract: str, name: str, rows: list[dict[str, object]]) -> Path:
    file = places.landing / contract / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return file


def traces(first: int, n: int, **other: object) -> list[dict[str, object]]:
    return [
        {
            "trace_id": f"t{number}",
            "session_id": f"s{number}",
            "ts": (DAY + timedelta(minutes=number)).isoformat(),
            "query": f"question {number % 4}",
            "retrieved": [{"chunk_id": f"c{place}", "score": 1 / place, "rank": place} for place in (1, 2, 3)],
        }
        | other
        for number in range(first, first + n)
    ]


def votes(first: int, n: int) -> list[dict[str, object]]:
    return [
        {"feedback_id": f"f{number}", "trace_id": f"t{number}", "ts": DAY.timestamp() + number * 60 + 5, "rating": 1}
        for number in range(first, first + n)
    ]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Places:
    """A tiny landing folder and its first night."""
    places = Places(tmp_path_factory.mktemp("check_landing"))
    land(places, "retrieval_traces", "a.jsonl", traces(0, 24))
    land(places, "feedback", "a.jsonl", votes(0, 24))
    night = places.run("nightly", "--vars", VARS)
    assert (night.returncode, night.stderr) == (0, "")
    return places


def test_a_night_without_new_files_checks_nothing_and_lands_nothing(published: Places, tmp_path: Path) -> None:
    """The ledger that dbt wrote and the files agree, to the microsecond."""
    places = published.copy_to(tmp_path)
    check = places.run("check-landing", "--vars", VARS)
    assert (check.returncode, check.stdout, check.stderr) == (0, "No new files: nothing to check.\n", "")
    assert len(list((places.landing / "landing_checks").rglob("*.jsonl"))) == 1
    assert list(places.work.iterdir()) == []


def test_a_block_stops_the_night_before_anything_is_built(published: Places, tmp_path: Path) -> None:
    places = published.copy_to(tmp_path)
    before = places.current, places.warehouse.read_bytes()
    bad = land(places, "retrieval_traces", "b.jsonl", [{"query": "q"}] * 20)

    night = places.run("nightly", "--vars", VARS)

    assert (night.returncode, night.stdout) == (2, "")
    told = night.stderr.splitlines()
    assert [line.split(":")[:2] for line in told] == [
        ["error", " landing check traces_ts_at_all (retrieval_traces)"],
        ["error", " landing check traces_retrieved_at_all (retrieval_traces)"],
    ]
    assert "0% are fine, 20 of 20 are not, expected 50% or more" in told[0]
    assert (places.current, places.warehouse.read_bytes()) == before
    assert places.run("summary").returncode == 0
    # what was found is landed, and shows after the next night that is built
    stopped = [row for row in rows_of_last_check(places) if row["severity"] == "block" and row["outcome"] == "failed"]
    assert [row["expectation_id"] for row in stopped] == ["traces_ts_at_all", "traces_retrieved_at_all"]

    bad.unlink()
    assert places.run("nightly", "--vars", VARS).returncode == 0
    assert places.query_warehouse("select count(*) from stg_landing_files where contract = 'landing_checks'") == [(2,)]


def test_a_warning_goes_on(published: Places, tmp_path: Path) -> None:
    places = published.copy_to(tmp_path)
    land(places, "retrieval_traces", "b.jsonl", traces(100, 20, session_id=None, tenant="x"))

    night = places.run("nightly", "--json", "--vars", VARS)

    assert night.returncode == 0
    keys, session = night.stderr.splitlines()
    assert keys == (
        "warning: landing check traces_unknown_keys (retrieval_traces): keys that the contract does not know are "
        "ignored: 1 (20 of 20), expected 0 or less; tenant (20 lines)"
    )
    assert session == (
        "warning: landing check traces_session (retrieval_traces): production traces have no session_id: "
        "0% are fine, 20 of 20 are not, expected 90% or more; t100; t101; t102; t103; t104"
    )
    checks = json.loads(night.stdout)["landing_checks"]
    assert (checks["n_warned"], checks["n_blocked"], checks["n_errors"]) == (2, 0, 0)
    assert checks["as_of"] == "2026-03-31T00:00:00Z"
    assert checks["rows"] == rows_of_last_check(places)


def test_check_landing_prints_what_did_not_pass_first(published: Places, tmp_path: Path) -> None:
    places = published.copy_to(tmp_path)
    land(places, "retrieval_traces", "b.jsonl", [{"query": "q"}] * 20)
    check = places.run("check-landing", "--vars", VARS)
    assert (check.returncode, check.stderr) == (2, "")
    lines = check.stdout.splitlines()
    verdicts = [line.split()[0] for line in lines[3:] if line.split() and ":" not in line]
    assert verdicts[:2] == ["blocked", "blocked"]
    assert set(verdicts[2:5]) == {"warned"}
    assert lines[-1].startswith("23 checks of 1 new files: ")
    assert lines[-1].endswith(" warned, 2 blocked, 0 errors")
    assert "blocked: landing check traces_ts_at_all (retrieval_traces): most lines have no time" in check.stdout


def test_a_check_that_could_not_run_stops_as_an_error(tmp_path: Path) -> None:
    """A text against numbers raises inside Great Expectations: that says nothing about the data."""
    places = Places(tmp_path)
    land(places, "retrieval_traces", "a.jsonl", traces(0, 24))
    project = own_project(tmp_path, "odd,retrieval_traces,between,session_id,0,1,,,,block,sessions are odd")
    night = run_in(places, project, "nightly")
    assert night.returncode == 2
    assert night.stderr == (
        "error: landing check odd (retrieval_traces): could not run, which is an error: "
        "Column values, min_value, and max_value must either be None or of the same type.\n"
    )
    assert not places.warehouse.exists()


def test_a_seed_that_makes_no_sense_is_one_line(tmp_path: Path) -> None:
    places = Places(tmp_path)
    land(places, "retrieval_traces", "a.jsonl", traces(0, 1))
    project = own_project(tmp_path, "odd,retrieval_traces,betwen,top_k,0,1,,,,block,top_k is odd")
    for command in ("check-landing", "nightly"):
        done = run_in(places, project, command)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            "error: seeds/landing_expectations.csv line 2 (odd): expectation 'betwen' is unknown; "
            "did you mean 'between'?\n"
        )


@pytest.mark.xdist_group("first_run")
def test_the_demo_meets_every_expectation(first_run: FirstRun) -> None:
    """What it was planted with on purpose is below every threshold (traffic and feedback are simulated)."""
    (file,) = (first_run.places.landing / "landing_checks").rglob("*.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert {row["outcome"] for row in rows} == {"passed"}
    assert {row["contract"] for row in rows} == {"retrieval_traces", "feedback", "queries", "qrels", "eval_runs"}
    assert first_run.places.run("check-landing", "--vars", AS_OF).stdout == "No new files: nothing to check.\n"


def own_project(root: Path, *rows: str) -> Path:
    header = (PROJECT / "seeds" / "landing_expectations.csv").read_text().splitlines()[0]
    project = root / "project"
    (project / "seeds").mkdir(parents=True)
    (project / "dbt_project.yml").write_text("name: retrieval_quality\n")
    (project / "seeds" / "landing_expectations.csv").write_text("\n".join((header, *rows, "")))
    return project


def run_in(places: Places, project: Path, command: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RQ_", "DBT_"))}
    environment |= {"RQ_PROJECT_DIR": str(project), "RQ_LANDING": str(places.landing)}
    environment |= {"RQ_WAREHOUSE": str(places.warehouse), "RQ_PUBLISHED": str(places.published)}
    return subprocess.run([COMMAND, command], cwd=project, env=environment, capture_output=True, text=True, check=False)


def rows_of_last_check(places: Places) -> list[dict[str, object]]:
    *_, last = sorted((places.landing / "landing_checks").rglob("*.jsonl"))
    return [json.loads(line) for line in last.read_text().splitlines()]
