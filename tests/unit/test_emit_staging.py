"""What the SDK writes is what staging reads: nothing quarantined, no unknown key."""

import math
from pathlib import Path

import pytest
from support import Warehouse

from retrieval_quality.emit import TraceLogger, Versions


@pytest.mark.slow
def test_a_night_over_emitted_files(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    with TraceLogger(warehouse.landing, versions=Versions(index_version="v7"), sample_rate=0.5) as logger:
        for number in range(60):
            session = f"s{number}"
            chunks = [(f"c{position}", math.nan if position == 2 else 1 / (position + 1)) for position in range(5)]
            trace_id = logger.log_retrieval(
                f"how do I {number} \x00 \ud800 \u2028",
                chunks,
                session_id=session,
                candidates=[f"c{position}" for position in range(10)],
                filters={"any": [1, None, 10**300, {"deep": True}]},
                retrieval_latency_ms=3,
            )
            logger.log_feedback(session, [f"c{number % 5}"], "up" if number % 3 else "down", trace_id=trace_id)
            logger.log_feedback(session, ["c1"], 1, implicit=True, signal="copy")
            logger.log_answer("text", session_id=session, trace_id=trace_id)
    n_sampled = 60 - logger.stats().sampled_out // 4
    warehouse.build()
    accounting = warehouse.query(
        "select contract, sum(n_lines), sum(n_quarantined), sum(len(map_entries(unknown_keys))) "
        "from stg_landing_accounting where contract in ('retrieval_traces', 'feedback') "
        "group by contract order by contract"
    )
    assert accounting == [("feedback", 2 * n_sampled, 0, 0), ("retrieval_traces", n_sampled, 0, 0)]
    labels = warehouse.query("select label_class, count(*) from int_relevance_labels group by all order by all")
    assert labels == [("explicit", n_sampled), ("implicit", n_sampled)]
