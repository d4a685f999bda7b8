"""Stand-ins for alerting: verdicts, a publication that holds them, a webhook that can fail."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import duckdb

from retrieval_quality.alerts.decide import Verdict
from retrieval_quality.publish import DATABASE_NAME

MONDAY = dt.date(2026, 11, 23)

BREACHED = Verdict(
    slo_id="daily",
    segment_dimension="total",
    segment_value="total",
    night_on=MONDAY,
    is_newest=True,
    severity="page",
    owner="retrieval",
    runbook="docs/runbook.md#an-objective-is-breached",
    metric="hit_rate",
    k=5,
    stage="final",
    label_class="synthetic",
    traffic="scheduled_eval",
    window_name="day",
    window_starts_on=MONDAY,
    state="breached",
    estimate=0.5,
    bound_low=0.4,
    bound_high=0.6,
    baseline_estimate=0.8,
    objective=0.7,
    margin=0.02,
    n_units=200,
    n_traces=200,
    is_page=True,
)
MET = dataclasses.replace(BREACHED, state="met", estimate=0.8, bound_low=0.72, bound_high=0.86, is_page=False)
AT_RISK_ABOVE = dataclasses.replace(MET, state="at_risk", estimate=0.71, bound_low=0.66)
AT_RISK_BELOW = dataclasses.replace(MET, state="at_risk", estimate=0.69, bound_low=0.64)
SLOWLY_BAD = dataclasses.replace(MET, state="at_risk", estimate=0.71, is_page=True)
TOO_LITTLE = dataclasses.replace(MET, state="insufficient_data", estimate=0.9, bound_low=0.3, n_units=3, n_traces=3)
GONE = dataclasses.replace(
    MET, state="insufficient_data", estimate=None, bound_low=0.0, bound_high=1.0, n_units=0, n_traces=0
)


def nights(verdicts: Sequence[Verdict], first: dt.date = MONDAY) -> list[Verdict]:
    """One verdict a night, from `first` on, the last the newest."""
    return [
        dataclasses.replace(
            verdict,
            night_on=first + dt.timedelta(days=number),
            window_starts_on=first + dt.timedelta(days=number),
            is_newest=number == len(verdicts) - 1,
        )
        for number, verdict in enumerate(verdicts)
    ]


def of_segment(verdicts: Iterable[Verdict], value: str, slo_id: str = "by_index") -> list[Verdict]:
    """The same nights of a segment value of another objective."""
    return [
        dataclasses.replace(
            verdict, slo_id=slo_id, segment_dimension="index_version", segment_value=value, severity="rollback"
        )
        for verdict in verdicts
    ]


def publish_verdicts(published: Path, verdicts: Sequence[Verdict], number: int = 1) -> Path:
    """A publication with no more in it than alerting reads; `current` points to it."""
    version = published / "versions" / f"20261130T000000Z-{number:04d}"
    version.mkdir(parents=True)
    columns = [field.name for field in dataclasses.fields(Verdict)]
    with closing(duckdb.connect(str(version / DATABASE_NAME))) as con:
        con.execute(
            f"create table dim_publication as select '{version.name}' as publication_id, "
            "timestamp '2026-11-30 00:00:00' as as_of"
        )
        con.execute(
            """
            create table mart_slo_status (
                slo_id text, segment_dimension text, segment_value text, night_on date, is_newest boolean,
                severity text, owner text, runbook text, metric text, k integer, stage text, label_class text,
                traffic text, window_name text, window_starts_on date, state text, estimate double,
                bound_low double, bound_high double, baseline_estimate double, objective double, margin double,
                n_units bigint, n_traces bigint, is_page boolean
            )
            """
        )
        for verdict in verdicts:
            con.execute(
                f"insert into mart_slo_status by name select {', '.join(f'? as {name}' for name in columns)}",
                [getattr(verdict, name) for name in columns],
            )
        con.execute(
            """
            create table fct_retrievals as
            select 'scheduled_eval' as traffic, traced_on, false as is_missing, index_version, 'bge' as embedding_model,
                null::text as chunker_version, null::text as reranker_version, null::text as prompt_version,
                'how_to' as intent, null::text as corpus_snapshot_id, null::text as experiment_id,
                null::text as experiment_bucket, null::text as environment
            from range(date '2026-11-01', date '2026-12-31', interval 1 day) as days(traced_on),
                (values ('v8'), ('v8'), ('v7')) as versions(index_version)
            """
        )
        con.execute(
            """
            create table mart_retrieval_quality as
            select 'day' as window_name, day as window_start_at, 'scheduled_eval' as traffic, 'final' as stage,
                'synthetic' as label_class, 'hit_rate' as metric, 5 as k, segments.*
            from range(timestamp '2026-11-01', timestamp '2026-12-31', interval 1 day) as days(day),
                (values
                    ('total', 'total', 0.5, 200), ('index_version', 'v8', 0.3, 120), ('index_version', 'v7', 0.8, 80),
                    ('intent', 'how_to', 0.5, 195), ('intent', 'where', 0.5, 5),
                    ('intent x index_version', 'a', 0.1, 50))
                as segments(segment_dimension, segment_value, estimate, n_units)
            """
        )
    link = published / "current"
    link.unlink(missing_ok=True)
    link.symlink_to(Path("versions") / version.name)
    return version / DATABASE_NAME


@dataclass
class Webhook:
    """What a local web server was sent; it answers with the next of `statuses`, then with 200."""

    port: int = 0
    statuses: list[int] = field(default_factory=list)
    received: list[dict[str, Any]] = field(default_factory=list)

    def url(self, path: str = "hook") -> str:
        return f"json://127.0.0.1:{self.port}/{path}"


@contextmanager
def webhook() -> Iterator[Webhook]:
    hook = Webhook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = hook.statuses.pop(0) if hook.statuses else 200
            if status == 200:
                hook.received.append(json.loads(body))
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002, ARG002
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hook.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hook
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def landed_events(landing: Path) -> list[dict[str, Any]]:
    """All recorded steps, in the order they were written."""
    files = sorted((landing / "alert_events").rglob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]
