"""One process at a time, by the kernel's lock on a file: it goes with the process, however that ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class HeldError(Exception):
    """Another process holds the lock; `holder` is its id as it wrote it, empty where it has not yet."""

    def __init__(self, holder: str) -> None:
        self.holder = holder
        super().__init__(f"held by process {holder or 'unknown'}")


class BusyError(Exception):
    """Another command is working on this warehouse; one line."""


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, whose folder exists; it holds the id of the process and is never removed.

    Raises HeldError while another process has it, and OSError where it cannot be written.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise HeldError(os.pread(descriptor, 32, 0).decode().strip()) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def changing(warehouse: Path) -> Iterator[None]:
    """Be the only command that changes or publishes `warehouse`, before anything is done.

    Raises BusyError while another one does, and OSError.
    """
    warehouse.parent.mkdir(parents=True, exist_ok=True)
    try:
        with exclusive(warehouse.with_name(f"{warehouse.name}.lock")):
            yield
    except HeldError as held:
        raise BusyError(
            f"another command is working on {warehouse} (process {held.holder or 'unknown'}); nothing was done"
        ) from held
