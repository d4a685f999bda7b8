"""The seed of landing expectations says what can be checked, and is refused in one line where it does not."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from support import PROJECT
from unit.expectation_cases import Place, expected

from retrieval_quality.build import VarsError
from retrieval_quality.contracts import CONTRACTS, reading_types
from retrieval_quality.expectations import ExpectationsError
from retrieval_quality.expectations.columns import CHECKED_CONTRACTS, columns_of, fitting_columns
from retrieval_quality.expectations.measures import _MEASURES
from retrieval_quality.expectations.seed import KINDS, read_expectations
from retrieval_quality.expectations.variables import as_of, project_vars


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_seed_of_the_project_is_sound() -> None:
    rows = read_expectations(PROJECT)
    assert {row.contract for row in rows} == set(CHECKED_CONTRACTS)
    # small contracts come a line at a time: a bad one is quarantined and must not stop the night
    blocking = [row for row in rows if row.severity == "block"]
    assert {row.contract for row in blocking} == {"retrieval_traces", "feedback"}
    assert all(row.min_lines >= 20 for row in blocking)


def test_keys_that_the_adapters_and_the_demo_add_are_allowed() -> None:
    allowed = {
        row.contract: set(row.allowed_values) for row in read_expectations(PROJECT) if row.kind == "unknown_keys"
    }
    assert {"span_id", "stage", "latency_ms", "simulated"} <= allowed["retrieval_traces"]
    assert {"source", "user", "name", "simulated"} <= allowed["feedback"]


def test_every_required_column_is_expected() -> None:
    looked_at = {(row.contract, row.column_name) for row in read_expectations(PROJECT) if row.kind == "not_null"}
    made = {("retrieval_traces", "retrieved"): "retrieved_or_error"}
    required = {
        (contract, made.get((contract, name), name))
        for contract in CHECKED_CONTRACTS
        for name, field in CONTRACTS[contract].model_fields.items()
        if field.is_required()
    }
    assert required - looked_at == set()


def test_all_contracts_but_our_own_are_checked() -> None:
    assert set(CONTRACTS) - set(CHECKED_CONTRACTS) == {"alert_events", "drill_reports", "landing_checks"}


def test_every_kind_that_counts_has_its_measure() -> None:
    assert set(_MEASURES) == {name for name, kind in KINDS.items() if not kind.is_per_line}


@pytest.mark.parametrize("contract", CHECKED_CONTRACTS)
def test_columns_rest_on_the_contract(contract: str) -> None:
    assert {column for column in fitting_columns(contract).values() if column} <= set(columns_of(contract))
    assert {name for name in columns_of(contract) if name in reading_types(contract)}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (expected("not_nul", column="ts"), "expectation 'not_nul' is unknown; did you mean 'not_null'?"),
        (expected("not_null", "feedbak", column="ts"), "contract 'feedbak' is unknown; did you mean 'feedback'?"),
        (expected("not_null", "landing_checks", column="x"), "contract 'landing_checks' is unknown; known: answers"),
        (expected("not_null", column="sesion_id"), "column_name of retrieval_traces 'sesion_id' is unknown; did you"),
        (expected("not_null"), "column_name of retrieval_traces '' is unknown; known: "),
        (expected("between", column="top_k"), "between needs minimum or maximum"),
        (expected("not_null", column="top_k", minimum=1), "not_null takes no minimum or maximum"),
        (expected("between", column="top_k", minimum=2, maximum=1), "minimum 2 is above maximum 1"),
        (expected("between", column="top_k", minimum="one"), "minimum must be a number, got 'one'"),
        (expected("between", column="top_k", minimum="nan"), "minimum must be a number, got 'nan'"),
        (expected("not_null", column="ts", mostly=1.5), "mostly must be above 0 and up to 1, got '1.5'"),
        (expected("repeated_share", maximum=0.1, mostly=0.9), "repeated_share takes no mostly"),
        (expected("repeated_share", column="ts", maximum=0.1), "repeated_share takes no column_name"),
        (expected("repeated_share", "queries", maximum=0.1), "repeated_share is for answers, feedback, llm_calls"),
        (expected("misfit_share", column="query", maximum=0.1), "with a type 'query' is unknown"),
        (expected("in_set", column="intent"), "in_set needs allowed_values, such as a|b"),
        (expected("in_set", column="top_k", allowed="1|2"), "in_set is for texts, and top_k is none; use between"),
        (expected("not_null", column="ts", allowed="a"), "not_null takes no allowed_values"),
        (expected("not_null", column="ts", min_lines="few"), "min_lines must be a whole number, got 'few'"),
        (expected("not_null", column="ts", severity="page"), "severity must be block or warn, got 'page'"),
    ],
)
def test_what_makes_no_sense_is_refused(place: Place, row: dict[str, str], message: str) -> None:
    place.expect(expected("not_null", name="good", column="ts"), row)
    with pytest.raises(ExpectationsError) as caught:
        read_expectations(place.settings.project_dir)
    where = f"seeds/landing_expectations.csv line 3 ({row['expectation_id']}): "
    assert str(caught.value).startswith(where + message) or message in str(caught.value)
    assert str(caught.value).startswith(where)


def test_an_id_is_given_once(place: Place) -> None:
    place.expect(expected("not_null", column="ts"), expected("not_null", column="query"))
    with pytest.raises(ExpectationsError, match="expectation_id not_null is there twice"):
        read_expectations(place.settings.project_dir)


def test_a_missing_seed_or_column_is_told(place: Place) -> None:
    with pytest.raises(ExpectationsError, match=r"landing_expectations\.csv: cannot be read: .*No such file"):
        read_expectations(place.settings.project_dir)
    place.expect()
    (place.root / "project/seeds/landing_expectations.csv").write_text("expectation_id,contract\n")
    with pytest.raises(ExpectationsError, match="column allowed_values is missing"):
        read_expectations(place.settings.project_dir)


# --- vars ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("in_project", "given", "moment"),
    [
        ("{}", None, None),
        ("{as_of: ''}", "  ", None),
        # YAML reads these as a time and as a date
        ("{as_of: 2026-03-10 12:00:00}", None, datetime(2026, 3, 10, 12, tzinfo=UTC)),
        ("{as_of: 2026-03-10}", "{confidence: 0.9}", datetime(2026, 3, 10, tzinfo=UTC)),
        ("{as_of: '2026-03-10'}", "{as_of: '2026-03-11T01:00:00+01:00'}", datetime(2026, 3, 11, tzinfo=UTC)),
        ("{retrieval_quality: {as_of: '2026-03-12T00:00:00Z'}}", None, datetime(2026, 3, 12, tzinfo=UTC)),
        ("{as_of: '2026-03-10'}", "{as_of: ''}", None),
    ],
)
def test_as_of_is_the_var(place: Place, in_project: str, given: str | None, moment: datetime | None) -> None:
    place.expect(project_vars=in_project)
    assert as_of(project_vars(place.settings, given)) == moment


@pytest.mark.parametrize(
    ("given", "message"), [("{as_of: soon}", "var as_of must be an ISO 8601 time"), ("[1]", "--vars")]
)
def test_vars_that_make_no_sense(place: Place, given: str, message: str) -> None:
    place.expect()
    with pytest.raises(VarsError, match=message):
        as_of(project_vars(place.settings, given))
