"""What a publication was made from, as one hash: a night that would make it again has nothing to do."""

import hashlib
import importlib.metadata
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from retrieval_quality.expectations.variables import project_vars
from retrieval_quality.landing_check import data_files
from retrieval_quality.settings import Settings

_PROJECT_PARTS: Final = ("dbt_project.yml", "models", "macros", "seeds", "python_models")
_PACKAGE: Final = Path(__file__).parent
_ENGINES: Final = ("duckdb", "dbt-core", "dbt-duckdb", "pandas", "scipy")


def inputs_sha256(settings: Settings, variables: str | None) -> str | None:
    """SHA-256 of all that decides what a night publishes: landed files (path, size, time of change),
    the project's files and this package's (content), vars, places, versions of the engines.

    None where a contract is read from a table: what that gained cannot be told without a build. Raises
    VarsError.
    """
    known_vars = project_vars(settings, variables)
    if known_vars.get("landing_relations"):
        return None
    parts: list[object] = [
        [str(settings.warehouse), settings.publish_fact_days],
        json.dumps(known_vars, sort_keys=True, default=str),
        [importlib.metadata.version(name) for name in _ENGINES],
        *_contents(settings.project_dir),
        *_landed(settings.landing),
    ]
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()


def _contents(project_dir: Path) -> Iterator[tuple[str, str]]:
    files = [
        file for part in _PROJECT_PARTS for file in (project_dir / part, *(project_dir / part).rglob("*"))
        if file.is_file()
    ]  # fmt: skip
    for file in sorted([*files, *_PACKAGE.rglob("*.py")]):
        yield str(file), hashlib.sha256(file.read_bytes()).hexdigest()


def _landed(landing: Path) -> Iterator[tuple[str, int, int]]:
    for contract in sorted(landing.iterdir()):
        if contract.is_dir() and not contract.name.startswith((".", "_")):
            for file in sorted(data_files(contract)):
                status = file.stat()
                yield str(file.relative_to(landing)), status.st_size, status.st_mtime_ns
