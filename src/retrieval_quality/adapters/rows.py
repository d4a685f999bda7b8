"""What an adapter yields, and the readings of values that all formats share.

An adapter never raises for what an export says: a record becomes `LandingRow`s, or `Unmapped` with
the reason, or `Skipped` where it rightly has no row of its own.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

# keys that a tracer's free metadata may share with the contract `retrieval_traces`
METADATA_KEYS: Final = (
    "index_version",
    "embedding_model",
    "chunker_version",
    "reranker_version",
    "prompt_version",
    "corpus_snapshot_id",
    "experiment_id",
    "experiment_bucket",
    "intent",
    "environment",
    "eval_run_id",
    "query_id",
    "score_type",
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d*)?")
# from this size on, a number of seconds since 1970 is read in the finer unit (docs/landing.md)
_UNITS: Final = ((10**17, 10**9), (10**14, 10**6), (10**11, 10**3))
_LAST_US: Final = 7_258_118_400 * 10**6  # 2200-01-01
_CONTENT_HASH: Final = 16
_PART_HASH: Final = 8


@dataclass(frozen=True)
class LandingRow:
    """One line for `contract`. `ts_us`: microseconds since 1970 UTC, None where the export has no
    time. `n_built_ids`: chunk ids in it that were built from content.
    """

    contract: str
    values: Mapping[str, object]
    ts_us: int | None
    n_built_ids: int = 0


@dataclass(frozen=True)
class Unmapped:
    """A record that should have become a row and could not. `where` names file and line or span."""

    where: str
    reason: str


@dataclass(frozen=True)
class Skipped:
    """A record that was read and has no row of its own: no retrieval, or part of another row."""

    where: str
    reason: str


Item = LandingRow | Unmapped | Skipped


@dataclass(frozen=True)
class Document:
    """One retrieved chunk. `is_built`: the export has no chunk id, so `chunk_id` is made of the
    document's id and a hash of the content. `doc_id`: the document, where the id was built on it.
    """

    chunk_id: str
    score: float | None
    doc_id: str | None = None
    is_built: bool = False


def content_id(content: str) -> str:
    """The chunk id of a content without any: the first 16 hex digits of its sha256."""
    return f"sha256:{_sha256(content)[:_CONTENT_HASH]}"


def part_id(doc_id: str, content: str) -> str:
    """The chunk id of a part of a document: `doc_id#` and 8 hex digits of the content's sha256."""
    return f"{doc_id}#{_sha256(content)[:_PART_HASH]}"


def make_document(*, chunk_id: object, doc_id: object, content: str | None, score: object) -> Document:
    """The best id there is: the chunk's own; else document and content; else content; else blank."""
    own, parent, number = text_of(chunk_id), text_of(doc_id), number_of(score)
    if own:
        return Document(own, number)
    if parent and content:
        return Document(part_id(parent, content), number, doc_id=parent, is_built=True)
    if parent:
        return Document(parent, number)
    if content:
        return Document(content_id(content), number, is_built=True)
    return Document("", number)


def ranked(documents: Sequence[Document]) -> list[dict[str, object]]:
    """The list as the contract wants it: `{chunk_id, score, rank}`, rank from 1, best first."""
    return [
        {
            "chunk_id": document.chunk_id,
            "score": document.score,
            "rank": rank,
            **({"doc_id": document.doc_id} if document.doc_id else {}),
        }
        for rank, document in enumerate(documents, start=1)
    ]


def text_of(value: object) -> str | None:
    """An id or a text; None for a blank one and for what is neither text nor whole number.

    A whole number that a data frame turned into a fraction (17.0) is the whole number.
    """
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    text = str(value)
    return text if text.strip() else None


def number_of(value: object) -> float | None:
    """A finite number, also from text; None otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def whole_number_of(value: object) -> int | None:
    number = number_of(value)
    return int(number) if number is not None and number.is_integer() else None


def mapping_of(value: object) -> Mapping[str, object]:
    """A mapping, also from JSON text; empty for anything else."""
    parsed = json_of(value)
    return parsed if isinstance(parsed, Mapping) else {}


def list_of(value: object) -> list[object] | None:
    """A list, also from JSON text; None for anything else."""
    parsed = json_of(value)
    return parsed if isinstance(parsed, list) else None


def json_of(value: object) -> object:
    """`value`, parsed when it is the text of a JSON object, list or string, up to twice quoted."""
    for _ in range(2):
        if not isinstance(value, str) or not value.lstrip().startswith(("{", "[", '"')):
            return value
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def first_of(values: Mapping[str, object], keys: Sequence[str]) -> object:
    """The value of the first of `keys` that is there, neither None nor blank."""
    for key in keys:
        value = values.get(key)
        if value is not None and not (isinstance(value, str) and not value.strip()):
            return value
    return None


def time_us(value: object) -> int | None:
    """Microseconds since 1970 UTC of epoch s, ms, us or ns (number or text) or ISO 8601.

    Without an offset the time is UTC. None before 1970, from 2200 on, and for what is no time.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    is_number = not isinstance(value, str) or _NUMBER.fullmatch(value.strip()) is not None
    us = _epoch_us(value) if is_number else _iso_us(str(value))
    return us if us is not None and 0 <= us < _LAST_US else None


def seconds(us: int) -> float:
    """Epoch seconds, exact to the microsecond until 2200."""
    return us / 10**6


def milliseconds(start_us: int | None, end_us: int | None) -> float | None:
    """Duration in ms; None when an end is missing or lies before the start."""
    if start_us is None or end_us is None or end_us < start_us:
        return None
    return (end_us - start_us) / 1000


def metadata_values(metadata: Mapping[str, object]) -> dict[str, object]:
    """What free metadata says under names of the contract."""
    found: dict[str, object] = {key: text for key in METADATA_KEYS if (text := text_of(metadata.get(key))) is not None}
    sample_rate = number_of(metadata.get("sample_rate"))
    return found if sample_rate is None else {**found, "sample_rate": sample_rate}


def without_none(values: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in values.items() if value is not None}


def _sha256(content: str) -> str:
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def _epoch_us(value: float | str) -> int | None:
    try:
        number = float(value)
        unit = next((unit for least, unit in _UNITS if abs(number) >= least), 1)
        # the OpenTelemetry SDK writes ISO times this way: through a double, which decides the last
        # microsecond, so that an OTLP export and a JSON export of one span agree in it
        return (datetime.fromtimestamp(number / unit, tz=UTC) - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError, OSError):
        return None


def _iso_us(value: str) -> int | None:
    try:
        moment = datetime.fromisoformat(value.strip())
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (aware - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        return None
