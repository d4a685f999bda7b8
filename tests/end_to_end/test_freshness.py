"""`dbt source freshness`: has anything landed lately, in files or in a table?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest
from support import PROJECT, Warehouse

DBT = Path(sys.executable).with_name("dbt")
HOUR = 3600


def freshness(warehouse: Warehouse, variables: dict[str, object] | None = None) -> dict[str, str]:
    """Contract to status, of the contracts that have a limit."""
    warehouse.landing.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [
            DBT, "--quiet", "source", "freshness", "--project-dir", PROJECT, "--profiles-dir", PROJECT / "profiles",
            "--vars", json.dumps(variables or {}),
        ],
        env=os.environ | warehouse.environment | {"DBT_LOG_PATH": str(warehouse.root / "logs")},
        check=False,
        capture_output=True,
    )  # fmt: skip
    results = json.loads((warehouse.root / "target" / "sources.json").read_text())["results"]
    return {result["unique_id"].rsplit(".", 1)[-1]: result["status"] for result in results}


def land(warehouse: Warehouse, contract: str, hours_ago: float, name: str = "part-0.jsonl") -> None:
    path = warehouse.land(contract, [{"ts": 1}], name)
    then = time.time() - hours_ago * HOUR
    os.utime(path, (then, then))


def test_the_newest_file_of_a_contract_counts(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    land(warehouse, "retrieval_traces", 100, "old.jsonl")
    land(warehouse, "retrieval_traces", 1)
    land(warehouse, "feedback", 80)
    # evaluation runs were never landed: nobody waits for them
    assert freshness(warehouse) == {"retrieval_traces": "pass", "feedback": "warn", "eval_runs": "pass"}


@pytest.mark.parametrize(
    ("hours_ago", "status"),
    [(51, "error"), *(pytest.param(*late, marks=pytest.mark.slow) for late in ((25, "pass"), (30, "warn")))],
)
def test_traces_are_late_after_a_day_and_missing_after_two(tmp_path: Path, hours_ago: float, status: str) -> None:
    warehouse = Warehouse(tmp_path)
    land(warehouse, "retrieval_traces", hours_ago)
    # a file in progress is not landed
    land(warehouse, "retrieval_traces", 0, ".part-1.jsonl")
    assert freshness(warehouse)["retrieval_traces"] == status


def test_the_newest_row_of_a_table_counts(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    land(warehouse, "feedback", 1)
    with duckdb.connect(str(tmp_path / "prod.duckdb")) as connection:
        connection.execute("create table traces as select now()::timestamp - interval 30 hour as loaded_at")
    variables: dict[str, object] = {
        "landing_databases": {"prod": str(tmp_path / "prod.duckdb")},
        "landing_relations": {"retrieval_traces": {"relation": "prod.main.traces", "arrival_column": "loaded_at"}},
    }
    assert freshness(warehouse)["retrieval_traces"] == "error", "traces that never came are late"
    assert freshness(warehouse, variables)["retrieval_traces"] == "warn"
