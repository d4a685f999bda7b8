"""One `dbt build` in this process, and what went wrong in one line per failure."""

import contextlib
import logging
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dbt.artifacts.schemas.results import NodeResult
    from dbt.cli.main import dbtRunnerResult
    from dbt_common.events.base_types import EventMsg

MAX_MESSAGE_CHARS: Final = 400

_FAILED: Final = frozenset({"error", "fail", "runtime error", "partial success"})
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_HEADING: Final = re.compile(r"^(?:[A-Z]\w* )*Error(?: in (?P<kind>[\w ]+?) (?P<name>\S+) \((?P<path>[^)]*)\))?$")
_STOP: Final = re.compile(
    r"^(?:LINE \d+:|-{5,}|>|\^|compiled code at|The search space used was|Possible (?:fixes|sol))"
)
_FILE_LINE: Final = re.compile(r"^\s*file\s*[=:]\s*(\S.*?)\s*$", flags=re.MULTILINE | re.IGNORECASE)
_TRACEBACK: Final = "Traceback (most recent call last):"


class VarsError(Exception):
    """`--vars` is not a YAML mapping."""


@dataclass(frozen=True)
class NodeMessage:
    """A node (`model x`, `test y (path)`, or `dbt` for the whole run) and one line about it."""

    node: str
    message: str

    @property
    def line(self) -> str:
        return f"{self.node}: {self.message}" if self.node else self.message


@dataclass(frozen=True)
class BuildResult:
    """What a build did. `status` is `success` or `failed`; `counts` are nodes by dbt status;
    `notes` are what macros logged for the operator; the log file holds everything else.
    """

    status: str
    elapsed_seconds: float
    counts: Mapping[str, int]
    failures: tuple[NodeMessage, ...]
    warnings: tuple[NodeMessage, ...]
    notes: tuple[str, ...]
    log_file: Path


class BuildFailed(Exception):  # noqa: N818
    """A model, a test of severity error, or the run itself failed; `lines` has one per failure."""

    def __init__(self, result: BuildResult) -> None:
        self.result = result
        self.lines = _one_line_per_cause(result.failures)
        super().__init__("\n".join(self.lines))


def _one_line_per_cause(failures: Iterable[NodeMessage]) -> tuple[str, ...]:
    """What stopped several nodes for the same reason is said once, by the first of them."""
    by_message: dict[str, list[NodeMessage]] = {}
    for failure in failures:
        by_message.setdefault(failure.message, []).append(failure)
    return tuple(
        first.line + (f" (and {len(others)} more)" if others else "") for first, *others in by_message.values()
    )


def check_vars(text: str | None) -> None:
    """Raise VarsError unless `text` is None, blank or a YAML mapping with string keys."""
    if text is None or not text.strip():
        return
    import yaml  # type: ignore[import-untyped]

    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise VarsError(f"--vars is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise VarsError(f"--vars must be a mapping such as '{{reported_days: 14}}', got {text!r}")


def build(
    *,
    project_dir: Path,
    profiles_dir: Path,
    log_dir: Path,
    variables: str | None = None,
    full_refresh: bool = False,
    target: str | None = None,
    select: str | None = None,
    unit_tests: bool = False,
    on_node: Callable[[str], None] | None = None,
) -> BuildResult:
    """Run `dbt build` and let go of the database, whatever happened.

    `variables` is the YAML of dbt's `--vars`, `select` its selection of nodes (default: all). dbt's unit
    tests say something of the code, not of what landed: they run where `unit_tests` asks for them.
    `on_node` is called with the name of every node that starts, from dbt's threads. Nothing is
    written to standard output; dbt's log goes to `log_dir/dbt.log`. Raises VarsError and BuildFailed.
    """
    check_vars(variables)
    from dbt.cli.main import dbtRunner

    notes: list[str] = []

    def on_event(event: "EventMsg") -> None:
        if event.info.name == "JinjaLogInfo":
            notes.append(" ".join(str(event.data.msg).split()))
        elif event.info.name == "NodeStart" and on_node is not None:
            on_node(str(event.data.node_info.node_name))

    arguments = [
        *("--quiet", "--no-print", "--log-level", "none"),
        *("--log-level-file", "debug", "--log-path", str(log_dir)),
        *("build", "--project-dir", str(project_dir), "--profiles-dir", str(profiles_dir)),
        *(("--vars", variables) if variables and variables.strip() else ()),
        *(("--full-refresh",) if full_refresh else ()),
        *(("--target", target) if target else ()),
        *(("--select", *select.split()) if select else ()),
        *(() if unit_tests else ("--exclude-resource-type", "unit_test")),
    ]
    started = time.perf_counter()
    try:
        with contextlib.redirect_stdout(sys.stderr), _quiet_logging():
            outcome = dbtRunner(callbacks=[on_event]).invoke(arguments)
    finally:
        release_database()
    if isinstance(outcome.exception, KeyboardInterrupt | SystemExit):
        raise outcome.exception
    result = _result(
        outcome,
        elapsed_seconds=time.perf_counter() - started,
        notes=tuple(notes),
        log_file=log_dir / "dbt.log",
    )
    if result.failures:
        raise BuildFailed(result)
    return result


@contextlib.contextmanager
def _quiet_logging() -> Iterator[None]:
    """A log that cannot be written, as on a full disk, must not bury the error under a traceback per line."""
    raised = logging.raiseExceptions
    logging.raiseExceptions = False
    try:
        yield
    finally:
        logging.raiseExceptions = raised


def release_database() -> None:
    """Close the DuckDB instance that dbt-duckdb keeps open on its class for the whole process
    (`keep_open` defaults to true), so that this and other processes can open the file.
    """
    from dbt.adapters.duckdb.connections import DuckDBConnectionManager
    from dbt.adapters.factory import reset_adapters

    reset_adapters()  # type: ignore[no-untyped-call]
    environment = DuckDBConnectionManager._ENV
    if environment is not None:
        environment.close()
    DuckDBConnectionManager.close_all_connections()  # type: ignore[no-untyped-call]


def one_line(message: str) -> str:
    """The root cause in a message of dbt, DuckDB or Python, as one line of at most
    MAX_MESSAGE_CHARS characters, keeping the names of the files it is about.
    """
    text = _ANSI.sub("", message).replace("\r", "")
    if _TRACEBACK in text:
        text = _raised(text)
    if "mismatch_reason" in text:
        return _shortened(f"the enforced contract does not hold: {_contract_mismatches(text)}")
    lines = [line.strip() for line in text.splitlines()]
    if "actual differs from expected:" in lines:
        return _shortened(" ".join(line for line in lines if line))
    body = _without_heading(lines)
    cause = " ".join(_first_paragraph(body)) or " ".join(body) or " ".join(text.split())
    files = [name for name in _FILE_LINE.findall(text) if name not in cause]
    return _shortened(cause + (f" (file {', '.join(files)})" if files else ""))


def _result(
    outcome: "dbtRunnerResult", *, elapsed_seconds: float, notes: tuple[str, ...], log_file: Path
) -> BuildResult:
    nodes = _node_results(outcome)
    failures = [_node_message(node) for node in nodes if str(node.status) in _FAILED]
    if outcome.exception is not None:
        failures.append(_exception_message(outcome.exception))
    if not outcome.success and not failures:
        failures.append(NodeMessage("dbt", f"the build failed without a message; see {log_file}"))
    return BuildResult(
        status="failed" if failures else "success",
        elapsed_seconds=elapsed_seconds,
        counts=dict(sorted(Counter(str(node.status) for node in nodes).items())),
        failures=tuple(failures),
        warnings=tuple(_node_message(node) for node in nodes if str(node.status) == "warn"),
        notes=notes,
        log_file=log_file,
    )


def _node_results(outcome: "dbtRunnerResult") -> "list[NodeResult]":
    from dbt.artifacts.schemas.run import RunExecutionResult

    return list(outcome.result.results) if isinstance(outcome.result, RunExecutionResult) else []


def _node_message(result: "NodeResult") -> NodeMessage:
    node = result.node
    kind = str(node.resource_type).replace("_", " ")
    where = f" ({node.original_file_path})" if "test" in kind else ""
    return NodeMessage(f"{kind} {node.name}{where}", one_line(result.message or "no message"))


def _exception_message(error: BaseException) -> NodeMessage:
    text = _ANSI.sub("", str(error))
    headings = [match for line in text.splitlines() if (match := _HEADING.match(line.strip())) is not None]
    named = next((heading for heading in headings if heading["name"]), None)
    if named is None or named["kind"] == "operation":
        return NodeMessage("", one_line(text) or type(error).__name__)
    return NodeMessage(f"{named['kind']} {named['name']} ({named['path']})", one_line(text))


def _raised(text: str) -> str:
    """From the last traceback on: the exception and its message, without the frames."""
    indent = re.search(rf"^(\s*){re.escape(_TRACEBACK)}", text, flags=re.MULTILINE)
    prefix = indent[1].replace("\n", "") if indent else ""
    lines = [line.removeprefix(prefix) for line in text.splitlines()]
    last = max(index for index, line in enumerate(lines) if line.startswith(_TRACEBACK))
    raised = [
        index for index, line in enumerate(lines[last + 1 :], start=last + 1) if re.match(r"[A-Za-z_][\w.]*(:|$)", line)
    ]
    return "\n".join(lines[raised[0] :]) if raised else text


def _without_heading(lines: list[str]) -> list[str]:
    body = [line for line in lines if line]
    while body and _HEADING.match(body[0]):
        body = body[1:]
    start = lines.index(body[0]) if body else len(lines)
    return lines[start:]


def _first_paragraph(lines: list[str]) -> list[str]:
    paragraph: list[str] = []
    for line in lines:
        if not line or _STOP.match(line):
            break
        paragraph.append(line)
    return paragraph


def _contract_mismatches(text: str) -> str:
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in text.splitlines()
        if line.strip().startswith("|")
    ]
    return "; ".join(
        f"{name} {reason} (model {defined or 'none'}, contract {declared or 'none'})"
        for name, defined, declared, reason in rows[2:]
    )


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_MESSAGE_CHARS else line[: MAX_MESSAGE_CHARS - 1] + "…"
