"""TREC run and qrels files.

https://github.com/usnistgov/trec_eval: a run's order is by score, ties by document id, both from
the greatest; its rank column is not read.
"""

import codecs
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from retrieval_quality.adapters.reading import DamagedFileError, Spool, open_bytes
from retrieval_quality.adapters.rows import Document, Item, LandingRow, Unmapped, number_of, ranked, whole_number_of

_RUN_FIELDS: Final = 6
_QREL_FIELDS: Final = 4


def read_trec_run(paths: Sequence[Path]) -> Iterator[Item]:
    """One `retrieval_traces` row per run and query: `query_id Q0 doc_id rank score run_tag`.

    The run's tag is the `eval_run_id`; rows have no time.
    """
    with Spool() as spool:
        for path in paths:
            for where, fields in _lines(path):
                if isinstance(fields, Unmapped):
                    yield fields
                elif len(fields) != _RUN_FIELDS:
                    yield Unmapped(where, f"not {_RUN_FIELDS} columns: query_id Q0 doc_id rank score run_tag")
                elif _score(fields[4]) is None:
                    yield Unmapped(where, "score is no number")
                else:
                    query_id, _, doc_id, _, score, tag = fields
                    spool.add(f"{tag}\t{query_id}", [tag, query_id, doc_id, score])
        for group in spool.groups():
            yield _run_row([[str(field) for field in line] for line in group if isinstance(line, list)])


def read_trec_qrels(paths: Sequence[Path]) -> Iterator[Item]:
    """One `qrels` row per judgment: `query_id iteration doc_id grade`. The document is the chunk that
    runs name.
    """
    for path in paths:
        for where, fields in _lines(path):
            if isinstance(fields, Unmapped):
                yield fields
            elif len(fields) != _QREL_FIELDS:
                yield Unmapped(where, f"not {_QREL_FIELDS} columns: query_id iteration doc_id grade")
            elif (grade := whole_number_of(fields[3])) is None:
                yield Unmapped(where, "grade is no whole number")
            else:
                yield LandingRow("qrels", {"query_id": fields[0], "chunk_id": fields[2], "grade": grade}, None)


def _run_row(lines: Sequence[Sequence[str]]) -> LandingRow:
    tag, query_id = lines[0][:2]
    listed = [(_score(score) or 0.0, doc_id) for _, _, doc_id, score in lines]
    listed.sort(key=lambda entry: (not math.isnan(entry[0]), 0 if math.isnan(entry[0]) else entry[0], entry[1]))
    documents = [Document(doc_id, number_of(score)) for score, doc_id in reversed(listed)]
    values = {
        "trace_id": f"{tag}:{query_id}",
        "query_id": query_id,
        "eval_run_id": tag,
        "retrieved": ranked(documents),
    }
    return LandingRow("retrieval_traces", values, None)


def _score(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _lines(path: Path) -> Iterator[tuple[str, list[str] | Unmapped]]:
    try:
        with open_bytes(path) as file:
            for number, line in enumerate(file, start=1):
                where = f"{path.name}:{number}"
                fields = _fields(line)
                if fields is None:
                    yield where, Unmapped(where, "not UTF-8")
                elif fields:
                    yield where, fields
    except DamagedFileError as error:
        yield path.name, Unmapped(path.name, str(error))


def _fields(line: bytes) -> list[str] | None:
    try:
        return line.removeprefix(codecs.BOM_UTF8).decode().split()
    except UnicodeDecodeError:
        return None
