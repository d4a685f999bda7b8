"""The demo: "ask the Python docs", a real retrieval problem with simulated traffic.

``build_demo`` lands four weeks of it: passages from the documentation that ships with the
interpreter, BM25 (``bm25s``, the optional extra ``demo``) and a reranker over them, simulated users
with simulated feedback, nightly evaluations of known-item questions, and a dated regression.
"""

from __future__ import annotations

from retrieval_quality.demo.blemishes import Blemish
from retrieval_quality.demo.build import (
    DEFAULT_DAYS,
    DEFAULT_END_AT,
    DEFAULT_SEED,
    DemoSummary,
    NightQuality,
    build_demo,
    format_summary,
)
from retrieval_quality.demo.landing import ContractFiles
from retrieval_quality.demo.traffic import Schedule

__all__ = [
    "DEFAULT_DAYS",
    "DEFAULT_END_AT",
    "DEFAULT_SEED",
    "Blemish",
    "ContractFiles",
    "DemoSummary",
    "NightQuality",
    "Schedule",
    "build_demo",
    "format_summary",
]
