"""A small demo, landed and built once by the command line, as a user would."""

import fcntl
import os
import pickle
from pathlib import Path

import pytest
from end_to_end.first_run import AS_OF, FirstRun, Places


@pytest.fixture(scope="session")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> FirstRun:
    """One for all workers of a run: the first that needs it builds it, the others wait."""
    pytest.importorskip("bm25s")
    own = tmp_path_factory.getbasetemp()
    root = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "first_run"
    root.mkdir(exist_ok=True)
    done = root / "first_run.pickle"
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            done.write_bytes(pickle.dumps(land_and_build(root / "user")))
        run: FirstRun = pickle.loads(done.read_bytes())  # noqa: S301
    return run


def land_and_build(root: Path) -> FirstRun:
    from retrieval_quality.demo import build_demo

    places = Places(root)
    # few documents and sessions, and still every phase of the demo: index v1, v2, the regression
    demo = build_demo(
        places.landing,
        days=8,
        sessions_per_day=40,
        n_eval_queries=40,
        modules=("argparse", "collections", "csv", "datetime", "json", "logging", "pathlib", "re", "string"),
    )
    return FirstRun(demo, places, places.run("nightly", "--vars", AS_OF))
