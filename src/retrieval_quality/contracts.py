"""The landing contracts, defined once: what a line of each landing folder holds.

The JSON Schemas in `contracts/` are generated from these models (`python -m
retrieval_quality.contracts --write`), and the columns that staging reads are held equal to them by
a test. Staging itself is tolerant: it reads what fits, and quarantines what it cannot use.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, WithJsonSchema


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


Id = Annotated[
    str,
    BeforeValidator(_as_text),
    WithJsonSchema({"type": ["string", "number"], "description": "Compared as its exact text."}),
]
Time = Annotated[
    float | str,
    Field(description="Epoch seconds, ms, us or ns (number or text), or ISO 8601 with any offset; none means UTC."),
]
Share = Annotated[float, Field(gt=0, le=1)]
Milliseconds = Annotated[float, Field(ge=0)]
Grade = Annotated[int, Field(ge=-10, le=10)]
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
    sample_rate: Share | None = None
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
    rating: float | bool | str | None = None
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
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    attempts: int | None = None
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
    ingested_at: Time | None = None


CONTRACTS: Final[Mapping[str, type[Contract]]] = {
    "retrieval_traces": RetrievalTrace,
    "feedback": Feedback,
    "answers": Answer,
    "queries": Query,
    "qrels": Qrel,
    "eval_runs": EvalRun,
}


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
