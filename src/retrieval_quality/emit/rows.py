"""Rows on their way: as they were logged, and as they leave the process."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from retrieval_quality.emit.redaction import Redact
from retrieval_quality.emit.values import COLUMNS

MAX_LINE_BYTES: Final = 64 * 2**20  # what a landing line may have

_JSON: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_REDACTED: Final = ("query", "answer_text")
_REDACTED_IN_CITATIONS: Final = ("quote", "claim")


@dataclass(frozen=True, slots=True)
class Row:
    """One row as it leaves the process.

    `contract`: its landing folder. `values`: JSON values by column; columns without a value are
    left out, but for `retrieved`. `line`: the same as one line of JSON in UTF-8, without the line
    feed. `key`: session, else trace; what belongs together.
    """

    contract: str
    values: Mapping[str, object]
    line: bytes
    key: str


class RefusedRowError(Exception):
    """A row that cannot be written. `reason`: `invalid`, `not_serialisable`, `redaction_failed`.

    The message never holds a text of the row.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def finished(contract: str, logged: Mapping[str, Any], redact: Redact | None) -> Row:
    """The row as it may leave the process. Raises RefusedRowError."""
    columns = COLUMNS[contract]
    values: dict[str, object] = {}
    for column, convert in columns.items():
        value = logged.get(column)
        if value is None:
            if column == "retrieved":
                values[column] = None
            continue
        try:
            values[column] = convert(value)
        except Exception as error:
            raise RefusedRowError("invalid", f"{contract}.{column}: {_shown(error)}") from None
    if redact is not None:
        _redact(values, redact)
    values, line = _with_line(values)
    ids = (str(values.get(column, "")) for column in ("session_id", "trace_id"))
    key = next((told for told in ids if told.strip()), None)
    if key is None:
        raise RefusedRowError("invalid", f"{contract}: neither session_id nor trace_id")
    if len(line) > MAX_LINE_BYTES:
        raise RefusedRowError("invalid", f"{contract}: a line of more than 64 MB")
    return Row(contract, values, line, key)


def _with_line(values: dict[str, object]) -> tuple[dict[str, object], bytes]:
    """The values and their line of strict JSON; a lone surrogate, which UTF-8 cannot hold, becomes `?`."""
    try:
        text = _JSON.encode(values)
        try:
            return values, text.encode()
        except UnicodeEncodeError:
            line = text.encode("utf-8", "replace")
            return json.loads(line), line
    except Exception as error:
        raise RefusedRowError("not_serialisable", type(error).__name__) from None


def _redact(values: dict[str, object], redact: Redact) -> None:
    for column in _REDACTED:
        if column in values:
            _replace(values, column, redact)
    citations = values.get("citations")
    for citation in citations if isinstance(citations, list) else ():
        for key in _REDACTED_IN_CITATIONS:
            if key in citation:
                _replace(citation, key, redact)


def _replace(values: dict[str, object], key: str, redact: Callable[[str], object]) -> None:
    try:
        text = redact(str(values.pop(key)))
    except Exception as error:
        raise RefusedRowError("redaction_failed", type(error).__name__) from None
    if text is not None:
        if not isinstance(text, str):
            raise RefusedRowError("redaction_failed", f"the hook returned a {type(text).__name__}")
        values[key] = text


def _shown(error: Exception) -> str:
    """Only what names types and bounds; the words of other errors might quote the row."""
    return str(error) if isinstance(error, TypeError | ValueError) else type(error).__name__
