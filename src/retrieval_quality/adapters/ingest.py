"""From an export to landing files: written under a temporary name, renamed when complete."""

import hashlib
import json
import math
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Final

from retrieval_quality.adapters.bedrock import read_bedrock
from retrieval_quality.adapters.genai import read_genai
from retrieval_quality.adapters.langfuse import read_langfuse
from retrieval_quality.adapters.langsmith import read_langsmith
from retrieval_quality.adapters.mlflow import read_mlflow
from retrieval_quality.adapters.openinference import read_openinference
from retrieval_quality.adapters.reading import TOO_DEEP
from retrieval_quality.adapters.rows import Item, LandingRow, Skipped, Unmapped, seconds
from retrieval_quality.adapters.trec import read_trec_qrels, read_trec_run

N_EXAMPLES: Final = 20

_BUFFER_BYTES: Final = 4 * 2**20
_NAME_HASH: Final = 16
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# where the time of an undated row goes; qrels need none and keep none
_TIME_KEY: Final[Mapping[str, str]] = MappingProxyType({"retrieval_traces": "ts", "feedback": "ts"})


class IngestError(Exception):
    """Nothing can be ingested as asked; one line that says why."""


@dataclass(frozen=True)
class Adapter:
    """A format. `read` turns files into items. `is_joint`: the parts of one call may lie in several
    files, so that all files of a call are one source; else each file is a source of its own.
    """

    description: str
    read: Callable[[Sequence[Path]], Iterator[Item]]
    is_joint: bool = False


ADAPTERS: Final[Mapping[str, Adapter]] = MappingProxyType(
    {
        "openinference": Adapter(
            "OpenInference spans: JSON lines (Phoenix, OTel SDK) or OTLP/JSON", read_openinference, is_joint=True
        ),
        "otel-genai": Adapter(
            "OpenTelemetry GenAI retrieval spans: OTLP/JSON or JSON lines", read_genai, is_joint=True
        ),
        "mlflow": Adapter("MLflow traces: JSON lines", read_mlflow),
        "langsmith": Adapter("LangSmith runs and feedback: JSON lines", read_langsmith, is_joint=True),
        "langfuse": Adapter("Langfuse traces, observations and scores: JSON", read_langfuse, is_joint=True),
        "bedrock": Adapter("Bedrock knowledge base Retrieve responses: JSON lines", read_bedrock),
        "trec-run": Adapter("TREC run files", read_trec_run),
        "trec-qrels": Adapter("TREC qrels files", read_trec_qrels),
    }
)


@dataclass(frozen=True)
class IngestReport:
    """What became of an export of `n_files` files.

    `rows`, `new_rows`: rows by contract, all that were mapped (and not before `since`) and those in
    files that were not there yet. `unmapped`, `skipped`: records by reason. `examples`: the first
    20 unmapped. `n_built_ids`: chunk ids built from content, per row. `n_undated`: rows of contracts
    that require a time, without one. `n_before_since`: rows left out by `since`.
    """

    format: str
    n_files: int
    rows: Mapping[str, int]
    new_rows: Mapping[str, int]
    new_files: tuple[Path, ...]
    unmapped: Mapping[str, int]
    skipped: Mapping[str, int]
    examples: tuple[Unmapped, ...]
    n_built_ids: int
    n_undated: int
    n_before_since: int


def ingest(
    format: str,  # noqa: A002 - the word of the command line
    paths: Sequence[Path],
    landing: Path,
    since: date | None = None,
    at: datetime | None = None,
) -> IngestReport:
    """Write `landing/<contract>/dt=<UTC day>/<format>-<hash of its rows>.jsonl` for an export.

    `paths`: files, or folders of files. `since`: rows of earlier UTC days are left out; whole days,
    so that a day's file does not depend on it. `at`: the time of rows that the export dates by
    nothing (aware, or UTC); without it they land below `dt=undated`, where staging rejects those
    that need a time. A file is named by its content and left alone where it exists, so the same
    export twice adds nothing. Raises IngestError, OSError.
    """
    adapter = ADAPTERS.get(format)
    if adapter is None:
        raise IngestError(f"unknown format '{format}'. Known: {', '.join(ADAPTERS)}")
    files = _files(paths)
    sources = [files] if adapter.is_joint else [[file] for file in files]
    at_us = None if at is None else _us(at)
    landing.mkdir(parents=True, exist_ok=True)
    tally = _Tally()
    for source in sources:
        with tempfile.TemporaryDirectory(prefix="_ingest-", dir=landing) as scratch:
            writer = _Writer(Path(scratch))
            try:
                for item in adapter.read(source):
                    row = tally.count(item, since, at_us)
                    if row is not None and not writer.write(row):
                        tally.take_back(row)
            except sqlite3.Error as error:
                raise IngestError(f"the temporary database that groups spans failed: {error}") from error
            tally.add_files(writer.publish(landing, format))
    return tally.report(format, len(files))


def describe(report: IngestReport) -> tuple[str, ...]:
    """The report for people: what was mapped, what is new, then what was not mapped and why."""
    new = _counts(report.new_rows) or "nothing"
    lines = [
        f"{report.format}: {_counts(report.rows) or 'no rows'} from {_number(report.n_files, 'file')}",
        f"new: {new} in {_number(len(report.new_files), 'file')}",
    ]
    if report.n_before_since:
        lines.append(f"before --since, left out: {_number(report.n_before_since, 'row')}")
    if report.n_built_ids:
        lines.append(f"without an id, built from the content: {_number(report.n_built_ids, 'chunk id')}")
    if report.n_undated:
        lines.append(f"without a time, rejected by the next night: {_number(report.n_undated, 'row')}; give --at")
    lines += [f"no row of its own: {count:,} ({reason})" for reason, count in report.skipped.items()]
    lines += [f"not mapped: {count:,} ({reason})" for reason, count in report.unmapped.items()]
    lines += [f"  {example.where}: {example.reason}" for example in report.examples]
    return tuple(lines)


def _counts(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {contract}" for contract, count in sorted(rows.items()))


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _files(paths: Sequence[Path]) -> list[Path]:
    """Every file named, and every file below a folder named; hidden and `_` names left out."""
    files: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            below = sorted(inner for inner in path.rglob("*") if inner.is_file())
            files |= dict.fromkeys(
                inner
                for inner in below
                if not any(part.startswith((".", "_")) for part in inner.relative_to(path).parts)
            )
        elif path.is_file():
            files[path] = None
        else:
            raise IngestError(f"{path}: no such file or folder")
    if not files:
        raise IngestError("no files to ingest")
    return list(files)


def _us(moment: datetime) -> int:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def _day(row: LandingRow) -> date | None:
    return None if row.ts_us is None else (_EPOCH + timedelta(microseconds=row.ts_us)).date()


class _Tally:
    """The counts of a report while they grow."""

    def __init__(self) -> None:
        self._rows: Counter[str] = Counter()
        self._new_rows: Counter[str] = Counter()
        self._unmapped: Counter[str] = Counter()
        self._skipped: Counter[str] = Counter()
        self._new_files: list[Path] = []
        self._examples: list[Unmapped] = []
        self._n_built_ids = self._n_undated = self._n_before_since = 0

    def count(self, item: Item, since: date | None, at_us: int | None) -> LandingRow | None:
        """The row to write for an item, if any."""
        if isinstance(item, Unmapped):
            self._unmapped[item.reason] += 1
            if len(self._examples) < N_EXAMPLES:
                self._examples.append(item)
            return None
        if isinstance(item, Skipped):
            self._skipped[item.reason] += 1
            return None
        row = _dated(item, at_us)
        day = _day(row)
        if since is not None and day is not None and day < since:
            self._n_before_since += 1
            return None
        self._rows[row.contract] += 1
        self._n_built_ids += row.n_built_ids
        self._n_undated += day is None and row.contract in _TIME_KEY
        return row

    def take_back(self, row: LandingRow) -> None:
        """A row that was counted cannot be written."""
        self._rows[row.contract] -= 1
        self.count(Unmapped(f"{row.contract} {row.values.get('trace_id')}", TOO_DEEP), None, None)

    def add_files(self, n_rows_by_file: Mapping[Path, int]) -> None:
        for file, n_rows in n_rows_by_file.items():
            self._new_files.append(file)
            self._new_rows[file.parent.parent.name] += n_rows

    def report(self, name: str, n_files: int) -> IngestReport:
        return IngestReport(
            format=name,
            n_files=n_files,
            rows=dict(+self._rows),
            new_rows=dict(self._new_rows),
            new_files=tuple(self._new_files),
            unmapped=dict(self._unmapped.most_common()),
            skipped=dict(self._skipped.most_common()),
            examples=tuple(self._examples),
            n_built_ids=self._n_built_ids,
            n_undated=self._n_undated,
            n_before_since=self._n_before_since,
        )


def _dated(row: LandingRow, at_us: int | None) -> LandingRow:
    key = _TIME_KEY.get(row.contract)
    if row.ts_us is not None or at_us is None or key is None:
        return row
    return replace(row, values={**row.values, key: seconds(at_us)}, ts_us=at_us)


class _Writer:
    """Rows into one file per contract and day below a scratch folder, then to their places."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._lines: dict[Path, list[bytes]] = {}
        self._n_bytes = 0
        self._n_rows: Counter[Path] = Counter()

    def write(self, row: LandingRow) -> bool:
        """False when a value is nested too deeply to be written."""
        day = _day(row)
        place = Path(row.contract, "dt=undated" if day is None else f"dt={day.isoformat()}")
        try:
            line = _json_line(row.values)
        except RecursionError:
            return False
        self._lines.setdefault(place, []).append(line)
        self._n_rows[place] += 1
        self._n_bytes += len(line)
        if self._n_bytes >= _BUFFER_BYTES:
            self._flush()
        return True

    def publish(self, landing: Path, name: str) -> dict[Path, int]:
        """Rename each file to its place, those that are there already left alone: new files, with
        their rows.
        """
        self._flush()
        new = {}
        for place, n_rows in sorted(self._n_rows.items()):
            written = self._written(place)
            with written.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()[:_NAME_HASH]
            target = landing / place / f"{name}-{content}.jsonl"
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                written.replace(target)
                new[target] = n_rows
        return new

    def _flush(self) -> None:
        for place, lines in self._lines.items():
            written = self._written(place)
            written.parent.mkdir(parents=True, exist_ok=True)
            with written.open("ab") as file:
                file.writelines(lines)
        self._lines.clear()
        self._n_bytes = 0

    def _written(self, place: Path) -> Path:
        return self._scratch / place / "rows.jsonl"


def _json_line(values: object) -> bytes:
    """One line of strict JSON: a number that is not finite becomes null, a lone surrogate `?`."""
    try:
        text = json.dumps(values, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(values), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace") + b"\n"


def _finite(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
