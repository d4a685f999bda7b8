"""What the command `drill` asks for: where from, how much, and what is kept."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from retrieval_quality.build import check_vars
from retrieval_quality.drill.demo import DEMO, land_demo
from retrieval_quality.drill.lists import DEGRADATIONS, Degradation
from retrieval_quality.drill.runner import Source, run_drill
from retrieval_quality.drill.traces import DrillError
from retrieval_quality.drill.verdicts import DrillReport
from retrieval_quality.landing_check import check_landing
from retrieval_quality.settings import find_project_dir


@dataclass(frozen=True)
class Request:
    """Without `landing` a demo is drilled; without `keep` nothing is left behind."""

    landing: Path | None
    ends_on: date | None
    nights: int
    history: int
    is_small: bool
    variables: str | None
    keep: Path | None


def run_request(
    request: Request,
    *,
    environ: Mapping[str, str],
    current_dir: Path,
    degradations: Sequence[Degradation] = DEGRADATIONS,
    on_progress: Callable[[str], None],
) -> DrillReport:
    """Run a drill. Raises DrillError, and what a demo, a landing check or a build raises."""
    variables = _parsed(request.variables)
    project_dir = find_project_dir(environ=environ, current_dir=current_dir)
    if request.landing is not None:
        check_landing(request.landing)
    if request.keep is not None and request.keep.exists():
        raise DrillError(f"{request.keep} exists; a drill is kept in a new folder")
    kept = nullcontext(str(request.keep)) if request.keep else tempfile.TemporaryDirectory(prefix="drill-")
    with kept as folder:
        root = Path(folder)
        root.mkdir(parents=True, exist_ok=True)
        if request.landing is None:
            on_progress("landing a demo")
            newest = land_demo(root / "demo", is_small=request.is_small, say=on_progress)
            source = Source(DEMO, root / "demo", request.ends_on or newest)
        else:
            source = Source(request.landing.name, request.landing, request.ends_on)
        return run_drill(
            source,
            root / "scratch",
            project_dir=project_dir,
            degradations=degradations,
            drilled_at=datetime.now(UTC).replace(microsecond=0),
            nights=request.nights,
            history=request.history,
            variables=variables,
            on_progress=on_progress,
        )


def _parsed(variables: str | None) -> dict[str, object]:
    check_vars(variables)
    if variables is None or not variables.strip():
        return {}
    import yaml  # type: ignore[import-untyped]

    return dict(yaml.safe_load(variables))
