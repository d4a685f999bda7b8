"""Staging a million traces with a thousand bad lines among them, against DuckDB's plain load.

    python benchmarks/staging.py
    python benchmarks/staging.py --traces 100000 --bad 100 --repeat 3 --json FILE

Plain load: the good lines alone into one typed table with `read_json` and explicit columns. Staging:
every model up to accounting and quarantine, without tests; the time is from the start of the first
node to the end of the last, so dbt's start is left out (it is printed beside). Both run in processes
of their own, in turn, with the same number of threads. Exit code 1 when the ratio of the medians is above
the limit.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import duckdb

from retrieval_quality.contracts import reading_types

LIMIT: Final = 1.6
N_CHUNKS: Final = 10
N_FILES: Final = 10
SEED: Final = 20_261_130
PROJECT: Final = Path(__file__).resolve().parents[1]
DBT: Final = Path(sys.executable).with_name("dbt")

# Ids, questions and scores repeat as they do in traffic; a hash stands for chance, so that every run is the same.
TRACES: Final = f"""
    select
        't' || i as trace_id,
        's' || (i // 2) as session_id,
        'u' || (hash(i) % 50000) as user_id,
        strftime(timestamp '2026-11-20' + to_milliseconds(i * 800), '%Y-%m-%dT%H:%M:%S.%gZ') as ts,
        'how do I configure thing ' || (hash(i * 7) % 20000) || ' in module ' || (hash(i * 3) % 50) as query,
        {N_CHUNKS} as top_k,
        list_transform(range({N_CHUNKS}), lambda place: {{
            'chunk_id': 'doc-' || (hash(i * 31 + place) % 100000) || '#' || (place % 7),
            'score': round(1 / (place + 1.5) + (hash(i + place) % 1000) / 10000, 4),
            'rank': place + 1
        }}) as retrieved,
        'index-7' as index_version,
        'minilm' as embedding_model,
        round((hash(i) % 90000) / 1000, 1) as retrieval_latency_ms
    from range(?) as numbers(i)
"""
BAD_LINES: Final = (
    b'{"trace_id": "cut',
    b"\xff\xfe no text",
    b"[1, 2, 3]",
    b'{"trace_id": "b", "ts": "never", "retrieved": []}',
    b'{"trace_id": "b"}',
    b'{"of": "another contract"}',
    b'{"trace_id": "b", "ts": 1796040000, "retrieved": ["bare", "ids"]}',
    b'{"trace_id": "b", "ts": 1796040000, "retrieved": [], "sample_rate": 7}',
)


@dataclass(frozen=True)
class Timing:
    """Seconds of one plain load and of one staging of the same lines; `dbt_s` is dbt's start beside it."""

    plain_s: float
    staging_s: float
    dbt_s: float


def main() -> int:
    """Generate, time, print. Exit code 1 when the ratio is above the limit."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--traces", type=int, default=1_000_000)
    parser.add_argument("--bad", type=int, default=1_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rq-staging-") as name:
        folder = Path(name)
        n_bytes = generate(folder, arguments.traces, arguments.bad)
        timings = [measure(folder, arguments.threads, arguments.traces, arguments.bad) for _ in range(arguments.repeat)]
    plain, staging = (
        statistics.median(getattr(timing, name) for timing in timings) for name in ("plain_s", "staging_s")
    )
    ratio = staging / plain
    if arguments.json:
        figures = {"ratio": ratio, "limit": LIMIT, "bytes": n_bytes, "timings": [asdict(timing) for timing in timings]}
        arguments.json.write_text(json.dumps(figures))
    print(f"{arguments.traces:,} traces x {N_CHUNKS} chunks, {arguments.bad:,} bad lines, {n_bytes / 1e6:,.0f} MB")
    for timing in timings:
        print(f"plain {timing.plain_s:6.2f} s   staging {timing.staging_s:6.2f} s   (dbt {timing.dbt_s:.1f} s)")
    print(f"ratio of the medians {ratio:.2f}, at most {LIMIT}: {'met' if ratio <= LIMIT else 'missed'}")
    return 0 if ratio <= LIMIT else 1


def generate(folder: Path, n_traces: int, n_bad: int) -> int:
    """Write the good lines to `good/` and the same with bad ones among them to `landing/`; bytes of the latter."""
    good, landed = folder / "good", folder / "landing" / "retrieval_traces"
    good.mkdir()
    landed.mkdir(parents=True)
    lines = folder / "traces.jsonl"
    with closing(duckdb.connect()) as connection:
        connection.execute("set enable_progress_bar = false")
        connection.execute(f"copy ({TRACES}) to '{lines}' (format json)", [n_traces])
    rng = random.Random(SEED)  # noqa: S311
    bad_at = set(rng.sample(range(n_traces), n_bad))
    per_file = -(-n_traces // N_FILES)
    with lines.open("rb") as source:
        for number in range(N_FILES):
            name = f"part-{number}.jsonl"
            with (good / name).open("wb") as plain, (landed / name).open("wb") as damaged:
                for place in range(number * per_file, min((number + 1) * per_file, n_traces)):
                    line = source.readline()
                    plain.write(line)
                    if place in bad_at:
                        damaged.write(rng.choice(BAD_LINES) + b"\n")
                    damaged.write(line)
    lines.unlink()
    return sum(file.stat().st_size for file in landed.iterdir())


def measure(folder: Path, n_threads: int, n_traces: int, n_bad: int) -> Timing:
    """One plain load and one staging, each into a new database."""
    plain_s = _run(
        [sys.executable, "-c", PLAIN_LOAD, str(folder), str(n_threads), json.dumps(reading_types("retrieval_traces"))]
    )
    warehouse = folder / "warehouse.duckdb"
    warehouse.unlink(missing_ok=True)
    environment = {
        "RQ_LANDING": str(folder / "landing"),
        "RQ_WAREHOUSE": str(warehouse),
        "RQ_THREADS": str(n_threads),
        "DBT_TARGET_PATH": str(folder / "target"),
        "DBT_LOG_PATH": str(folder / "logs"),
    }
    dbt = [str(DBT), "--quiet", "{}", "--project-dir", str(PROJECT), "--profiles-dir", str(PROJECT / "profiles")]
    _run([part.format("seed") for part in dbt], environment)
    total_s = _run([*(part.format("run") for part in dbt), "--select", "staging"], environment)
    results = json.loads((folder / "target" / "run_results.json").read_text())["results"]
    moments = [
        datetime.fromisoformat(moment)
        for result in results
        for step in result["timing"]
        for moment in (step["started_at"], step["completed_at"])
    ]
    staging_s = (max(moments) - min(moments)).total_seconds()
    with closing(duckdb.connect(str(warehouse), read_only=True)) as connection:
        found = connection.execute(
            "select sum(n_staged)::bigint, sum(n_quarantined)::bigint from stg_landing_accounting"
        ).fetchone()
    if found != (n_traces, n_bad):
        raise SystemExit(f"staged and quarantined {found}, landed {(n_traces, n_bad)}")
    return Timing(plain_s, staging_s, total_s - staging_s)


# in a process of its own, as staging is; the connection is closed, so that everything is on disk
PLAIN_LOAD: Final = """
import json, pathlib, sys
import duckdb
folder, n_threads, types = pathlib.Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
database = folder / "plain.duckdb"
database.unlink(missing_ok=True)
columns = ", ".join(f"{name}: '{type}'" for name, type in types.items())
with duckdb.connect(str(database), config={"threads": n_threads}) as connection:
    connection.execute(
        "create table traces as "
        f"from read_json('{folder}/good/*.jsonl', format = 'newline_delimited', columns = {{{columns}}})"
    )
"""


def _run(command: list[str], environment: dict[str, str] | None = None) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, env=os.environ | (environment or {}), cwd=PROJECT)
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
