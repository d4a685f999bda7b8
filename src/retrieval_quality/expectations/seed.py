"""`seeds/landing_expectations.csv`: one expectation per row, for people to tune."""

import csv
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from retrieval_quality.expectations.columns import CHECKED_CONTRACTS, columns_of, fitting_columns, is_text

SEED: Final = Path("seeds") / "landing_expectations.csv"

Severity = Literal["block", "warn"]
About = Literal["single lines", "all lines", "keys", "types", "ranked lists"]


class ExpectationsError(Exception):
    """The seed of expectations says something that cannot be checked; one line with place and cause."""


@dataclass(frozen=True)
class Kind:
    """What an expectation of a kind needs, and where it can stand.

    Kinds about single lines are evaluated line by line, the others on one number that SQL counts. Only those
    about all lines see every line where there are many. `contracts` None means all.
    """

    about: About
    meaning: str
    contracts: frozenset[str] | None = None

    @property
    def is_per_line(self) -> bool:
        return self.about == "single lines"


def _of(about: About, meaning: str, *contracts: str) -> Kind:
    return Kind(about, meaning, frozenset(contracts) or None)


KINDS: Final[Mapping[str, Kind]] = {
    "not_null": _of("single lines", "share of lines that have the column"),
    "between": _of("single lines", "share of its values from minimum to maximum"),
    "in_set": _of("single lines", "share of its values among allowed_values"),
    "known_key_share": _of(
        "keys", "lowest share, over files of min_lines lines and more, of lines with a key of the contract"
    ),
    "unknown_keys": _of("keys", "number of keys that are neither of the contract nor among allowed_values"),
    "misfit_share": _of(
        "types", "highest share, over the columns, of values that do not fit their type and read as NULL"
    ),
    "hours_since_newest": _of(
        "all lines",
        "hours from the newest line, new or staged, to now; production goes before evaluation",
        "retrieval_traces",
        "feedback",
    ),
    "volume_ratio": _of(
        "all lines",
        "lines of a full day / median of the 28 days before it, of the day that is furthest off",
        "retrieval_traces",
        "feedback",
    ),
    "repeated_share": _of(
        "all lines",
        "share of lines whose key is repeated in the new files or staged from another file",
        "retrieval_traces",
        "feedback",
        "answers",
        "llm_calls",
    ),
    "without_trace_share": _of(
        "all lines",
        "share of lines whose trace_id and session_id belong to no trace, new or staged",
        "feedback",
        "answers",
    ),
    "other_rank_base_share": _of(
        "ranked lists", "share of ranked lists that do not start at the rank most lists start at", "retrieval_traces"
    ),
    "against_declared_share": _of(
        "ranked lists", "share of lists whose scores run against their higher_is_better", "retrieval_traces"
    ),
    "mixed_direction_share": _of(
        "ranked lists",
        "share of lists whose scores run against the others of their index_version and score_type",
        "retrieval_traces",
    ),
    "direction_flips": _of(
        "ranked lists",
        "number of index_version and score_type whose scores run the other way than what is staged",
        "retrieval_traces",
    ),
}


@dataclass(frozen=True)
class Expectation:
    """A row of the seed.

    `minimum` and `maximum` bound a value (`between`) or the counted number; `mostly` is the share of
    lines (0 to 1) that must do; below `min_lines` new lines it is not applied.
    """

    expectation_id: str
    contract: str
    kind: str
    column_name: str | None
    minimum: float | None
    maximum: float | None
    mostly: float
    allowed_values: tuple[str, ...]
    min_lines: int
    severity: Severity
    description: str

    @property
    def is_per_line(self) -> bool:
        return KINDS[self.kind].is_per_line

    @property
    def frame_column(self) -> str:
        """Where its values stand: the column of the lines, or of the measures, which are named by expectation."""
        return self.column_name if self.is_per_line and self.column_name else self.expectation_id


def read_expectations(project_dir: Path) -> tuple[Expectation, ...]:
    """The rows of the project's seed, in its order. Raises ExpectationsError at the first that makes no sense."""
    path = project_dir / SEED
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            missing = sorted({*_COLUMNS} - {*(reader.fieldnames or ())})
            if missing:
                raise ExpectationsError(f"{SEED}: column {missing[0]} is missing")
            rows = [(reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ExpectationsError(f"{SEED}: cannot be read: {error}") from error
    expectations = tuple(_expectation(row, f"{SEED} line {number}") for number, row in rows)
    _refuse_repeated_ids(expectations)
    return expectations


_COLUMNS: Final = (
    "expectation_id",
    "contract",
    "expectation",
    "column_name",
    "minimum",
    "maximum",
    "mostly",
    "allowed_values",
    "min_lines",
    "severity",
    "description",
)
_TAKE_VALUES: Final = ("in_set", "unknown_keys")


def _expectation(row: Mapping[str, str | None], place: str) -> Expectation:
    cells = {name: (row.get(name) or "").strip() for name in _COLUMNS}
    where = f"{place} ({cells['expectation_id'] or 'no expectation_id'})"
    if not cells["expectation_id"] or not cells["description"]:
        raise ExpectationsError(f"{where}: expectation_id and description must be given")
    _known(where, "contract", cells["contract"], CHECKED_CONTRACTS)
    _known(where, "expectation", cells["expectation"], KINDS)
    expectation = Expectation(
        expectation_id=cells["expectation_id"],
        contract=cells["contract"],
        kind=cells["expectation"],
        column_name=cells["column_name"] or None,
        minimum=_number(where, "minimum", cells["minimum"]),
        maximum=_number(where, "maximum", cells["maximum"]),
        mostly=_share(where, cells["mostly"]),
        allowed_values=tuple(value.strip() for value in cells["allowed_values"].split("|") if value.strip()),
        min_lines=_count(where, cells["min_lines"]),
        severity=_severity(where, cells["severity"]),
        description=cells["description"],
    )
    _check_fit(expectation, has_mostly=bool(cells["mostly"]), where=where)
    return expectation


def _check_fit(expectation: Expectation, *, has_mostly: bool, where: str) -> None:
    kind, contract, column = KINDS[expectation.kind], expectation.contract, expectation.column_name
    name = expectation.kind
    if kind.contracts is not None and contract not in kind.contracts:
        raise ExpectationsError(f"{where}: {name} is for {', '.join(sorted(kind.contracts))}, not for {contract}")
    if kind.is_per_line:
        _known(where, f"column_name of {contract}", column or "", columns_of(contract))
    elif column is not None and name != "misfit_share":
        raise ExpectationsError(f"{where}: {name} takes no column_name")
    elif column is not None:
        _known(where, f"column_name of {contract} with a type", column, fitting_columns(contract))
    has_bounds = expectation.minimum is not None or expectation.maximum is not None
    takes_bounds = name not in ("not_null", "in_set")
    if has_bounds != takes_bounds:
        raise ExpectationsError(f"{where}: {name} {'needs' if takes_bounds else 'takes no'} minimum or maximum")
    if None not in (low := expectation.minimum, high := expectation.maximum) and low > high:  # type: ignore[operator]
        raise ExpectationsError(f"{where}: minimum {low:g} is above maximum {high:g}")
    if has_mostly and not kind.is_per_line:
        raise ExpectationsError(f"{where}: {name} takes no mostly; bound it by minimum and maximum")
    if expectation.allowed_values and name not in _TAKE_VALUES:
        raise ExpectationsError(f"{where}: {name} takes no allowed_values")
    if name == "in_set" and not expectation.allowed_values:
        raise ExpectationsError(f"{where}: in_set needs allowed_values, such as a|b")
    if name == "in_set" and not is_text(contract, column or ""):
        raise ExpectationsError(f"{where}: in_set is for texts, and {column} is none; use between")


def _refuse_repeated_ids(expectations: Iterable[Expectation]) -> None:
    seen: set[str] = set()
    for expectation in expectations:
        if expectation.expectation_id in seen:
            raise ExpectationsError(f"{SEED}: expectation_id {expectation.expectation_id} is there twice")
        seen.add(expectation.expectation_id)


def _known(where: str, what: str, name: str, known: Iterable[str]) -> None:
    names = sorted(known)
    if name in names:
        return
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(names)}"
    raise ExpectationsError(f"{where}: {what} '{name}' is unknown; {hint}")


def _number(where: str, what: str, text: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not abs(value) < float("inf"):
        raise ExpectationsError(f"{where}: {what} must be a number, got '{text}'")
    return value


def _share(where: str, text: str) -> float:
    value = _number(where, "mostly", text)
    if value is not None and not 0 < value <= 1:
        raise ExpectationsError(f"{where}: mostly must be above 0 and up to 1, got '{text}'")
    return 1.0 if value is None else value


def _count(where: str, text: str) -> int:
    if text and not (text.isascii() and text.isdigit()):
        raise ExpectationsError(f"{where}: min_lines must be a whole number, got '{text}'")
    return int(text or 0)


def _severity(where: str, text: str) -> Severity:
    if text == "block":
        return "block"
    if text == "warn":
        return "warn"
    raise ExpectationsError(f"{where}: severity must be block or warn, got '{text}'")
