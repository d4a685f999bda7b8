"""The pre-flight check names what is wrong and where, in one line."""

import gzip
import os
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from retrieval_quality.landing_check import (
    CONTRACTS,
    LandingError,
    check_landing,
    damaged_files,
    refuse_cut_off,
)

LINE = b'{"trace_id": "t1"}\n'
ZSTD_FRAME = b"\x28\xb5\x2f\xfd"


@pytest.fixture
def landing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "landing"
    (folder / "feedback" / "dt=2026-01-01").mkdir(parents=True)
    return folder


def fault(landing: Path) -> str:
    with pytest.raises(LandingError) as caught:
        check_landing(landing)
    line = str(caught.value)
    assert "\n" not in line
    return line


def write_parquet(path: Path) -> None:
    duckdb.execute(f"copy (select 1 as a) to '{path}' (format parquet)")


def test_every_contract_and_format_passes(landing: Path) -> None:
    for contract in CONTRACTS:
        (landing / contract).mkdir(exist_ok=True)
    day = landing / "feedback" / "dt=2026-01-01"
    (day / "a.jsonl").write_bytes(LINE)
    (day / "empty.jsonl").write_bytes(b"")
    (day / "b.jsonl.gz").write_bytes(gzip.compress(LINE))
    (day / "c.jsonl.zst").write_bytes(ZSTD_FRAME + b"\0")
    (day / "skippable.jsonl.zst").write_bytes(b"\x50\x2a\x4d\x18\0\0\0\0")
    write_parquet(day / "d.parquet")
    check_landing(landing)


def test_hidden_and_marker_names_are_ignored(landing: Path) -> None:
    (landing / ".git").mkdir()
    (landing / "_tmp").mkdir()
    (landing / "_tmp" / "x.csv").write_bytes(b"")
    (landing / "README.md").write_text("what lies here")
    for name in ("_SUCCESS", ".part-0.parquet.crc", "_started.csv"):
        (landing / "feedback" / name).write_bytes(b"")
    check_landing(landing)


def test_missing_landing(tmp_path: Path) -> None:
    assert fault(tmp_path / "nowhere") == f"landing folder {tmp_path}/nowhere does not exist"


def test_landing_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "landing").write_bytes(b"")
    assert fault(tmp_path / "landing") == f"landing {tmp_path}/landing is not a folder"


def test_misspelt_contract_gets_a_suggestion(landing: Path) -> None:
    (landing / "retreival_traces").mkdir()
    assert fault(landing).startswith(
        "landing folder 'retreival_traces' is no contract; "
        "did you mean 'retrieval_traces'? Known: retrieval_traces, feedback, "
    )


def test_unknown_contract_without_a_near_name(landing: Path) -> None:
    (landing / "xyz").mkdir()
    assert fault(landing).startswith("landing folder 'xyz' is no contract. Known: ")


def test_contract_that_is_a_file(landing: Path) -> None:
    (landing / "answers").write_bytes(LINE)
    assert fault(landing) == "landing/answers: is a file; a contract is a folder of files"


@pytest.mark.parametrize("name", ["x.jsonl", "x.csv", "x.jsonl.gz", "x.parquet"])
def test_stray_data_file(landing: Path, name: str) -> None:
    (landing / name).write_bytes(LINE)
    assert fault(landing) == (f"landing/{name}: lies outside a contract folder; move it to landing/<contract>/")


@pytest.mark.parametrize(
    ("name", "subject"),
    [
        ("x.csv", "extension .csv"),
        ("x.csv.gz", "extension .csv.gz"),
        ("x.json", "extension .json"),
        ("x.JSONL", "extension .JSONL"),
        ("2026.01.01.avro", "extension .avro"),
        ("dump", "a file without extension"),
    ],
)
def test_unread_extension(landing: Path, name: str, subject: str) -> None:
    (landing / "feedback" / name).write_bytes(LINE)
    assert fault(landing) == (
        f"landing/feedback/{name}: {subject} is not read; use .jsonl, .jsonl.gz, .jsonl.zst or .parquet"
    )


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("x.jsonl.gz", LINE, "is named .gz but holds no gzip data"),
        ("x.jsonl.gz", b"", "is named .gz but holds no gzip data"),
        ("x.jsonl.zst", LINE, "is named .zst but holds no zstd data"),
        ("x.jsonl.zst", b"", "is named .zst but holds no zstd data"),
        ("x.parquet", LINE, "is named .parquet but holds no Parquet data"),
        ("x.parquet", b"PAR1", "Parquet file is cut off (its last bytes are missing)"),
        ("x.parquet", b"PAR1" + b"\0" * 20, "Parquet file is cut off (its last bytes are missing)"),
        ("x.jsonl", gzip.compress(LINE, mtime=0), "holds gzip data; name it .jsonl.gz"),
        ("x.jsonl", ZSTD_FRAME + b"\0", "holds zstd data; name it .jsonl.zst"),
        ("x.jsonl", b"PAR1....PAR1", "holds Parquet data; name it .parquet"),
    ],
)
def test_content_contradicts_the_name(landing: Path, name: str, content: bytes, what: str) -> None:
    (landing / "feedback" / "dt=2026-01-01" / name).write_bytes(content)
    assert fault(landing) == f"landing/feedback/dt=2026-01-01/{name}: {what}"


def test_unreadable_file(landing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = landing / "feedback" / "x.jsonl"
    path.write_bytes(LINE)
    path.chmod(0)
    if os.access(path, os.R_OK):
        monkeypatch.setattr(Path, "open", refusing(Path.open))
    assert fault(landing) == "landing/feedback/x.jsonl: cannot be read: Permission denied"


def refusing(_: object) -> Callable[..., None]:
    def open_refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    return open_refused


def test_pipe_is_refused_without_waiting_for_a_writer(landing: Path) -> None:
    os.mkfifo(landing / "feedback" / "x.jsonl")
    assert fault(landing) == "landing/feedback/x.jsonl: is not a regular file"


def test_symbolic_links_below_a_contract_would_be_skipped_by_the_reader(landing: Path) -> None:
    target = landing / "feedback" / "dt=2026-01-01" / "x.jsonl"
    target.write_bytes(LINE)
    (landing / "feedback" / "y.jsonl").symlink_to(target)
    read = duckdb.execute(f"select file from glob('{landing}/*/**')").fetchall()
    assert read == [(str(target),)]
    assert fault(landing) == ("landing/feedback/y.jsonl: is a symbolic link, which is not read; copy it")


def test_contract_folder_may_be_a_symbolic_link(landing: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.csv").write_bytes(b"")
    (landing / "answers").symlink_to(tmp_path / "elsewhere")
    assert fault(landing).startswith("landing/answers/x.csv: extension .csv")


def test_damaged_files_names_what_does_not_decompress(landing: Path) -> None:
    folder = landing / "feedback"
    packed = gzip.compress(os.urandom(40_000))
    (folder / "cut.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    (folder / "whole.jsonl.gz").write_bytes(gzip.compress(b"\xff not text " + LINE * 100))
    (folder / "broken.jsonl.zst").write_bytes(ZSTD_FRAME + b"garbage")
    check_landing(landing)
    broken, cut = damaged_files(landing)
    assert broken.startswith("landing/feedback/broken.jsonl.zst: damaged, cannot be decompressed")
    assert cut.startswith("landing/feedback/cut.jsonl.gz: damaged, cannot be decompressed")


def test_a_zstd_file_that_is_cut_off_anywhere_is_refused(landing: Path) -> None:
    """DuckDB reads what is left of it without a word."""
    file = landing / "feedback" / "a.jsonl.zst"
    text = os.urandom(300) + bytes(300_000)  # blocks as they are, and of one byte repeated
    with pa.CompressedOutputStream(str(file), "zstd") as packed:
        packed.write(text)
    without_size = file.read_bytes()
    with_size = bytes(pa.Codec("zstd").compress(text, asbytes=True))
    with_checksum = bytes.fromhex("28b52ffd24139900007b2274726163655f6964223a20227431227d0a4010f7dc")
    skippable = b"\x5a\x2a\x4d\x18\x03\x00\x00\x00any"
    told = r"^landing/feedback/a\.jsonl\.zst: damaged, cannot be decompressed \(its last bytes are missing\)$"
    frames = [without_size, skippable, with_checksum, with_size]
    ends = {0, *accumulate(map(len, frames))}

    for n_bytes in range(max(ends) + 1):
        file.write_bytes(b"".join(frames)[:n_bytes])
        if n_bytes in ends:
            refuse_cut_off([str(file)])
        else:
            with pytest.raises(LandingError, match=told):
                refuse_cut_off([str(file)])
