"""The demo as the retriever to break: its days between the rollout of an index and the planted regression."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Final

DEMO: Final = "demo"
# a part of the documentation: hard enough for a first stage to miss, read and indexed in seconds
MODULES: Final = (
    "argparse", "asyncio", "collections", "concurrent", "csv", "ctypes", "datetime", "decimal", "email", "functools",
    "http", "importlib", "inspect", "itertools", "json", "logging", "multiprocessing", "os", "pathlib", "random", "re",
    "shutil", "socket", "sqlite3", "ssl", "statistics", "string", "struct", "subprocess", "tarfile", "tempfile",
    "threading", "tkinter", "typing", "unittest", "urllib", "xml", "zipfile",
)  # fmt: skip
N_QUERIES: Final = 150
N_QUERIES_SMALL: Final = 100


def land_demo(landing: Path, *, is_small: bool, say: Callable[[str], None]) -> date:
    """Land a demo for the drill; the UTC day its healthy days end before.

    Evaluations are what a drill reads: real questions and rankings, no simulated feedback. Raises
    ImportError without the extra `demo`.
    """
    from retrieval_quality.demo import build_demo

    demo = build_demo(
        landing,
        sessions_per_day=1,
        n_eval_queries=N_QUERIES_SMALL if is_small else N_QUERIES,
        modules=MODULES,
        on_step=say,
    )
    return demo.schedule.regression_on
