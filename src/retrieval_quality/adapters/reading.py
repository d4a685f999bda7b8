"""Records out of JSON files of any size, one at a time.

JSON lines are read by line, so that one bad line costs one record. One large document (OTLP/JSON,
or an array of records) is read element by element: memory follows the largest element.
"""

import codecs
import gzip
import io
import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import IO, Final, Self, cast

from retrieval_quality.adapters.rows import Unmapped

# where records lie inside a document: key -> what is below it; an empty mapping is a record
Tree = Mapping[str, "Tree"]

TOO_DEEP: Final = "nested too deeply"
MAX_LINE_BYTES: Final = 64 * 2**20
_HEAD_BYTES: Final = 2**20
_CHUNK_BYTES: Final = 2**20
_BLANK: Final = " \t\r\n"
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_NO_TREE: Final[Tree] = {}


class DamagedFileError(Exception):
    """A compressed file that cannot be decompressed to its end."""


@dataclass(frozen=True)
class Record:
    """One JSON object of a file. `where`: `name:line`, or `name#n` for the n-th of a document.
    `around`: what the objects that hold it say beside it, such as the `resource` of OTLP spans.
    """

    where: str
    value: Mapping[str, object]
    around: Mapping[str, object] = field(default_factory=dict)


def read_records(path: Path, tree: Tree = _NO_TREE) -> Iterator[Record | Unmapped]:
    """The objects of a JSON-lines file, an array, or the places of a document that `tree` names.

    A compressed file (gzip, zstd) is told by its first bytes. What is no JSON object is yielded as
    `Unmapped`. Raises OSError when the file cannot be read.
    """
    try:
        with open_bytes(path) as file:
            head = file.read(_HEAD_BYTES)
        read = _read_lines if _is_lines(head) else _read_document
        yield from read(path, tree)
    except DamagedFileError as error:
        yield Unmapped(path.name, str(error))


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The file's bytes, decompressed when they are gzip or zstd. Raises OSError, DamagedFileError."""
    with path.open("rb") as raw:
        head = raw.read(len(_ZSTD))
        raw.seek(0)
        if head.startswith(_GZIP):
            try:
                with gzip.open(raw, "rb") as file:
                    yield cast("IO[bytes]", file)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise DamagedFileError(f"damaged gzip file: {error}") from error
        elif head == _ZSTD:
            # the standard library reads zstd from Python 3.14 on
            import pyarrow as pa

            try:
                with pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd") as stream:
                    yield io.BufferedReader(stream)
            except pa.ArrowException as error:
                raise DamagedFileError(f"damaged zstd file: {error}") from error
            except OSError as error:
                # Arrow's own errors have no number, those of the disk do
                if error.errno is not None:
                    raise
                raise DamagedFileError(f"damaged zstd file: {error}") from error
        else:
            yield raw


class Spool:
    """Records grouped by a key, on disk: an export's parts of one call may lie anywhere in it.

    A temporary SQLite database without a name; SQLite deletes it when it is closed.
    """

    def __init__(self) -> None:
        self._connection = sqlite3.connect("")
        self._connection.execute("pragma journal_mode = off")
        self._connection.execute("create table items (key text, payload text)")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def add(self, key: str, payload: object) -> bool:
        """Keep a JSON value under `key`. False when it is nested too deeply to be written."""
        try:
            text = json.dumps(payload)
        except RecursionError:
            return False
        self._connection.execute("insert into items values (?, ?)", (_storable(key), text))
        return True

    def take(self, key: str) -> list[object]:
        """The values of a key in order of arrival; they are no longer kept."""
        self._connection.execute("create index if not exists items_by_key on items (key)")
        wanted = (_storable(key),)
        rows = self._connection.execute("select payload from items where key = ? order by rowid", wanted).fetchall()
        if rows:
            self._connection.execute("delete from items where key = ?", wanted)
        return [json.loads(payload) for (payload,) in rows]

    def groups(self) -> Iterator[list[object]]:
        """The values of each key in order of arrival; keys in order of their first value."""
        self._connection.execute("create index if not exists items_by_key on items (key)")
        keys = self._connection.execute("select key from items group by key order by min(rowid)")
        for (key,) in keys:
            rows = self._connection.execute("select payload from items where key = ? order by rowid", (key,))
            yield [json.loads(payload) for (payload,) in rows]


def _storable(key: str) -> str:
    return key.encode("utf-8", "backslashreplace").decode()


def _is_lines(head: bytes) -> bool:
    """Is this a file of one object per line? A document's first line ends where it goes on."""
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    line, line_feed, _ = text.partition(b"\n")
    if text.startswith(b"[") or (len(head) == _HEAD_BYTES and not line_feed):
        return False
    return _is_object(line) or not line.rstrip().endswith((b"{", b"[", b",", b":"))


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _read_lines(path: Path, tree: Tree) -> Iterator[Record | Unmapped]:
    with open_bytes(path) as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES):
            number += 1
            where = f"{path.name}:{number}"
            if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
                while (rest := file.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
                    pass
                yield Unmapped(where, "line longer than 64 MB")
                continue
            text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            if text.strip():
                yield from _parsed_line(where, text, tree)


def _parsed_line(where: str, line: bytes, tree: Tree) -> Iterator[Record | Unmapped]:
    try:
        value = json.loads(line.decode())
    except UnicodeDecodeError:
        yield Unmapped(where, "not UTF-8")
    except (ValueError, RecursionError):
        # a line without its line feed is the last one: a writer was stopped in it
        yield Unmapped(where, "invalid JSON" if line.endswith(b"\n") else "invalid JSON: the last line is cut off")
    else:
        yield from _expanded(where, value, tree)


def _expanded(
    where: str, value: object, tree: Tree, around: Mapping[str, object] = MappingProxyType({})
) -> Iterator[Record | Unmapped]:
    if isinstance(value, list):
        for element in value:
            yield from _expanded(where, element, tree, around)
    elif not isinstance(value, dict):
        yield Unmapped(where, "not a JSON object")
    elif below := [key for key in tree if isinstance(value.get(key), list | dict)]:
        beside = {**around, **{key: inner for key, inner in value.items() if key not in tree}}
        for key in below:
            yield from _expanded(where, value[key], tree[key], beside)
    else:
        yield Record(where, value, around)


def _read_document(path: Path, tree: Tree) -> Iterator[Record | Unmapped]:
    n_found = 0
    with open_bytes(path) as file:
        reader = _Reader(file)
        try:
            while reader.peek():
                for value, around in _walk(reader, tree, {}):
                    n_found += 1
                    yield from _expanded(f"{path.name}#{n_found}", value, _NO_TREE, around)
        except UnicodeDecodeError:
            yield Unmapped(f"{path.name}#{n_found + 1}", "not UTF-8; the rest of the file is not read")
        except (ValueError, RecursionError):
            yield Unmapped(f"{path.name}#{n_found + 1}", "invalid JSON; the rest of the file is not read")


def _walk(reader: "_Reader", tree: Tree, around: Mapping[str, object]) -> Iterator[tuple[object, Mapping[str, object]]]:
    """Each element of the arrays, each value at an end of `tree`, each object without its keys; with
    what was said around it before it.
    """
    opening = reader.peek()
    if opening == "[":
        for _ in reader.elements():
            yield from _walk(reader, tree, around)
    elif opening == "{" and tree:
        record: dict[str, object] = {}
        is_record = True
        for key in reader.members():
            if key in tree and reader.peek() in ("[", "{"):
                is_record = False
                yield from _walk(reader, tree[key], {**around, **record})
            else:
                record[key] = reader.value()
        if is_record:
            yield record, around
    else:
        yield reader.value(), around


class _Reader:
    """A forward reader of JSON text that holds one value and one chunk. Raises ValueError."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._json = json.JSONDecoder()
        self._text = ""
        self._at = 0
        self._is_end = False

    def peek(self) -> str:
        """The next character that is no blank; empty at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _BLANK:
                self._at += 1
            if self._at < len(self._text) or not self._more(_CHUNK_BYTES):
                return self._text[self._at : self._at + 1]

    def value(self) -> object:
        """The next value, whole. Reads on, ever further, while it may be cut off by the buffer."""
        self.peek()
        n_bytes = _CHUNK_BYTES
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
                if end < len(self._text) or self._is_end:
                    self._at = end
                    return value
            except ValueError:
                if self._is_end:
                    raise
            self._more(n_bytes)
            n_bytes *= 2

    def elements(self) -> Iterator[None]:
        """Once before each element of the list that begins here; the caller reads the element."""
        self._take("[")
        while self.peek() != "]":
            yield
            if self.peek() != "]":
                self._take(",")
        self._take("]")

    def members(self) -> Iterator[str]:
        """Each key of the object that begins here; the caller reads its value."""
        self._take("{")
        while self.peek() != "}":
            key = self.value()
            if not isinstance(key, str):
                raise ValueError("a key is no text")  # noqa: TRY004 - one kind of error for bad JSON
            self._take(":")
            yield key
            if self.peek() != "}":
                self._take(",")
        self._take("}")

    def _take(self, expected: str) -> None:
        if self.peek() != expected:
            raise ValueError(f"expected {expected}")
        self._at += 1

    def _more(self, n_bytes: int) -> bool:
        chunk = self._file.read(n_bytes)
        self._is_end = not chunk
        self._text = self._text[self._at :] + self._decode(chunk, final=not chunk)
        self._at = 0
        return bool(self._text) and not self._is_end
