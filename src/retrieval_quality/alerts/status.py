"""What alerting reads of a publication: the verdicts, and what was seen in a window."""

import dataclasses
import datetime as dt
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb

from retrieval_quality.alerts.decide import Verdict
from retrieval_quality.alerts.events import AlertError
from retrieval_quality.contracts import ContributingSegment

VERSIONS: Final = ("index_version", "embedding_model", "chunker_version", "reranker_version", "prompt_version")
# dimensions that are a column of fct_retrievals by the same name
COLUMN_DIMENSIONS: Final = (
    *VERSIONS,
    "intent",
    "corpus_snapshot_id",
    "experiment_id",
    "experiment_bucket",
    "environment",
)
MAX_VERSIONS: Final = 10
MAX_SEGMENTS: Final = 5
# a value with this share of the units is no part that could explain the whole
NEARLY_ALL: Final = 0.95


@dataclass(frozen=True)
class Status:
    """The verdicts of a publication: every night it reports, the newest marked. `as_of` is UTC."""

    publication_id: str
    as_of: dt.datetime
    verdicts: tuple[Verdict, ...]

    @property
    def breached(self) -> tuple[Verdict, ...]:
        """Newest verdicts that are breached or worth a page."""
        return tuple(
            verdict
            for verdict in self.verdicts
            if verdict.is_newest and (verdict.state == "breached" or verdict.is_page)
        )


@dataclass(frozen=True)
class Seen:
    """What was seen in the window of a verdict: versions as `name=value`, and where it fell short."""

    versions: tuple[str, ...]
    top_segments: tuple[ContributingSegment, ...]


def read_status(database: Path) -> Status:
    """The verdicts of a published database. Raises AlertError."""
    columns = ", ".join(field.name for field in dataclasses.fields(Verdict))
    with _reading(database) as con:
        publication = con.execute("select publication_id, as_of from dim_publication").fetchone()
        rows = con.execute(f"select {columns} from mart_slo_status order by slo_id, segment_value, night_on").fetchall()
    if publication is None:
        raise AlertError(f"{database}: dim_publication is empty")
    return Status(publication[0], publication[1], tuple(Verdict(*row) for row in rows))


def what_was_seen(database: Path, verdict: Verdict) -> Seen:
    """Versions and lowest segments of the window that `verdict` judged. Raises AlertError."""
    with _reading(database) as con:
        return Seen(_versions(con, verdict), _top_segments(con, verdict))


def _versions(con: duckdb.DuckDBPyConnection, verdict: Verdict) -> tuple[str, ...]:
    """Most traces first; of the segment's own traces where its dimension is made of columns."""
    names = verdict.segment_dimension.split(" x ")
    values = verdict.segment_value.split(" x ")
    is_told = len(names) == len(values) and all(name in COLUMN_DIMENSIONS for name in names)
    conditions = "".join(f" and coalesce({name}, 'unknown') = ?" for name in names) if is_told else ""
    query = f"""
        with traces as (
            select {", ".join(VERSIONS)} from fct_retrievals
            where traffic = ? and traced_on between ? and ? and not is_missing{conditions}
        )
        select name || '=' || version
        from (unpivot traces on {", ".join(VERSIONS)} into name name value version)
        group by name, version
        order by count(*) desc, list_position({list(VERSIONS)}, name), version
        limit {MAX_VERSIONS}
    """
    window = [verdict.traffic, verdict.window_starts_on, verdict.night_on]
    return tuple(text for (text,) in con.execute(query, [*window, *(values if is_told else [])]).fetchall())


def _top_segments(con: duckdb.DuckDBPyConnection, verdict: Verdict) -> tuple[ContributingSegment, ...]:
    """Parts of the traffic below the objective, by what each takes off the mean of the whole.

    Of `total` all plain dimensions are looked at, without values that are nearly all of it and explain
    nothing; of a segment value its own dimension, itself included. Days add up, so the window is a sum
    over its days.
    """
    query = f"""
        with days as (
            select segment_dimension, segment_value, estimate, n_units
            from mart_retrieval_quality
            where window_name = 'day' and cast(window_start_at as date) between $starts_on and $night_on
                and traffic = $traffic and stage = $stage and label_class = $label_class
                and metric = $metric and k = $k and n_units > 0
        ),
        segments as (
            select segment_dimension, segment_value, sum(estimate * n_units) / sum(n_units) as mean,
                sum(n_units)::bigint as n_units,
                sum(n_units) / (select sum(n_units) from days where segment_dimension = 'total') as share
            from days group by segment_dimension, segment_value
        )
        select segment_dimension, segment_value, round(mean, 6) as mean, n_units,
            round(($objective - mean) * share, 6) as contribution
        from segments
        where mean < $objective and case
            when $dimension = 'total'
                then segment_dimension <> 'total' and segment_dimension not like '% x %' and share < {NEARLY_ALL}
            else segment_dimension = $dimension
        end
        order by contribution desc, segment_dimension, segment_value
        limit {MAX_SEGMENTS}
    """
    rows = con.execute(
        query,
        {
            "starts_on": verdict.window_starts_on,
            "night_on": verdict.night_on,
            "traffic": verdict.traffic,
            "stage": verdict.stage,
            "label_class": verdict.label_class,
            "metric": verdict.metric,
            "k": verdict.k,
            "objective": verdict.objective,
            "dimension": verdict.segment_dimension,
        },
    ).fetchall()
    return tuple(
        ContributingSegment(
            segment_dimension=dimension, segment_value=value, estimate=mean, n_units=n_units, contribution=contribution
        )
        for dimension, value, mean, n_units, contribution in rows
    )


@contextmanager
def _reading(database: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    try:
        with closing(duckdb.connect(str(database), read_only=True)) as con:
            yield con
    except duckdb.Error as error:
        raise AlertError(f"{database}: {str(error).splitlines()[0]}") from error
