"""An objective is breached, somebody is told, a late label changes the past, and it is over: night by night."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from alerting import Webhook, landed_events, webhook
from end_to_end.first_run import Places
from support import Warehouse

SECRET = "s3cr3t-t0ken"  # noqa: S105
N_QUERIES = 60
KNOWN = "opened_at, opened_night_on, severity, objective, columns('known_.*')"


@dataclass
class Nights:
    """What was seen after each night."""

    places: Places
    hook: Webhook
    done: list[subprocess.CompletedProcess[str]] = field(default_factory=list)
    known: list[list[tuple[object, ...]]] = field(default_factory=list)
    alerts: list[list[tuple[object, ...]]] = field(default_factory=list)
    verdicts: list[list[tuple[object, ...]]] = field(default_factory=list)
    received: list[list[dict[str, Any]]] = field(default_factory=list)

    def run(self, *arguments: str) -> None:
        url = f"{self.hook.url(SECRET)}?+X-Token={SECRET}"
        self.done.append(self.places.run(*arguments, variables={"RQ_ALERT_URLS": url, "NO_PROXY": "127.0.0.1"}))
        assert (self.places.published / "current").exists(), self.done[-1].stderr
        self.known.append(self.places.query(f"select slo_id, segment_value, {KNOWN} from mart_alerts order by all"))
        self.alerts.append(
            self.places.query(
                """
                select is_open, resolved_night_on::varchar, resolved_reason, acknowledged_by, n_sends, n_failed_sends,
                    last_send_error
                from mart_alerts where slo_id = 'evaluation_hit_rate_daily'
                """
            )
        )
        self.verdicts.append(
            self.places.query(
                "select state, round(estimate, 3) from mart_slo_status "
                "where slo_id = 'evaluation_hit_rate_daily' and night_on = '2026-11-05'"
            )
        )
        self.received.append(list(self.hook.received))


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nights]:
    root = tmp_path_factory.mktemp("alerts")
    with webhook() as hook:
        nights = Nights(Places(root), hook)
        warehouse = Warehouse(root)
        land_questions(warehouse)
        for day in (1, 2, 3):
            land_evaluation(warehouse, day, is_good=True)
        for day in (4, 5):
            land_evaluation(warehouse, day, is_good=False)
        # the first message fails for good, whatever comes second arrives
        hook.statuses = [500, 500, 500]
        nights.run("nightly", "--vars", as_of(6))
        nights.run("alert")
        alert_id = next(
            event["alert_id"]
            for event in landed_events(root / "landing")
            if event["event"] == "opened" and event["slo_id"] == "evaluation_hit_rate_daily"
        )
        nights.run("alert", "--acknowledge", alert_id, "--by", "anna")
        # what the bad nights found was relevant after all, says a late label
        land_late_labels(warehouse)
        land_evaluation(warehouse, 6, is_good=True)
        nights.run("nightly", "--vars", as_of(7))
        land_evaluation(warehouse, 7, is_good=True)
        nights.run("nightly", "--vars", as_of(8))
        nights.run("nightly", "--vars", as_of(8), "--full-refresh")
        yield nights


FAILED, RETRIED, TAKEN, CALM, OVER, REFRESHED = range(6)


def as_of(day: int) -> str:
    return f'{{as_of: "2026-11-{day:02}T00:00:00Z"}}'


def land_questions(warehouse: Warehouse) -> None:
    questions = [{"query_id": f"q{n}", "query": f"question {n}", "query_set": "set"} for n in range(N_QUERIES)]
    warehouse.land("queries", questions)
    qrels = [
        {"query_id": f"q{n}", "chunk_id": f"c{n}", "grade": 1, "label_class": "synthetic"} for n in range(N_QUERIES)
    ]
    warehouse.land("qrels", qrels)


def land_late_labels(warehouse: Warehouse) -> None:
    late = [{"query_id": f"q{n}", "chunk_id": "x1", "grade": 1, "label_class": "synthetic"} for n in range(N_QUERIES)]
    warehouse.land("qrels", late, "late.jsonl")


def land_evaluation(warehouse: Warehouse, day: int, *, is_good: bool) -> None:
    """A nightly evaluation: a bad one finds the chunk of every third question only."""
    date = f"2026-11-{day:02}"
    run = {"eval_run_id": f"e{day}", "started_at": f"{date}T02:00:00Z", "query_set": "set", "kind": "scheduled"}
    warehouse.land("eval_runs", [run], f"{date}.jsonl")
    traces = [
        {
            "trace_id": f"e{day}-{n}", "ts": f"{date}T02:{n:02}:00Z", "query_id": f"q{n}", "query": f"question {n}",
            "eval_run_id": f"e{day}", "index_version": "v1" if is_good else "v2", "intent": "how_to",
            "retrieved": [{"chunk_id": chunk} for chunk in ([f"c{n}"] if is_good or n % 3 == 0 else []) + ["x1", "x2"]],
        }
        for n in range(N_QUERIES)
    ]  # fmt: skip
    warehouse.land("retrieval_traces", traces, f"{date}.jsonl")


def test_exit_codes_tell_a_breach_from_a_failure(nights: Nights) -> None:
    assert [done.returncode for done in nights.done] == [2, 1, 0, 0, 0, 0], [done.stderr for done in nights.done]
    errors = [line for line in nights.done[FAILED].stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "did not reach json:1 (http_500 after 3 attempts)" in errors[0]
    # it was published all the same
    assert "Published 20261106T000000Z-0001" in nights.done[FAILED].stdout


def test_the_opening_is_sent_once_by_the_run_that_gets_through(nights: Nights) -> None:
    of_daily = [
        [body for body in bodies if body["slo_id"] == "evaluation_hit_rate_daily"] for bodies in nights.received
    ]
    assert [len(bodies) for bodies in of_daily] == [0, 1, 1, 1, 2, 2]
    opening, end = of_daily[-1]
    assert (opening["action"], end["action"]) == ("trigger", "resolve")
    assert opening["dedup_key"] == end["dedup_key"] == opening["alert_ids"]
    assert "0.333" in opening["message"]
    assert "index_version=v2" in opening["message"]


def test_a_late_label_changes_the_verdict_and_not_what_was_known(nights: Nights) -> None:
    assert nights.verdicts[FAILED] == [("breached", 0.333)]
    assert nights.verdicts[CALM] == nights.verdicts[OVER] == [("met", 1.0)]
    assert len(nights.known[CALM]) >= 1
    assert nights.known[CALM] == nights.known[OVER] == nights.known[REFRESHED]
    known = nights.places.query(
        "select known_state, round(known_estimate, 3), known_n_units, known_versions from mart_alerts "
        "where slo_id = 'evaluation_hit_rate_daily'"
    )
    assert known == [("breached", 0.333, N_QUERIES, ["index_version=v2"])]


def test_the_mart_follows_from_night_to_night(nights: Nights) -> None:
    assert nights.alerts[FAILED] == []  # published before it opened
    assert nights.alerts[CALM] == [(True, None, None, "anna", 1, 1, None)]
    assert nights.alerts[OVER] == [(True, None, None, "anna", 1, 1, None)]
    assert nights.alerts[REFRESHED] == [(False, "2026-11-07", "recovered", "anna", 2, 1, None)]


def test_one_calm_night_does_not_end_it(nights: Nights) -> None:
    assert "0 resolved" in nights.done[CALM].stdout
    assert "evaluation_hit_rate_daily" in nights.done[CALM].stdout
    assert "0 open;" in nights.done[OVER].stdout


def test_a_night_writes_the_fact_days_that_it_changed(nights: Nights) -> None:
    """Two facts a day: five days, six that a late label touches, one more day, and all of them in a full refresh."""
    told = [re.findall(r"(\d+) fact days written, (\d+) unchanged", done.stdout) for done in nights.done]
    assert [told[night] for night in (FAILED, CALM, OVER, REFRESHED)] == [
        [("10", "0")], [("12", "0")], [("2", "12")], [("14", "0")],
    ]  # fmt: skip


def test_no_secret_anywhere(nights: Nights) -> None:
    for done in nights.done:
        assert SECRET not in done.stdout + done.stderr
    files = [path for path in nights.places.root.rglob("*") if path.is_file()]
    assert any(path.name == "dbt.log" for path in files)
    for path in files:
        assert SECRET.encode() not in path.read_bytes(), Path(path)
