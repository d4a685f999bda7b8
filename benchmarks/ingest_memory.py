"""Peak memory of `retrieval-quality ingest` on an export of any size.

    python benchmarks/ingest_memory.py                              # 2 GB of OpenInference JSON lines
    python benchmarks/ingest_memory.py --format langsmith --gigabytes 0.5

Writes a made-up export below a temporary folder, ingests it in a process of its own and prints
size, seconds, rows and the peak resident memory of that process. Exit code 1 when the peak is
above the limit. Needs free disk of about three times the export.
"""

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

LIMIT_MB: Final = 500
GIGABYTE: Final = 10**9
START_S: Final = 1_796_000_000
N_DOCUMENTS: Final = 5
N_CONTENTS: Final = 500
SECONDS_APART: Final = 7
SEED: Final = 20_261_130
COMMAND: Final = Path(sys.executable).with_name("retrieval-quality")


@dataclass(frozen=True)
class Call:
    """One retrieval to write down. `number` makes every id; `contents`: what was found, best first."""

    number: int
    query: str
    contents: tuple[str, ...]

    @property
    def start_ns(self) -> int:
        return (START_S + self.number * SECONDS_APART) * 10**9

    @property
    def end_ns(self) -> int:
        return self.start_ns + 25_000_000

    @property
    def session(self) -> str:
        return f"session-{self.number // 3}"

    @property
    def documents(self) -> list[dict[str, object]]:
        return [
            {"id": f"doc-{(self.number * 31 + place) % 100_000}", "page_content": content, "metadata": {"score": score}}
            for place, (content, score) in enumerate(zip(self.contents, (0.9, 0.8, 0.7, 0.6, 0.5), strict=True))
        ]


def calls() -> Iterator[Call]:
    """Endless, the same in every run."""
    random_ = random.Random(SEED)  # noqa: S311 - made-up text
    words = [f"word{number}" for number in range(3000)]
    contents = [" ".join(random_.choices(words, k=60)) for _ in range(N_CONTENTS)]
    for number in itertools.count():
        yield Call(number, " ".join(random_.choices(words, k=8)), tuple(random_.sample(contents, N_DOCUMENTS)))


def attributes_of(call: Call) -> dict[str, object]:
    return {
        "openinference.span.kind": "RETRIEVER",
        "session.id": call.session,
        "input.value": call.query,
        "output.value": json.dumps({"documents": call.documents}),
        **{
            f"retrieval.documents.{place}.document.{key}": value
            for place, document in enumerate(call.documents)
            for key, value in (("id", document["id"]), ("content", document["page_content"]))
        },
    }


def openinference(call: Call) -> dict[str, object]:
    return {
        "name": "retrieve",
        "context": {"trace_id": f"0x{call.number + 1:032x}", "span_id": f"0x{call.number + 1:016x}"},
        "parent_id": None,
        "start_time": call.start_ns,
        "end_time": call.end_ns,
        "status": {"status_code": "OK"},
        "attributes": attributes_of(call),
    }


def otlp_span(call: Call) -> dict[str, object]:
    return {
        "traceId": f"{call.number + 1:032x}",
        "spanId": f"{call.number + 1:016x}",
        "name": "retrieve",
        "startTimeUnixNano": str(call.start_ns),
        "endTimeUnixNano": str(call.end_ns),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes_of(call).items()],
    }


def otlp(call: Call) -> dict[str, object]:
    """One ExportTraceServiceRequest per line, as the OpenTelemetry Collector writes them."""
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": [otlp_span(call)]}]}]}


def mlflow(call: Call) -> dict[str, object]:
    span = {
        "trace_id": f"{call.number + 1:032x}",
        "span_id": f"{call.number + 1:016x}",
        "start_time_unix_nano": call.start_ns,
        "end_time_unix_nano": call.end_ns,
        "attributes": {
            "mlflow.spanType": '"RETRIEVER"',
            "mlflow.spanInputs": json.dumps({"query": call.query}),
            "mlflow.spanOutputs": json.dumps(call.documents),
        },
    }
    info = {"trace_id": f"tr-{call.number}", "trace_metadata": {"mlflow.trace.session": call.session}}
    return {"info": info, "data": {"spans": [span]}}


def langfuse(call: Call) -> dict[str, object]:
    return {
        "id": f"o-{call.number}",
        "trace_id": f"t-{call.number}",
        "session_id": call.session,
        "type": "RETRIEVER",
        "start_time": call.start_ns // 1000,
        "end_time": call.end_ns // 1000,
        "input": json.dumps({"query": call.query}),
        "output": json.dumps(call.documents),
    }


def langsmith_post(call: Call) -> dict[str, object]:
    return {
        "id": f"r-{call.number}",
        "trace_id": f"r-{call.number}",
        "run_type": "retriever",
        "start_time": call.start_ns // 1000,
        "inputs": {"query": call.query},
        "extra": {"metadata": {"session_id": call.session, "history": call.contents}},
    }


def langsmith_patch(call: Call) -> dict[str, object]:
    return {
        "id": f"r-{call.number}",
        "trace_id": f"r-{call.number}",
        "end_time": call.end_ns // 1000,
        "outputs": {"documents": call.documents},
    }


LINES: Final[Mapping[str, Callable[[Call], dict[str, object]]]] = MappingProxyType(
    {"openinference": openinference, "otlp": otlp, "mlflow": mlflow, "langfuse": langfuse}
)


def write_export(path: Path, form: str, n_bytes: int) -> int:
    """Write about `n_bytes`; the number of retrievals in them.

    `otlp-document` is one OTLP document on one line; `langsmith` has all posts, then all patches:
    nothing can be merged before the second half is read.
    """
    with path.open("w", encoding="utf-8") as file:
        if form == "langsmith":
            n_calls = write_lines(path, langsmith_post, n_bytes // 2)
            with path.open("a", encoding="utf-8") as more:
                for call in itertools.islice(calls(), n_calls):
                    more.write(json.dumps(langsmith_patch(call)) + "\n")
            return n_calls
        if form == "otlp-document":
            file.write('{"resourceSpans": [{"scopeSpans": [{"spans": [')
            n_calls = 0
            for call in calls():
                file.write(("," if n_calls else "") + json.dumps(otlp_span(call)))
                n_calls += 1
                if file.tell() >= n_bytes:
                    break
            file.write("]}]}]}")
            return n_calls
    return write_lines(path, LINES[form], n_bytes)


def write_lines(path: Path, line_of: Callable[[Call], dict[str, object]], n_bytes: int) -> int:
    n_calls = n_written = 0
    with path.open("w", encoding="utf-8") as file:
        for call in calls():
            n_written += file.write(json.dumps(line_of(call)) + "\n")
            n_calls += 1
            if n_written >= n_bytes:
                break
    return n_calls


def peak_mb(command: list[str]) -> tuple[float, str]:
    """Peak resident memory of a command in MB (10^6 bytes), and what it printed.

    Raises CalledProcessError.
    """
    with tempfile.TemporaryFile("w+") as told:
        process = subprocess.Popen(command, stdout=told)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        told.seek(0)
        in_bytes = usage.ru_maxrss if sys.platform == "darwin" else usage.ru_maxrss * 1024
        return in_bytes / 10**6, told.read()


def main() -> int:
    parser = argparse.ArgumentParser(description="Peak memory of `retrieval-quality ingest`.")
    parser.add_argument("--gigabytes", type=float, default=2.0, help="size of the export (default 2)")
    parser.add_argument("--format", default="openinference", choices=[*LINES, "otlp-document", "langsmith"])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ingest-memory-") as folder:
        export = Path(folder, "export.json" if asked.format == "otlp-document" else "export.jsonl")
        n_calls = write_export(export, asked.format, int(asked.gigabytes * GIGABYTE))
        size = export.stat().st_size
        read_as = "openinference" if asked.format.startswith("otlp") else asked.format
        started = time.monotonic()
        peak, told = peak_mb(
            [
                str(COMMAND),
                "ingest",
                "--from",
                read_as,
                str(export),
                "--landing",
                str(Path(folder, "landing")),
                "--json",
            ]
        )
        seconds = time.monotonic() - started
    n_rows = json.loads(told)["rows"]["retrieval_traces"]
    is_met = peak < LIMIT_MB
    print(f"{asked.format}: {size / GIGABYTE:.2f} GB, {n_rows:,} of {n_calls:,} retrievals in {seconds:.0f} s")
    print(f"peak {peak:.0f} MB; below {LIMIT_MB} MB: {'met' if is_met else 'missed'}")
    return 0 if is_met and n_rows == n_calls else 1


if __name__ == "__main__":
    sys.exit(main())
