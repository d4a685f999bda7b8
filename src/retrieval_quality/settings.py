"""Where a night reads, builds and publishes: options, then the environment, then defaults."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROJECT_NAME: Final = "retrieval_quality"

LANDING: Final = ("RQ_LANDING", "landing")
WAREHOUSE: Final = ("RQ_WAREHOUSE", "warehouse/retrieval_quality.duckdb")
PUBLISHED: Final = ("RQ_PUBLISHED", "published")
KEEP_PUBLICATIONS: Final = ("RQ_KEEP_PUBLICATIONS", 7)
PUBLISH_FACT_DAYS: Final = ("RQ_PUBLISH_FACT_DAYS", 28)
ALERT_RESOLVE_NIGHTS: Final = ("RQ_ALERT_RESOLVE_NIGHTS", 2)

# What these hold are secrets: they are read where messages are sent, and are no part of Settings.
ALERT_URLS: Final = "RQ_ALERT_URLS"
ALERT_URLS_BY_SEVERITY: Final[Mapping[str, str]] = {
    "page": "RQ_ALERT_URLS_PAGE",
    "ticket": "RQ_ALERT_URLS_TICKET",
    "rollback": "RQ_ALERT_URLS_ROLLBACK",
}

_PROJECT_LINE: Final = re.compile(rf"^name:\s*(['\"]?){PROJECT_NAME}\1\s*(#.*)?$", flags=re.MULTILINE)


class SettingsError(Exception):
    """A place or a number the run needs is missing or makes no sense."""


@dataclass(frozen=True)
class Settings:
    """Every place and number of one run; all paths absolute.

    `publish_fact_days` is in days, `keep_publications` counts versions including the current one,
    `alert_resolve_nights` counts the nights in a row that end an alert.
    """

    project_dir: Path
    profiles_dir: Path
    landing: Path
    warehouse: Path
    published: Path
    log_dir: Path
    keep_publications: int
    publish_fact_days: int
    alert_resolve_nights: int = ALERT_RESOLVE_NIGHTS[1]


def resolve_place(
    place: tuple[str, str],
    option: str | Path | None,
    *,
    environ: Mapping[str, str],
    current_dir: Path,
) -> Path:
    """Absolute path of a place: the option, else its variable, else its default, below
    `current_dir` when relative. An empty variable counts as unset.
    """
    variable, default = place
    chosen = str(option) if option is not None else environ.get(variable) or default
    return _absolute(chosen, current_dir)


def resolve_settings(
    *,
    landing: str | Path | None = None,
    warehouse: str | Path | None = None,
    published: str | Path | None = None,
    environ: Mapping[str, str],
    current_dir: Path,
) -> Settings:
    """The settings of one run.

    Raises SettingsError when no dbt project is found or a number is not a whole number >= 1.
    """
    project_dir = find_project_dir(environ=environ, current_dir=current_dir)
    return Settings(
        project_dir=project_dir,
        profiles_dir=resolve_place(
            ("DBT_PROFILES_DIR", str(project_dir / "profiles")),
            None,
            environ=environ,
            current_dir=current_dir,
        ),
        landing=resolve_place(LANDING, landing, environ=environ, current_dir=current_dir),
        warehouse=resolve_place(WAREHOUSE, warehouse, environ=environ, current_dir=current_dir),
        published=resolve_place(PUBLISHED, published, environ=environ, current_dir=current_dir),
        log_dir=resolve_place(
            ("RQ_LOG_PATH", str(project_dir / "logs")),
            None,
            environ=environ,
            current_dir=current_dir,
        ),
        keep_publications=positive_int(KEEP_PUBLICATIONS, environ),
        publish_fact_days=positive_int(PUBLISH_FACT_DAYS, environ),
        alert_resolve_nights=positive_int(ALERT_RESOLVE_NIGHTS, environ),
    )


def engine_limits(warehouse: Path) -> dict[str, str | bool | int | float | list[str]]:
    """DuckDB's settings as `profiles/profiles.yml` has them: whatever works on a large night keeps within the same
    memory, and spills where the build spills.
    """
    return {
        "memory_limit": os.environ.get("RQ_MEMORY_LIMIT") or "4GB",
        "temp_directory": os.environ.get("RQ_TEMP_DIRECTORY") or f"{warehouse}.tmp",
        "threads": os.environ.get("RQ_THREADS") or "2",
    }


def find_project_dir(*, environ: Mapping[str, str], current_dir: Path) -> Path:
    """The dbt project: `RQ_PROJECT_DIR`, else the current directory, else the repository an
    editable install of this package lives in. Raises SettingsError when none is the project.
    """
    named = environ.get("RQ_PROJECT_DIR")
    if named:
        project_dir = _absolute(named, current_dir)
        if not _is_project(project_dir):
            raise SettingsError(f"RQ_PROJECT_DIR {project_dir} holds no dbt_project.yml named {PROJECT_NAME}")
        return project_dir
    for candidate in (current_dir, Path(__file__).resolve().parents[2]):
        if _is_project(candidate):
            return candidate
    raise SettingsError(
        f"no dbt project named {PROJECT_NAME} in {current_dir} or beside the package; "
        "run inside the repository or set RQ_PROJECT_DIR"
    )


def positive_int(number: tuple[str, int], environ: Mapping[str, str]) -> int:
    """The whole number >= 1 in an environment variable, or its default; else SettingsError."""
    variable, default = number
    text = environ.get(variable)
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise SettingsError(f"{variable} must be a whole number >= 1, got {text!r}")
    return int(text)


@contextmanager
def exported(settings: Settings) -> Iterator[None]:
    """Show dbt the resolved places as environment variables, and put back what was there."""
    with environment({LANDING[0]: str(settings.landing), WAREHOUSE[0]: str(settings.warehouse)}):
        yield


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables, and put back what was there."""
    before = {variable: os.environ.get(variable) for variable in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for variable, value in before.items():
            if value is None:
                os.environ.pop(variable, None)
            else:
                os.environ[variable] = value


def _is_project(directory: Path) -> bool:
    try:
        text = (directory / "dbt_project.yml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return _PROJECT_LINE.search(text) is not None


def _absolute(text: str, current_dir: Path) -> Path:
    """Without `..`, but with the symbolic links a user set up on purpose."""
    return Path(os.path.abspath(current_dir / Path(text).expanduser()))  # noqa: PTH100
