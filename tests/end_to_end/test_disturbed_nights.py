"""Landing files that grow, shrink or vanish while the night reads them: counted once, or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from end_to_end.test_nights import thumb, trace
from support import Warehouse

from retrieval_quality.build import BuildFailed

# staging, its accounting and, of the tests, that it adds up
STAGING = "+stg_landing_accounting,resource_type:model resource_type:seed landed_lines_add_up"


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    monkeypatch.setenv("DBT_INDIRECT_SELECTION", "empty")
    warehouse = Warehouse(tmp_path)
    warehouse.land("retrieval_traces", [trace(n, 0) for n in range(6)], "a.jsonl")
    warehouse.land("feedback", [thumb(n, 1) for n in range(4)], "a.jsonl")
    warehouse.land("feedback", [thumb(n, 1) for n in range(4, 6)], "b.jsonl")
    return warehouse


def staged(warehouse: Warehouse) -> list[tuple[object, ...]]:
    """Every registration: its lines, and what became of them."""
    return warehouse.query(
        "select path, n_lines, n_staged, n_duplicates, n_superseded, n_quarantined from stg_landing_accounting "
        "where contract = 'feedback' order by file_id"
    )


def before(node: str, do: Callable[[], object]) -> Callable[[str], None]:
    """Do something once, between the ledger and a staging model."""
    return lambda started: do() if started == node else None


def test_lines_that_come_while_the_night_reads_are_counted_once(warehouse: Warehouse) -> None:
    file = warehouse.landing / "feedback" / "a.jsonl"
    whole = file.read_bytes()
    more = f"{json.dumps(thumb(9, 1))}\n".encode()

    # the last line is not written to its end yet
    warehouse.build(select=STAGING, on_node=before("stg_feedback", lambda: file.write_bytes(whole + more + more[:20])))
    # registered with 4 lines, read with 6: 5 are staged, the one that is cut off is quarantined
    assert staged(warehouse) == [("feedback/a.jsonl", 4, 5, 0, 0, 1), ("feedback/b.jsonl", 2, 2, 0, 0, 0)]

    file.write_bytes(whole + more + f"{json.dumps(thumb(10, 1))}\n".encode())
    os.utime(file, (0, 0))  # a clock that jumped back meanwhile
    warehouse.build(select=STAGING)
    # registered again with 6 lines: 5 are known, the last is new
    assert staged(warehouse)[2:] == [("feedback/a.jsonl", 6, 1, 5, 0, 0)]
    assert warehouse.query("select count(*), count(distinct feedback_id) from stg_feedback") == [(8, 8)]


def test_a_file_that_loses_lines_while_the_night_reads_stops_it_and_not_the_next(warehouse: Warehouse) -> None:
    file = warehouse.landing / "feedback" / "a.jsonl"
    one_line = file.read_bytes().splitlines(keepends=True)[0]
    with pytest.raises(BuildFailed, match="landed_lines_add_up"):
        warehouse.build(select=STAGING, on_node=before("stg_feedback", lambda: file.write_bytes(one_line)))
    warehouse.build(select=STAGING)
    assert staged(warehouse)[-1] == ("feedback/a.jsonl", 1, 0, 1, 0, 0)


def test_a_file_that_vanishes_before_it_is_read_is_forgotten_until_it_is_back(warehouse: Warehouse) -> None:
    file = warehouse.landing / "feedback" / "b.jsonl"
    away = warehouse.root / "b.jsonl"
    warehouse.build(select=STAGING, on_node=before("stg_feedback", lambda: file.rename(away)))
    assert staged(warehouse) == [("feedback/a.jsonl", 4, 4, 0, 0, 0)]

    away.rename(file)  # as it was, to the microsecond
    warehouse.build(select=STAGING)
    assert staged(warehouse) == [("feedback/a.jsonl", 4, 4, 0, 0, 0), ("feedback/b.jsonl", 2, 2, 0, 0, 0)]


@pytest.mark.parametrize("disturb", [Path.unlink, lambda file: file.write_bytes(b"")], ids=["vanishes", "is emptied"])
def test_a_file_that_is_gone_before_its_bad_line_is_looked_up_leaves_the_reason(
    disturb: Callable[[Path], object], warehouse: Warehouse
) -> None:
    """The line is counted and its reason known; only its text is gone."""
    bad = {"feedback_id": "no time", "rating": 1, "session_id": "s1"}
    file = warehouse.land("feedback", [bad], "bad.jsonl")
    warehouse.build(select=STAGING, on_node=before("stg_quarantine", lambda: disturb(file)))
    expected = [(1, "missing_ts", None)]
    assert warehouse.query("select line_number, reject_reason, raw_text from stg_quarantine") == expected
    warehouse.build(select=STAGING)
    assert warehouse.query("select line_number, reject_reason, raw_text from stg_quarantine") == expected
