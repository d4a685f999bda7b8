"""All benchmarks in one run on this machine, and docs/benchmarks.md from what they measured.

    python benchmarks/run.py [--large] [--peers-python PATH] [--folder FOLDER] [--only cold staging ...]

`--large` adds 10,000,000 traces to the sizes and a history of 9,000,000; it needs some 40 GB of disk. Each
part leaves its figures as JSON in `--folder`; `--only` runs some parts and takes the others' figures from
there, and the page then says which were measured when.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import duckdb
from measuring import PROJECT
from nights import exponent
from peers import COMPARED, PEERS

PAGE: Final = PROJECT / "docs" / "benchmarks.md"
PARTS: Final = ("cold", "growth", "history", "staging", "peers", "intervals")
SIZES: Final = ("1000", "10000", "100000", "1000000")
HISTORIES: Final = ("100000", "1000000")

Figures = dict[str, Any]


def main() -> int:
    """Measure the parts that are asked for and write the page."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--peers-python", default=sys.executable)
    parser.add_argument("--folder", type=Path, default=PROJECT / "target" / "benchmarks")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    commands = {
        "cold": ["nights.py", "--growth", "--history"],
        "growth": [
            *("nights.py", "--cold", "0", "--history", "--growth"),
            *(SIZES + ("10000000",) * arguments.large),
        ],
        "history": [
            *("nights.py", "--cold", "0", "--growth", "--history"),
            *(HISTORIES + ("9000000",) * arguments.large),
        ],
        "staging": ["staging.py", "--repeat", "3"],
        "peers": ["peers.py", "--python", arguments.peers_python],
        "intervals": ["intervals.py"],
    }
    for part in arguments.only:
        file = arguments.folder / f"{part}.json"
        print(f"{part} ...", flush=True)
        script, *options = commands[part]
        command = [sys.executable, str(Path(__file__).with_name(script)), *options, "--json", str(file)]
        ended = subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode
        if ended not in (0, 1):  # 1: measured, and a target is missed
            raise SystemExit(f"{part} ended with {ended}")
        figures = json.loads(file.read_text())
        file.write_text(json.dumps({"measured_at": f"{datetime.now(UTC):%Y-%m-%d %H:%M}", "figures": figures}))
    files = {part: arguments.folder / f"{part}.json" for part in PARTS}
    measured = {part: json.loads(file.read_text()) for part, file in files.items() if file.is_file()}
    PAGE.write_text("\n".join(line.rstrip() for line in page(measured)) + "\n")
    print(PAGE)
    return 0


def page(measured: dict[str, Figures]) -> Iterator[str]:
    """docs/benchmarks.md, line by line."""
    yield "# Benchmarks"
    yield ""
    yield (
        "Written by `make bench` (`benchmarks/run.py`); do not edit. Workloads are simulated "
        "(`benchmarks/workload.py`)."
    )
    yield (
        "Read ratios: both sides are measured in one run on one machine, each in a process of its own. A target that"
    )
    yield "is missed says so."
    yield ""
    yield f"Machine: {os.cpu_count()} cores, {memory_gb():.0f} GB, {platform.system()} {platform.machine()}; "
    yield f"Python {platform.python_version()}, DuckDB {duckdb.__version__}."
    sections = (first_night, growth, history, staging, peers, intervals)
    for part, write in zip(PARTS, sections, strict=True):
        if part in measured:
            yield ""
            yield from write(measured[part]["figures"])
            yield ""
            yield f"Measured {measured[part]['measured_at']} UTC."


def first_night(figures: Figures) -> Iterator[str]:
    cold = figures["cold"]
    plain_s, night_s = cold["plain"]["wall_s"], cold["night"]["wall_s"]
    guides_s, n_resamples = cold["guides"]["seconds"], cold["guides"]["n_resamples"]
    guides_total_s = sum(guides_s.values()) + guides_s["bootstrap"] * (1_000 / n_resamples - 1)
    candidates = cold["candidates"]
    yield "## A cold night"
    yield ""
    yield (
        f"{cold['n_traces']:,} traces of 10 chunks as JSON lines ({cold['n_bytes'] / 1e6:,.0f} MB), "
        f"labels on 20 % of the"
    )
    yield "sessions. The plain load reads the same files into typed tables with explicit columns, and nothing else."
    yield ""
    yield from table(
        ("", "seconds", "ratio", "target", "peak memory"),
        [
            ("plain load", seconds(plain_s), "1", "", memory(cold["plain"])),
            ("the models", seconds(cold["models_s"]), *ratio(cold["models_s"] / plain_s, 2.5), memory(cold["models"])),
            ("the whole night", seconds(night_s), *ratio(night_s / plain_s, 5), memory(cold["night"])),
            (
                "the guides' functions",
                seconds(guides_total_s),
                *ratio(guides_total_s / night_s, 15, at_least=True, of="night"),
                memory(cold["guides"]),
            ),
            (
                "the models, from Parquet",
                seconds(cold["parquet"]["models_s"]),
                f"{cold['parquet']['models_s'] / cold['models_s']:.2f} of JSON lines",
                "faster",
                memory(cold["parquet"]["models"]),
            ),
            (
                "the models, set B (50 candidates)",
                seconds(candidates["models_s"]),
                f"{candidates['models_s'] / candidates['plain']['wall_s']:.1f}",
                "",
                memory(candidates["models"]),
            ),
        ],
    )
    yield ""
    yield "The whole night is `retrieval-quality nightly`: landing check "
    yield (
        f"({cold['steps_s']['check']:.1f} s, of which {cold['steps_s']['import_great_expectations']:.1f} "
        f"s import Great "
    )
    yield ("Expectations), dbt's start and parse, models, data tests, publication, alerts. The guides' functions")
    yield f"parse, join, score P@5 and R@5 and bootstrap {cold['guides']['n_segments']} segment values of one window "
    yield (
        f"(run with {n_resamples} resamples, multiplied up to 1,000); the night does all metrics, windows and segments."
    )


def growth(figures: Figures) -> Iterator[str]:
    sizes = figures["growth"]
    yield "## Growth"
    yield ""
    rows = [
        (f"{row['n_traces']:,}", seconds(row["models_s"]), f"{row['models_s'] / row['plain']['wall_s']:.1f}",
         f"{row['models_s'] / row['n_traces'] * 1e6:.1f}", memory(row["models"]))
        for row in sizes
    ]  # fmt: skip
    yield from table(("traces", "models, s", "of a plain load", "µs a trace", "peak memory"), rows)
    large = [row for row in sizes if row["n_traces"] >= 100_000]
    if len(large) > 1:
        found = exponent(large)
        yield ""
        yield f"From {large[0]['n_traces']:,} traces on time grows with the power {found:.2f} of their number "
        yield f"(target: at most 1.05, {met(found <= 1.05)})."
        yield f"Between the two largest alone the power is {exponent(large[-2:]):.2f}."
        peak_gb = large[-1]["models"]["peak_bytes"] / 1e9
        yield f"With DuckDB's memory_limit at 4 GB the largest peaks at {peak_gb:.1f} GB "
        yield f"(target: below 6, {met(peak_gb < 6)})."


def history(figures: Figures) -> Iterator[str]:
    rows = figures["history"]
    yield "## Nights on top of a history"
    yield ""
    yield (
        "`retrieval-quality nightly`, wall seconds (models alone). Next day: 100,000 traces more. Late "
        "label: one event for"
    )
    yield "an old day. Nothing new: the second night after one that recorded checks and alerts."
    yield ""
    shown = ("next_day", "late_label", "one_trace", "nothing")
    yield from table(
        ("history", "first night", "next day", "late label", "one trace", "nothing new", "peak, next day"),
        [
            (
                f"{row['n_traces']:,} traces, {row['n_days']} days",
                seconds(row["first"]["wall_s"]),
                *(f"{row[name]['wall_s']:.1f} ({row[name]['models_s']:.1f})" for name in shown),
                memory(row["next_day"]),
            )
            for row in rows
        ],
    )
    first, last = rows[0], rows[-1]
    grown = last["next_day"]["wall_s"] / first["next_day"]["wall_s"] - 1
    share = last["first"]["wall_s"] / last["n_days"]
    allowed = last["one_trace"]["wall_s"] + 2 * share
    yield ""
    yield f"* Next day, largest against smallest history: {grown:+.0%} (target: less than 15 %, {met(grown < 0.15)})."
    yield (
        f"* Next day at the largest: {last['next_day']['wall_s']:.1f} s; the fixed cost (one trace) and "
        f"twice a day's share of "
    )
    yield f"the first night: {allowed:.1f} s ({met(last['next_day']['wall_s'] <= allowed)})."
    late = last["late_label"]["models_s"] / last["next_day"]["models_s"]
    yield (
        f"* A late label, {last['late_label_age_days']} days old, against the night of a whole new day, "
        f"models: {late:.2f} "
    )
    yield f"(target: at most 1.5, {met(late <= 1.5)})."
    nothing, one = last["nothing"]["wall_s"], last["one_trace"]["wall_s"]
    imported = last["one_trace"]["steps_s"]["import_great_expectations"]
    yield (
        f"* Nothing new: {nothing:.1f} s (at most 5, {met(nothing <= 5)}). One trace: {one:.1f} s (at "
        f"most 30, {met(one <= 30)}), of "
    )
    yield f"which {imported:.1f} s import Great Expectations."


def staging(figures: Figures) -> Iterator[str]:
    yield "## Staging"
    yield ""
    yield (
        "1,000,000 good trace lines with 1,000 bad ones among them, accounting and quarantine included, against a plain"
    )
    yield "load of the good lines: "
    timings = figures["timings"]
    runs = ", ".join(f"{row['staging_s'] / row['plain_s']:.2f}" for row in timings)
    yield (
        f"{figures['ratio']:.2f} times (runs: {runs}; target: at most {figures['limit']}, "
        f"{met(figures['ratio'] <= figures['limit'])})."
    )


def peers(figures: Figures) -> Iterator[str]:
    ours = figures["ours"]
    yield "## Scoring, against peers"
    yield ""
    yield (
        f"{figures['n_queries']:,} queries of {figures['n_results']} results and up to 20 graded "
        f"judgments, from two Parquet files to all"
    )
    yield "metrics at k = 1, 3, 5, 10 and the whole list; reading included, imports and the compilation of ranx not."
    yield ""
    rows = [("SQL", seconds(ours["seconds"]), "1", "", memory(ours), "")]
    for peer in PEERS:
        row = figures[peer]
        if "missing" in row:
            rows.append((peer, "not installed", "", "", "", ""))
            continue
        apart = max(abs(row["means"][name] - ours["means"][name]) for name in COMPARED)
        cells = ratio(row["seconds"] / ours["seconds"], 5, at_least=True)
        rows.append((peer, seconds(row["seconds"]), *cells, memory(row), f"{apart:.0e}"))
    yield from table(("", "seconds", "ratio", "target", "peak memory", f"apart in {', '.join(COMPARED)}"), rows)


def intervals(figures: Figures) -> Iterator[str]:
    yield "## Intervals"
    yield ""
    yield f"Precision@5 of {figures['groups']:,} groups, {figures['sessions']:,} sessions, in one process."
    yield ""
    yield from table(("intervals", "CPU seconds"), [(name, f"{s:.3f}") for name, s in figures["seconds"].items()])
    yield ""
    yield "Resampling, 1,000 times, computed for some of the same groups and multiplied up by their sessions:"
    yield ""
    rows = [
        (name, seconds(taken), f"{figures['ratios'][name]:,.0f}") for name, taken in figures["peer_seconds"].items()
    ]
    yield from table(("peer", "CPU seconds", "of ours"), rows)
    yield ""
    yield "A histogram costs by its distinct values, not by its sessions; relative to 1,000 sessions a group:"
    yield ""
    by_values = figures["seconds_by_values_and_sessions"]
    sizes = [f"{int(n):,}" for n in next(iter(by_values.values()))]
    rows = [
        (n_values, f"{taken['1000']:.3f} s", *(f"{s / taken['1000']:.2f}" for s in list(taken.values())[1:]))
        for n_values, taken in by_values.items()
    ]
    yield from table(("distinct values", *sizes), rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def ratio(value: float, target: float, *, at_least: bool = False, of: str = "") -> tuple[str, str]:
    is_met = value >= target if at_least else value <= target
    return f"{value:.1f}{f' of the {of}' if of else ''}", f"{'≥' if at_least else '≤'} {target}, {met(is_met)}"


def met(is_met: bool) -> str:
    return "met" if is_met else "missed"


def seconds(value: float) -> str:
    return f"{value:,.1f}"


def memory(spent: Figures) -> str:
    return f"{spent['peak_bytes'] / 1e9:.1f} GB"


def memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


if __name__ == "__main__":
    sys.exit(main())
