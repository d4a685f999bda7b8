"""Landing files while they are written: hidden, locked by their writer, renamed when complete.

The lock (flock) goes with the process, however it ends: who gets it has the proof that the writer
is gone. Process ids prove nothing, they come back.
"""

import fcntl
import os
import re
import secrets
import socket
import time
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final, Self

CONTRACTS: Final = ("retrieval_traces", "feedback", "answers")

_PREFIX: Final = "emit-"
_SUFFIX: Final = ".jsonl"
_COPY_BYTES: Final = 2**20
_MAX_HOST: Final = 40
_FOREIGN_SECONDS: Final = 3600.0
_TRIES: Final = 5


@dataclass
class OpenFile:
    """A file in progress. `size`: bytes of complete lines. `opened_at`: monotonic seconds."""

    descriptor: int
    hidden: Path
    day: date
    opened_at: float
    size: int = 0
    n_rows: int = 0

    @classmethod
    def create(cls, landing: Path, contract: str, process: str, number: int) -> Self:
        """A new hidden file below `<landing>/<contract>/dt=<today, UTC>/`, locked. Raises OSError."""
        day = datetime.now(tz=UTC).date()
        folder = landing / contract / f"dt={day.isoformat()}"
        for _ in range(_TRIES):
            folder.mkdir(parents=True, exist_ok=True)
            name = f".{_PREFIX}{process}-{number:06d}-{secrets.token_hex(4)}{_SUFFIX}"
            descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
            file = cls(descriptor, folder / name, day, time.monotonic())
            # another process may have taken it for an orphan between these two calls
            if _locked(descriptor) is not False and file.is_in_place():
                return file
            file.let_go()
        raise BlockingIOError(f"{folder}: every new file is taken by another process")

    def is_in_place(self) -> bool:
        """Does the name still lead to the file? Not after its folder was deleted or moved."""
        return _is_at(self.descriptor, self.hidden)

    def append(self, data: bytes, n_rows: int) -> None:
        """All of it, or nothing and OSError."""
        written = 0
        try:
            while written < len(data):
                written += os.pwrite(self.descriptor, memoryview(data)[written:], self.size + written)
        except OSError:
            os.ftruncate(self.descriptor, self.size)
            raise
        self.size += len(data)
        self.n_rows += n_rows

    def copy_to(self, other: "OpenFile") -> None:
        """The complete lines, into an empty file; a file without a name can still be read."""
        for at in range(0, self.size, _COPY_BYTES):
            data = os.pread(self.descriptor, min(_COPY_BYTES, self.size - at), at)
            other.append(data, 0)
        other.n_rows = self.n_rows

    def publish(self) -> None:
        """To disk, and under its final name. Raises OSError; then it can be tried again."""
        if self.size == 0:
            self.hidden.unlink(missing_ok=True)
        else:
            os.fsync(self.descriptor)
            self.hidden.rename(final_path(self.hidden))
        self.let_go()

    def let_go(self) -> None:
        """Close it; with the last descriptor the lock goes."""
        os.close(self.descriptor)


@dataclass(frozen=True)
class Recovered:
    """Files of dead processes that were brought to light, and unfinished last lines cut off them."""

    n_files: int = 0
    n_torn_lines: int = 0


def process_name() -> str:
    """Host, process id and time: part of the name of every file of this process."""
    host = re.sub(r"[^A-Za-z0-9]+", "_", socket.gethostname())[:_MAX_HOST]
    return f"{host}-{os.getpid()}-{time.time_ns() // 10**6}"


def final_path(hidden: Path) -> Path:
    return hidden.with_name(hidden.name.removeprefix("."))


def recover(landing: str | os.PathLike[str]) -> Recovered:
    """Publish the hidden files whose writer is dead: complete lines stay, an unfinished last one is
    cut off and counted.

    Files named by another host wait until an hour has passed since the last write, because a lock
    may not reach across hosts. A file that cannot be handled is left for the next time.
    """
    host = process_name().partition("-")[0]
    n_files = n_torn_lines = 0
    for contract in CONTRACTS:
        for path in sorted(Path(landing, contract).glob(f"*/.{_PREFIX}*{_SUFFIX}")):
            try:
                is_ours = path.name.startswith(f".{_PREFIX}{host}-")
                if not is_ours and time.time() - path.stat().st_mtime < _FOREIGN_SECONDS:
                    continue
                found = _recover_file(path)
            except OSError:
                continue
            n_files += found.n_files
            n_torn_lines += found.n_torn_lines
    return Recovered(n_files, n_torn_lines)


def _recover_file(path: Path) -> Recovered:
    descriptor = os.open(path, os.O_RDWR)
    try:
        if _locked(descriptor) is not True or not _is_at(descriptor, path):
            return Recovered()
        size = os.fstat(descriptor).st_size
        good = _end_of_lines(descriptor, size)
        if good < size:
            os.ftruncate(descriptor, good)
        if good:
            os.fsync(descriptor)
            path.rename(final_path(path))
        else:
            path.unlink()
        return Recovered(n_files=int(good > 0), n_torn_lines=int(good < size))
    finally:
        os.close(descriptor)


def _end_of_lines(descriptor: int, size: int) -> int:
    """The offset behind the last line feed."""
    end = size
    while end > 0:
        start = max(0, end - _COPY_BYTES)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _locked(descriptor: int) -> bool | None:
    """True: locked now. False: another has it. None: the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False
