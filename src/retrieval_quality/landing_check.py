"""Pre-flight check of the landing folder: cheap, before a build that takes minutes."""

import difflib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, Final

from retrieval_quality.contracts import CONTRACTS

EXTENSIONS: Final = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")

_COMPRESSIONS: Final = (".gz", ".zst", ".bz2", ".xz", ".zip", ".snappy", ".lz4")
_DATA_LIKE: Final = (".jsonl", ".json", ".ndjson", ".parquet", ".csv", ".tsv", *_COMPRESSIONS)
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE_TAIL: Final = b"\x2a\x4d\x18"
_PARQUET: Final = b"PAR1"
_PARQUET_MIN_BYTES: Final = 12


class LandingError(Exception):
    """The landing folder cannot be read as it is; one line that says what and where."""


def check_landing(landing: Path) -> None:
    """Raise LandingError at the first thing below `landing` that a build would misread or skip.

    Looks at names, file kinds and the first and last four bytes, never at content. Names that
    start with `.` or `_` are ignored.
    """
    _check_directory(landing)
    for entry in sorted(_listed(landing), key=lambda entry: entry.name):
        path = Path(entry.path)
        if entry.is_dir():
            _check_contract_name(landing, entry.name)
            for file in data_files(path):
                _check_file(file)
        elif entry.name in CONTRACTS:
            raise LandingError(f"{_shown(path)}: is a file; a contract is a folder of files")
        elif entry.name.endswith(_DATA_LIKE):
            raise LandingError(f"{_shown(path)}: lies outside a contract folder; move it to {landing.name}/<contract>/")


def damaged_files(landing: Path) -> tuple[str, ...]:
    """One line for each compressed landing file that does not decompress; reads all of them.

    For the search after a failed build, whose message may name no file (zstd).
    """
    return tuple(
        f"{_shown(path)}: damaged, cannot be decompressed ({reason})"
        for entry in sorted(_listed(landing), key=lambda entry: entry.name)
        if entry.is_dir()
        for path in data_files(Path(entry.path))
        if path.name.endswith((".gz", ".zst"))
        for reason in _decompression_faults(path)
    )


def refuse_cut_off(files: Iterable[str]) -> None:
    """Raise LandingError at the first zstd file that ends before its last frame does.

    DuckDB reads what is there without a word, where it refuses such a gzip file: nobody would miss the other lines.
    """
    for path in map(Path, files):
        if path.name.endswith(".zst") and _is_cut_off(path):
            raise LandingError(f"{_shown(path)}: damaged, cannot be decompressed (its last bytes are missing)")


def _check_directory(landing: Path) -> None:
    if not landing.exists():
        raise LandingError(f"landing folder {landing} does not exist")
    if not landing.is_dir():
        raise LandingError(f"landing {landing} is not a folder")


def _check_contract_name(landing: Path, name: str) -> None:
    if name in CONTRACTS:
        return
    close = difflib.get_close_matches(name, CONTRACTS, n=1)
    hint = f"; did you mean '{close[0]}'?" if close else "."
    raise LandingError(f"{landing.name} folder '{name}' is no contract{hint} Known: {', '.join(CONTRACTS)}")


def _listed(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return [entry for entry in entries if not entry.name.startswith((".", "_"))]
    except OSError as error:
        raise LandingError(f"{_shown(directory)}: cannot be listed: {error.strerror}") from error


def data_files(directory: Path) -> Iterator[Path]:
    """The files of a contract folder that are read, in order. Raises LandingError at a symbolic link."""
    for entry in sorted(_listed(directory), key=lambda entry: entry.name):
        path = Path(entry.path)
        if entry.is_symlink():
            raise LandingError(f"{_shown(path)}: is a symbolic link, which is not read; copy it")
        if entry.is_dir():
            yield from data_files(path)
        else:
            yield path


def _check_file(path: Path) -> None:
    if not path.name.endswith(EXTENSIONS):
        extension = _extension(path.name)
        subject = f"extension {extension}" if extension else "a file without extension"
        raise LandingError(
            f"{_shown(path)}: {subject} is not read; use {', '.join(EXTENSIONS[:-1])} or {EXTENSIONS[-1]}"
        )
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise LandingError(f"{_shown(path)}: is not a regular file")
        head, tail = _ends(path, status.st_size)
    except OSError as error:
        raise LandingError(f"{_shown(path)}: cannot be read: {error.strerror}") from error
    fault = _magic_fault(path.name, head, tail, status.st_size)
    if fault:
        raise LandingError(f"{_shown(path)}: {fault}")


def _ends(path: Path, n_bytes: int) -> tuple[bytes, bytes]:
    with path.open("rb") as file:
        head = file.read(4)
        file.seek(max(0, n_bytes - 4))
        return head, file.read(4)


def _magic_fault(name: str, head: bytes, tail: bytes, n_bytes: int) -> str | None:
    if name.endswith(".gz"):
        return None if head.startswith(_GZIP) else "is named .gz but holds no gzip data"
    if name.endswith(".zst"):
        return None if _is_zstd(head) else "is named .zst but holds no zstd data"
    if name.endswith(".parquet"):
        if head != _PARQUET:
            return "is named .parquet but holds no Parquet data"
        if tail != _PARQUET or n_bytes < _PARQUET_MIN_BYTES:
            return "Parquet file is cut off (its last bytes are missing)"
        return None
    if head.startswith(_GZIP):
        return "holds gzip data; name it .jsonl.gz"
    if _is_zstd(head):
        return "holds zstd data; name it .jsonl.zst"
    if head == _PARQUET:
        return "holds Parquet data; name it .parquet"
    return None


def _is_zstd(head: bytes) -> bool:
    return head == _ZSTD or _is_skippable(head)


def _is_skippable(head: bytes) -> bool:
    return head[1:] == _ZSTD_SKIPPABLE_TAIL and head[0] & 0xF0 == 0x50


def _is_cut_off(path: Path) -> bool:
    """By the sizes that frames and blocks tell, without decompressing (RFC 8878, 3.1)."""
    with path.open("rb") as file:
        n_bytes = os.fstat(file.fileno()).st_size
        try:
            while file.tell() < n_bytes:
                magic = file.read(4)
                if _is_skippable(magic):
                    file.seek(_number(file, 4), os.SEEK_CUR)
                elif magic == _ZSTD:
                    _pass_frame(file)
                else:  # that DuckDB does not accept
                    return len(magic) < 4
        except EOFError:
            return True
        return file.tell() > n_bytes


def _pass_frame(file: BinaryIO) -> None:
    descriptor = _number(file, 1)
    is_single_segment, has_checksum = descriptor >> 5 & 1, descriptor >> 2 & 1
    content_size_bytes = (is_single_segment, 2, 4, 8)[descriptor >> 6]
    dictionary_id_bytes = (0, 1, 2, 4)[descriptor & 3]
    file.seek((1 - is_single_segment) + dictionary_id_bytes + content_size_bytes, os.SEEK_CUR)
    is_last = False
    while not is_last:
        block = _number(file, 3)
        is_last = bool(block & 1)
        is_one_byte_repeated = block >> 1 & 3 == 1
        file.seek(1 if is_one_byte_repeated else block >> 3, os.SEEK_CUR)
    file.seek(4 * has_checksum, os.SEEK_CUR)


def _number(file: BinaryIO, n_bytes: int) -> int:
    read = file.read(n_bytes)
    if len(read) < n_bytes:
        raise EOFError
    return int.from_bytes(read, "little")


def _decompression_faults(path: Path) -> Iterator[str]:
    """DuckDB's own words, as it is DuckDB that could not read the file."""
    import duckdb

    query = (
        "select count(*) from read_csv(?, columns = {line: 'VARCHAR'}, auto_detect = false, "
        "header = false, delim = '\x01', quote = '', escape = '', ignore_errors = true)"
    )
    try:
        with closing(duckdb.connect(":memory:")) as con:
            con.execute(query, [str(path)]).fetchall()
    except duckdb.IOException as error:
        yield str(error).splitlines()[0]
    except duckdb.Error:
        return


def _extension(name: str) -> str:
    suffixes = Path(name).suffixes
    return "".join(suffixes[-2:] if suffixes and suffixes[-1] in _COMPRESSIONS else suffixes[-1:])


def _shown(path: Path) -> str:
    current_dir = Path.cwd()
    return str(path.relative_to(current_dir) if path.is_relative_to(current_dir) else path)
