"""`dbt build` in this process: one line per failure, and a database that is let go."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from retrieval_quality.build import (
    MAX_MESSAGE_CHARS,
    BuildFailed,
    BuildResult,
    VarsError,
    build,
    check_vars,
    one_line,
)

PROJECT = """
name: tiny
version: "1.0"
profile: tiny
on-run-start: "{{ check_vars() }}"
vars: {label_maturity_days: 2, landing: landing}
flags: {send_anonymous_usage_stats: false}
"""
PROFILE = """
tiny:
  target: dev
  outputs:
    dev: {type: duckdb, path: "{{ env_var('RQ_WAREHOUSE') }}", threads: 2}
"""
CHECK_VARS = """
{% macro check_vars() %}
{% if execute and var('label_maturity_days') is not number %}
{{ exceptions.raise_compiler_error(
    "var label_maturity_days must be a number >= 0, got '" ~ var('label_maturity_days') ~ "'") }}
{% endif %}
{% if execute %}{{ log("nothing new landed", info=true) }}{% endif %}
select 1
{% endmacro %}
"""
PYTHON_MODEL = """
def check(frame):
    if len(frame) > %d:
        in_a_cycle_with_its_traceback = ValueError("the histogram has too many rows\\nsecond line")
        raise in_a_cycle_with_its_traceback


def model(dbt, session):
    print("chatter")
    relation = dbt.ref("one")
    check(relation)
    return relation.df()
"""
TESTS = """
models:
  - name: one
    columns:
      - name: id
        data_tests:
          - accepted_values: {arguments: {values: [2]}, config: {severity: warn}, name: odd_ids}
"""
FAILING = """
models:
  - name: contracted
    config: {contract: {enforced: true}}
    columns: [{name: id, data_type: varchar}, {name: gone, data_type: date}]
  - name: source_table
    columns:
      - name: id
        data_tests:
          - accepted_values: {arguments: {values: [2]}, name: ids_are_two}
unit_tests:
  - name: doubles
    model: doubled
    given: [{input: ref('one'), rows: [{id: 1}]}]
    expect: {rows: [{id: 3}]}
"""


class Tiny:
    """A dbt project of a few models in a folder of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.warehouse = root / "tiny.duckdb"
        self.write("dbt_project.yml", PROJECT)
        self.write("profiles/profiles.yml", PROFILE)
        self.write("macros/check_vars.sql", CHECK_VARS)
        self.write("models/one.sql", "select 1 as id")
        self.write("models/py.py", PYTHON_MODEL % 1)
        self.write("models/tests.yml", TESTS)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def build(self, variables: str | None = None, target: str | None = None) -> BuildResult:
        return build(
            project_dir=self.root,
            profiles_dir=self.root / "profiles",
            log_dir=self.root / "logs",
            variables=variables,
            target=target,
            unit_tests=True,
        )

    def failed(self, variables: str | None = None, target: str | None = None) -> BuildFailed:
        with pytest.raises(BuildFailed) as caught:
            self.build(variables, target)
        return caught.value

    def is_free(self) -> bool:
        program = f"import duckdb; duckdb.connect({str(self.warehouse)!r}).execute('from one')"
        other = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
        with closing(duckdb.connect(str(self.warehouse), config={"threads": 1})) as con:
            con.execute("checkpoint")
        return other.returncode == 0


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tiny:
    project = Tiny(tmp_path)
    monkeypatch.setenv("RQ_WAREHOUSE", str(project.warehouse))
    return project


def test_success_leaves_stdout_alone_is_counted_and_lets_the_database_go(
    tiny: Tiny, capfd: pytest.CaptureFixture[str]
) -> None:
    before = Path.cwd()
    result = tiny.build()
    assert capfd.readouterr() == ("", "chatter\n")
    assert result.status == "success"
    assert dict(result.counts) == {"success": 3, "warn": 1}
    assert [warning.line for warning in result.warnings] == [
        "test odd_ids (models/tests.yml): Got 1 result, configured to warn if != 0"
    ]
    assert result.notes == ("nothing new landed",)
    assert result.failures == ()
    assert 0 < result.elapsed_seconds < 60
    assert result.log_file.read_text().count("odd_ids") > 0
    assert tiny.is_free()
    assert Path.cwd() == before


def test_every_failure_is_one_line_with_its_root_cause(tiny: Tiny, capfd: pytest.CaptureFixture[str]) -> None:
    tiny.write("landing/x.jsonl", '{"a":1\n')
    landing = tiny.root / "landing"
    tiny.write("models/py.py", PYTHON_MODEL % 0)
    tiny.write("models/bad_file.sql", "from read_json('{{ var(\"landing\") }}/x.jsonl')")
    tiny.write("models/bad_column.sql", "select\n  nope\nfrom {{ ref('one') }}")
    tiny.write("models/child.sql", "from {{ ref('bad_column') }}")
    tiny.write("models/undefined.sql", "select {{ reff('x') }}")
    tiny.write("models/source_table.sql", "select 1 as id")
    tiny.write("models/doubled.sql", "select 2 * id as id from {{ ref('one') }}")
    tiny.write("models/contracted.sql", "select 1 as id")
    tiny.write("models/failing.yml", FAILING)
    failed = tiny.failed(f"{{landing: '{landing}'}}")
    lines = {failure.node: failure.message for failure in failed.result.failures}
    assert "Malformed JSON in file" in lines["model bad_file"]
    assert f"{landing}/x.jsonl" in lines["model bad_file"]
    assert "LINE" not in lines["model bad_file"]
    assert lines["model bad_column"] == (
        'Binder Error: Referenced column "nope" not found in FROM clause! Candidate bindings: "id"'
    )
    assert lines["model py"] == "ValueError: the histogram has too many rows second line"
    assert lines["model undefined"].startswith("'reff' is undefined.")
    assert lines["test ids_are_two (models/failing.yml)"] == ("Got 1 result, configured to fail if != 0")
    assert lines["unit test doubles (models/failing.yml)"] == ("actual differs from expected: @@ ,id +++,2 ---,3")
    assert lines["model contracted"] == (
        "the enforced contract does not hold: "
        "gone missing in definition (model none, contract DATE); "
        "id data type mismatch (model INTEGER, contract VARCHAR)"
    )
    assert len(lines) == len(failed.lines) == 7
    assert not any("\n" in line for line in failed.lines)
    assert failed.result.counts["skipped"] == 2
    assert capfd.readouterr() == ("", "chatter\n")
    assert tiny.is_free()


def test_a_wrong_var_arrives_as_one_line_and_the_next_build_works(tiny: Tiny) -> None:
    failed = tiny.failed("{label_maturity_days: two}")
    assert failed.lines == ("var label_maturity_days must be a number >= 0, got 'two'",)
    assert failed.result.status == "failed"
    assert tiny.build("{label_maturity_days: 3}").status == "success"


def test_errors_before_any_node_runs(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    [line] = tiny.failed(target="nope").lines
    assert line == (
        "The profile 'tiny' does not have a target named 'nope'. The valid target names for this profile are: - dev"
    )
    tiny.write("models/broken.sql", 'select {{ "x')
    [line] = tiny.failed().lines
    assert line.startswith("model broken (models/broken.sql): unexpected char")
    (tiny.root / "models/broken.sql").unlink()
    monkeypatch.setenv("RQ_WAREHOUSE", str(tiny.root / "none" / "x.duckdb"))
    [line] = tiny.failed().lines
    assert line.startswith(f'IO Error: Cannot open file "{tiny.root}/none/x.duckdb"')


def test_a_locked_warehouse_is_one_line(tiny: Tiny) -> None:
    program = f"import duckdb; con = duckdb.connect({str(tiny.warehouse)!r}); print('open', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        [line] = tiny.failed().lines
        holder.communicate(b"\n")
    assert line.startswith("IO Error: Could not set lock on file")


def test_one_process_can_build_one_warehouse_after_another(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.build()
    other = tiny.root / "other.duckdb"
    monkeypatch.setenv("RQ_WAREHOUSE", str(other))
    tiny.build()
    for database in (tiny.warehouse, other):
        with closing(duckdb.connect(str(database))) as con:
            assert con.execute("select id from one").fetchall() == [(1,)]


@pytest.mark.parametrize("text", [None, "", "  ", "{}", "{a: 1}", "a: 1\nb: [2]"])
def test_vars_that_pass(text: str | None) -> None:
    check_vars(text)


@pytest.mark.parametrize("text", ["[1", "a", "[1, 2]", "{1: 2}", "7", "a: b: c"])
def test_vars_that_do_not(text: str) -> None:
    with pytest.raises(VarsError, match=r"^--vars ") as caught:
        check_vars(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("\x1b[31mRuntime Error\x1b[0m\n  no profile", "no profile"),
        (
            (
                "Runtime Error in model a (models/a.sql)\n  Invalid Input Error: CSV Error on Line: 2\n"
                "  Original Line: 3\n\n  file = landing/x.csv\n  delimiter = ,"
            ),
            "Invalid Input Error: CSV Error on Line: 2 Original Line: 3 (file landing/x.csv)",
        ),
        (
            (
                "Parsing Error\n  Error reading tiny: t.yml - Runtime Error\n"
                "    Syntax error near line 3\n    ------------------------------\n    1  | models:"
            ),
            "Error reading tiny: t.yml - Runtime Error Syntax error near line 3",
        ),
        (
            (
                "Traceback (most recent call last):\n  File x\nKeyError: 'a'\n\nDuring handling:\n\n"
                "Traceback (most recent call last):\n  File y\npkg.mod.BadError: no a"
            ),
            "pkg.mod.BadError: no a",
        ),
        ("Runtime Error", "Runtime Error"),
        ("", ""),
    ],
)
def test_one_line(message: str, line: str) -> None:
    assert one_line(message) == line


def test_one_line_has_a_limit() -> None:
    assert len(one_line("x" * 10_000)) == MAX_MESSAGE_CHARS
    assert os.linesep not in one_line("x\n" * 10_000)
