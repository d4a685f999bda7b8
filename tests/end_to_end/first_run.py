"""A user's directory with the small demo: where things are, and the commands run there."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
from support import PROJECT

if TYPE_CHECKING:
    from retrieval_quality.demo import DemoSummary

COMMAND = Path(sys.executable).with_name("retrieval-quality")
AS_OF = '{as_of: "2026-11-30T00:00:00Z"}'


@dataclass(frozen=True)
class Places:
    """A directory of a user, the RQ_* places below it, and the commands run there."""

    root: Path

    @property
    def landing(self) -> Path:
        return self.root / "landing"

    @property
    def warehouse(self) -> Path:
        return self.root / "warehouse.duckdb"

    @property
    def published(self) -> Path:
        return self.root / "published"

    @property
    def current(self) -> Path:
        return (self.published / "current").resolve()

    @property
    def work(self) -> Path:
        """Where commands run: an empty directory, not the repository."""
        return self.root / "work"

    def run(
        self, *arguments: str, stdout: int = subprocess.PIPE, variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """`retrieval-quality` in a process of its own, with further `variables` in its environment."""
        return subprocess.run(
            [COMMAND, *arguments],
            cwd=self._made_work(),
            env=self._environment(variables or {}),
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    def start(
        self, *arguments: str, variables: Mapping[str, str] | None = None, max_file_bytes: int | None = None
    ) -> subprocess.Popen[str]:
        """The same without waiting for its end, in a process group of its own; files may not grow beyond
        `max_file_bytes`, which stands in for a disk that fills.
        """
        limit = None if max_file_bytes is None else (max_file_bytes, max_file_bytes)
        return subprocess.Popen(
            [COMMAND, *arguments],
            cwd=self._made_work(),
            env=self._environment(variables or {}),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=None if limit is None else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
        )

    def _made_work(self) -> Path:
        self.work.mkdir(parents=True, exist_ok=True)
        return self.work

    def _environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("RQ_", "DBT_"))}
        return inherited | {
            "RQ_LANDING": str(self.landing),
            "RQ_WAREHOUSE": str(self.warehouse),
            "RQ_PUBLISHED": str(self.published),
            "RQ_TEMP_DIRECTORY": str(self.root / "tmp"),
            "RQ_LOG_PATH": str(self.root / "logs"),
            "RQ_PROJECT_DIR": str(PROJECT),
            "DBT_TARGET_PATH": str(self.root / "target"),
            **variables,
        }

    def query(self, sql: str, *parameters: object) -> list[tuple[object, ...]]:
        """Of the published database."""
        return self._query(self.current / "rag_quality.duckdb", sql, parameters)

    def query_warehouse(self, sql: str, *parameters: object) -> list[tuple[object, ...]]:
        return self._query(self.warehouse, sql, parameters)

    def copy_to(self, root: Path) -> Places:
        """Everything but the build's own files, for a test that changes something."""
        copy = Places(root)
        shutil.copytree(self.landing, copy.landing)
        shutil.copytree(self.published, copy.published, symlinks=True)
        shutil.copy2(self.warehouse, copy.warehouse)
        return copy

    @staticmethod
    def _query(database: Path, sql: str, parameters: Sequence[object]) -> list[tuple[object, ...]]:
        with duckdb.connect(str(database), read_only=True) as connection:
            return connection.execute(sql, list(parameters)).fetchall()


@dataclass(frozen=True)
class FirstRun:
    """The demo's own account of what it landed, and the first night on it."""

    demo: DemoSummary
    places: Places
    night: subprocess.CompletedProcess[str]
