"""A tiny project, landing folder and warehouse for tests of the landing checks."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb

from retrieval_quality.expectations import CheckRow, LandingReport, run_landing_checks
from retrieval_quality.expectations.run import SAMPLE_LINES
from retrieval_quality.settings import Settings

NOW = datetime(2026, 3, 31, 2, 0, tzinfo=UTC)
COLUMNS = (
    "expectation_id", "contract", "expectation", "column_name", "minimum", "maximum", "mostly",
    "allowed_values", "min_lines", "severity", "description",
)  # fmt: skip

Row = Mapping[str, object]


def expected(
    kind: str,
    contract: str = "retrieval_traces",
    *,
    name: str = "",
    column: str = "",
    minimum: float | str = "",
    maximum: float | str = "",
    mostly: float | str = "",
    allowed: str = "",
    min_lines: int | str = "",
    severity: str = "warn",
) -> dict[str, str]:
    """A row of the seed; its id is its kind unless it has a name."""
    cells = (name or kind, contract, kind, column, minimum, maximum, mostly, allowed, min_lines, severity, "it is off")
    return {column: str(cell) for column, cell in zip(COLUMNS, cells, strict=True)}


@dataclass(frozen=True)
class Place:
    root: Path

    @property
    def settings(self) -> Settings:
        return Settings(
            project_dir=self.root / "project",
            profiles_dir=self.root / "project" / "profiles",
            landing=self.root / "landing",
            warehouse=self.root / "warehouse.duckdb",
            published=self.root / "published",
            log_dir=self.root / "logs",
            keep_publications=1,
            publish_fact_days=1,
        )

    def expect(self, *rows: Mapping[str, str], project_vars: str = "{}") -> None:
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        seeds = self.root / "project" / "seeds"
        seeds.mkdir(parents=True, exist_ok=True)
        (seeds / "landing_expectations.csv").write_text(text.getvalue())
        (self.root / "project" / "dbt_project.yml").write_text(f"name: retrieval_quality\nvars: {project_vars}\n")

    def land(self, contract: str, content: Iterable[Row] | bytes, name: str = "part-0.jsonl") -> Path:
        file = self.root / "landing" / contract / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(content, bytes):
            content = "".join(f"{json.dumps(row)}\n" for row in content).encode()
        file.write_bytes(content)
        return file

    def stage(
        self,
        traces: Sequence[tuple[str, datetime]] = (),
        *,
        path: str = "retrieval_traces/before.jsonl",
        retrieved: str = "[]",
        index_version: str = "v1",
        feedback: Sequence[tuple[str, datetime]] = (),
    ) -> None:
        """A warehouse with traces and feedback (id, UTC time) as if staged from `path`."""
        with duckdb.connect(str(self.settings.warehouse)) as connection:
            connection.execute(
                "create table stg_landing_files (file_id int, path varchar, size_bytes bigint, modified_at timestamp)"
            )
            connection.execute("insert into stg_landing_files values (1, ?, 1, timestamp '2026-01-01')", [path])
            connection.execute(
                "create table stg_retrieval_traces (trace_id varchar, session_id varchar, traced_on date, "
                "traced_at timestamp, eval_run_id varchar, index_version varchar, score_type varchar, "
                "retrieved struct(rank int, chunk_id varchar, score double)[], file_id int)"
            )
            connection.execute("create table stg_feedback (feedback_id varchar, given_at timestamp, file_id int)")
            for key, at in traces:
                connection.execute(
                    "insert into stg_retrieval_traces "
                    f"select ?, 's-' || ?, ?::timestamp::date, ?, null, ?, null, {retrieved}, 1",
                    [key, key, naive(at), naive(at), index_version],
                )
            for key, at in feedback:
                connection.execute("insert into stg_feedback values (?, ?, 1)", [key, naive(at)])

    def check(
        self, *, variables: str | None = None, now: datetime = NOW, sample_lines: int = SAMPLE_LINES
    ) -> LandingReport:
        (self.root / "landing").mkdir(exist_ok=True)
        return run_landing_checks(self.settings, variables=variables, now=now, sample_lines=sample_lines)

    def only(self, *, variables: str | None = None, now: datetime = NOW, sample_lines: int = SAMPLE_LINES) -> CheckRow:
        (row,) = self.check(variables=variables, now=now, sample_lines=sample_lines).rows
        return row


def naive(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None)


def trace(number: int, **other: object) -> dict[str, object]:
    """A healthy trace of half past noon, the day before NOW, counting ranks from 1, scores falling."""
    at = NOW - timedelta(days=1) + timedelta(hours=10.5, seconds=number)
    return {
        "trace_id": f"t{number}",
        "session_id": f"s{number}",
        "ts": at.isoformat(),
        "retrieved": ranked(3, 2, 1),
        "index_version": "v1",
    } | other


def traces(n: int, **other: object) -> list[dict[str, object]]:
    return [trace(number, **other) for number in range(n)]


def ranked(*scores: float, first: int = 1) -> list[dict[str, object]]:
    return [{"chunk_id": f"c{place}", "score": score, "rank": place} for place, score in enumerate(scores, start=first)]
