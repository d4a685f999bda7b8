"""Writing the demo's landing files: grouped by contract and delivery day, never over user data."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

MARKER = ".demo"
"""File in the landing folder that lists what the demo wrote there."""

# The project's own commands append these to any landing folder, a demo's included.
OWN_CONTRACTS = frozenset({"landing_checks", "alert_events", "drill_reports"})
IGNORED_NAMES = frozenset({".gitkeep", ".gitignore"})

_WRITTEN = re.compile(r"[a-z_]+/dt=\d{4}-\d{2}-\d{2}/part-\d{4}\.jsonl(\.gz)?")


@dataclass(frozen=True)
class Delivery:
    """One line of a landing file: its contract, when it was delivered (epoch seconds), its text."""

    contract: str
    delivered_at: int
    line: str


@dataclass(frozen=True)
class ContractFiles:
    """What one contract's folder holds: files, non-blank lines (all deliveries), bytes on disk."""

    contract: str
    n_files: int
    n_lines: int
    n_bytes: int


def delivery(contract: str, delivered_at: int, row: Mapping[str, object]) -> Delivery:
    """A row as one line of compact JSON (a score that is not a number is written ``NaN``)."""
    return Delivery(contract, delivered_at, json.dumps(row, separators=(",", ":")))


def day_of(epoch_seconds: int) -> str:
    """The UTC day (YYYY-MM-DD) of a time in epoch seconds."""
    return datetime.fromtimestamp(epoch_seconds, tz=UTC).date().isoformat()


def landing_files(
    deliveries: Iterable[Delivery], *, compressed_before: str
) -> tuple[dict[str, bytes], tuple[ContractFiles, ...]]:
    """Relative path -> content, and counts per contract, both ordered by name.

    Lines are ordered by (delivery time, text); trace files of days before ``compressed_before``
    (YYYY-MM-DD) are gzip, with no time stamp and no file name in the header.
    """
    groups: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for item in deliveries:
        key = (item.contract, day_of(item.delivered_at))
        groups.setdefault(key, []).append((item.delivered_at, item.line))
    files: dict[str, bytes] = {}
    sizes: dict[str, list[tuple[int, int]]] = {}
    for (contract, day), lines in sorted(groups.items()):
        content = "".join(f"{line}\n" for _, line in sorted(lines)).encode()
        path = f"{contract}/dt={day}/part-0000.jsonl"
        if contract == "retrieval_traces" and day < compressed_before:
            content, path = gzip.compress(content, compresslevel=6, mtime=0), f"{path}.gz"
        files[path] = content
        sizes.setdefault(contract, []).append((len(lines), len(content)))
    counts = tuple(
        ContractFiles(contract, len(s), sum(n for n, _ in s), sum(b for _, b in s))
        for contract, s in sorted(sizes.items())
    )
    return files, counts


def check_landing(landing: Path) -> tuple[str, ...]:
    """Relative paths an earlier demo wrote; raises ValueError where other files are present.

    Files that the project's own commands append (``OWN_CONTRACTS``) are fine beside a demo.
    """
    if not landing.exists():
        return ()
    if not landing.is_dir():
        raise ValueError(f"the landing folder {landing} is a file")
    marker = landing / MARKER
    written = _marked_files(marker) if marker.is_file() else ()
    known = frozenset(written)
    foreign = []
    for path in sorted(p for p in landing.rglob("*") if not p.is_dir()):
        relative = path.relative_to(landing)
        is_own = marker.is_file() and relative.parts[0] in OWN_CONTRACTS
        if relative.as_posix() not in known and not is_own and not _is_ignored(path.name):
            foreign.append(relative.as_posix())
    if foreign:
        raise ValueError(
            f"the landing folder {landing} holds {len(foreign)} files that the demo did not write "
            f"(first: {foreign[0]}); the demo never mixes with other data: choose an empty folder"
        )
    return written


def write_landing(landing: Path, files: Mapping[str, bytes], *, description: str) -> None:
    """Replace what an earlier demo wrote with ``files``; the marker is written first.

    A rewritten demo is therefore recognised as one even after a killed run. An unchanged file is
    left alone, so its modification time stays. Raises ValueError as ``check_landing``.
    """
    earlier = check_landing(landing)
    landing.mkdir(parents=True, exist_ok=True)
    marked = {"description": description, "files": sorted({*earlier, *files})}
    _write(landing / MARKER, json.dumps(marked, indent=1).encode() + b"\n")
    for relative in sorted(set(earlier) - set(files)):
        (landing / relative).unlink(missing_ok=True)
    for relative, content in sorted(files.items()):
        path = landing / relative
        if path.is_file() and path.read_bytes() == content:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, content)
    _remove_empty_folders(landing, earlier)
    marked = {"description": description, "files": sorted(files)}
    _write(landing / MARKER, json.dumps(marked, indent=1).encode() + b"\n")


def digest(*parts: object, length: int = 16) -> str:
    """A stable hexadecimal id of its parts (unlike ``hash``, the same in every process)."""
    text = ":".join(str(p) for p in parts)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def _marked_files(marker: Path) -> tuple[str, ...]:
    """The paths a marker lists; raises ValueError when it is not a marker of the demo."""
    try:
        files = json.loads(marker.read_bytes())["files"]
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{marker} is not a marker written by the demo") from error
    paths = tuple(str(f) for f in files)
    if not all(_WRITTEN.fullmatch(p) for p in paths):
        raise ValueError(f"{marker} lists files that the demo does not write")
    return paths


def _is_ignored(name: str) -> bool:
    """Files that are no data: the demo's marker and temporary files, and git's."""
    return name.startswith(MARKER) or name in IGNORED_NAMES


def _write(path: Path, content: bytes) -> None:
    """Write a file so that readers see the old or the new content, never a part."""
    temporary = path.with_name(f"{MARKER}-{path.name}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)


def _remove_empty_folders(landing: Path, relatives: Iterable[str]) -> None:
    """Remove the folders that removed files leave empty."""
    folders = {p for r in relatives for p in (landing / r).parents if landing in p.parents}
    for folder in sorted(folders, key=lambda p: len(p.parts), reverse=True):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
