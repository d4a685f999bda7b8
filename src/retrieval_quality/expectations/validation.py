"""Great Expectations on frames: one suite and one batch per frame, and what came of each expectation."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pandas as pd
    from great_expectations.expectations.expectation import Expectation as GxExpectation

    from retrieval_quality.expectations.seed import Expectation

MAX_EXAMPLES: Final = 5
MAX_ERROR_CHARS: Final = 300


@dataclass(frozen=True)
class Finding:
    """What one expectation came to.

    `error` is the message of what it raised, None where it was evaluated. `n_looked_at` counts the lines
    it was about, `n_failed` those that did not do.
    """

    is_met: bool
    error: str | None
    n_looked_at: int
    n_failed: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class Batch:
    """Expectations with the frame they are about; measures are columns named by their expectation."""

    name: str
    frame: pd.DataFrame
    expectations: Sequence[Expectation]


def import_seconds() -> float:
    """Import Great Expectations; the seconds that took. Its own reporting to the network is switched off."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    started = time.perf_counter()
    # what it imports stays: to look for garbage there, now and later, is a tenth of all that evaluating costs
    gc.disable()
    try:
        import great_expectations  # noqa: F401
    finally:
        gc.freeze()
        gc.enable()
    return time.perf_counter() - started


def validate(batches: Sequence[Batch]) -> dict[str, Finding]:
    """Evaluate every expectation of every batch; findings by expectation_id.

    An expectation that raised is a finding with `error`: it says nothing about the data.
    """
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    source = context.data_sources.add_pandas("landing")
    findings: dict[str, Finding] = {}
    for batch in batches:
        asset = source.add_dataframe_asset(batch.name)
        whole = asset.add_batch_definition_whole_dataframe("whole").get_batch({"dataframe": batch.frame})
        suite = gx.ExpectationSuite(name=batch.name, expectations=[_configured(item) for item in batch.expectations])
        outcome = whole.validate(
            suite,
            result_format={
                "result_format": "SUMMARY",
                "partial_unexpected_count": MAX_EXAMPLES,
                **({"unexpected_index_column_names": ["line_key"]} if "line_key" in batch.frame else {}),
            },
        )
        for result in outcome.results:
            record: Mapping[str, Any] = result.to_json_dict()
            findings[record["expectation_config"]["meta"]["expectation_id"]] = _finding(record)
    return findings


def _configured(expectation: Expectation) -> GxExpectation:
    from great_expectations.expectations.core.expect_column_values_to_be_between import ExpectColumnValuesToBeBetween
    from great_expectations.expectations.core.expect_column_values_to_be_in_set import ExpectColumnValuesToBeInSet
    from great_expectations.expectations.core.expect_column_values_to_not_be_null import ExpectColumnValuesToNotBeNull

    column, mostly = expectation.frame_column, expectation.mostly
    meta = {"expectation_id": expectation.expectation_id}
    if expectation.kind == "not_null":
        return ExpectColumnValuesToNotBeNull(column=column, mostly=mostly, meta=meta)
    if expectation.kind == "in_set":
        allowed = list(expectation.allowed_values)
        return ExpectColumnValuesToBeInSet(column=column, value_set=allowed, mostly=mostly, meta=meta)
    return ExpectColumnValuesToBeBetween(
        column=column, min_value=expectation.minimum, max_value=expectation.maximum, mostly=mostly, meta=meta
    )


def _finding(record: Mapping[str, Any]) -> Finding:
    error = _raised(record["exception_info"])
    result = record["result"] or {}
    n_rows = result.get("element_count") or 0
    return Finding(
        is_met=bool(record["success"]) and error is None,
        error=error,
        n_looked_at=n_rows - (result.get("missing_count") or 0),
        n_failed=result.get("unexpected_count") or 0,
        # by position where a frame has no line_key: measures bring examples of their own
        examples=tuple(
            _example(item) for item in result.get("partial_unexpected_index_list") or () if isinstance(item, Mapping)
        ),
    )


def _raised(info: Mapping[str, Any]) -> str | None:
    """The message of what was raised: by the expectation, or by one of the metrics it rests on."""
    raised = [item for item in (info, *info.values()) if isinstance(item, Mapping) and item.get("raised_exception")]
    if not raised:
        return None
    message = " ".join(str(raised[0].get("exception_message") or "no message").split())
    return message if len(message) <= MAX_ERROR_CHARS else message[: MAX_ERROR_CHARS - 1] + "…"


def _example(item: Mapping[str, Any]) -> str:
    values = [value for name, value in item.items() if name != "line_key"]
    key = item.get("line_key") or "a line without key"
    return f"{key}: {values[0]}" if values and values[0] is not None else str(key)
