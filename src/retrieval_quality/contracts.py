"""The landing contracts, defined once: what a line of each landing folder holds.

The JSON Schemas in `contracts/` are generated from these models (`python -m
retrieval_quality.contracts --write`), and the columns that staging reads are held equal to them by
a test. Staging itself is tolerant: it reads what fits, and quarantines what it cannot use.
"""

import argparse
import json
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, WithJsonSchema


@dataclass(frozen=True)
class ReadAs:
    """The DuckDB type a value is read as, where it is not that of its Python type."""

    duckdb_type: str


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


Id = Annotated[
    str,
    BeforeValidator(_as_text),
    WithJsonSchema({"type": ["string", "number"], "description": "Compared as its exact text."}),
]
# what must not become NULL where it does not fit: it is read as text, and turned away
Verbatim: Final = ReadAs("VARCHAR")
Time = Annotated[
    float | str,
    Field(description="Epoch seconds, ms, us or ns (number or text), or ISO 8601 with any offset; none means UTC."),
    Verbatim,
]
Share = Annotated[float, Field(gt=0, le=1)]
Milliseconds = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]
Dollars = Annotated[float, Field(ge=0)]
Grade = Annotated[int, Field(ge=-10, le=10), Verbatim]
Hash = Annotated[str, Field(description="Of the content, by whichever function the producer uses throughout.")]


class Contract(BaseModel):
    """A line of a landing folder. Unknown keys are allowed: staging ignores and counts them."""

    model_config = ConfigDict(extra="allow")


class RankedChunk(BaseModel):
    """A place of a ranked list. The rank decides the order where ranks are distinct, else the position."""

    chunk_id: Id | None = None
    score: float | None = None
    rank: float | None = None


class RetrievalTrace(Contract):
    """What was asked, and what came back, best first."""

    ts: Time
    retrieved: list[RankedChunk] | None
    trace_id: Id | None = None
    session_id: Id | None = None
    user_id: Id | None = None
    query: str | None = None
    query_id: Id | None = None
    top_k: int | None = None
    candidates: list[RankedChunk] | None = None
    index_version: Id | None = None
    embedding_model: Id | None = None
    chunker_version: Id | None = None
    reranker_version: Id | None = None
    prompt_version: Id | None = None
    corpus_snapshot_id: Id | None = None
    experiment_id: Id | None = None
    experiment_bucket: Id | None = None
    intent: str | None = None
    environment: str | None = None
    eval_run_id: Id | None = None
    sample_rate: Annotated[Share, Verbatim] | None = None
    filters: JsonValue = None
    filter_empty: bool | None = None
    retrieval_latency_ms: Milliseconds | None = None
    rerank_latency_ms: Milliseconds | None = None
    score_type: str | None = None
    higher_is_better: bool | None = None
    error: str | None = None
    ingested_at: Time | None = None


class Feedback(Contract):
    """What somebody, or something, said of the chunks of a trace. Needs session_id or trace_id."""

    ts: Time
    feedback_id: Id | None = None
    session_id: Id | None = None
    trace_id: Id | None = None
    chunk_ids: list[Id] | None = Field(None, description="Absent: every chunk of the final list. Empty: none.")
    rating: Annotated[float | bool | str, Verbatim] | None = None
    rating_scale: Literal["thumb", "signed", "stars", "unit"] | None = None
    grade: Grade | None = None
    implicit: bool | None = None
    signal: str | None = Field(None, description="A signal of seeds/label_signals.csv.")
    answer_correct: bool | None = None
    rater_id: Id | None = None
    label_class: str | None = Field(None, description="A landed class of seeds/label_classes.csv.")
    weight: float | None = Field(None, ge=-1000, le=1000)
    inclusion_probability: Share | None = None
    dwell_ms: Milliseconds | None = None
    ingested_at: Time | None = None


class Citation(BaseModel):
    """A claim of an answer and the chunk it rests on."""

    chunk_id: Id | None = None
    quote: str | None = None
    claim: str | None = None
    supported: bool | None = None


class Answer(Contract):
    """What the language model answered. Needs trace_id or session_id."""

    answer_id: Id
    ts: Time
    trace_id: Id | None = None
    session_id: Id | None = None
    citations: list[Citation] | None = None
    prompt_chunk_ids: list[Id] | None = None
    answer_text: str | None = None
    is_correct: bool | None = None
    schema_valid: bool | None = None
    scores: dict[str, float] | None = Field(None, description="Named values from any judge.")
    model: str | None = None
    prompt_version: Id | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cached_tokens: Count | None = None
    cost_usd: Dollars | None = None
    attempts: Count | None = None
    latency_ms: Milliseconds | None = None
    ingested_at: Time | None = None


class Query(Contract):
    """A known question: of a golden set, a canary, a synthetic set."""

    query_id: Id
    query: str
    intent: str | None = None
    query_set: str | None = None
    is_canary: bool | None = None
    added_at: Time | None = None
    expected_answer: str | None = None
    ingested_at: Time | None = None


class Qrel(Contract):
    """A judgment of a chunk, a document or a passage of one for a known question."""

    query_id: Id
    grade: Grade
    chunk_id: Id | None = None
    doc_id: Id | None = None
    start_char: int | None = None
    end_char: int | None = None
    label_class: str | None = Field(None, description="A landed class of seeds/label_classes.csv; default golden.")
    labeller: Id | None = None
    labelled_at: Time | None = None
    ingested_at: Time | None = None


class EvalRun(Contract):
    """A run of a query set against one configuration. A run that is not declared here is adhoc."""

    eval_run_id: Id
    started_at: Time
    query_set: str
    kind: Literal["scheduled", "adhoc"] | None = None
    code_sha: str | None = None
    index_version: Id | None = None
    embedding_model: Id | None = None
    chunker_version: Id | None = None
    reranker_version: Id | None = None
    prompt_version: Id | None = None
    corpus_snapshot_id: Id | None = None
    index_params: JsonValue = Field(None, description="Of the approximate nearest-neighbour search: ef, nprobe, ...")
    ingested_at: Time | None = None


class CorpusDocument(Contract):
    """A document that chunks are cut from. Needs content or content_hash."""

    doc_id: Id
    content: str | None = None
    content_hash: Hash | None = None
    title: str | None = None
    source_uri: str | None = None
    license: str | None = None
    language: str | None = None
    metadata: JsonValue = None
    corpus_snapshot_id: Id | None = Field(None, description="Absent: of one corpus that only ever changes in place.")
    collected_at: Time | None = None
    ingested_at: Time | None = None


class CorpusChunk(Contract):
    """A chunk of a document; passage_id is the chunk_id of traces. Needs content or content_hash."""

    passage_id: Id
    doc_id: Id
    content: str | None = None
    content_hash: Hash | None = None
    chunk_index: Count | None = Field(None, description="Place in the document, from 0.")
    start_char: Count | None = None
    end_char: Count | None = None
    n_tokens: Count | None = None
    chunker_version: Id | None = None
    embedding_model: Id | None = None
    embedding: Annotated[list[float], ReadAs("FLOAT[]")] | None = None
    corpus_snapshot_id: Id | None = None
    ingested_at: Time | None = None


class CorpusSnapshot(Contract):
    """A state of the corpus and how it was cut, embedded and indexed."""

    snapshot_id: Id
    created_at: Time
    chunker_version: Id | None = None
    chunker_params: JsonValue = Field(None, description="Size, overlap, separators, ...")
    embedding_model: Id | None = None
    embedding_params: JsonValue = Field(None, description="Dimensions, prefix, normalisation, ...")
    index_version: Id | None = None
    index_params: JsonValue = Field(None, description="Type, distance, M, ef_construction, nlist, ...")
    n_documents: Count | None = None
    n_chunks: Count | None = None
    code_sha: str | None = None
    ingested_at: Time | None = None


class LlmCall(Contract):
    """A call of a language model: in serving, judging or generating test questions."""

    call_id: Id
    ts: Time
    purpose: str = Field(description="serving, judge, synthetic_questions, ...")
    model: str
    provider: str | None = None
    trace_id: Id | None = None
    eval_run_id: Id | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cached_tokens: Count | None = None
    cost_usd: Dollars | None = None
    attempts: Count | None = None
    status: str | None = None
    latency_ms: Milliseconds | None = None
    ingested_at: Time | None = None


class TrafficCount(Contract):
    """How many queries were served on a day, traced or not."""

    day: Time
    n_queries: Annotated[Count, Verbatim]
    environment: str | None = None
    ingested_at: Time | None = None


class LandingCheck(Contract):
    """What one expectation about the newly landed lines found. Written by `check-landing`."""

    check_id: Id
    checked_at: Time
    check_run_id: Id
    contract: str
    expectation_id: Id
    severity: Literal["block", "warn"]
    outcome: Literal["passed", "failed", "error"]
    message: str
    column_name: str | None = None
    observed: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    n_rows: Count | None = None
    n_sampled: Count | None = None
    n_failed: Count | None = None
    examples: list[str] | None = None
    ingested_at: Time | None = None


class ContributingSegment(BaseModel):
    """A segment value below the objective, and how much of the shortfall of the whole it accounts for."""

    segment_dimension: str
    segment_value: str
    estimate: float
    n_units: Count
    contribution: float


class AlertEvent(Contract):
    """A step in the life of an alert. Written by `alert`, never changed. `opened` carries what was known then."""

    event_id: Id
    alert_id: Id
    event: Literal["opened", "sending", "sent", "send_failed", "acknowledged", "resolved"]
    occurred_at: Time
    dedup_key: Id | None = Field(default=None, description="Of the messages: that of all alerts announced together.")
    slo_id: Id | None = None
    segment_dimension: str | None = None
    segment_value: str | None = None
    night_on: Time | None = Field(default=None, description="UTC day whose verdict opened or resolved it.")
    severity: str | None = None
    owner: str | None = None
    runbook: str | None = None
    metric: str | None = None
    k: int | None = None
    stage: str | None = None
    label_class: str | None = None
    traffic: str | None = None
    window_name: str | None = None
    window_starts_on: Time | None = None
    state: str | None = None
    estimate: float | None = None
    bound_low: float | None = None
    bound_high: float | None = None
    baseline_estimate: float | None = None
    objective: float | None = None
    margin: float | None = None
    n_units: Count | None = None
    versions: list[str] | None = Field(default=None, description="Versions seen in the window, most traces first.")
    top_segments: list[ContributingSegment] | None = None
    publication_id: str | None = None
    about: Literal["opened", "resolved"] | None = Field(default=None, description="Which message was sent.")
    channel: str | None = Field(default=None, description="Its name, never its URL.")
    n_attempts: Count | None = None
    error: str | None = Field(default=None, description="What kind of error, never its text.")
    reason: Literal["recovered", "no_traffic", "by_hand"] | None = Field(
        default=None, description="Why it was resolved."
    )
    actor: str | None = None
    note: str | None = None
    ingested_at: Time | None = None


class DrillResult(Contract):
    """What became of one watched number of one degraded retriever. Written by `drill`."""

    drill_result_id: Id
    drilled_at: Time
    drill_id: Id
    variant: Id = Field(description="The degradation, or control.")
    metric: str
    k: int
    stage: Literal["retriever", "final"]
    verdict: Literal["caught", "missed", "silent", "false_page", "cannot_move"]
    source: Id | None = Field(None, description="demo, or the name of the landing folder of which a copy was drilled.")
    is_expected_catch: bool | None = None
    label_class: str | None = None
    objective: float | None = None
    healthy_mean: float | None = None
    degraded_mean: float | None = None
    is_paged: bool | None = None
    nights_to_page: Count | None = Field(None, description="Degraded nights, the one that paged included.")
    units_to_page: Count | None = Field(None, description="Session-days scored in these nights.")
    n_nights: Count | None = Field(None, description="Nights that were degraded.")
    ingested_at: Time | None = None


CONTRACTS: Final[Mapping[str, type[Contract]]] = {
    "retrieval_traces": RetrievalTrace,
    "feedback": Feedback,
    "answers": Answer,
    "queries": Query,
    "qrels": Qrel,
    "eval_runs": EvalRun,
    "corpus_documents": CorpusDocument,
    "corpus_chunks": CorpusChunk,
    "corpus_snapshots": CorpusSnapshot,
    "llm_calls": LlmCall,
    "traffic_counts": TrafficCount,
    "landing_checks": LandingCheck,
    "alert_events": AlertEvent,
    "drill_reports": DrillResult,
}


def reading_types(contract: str) -> dict[str, str]:
    """The DuckDB type each column of a contract is read as, in order. KeyError: no such contract."""
    return {
        name: _duckdb_type(Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation)
        for name, field in CONTRACTS[contract].model_fields.items()
    }


def _duckdb_type(annotation: object) -> str:
    if get_origin(annotation) is Annotated:
        plain, *metadata = get_args(annotation)
        named = [item.duckdb_type for item in metadata if isinstance(item, ReadAs)]
        return named[0] if named else _duckdb_type(plain)
    if get_origin(annotation) in (Union, types.UnionType):
        (plain,) = (argument for argument in get_args(annotation) if argument is not type(None))
        return _duckdb_type(plain)
    if get_origin(annotation) is list:
        return f"{_duckdb_type(get_args(annotation)[0])}[]"
    if get_origin(annotation) is dict:
        return "MAP({}, {})".format(*map(_duckdb_type, get_args(annotation)))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields.items()
        return "STRUCT({})".format(", ".join(f"{name} {_duckdb_type(field.annotation)}" for name, field in fields))
    if annotation is JsonValue:
        return "JSON"
    return {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE"}.get(annotation, "VARCHAR")  # type: ignore[call-overload,no-any-return]


def json_schema(contract: str) -> dict[str, Any]:
    """JSON Schema (2020-12) of one line of a contract. KeyError: no such contract."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | CONTRACTS[contract].model_json_schema()


def schema_files() -> dict[str, str]:
    """File name to text of every generated schema."""
    return {f"{name}.schema.json": f"{json.dumps(json_schema(name), indent=2)}\n" for name in CONTRACTS}


def main() -> int:
    """Write the schemas, or check that the written ones are current: exit code 1 where not."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("contracts"))
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    stale = [
        name
        for name, text in schema_files().items()
        if not (path := arguments.folder / name).is_file() or path.read_text() != text
    ]
    if arguments.write:
        arguments.folder.mkdir(exist_ok=True)
        for name in stale:
            (arguments.folder / name).write_text(schema_files()[name])
        return 0
    for name in stale:
        print(f"{arguments.folder / name} is not current: python -m retrieval_quality.contracts --write")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
