"""Landing files of the SDK: complete when they are seen, whole after kill -9, there again after a fault."""

import errno
import fcntl
import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from retrieval_quality.contracts import CONTRACTS
from retrieval_quality.emit import JsonlSink, Stats, TraceLogger, recover
from retrieval_quality.emit.sinks import files
from retrieval_quality.landing_check import check_landing

SECONDS = 30


def visible(landing: Path) -> list[Path]:
    return sorted(path for path in landing.glob("*/dt=*/*") if not path.name.startswith("."))


def hidden(landing: Path) -> list[Path]:
    return sorted(landing.glob("*/dt=*/.*"))


def rows(paths: list[Path]) -> list[dict[str, object]]:
    """The rows of whole files, each valid."""
    found = []
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert text.endswith("\n")
        for line in text.splitlines():
            values = json.loads(line)
            CONTRACTS[path.parent.parent.name].model_validate(values)
            found.append(values)
    return found


def queries(paths: list[Path]) -> list[object]:
    return [row["query"] for row in rows(paths)]


def fast(landing: Path, **settings: float) -> TraceLogger:
    """Written at once, published as the settings say."""
    return TraceLogger(JsonlSink(landing, **settings), flush_seconds=0.02)  # type: ignore[arg-type]


def until(condition: object, seconds: float = SECONDS) -> None:
    give_up_at = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < give_up_at, "waited in vain"
        time.sleep(0.01)


def run(program: str, *arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        check=check,
        capture_output=True,
        text=True,
        timeout=120,
    )


# complete, or hidden


def test_a_file_is_hidden_until_it_is_complete(tmp_path: Path) -> None:
    with fast(tmp_path) as logger:
        logger.log_retrieval("q", ["a"])
        logger.log_feedback("s1", ["a"], "up")
        logger.log_answer("x", session_id="s1")
        assert logger.flush()
        assert visible(tmp_path) == []
        assert [path.parent.parent.name for path in hidden(tmp_path)] == ["answers", "feedback", "retrieval_traces"]
    assert hidden(tmp_path) == []
    day = time.strftime("dt=%Y-%m-%d", time.gmtime())
    assert [path.parent.relative_to(tmp_path) for path in visible(tmp_path)] == [
        Path("answers", day),
        Path("feedback", day),
        Path("retrieval_traces", day),
    ]
    assert len(rows(visible(tmp_path))) == 3
    check_landing(tmp_path)


def test_files_rotate_by_size(tmp_path: Path) -> None:
    with fast(tmp_path, max_bytes=700) as logger:
        for number in range(20):
            logger.log_retrieval(str(number), ["a"])
            assert logger.flush()
    sizes = [path.stat().st_size for path in visible(tmp_path)]
    assert len(sizes) > 3
    assert max(sizes) <= 700
    assert sorted(map(int, queries(visible(tmp_path)))) == list(range(20))  # type: ignore[call-overload]


def test_files_rotate_by_time_without_traffic(tmp_path: Path) -> None:
    with fast(tmp_path, max_seconds=0.1) as logger:
        logger.log_retrieval("q", ["a"])
        until(lambda: visible(tmp_path))
        assert queries(visible(tmp_path)) == ["q"]
        assert hidden(tmp_path) == []


def test_files_rotate_at_the_end_of_the_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import UTC, datetime

    class Clock(datetime):
        now_is = datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC)

        @classmethod
        def now(cls, tz: object = None) -> datetime:  # noqa: ARG003
            return cls.now_is

    monkeypatch.setattr("retrieval_quality.emit.sinks.files.datetime", Clock)
    monkeypatch.setattr("retrieval_quality.emit.sinks.jsonl.datetime", Clock)
    with fast(tmp_path) as logger:
        logger.log_retrieval("before", ["a"])
        assert logger.flush()
        Clock.now_is = datetime(2026, 12, 1, tzinfo=UTC)
        logger.log_retrieval("after", ["a"])
    found = {path.parent.name: queries([path]) for path in visible(tmp_path)}
    assert found == {"dt=2026-11-30": ["before"], "dt=2026-12-01": ["after"]}


# killed


KILLED = """
    import os, signal, sys, time
    from retrieval_quality.emit import TraceLogger
    logger = TraceLogger(sys.argv[1], flush_seconds=0.02)
    for number in range(100):
        logger.log_retrieval(str(number), ["a"], session_id="s")
    logger.log_feedback("s", ["a"], "up")
    assert logger.flush(30)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_rows_survive_kill_9_and_the_next_logger_brings_them_to_light(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert run(KILLED, tmp_path, check=False).returncode == -signal.SIGKILL
    assert visible(tmp_path) == []
    (traces,) = tmp_path.glob("retrieval_traces/dt=*/.*")
    with traces.open("ab") as file:
        file.write(b'{"trace_id": "torn", "que')
    with fast(tmp_path) as logger:
        logger.log_retrieval("next", ["a"])
    found = rows(visible(tmp_path))
    assert sorted(str(row["query"]) for row in found if "query" in row) == sorted([*map(str, range(100)), "next"])
    assert sum("feedback_id" in row for row in found) == 1
    assert hidden(tmp_path) == []
    stats = logger.stats()
    assert (stats.recovered_files, stats.torn_lines) == (2, 1)
    assert "2 files of ended processes recovered, 1 unfinished last lines cut off" in caplog.text


def test_killed_while_it_writes_only_the_unflushed_tail_is_missing(tmp_path: Path) -> None:
    program = """
        import sys
        from retrieval_quality.emit import JsonlSink, TraceLogger
        logger = TraceLogger(JsonlSink(sys.argv[1], max_bytes=100_000), flush_seconds=0.02)
        number = 0
        while True:
            logger.log_retrieval(str(number), ["a"])
            number += 1
            if number % 200 == 0:
                logger.flush(30)
                print(number, flush=True)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for _ in range(10):
        flushed = int(process.stdout.readline())
    process.kill()
    flushed = int(([*process.stdout.read().split("\n"), ""])[-2] or flushed)
    process.wait()
    recover(tmp_path)
    found = sorted(map(int, queries(visible(tmp_path))))  # type: ignore[call-overload]
    assert len(found) >= flushed >= 2000
    assert found == list(range(len(found)))
    assert hidden(tmp_path) == []


def test_files_of_living_writers_are_left_alone(tmp_path: Path) -> None:
    with fast(tmp_path) as logger:
        logger.log_retrieval("mine", ["a"])
        assert logger.flush()
        assert recover(tmp_path).n_files == 0
        program = "import sys; from retrieval_quality.emit import recover; print(recover(sys.argv[1]).n_files)"
        assert run(program, tmp_path).stdout == "0\n"
        assert len(hidden(tmp_path)) == 1
    assert queries(visible(tmp_path)) == ["mine"]


def orphan(landing: Path, name: str, content: bytes) -> Path:
    folder = landing / "retrieval_traces" / "dt=2026-11-30"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(content)
    return path


def test_what_recovery_makes_of_a_file(tmp_path: Path) -> None:
    host = files.process_name().partition("-")[0]
    whole = orphan(tmp_path, f".emit-{host}-1-1-000001-aa.jsonl", b'{"a": 1}\n')
    torn = orphan(tmp_path, f".emit-{host}-1-1-000002-aa.jsonl", b'{"a": 1}\n{"a": 2}\n{"a"')
    long = orphan(tmp_path, f".emit-{host}-1-1-000003-aa.jsonl", b'{"a": 1}\n' + b"x" * (3 * 2**20))
    orphan(tmp_path, f".emit-{host}-1-1-000004-aa.jsonl", b'{"only": "a torn')
    orphan(tmp_path, f".emit-{host}-1-1-000005-aa.jsonl", b"")
    strangers = orphan(tmp_path, ".other.jsonl", b'{"a"')
    foreign = orphan(tmp_path, ".emit-other_host-1-1-000001-aa.jsonl", b'{"a": 1}\n')
    found = recover(tmp_path)
    assert (found.n_files, found.n_torn_lines) == (3, 3)
    assert files.final_path(whole).read_bytes() == b'{"a": 1}\n'
    assert files.final_path(torn).read_bytes() == b'{"a": 1}\n{"a": 2}\n'
    assert files.final_path(long).read_bytes() == b'{"a": 1}\n'
    assert hidden(tmp_path) == [foreign, strangers]
    an_hour_ago = time.time() - 3601  # a lock may not reach across hosts, so other hosts' files wait
    os.utime(foreign, (an_hour_ago, an_hour_ago))
    assert recover(tmp_path).n_files == 1
    assert hidden(tmp_path) == [strangers]


def test_a_new_file_that_another_process_took_for_an_orphan_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Path] = []
    lock = files._locked

    def steal_first(descriptor: int) -> bool | None:
        if not taken:
            (path,) = hidden(tmp_path)
            taken.append(path)
            path.unlink()
        return lock(descriptor)

    monkeypatch.setattr(files, "_locked", steal_first)
    file = files.OpenFile.create(tmp_path, "feedback", "host-1-1", 1)
    assert file.hidden != taken[0]
    assert file.is_in_place()
    file.let_go()


def test_a_file_system_without_locks_still_takes_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with fast(tmp_path) as logger:
        logger.log_retrieval("q", ["a"])
        assert logger.flush()
        assert recover(tmp_path).n_files == 0
    assert queries(visible(tmp_path)) == ["q"]


# forks


def test_a_forked_child_has_its_own_queue_thread_and_file(tmp_path: Path) -> None:
    program = """
        import os, sys
        from retrieval_quality.emit import TraceLogger
        logger = TraceLogger(sys.argv[1], flush_seconds=0.5)
        for number in range(50):
            logger.log_retrieval(f"parent {number}", ["a"])
        logger.flush(30)
        for number in range(50, 100):
            logger.log_retrieval(f"parent {number}", ["a"])   # queued at the fork
        children = []
        for child in range(4):
            pid = os.fork()
            if pid == 0:
                assert logger.stats().accepted == 0
                for number in range(100):
                    logger.log_retrieval(f"child {child} {number}", ["a"])
                logger.close(30)
                stats = logger.stats()
                os._exit(0 if (stats.written, stats.queued) == (100, 0) else 1)
            children.append(pid)
        codes = [os.waitpid(pid, 0)[1] for pid in children]
        for number in range(100, 150):
            logger.log_retrieval(f"parent {number}", ["a"])
        logger.close(30)
        print(codes, logger.stats().written)
    """
    assert run(program, tmp_path).stdout == "[0, 0, 0, 0] 150\n"
    expected = [f"parent {number}" for number in range(150)]
    expected += [f"child {child} {number}" for child in range(4) for number in range(100)]
    assert Counter(queries(visible(tmp_path))) == Counter(expected)
    assert len(visible(tmp_path)) == 5
    assert hidden(tmp_path) == []


def test_a_child_that_outlives_its_parent_does_not_hold_the_parents_file(tmp_path: Path) -> None:
    program = """
        import os, signal, sys, time
        from retrieval_quality.emit import TraceLogger
        logger = TraceLogger(sys.argv[1], flush_seconds=0.02)
        logger.log_retrieval("parent", ["a"])
        logger.flush(30)
        if os.fork() == 0:
            os.close(1), os.close(2)
            time.sleep(60)
            os._exit(0)
        print(os.getpid(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    run(program, tmp_path, check=False)
    assert recover(tmp_path).n_files == 1
    assert queries(visible(tmp_path)) == ["parent"]


# faults of the disk


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[None]:
    """A real file system of its own; only root may mount one."""
    folder.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", folder], capture_output=True)
    if mount.returncode:
        pytest.skip("mounting a small file system is not allowed here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk_is_reported_and_nothing_is_lost_once_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    landing = tmp_path / "disk"
    with small_disk(landing, 64), caplog.at_level(logging.WARNING):
        ballast = landing / "_ballast"
        ballast.write_bytes(bytes(40 * 1024))
        with fast(landing) as logger:
            for number in range(300):
                logger.log_retrieval(str(number), [f"chunk {number}"] * 3)
                if number % 10 == 0:
                    logger.flush(0.05)
            assert not logger.flush(0.2)
            held = logger.stats()
            assert held.queued > 0
            assert held.lost == {}
            ballast.unlink()
            until(lambda: logger.stats().queued < held.queued)
            subprocess.run(["mount", "-o", "remount,size=4096k", landing], check=True)
            assert logger.flush(SECONDS)
        assert sorted(map(int, queries(visible(landing)))) == list(range(300))  # type: ignore[call-overload]
        assert hidden(landing) == []
    assert "No space left on device" in caplog.text
    stats = logger.stats()
    assert (stats.accepted, stats.written, stats.lost) == (300, 300, {})


def test_a_disk_that_stays_full_costs_rows_that_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    landing = tmp_path / "disk"
    with small_disk(landing, 16):
        logger = TraceLogger(landing, queue_rows=100, flush_seconds=0.02)
        for number in range(2000):
            logger.log_retrieval(str(number), ["a"])
        logger.close(0.5)
        stats = logger.stats()
        assert stats.refused["queue_full"] > 0
        assert stats.dropped["sink_failed"] > 0
        assert stats.accepted == stats.written + stats.dropped["sink_failed"]
        assert stats.accepted + stats.refused["queue_full"] == 2000
        assert len(rows(visible(landing))) == stats.written
    assert "queue_full" in caplog.text


def test_a_write_that_is_cut_short_leaves_whole_lines(tmp_path: Path) -> None:
    """A limit on the size of files, for any user: the write stops in the middle of a line (EFBIG)."""
    program = """
        import json, resource, sys
        from dataclasses import asdict
        from retrieval_quality.emit import TraceLogger
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        logger = TraceLogger(sys.argv[1], flush_seconds=0.02)
        for number in range(100):
            logger.log_retrieval(str(number), ["a"])
            logger.flush(0.05 if number < 30 else 0)
        logger.close(0.5)
        print(json.dumps(asdict(logger.stats())))
    """
    finished = run(program, tmp_path)
    stats = Stats(**json.loads(finished.stdout))
    assert "File too large" in finished.stderr
    assert stats.written + sum(stats.dropped.values()) == stats.accepted == 100
    assert stats.written > 0
    assert len(rows(visible(tmp_path))) == stats.written


def test_a_landing_that_is_no_folder_is_reported_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    landing = tmp_path / "landing"
    landing.write_text("a file")
    with fast(landing) as logger:
        logger.log_retrieval("q", ["a"])
        assert not logger.flush(0.2)
        landing.unlink()
        assert logger.flush(SECONDS)
    assert queries(visible(landing)) == ["q"]
    assert "the sink failed: NotADirectoryError" in caplog.text


def test_a_read_only_folder_is_reported_and_serving_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    landing = tmp_path / "disk"
    with small_disk(landing, 1024):
        subprocess.run(["mount", "-o", "remount,ro", landing], check=True)
        with fast(landing) as logger:
            logger.log_retrieval("q", ["a"])
            assert not logger.flush(0.2)
            subprocess.run(["mount", "-o", "remount,rw", landing], check=True)
            assert logger.flush(SECONDS)
        assert queries(visible(landing)) == ["q"]
    assert "Read-only file system" in caplog.text


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not stop root")
def test_a_folder_without_permission_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tmp_path.chmod(0o555)
    logger = fast(tmp_path)
    logger.log_retrieval("q", ["a"])
    logger.close(0.2)
    tmp_path.chmod(0o755)
    assert logger.stats().dropped == {"sink_failed": 1}
    assert "PermissionError" in caplog.text


def delete(folder: Path) -> None:
    subprocess.run(["rm", "-r", folder], check=True)


def test_a_deleted_folder_is_made_again_with_the_rows_it_had(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    landing = tmp_path / "landing"
    with fast(landing) as logger:
        logger.log_retrieval("before", ["a"])
        assert logger.flush()
        delete(landing)
        logger.log_retrieval("after", ["a"])
        assert logger.flush()
        delete(landing)  # and once more, right before the end
    assert queries(visible(landing)) == ["before", "after"]
    assert logger.stats().lost == {}
    assert "was deleted or moved; its 1 rows are written anew" in caplog.text


def test_a_deleted_folder_that_cannot_be_made_again_costs_rows_that_are_counted(tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    logger = fast(landing)
    for _ in range(3):
        logger.log_retrieval("q", ["a"])
    assert logger.flush()
    delete(landing)
    landing.write_text("in the way")
    logger.close()
    stats = logger.stats()
    assert (stats.accepted, stats.written, stats.dropped) == (3, 0, {"file_lost": 3})


def test_losses_are_left_beside_the_landing_files(tmp_path: Path) -> None:
    with fast(tmp_path) as logger:
        logger.log_retrieval("q", ["a"])
        logger.log_retrieval(["no text"], ["a"])  # type: ignore[arg-type]
    (report,) = (tmp_path / "_emit").iterdir()
    told = json.loads(report.read_text())
    assert (told["accepted"], told["dropped"]) == (2, {"invalid": 1})
    check_landing(tmp_path)


def test_nothing_lost_leaves_no_report(tmp_path: Path) -> None:
    with fast(tmp_path) as logger:
        logger.log_retrieval("q", ["a"])
    assert not (tmp_path / "_emit").exists()


# many writers


WORKER = """
    import json, sys, threading, time
    from dataclasses import asdict
    from retrieval_quality.emit import JsonlSink, TraceLogger
    landing, process, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    logger = TraceLogger(JsonlSink(landing, max_bytes=300_000, max_seconds=0.5), queue_rows=2000, flush_seconds=0.1)
    attempts = [0] * 8
    def work(thread):
        end, number = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            for _ in range(20):
                logger.log_retrieval("q", ["a"], trace_id=f"{process}-{thread}-{number}", session_id=f"s{number % 50}")
                number += 1
            logger.log_feedback(f"s{number % 50}", ["a"], "up", feedback_id=f"{process}-{thread}-{number}")
            attempts[thread] = number
            time.sleep(0.005)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    logger.close(60)
    print(json.dumps({"attempts": sum(attempts) + sum(attempts) // 20, "stats": asdict(logger.stats())}))
"""


def eight_threads_in_four_processes(landing: Path, seconds: float) -> list[dict[str, object]]:
    """Every row is in the files exactly once, or was counted as lost; the outcomes by process."""
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WORKER), str(landing), str(number), str(seconds)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    outcomes = [json.loads(worker.communicate(timeout=seconds + 120)[0]) for worker in workers]
    seen: Counter[tuple[str, str]] = Counter()
    for path in visible(landing):
        contract = path.parent.parent.name
        key = "trace_id" if contract == "retrieval_traces" else "feedback_id"
        for line in path.read_text().splitlines():
            seen[contract, json.loads(line)[key]] += 1
    assert set(seen.values()) == {1}
    for number, outcome in enumerate(outcomes):
        stats = Stats(**outcome["stats"])
        n_seen = sum(name.startswith(f"{number}-") for _, name in seen)
        assert n_seen == stats.written > 0
        assert stats.accepted == stats.written + sum(stats.dropped.values())
        assert stats.accepted + sum(stats.refused.values()) == outcome["attempts"]
        assert stats.queued == 0
    assert hidden(landing) == []
    return outcomes


def test_eight_threads_in_four_processes_lose_nothing_that_is_not_counted(tmp_path: Path) -> None:
    eight_threads_in_four_processes(tmp_path, 2)


@pytest.mark.slow
def test_eight_threads_in_four_processes_for_a_minute(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = eight_threads_in_four_processes(tmp_path, 60)
    n_files = len(visible(tmp_path))
    with capsys.disabled():
        for outcome in outcomes:
            stats = Stats(**outcome["stats"])  # type: ignore[arg-type]
            print(f"\n{outcome['attempts']} calls, {stats.written} written, lost {dict(stats.lost)}", end="")
        print(f"\n{n_files} files")


STORM = """
    import os, sys, threading, time
    from retrieval_quality.emit import JsonlSink, TraceLogger
    logger = TraceLogger(JsonlSink(sys.argv[1], max_bytes=20_000, max_seconds=0.3), flush_seconds=0.02)
    name = sys.argv[2]
    def work(thread):
        number = 0
        while True:
            logger.log_retrieval("q", ["a"], trace_id=f"{name}-{thread}-{number}")
            number += 1
            time.sleep(0.001)
    for thread in range(4):
        threading.Thread(target=work, args=(thread,), daemon=True).start()
    for fork in range(30):
        time.sleep(0.02)
        pid = os.fork()
        if pid == 0:
            for number in range(20):
                logger.log_retrieval("q", ["a"], trace_id=f"{name}-fork-{fork}-{number}")
            done = logger.flush(30) if fork % 2 else logger.close(30)   # every other dies with a hidden file
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
def test_forks_kills_and_recoveries_at_once(tmp_path: Path) -> None:
    """Four processes of four threads each fork 30 children and are killed; others' files are recovered meanwhile."""
    workers = [
        subprocess.Popen([sys.executable, "-c", textwrap.dedent(STORM), str(tmp_path), str(number)])
        for number in range(4)
    ]
    while any(worker.poll() is None for worker in workers):
        recover(tmp_path)
    recover(tmp_path)
    assert [worker.wait(120) for worker in workers] == [-signal.SIGKILL] * 4
    seen = Counter(str(row["trace_id"]) for row in rows(visible(tmp_path)))
    assert set(seen.values()) == {1}
    assert sum("-fork-" in name for name in seen) == 4 * 30 * 20
    for process in range(4):
        for thread in range(4):  # what is missing is the end: no gaps
            n_rows = sum(name.startswith(f"{process}-{thread}-") for name in seen)
            assert all(f"{process}-{thread}-{number}" in seen for number in range(n_rows))
    assert hidden(tmp_path) == []
