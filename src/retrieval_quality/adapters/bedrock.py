"""Responses of Amazon Bedrock's knowledge base API `Retrieve`, logged with their requests.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_agent-runtime_Retrieve.html
"""

from collections.abc import Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final

from retrieval_quality.adapters.reading import Record, read_records
from retrieval_quality.adapters.rows import (
    Document,
    Item,
    LandingRow,
    Unmapped,
    first_of,
    make_document,
    mapping_of,
    metadata_values,
    ranked,
    seconds,
    text_of,
    time_us,
    whole_number_of,
    without_none,
)

_TIMES: Final = ("ts", "timestamp", "time", "created_at")
_CHUNK_ID: Final = "x-amz-bedrock-kb-chunk-id"
_SOURCE: Final = "x-amz-bedrock-kb-source-uri"
_PLACES: Final = ("id", "uri", "url", "query")


def read_bedrock(paths: Sequence[Path]) -> Iterator[Item]:
    """Rows of lines `{"request": {...}, "response": {...}}`, or of bare responses.

    A response says what was found, not when: the time is one that the log adds to the line (`ts`,
    `timestamp`), else that of the response's `date` header; else the row has none. `session_id` and
    `trace_id` of the line are taken over; else the trace is the request id, where the response has it.
    A chunk without an id gets one of the document and the content.
    """
    for path in paths:
        for record in read_records(path):
            yield record if isinstance(record, Unmapped) else _row_of(record)


def _row_of(record: Record) -> Item:
    line = record.value
    request, response = mapping_of(line.get("request")), mapping_of(line.get("response")) or line
    results = response.get("retrievalResults")
    error = text_of(first_of(line, ("error",)))
    if not isinstance(results, list) and error is None:
        return Unmapped(record.where, "no retrievalResults")
    query = mapping_of(request.get("retrievalQuery") or line.get("retrievalQuery"))
    configuration = mapping_of(mapping_of(request.get("retrievalConfiguration")).get("vectorSearchConfiguration"))
    response_metadata = mapping_of(response.get("ResponseMetadata"))
    ts_us = _time(line, response_metadata)
    documents = [_document(mapping_of(result)) for result in results] if isinstance(results, list) else None
    values: dict[str, object] = {
        "trace_id": text_of(line.get("trace_id")) or text_of(response_metadata.get("RequestId")),
        "session_id": text_of(line.get("session_id")),
        "user_id": text_of(line.get("user_id")),
        "query": text_of(query.get("text")),
        "ts": None if ts_us is None else seconds(ts_us),
        "top_k": whole_number_of(configuration.get("numberOfResults")),
        "filters": configuration.get("filter"),
        "error": error,
        **metadata_values(line),
    }
    return LandingRow(
        "retrieval_traces",
        {**without_none(values), "retrieved": None if documents is None else ranked(documents)},
        ts_us,
        n_built_ids=len({document.chunk_id for document in documents or () if document.is_built}),
    )


def _time(line: Mapping[str, object], response_metadata: Mapping[str, object]) -> int | None:
    told = time_us(first_of(line, _TIMES))
    headers = mapping_of(response_metadata.get("HTTPHeaders"))
    date = text_of(headers.get("date"))
    if told is not None or date is None:
        return told
    try:
        return time_us(parsedate_to_datetime(date).timestamp())
    except ValueError:
        return None


def _document(result: Mapping[str, object]) -> Document:
    """Id of the document: where its location says it lies, else its source in the metadata."""
    metadata = mapping_of(result.get("metadata"))
    location = mapping_of(result.get("location"))
    places = [mapping_of(place) for place in location.values() if isinstance(place, Mapping)]
    doc_id = next((found for place in places if (found := text_of(first_of(place, _PLACES)))), None)
    content = mapping_of(result.get("content"))
    return make_document(
        chunk_id=metadata.get(_CHUNK_ID),
        doc_id=doc_id or metadata.get(_SOURCE),
        content=text_of(first_of(content, ("text", "byteContent"))) or _row_text(content.get("row")),
        score=result.get("score"),
    )


def _row_text(row: object) -> str | None:
    """The content of a structured result: its columns, as text."""
    cells = [mapping_of(cell) for cell in row] if isinstance(row, list) else []
    return "\n".join(f"{cell.get('columnName')}={cell.get('columnValue')}" for cell in cells) or None
