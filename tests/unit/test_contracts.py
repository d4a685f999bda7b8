"""The landing contracts: one definition, and what is held equal to it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import jinja2
import pytest
from pydantic import ValidationError
from support import PROJECT, SHARED, needs_shared

from retrieval_quality.contracts import CONTRACTS, RetrievalTrace, reading_types, schema_files


def staged_columns(contract: str) -> dict[str, str]:
    """What the contract's macro says that staging reads: name to reading type."""
    returned: list[dict[str, str]] = []
    keep: Callable[[dict[str, str]], str] = lambda columns: returned.append(columns) or ""  # noqa: E731
    environment = jinja2.Environment(autoescape=False, extensions=["jinja2.ext.do"])  # noqa: S701
    environment.globals["return"] = keep
    text = (PROJECT / "macros" / "landing" / f"contract_{contract}.sql").read_text()
    start, end = text.index("{% macro"), text.index("{% endmacro %}") + len("{% endmacro %}")
    environment.from_string(f"{text[start:end]}{{{{ {contract}_columns() }}}}").render()
    return returned[0]


STAGED = sorted(path.stem.removeprefix("contract_") for path in (PROJECT / "macros" / "landing").glob("contract_*.sql"))


def test_every_contract_is_staged() -> None:
    assert set(STAGED) == set(CONTRACTS)
    models = {path.stem.removeprefix("stg_") for path in (PROJECT / "models" / "staging" / "contracts").glob("*.sql")}
    assert models == set(CONTRACTS)
    macro = (PROJECT / "macros" / "landing" / "staged_contracts.sql").read_text()
    assert set(re.findall(r"'([a-z_]+)'", macro[: macro.index("endmacro")])) == set(CONTRACTS)


@pytest.mark.parametrize("contract", STAGED)
def test_staging_reads_the_columns_of_the_contract_as_their_types(contract: str) -> None:
    assert staged_columns(contract) == reading_types(contract)


def test_the_schemas_are_current() -> None:
    written = {path.name: path.read_text() for path in (PROJECT / "contracts").glob("*.json")}
    assert written == schema_files(), "python -m retrieval_quality.contracts --write"


def test_ids_are_their_exact_text_and_unknown_keys_are_allowed() -> None:
    trace = RetrievalTrace.model_validate(
        {"trace_id": 17, "ts": 1796000000.25, "retrieved": [{"chunk_id": 42}, {"chunk_id": "007"}], "colour": "red"}
    )
    assert trace.trace_id == "17"
    assert [chunk.chunk_id for chunk in trace.retrieved or []] == ["42", "007"]


@pytest.mark.parametrize(
    ("row", "where"),
    [
        ({"retrieved": []}, "ts"),
        ({"ts": 1}, "retrieved"),
        ({"ts": 1, "retrieved": [], "sample_rate": 0}, "sample_rate"),
        ({"ts": 1, "retrieved": [], "sample_rate": math.nan}, "sample_rate"),
        ({"ts": 1, "retrieved": ["a"]}, "retrieved.0"),
    ],
)
def test_what_is_no_trace_says_where(row: dict[str, object], where: str) -> None:
    with pytest.raises(ValidationError) as raised:
        RetrievalTrace.model_validate(row)
    assert [".".join(map(str, error["loc"])) for error in raised.value.errors()] == [where]


@needs_shared
@pytest.mark.parametrize("run", ["bm25", "rerank", "badchunk"])
def test_real_traces_are_valid(run: str) -> None:
    import gzip

    path: Path = SHARED / "data" / "runs" / "noveleval" / f"traces_{run}.jsonl.gz"
    with gzip.open(path, "rt") as lines:
        traces = [RetrievalTrace.model_validate(json.loads(line)) for line in lines]
    assert len(traces) == 21
    assert all(len(trace.retrieved or []) >= 10 for trace in traces)
