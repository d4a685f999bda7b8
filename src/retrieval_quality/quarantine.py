"""The raw text of rejected lines: what staging turned away, as it was landed."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from collections.abc import Set as AbstractSet
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd

from retrieval_quality.raw_lines import raw_lines

COLUMNS = ["file_id", "load_id", "path_to_read", "line_number", "reject_reason", "raw_text"]

Line = dict[Hashable, Any]

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# A rejected line is kept for a person to read; a pasted document of megabytes is cut.
MAX_RAW_CHARACTERS = 100_000


def with_raw_lines(rejected: pd.DataFrame, registered: pd.DataFrame) -> pd.DataFrame:
    """Add the line number and raw text to rejected lines.

    Args:
        rejected: one row per rejected line: file_id, load_id, path_to_read, line_place (1-based
            place among the non-blank lines of the file), reject_reason, and rejected_text, the row
            of a relation as JSON, NULL for the line of a file.
        registered: file_id, size_bytes and modified_at (UTC) of landed files, as they were then.

    Returns:
        One row per rejected line with `COLUMNS`: line_number is the 1-based physical line (for
        Parquet the row), raw_text the line as landed, undecodable bytes shown as U+FFFD.
        `unreadable_line` is told apart into invalid_utf8, invalid_json, not_an_object and
        no_known_key. Where the file has vanished or changed so that the line is no longer there,
        raw_text is NULL and line_number the place.

    Raises:
        OSError: a file that was landed is no longer readable.
        ValueError: a file that did not change has fewer lines than were rejected in it.
    """
    as_registered = {row["file_id"]: row for row in registered.to_dict("records")}
    in_relations = rejected["rejected_text"].notna()
    texts: list[tuple[object, ...]] = [
        (line["file_id"], line["load_id"], line["path_to_read"], line["line_place"], line["reject_reason"], text)
        for line in rejected[in_relations].to_dict("records")
        for text in [str(line["rejected_text"])[:MAX_RAW_CHARACTERS]]
    ]
    lines = [
        row
        for (path, file_id), of_file in rejected[~in_relations].groupby(["path_to_read", "file_id"], sort=True)
        for row in _rows_of_file(str(path), of_file.to_dict("records"), as_registered[file_id])
    ]
    return pd.DataFrame(texts + lines, columns=COLUMNS).astype(
        {"file_id": "int32", "load_id": "int32", "line_number": "int64"}
        | dict.fromkeys(("path_to_read", "reject_reason", "raw_text"), "str")
    )


def _rows_of_file(path: str, rejected: list[Line], registered: Line) -> list[tuple[object, ...]]:
    try:
        return list(_matched(path, {line["line_place"]: line for line in rejected}))
    except (FileNotFoundError, ValueError):
        if _is_as_registered(path, registered):
            raise
    return [
        (line["file_id"], line["load_id"], path, line["line_place"], line["reject_reason"], None) for line in rejected
    ]


def _matched(path: str, rejected: dict[int, Line]) -> Iterator[tuple[object, ...]]:
    n_found = 0
    for place, number, raw in _lines_at(path, rejected.keys()):
        n_found += 1
        line = rejected[place]
        reason = _told_apart(line["reject_reason"], raw, path)
        yield line["file_id"], line["load_id"], path, number, reason, _readable(raw)
    if n_found != len(rejected):
        raise ValueError(f"{path}: {len(rejected) - n_found} rejected lines are gone")


def _is_as_registered(path: str, registered: Line) -> bool:
    try:
        status = Path(path).stat()
    except FileNotFoundError:
        return False
    modified_at = pd.Timestamp(status.st_mtime_ns // 1000, unit="us")
    return (status.st_size, modified_at) == (registered["size_bytes"], registered["modified_at"])


def _lines_at(path: str, places: AbstractSet[int]) -> Iterator[tuple[int, int, bytes]]:
    """(place, physical line number, raw bytes) of the lines at these places among the non-blank ones.

    A plain loop, as it may run over a million lines to find ten.
    """
    if path.endswith(".parquet"):
        with duckdb.connect() as connection:
            rows = connection.execute(
                "select to_json(landed)::varchar from read_parquet(?) as landed", [path]
            ).fetchall()
        yield from ((place, place, text.encode()) for place, (text,) in enumerate(rows, start=1) if place in places)
        return
    lines = raw_lines(path)
    first = next(lines, b"").removeprefix(BYTE_ORDER_MARK)
    place = 0
    for number, line in enumerate(chain([first], lines), start=1):
        # what begins a line of text sorts after white space: few lines are looked at twice
        if line < b"!" and not line.strip():
            continue
        place += 1
        if place in places:
            yield place, number, line.rstrip(b"\r\n")


def _told_apart(reason: str, raw: bytes, path: str) -> str:
    kind = _kind(raw)
    if reason == "unreadable_line":
        return "no_known_key" if kind == "object" else kind
    if kind != "object":
        raise ValueError(f"{path}: a line rejected as {reason} is not where it was read")
    return reason


def _kind(raw: bytes) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return "invalid_utf8"
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # a lone surrogate is no text
    except (ValueError, RecursionError):
        return "invalid_json"
    return "object" if isinstance(value, dict) else "not_an_object"


def _readable(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace")[:MAX_RAW_CHARACTERS]
