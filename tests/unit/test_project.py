"""The shape of the dbt project: what DESIGN asks of every model, checked on all of them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import PROJECT, Warehouse

Node = dict[str, object]


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Node], str]:
    """The manifest of a fresh parse, and what dbt printed meanwhile."""
    warehouse = Warehouse(tmp_path_factory.mktemp("parse"))
    command = [
        *(
            str(Path(sys.executable).with_name("dbt")),
            "parse",
            "--no-partial-parse",
            "--show-all-deprecations",
            "--no-use-colors",
        ),
        *(
            "--project-dir",
            str(PROJECT),
            "--profiles-dir",
            str(PROJECT / "profiles"),
            "--log-path",
            str(warehouse.root),
        ),
    ]
    done = subprocess.run(
        command, env=os.environ | warehouse.environment, capture_output=True, text=True, check=False, cwd=warehouse.root
    )
    assert done.returncode == 0, done.stdout
    manifest = json.loads((warehouse.root / "target" / "manifest.json").read_text())
    return manifest, done.stdout + done.stderr


def models(manifest: dict[str, Node], language: str | None = None) -> list[Node]:
    nodes = [node for node in manifest["nodes"].values() if node["resource_type"] == "model"]
    return [node for node in nodes if language in (None, node["language"])]


def test_parsing_prints_no_deprecation(parsed: tuple[dict[str, Node], str]) -> None:
    _, printed = parsed
    assert "Registered adapter" in printed
    assert not re.search(r"deprecat|warning", printed, re.IGNORECASE), printed


def test_every_model_says_what_a_row_is(parsed: tuple[dict[str, Node], str]) -> None:
    manifest, _ = parsed
    described = {node["name"]: node["description"] for node in models(manifest)}
    assert len(described) > 40
    silent = {name for name, text in described.items() if not re.match(r"One row\b|The \w+", text)}
    assert silent == set()


def test_sql_marts_have_a_contract_and_a_unit_test_python_marts_declared_columns(
    parsed: tuple[dict[str, Node], str],
) -> None:
    manifest, _ = parsed
    published = re.compile(r"(mart|fct|dim)_")
    unit_tested = {test["model"] for test in manifest["unit_tests"].values()}
    marts = [node for node in models(manifest, "sql") if published.match(node["name"])]
    assert len(marts) >= 5
    for node in marts:
        assert node["contract"]["enforced"], node["name"]
        assert node["name"] in unit_tested, node["name"]
    tests = [node for node in manifest["nodes"].values() if node["resource_type"] == "test"]
    declared = {
        test["attached_node"] for test in tests if test.get("test_metadata", {}).get("name") == "declared_columns"
    }
    python_marts = [node for node in models(manifest, "python") if published.match(node["name"])]
    assert {node["unique_id"] for node in python_marts} <= declared
    assert len(declared) >= 2


def test_the_policy_is_all_that_built_days_depend_on_beside_what_landed(parsed: tuple[dict[str, Node], str]) -> None:
    manifest, _ = parsed
    nodes, macros = manifest["nodes"], manifest["macros"]

    beyond = re.compile(r"model\.retrieval_quality\.(stg_|int_policy_versions)|macro\.(?!retrieval_quality)")

    def behind(name: str, seen: set[str]) -> set[str]:
        depends_on = (nodes.get(name) or macros[name])["depends_on"]
        for other in (*depends_on.get("nodes", []), *depends_on["macros"]):
            if other not in seen and not beyond.match(other):
                seen.add(other)
                behind(other, seen)
        return seen

    by_day = [
        node["unique_id"] for node in models(manifest) if node["config"].get("incremental_strategy") == "replace_days"
    ]
    assert len(by_day) >= 7
    needed = set(by_day).union(*(behind(name, set()) for name in by_day))
    code = "".join(
        (nodes.get(name) or {}).get("raw_code", "") + macros.get(name, {}).get("macro_sql", "") for name in needed
    )
    listed = (PROJECT / "macros" / "incremental" / "label_policy.sql").read_text().split("macro policy_seeds")
    names = [set(re.findall(r"'([a-z_]+)'", text.partition("endmacro")[0])) for text in listed]
    # what as_of changes, int_day_versions tells by the labels it brings in or out
    assert set(re.findall(r"""var\(['"](\w+)""", code)) - {"as_of"} == names[0]
    assert {name.rpartition(".")[2] for name in needed if name.startswith("seed.")} == names[1]


def test_models_read_top_to_bottom() -> None:
    """Length, no control flow in Jinja, no configuration in the file."""
    files = sorted((PROJECT / "models").rglob("*.sql"))
    assert len(files) > 40
    for file in files:
        text = file.read_text()
        assert len(text.splitlines()) <= 90, file.name
        assert not re.search(r"{%-? *(if|for|set|macro)|config\(", text), file.name
    for file in (PROJECT / "python_models").rglob("*.py"):
        assert len(file.read_text().splitlines()) <= 25, file.name


@pytest.mark.skipif(
    shutil.which("git") is None or not (PROJECT / ".git").exists(),
    reason="needs git and a clone, to tell which files are tracked",
)
def test_nothing_names_this_machine_or_a_registry() -> None:
    """Locks carry hashes, not places; files of the project name no absolute home of theirs."""
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=True
    ).stdout.split()
    places = re.compile(rf"{re.escape(str(PROJECT.parent))}/|index-url|pythonhosted|registry *=", re.IGNORECASE)
    named = [
        name for name in tracked
        if name != Path(__file__).relative_to(PROJECT).as_posix() and name != "Makefile"
        and places.search((PROJECT / name).read_text(errors="replace"))
    ]  # fmt: skip
    assert len(tracked) > 100
    assert named == []
