"""The memory of alerting: `alert_events` in the landing folder, read and appended to, never changed."""

import datetime as dt
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb
from pydantic import ValidationError

from retrieval_quality.contracts import AlertEvent, reading_types
from retrieval_quality.landing_check import EXTENSIONS
from retrieval_quality.locks import HeldError, exclusive

FOLDER: Final = "alert_events"


class AlertError(Exception):
    """Alerting could not do its work; one line, without a secret."""


@dataclass(frozen=True)
class Alert:
    """An alert as its `events` tell it. `intended` and `sent` hold (about, channel) of its messages."""

    events: tuple[AlertEvent, ...]
    opened: AlertEvent
    opened_night_on: dt.date
    resolved: AlertEvent | None
    resolved_night_on: dt.date | None
    acknowledged: AlertEvent | None
    intended: frozenset[tuple[str, str]]
    sent: frozenset[tuple[str, str]]

    @property
    def alert_id(self) -> str:
        """Its key."""
        return self.opened.alert_id

    @property
    def key(self) -> tuple[str, str]:
        """What it is about: objective and segment value."""
        return (self.opened.slo_id or "", self.opened.segment_value or "")

    @property
    def is_open(self) -> bool:
        """Not resolved yet?"""
        return self.resolved is None


@dataclass(frozen=True)
class Memory:
    """All alerts, oldest first, and how many lines could not be read."""

    alerts: tuple[Alert, ...]
    n_unreadable: int


def read_memory(landing: Path) -> Memory:
    """What the files below `landing` say, those included that no night has staged yet.

    Raises AlertError when a file cannot be read.
    """
    rows = _rows(landing / FOLDER)
    events = [event for row in rows if (event := _event(row)) is not None]
    return Memory(alerts=remember(events), n_unreadable=len(rows) - len(events))


def remember(events: Iterable[AlertEvent]) -> tuple[Alert, ...]:
    """The alerts that `events` tell of, in any order; what belongs to no opened alert is left out."""
    by_alert: dict[str, list[AlertEvent]] = {}
    for event in events:
        by_alert.setdefault(event.alert_id, []).append(event)
    alerts = [_alert(of_alert) for of_alert in by_alert.values() if any(event.event == "opened" for event in of_alert)]
    return tuple(sorted(alerts, key=lambda alert: (alert.opened_night_on, alert.key)))


def append(landing: Path, events: Sequence[AlertEvent], *, at: dt.datetime) -> None:
    """Write `events` as one new file: on disk as a whole before this returns, or not there at all.

    Raises OSError.
    """
    if not events:
        return
    folder = landing / FOLDER / f"dt={at:%Y-%m-%d}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{at:%Y%m%dT%H%M%S%f}-{uuid.uuid4().hex[:12]}.jsonl"
    hidden = path.with_name(f".{path.name}")
    with hidden.open("w", encoding="utf-8") as file:
        file.writelines(f"{event.model_dump_json(exclude_none=True)}\n" for event in events)
        file.flush()
        os.fsync(file.fileno())
    hidden.rename(path)
    for directory in (folder, folder.parent):
        _flush_names(directory)


@contextmanager
def only_one(landing: Path) -> Iterator[None]:
    """One command at a time decides and sends; the kernel lets go when the process ends.

    Raises AlertError when another one is at it, OSError when the folder cannot be written to.
    """
    folder = landing / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with exclusive(folder / ".lock"):
            yield
    except HeldError as error:
        raise AlertError(f"another command is alerting on {landing}") from error


def _alert(events: Sequence[AlertEvent]) -> Alert:
    in_order = sorted(events, key=lambda event: (str(event.occurred_at), event.event_id))
    opened = next(event for event in in_order if event.event == "opened")
    resolved = next((event for event in in_order if event.event == "resolved"), None)
    return Alert(
        events=tuple(in_order),
        opened=opened,
        opened_night_on=_day(opened),
        resolved=resolved,
        resolved_night_on=_day(resolved) if resolved is not None else None,
        acknowledged=next((event for event in in_order if event.event == "acknowledged"), None),
        intended=_messages(event for event in events if event.event in ("sending", "sent", "send_failed")),
        sent=_messages(event for event in events if event.event == "sent"),
    )


def _messages(events: Iterable[AlertEvent]) -> frozenset[tuple[str, str]]:
    return frozenset((event.about or "", event.channel or "") for event in events)


def _day(event: AlertEvent) -> dt.date:
    return dt.date.fromisoformat(str(event.night_on)[:10])


def _rows(folder: Path) -> list[dict[str, object]]:
    files = sorted(
        str(path)
        for path in folder.rglob("*")
        if path.name.endswith(EXTENSIONS)
        and not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    )
    columns = reading_types(FOLDER)
    json_files = [file for file in files if not file.endswith(".parquet")]
    parquet_files = [file for file in files if file.endswith(".parquet")]
    typed = ", ".join(f"'{name}': '{duckdb_type}'" for name, duckdb_type in columns.items())
    readers = [
        *([f"read_json({json_files}, columns = {{{typed}}}, {_OPTIONS})"] if json_files else []),
        *([f"read_parquet({parquet_files}, union_by_name = true)"] if parquet_files else []),
    ]
    rows: list[dict[str, object]] = []
    try:
        with closing(duckdb.connect(":memory:")) as con:
            for reader in readers:
                found = con.execute(f"select * from {reader}")
                names = [column[0] for column in found.description or ()]
                rows += [dict(zip(names, row, strict=True)) for row in found.fetchall()]
    except duckdb.Error as error:
        raise AlertError(f"{folder}: {str(error).splitlines()[0]}") from error
    return rows


_OPTIONS: Final = "format = 'newline_delimited', ignore_errors = true, maximum_object_size = 67108864"


def _event(row: dict[str, object]) -> AlertEvent | None:
    told = {
        name: str(value) if isinstance(value, dt.date) else value for name, value in row.items() if value is not None
    }
    try:
        event = AlertEvent.model_validate(told)
        if event.event in ("opened", "resolved"):
            _day(event)
    except (ValidationError, ValueError):
        return None
    return event


def _flush_names(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
