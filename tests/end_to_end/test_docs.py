"""What the documentation shows can be done: its SQL runs on a published demo, its links lead somewhere."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from end_to_end.first_run import FirstRun
from support import PROJECT

pytestmark = pytest.mark.xdist_group("first_run")

PAGES = sorted(
    path.relative_to(PROJECT).as_posix()
    for path in (
        PROJECT / "README.md",
        PROJECT / "CONTRIBUTING.md",
        PROJECT / "CHANGELOG.md",
        *(PROJECT / "docs").rglob("*.md"),
    )
)
MARTS = {path.stem for path in (PROJECT / "docs" / "marts").glob("*.md")}
ON_WAREHOUSE = "-- warehouse\n"

SQL = re.compile(r"^```sql\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^```.*?^```$", flags=re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", flags=re.MULTILINE)
# paths of a machine
PRIVATE = re.compile(r"(?:^|[\s\"'`(=])/(?:work|tmp|home|root|Users)/", flags=re.MULTILINE)


def text_of(page: str) -> str:
    return (PROJECT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [page for page in PAGES if SQL.search(text_of(page))])
def test_sql_runs_and_finds_something(first_run: FirstRun, page: str) -> None:
    """In the order of the page, in one session per database, as a reader would."""
    places = first_run.places
    with (
        duckdb.connect(str(places.current / "rag_quality.duckdb"), read_only=True) as published,
        duckdb.connect(str(places.warehouse), read_only=True) as warehouse,
    ):
        for block in SQL.findall(text_of(page)):
            database = warehouse if block.startswith(ON_WAREHOUSE) else published
            assert database.execute(block).fetchall(), f"{page}: finds nothing:\n{block}"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target, anchor in links_of(page):
        assert target.exists(), f"{page}: {target} does not exist"
        if anchor:
            assert anchor in anchors_of(target), f"{page}: {target.name} has no heading #{anchor}"


@pytest.mark.parametrize("page", PAGES)
def test_no_page_names_a_place_of_one_machine(page: str) -> None:
    assert not PRIVATE.search(text_of(page))


def test_every_published_table_has_its_page(first_run: FirstRun) -> None:
    tables = first_run.places.query("select table_name from duckdb_tables() where schema_name = 'main'")
    assert {name for (name,) in tables} == MARTS


@pytest.mark.parametrize("page", sorted(f"docs/marts/{mart}.md" for mart in MARTS))
def test_a_page_of_a_table_begins_with_its_grain(page: str) -> None:
    name, _, first_line, *_ = text_of(page).splitlines()
    assert name == f"# {Path(page).stem}"
    assert first_line.startswith("One row")


@pytest.mark.parametrize("page", [page for page in PAGES if re.search(r"\bdemo\b", text_of(page), re.IGNORECASE)])
def test_a_page_with_the_demo_says_that_it_is_simulated(page: str) -> None:
    assert "simulated" in text_of(page)


def test_every_reason_of_quarantine_is_explained() -> None:
    contracts = "".join(path.read_text() for path in (PROJECT / "macros" / "landing").glob("contract_*.sql"))
    reasons = set(re.findall(r"then '(\w+)'", contracts)) - {"unreadable_line"}
    reasons |= {"bad_retrieved", "bad_candidates", "invalid_utf8", "invalid_json", "not_an_object", "no_known_key"}
    page = text_of("docs/landing.md")
    assert {reason for reason in reasons if f"`{reason}`" not in page} == set()


def test_every_column_of_a_contract_is_explained() -> None:
    page = text_of("docs/landing.md")
    for path in (PROJECT / "macros" / "landing").glob("contract_*.sql"):
        contract = path.stem.removeprefix("contract_")
        (section,) = re.findall(rf"^## {contract}\n(.*?)(?=^## )", page, flags=re.MULTILINE | re.DOTALL)
        columns = re.findall(r"'(\w+)': (?:'|ranked)", path.read_text())
        assert [column for column in columns if f"`{column}`" not in section] == [], contract


def test_every_metric_is_defined() -> None:
    catalog = (PROJECT / "seeds" / "metric_catalog.csv").read_text().splitlines()[1:]
    page = text_of("docs/metrics.md")
    assert [line for line in catalog if f"| `{line.split(',')[0]}` |" not in page] == []


def test_every_objective_has_its_place_in_the_runbook() -> None:
    with (PROJECT / "seeds" / "slo_targets.csv").open(newline="") as file:
        places = {row["runbook"] for row in csv.DictReader(file)}
    for place in places:
        page, _, anchor = place.partition("#")
        assert anchor in anchors_of(PROJECT / page), place


def test_the_example_of_the_environment_names_every_variable() -> None:
    folders = {"src": "*.py", "macros": "*.sql", "profiles": "*.yml"}
    sources = [path for folder, names in folders.items() for path in (PROJECT / folder).rglob(names)]
    used = {name for path in sources for name in re.findall(r"['\"](RQ_[A-Z_]+)['\"]", path.read_text())}
    example = set(re.findall(r"\b(RQ_[A-Z_]+)=", (PROJECT / ".env.example").read_text()))
    assert example == used


def links_of(page: str) -> Iterator[tuple[Path, str]]:
    """Targets within the repository and their anchors; code blocks are no prose."""
    for link in LINK.findall(CODE.sub("", text_of(page))):
        path, _, anchor = link.partition("#")
        if "://" not in path:
            yield ((PROJECT / page).parent / path if path else PROJECT / page), anchor


def anchors_of(page: Path) -> set[str]:
    headings = HEADING.findall(CODE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
