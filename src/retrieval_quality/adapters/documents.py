"""Retrieved documents as frameworks write them into outputs: LangChain, LlamaIndex, Haystack, MLflow."""

from collections.abc import Mapping
from typing import Final

from retrieval_quality.adapters.rows import Document, first_of, json_of, list_of, make_document, mapping_of, text_of

CHUNK_IDS: Final = ("chunk_id", "id", "id_", "_id", "node_id")
CHUNK_IDS_IN_METADATA: Final = ("chunk_id", "_id", "node_id")
DOCUMENT_IDS: Final = ("doc_id", "document_id", "doc_uri", "ref_doc_id")
SCORES: Final = ("score", "relevance_score", "similarity_score")
_CONTENTS: Final = ("page_content", "content", "text")
_METADATA: Final = ("metadata", "meta")
_WRAPPED: Final = ("node", "document", "chunk")
_LISTS: Final = ("documents", "source_documents", "nodes", "results", "chunks", "matches", "output", "value")
_QUERIES: Final = ("query", "query_str", "question", "text", "input", "search_query", "query_text")
_MAX_DEPTH: Final = 4


def read_document(value: object) -> Document | None:
    """A document that is a JSON object (also as text), bare or wrapped with its score; else None."""
    outer = mapping_of(value)
    inner = mapping_of(first_of(outer, _WRAPPED))
    member = inner or outer
    metadata = {**mapping_of(first_of(member, _METADATA)), **(mapping_of(first_of(outer, _METADATA)) if inner else {})}
    content = text_of(first_of(member, _CONTENTS))
    chunk_id = first_of(member, CHUNK_IDS)
    if chunk_id is None:
        chunk_id = first_of(metadata, CHUNK_IDS_IN_METADATA)
    doc_id = first_of(metadata, DOCUMENT_IDS)
    if doc_id is None:
        doc_id = first_of(member, DOCUMENT_IDS)
    if chunk_id is None and doc_id is None and content is None:
        return None
    score = first_of(outer, SCORES)
    if score is None:
        score = first_of(member, SCORES)
    if score is None:
        score = first_of(metadata, SCORES)
    return make_document(chunk_id=chunk_id, doc_id=doc_id, content=content, score=score)


def read_documents(value: object, depth: int = 0) -> tuple[Document, ...] | None:
    """The documents of an output: a list, or an object that holds one. None when there is none,
    or when one of its members is no document (such as the text of a Python object).
    """
    members = list_of(value)
    if members is None:
        parsed = json_of(value)
        if not isinstance(parsed, Mapping) or depth >= _MAX_DEPTH:
            return None
        for key in _LISTS:
            found = read_documents(parsed[key], depth + 1) if key in parsed else None
            if found is not None:
                return found
        return None
    documents = [read_document(member) for member in members]
    known = [document for document in documents if document is not None]
    return tuple(known) if len(known) == len(documents) else None


def read_query(value: object, depth: int = 0) -> str | None:
    """The question of an input: the text itself, or that of a JSON object that holds one."""
    parsed = json_of(value)
    if isinstance(parsed, str):
        return text_of(parsed)
    if isinstance(parsed, list):
        return read_query(parsed[0], depth + 1) if len(parsed) == 1 and depth < _MAX_DEPTH else None
    if not isinstance(parsed, Mapping) or depth >= _MAX_DEPTH:
        return None
    named = next((text for key in _QUERIES if key in parsed and (text := read_query(parsed[key], depth + 1))), None)
    if named or len(parsed) != 1:
        return named
    return read_query(next(iter(parsed.values())), depth + 1)  # {"qb": {"query_str": ...}}
