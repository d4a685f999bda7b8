"""The scratch warehouse of a drill: the shipped project, with objectives drawn from the healthy days."""

from __future__ import annotations

import csv
import io
import json
import math
import operator
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final

import duckdb

from retrieval_quality.build import build
from retrieval_quality.drill.lists import Target
from retrieval_quality.drill.traces import Period
from retrieval_quality.settings import LANDING, WAREHOUSE, environment

SLACK: Final = 0.01
MARGIN: Final = 0.02
TOLERANCE: Final = 0.10

_PROJECT_PARTS: Final = ("dbt_project.yml", "macros", "models", "profiles", "python_models", "seeds")
_SCORED: Final = "+int_score_histograms +int_score_denominators +int_cluster_days"
_JUDGED: Final = "slo_targets int_slo_targets+"
_COLUMNS: Final = (
    "slo_id", "metric", "k", "stage", "label_class", "segment", "window_name", "objective", "margin", "tolerance",
    "severity", "owner", "runbook",
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What the warehouse says of one target of one variant; means are over session-days.

    `paged_on` is the first degraded night that pages; `n_units` were scored from the first degraded
    night to it, or to the last night where none pages. `is_paged_before`: a healthy night paged.
    """

    healthy_mean: float
    degraded_mean: float
    is_paged_before: bool
    paged_on: date | None
    n_units: int


@dataclass(frozen=True)
class ScratchWarehouse:
    """A copy of the project, a landing folder and a warehouse below `root`."""

    root: Path

    @property
    def landing(self) -> Path:
        return self.root / "landing"

    @property
    def path(self) -> Path:
        return self.root / "warehouse.duckdb"

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def label_classes(self) -> Path:
        return self.project / "seeds" / "label_classes.csv"

    def copy_project(self, project: Path) -> None:
        """The shipped project without its tests of real tables, so that its seeds can be replaced."""
        for part in _PROJECT_PARTS:
            source = project / part
            if source.is_dir():
                shutil.copytree(source, self.project / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                self.project.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, self.project / part)
        (self.project / "tests" / "data").mkdir(parents=True)

    def score(self, period: Period, variables: Mapping[str, object], say: Callable[[str], None]) -> None:
        """Stage and score what landed."""
        self._build(_SCORED, period, variables, say)

    def judge(self, period: Period, variables: Mapping[str, object], say: Callable[[str], None]) -> None:
        """Verdicts of every night, by the objectives in the seed."""
        self._build(_JUDGED, period, variables, say)

    def means(self, label_class: str, starts_on: date, ends_on: date) -> dict[tuple[str, Target], float]:
        """Mean over units by variant and target, of the days from `starts_on` to before `ends_on`."""
        rows = self._query(
            """
            select segment_value, metric, k, stage, list(value), list(weight)
            from int_score_histograms
            where traffic = 'scheduled_eval' and segment_dimension = 'index_version' and label_class = ?
                and traced_on >= ? and traced_on < ?
            group by segment_value, metric, k, stage
            """,
            label_class, starts_on, ends_on,
        )  # fmt: skip
        return {
            (variant, Target(metric, k, stage)): math.fsum(map(operator.mul, values, weights)) / sum(weights)
            for variant, metric, k, stage, values, weights in rows
        }

    def set_objectives(
        self, label_class: str, variants: Sequence[str], healthy_means: Mapping[Target, float]
    ) -> dict[Target, float]:
        """Write the seed: for each variant the same objective per target, `SLACK` below its healthy mean.

        One objective per variant, not one for all: a variant is then judged as `total` is, without
        an adjustment for the other variants. Targets too low for an objective are left out.
        """
        objectives = {
            target: objective for target, mean in healthy_means.items() if (objective := objective_of(mean)) > MARGIN
        }
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(_COLUMNS)
        writer.writerows(
            (
                f"{variant}/{target.name}", target.metric, target.k, target.stage, label_class,
                f"index_version={variant}", "day", objective, MARGIN, TOLERANCE, "page", "drill", "docs/drill.md",
            )
            for variant in variants
            for target, objective in objectives.items()
        )  # fmt: skip
        (self.project / "seeds" / "slo_targets.csv").write_text(out.getvalue())
        return objectives

    def outcomes(self, label_class: str, period: Period) -> dict[tuple[str, Target], Outcome]:
        """What `mart_slo_status` says, by variant and target."""
        healthy = self.means(label_class, period.starts_on, period.degraded_from)
        worse = self.means(label_class, period.degraded_from, period.ends_on)
        rows = self._query(
            """
            with pages as (
                select
                    segment_value, metric, k, stage, night_on, n_units,
                    bool_or(is_page and night_on < $degraded_from) over variants as is_paged_before,
                    min(night_on) filter (is_page and night_on >= $degraded_from) over variants as paged_on
                from mart_slo_status
                where night_on >= $starts_on and night_on < $ends_on
                window variants as (partition by segment_value, metric, k, stage)
            )

            select
                segment_value, metric, k, stage, any_value(is_paged_before), any_value(paged_on),
                sum(n_units) filter (
                    night_on >= $degraded_from and night_on <= coalesce(paged_on, $ends_on)
                )::bigint
            from pages
            group by segment_value, metric, k, stage
            """,
            {"degraded_from": period.degraded_from, "starts_on": period.starts_on, "ends_on": period.ends_on},
        )
        return {
            (variant, target): Outcome(
                healthy[variant, target], worse.get((variant, target), math.nan), is_paged_before, paged_on, n_units
            )
            for variant, metric, k, stage, is_paged_before, paged_on, n_units in rows
            for target in [Target(metric, k, stage)]
        }

    def _build(self, select: str, period: Period, variables: Mapping[str, object], say: Callable[[str], None]) -> None:
        places = {
            LANDING[0]: str(self.landing),
            WAREHOUSE[0]: str(self.path),
            "DBT_TARGET_PATH": str(self.root / "target"),
        }
        drill_variables = {
            "as_of": f"{period.ends_on.isoformat()}T00:00:00Z",
            "segment_dimensions": ["index_version"],
            "reported_days": period.n_days,
            "landing_relations": {},
            "landing_databases": {},
        }
        with environment(places):
            build(
                project_dir=self.project,
                profiles_dir=self.project / "profiles",
                log_dir=self.root / "logs",
                variables=json.dumps({**variables, **drill_variables}),
                select=select,
                on_node=lambda node: say(f"building {node}"),
            )

    def _query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        values = parameters[0] if parameters and isinstance(parameters[0], dict) else list(parameters)
        with closing(duckdb.connect(str(self.path), read_only=True)) as connection:
            return connection.execute(sql, values).fetchall()


def objective_of(healthy_mean: float) -> float:
    """`SLACK` below a mean, rounded down to thousandths."""
    return math.floor(round((healthy_mean - SLACK) * 1000, 6)) / 1000
