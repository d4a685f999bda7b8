"""The lines of a landed file of JSON lines as bytes, as they were landed."""

import gzip
import io
from collections.abc import Iterator
from pathlib import Path

_BUFFER_BYTES = 2**20


def raw_lines(path: str) -> Iterator[bytes]:
    """Every physical line with its end. Raises OSError, EOFError or zlib.error where the file is damaged."""
    if path.endswith(".gz"):
        with gzip.open(path) as packed:
            yield from io.BufferedReader(packed, _BUFFER_BYTES)
    elif path.endswith(".zst"):
        # the standard library reads zstd from Python 3.14 on
        import pyarrow as pa

        with pa.CompressedInputStream(pa.OSFile(path), "zstd") as stream:
            yield from io.BufferedReader(stream, _BUFFER_BYTES)
    else:
        with Path(path).open("rb", buffering=_BUFFER_BYTES) as file:
            yield from file
