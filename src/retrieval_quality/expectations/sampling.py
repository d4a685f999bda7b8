"""Which lines stand for the others where very much is new.

What a line says decides, not its file, place or order, nor chance: the same lines are the same sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from retrieval_quality.expectations.landed import JsonFiles
from retrieval_quality.raw_lines import raw_lines

if TYPE_CHECKING:
    import numpy.typing as npt

    Hashes = npt.NDArray[np.uint64]
    Mask = npt.NDArray[np.bool_]

# A file with fewer lines in the sample is looked at in so many, or whole: it may be the one that is foreign.
FILE_LINES: Final = 1_000
_CHUNK_LINES: Final = 100
# 2**64 by the golden ratio: its multiples lie evenly
_STEP: Final = 0x9E3779B97F4A7C15
_LAST: Final = np.iinfo(np.uint64).max


@dataclass(frozen=True)
class Sample:
    """`json` are copies of its lines, `more` of further ones, up to `FILE_LINES` of a file; `rows` its Parquet rows."""

    json: JsonFiles
    more: JsonFiles
    rows: pd.DataFrame


def draw_sample(json: JsonFiles, rows: pd.DataFrame, *, n_lines: int, folder: Path) -> Sample:
    """Draw `n_lines` of all lines of JSON files and all Parquet rows, which have their `rq_hash`.

    Lines are copied into `folder` as they landed. Raises OSError, EOFError or zlib.error at a damaged file.
    """
    hashes = [_hashes(path) for path in json.paths]
    lots = _lots(np.concatenate([*hashes, rows["rq_hash"].to_numpy(np.uint64)]))
    ends = np.cumsum([len(item) for item in hashes], dtype=np.intp)
    *lots_of_files, _ = np.split(lots, ends)
    *sampled, sampled_rows = np.split(_smallest(lots, n_lines), ends)
    more = [_smallest(lots, FILE_LINES) & ~taken for lots, taken in zip(lots_of_files, sampled, strict=True)]
    return Sample(
        json=_copied(json, sampled, folder / "sample"),
        more=_copied(json, more, folder / "more"),
        rows=rows[sampled_rows],
    )


def _hashes(path: str) -> Hashes:
    """One per physical line, whatever white space is around it."""
    lines = map(bytes.strip, raw_lines(path))
    chunks = iter(lambda: list(islice(lines, _CHUNK_LINES)), [])
    return np.concatenate([np.empty(0, np.uint64), *map(_hashed, chunks)])


def _hashed(lines: Sequence[bytes]) -> Hashes:
    return pd.util.hash_array(np.array(lines, dtype=object), categorize=False)


def _lots(hashes: Hashes) -> Hashes:
    """Equal lines are numbered and draw one by one: a fault that a thousand equal lines have is in the sample as often
    as in the files, not a thousand times or never. Blank lines are none, and come last.
    """
    lines = pd.Series(hashes)
    repeated = lines[lines.duplicated()]
    lots = hashes.copy()
    lots[repeated.index] += (repeated.groupby(repeated).cumcount() + 1).to_numpy(np.uint64) * np.uint64(_STEP)
    lots[hashes == _hashed([b""])] = _LAST
    return lots


def _smallest(lots: Hashes, n: int) -> Mask:
    limit = np.partition(lots, n - 1)[n - 1] if n < len(lots) else _LAST
    is_among: Mask = lots <= limit
    return is_among


def _copied(json: JsonFiles, masks: Sequence[Mask], root: Path) -> JsonFiles:
    copies = []
    for path, mask in zip(json.paths, masks, strict=True):
        if mask.any():
            copy = root / json.place_of(path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            with copy.open("wb") as out:
                out.writelines(compress(raw_lines(path), mask))
            copies.append(str(copy))
    return JsonFiles(root, tuple(copies), compression="none")
