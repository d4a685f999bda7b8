"""What a night costs: cold, by size, one more day, one late label, nothing new. Ratios of one run.

    python benchmarks/nights.py [--cold 1000000] [--growth 1000 10000 100000 1000000] [--history 100000 1000000]
        [--resamples 50] [--json FILE]

Workload: benchmarks/workload.py, set A where nothing else is said. Every load, night and peer is a process
of its own, one after the other; peak memory is that of the process. `as_of` is the end of the landed days.
The guides' bootstrap is run with `--resamples` and its time multiplied up to 1,000, in which it is linear.
"""

import argparse
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Final

from measuring import Nights, Spent, spend
from workload import FIRST_DAY, TRACES_PER_DAY, Workload

from retrieval_quality.contracts import reading_types

Row = dict[str, object]

# The typed table that the same files fill in one statement, which is what every ratio is a multiple of.
PLAIN_LOAD: Final = """
import json, pathlib, sys
import duckdb
landing, database, types = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), json.loads(sys.argv[3])
database.unlink(missing_ok=True)
with duckdb.connect(str(database)) as connection:
    for contract, columns in types.items():
        listed = ", ".join(f"{name}: '{type}'" for name, type in columns.items())
        connection.execute(
            f"create table {contract} as from read_json('{landing}/{contract}/*/*.jsonl', "
            f"format = 'newline_delimited', columns = {{{listed}}})"
        )
"""


def main() -> int:
    """Run the sections and print them as JSON."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--cold", type=int, default=1_000_000)
    parser.add_argument("--growth", type=int, nargs="*", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--history", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--resamples", type=int, default=50)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    sections: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="rq-nights-") as name:
        root = Path(name)
        if arguments.cold:
            sections["cold"] = cold(root / "cold", arguments.cold, arguments.resamples)
        if arguments.growth:
            sections["growth"] = [grown(root / "growth", n_traces) for n_traces in arguments.growth]
        if arguments.history:
            sections["history"] = [after_history(root / "history", n_traces) for n_traces in arguments.history]
    text = json.dumps(sections, indent=1)
    if arguments.json:
        arguments.json.write_text(text)
    print(text)
    return 0


def nights(root: Path, n_days: int) -> Nights:
    """A new place, with `as_of` at the end of `n_days` days."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    return Nights(root, json.dumps({"as_of": f"{FIRST_DAY + timedelta(days=n_days)}T00:00:00Z"}))


def plain_load(place: Nights) -> Spent:
    """Load the landed files into typed tables, and nothing else."""
    types = {contract: reading_types(contract) for contract in ("retrieval_traces", "feedback")}
    arguments = [str(place.landing), str(place.root / "plain.duckdb"), json.dumps(types)]
    return spend([sys.executable, "-c", PLAIN_LOAD, *arguments])


def cold(root: Path, n_traces: int, n_resamples: int) -> Row:
    """The first night of JSON lines, against a plain load and the guides' functions; Parquet and set B beside."""
    workload = Workload(n_traces)
    place = nights(root, len(workload.days))
    n_bytes = workload.land(place.landing)
    row: Row = {"n_traces": n_traces, "n_bytes": n_bytes, "plain": asdict(plain_load(place))}
    row["models_s"], models = place.models()
    row["models"] = asdict(models)
    place.warehouse.unlink()
    spent, report = place.whole()
    row |= {"night": asdict(spent), "steps_s": steps(report)}
    guides = place.root / "guides.json"
    spent = spend(
        [
            sys.executable,
            str(Path(__file__).with_name("guides.py")),
            str(place.landing),
            "--resamples",
            str(n_resamples),
        ],
        output=guides,
    )
    row["guides"] = asdict(spent) | json.loads(guides.read_text())
    for name, other in (
        ("parquet", Workload(n_traces, file_format="parquet")),
        ("candidates", Workload(n_traces, n_candidates=50)),
    ):
        place = nights(root, len(other.days))
        n_bytes = other.land(place.landing)
        models_s, models = place.models()
        row[name] = {"n_bytes": n_bytes, "models_s": models_s, "models": asdict(models)}
        if name == "candidates":
            row[name]["plain"] = asdict(plain_load(place))  # type: ignore[index]
    shutil.rmtree(root)
    return row


def steps(report: dict) -> Row:
    """Seconds that a night says of itself: the landing check with its import, the build."""
    return {
        "check": report["landing_checks"]["elapsed_seconds"],
        "import_great_expectations": report["landing_checks"]["elapsed_import_seconds"],
        "build": report["build"]["elapsed_seconds"] if report["build"] else 0,
    }


def grown(root: Path, n_traces: int) -> Row:
    """The models of a first night of this size."""
    workload = Workload(n_traces)
    place = nights(root, len(workload.days))
    workload.land(place.landing)
    models_s, spent = place.models()
    row = {"n_traces": n_traces, "models_s": models_s, "models": asdict(spent), "plain": asdict(plain_load(place))}
    shutil.rmtree(root)
    return row


def after_history(root: Path, n_traces: int) -> Row:
    """What nights cost on top of `n_traces` traces: another day, a late label, one trace, nothing."""
    history = Workload(n_traces)
    n_days = len(history.days)
    place = nights(root, n_days)
    history.land(place.landing)
    first, _ = place.whole()
    row: Row = {"n_traces": n_traces, "n_days": n_days, "first": asdict(first)}

    def night(name: str) -> None:
        spent, report = place.whole()
        row[name] = asdict(spent) | {"steps_s": steps(report), "models_s": place.models_s() if report["build"] else 0}

    place = Nights(root, json.dumps({"as_of": f"{FIRST_DAY + timedelta(days=n_days + 1)}T00:00:00Z"}))
    Workload(TRACES_PER_DAY, start=n_days * TRACES_PER_DAY).land(place.landing)
    night("next_day")
    night("again")  # what the landing check and the alerts of that night recorded
    night("nothing")
    late_on = max(0, n_days - 60)
    land_one(place.landing, "feedback", "late", label(late_on * TRACES_PER_DAY + 7))
    night("late_label")
    land_one(place.landing, "retrieval_traces", "one", trace(n_days))
    night("one_trace")
    row["late_label_age_days"] = n_days + 1 - late_on
    shutil.rmtree(root)
    return row


def label(number: int) -> Row:
    """A downvote, today, of an answer given on the day of trace `number`."""
    given_at = FIRST_DAY + timedelta(days=number // TRACES_PER_DAY)
    return {
        "feedback_id": f"late-{number}", "trace_id": f"trace-{number}", "ts": f"{given_at}T23:59:00Z", "rating": "down",
    }  # fmt: skip


def trace(day: int) -> Row:
    return {
        "trace_id": "one", "ts": f"{FIRST_DAY + timedelta(days=day)}T12:00:00Z", "query": "where is it",
        "retrieved": [{"chunk_id": f"document-{rank}", "rank": rank} for rank in range(1, 11)],
    }  # fmt: skip


def land_one(landing: Path, contract: str, name: str, row: Row) -> None:
    (landing / contract / f"{name}.jsonl").write_text(json.dumps(row) + "\n")


def exponent(rows: Sequence[Row]) -> float:
    """Of time over traces, from the first to the last of some sizes: 1 is in proportion."""
    first, last = rows[0], rows[-1]
    times, sizes = last["models_s"] / first["models_s"], last["n_traces"] / first["n_traces"]  # type: ignore[operator]
    return math.log(times) / math.log(sizes)


if __name__ == "__main__":
    sys.exit(main())
