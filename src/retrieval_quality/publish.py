"""Published versions: immutable folders, and one link that is swapped when a version is whole."""

import datetime as dt
import importlib.metadata
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import duckdb

from retrieval_quality.locks import HeldError, exclusive
from retrieval_quality.settings import engine_limits

DATABASE_NAME: Final = "rag_quality.duckdb"
STORAGE_VERSION: Final = "v1.2.0"
PUBLICATION_TABLE: Final = "dim_publication"
FACT_DAY: Final = "traced_on"
FACT_DAY_VERSION: Final = "day_version"

_WHOLE_TABLE_PREFIXES: Final = ("mart_", "dim_")
_FACT_PREFIX: Final = "fct_"
_VERSIONS_TABLE: Final = "int_day_versions"
_BUILT_BY: Final = "built_by"
_PUBLICATION_ID: Final = re.compile(r"\d{8}T\d{6}Z-(?P<sequence>\d{4,})")
_UNFINISHED: Final = ".tmp-"
_INTEGERS: Final = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"})


class PublishError(Exception):
    """Nothing was published (or rolled back), unless the message says otherwise; one line."""


@dataclass(frozen=True)
class Publication:
    """One published version. `as_of` and `published_at` are UTC; a fact day is linked when its
    Parquet file is the one of the previous publication.
    """

    publication_id: str
    path: Path
    database: Path
    as_of: dt.datetime
    published_at: dt.datetime
    n_tables: int
    n_fact_days_written: int
    n_fact_days_linked: int
    pruned: tuple[str, ...]


def publish(warehouse: Path, published: Path, *, keep: int, fact_days: int, inputs: str | None = None) -> Publication:
    """Publish what a warehouse holds now: every mart and dimension, and the newest `fact_days`
    days of every fact; then keep the last `keep` versions. `inputs` (a hash) says what it was made
    from, where that is known.

    The version is written beside the others under a temporary name, flushed to disk and renamed;
    only then is `current` swapped. Raises PublishError; before the swap nothing a reader sees
    has changed.
    """
    if keep < 1 or fact_days < 1:
        raise PublishError(f"keep and fact_days must be >= 1, got {keep} and {fact_days}")
    if not warehouse.is_file():
        raise PublishError(f"warehouse {warehouse} does not exist; run a night first")
    with _locked(published):
        try:
            return _publish(warehouse, published, keep=keep, fact_days=fact_days, inputs=inputs)
        except (duckdb.Error, OSError) as error:
            raise PublishError(_first_line(error)) from error


def rollback(published: Path, to: str | None = None) -> str:
    """Point `current` at an older version, by default the one before it; returns its id.

    Raises PublishError when there is no such version.
    """
    if not published.is_dir():
        raise PublishError(f"{published} does not exist; nothing was published there yet")
    with _locked(published):
        known = publication_ids(published)
        current = resolve_current(published).name
        if to is None:
            older = [known_id for known_id in known if _sequence(known_id) < _sequence(current)]
            if not older:
                raise PublishError(f"there is no version before {current} to roll back to")
            chosen = older[-1]
        elif to in known:
            chosen = to
        else:
            raise PublishError(f"no version {to}; there are: {', '.join(known) or 'none'}")
        try:
            _point_current(published, chosen)
        except OSError as error:
            raise PublishError(_first_line(error)) from error
        return chosen


def resolve_current(published: Path) -> Path:
    """The folder `current` points to now. Resolve once per read: a path through the link may
    change between two files. Raises PublishError when there is no publication.
    """
    link = published / "current"
    if not link.is_symlink():
        raise PublishError(f"nothing is published in {published} yet (no link 'current')")
    version = link.resolve()
    if not version.is_dir():
        raise PublishError(f"{link} points to {version.name}, which does not exist")
    return version


def current_database(published: Path) -> Path:
    """The DuckDB file of the current publication, below its version folder."""
    return resolve_current(published) / DATABASE_NAME


def published_inputs(published: Path) -> str | None:
    """The hash of what the current publication was made from; None where there is none, or it does not say."""
    try:
        row = _told(current_database(published), "inputs_sha256")
    except PublishError:
        return None
    return row[0] if row else None


def _told(database: Path, columns: str) -> tuple[Any, ...] | None:
    """What a published database says of itself; None where it is damaged, or of a version that did not say it."""
    try:
        with closing(duckdb.connect(str(database), read_only=True)) as con:
            row: tuple[Any, ...] | None = con.execute(f"select {columns} from {PUBLICATION_TABLE}").fetchone()
    except duckdb.Error:
        return None
    return row


def publication_ids(published: Path) -> tuple[str, ...]:
    """Ids of all whole versions, oldest publication first."""
    versions = published / "versions"
    names = (
        [path.name for path in versions.iterdir() if _PUBLICATION_ID.fullmatch(path.name)] if versions.is_dir() else []
    )
    return tuple(sorted(names, key=_sequence))


def _publish(warehouse: Path, published: Path, *, keep: int, fact_days: int, inputs: str | None) -> Publication:
    versions = published / "versions"
    versions.mkdir(exist_ok=True)
    _remove_unfinished(published)
    staging = versions / f"{_UNFINISHED}{os.getpid()}"
    (staging / "parquet").mkdir(parents=True)
    try:
        publication = _write_version(warehouse, published, staging, fact_days=fact_days, inputs=inputs)
        _flush(staging)
        staging.rename(publication.path)
        _flush_entry(versions)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    _point_current(published, publication.publication_id)
    return replace(publication, pruned=_prune(published, keep, publication.publication_id))


def _write_version(
    warehouse: Path, published: Path, staging: Path, *, fact_days: int, inputs: str | None
) -> Publication:
    with closing(duckdb.connect(":memory:", config=engine_limits(warehouse))) as con:
        con.execute("set timezone = 'UTC'")
        con.execute(f"attach {_literal(warehouse)} as warehouse (read_only)")
        versions = _day_versions(con)
        previous = _continued_version(published, versions)
        if previous is not None:  # its unchanged fact days stay as they are
            shutil.copyfile(previous / DATABASE_NAME, staging / DATABASE_NAME)
        con.execute(f"attach {_literal(staging / DATABASE_NAME)} as out (storage_version '{STORAGE_VERSION}')")
        as_of = _as_of(con)
        published_at = dt.datetime.now(dt.UTC)
        facts = {fact: _columns(con, fact) for fact in _tables(con, (_FACT_PREFIX,))}
        _drop_all_but(con, facts)
        publication_id = _next_id(published, as_of)
        newest = versions[-1] if versions else (None, None)
        _create_publication_table(con, publication_id, as_of, published_at, inputs, newest)
        whole = _tables(con, _WHOLE_TABLE_PREFIXES)
        for table in whole:
            _copy_whole(con, table)
        for table in (*whole, PUBLICATION_TABLE):
            _write_whole(con, table, staging / "parquet")
        days_by_fact = {fact: _fact_days(con, fact, columns, fact_days) for fact, columns in facts.items()}
        n_linked = sum(
            _write_fact(con, fact, days, staging=staging, previous=previous) for fact, days in days_by_fact.items()
        )
        con.execute("checkpoint out")
        con.execute("detach out")
    path = published / "versions" / publication_id
    return Publication(
        publication_id=publication_id,
        path=path,
        database=path / DATABASE_NAME,
        as_of=as_of,
        published_at=published_at,
        n_tables=len(whole) + len(facts) + 1,
        n_fact_days_written=sum(map(len, days_by_fact.values())) - n_linked,
        n_fact_days_linked=n_linked,
        pruned=(),
    )


def _tables(con: duckdb.DuckDBPyConnection, prefixes: tuple[str, ...]) -> list[str]:
    """Names of tables and views in the warehouse's schema main, without dbt's temporary ones."""
    rows = con.execute(
        "select table_name from information_schema.tables "
        "where table_catalog = 'warehouse' and table_schema = 'main' order by table_name"
    ).fetchall()
    return [
        name for (name,) in rows if name.startswith(prefixes) and "__dbt_" not in name and name != PUBLICATION_TABLE
    ]


def _as_of(con: duckdb.DuckDBPyConnection) -> dt.datetime:
    if not _tables(con, ("int_as_of",)):
        raise PublishError("the warehouse has no table int_as_of; run a night first")
    rows = con.execute("select as_of::timestamp from warehouse.main.int_as_of").fetchall()
    if len(rows) != 1 or rows[0][0] is None:
        raise PublishError(
            "there is nothing to publish: int_as_of must hold one row with an as_of, which is "
            "missing until a trace has landed"
        )
    as_of: dt.datetime = rows[0][0]
    return as_of.replace(tzinfo=dt.UTC)


def _create_publication_table(
    con: duckdb.DuckDBPyConnection,
    publication_id: str,
    as_of: dt.datetime,
    published_at: dt.datetime,
    inputs: str | None,
    version: tuple[int, str] | tuple[None, None],
) -> None:
    n_landing_files = (
        "(select count(*) from warehouse.main.stg_landing_files)" if _tables(con, ("stg_landing_files",)) else "null"
    )
    con.execute(
        f"create table out.main.{PUBLICATION_TABLE} as select ?::varchar as publication_id, "
        "?::timestamp as as_of, ?::timestamp as published_at, ?::varchar as package_version, "
        f"{n_landing_files}::bigint as n_landing_files, ?::varchar as inputs_sha256, "
        f"?::integer as {FACT_DAY_VERSION}, ?::varchar as {_BUILT_BY}",
        [
            publication_id,
            as_of.replace(tzinfo=None),
            published_at.replace(tzinfo=None),
            importlib.metadata.version("retrieval-quality"),
            inputs,
            *version,
        ],
    )


def _copy_whole(con: duckdb.DuckDBPyConnection, table: str) -> None:
    with _about(table):
        con.execute(f"create table out.main.{_name(table)} as from warehouse.main.{_name(table)} order by all")


def _write_whole(con: duckdb.DuckDBPyConnection, table: str, folder: Path) -> None:
    with _about(table):
        con.execute(
            f"copy (from out.main.{_name(table)}) to {_literal(folder / f'{table}.parquet')} "
            "(format parquet, compression zstd)"
        )


def _day_versions(con: duckdb.DuckDBPyConnection) -> list[tuple[int, str]]:
    """Versions of days that the warehouse went through, oldest first, each with the build that made it."""
    if _BUILT_BY not in _columns(con, _VERSIONS_TABLE):
        return []
    return con.execute(
        f"select distinct {FACT_DAY_VERSION}, {_BUILT_BY} from warehouse.main.{_VERSIONS_TABLE} order by all"
    ).fetchall()


def _continued_version(published: Path, versions: Collection[tuple[int, str]]) -> Path | None:
    """The current publication, where the warehouse went on from the build that it was made from: then a fact day of
    the same version has the same rows. A full refresh leaves that build behind; a new warehouse, or one that was
    restored from a backup, gives its number to another.
    """
    try:
        current = resolve_current(published)
    except PublishError:
        return None
    return current if _told(current / DATABASE_NAME, f"{FACT_DAY_VERSION}, {_BUILT_BY}") in versions else None


def _drop_all_but(con: duckdb.DuckDBPyConnection, facts: Mapping[str, Mapping[str, str]]) -> None:
    """Drop what is written anew, and facts that the warehouse no longer has with these columns."""
    rows = con.execute(
        "select table_name from duckdb_tables() where database_name = 'out' and schema_name = 'main'"
    ).fetchall()
    for (table,) in rows:
        if table not in facts or [*_columns(con, table, database="out").items()] != [*facts[table].items()]:
            con.execute(f"drop table out.main.{_name(table)}")


def _fact_days(
    con: duckdb.DuckDBPyConnection, fact: str, columns: Mapping[str, str], n_days: int
) -> dict[dt.date, int]:
    """The newest `n_days` days that have rows, oldest first, each with its version."""
    with _about(fact):
        _check_fact_columns(fact, columns)
        rows = con.execute(
            f"select {FACT_DAY}, min({FACT_DAY_VERSION}), max({FACT_DAY_VERSION}), count(*), count({FACT_DAY_VERSION}) "
            f"from warehouse.main.{_name(fact)} group by {FACT_DAY} order by {FACT_DAY} nulls last"
        ).fetchall()
    if rows and rows[-1][0] is None:
        raise PublishError(f"{fact}: {rows[-1][3]} rows have no {FACT_DAY}")
    newest = rows[-n_days:]
    for day, lowest, highest, n_rows, n_versions in newest:
        if lowest != highest or n_rows != n_versions:
            raise PublishError(f"{fact}: {day} has more than one {FACT_DAY_VERSION}, or none")
    return {day: version for day, version, *_ in newest}


def _write_fact(
    con: duckdb.DuckDBPyConnection,
    fact: str,
    days: Mapping[dt.date, int],
    *,
    staging: Path,
    previous: Path | None,
) -> int:
    """Write the table, and one Parquet file a day or a link to the previous publication's; returns days linked."""
    with _about(fact):
        con.execute(f"create table if not exists out.main.{_name(fact)} as from warehouse.main.{_name(fact)} limit 0")
        unchanged = {} if previous is None else _unchanged_files(con, fact, days, previous / "parquet" / fact)
        new = days.keys() - unchanged.keys()
        _copy_fact(con, fact, unchanged.keys(), new)
    targets = {day: staging / "parquet" / fact / _day_file(day, version) for day, version in days.items()}
    for target in targets.values():
        target.parent.mkdir(parents=True)
    for day, file in unchanged.items():
        _link(file, targets[day])
    ((n_threads,),) = con.execute("select current_setting('threads')").fetchall()
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(lambda day: _write_fact_day(con, fact, day, targets[day]), sorted(new)))
    return len(unchanged)


def _unchanged_files(
    con: duckdb.DuckDBPyConnection, fact: str, days: Mapping[dt.date, int], before: Path
) -> dict[dt.date, Path]:
    """Files in `before` of the days whose version the table that was published with them has, too."""
    rows = con.execute(f"select distinct {FACT_DAY}, {FACT_DAY_VERSION} from out.main.{_name(fact)}").fetchall()
    files = {day: before / _day_file(day, version) for day, version in rows if days.get(day) == version}
    return {day: file for day, file in files.items() if file.is_file()}


def _copy_fact(con: duckdb.DuckDBPyConnection, fact: str, kept: Collection[dt.date], new: Collection[dt.date]) -> None:
    """Leave the `kept` days as they are, replace all others by the `new` ones."""
    con.execute(f"delete from out.main.{_name(fact)} where not list_contains(?::date[], {FACT_DAY})", [list(kept)])
    con.execute(
        f"insert into out.main.{_name(fact)} from warehouse.main.{_name(fact)} "
        f"where list_contains(?::date[], {FACT_DAY})",
        [list(new)],
    )


def _write_fact_day(con: duckdb.DuckDBPyConnection, fact: str, day: dt.date, target: Path) -> None:
    """Write one day; each call has a connection of its own, because they run beside one another."""
    with _about(fact), closing(con.cursor()) as cursor:
        cursor.execute(
            f"copy (select * exclude ({FACT_DAY}) from out.main.{_name(fact)} "
            f"where {FACT_DAY} = date '{day.isoformat()}' order by all) "
            f"to {_literal(target)} (format parquet, compression zstd)"
        )


def _day_file(day: dt.date, version: int) -> str:
    return f"{FACT_DAY}={day.isoformat()}/v{version}.parquet"


def _columns(con: duckdb.DuckDBPyConnection, table: str, *, database: str = "warehouse") -> dict[str, str]:
    rows = con.execute(
        "select column_name, data_type from duckdb_columns() where database_name = ? "
        "and schema_name = 'main' and table_name = ? order by column_index",
        [database, table],
    ).fetchall()
    return dict(rows)


def _check_fact_columns(fact: str, columns: Mapping[str, str]) -> None:
    if columns.get(FACT_DAY) != "DATE":
        raise PublishError(f"{fact}: needs a DATE column {FACT_DAY}, to be published by day")
    if columns.get(FACT_DAY_VERSION) not in _INTEGERS:
        raise PublishError(f"{fact}: needs an integer column {FACT_DAY_VERSION}")


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _next_id(published: Path, as_of: dt.datetime) -> str:
    sequence = 1 + max(map(_sequence, publication_ids(published)), default=0)
    return f"{as_of:%Y%m%dT%H%M%SZ}-{sequence:04d}"


def _sequence(publication_id: str) -> int:
    match = _PUBLICATION_ID.fullmatch(publication_id)
    return int(match["sequence"]) if match else 0


def _point_current(published: Path, publication_id: str) -> None:
    temporary = published / f"{_UNFINISHED}current"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(Path("versions") / publication_id)
    temporary.replace(published / "current")
    _flush_entry(published)


def _prune(published: Path, keep: int, current: str) -> tuple[str, ...]:
    pruned = tuple(name for name in publication_ids(published)[:-keep] if name != current)
    for name in pruned:
        doomed = published / "versions" / f"{_UNFINISHED}{name}"
        try:
            (published / "versions" / name).rename(doomed)
            shutil.rmtree(doomed)
        except OSError as error:
            raise PublishError(
                f"{current} is published, but the old version {name} cannot be removed: {_first_line(error)}"
            ) from error
    return pruned


def _remove_unfinished(published: Path) -> None:
    for path in (*published.glob(f"{_UNFINISHED}*"), *published.glob(f"versions/{_UNFINISHED}*")):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _flush(folder: Path) -> None:
    for directory, _, names in os.walk(folder):
        for name in names:
            _flush_entry(Path(directory, name))
        _flush_entry(Path(directory))


def _flush_entry(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _locked(published: Path) -> Iterator[None]:
    """One publish or rollback at a time; the kernel lets go when the process ends."""
    try:
        published.mkdir(parents=True, exist_ok=True)
        with exclusive(published / ".lock"):
            yield
    except HeldError as error:
        raise PublishError(f"another publish or rollback is running in {published}") from error
    except OSError as error:
        raise PublishError(_first_line(error)) from error


@contextmanager
def _about(table: str) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        raise PublishError(f"{table}: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), repr(error))


def _name(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


def _literal(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
