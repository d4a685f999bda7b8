"""What the benchmarks share: a process with its time and peak memory, a warehouse, nights on it."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parents[1]
RETRIEVAL_QUALITY: Final = Path(sys.executable).with_name("retrieval-quality")
DBT: Final = Path(sys.executable).with_name("dbt")


@dataclass(frozen=True)
class Spent:
    """Wall seconds, CPU seconds of all threads, peak resident memory in bytes; of one process."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


def spend(command: list[str], environment: dict[str, str] | None = None, *, output: Path | None = None) -> Spent:
    """Run a command to its end. Exit code 1 of a night is a verdict, any other than 0 and 1 an error."""
    started = time.perf_counter()
    with (output or Path(os.devnull)).open("wb") as out:
        process = subprocess.Popen(command, env=os.environ | (environment or {}), cwd=PROJECT, stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return Spent(time.perf_counter() - started, usage.ru_utime + usage.ru_stime, peak_bytes(usage))


def peak_bytes(usage: resource.struct_rusage) -> int:
    """Linux counts kilobytes, macOS bytes."""
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@dataclass(frozen=True)
class Nights:
    """A landing folder, its warehouse and its publications, below `root`."""

    root: Path
    variables: str = "{}"

    @property
    def landing(self) -> Path:
        return self.root / "landing"

    @property
    def warehouse(self) -> Path:
        return self.root / "warehouse.duckdb"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "RQ_LANDING": str(self.landing),
            "RQ_WAREHOUSE": str(self.warehouse),
            "RQ_PUBLISHED": str(self.root / "published"),
            "RQ_LOG_PATH": str(self.root / "logs"),
            "DBT_LOG_PATH": str(self.root / "logs"),
            "DBT_TARGET_PATH": str(self.root / "target"),
        }

    def whole(self) -> tuple[Spent, dict[str, object]]:
        """One night as cron runs it, with what it says of itself."""
        report = self.root / "night.json"
        command = [str(RETRIEVAL_QUALITY), "nightly", "--json", "--vars", self.variables]
        spent = spend(command, self.environment, output=report)
        return spent, json.loads(report.read_text())

    def models(self) -> tuple[float, Spent]:
        """`dbt run` alone: seconds from the start of the first model to the end of the last; the process."""
        dbt = ["--quiet", "--project-dir", str(PROJECT), "--profiles-dir", str(PROJECT / "profiles")]
        spend([str(DBT), "seed", *dbt], self.environment)
        spent = spend([str(DBT), "run", *dbt, "--vars", self.variables], self.environment)
        return self.models_s(), spent

    def models_s(self) -> float:
        """Seconds of the models of the last dbt command, first start to last end."""
        results = json.loads((self.root / "target" / "run_results.json").read_text())["results"]
        moments = [
            datetime.fromisoformat(moment)
            for result in results
            if result["unique_id"].startswith("model.")
            for step in result["timing"]
            for moment in (step["started_at"], step["completed_at"])
        ]
        return (max(moments) - min(moments)).total_seconds()
