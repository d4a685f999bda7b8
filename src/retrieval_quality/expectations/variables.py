"""The project's vars outside dbt: those of `dbt_project.yml`, then those of `--vars`."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time

from retrieval_quality.build import VarsError, check_vars
from retrieval_quality.settings import PROJECT_NAME, Settings


def project_vars(settings: Settings, variables: str | None) -> dict[str, object]:
    """Every var by name, `variables` (the YAML of `--vars`) over `dbt_project.yml`.

    Raises VarsError where `variables` is no mapping.
    """
    check_vars(variables)
    import yaml  # type: ignore[import-untyped]

    project = yaml.safe_load((settings.project_dir / "dbt_project.yml").read_text(encoding="utf-8"))
    declared = project.get("vars") or {}
    own = declared.get(PROJECT_NAME)
    given = (yaml.safe_load(variables) if variables else None) or {}
    return {**declared, **(own if isinstance(own, dict) else {}), **given}


def as_of(variables: Mapping[str, object]) -> datetime | None:
    """The moment that the var `as_of` names, in UTC; None where it is not set.

    Raises VarsError where it is no time.
    """
    value = variables.get("as_of")
    if value is None or value == "":
        return None
    moment = _moment(value)
    if moment is None:
        raise VarsError(f"var as_of must be an ISO 8601 time such as '2026-11-30T00:00:00Z', or empty, got {value}")
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _moment(value: object) -> datetime | None:
    """YAML makes a date or a time of what looks like one."""
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime.combine(value, time(), tzinfo=UTC)
    try:
        return datetime.fromisoformat(str(value).strip())
    except ValueError:
        return None
