"""What readers of `published/` may count on."""

import datetime as dt
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pytest

import retrieval_quality.publish as module
from retrieval_quality.publish import (
    Publication,
    PublishError,
    current_database,
    publication_ids,
    publish,
    published_inputs,
    resolve_current,
    rollback,
)

AS_OF = "2026-03-10 12:30:15.25"


@dataclass(frozen=True)
class Places:
    warehouse: Path
    published: Path

    def run(self, *statements: str) -> None:
        with closing(duckdb.connect(str(self.warehouse))) as con:
            for statement in statements:
                con.execute(statement)

    def change(self, version: int, built_by: str, *days: str) -> None:
        """A build that makes a version of the warehouse's days, and gives these another content."""
        self.run(
            f"insert into int_day_versions select {version} as day_version, '{built_by}' as built_by",
            *(
                f"update fct_scores set day_version = {version}, score = score + {version} where traced_on = '{day}'"
                for day in days
            ),
        )

    def publish(self, *, keep: int = 7, fact_days: int = 3) -> Publication:
        return publish(self.warehouse, self.published, keep=keep, fact_days=fact_days)

    def query(self, sql: str) -> list[tuple[object, ...]]:
        return query(current_database(self.published), sql)


def query(database: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(duckdb.connect(str(database), read_only=True)) as con:
        return con.execute(sql).fetchall()


@pytest.fixture
def places(tmp_path: Path) -> Places:
    places = Places(tmp_path / "build" / "wh.duckdb", tmp_path / "it's published")
    places.warehouse.parent.mkdir()
    places.run(
        f"create table int_as_of as select timestamp '{AS_OF}' as as_of",
        "create table stg_landing_files as select range as file_id from range(4)",
        "create table mart_a as select i as k, {'x': i, 'y': [i, i + 1]} as nested, "
        "['b', 'a'] as list_value, i::hugeint as big, map {'k': i} as m "
        "from range(5, 0, -1) t(i)",
        "create view mart_view as select k from mart_a",
        "create table mart_empty as select 1 as a where false",
        "create table mart_a__dbt_tmp as select 1 as a",
        "create table dim_metrics as select 'recall' as metric",
        "create table int_private as select 1 as a",
        "create table fct_scores as select date '2026-03-05' + d::integer as traced_on, "
        "1 as day_version, d * 100 + r as id, r / 7 as score from range(5) a(d), range(50) b(r)",
        "create table int_day_versions as select 1 as day_version, 'first build' as built_by",
        "create schema dbt_test__audit",
        "create table dbt_test__audit.mart_failures as select 1 as a",
    )
    return places


def parquet(publication: Publication) -> dict[str, Path]:
    root = publication.path / "parquet"
    return {str(path.relative_to(root)): path for path in sorted(root.rglob("*.parquet"))}


def test_what_is_published(places: Places) -> None:
    publication = places.publish()
    assert publication.publication_id == "20260310T123015Z-0001"
    assert publication.as_of == dt.datetime(2026, 3, 10, 12, 30, 15, 250_000, tzinfo=dt.UTC)
    assert publication.path == places.published / "versions" / publication.publication_id
    assert resolve_current(places.published) == publication.path.resolve()
    assert str((places.published / "current").readlink()) == f"versions/{publication.publication_id}"
    tables = ["dim_metrics", "dim_publication", "fct_scores", "mart_a", "mart_empty", "mart_view"]
    assert places.query("select table_name from duckdb_tables() order by all") == [(table,) for table in tables]
    assert publication.n_tables == len(tables)
    assert sorted(parquet(publication)) == [
        "dim_metrics.parquet",
        "dim_publication.parquet",
        "fct_scores/traced_on=2026-03-07/v1.parquet",
        "fct_scores/traced_on=2026-03-08/v1.parquet",
        "fct_scores/traced_on=2026-03-09/v1.parquet",
        "mart_a.parquet",
        "mart_empty.parquet",
        "mart_view.parquet",
    ]
    assert sorted(path.name for path in publication.path.iterdir()) == [
        "parquet",
        "rag_quality.duckdb",
    ]
    assert not list(places.published.rglob(".tmp-*"))


def test_database_and_parquet_hold_the_same_rows(places: Places) -> None:
    publication = places.publish()
    folder = str(publication.path / "parquet" / "fct_scores").replace("'", "''")
    fact = f"read_parquet('{folder}/**')"
    for difference in (
        f"select traced_on, day_version, id, score from {fact} except all from fct_scores",
        f"from fct_scores except all select traced_on, day_version, id, score from {fact}",
    ):
        assert places.query(difference) == []
    assert places.query("select count(*), min(traced_on) from fct_scores") == [(150, dt.date(2026, 3, 7))]
    mart = duckdb.read_parquet(str(parquet(publication)["mart_a.parquet"]))
    assert mart.fetchall() == [(i, {"x": i, "y": [i, i + 1]}, ["b", "a"], float(i), {"k": i}) for i in range(1, 6)]
    assert places.query("select k, nested, big from mart_a limit 1") == [(1, {"x": 1, "y": [1, 2]}, 1)]


def test_dim_publication(places: Places) -> None:
    before = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    publication = places.publish()
    columns = "publication_id, as_of, published_at, package_version, n_landing_files"
    [row] = places.query(f"select {columns} from dim_publication")
    assert row[:2] == (publication.publication_id, publication.as_of.replace(tzinfo=None))
    assert isinstance(row[2], dt.datetime)
    assert before <= row[2] <= dt.datetime.now(dt.UTC).replace(tzinfo=None)
    assert row[3:] == ("0.1.0", 4)
    told = "select inputs_sha256, day_version, built_by from dim_publication"
    assert places.query(told) == [(None, 1, "first build")]
    publish(places.warehouse, places.published, keep=7, fact_days=3, inputs="abc")
    assert published_inputs(places.published) == "abc"
    copy = duckdb.read_parquet(str(parquet(publication)["dim_publication.parquet"]))
    assert copy.select(columns).fetchall() == [row]


def test_landing_files_are_unknown_without_their_ledger(places: Places) -> None:
    places.run("drop table stg_landing_files")
    places.publish()
    assert places.query("select n_landing_files from dim_publication") == [(None,)]


def test_as_of_with_a_time_zone_is_published_in_utc(places: Places) -> None:
    places.run("create or replace table int_as_of as select timestamptz '2026-03-10 01:00:00+02:00' as as_of")
    assert places.publish().publication_id == "20260309T230000Z-0001"


def test_storage_version_is_readable_by_older_duckdb(places: Places) -> None:
    header = places.publish().database.read_bytes()[:20]
    assert header[8:12] == b"DUCK"
    assert int.from_bytes(header[12:20], "little") == 65
    assert not list(places.published.rglob("*.wal"))


def assert_whole(places: Places, publication: Publication) -> None:
    """The published table and its Parquet files hold the rows of the warehouse's newest three days."""
    columns = "traced_on, day_version, id, score"
    newest = "(select distinct traced_on from fct_scores order by 1 desc limit 3)"
    expected = query(places.warehouse, f"select {columns} from fct_scores where traced_on in {newest} order by all")
    files = [str(path) for name, path in parquet(publication).items() if name.startswith("fct_scores/")]
    assert query(publication.database, f"select {columns} from fct_scores order by all") == expected
    assert duckdb.read_parquet(files, hive_partitioning=True).select(columns).order("all").fetchall() == expected


def test_unchanged_fact_days_are_hard_links(places: Places) -> None:
    first = places.publish()
    assert (first.n_fact_days_written, first.n_fact_days_linked) == (3, 0)
    places.change(2, "second build", "2026-03-08")
    second = places.publish()
    assert second.publication_id == "20260310T123015Z-0002"
    assert (second.n_fact_days_written, second.n_fact_days_linked) == (1, 2)
    assert_whole(places, second)
    old, new = parquet(first), parquet(second)
    for day in ("2026-03-07", "2026-03-09"):
        name = f"fct_scores/traced_on={day}/v1.parquet"
        assert old[name].stat().st_ino == new[name].stat().st_ino
    assert "fct_scores/traced_on=2026-03-08/v2.parquet" in new
    assert "fct_scores/traced_on=2026-03-08/v1.parquet" not in new


# Each of these is followed by other rows under a version that is published.
NOT_GONE_ON_FROM = {
    "a new warehouse": ["update int_day_versions set built_by = 'build of the new one'"],
    "a full refresh": ["update int_day_versions set day_version = 2, built_by = 'refresh'"],
    "made by hand": ["drop table int_day_versions"],
    "of an earlier commit": ["alter table int_day_versions drop built_by"],
    "purged of its versions": ["delete from int_day_versions"],
}


@pytest.mark.parametrize("statements", NOT_GONE_ON_FROM.values(), ids=NOT_GONE_ON_FROM)
def test_a_warehouse_that_has_not_gone_on_from_the_publication_is_published_anew(
    places: Places, statements: list[str]
) -> None:
    places.publish()
    places.run(*statements, "update fct_scores set score = score + 1")
    second = places.publish()
    assert (second.n_fact_days_written, second.n_fact_days_linked) == (3, 0)
    assert_whole(places, second)


@pytest.mark.parametrize("version_of_other_build", [2, 3])
def test_a_warehouse_that_was_restored_does_not_link_what_the_lost_build_published(
    places: Places, tmp_path: Path, version_of_other_build: int
) -> None:
    backup = shutil.copy(places.warehouse, tmp_path / "backup.duckdb")
    places.publish()
    places.change(2, "lost build", "2026-03-08")
    places.publish()
    shutil.copy(backup, places.warehouse)
    for version in range(2, version_of_other_build + 1):
        places.change(version, f"build {version} after the backup", "2026-03-08")
    third = places.publish()
    assert (third.n_fact_days_written, third.n_fact_days_linked) == (3, 0)
    assert_whole(places, third)


def test_a_publication_that_does_not_say_its_build_is_not_linked(places: Places) -> None:
    first = places.publish()
    with closing(duckdb.connect(str(first.database))) as con:
        con.execute("alter table dim_publication drop built_by")
    assert places.publish().n_fact_days_linked == 0
    places.run("drop table int_day_versions")
    places.publish()
    assert places.query("select day_version, built_by from dim_publication") == [(None, None)]
    assert places.publish().n_fact_days_linked == 0


def test_a_night_after_a_rollback_links_what_is_unchanged_since_that_version(places: Places) -> None:
    first = places.publish()
    places.change(2, "second build", "2026-03-07")
    places.publish()
    places.change(3, "third build", "2026-03-08")
    rollback(places.published)
    assert resolve_current(places.published) == first.path.resolve()
    third = places.publish()
    assert (third.n_fact_days_written, third.n_fact_days_linked) == (2, 1)
    assert_whole(places, third)


def test_days_that_a_killed_build_left_to_the_next_are_written(places: Places) -> None:
    places.publish()
    places.run("insert into int_day_versions values (2, 'killed build')")
    assert places.publish().n_fact_days_linked == 3
    places.run("update fct_scores set day_version = 2, score = 0 where traced_on = '2026-03-09'")
    third = places.publish()
    assert (third.n_fact_days_written, third.n_fact_days_linked) == (1, 2)
    assert_whole(places, third)


def test_a_day_whose_file_is_gone_is_written_anew(places: Places) -> None:
    parquet(places.publish())["fct_scores/traced_on=2026-03-08/v1.parquet"].unlink()
    second = places.publish()
    assert (second.n_fact_days_written, second.n_fact_days_linked) == (1, 2)
    assert_whole(places, second)


def test_a_day_whose_rows_are_gone_is_written_anew(places: Places) -> None:
    first = places.publish()
    with closing(duckdb.connect(str(first.database))) as con:
        con.execute("delete from fct_scores where traced_on = '2026-03-08'")
    second = places.publish()
    assert (second.n_fact_days_written, second.n_fact_days_linked) == (1, 2)
    assert_whole(places, second)


@pytest.mark.parametrize(
    "change",
    [
        ["add column extra varchar"],
        ["alter score type float"],
        ["drop id", "add column id bigint default 1"],
    ],
)
def test_other_columns_are_published_anew(places: Places, change: list[str]) -> None:
    places.publish()
    places.run(*(f"alter table fct_scores {part}" for part in change))
    second = places.publish()
    assert (second.n_fact_days_written, second.n_fact_days_linked) == (3, 0)
    assert_whole(places, second)


def test_days_without_rows_leave_the_publication(places: Places) -> None:
    places.publish()
    places.run("delete from fct_scores where traced_on in ('2026-03-05', '2026-03-08')")
    second = places.publish()
    assert places.query("select distinct traced_on::varchar from fct_scores order by all") == [
        ("2026-03-06",), ("2026-03-07",), ("2026-03-09",),
    ]  # fmt: skip
    assert (second.n_fact_days_written, second.n_fact_days_linked) == (1, 2)
    assert_whole(places, second)


@pytest.mark.parametrize(
    "statements",
    [
        [
            "delete from fct_scores where traced_on = '2026-03-08'",
            "update fct_scores set score = 2, day_version = 2 where traced_on = '2026-03-07'",
        ],
        ["insert into fct_scores by name select date '2026-03-10' as traced_on, 2 as day_version, 7 as id"],
        ["alter table fct_scores rename column score to points"],
        ["drop table fct_scores", "create table fct_others as select date '2026-03-05' as traced_on, 1 as day_version"],
        ["drop view mart_view", "drop table mart_empty", "update mart_a set k = 9"],
        ["drop table fct_scores", "create table fct_scores as select date '2026-03-05' as traced_on, 1 as day_version"],
    ],
)
@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_database_that_begins_with_the_previous_one_ends_like_a_new_one(
    places: Places, tmp_path: Path, statements: list[str], is_damaged: bool
) -> None:
    first = places.publish()
    places.run(*statements)
    if is_damaged:
        first.database.write_bytes(first.database.read_bytes()[:5_000])
    second = places.publish()
    new = publish(places.warehouse, tmp_path / "new", keep=7, fact_days=3)

    names = "select table_name, column_name, data_type from duckdb_columns() order by all"
    assert query(second.database, names) == query(new.database, names)
    for (table,) in query(new.database, "select table_name from duckdb_tables() where table_name <> 'dim_publication'"):
        rows = f"from {table} order by all"
        assert query(second.database, rows) == query(new.database, rows), table


def test_copies_where_linking_fails(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    first = places.publish()
    monkeypatch.setattr(os, "link", no_links)
    second = places.publish()
    name = "fct_scores/traced_on=2026-03-09/v1.parquet"
    assert parquet(first)[name].read_bytes() == parquet(second)[name].read_bytes()
    assert parquet(first)[name].stat().st_ino != parquet(second)[name].stat().st_ino


def test_whole_tables_do_not_depend_on_row_order(places: Places) -> None:
    first = places.publish()
    places.run("create or replace table mart_a as from mart_a order by k")
    second = places.publish()
    assert parquet(first)["mart_a.parquet"].read_bytes() == parquet(second)["mart_a.parquet"].read_bytes()


def test_prune_keeps_the_last_versions_and_the_current_one(places: Places) -> None:
    ids = [places.publish(keep=2).publication_id for _ in range(4)]
    assert publication_ids(places.published) == tuple(ids[2:])
    assert places.publish(keep=1).pruned == tuple(ids[2:])
    assert publication_ids(places.published) == ("20260310T123015Z-0005",)


def test_sequence_goes_on_when_as_of_goes_back(places: Places) -> None:
    first = places.publish()
    places.run("update int_as_of set as_of = timestamp '2026-03-01 00:00:00'")
    second = places.publish()
    assert second.publication_id == "20260301T000000Z-0002"
    assert publication_ids(places.published) == (first.publication_id, second.publication_id)


def test_sequence_goes_on_when_the_clock_goes_back(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock(dt.datetime):
        year_now = 2030

        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:
            return dt.datetime(cls.year_now, 1, 1, tzinfo=tz)

    monkeypatch.setattr(module, "dt", SimpleNamespace(datetime=Clock, UTC=dt.UTC))
    first = places.publish()
    Clock.year_now = 2020
    second = places.publish(keep=1)
    assert (first.published_at.year, second.published_at.year) == (2030, 2020)
    assert second.publication_id == "20260310T123015Z-0002"
    assert publication_ids(places.published) == (second.publication_id,)
    assert resolve_current(places.published).name == second.publication_id


def test_rollback(places: Places) -> None:
    ids = [places.publish().publication_id for _ in range(3)]
    assert rollback(places.published) == ids[1]
    assert resolve_current(places.published).name == ids[1]
    assert rollback(places.published) == ids[0]
    with pytest.raises(PublishError, match=f"no version before {ids[0]}"):
        rollback(places.published)
    assert rollback(places.published, ids[2]) == ids[2]
    with pytest.raises(PublishError, match=r"no version \.\./x; there are: " + ", ".join(ids)):
        rollback(places.published, "../x")
    assert resolve_current(places.published).name == ids[2]


def test_publish_after_rollback_does_not_reuse_an_id_nor_lose_the_way_back(
    places: Places,
) -> None:
    ids = [places.publish().publication_id for _ in range(2)]
    rollback(places.published)
    third = places.publish(keep=3)
    assert third.publication_id.endswith("-0003")
    assert publication_ids(places.published) == (*ids, third.publication_id)


def test_leftovers_of_a_killed_publish_are_removed(places: Places) -> None:
    leftover = places.published / "versions" / ".tmp-99"
    leftover.mkdir(parents=True)
    (leftover / "rag_quality.duckdb").write_bytes(b"half")
    (places.published / ".tmp-current").symlink_to("versions/none")
    places.publish()
    assert not list(places.published.rglob(".tmp-*"))


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "create view mart_z as select error('no such run') as a",
            "mart_z: .*no such run",
        ),
        ("alter table fct_scores rename traced_on to day", "fct_scores: needs a DATE column"),
        ("alter table fct_scores drop day_version", "fct_scores: needs an integer column"),
        (
            "update fct_scores set day_version = 2 where id = 401",
            "fct_scores: 2026-03-09 has more than one day_version",
        ),
        ("update fct_scores set traced_on = null where id = 401", "1 rows have no traced_on"),
        ("drop table int_as_of", "no table int_as_of"),
        ("update int_as_of set as_of = null", "nothing to publish"),
    ],
)
def test_a_failed_publish_leaves_current_untouched(places: Places, statement: str, message: str) -> None:
    first = places.publish()
    places.run(statement)
    with pytest.raises(PublishError, match=message) as caught:
        places.publish()
    assert "\n" not in str(caught.value)
    assert resolve_current(places.published) == first.path.resolve()
    assert publication_ids(places.published) == (first.publication_id,)
    assert not list(places.published.rglob(".tmp-*"))


@pytest.mark.parametrize("step", ["_flush", "_write_fact_day", "_copy_whole", "_flush_entry"])
def test_an_error_at_any_step_before_the_swap_leaves_current_untouched(
    places: Places, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    first = places.publish()
    places.run("update fct_scores set day_version = 2")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, step, full)
    with pytest.raises(PublishError, match="No space left on device"):
        places.publish()
    monkeypatch.undo()
    assert resolve_current(places.published) == first.path.resolve()
    assert places.query("select publication_id from dim_publication") == [(first.publication_id,)]
    places.publish()


def test_a_day_that_cannot_be_written_is_told_with_its_table(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_day_file", lambda day, _version: f"{day}/{'x' * 300}.parquet")
    with pytest.raises(PublishError, match=r"fct_scores: .*File name too long"):
        places.publish()


def test_missing_and_locked_warehouse(places: Places, tmp_path: Path) -> None:
    with pytest.raises(PublishError, match="does not exist; run a night first"):
        publish(tmp_path / "none.duckdb", places.published, keep=1, fact_days=1)
    program = f"import duckdb; con = duckdb.connect({str(places.warehouse)!r}); print('open', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(PublishError, match="Could not set lock"):
            places.publish()
        holder.communicate(b"\n")


def test_one_publish_at_a_time(places: Places) -> None:
    places.publish()
    with (
        module._locked(places.published),
        pytest.raises(PublishError, match="another publish or rollback is running"),
    ):
        places.publish()


def test_nothing_published_yet(tmp_path: Path) -> None:
    with pytest.raises(PublishError, match="nothing is published"):
        resolve_current(tmp_path)
    with pytest.raises(PublishError, match="does not exist"):
        rollback(tmp_path / "none")


READER = """
import os, sys, duckdb
published, progress = sys.argv[1:]
seen = set()
with open(progress, "ab", buffering=0) as log:
    while not os.path.exists(os.path.join(published, "stop")):
        version = os.path.realpath(os.path.join(published, "current"))
        con = duckdb.connect(os.path.join(version, "rag_quality.duckdb"), read_only=True)
        con.execute("set threads = 1")
        publication = con.execute("select publication_id, as_of from dim_publication").fetchall()
        generations = con.execute(
            "select distinct generation from mart_g union all select distinct generation from fct_g"
        ).fetchall()
        con.close()
        assert len(publication) == 1 and publication[0][0] == os.path.basename(version), publication
        # the generation of every table, and the minute of as_of
        assert set(generations) == {(publication[0][1].minute,)}, (publication, generations)
        files = [version + "/parquet/mart_g.parquet", version + "/parquet/fct_g/*/*.parquet"]
        assert duckdb.execute("select distinct generation from read_parquet(?)", [files]).fetchall() == generations[:1]
        seen.add(publication[0][0])
        log.write(b".")
print(len(seen))
"""
N_READERS = 4
N_PUBLICATIONS = 20
READS_PER_PUBLICATION = 50


def write_generation(places: Places, generation: int) -> None:
    places.run(
        f"update int_as_of set as_of = timestamp '2026-03-10 12:{generation:02}:00'",
        f"create or replace table mart_g as select {generation} as generation from range(1000)",
        "create or replace table fct_g as select date '2026-03-01' + (i % 2)::integer "
        f"as traced_on, {generation} as day_version, {generation} as generation "
        "from range(1000) t(i)",
    )


@pytest.fixture
def readers(places: Places, tmp_path: Path) -> Iterator[dict[Path, subprocess.Popen[str]]]:
    """Dashboards that open `current` again and again, by the file that grows by a byte with every read."""
    write_generation(places, 0)
    places.publish()
    started = {}
    for number in range(N_READERS):
        progress = tmp_path / f"reads-{number}"
        progress.touch()
        started[progress] = subprocess.Popen(
            [sys.executable, "-c", READER, str(places.published), str(progress)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    yield started
    for reader in started.values():
        reader.kill()
        reader.communicate()


def test_a_thousand_reads_during_twenty_publications_see_each_of_them_whole(
    places: Places, readers: dict[Path, subprocess.Popen[str]]
) -> None:
    for generation in range(1, N_PUBLICATIONS + 1):
        write_generation(places, generation)
        places.publish()
        while n_reads(readers) < generation * READS_PER_PUBLICATION:
            assert all(reader.poll() is None for reader in readers.values()), "a reader failed"
            time.sleep(0.005)
    rollback(places.published)
    (places.published / "stop").touch()
    for reader in readers.values():
        output, errors = reader.communicate(timeout=30)
        assert (reader.returncode, errors) == (0, "")
        assert int(output) > N_PUBLICATIONS / 2
    assert n_reads(readers) >= N_PUBLICATIONS * READS_PER_PUBLICATION


def n_reads(readers: dict[Path, subprocess.Popen[str]]) -> int:
    return sum(progress.stat().st_size for progress in readers)
