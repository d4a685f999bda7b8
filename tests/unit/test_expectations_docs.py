"""docs/checks.md says what the seed and the kinds say. As a program, this file writes the tables of the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from retrieval_quality.expectations.columns import CHECKED_CONTRACTS
from retrieval_quality.expectations.seed import KINDS, Expectation, read_expectations

PROJECT = Path(__file__).parents[2]
PAGE = PROJECT / "docs" / "checks.md"


def expectations() -> str:
    return "\n".join(lines_of_expectations())


def lines_of_expectations() -> Iterator[str]:
    rows = read_expectations(PROJECT)
    for contract in CHECKED_CONTRACTS:
        yield f"### {contract}\n"
        yield "| expectation_id | severity | from | expected | what is wrong where it is not met |"
        yield "|---|---|--:|---|---|"
        for row in rows:
            if row.contract == contract:
                yield (
                    f"| `{row.expectation_id}` | {row.severity} | {row.min_lines or ''} | {said(row)} "
                    f"| {row.description} |"
                )
        yield ""


def said(row: Expectation) -> str:
    subject = f"`{row.kind}`" + (f" of `{row.column_name}`" if row.column_name else "")
    bounds = [
        f"from {row.minimum:g}" if row.minimum is not None else "",
        f"up to {row.maximum:g}" if row.maximum is not None else "",
        f"{', '.join(f'`{value}`' for value in row.allowed_values)} allowed" if row.allowed_values else "",
        f"{row.mostly:.4g} of the lines" if row.is_per_line else "",
    ]
    return ", ".join([subject, *(bound for bound in bounds if bound)])


def kinds() -> str:
    lines = ["| kind | about | what is bounded | contracts |", "|---|---|---|---|"]
    for name, kind in KINDS.items():
        lines.append(
            f"| `{name}` | {kind.about} | {kind.meaning} | {', '.join(sorted(kind.contracts or ())) or 'all'} |"
        )
    return "\n".join(lines)


TABLES = {"expectations": expectations, "kinds": kinds}


def block(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", flags=re.DOTALL)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_the_page_is_current(name: str) -> None:
    (written,) = block(name).findall(PAGE.read_text())
    assert written.strip() == TABLES[name]().strip(), "python tests/unit/test_expectations_docs.py"


if __name__ == "__main__":
    text = PAGE.read_text()
    for name, table in TABLES.items():
        text = block(name).sub(lambda _, table=table: f"\n{table().strip()}\n\n", text)
    PAGE.write_text(text)
