"""A throw-away warehouse for tests: land rows, build with dbt, query; and the scoring SQL alone."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import duckdb
import pytest

from retrieval_quality.build import BuildResult, build

PROJECT = Path(__file__).parents[1]
SHARED = PROJECT.parent / "shared"
PROJECT_PARTS = ("dbt_project.yml", "macros", "models", "profiles", "python_models", "seeds")

# RQ_REQUIRE=shared turns the absence of the reference data from a skip into failures.
REQUIRED = os.environ.get("RQ_REQUIRE", "").split(",")

needs_shared = pytest.mark.skipif(
    not SHARED.is_dir() and "shared" not in REQUIRED,
    reason="needs the shared reference data beside the repository (../shared)",
)

Rows = Iterable[Mapping[str, object]]


@dataclass(frozen=True)
class Warehouse:
    """A landing folder and the warehouse that is built from it, below `root`."""

    root: Path

    @property
    def landing(self) -> Path:
        return self.root / "landing"

    @property
    def path(self) -> Path:
        return self.root / "warehouse.duckdb"

    def land(self, contract: str, content: Rows | bytes, name: str = "part-0.jsonl") -> Path:
        """Write one landing file: JSON lines of `content`, or its bytes as they are."""
        file = self.landing / contract / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(content, bytes):
            content = "".join(f"{json.dumps(row)}\n" for row in content).encode()
        file.write_bytes(content)
        return file

    def build(
        self,
        variables: Mapping[str, object] | None = None,
        *,
        seeds: Mapping[str, str] | None = None,
        edits: Mapping[str, tuple[str, str]] | None = None,
        full_refresh: bool = False,
        unit_tests: bool = False,
        select: str | None = None,
        on_node: Callable[[str], None] | None = None,
    ) -> BuildResult:
        """`dbt build` of the project, or of a copy: `seeds` replaces seed files by name (CSV text),
        `edits` one text by another in files by path. `on_node` is told each node before it is built.
        """
        self.landing.mkdir(parents=True, exist_ok=True)
        text = json.dumps(dict(variables or {}))
        with mock.patch.dict(os.environ, self.environment | ({} if seeds or edits else self.parsed_once(text))):
            return build(
                project_dir=self.project(seeds, edits) if seeds or edits else PROJECT,
                profiles_dir=PROJECT / "profiles",
                log_dir=self.root / "logs",
                variables=text,
                full_refresh=full_refresh,
                unit_tests=unit_tests,
                select=select,
                on_node=on_node,
            )

    @property
    def environment(self) -> dict[str, str]:
        return {
            "RQ_LANDING": str(self.landing),
            "RQ_WAREHOUSE": str(self.path),
            "RQ_TEMP_DIRECTORY": str(self.root / "tmp"),
            "DBT_TARGET_PATH": str(self.root / "target"),
        }

    def parsed_once(self, variables: str) -> dict[str, str]:
        """Places that let dbt read the project once for all builds of this process with the same vars: it parses
        anew where the profile says another path, so all warehouses are reached by one link.
        """
        shared = Path(tempfile.gettempdir()) / f"rq-tests-{os.getpid()}"
        if not shared.is_dir():
            shared.mkdir()
            atexit.register(shutil.rmtree, shared, ignore_errors=True)
        link = shared / "root"
        link.unlink(missing_ok=True)
        link.symlink_to(self.root)
        return {
            "RQ_WAREHOUSE": str(link / self.path.name),
            "RQ_TEMP_DIRECTORY": str(link / "tmp"),
            "DBT_TARGET_PATH": str(shared / hashlib.sha256(variables.encode()).hexdigest()[:12]),
        }

    def query(self, sql: str, *parameters: object) -> list[tuple[object, ...]]:
        with duckdb.connect(str(self.path), read_only=True) as connection:
            return connection.execute(sql, parameters).fetchall()

    def project(
        self, seeds: Mapping[str, str] | None = None, edits: Mapping[str, tuple[str, str]] | None = None
    ) -> Path:
        """A copy of the project with seed files replaced and texts edited, as `build` says."""
        project = self.root / "project"
        shutil.rmtree(project, ignore_errors=True)
        project.mkdir(parents=True)
        for part in PROJECT_PARTS:
            source = PROJECT / part
            if source.is_dir():
                shutil.copytree(source, project / part)
            else:
                shutil.copy(source, project / part)
        (project / "tests" / "data").mkdir(parents=True)
        for name, text in (seeds or {}).items():
            (project / "seeds" / f"{name}.csv").write_text(text)
        for path, (old, new) in (edits or {}).items():
            text = (project / path).read_text()
            assert old in text
            (project / path).write_text(text.replace(old, new))
        return project


def edited_seed(name: str, **columns_by_key: Mapping[str, str]) -> str:
    """The text of a seed with cells replaced: `edited_seed("label_classes", golden={"relevant_from": "2"})`."""
    import csv
    import io

    with (PROJECT / "seeds" / f"{name}.csv").open(newline="") as file:
        reader = csv.DictReader(file)
        key = (reader.fieldnames or [""])[0]
        rows = [row | columns_by_key.get(row[key], {}) for row in reader]
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=reader.fieldnames or [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
