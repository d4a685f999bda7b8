"""Exit codes, one `error:` line per failure, and JSON on standard output alone."""

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from retrieval_quality.cli import main
from retrieval_quality.demo import DEFAULT_DAYS, DEFAULT_SEED
from retrieval_quality.locks import changing
from retrieval_quality.nightly import run_nightly
from retrieval_quality.publish import current_database, publication_ids, resolve_current
from retrieval_quality.settings import Settings, SettingsError, exported, resolve_settings
from retrieval_quality.summary import SummaryError, print_summary, read_summary

PROJECT = """
name: 'retrieval_quality'  # as the real one
version: "1.0"
profile: tiny
vars: {is_bad: false, state: met, as_of: 2026-03-10 12:00:00}
flags: {send_anonymous_usage_stats: false}
on-run-start: "{{ check_vars() }}"
seed-paths: [no_seeds]
models: {+materialized: table}
"""
PROFILE = """
tiny:
  target: dev
  outputs:
    dev: {type: duckdb, path: "{{ env_var('RQ_WAREHOUSE') }}", threads: 1}
"""
CHECK_VARS = """
{% macro check_vars() %}
{% if execute and var('is_bad') is not boolean %}
{{ exceptions.raise_compiler_error("var is_bad must be a boolean, got '" ~ var('is_bad') ~ "'") }}
{% endif %}
select 1
{% endmacro %}
"""
LANDED = """
select count(*) as n from read_json('{{ env_var("RQ_LANDING") }}/feedback/*', columns = {a: 'INT'})
"""
MART = """
select w.window_name, timestamp '2026-03-09 12:00:00' - w.age as window_start_at,
    timestamp '2026-03-10 12:00:00' - w.age as window_end_at, traffic, dimension
    as segment_dimension, 'all' as segment_value, stage, label_class, m.metric, m.k,
    case when m.metric = 'recall' and label_class = 'explicit' then 'nan'::double else m.e end
    as estimate, m.e - 0.05 as ci_low, m.e + 0.05 as ci_high, 'bca' as ci_method,
    m.e - 0.1 as bound_low, m.e + 0.1 as bound_high, 1234::bigint as n_units,
    2000::bigint as n_traces, 1500::bigint as n_scored,
    not (m.metric = 'recall' and label_class = 'explicit') as is_identifiable
from (values ('rolling_24h', interval 0 day), ('rolling_24h', interval 1 day),
      ('trailing_28d', interval 0 day), ('day', interval 0 day)) w(window_name, age),
    (values ('production')) t(traffic), (values ('total'), ('intent')) d(dimension),
    (values ('final')) s(stage), (values ('golden'), ('explicit')) l(label_class),
    (values ('precision', 5, 0.25::double), ('precision', 3, 0.2), ('recall', 5, 0.5),
      ('recall', 10, 0.75), ('reciprocal_rank', 10, 0.625)) m(metric, k, e)
"""
STATUS = """
select 'daily' as slo_id, 'total' as segment_dimension, 'total' as segment_value, date '2026-03-09' as night_on,
    true as is_newest, 'page' as severity, 'us' as owner, 'docs/runbook.md' as runbook, 'recall' as metric, 5 as k,
    'final' as stage, 'golden' as label_class, 'scheduled_eval' as traffic, 'day' as window_name,
    date '2026-03-09' as window_starts_on, '{{ var("state") }}' as state, 0.5::double as estimate,
    0.4::double as bound_low, 0.6::double as bound_high, 0.5::double as baseline_estimate, 0.7::double as objective,
    0.02::double as margin, 100::bigint as n_units, 100::bigint as n_traces, false as is_page
"""
TESTS = """
models:
  - name: landed
    columns:
      - name: n
        data_tests: [{not_null: {config: {enabled: "{{ not var('is_bad') }}"}}}]
"""


@dataclass(frozen=True)
class Place:
    root: Path

    @property
    def published(self) -> Path:
        return self.root / "published"

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    for variable in [name for name in os.environ if name.startswith(("RQ_", "DBT_"))]:
        monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path)


@pytest.fixture
def project(place: Place) -> Place:
    place.write("dbt_project.yml", PROJECT)
    place.write("profiles/profiles.yml", PROFILE)
    place.write("macros/check_vars.sql", CHECK_VARS)
    place.write("models/int_as_of.sql", "select '{{ var(\"as_of\") }}'::timestamp as as_of")
    place.write("models/landed.sql", LANDED)
    place.write("models/mart_retrieval_quality.sql", MART)
    place.write("models/mart_slo_status.sql", STATUS)
    place.write("models/tests.yml", TESTS)
    place.write("tests/not_bad.sql", "select 1 as a where {{ var('is_bad') }}")
    place.write("landing/feedback/a.jsonl", '{"a": 1}\n')
    header = (Path(__file__).parents[2] / "seeds" / "landing_expectations.csv").read_text().splitlines()[0]
    place.write("seeds/landing_expectations.csv", header)  # nothing is expected
    return place


def settings_of(place: Place, environ: Mapping[str, str] | None = None) -> Settings:
    return resolve_settings(environ=environ or {}, current_dir=place.root)


def test_help_is_fast_and_loads_neither_dbt_nor_duckdb() -> None:
    program = (
        "import sys; from click.testing import CliRunner; from retrieval_quality.cli import main; "
        "result = CliRunner().invoke(main, ['--help']); assert result.exit_code == 0; "
        "heavy = {'dbt', 'duckdb', 'rich', 'pandas', 'numpy'} & set(sys.modules); "
        "assert not heavy, heavy; print(result.output)"
    )
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert time.perf_counter() - started < 2
    for command in (b"nightly", b"demo", b"summary", b"publish", b"rollback"):
        assert command in done.stdout


def test_version() -> None:
    assert run("--version").output == "retrieval-quality, version 0.1.0\n"


@pytest.mark.parametrize(
    "arguments",
    [("nope",), ("nightly", "--nope"), ("demo", "--days", "0"), ("rollback", "a", "b")],
)
def test_usage_errors_exit_2(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


def test_a_night_publishes_and_a_failed_one_leaves_the_publication_untouched(
    project: Place,
) -> None:
    good = run("nightly")
    assert good.exit_code == 0, good.output
    database = current_database(project.published)
    assert database.parent.name == "20260310T120000Z-0001"
    assert "Published 20260310T120000Z-0001: 3 tables" in good.stdout
    assert good.stdout.endswith(f"Published database: {database}\n")
    assert (project.root / "warehouse/retrieval_quality.duckdb").is_file()
    assert "RQ_LANDING" not in os.environ

    bad = run("nightly", "--vars", "{is_bad: true}")
    assert bad.exit_code == 2
    assert bad.stderr == (
        "error: test not_bad (tests/not_bad.sql): Got 1 result, configured to fail if != 0\n"
        f"details: {project.root}/logs/dbt.log\n"
    )
    assert bad.stdout == ""
    wrong = run("nightly", "--vars", "{is_bad: two}")
    assert (wrong.exit_code, wrong.stderr.splitlines()[0]) == (
        2,
        "error: var is_bad must be a boolean, got 'two'",
    )
    project.write("landing/feedbak/a.jsonl", "")
    stray = run("nightly")
    assert stray.exit_code == 2
    assert stray.stderr.startswith("error: landing folder 'feedbak' is no contract; did you mean")
    assert stray.stderr.count("\n") == 1
    assert current_database(project.published) == database
    assert publication_ids(project.published) == ("20260310T120000Z-0001",)


def test_a_second_night_at_once_says_so_and_does_nothing(project: Place) -> None:
    warehouse = project.root / "warehouse" / "retrieval_quality.duckdb"
    with changing(warehouse):
        second = run("nightly")
    assert (second.exit_code, second.stdout) == (2, "")
    assert second.stderr == (
        f"error: another command is working on {warehouse} (process {os.getpid()}); nothing was done\n"
    )
    assert [path.name for path in warehouse.parent.iterdir()] == ["retrieval_quality.duckdb.lock"]
    assert not (project.root / "logs").exists()
    assert run("nightly").exit_code == 0


def test_a_breached_verdict_is_published_told_and_exit_code_1(project: Place) -> None:
    night = run("nightly", "--vars", "{state: breached}")

    assert (night.exit_code, night.stderr) == (1, "")
    assert "Alerts: 0 opened, 0 resolved, 0 open; newest verdicts breached or worth a page: 1." in night.stdout
    assert "breached no alert      page: daily, total: recall@5 is 0.500 [0.400, 0.600] on 2026-03-09" in night.stdout
    assert night.stdout.endswith(f"Published database: {current_database(project.published)}\n")
    assert run("alert").exit_code == 1


def test_nightly_json(project: Place) -> None:
    result = run("nightly", "--json", "--published", "elsewhere")
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    assert record["build"]["status"] == "success"
    assert record["alerts"]["exit_code"] == 0
    assert record["build"]["nodes"] == {"pass": 2, "success": 5}
    assert record["publication"]["as_of"] == "2026-03-10T12:00:00Z"
    assert Path(record["publication"]["database"]).is_file()
    assert Path(record["publication"]["path"]).parent == project.root / "elsewhere" / "versions"
    shown = [
        (row["window_name"], row["label_class"], row["metric"], row["k"], row["estimate"]) for row in record["summary"]
    ]
    assert shown == [
        (window, label_class, metric, k, estimate)
        for window in ("rolling_24h", "trailing_28d")
        for label_class in ("explicit", "golden")
        for metric, k, estimate in (
            ("precision", 5, 0.25),
            ("recall", 5, None if label_class == "explicit" else 0.5),
            ("reciprocal_rank", 10, 0.625),
        )
    ]
    assert {row["window_end_at"] for row in record["summary"]} == {"2026-03-10T12:00:00Z"}


def test_summary_publish_and_rollback(place: Place) -> None:
    (place.root / "warehouse").mkdir()
    with closing(duckdb.connect("warehouse/retrieval_quality.duckdb")) as con:
        con.execute("create table int_as_of as select timestamp '2026-03-10 12:00:00' as as_of")
        con.execute(f"create table mart_retrieval_quality as {MART}")
    published = run("publish")
    assert published.stdout == ("Published 20260310T120000Z-0001: 2 tables, 0 fact days written, 0 unchanged.\n")
    text = run("summary").stdout
    assert "Last 24 hours (2026-03-09 12:00 to 2026-03-10 12:00 UTC)" in text
    assert "Four weeks" in text
    [row] = [line for line in text.splitlines() if "golden" in line and "reciprocal_rank@10" in line][:1]
    assert " ".join(row.split()) == (
        "golden production final reciprocal_rank@10 0.625 [0.575, 0.675] [0.525, 0.725] 1,234 1,500/2,000"
    )
    marked = [line for line in text.splitlines() if " ~ " in line]
    assert len(marked) == 2
    assert all("explicit" in line and "recall@" in line for line in marked)
    assert "~ the labels of this class do not cover enough" in text

    again = run("publish", "--json")
    assert json.loads(again.stdout)["publication_id"] == "20260310T120000Z-0002"
    assert run("rollback").stdout == "current is 20260310T120000Z-0001\n"
    assert resolve_current(place.published).name == "20260310T120000Z-0001"
    assert run("rollback", "20260310T120000Z-0002").exit_code == 0
    missing = run("rollback", "20260310T120000Z-0009")
    assert missing.exit_code == 2
    assert missing.stderr.startswith("error: no version 20260310T120000Z-0009; there are: 2026")
    shown = json.loads(run("summary", "--json").stdout)
    assert shown["database"] == str(current_database(place.published))
    assert len(shown["summary"]) == 12


def test_a_damaged_file_is_named_although_the_engine_does_not(project: Place) -> None:
    project.write("landing/feedback/b.jsonl.zst", "")
    (project.root / "landing/feedback/b.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfdgarbage")
    result = run("nightly")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: landing/feedback/b.jsonl.zst: damaged, cannot be decompressed (")


def test_run_nightly_reports_progress(project: Place) -> None:
    said: list[str] = []
    result = run_nightly(settings_of(project), on_progress=said.append)
    assert result.publication is not None
    assert result.publication.path.is_dir()
    assert said[:2] == ["checking what landed", "starting dbt"]
    assert "building mart_retrieval_quality" in said
    assert said[-2:] == ["publishing", "alerting"]


def test_a_night_that_brings_nothing_new_builds_nothing(project: Place) -> None:
    run("nightly")
    quiet = run("nightly")
    first = current_database(project.published)
    assert (quiet.exit_code, quiet.stderr) == (0, "")
    assert quiet.stdout.startswith("Nothing is new since publication 20260310T120000Z-0001: nothing was built.\n")
    assert quiet.stdout.endswith(f"Published database: {first}\n")
    record = json.loads(run("nightly", "--json").stdout)
    assert (record["build"], record["publication"], record["database"]) == (None, None, str(first))
    assert len(record["summary"]) == 12
    # a breached verdict stays one on quiet nights
    assert [run("nightly", "--vars", "{state: breached}").exit_code for _ in range(2)] == [1, 1]


@pytest.mark.parametrize(
    "change",
    [
        lambda project: project.write("landing/feedback/b.jsonl", '{"a": 2}\n'),
        lambda project: project.write("landing/feedback/a.jsonl", '{"a": 1}\n{"a": 2}\n'),
        lambda project: project.write("models/landed.sql", f"-- another\n{LANDED}"),
        lambda project: project.write("seeds/another.csv", "a\n1\n"),
        lambda project: (project.root / "warehouse" / "retrieval_quality.duckdb").unlink(),
        lambda project: run("publish", "--published", str(project.published)),
    ],
)
def test_whatever_a_publication_is_made_from_is_something_new(
    project: Place, change: Callable[[Place], object]
) -> None:
    run("nightly", "--full-refresh")
    run("nightly", "--full-refresh")  # asked for, it is done
    assert len(publication_ids(project.published)) == 2
    change(project)
    n_published = len(publication_ids(project.published))
    night = run("nightly")
    assert "Built and tested" in night.stdout, night.output
    assert len(publication_ids(project.published)) == n_published + 1


def test_tables_are_read_every_night(project: Place) -> None:
    relations = json.dumps({"landing_relations": {"feedback": {"relation": "a.b", "arrival_column": "c"}}})
    for _ in range(2):
        assert "Built and tested" in run("nightly", "--vars", relations).stdout


@pytest.mark.parametrize("text", ["[1", "two"])
def test_bad_vars_exit_2_before_anything_runs(project: Place, text: str) -> None:
    result = run("nightly", "--vars", text)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: --vars ")
    assert result.stderr.count("\n") == 1
    assert not (project.root / "warehouse").exists()


def test_expected_failures_are_one_line(place: Place) -> None:
    place.write("dbt_project.yml", PROJECT)
    for arguments, line in (
        (("nightly",), f"landing folder {place.root}/landing does not exist"),
        (("summary",), f"nothing is published in {place.root}/published yet (no link 'current')"),
        (("rollback",), f"{place.root}/published does not exist; nothing was published there yet"),
        (
            ("publish",),
            f"warehouse {place.root}/warehouse/retrieval_quality.duckdb does not exist; run a night first",
        ),
    ):
        result = run(*arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == f"error: {line}\n"


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("error", "stderr"),
    [
        (KeyboardInterrupt(), "error: interrupted\n"),
        (ValueError("days: 3\n< 4"), "error: days: 3 < 4\n"),
        (ImportError("the demo needs bm25s"), "error: the demo needs bm25s\n"),
        (OSError(28, "No space left on device"), "error: [Errno 28] No space left on device\n"),
    ],
)
def test_failures_of_the_demo_exit_2_with_one_line(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, stderr: str
) -> None:
    def build_demo(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("retrieval_quality.demo.build_demo", build_demo)
    result = run("demo")
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", stderr)


@pytest.mark.usefixtures("place")
def test_a_defect_exits_2_with_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def build_demo(*_: object, **__: object) -> None:
        raise ZeroDivisionError("x")

    monkeypatch.setattr("retrieval_quality.demo.build_demo", build_demo)
    result = run("demo")
    assert result.exit_code == 2
    assert "ZeroDivisionError: x" in result.stderr


def test_demo_passes_on_what_was_given(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Path, int, int]] = []

    def build_demo(landing: Path, *, days: int, seed: int, on_step: Callable[[str], None]) -> str:
        on_step("landing")
        calls.append((landing, days, seed))
        return "summary"

    monkeypatch.setattr("retrieval_quality.demo.build_demo", build_demo)
    monkeypatch.setattr("retrieval_quality.demo.format_summary", lambda landed: f"{landed} of it")
    assert run("demo").stdout == "summary of it\n"
    assert run("demo", "--landing", "mine", "--days", "5", "--seed", "0").exit_code == 0
    assert calls == [
        (place.root / "landing", DEFAULT_DAYS, DEFAULT_SEED),
        (place.root / "mine", 5, 0),
    ]


def test_a_narrow_terminal_leaves_columns_out_and_cuts_nothing(tmp_path: Path) -> None:
    database = tmp_path / "x.duckdb"
    with closing(duckdb.connect(str(database))) as con:
        con.execute(f"create table mart_retrieval_quality as {MART}")
    for width, shows_bounds in ((80, False), (108, True)):
        console = Console(width=width, file=io.StringIO())
        print_summary(database, console)
        assert isinstance(console.file, io.StringIO)
        text = console.file.getvalue()
        assert ("[0.525, 0.725]" in text) == shows_bounds
        assert ("left out below 108 columns" in text) != shows_bounds
        assert "0.625 [0.575, 0.675]" in text
        assert "…" not in text


def test_summary_of_a_database_without_the_mart(tmp_path: Path) -> None:
    database = tmp_path / "x.duckdb"
    duckdb.connect(str(database)).close()
    with pytest.raises(SummaryError, match=r"x\.duckdb: Catalog Error: Table .*mart_retrieval_quality"):
        read_summary(database)


def test_settings_take_the_option_then_the_environment_then_the_default(place: Place) -> None:
    place.write("dbt_project.yml", PROJECT)
    environ = {"RQ_LANDING": "env/landing", "RQ_PUBLISHED": "/abs/p", "RQ_WAREHOUSE": ""}
    settings = resolve_settings(landing="../option", environ=environ, current_dir=place.root / "sub" / "..")
    assert settings.landing == place.root.parent / "option"
    assert settings.published == Path("/abs/p")
    assert settings.warehouse == place.root / "warehouse/retrieval_quality.duckdb"
    assert settings_of(place, environ).landing == place.root / "env/landing"
    assert settings_of(place).profiles_dir == place.root / "profiles"
    assert (settings.keep_publications, settings.publish_fact_days) == (7, 28)


def test_project_dir(place: Place) -> None:
    elsewhere = place.root / "elsewhere"
    elsewhere.mkdir()
    place.write("project/dbt_project.yml", PROJECT)
    place.write("other/dbt_project.yml", PROJECT.replace("retrieval_quality", "another"))
    named = resolve_settings(environ={"RQ_PROJECT_DIR": "../project"}, current_dir=elsewhere)
    assert named.project_dir == place.root / "project"
    with pytest.raises(SettingsError, match="other holds no dbt_project"):
        resolve_settings(environ={"RQ_PROJECT_DIR": "../other"}, current_dir=elsewhere)


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "²"])
def test_numbers_of_the_environment_are_checked(place: Place, text: str) -> None:
    place.write("dbt_project.yml", PROJECT)
    with pytest.raises(SettingsError, match=r"RQ_KEEP_PUBLICATIONS must be a whole number >= 1"):
        settings_of(place, {"RQ_KEEP_PUBLICATIONS": text})


def test_exported_puts_the_environment_back(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write("dbt_project.yml", PROJECT)
    monkeypatch.setenv("RQ_LANDING", "before")
    settings = settings_of(place)
    with exported(settings):
        assert os.environ["RQ_LANDING"] == str(settings.landing)
        assert os.environ["RQ_WAREHOUSE"] == str(settings.warehouse)
    assert os.environ["RQ_LANDING"] == "before"
    assert "RQ_WAREHOUSE" not in os.environ
