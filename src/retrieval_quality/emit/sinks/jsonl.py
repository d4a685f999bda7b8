"""Landing files: rotating JSON lines."""

import json
import logging
import os
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from retrieval_quality.emit.rows import Row
from retrieval_quality.emit.sinks.base import Sink
from retrieval_quality.emit.sinks.files import OpenFile, Recovered, process_name, recover
from retrieval_quality.emit.stats import SinkStats, Stats

_LOG: Final = logging.getLogger("retrieval_quality.emit")
_RECOVER_SECONDS: Final = 60.0


class JsonlSink(Sink):
    """Writes `<landing>/<contract>/dt=YYYY-MM-DD/emit-….jsonl`, the UTC day being that of writing.

    A file is hidden (its name starts with a dot) until it is complete: at `max_bytes`, `max_seconds`
    after its first row, at the end of the day, at `close`. It may pass `max_bytes` by one batch where
    a single batch is larger. Each batch is handed to the operating system at once, so what was
    written survives `kill -9`; files are synced to disk when they are complete. Files of dead
    processes are recovered at the first row and then once a minute.
    """

    def __init__(self, landing: str | os.PathLike[str], max_bytes: int = 64 * 2**20, max_seconds: float = 600) -> None:
        self._landing = Path(landing).absolute()
        self._max_bytes = max_bytes
        self._max_seconds = max_seconds
        self._files: dict[str, OpenFile] = {}
        self._forget_process()
        self._recovered = Recovered()
        self._n_lost = 0

    def write(self, batch: Sequence[Row]) -> None:
        if self._recovered_at is None:
            self._recover()
        contract = batch[0].contract
        data = b"".join([row.line + b"\n" for row in batch])
        file = self._file(contract, len(data))
        try:
            file.append(data, len(batch))
        except OSError:
            if os.fstat(file.descriptor).st_size > file.size:  # it could not be cut back: recovery will
                del self._files[contract]
                file.let_go()
            raise

    def flush(self) -> None:
        """Publish the files that are due."""
        for contract in list(self._files):
            self._put_in_place(contract)
            if self._is_due(self._files[contract], 0):
                self._publish(contract)
        if self._recovered_at is not None and time.monotonic() - self._recovered_at >= _RECOVER_SECONDS:
            self._recover()

    def close(self) -> None:
        """Publish all files; what cannot be published stays hidden, and is recovered later."""
        faults = []
        for contract in list(self._files):
            try:
                self._put_in_place(contract)
                self._publish(contract)
            except OSError as error:
                faults.append(error)
                file = self._files.pop(contract)
                if not file.is_in_place():
                    self._n_lost += file.n_rows
                file.let_go()
        if faults:
            raise faults[0]

    def after_fork(self) -> None:
        """The parent's files are the parent's. The descriptors must go, as they hold the locks."""
        for file in self._files.values():
            with suppress(OSError):
                file.let_go()
        self._files = {}
        self._forget_process()
        self._recovered = Recovered()
        self._n_lost = 0

    def report(self, stats: Stats) -> None:
        """`<landing>/_emit/<process>.json`: the counts of a process that lost rows. Staging ignores it."""
        folder = self._landing / "_emit"
        folder.mkdir(parents=True, exist_ok=True)
        told = {"written_at": f"{datetime.now(tz=UTC):%Y-%m-%dT%H:%M:%SZ}", "process": self._process, **asdict(stats)}
        target = folder / f"{self._process}-{self._token}.json"
        draft = target.with_suffix(".tmp")
        draft.write_text(json.dumps(told) + "\n")
        draft.replace(target)

    def stats(self) -> SinkStats:
        return SinkStats(
            lost={"file_lost": self._n_lost} if self._n_lost else {},
            recovered_files=self._recovered.n_files,
            torn_lines=self._recovered.n_torn_lines,
        )

    def _forget_process(self) -> None:
        self._process = process_name()
        self._token = secrets.token_hex(4)
        self._n_files = 0
        self._recovered_at: float | None = None

    def _file(self, contract: str, n_bytes: int) -> OpenFile:
        if contract in self._files:
            self._put_in_place(contract)
            if self._is_due(self._files[contract], n_bytes):
                self._publish(contract)
        if contract not in self._files:
            self._files[contract] = self._create(contract)
        return self._files[contract]

    def _create(self, contract: str) -> OpenFile:
        self._n_files += 1
        return OpenFile.create(self._landing, contract, self._process, self._n_files)

    def _is_due(self, file: OpenFile, n_bytes: int) -> bool:
        return (
            (file.size > 0 and file.size + n_bytes > self._max_bytes)
            or time.monotonic() - file.opened_at >= self._max_seconds
            or datetime.now(tz=UTC).date() != file.day
        )

    def _publish(self, contract: str) -> None:
        self._files[contract].publish()
        del self._files[contract]

    def _put_in_place(self, contract: str) -> None:
        """Where somebody deleted or moved the folder: the file's lines into a new file."""
        file = self._files[contract]
        if file.is_in_place():
            return
        _LOG.warning("%s was deleted or moved; its %s rows are written anew", file.hidden, file.n_rows)
        copy = self._create(contract)
        try:
            file.copy_to(copy)
        except OSError:
            copy.hidden.unlink(missing_ok=True)
            copy.let_go()
            raise
        copy.opened_at = file.opened_at
        self._files[contract] = copy
        file.let_go()

    def _recover(self) -> None:
        self._recovered_at = time.monotonic()
        found = recover(self._landing)
        if found.n_files or found.n_torn_lines:
            _LOG.warning(
                "%s files of ended processes recovered, %s unfinished last lines cut off",
                found.n_files,
                found.n_torn_lines,
            )
        self._recovered = Recovered(
            self._recovered.n_files + found.n_files, self._recovered.n_torn_lines + found.n_torn_lines
        )
