"""From what serving code hands over to what a landing line may hold.

`places_of`, `plain` and `texts_of` run in the caller's thread: they copy, because the caller may
change its lists afterwards. `COLUMNS` are the checks that the background thread does.
"""

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

Place = tuple[object, object, object]
"""chunk_id, score, rank"""

# tuples made once: `str | int` in a call makes a new type each time
_SCALARS: Final = (str, bool, int, type(None))
_LISTS: Final = (list, tuple)
_LISTS_AND_SETS: Final = (*_LISTS, set, frozenset)
_MAX_DEPTH: Final = 50
_MAX_GRADE: Final = 10
_MAX_WEIGHT: Final = 1000
_FIRST_NS: Final = 10**17  # from here on an epoch number is nanoseconds (docs/landing.md)


def places_of(chunks: Iterable[Any], chunk: Callable[[Any], object] | None) -> tuple[Place, ...]:
    """The chunks as places of a list, best first.

    A chunk is an id, a tuple (id, score) or (id, score, rank), or a mapping with `chunk_id`,
    `score`, `rank`; `chunk` makes one of these of anything else. Raises TypeError for another
    shape, and for an iterator: reading it would empty it.
    """
    if not isinstance(chunks, _LISTS):
        _refuse_non_list(chunks)
    return tuple([_place(item) for item in (chunks if chunk is None else map(chunk, chunks))])


def _place(item: Any) -> Place:
    if type(item) is dict and "chunk_id" in item:  # the others below are as good, and slower
        return item["chunk_id"], item.get("score"), item.get("rank")
    if isinstance(item, str):
        return item, None, None
    if isinstance(item, tuple):
        if len(item) == 2:
            return item[0], item[1], None
        if len(item) == 3:
            return item
        raise TypeError(f"a chunk of {len(item)} parts; (id, score) and (id, score, rank) are read")
    if isinstance(item, Mapping):
        if "chunk_id" not in item:
            raise TypeError("a chunk without the key chunk_id")
        return item["chunk_id"], item.get("score"), item.get("rank")
    return identifier(item), None, None


def _refuse_non_list(values: object) -> None:
    if isinstance(values, str | bytes | Mapping | Iterator):
        raise TypeError(f"a list is needed, not a {type(values).__name__}")


def ids_of(values: Iterable[object] | str) -> tuple[object, ...]:
    """A copy of a list of ids; a single text is a list of one. TypeError: an iterator, a mapping."""
    if isinstance(values, str):
        return (values,)
    _refuse_non_list(values)
    return tuple(values)


def plain(value: Any, depth: int = 0) -> Any:
    """A copy made of JSON values. Numbers that are not finite become None.

    Dates become ISO 8601, UUIDs text, sets and tuples lists, NumPy scalars numbers. Raises TypeError
    for anything else, ValueError below 50 levels.
    """
    if isinstance(value, _SCALARS):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth >= _MAX_DEPTH:
        raise ValueError(f"nested deeper than {_MAX_DEPTH} levels")
    if type(value) is dict or isinstance(value, Mapping):
        return {_key(key): plain(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, _LISTS_AND_SETS):
        return [plain(inner, depth + 1) for inner in value]
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if hasattr(value, "__index__"):
        return operator.index(value)
    if hasattr(value, "__float__"):
        return plain(float(value), depth + 1)
    raise TypeError(f"a {type(value).__name__} is no JSON value")


def _key(key: object) -> str:
    return key if isinstance(key, str) else identifier(key)


def identifier(value: Any) -> str:
    """An id as text. TypeError: neither text, whole number nor UUID."""
    if isinstance(value, str):
        return value
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"a {type(value).__name__} is no id")
    return str(operator.index(value))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a {type(value).__name__} is no text")
    return value


def _number(value: Any) -> float | None:
    """None where it is not finite: JSON has no such number."""
    if type(value) is float:
        return value if math.isfinite(value) else None
    if isinstance(value, str | bytes | bool):
        raise TypeError(f"a {type(value).__name__} is no number")
    number = value if isinstance(value, int) else float(value)
    return number if math.isfinite(number) else None


def _not_negative(value: object) -> float | None:
    number = _number(value)
    if number is not None and number < 0:
        raise ValueError("negative")
    return number


def _whole(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError("a bool is no whole number")
    return operator.index(value)


def _count(value: object) -> int:
    count = _whole(value)
    if count < 0:
        raise ValueError("negative")
    return count


def _truth(value: object) -> bool:
    if value is True or value is False:
        return value
    if type(value).__name__ in ("bool", "bool_"):  # NumPy's
        return bool(value)
    raise TypeError(f"a {type(value).__name__} is neither true nor false")


def _share(value: object) -> float:
    number = _number(value)
    if number is None or not 0 < number <= 1:
        raise ValueError("not above 0 and up to 1")
    return number


def _grade(value: object) -> int:
    grade = _whole(value)
    if abs(grade) > _MAX_GRADE:
        raise ValueError(f"not from -{_MAX_GRADE} to {_MAX_GRADE}")
    return grade


def _weight(value: object) -> float:
    number = _number(value)
    if number is None or abs(number) > _MAX_WEIGHT:
        raise ValueError(f"not from -{_MAX_WEIGHT} to {_MAX_WEIGHT}")
    return number


def _rating(value: object) -> object:
    return value if isinstance(value, str | bool) else _number(value)


def _rating_scale(value: object) -> str:
    if value not in ("thumb", "signed", "stars", "unit"):
        raise ValueError("no rating scale")
    return _text(value)


def _time(value: object) -> str | float:
    """ISO 8601 in UTC of a datetime (naive: UTC) and of epoch ns; any other landing time as it is."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return aware.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, str):
        return value
    if isinstance(value, int) and value >= _FIRST_NS:
        return iso_time(value)
    number = _number(value)
    if number is None:
        raise ValueError("no time")
    return number


def iso_time(ns: int) -> str:
    """ISO 8601 in UTC, to the microsecond, of nanoseconds since 1970."""
    seconds, rest = divmod(ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, tz=UTC).isoformat()[:19]}.{rest // 1000:06d}Z"


def _ranked(places: Any) -> list[dict[str, object]]:
    """Ranks count from 1 where no place has one."""
    is_numbered = any(rank is not None for _, _, rank in places)
    return [
        {
            "chunk_id": None if chunk_id is None else identifier(chunk_id),
            "score": None if score is None else _number(score),
            "rank": position if not is_numbered else None if rank is None else _number(rank),
        }
        for position, (chunk_id, score, rank) in enumerate(places, start=1)
    ]


def _ids(values: Any) -> list[str]:
    return [identifier(value) for value in values]


def _named_ids(values: Any) -> list[str]:
    """Ids of feedback: the contract turns away a line with a blank one."""
    ids = _ids(values)
    if not all(value.strip() for value in ids):
        raise ValueError("a blank chunk id")
    return ids


def _citations(values: Any) -> list[dict[str, object]]:
    return [_citation(value) for value in values]


def _citation(value: object) -> dict[str, object]:
    if not isinstance(value, Mapping):
        return {"chunk_id": identifier(value)}
    known: dict[str, Convert] = {"chunk_id": identifier, "quote": _text, "claim": _text, "supported": _truth}
    citation = {key: convert(told) for key, convert in known.items() if (told := value.get(key)) is not None}
    if not citation:
        raise ValueError("a citation that says nothing")
    return citation


def _scores(values: Any) -> dict[str, float]:
    numbers = {_key(key): _number(value) for key, value in values.items() if value is not None}
    return {key: number for key, number in numbers.items() if number is not None}


def _as_it_is(value: object) -> object:
    return value


Convert = Callable[[Any], object]

COLUMNS: Final[Mapping[str, Mapping[str, Convert]]] = MappingProxyType(
    {
        "retrieval_traces": {
            "trace_id": identifier,
            "session_id": identifier,
            "user_id": identifier,
            "ts": _time,
            "query": _text,
            "query_id": identifier,
            "top_k": _whole,
            "retrieved": _ranked,
            "candidates": _ranked,
            "index_version": identifier,
            "embedding_model": identifier,
            "chunker_version": identifier,
            "reranker_version": identifier,
            "prompt_version": identifier,
            "corpus_snapshot_id": identifier,
            "experiment_id": identifier,
            "experiment_bucket": identifier,
            "intent": _text,
            "environment": _text,
            "eval_run_id": identifier,
            "sample_rate": _share,
            "filters": _as_it_is,
            "filter_empty": _truth,
            "retrieval_latency_ms": _not_negative,
            "rerank_latency_ms": _not_negative,
            "score_type": _text,
            "higher_is_better": _truth,
            "error": _text,
            "ingested_at": _time,
        },
        "feedback": {
            "feedback_id": identifier,
            "trace_id": identifier,
            "session_id": identifier,
            "ts": _time,
            "chunk_ids": _named_ids,
            "rating": _rating,
            "rating_scale": _rating_scale,
            "grade": _grade,
            "implicit": _truth,
            "signal": _text,
            "answer_correct": _truth,
            "rater_id": identifier,
            "label_class": _text,
            "weight": _weight,
            "inclusion_probability": _share,
            "dwell_ms": _not_negative,
            "ingested_at": _time,
        },
        "answers": {
            "answer_id": identifier,
            "trace_id": identifier,
            "session_id": identifier,
            "ts": _time,
            "citations": _citations,
            "prompt_chunk_ids": _ids,
            "answer_text": _text,
            "is_correct": _truth,
            "schema_valid": _truth,
            "scores": _scores,
            "model": _text,
            "prompt_version": identifier,
            "input_tokens": _count,
            "output_tokens": _count,
            "cached_tokens": _count,
            "cost_usd": _not_negative,
            "attempts": _count,
            "latency_ms": _not_negative,
            "ingested_at": _time,
        },
    }
)
"""The columns that are written, in the order of the line, and what each takes."""
