"""The workload of the benchmarks: simulated traffic of a support assistant, the same on every machine.

    python benchmarks/workload.py landing --traces 1000000 [--candidates 50] [--format parquet]

What it is like: 100,000 traces a day from 2026-08-01 on, two to a session. Questions are skewed (the most
common tenth asks for about half of the traffic: number = 50,000 u^3). A trace has 10 chunks, of which
about one in three is relevant, more of them at the top; set B has a first stage of 50 candidates beside. Two
index versions that follow each other, two arms of an experiment, four kinds of question. The share of
sessions that say something is set (20 % for the ratios; 5 to 20 % is common): of one of their traces,
up for the relevant of the first five chunks, down for one other. Every choice is a hash of the trace's
number, so a seed is all that changes it, and any part can be made without the rest.
"""

import argparse
from contextlib import closing
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Final, Literal

import duckdb

FIRST_DAY: Final = date(2026, 8, 1)
TRACES_PER_DAY: Final = 100_000
N_CHUNKS: Final = 10
N_QUESTIONS: Final = 50_000

Format = Literal["jsonl", "parquet"]

_CHANCE: Final = "(hash({what}, {seed}) % 1000000) / 1000000.0"

_TRACES: Final = """
select
    'trace-' || i as trace_id,
    'session-' || (i // 2) as session_id,
    'user-' || (hash(i // 2) % 20000) as user_id,
    strftime(timestamp '{first_day}' + to_microseconds((i * {step_us})::bigint), '%Y-%m-%dT%H:%M:%S.%fZ') as ts,
    ['how do I use', 'why fails', 'compare', 'where is'][(question % 4 + 1)::integer]
        || ' the setting number ' || question || ' of the module' as query,
    {n_chunks} as top_k,
    list_transform(range({n_chunks}), lambda place: {{
        'chunk_id': 'document-' || (hash(question, place) % 100000) || '#' || (place % 7),
        'score': round(1 / (place + 1.5) + (hash(i, place) % 1000) / 10000, 4),
        'rank': place + 1
    }}) as retrieved,
    {candidates}
    'index-' || (1 + (i >= {half})::integer) as index_version,
    'minilm' as embedding_model,
    'sentences-2' as chunker_version,
    'reranking' as experiment_id,
    ['control', 'treatment'][(hash(i // 2) % 2 + 1)::integer] as experiment_bucket,
    round(20 + (hash(i) % 90000) / 1000, 1) as retrieval_latency_ms
from (select i, floor({n_questions} * pow({chance_i}, 3))::bigint as question from range({start}, {stop}) as numbers(i))
"""
_CANDIDATES: Final = """list_transform(range({n_candidates}), lambda place: {{
        'chunk_id': 'document-' || (hash(question, place) % 100000) || '#' || (place % 7),
        'score': round(1 / (place + 1.5), 4),
        'rank': place + 1
    }}) as candidates,"""
_FEEDBACK: Final = """
with labelled as (
    select i, i // 2 as session, floor({n_questions} * pow({chance_i}, 3))::bigint as question
    from range({start}, {stop}) as numbers(i)
    where i % 2 = 0 and {chance_session} < {label_share}
),

chunks as (
    select *, list_transform(range(5), lambda place: {{
        'chunk_id': 'document-' || (hash(question, place) % 100000) || '#' || (place % 7),
        'is_relevant': hash(question, place, 'relevant') % 100 < 55 - 8 * place
    }}) as shown
    from labelled
)

select
    'feedback-' || i || '-' || said as feedback_id,
    'session-' || session as session_id,
    'trace-' || i as trace_id,
    strftime(
        timestamp '{first_day}' + to_microseconds((i * {step_us})::bigint) + interval 5 minutes, '%Y-%m-%dT%H:%M:%SZ'
    ) as ts,
    [chunk.chunk_id for chunk in shown if chunk.is_relevant = (said = 'up')] as chunk_ids,
    said as rating,
    'thumb' as signal
from chunks, (values ('up'), ('down')) as ratings (said)
where len(chunk_ids) > 0
"""


@dataclass(frozen=True)
class Workload:
    """`n_traces` traces from number `start` on; `label_share` of the sessions speak of one of theirs."""

    n_traces: int
    start: int = 0
    label_share: float = 0.2
    n_candidates: int = 0
    file_format: Format = "jsonl"
    seed: int = 1
    traces_per_day: int = TRACES_PER_DAY

    @property
    def days(self) -> list[date]:
        first, last = self.start // self.traces_per_day, (self.start + self.n_traces - 1) // self.traces_per_day
        return [FIRST_DAY + timedelta(days=day) for day in range(first, last + 1)]

    def land(self, landing: Path) -> int:
        """Write one file per contract and day; bytes written."""
        n_bytes = 0
        with closing(duckdb.connect()) as connection:
            connection.execute("set enable_progress_bar = false")
            for day in self.days:
                number = (day - FIRST_DAY).days
                start = max(self.start, number * self.traces_per_day)
                stop = min(self.start + self.n_traces, (number + 1) * self.traces_per_day)
                for contract, text in (("retrieval_traces", _TRACES), ("feedback", _FEEDBACK)):
                    file = landing / contract / f"dt={day}" / f"{start}-{stop}.{self.file_format}"
                    file.parent.mkdir(parents=True, exist_ok=True)
                    form = "json" if self.file_format == "jsonl" else "parquet"
                    connection.execute(f"copy ({self._filled(text, start, stop)}) to '{file}' (format {form})")
                    n_bytes += file.stat().st_size
        return n_bytes

    def _filled(self, text: str, start: int, stop: int) -> str:
        return text.format(
            first_day=FIRST_DAY,
            step_us=86_400e6 / self.traces_per_day,
            start=start,
            stop=stop,
            half=self.start + self.n_traces // 2,
            n_chunks=N_CHUNKS,
            n_questions=N_QUESTIONS,
            label_share=self.label_share,
            candidates=_CANDIDATES.format(n_candidates=self.n_candidates) if self.n_candidates else "",
            chance_i=_CHANCE.format(what="i", seed=self.seed),
            chance_session=_CHANCE.format(what="i // 2", seed=self.seed + 1),
        )


def main() -> None:
    """Land one workload."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("landing", type=Path)
    parser.add_argument("--traces", type=int, default=1_000_000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--labels", type=float, default=0.2)
    parser.add_argument("--candidates", type=int, default=0)
    parser.add_argument("--format", choices=("jsonl", "parquet"), default="jsonl")
    arguments = parser.parse_args()
    workload = Workload(
        arguments.traces,
        start=arguments.start,
        label_share=arguments.labels,
        n_candidates=arguments.candidates,
        file_format=arguments.format,
    )
    print(f"{workload.land(arguments.landing) / 1e6:,.1f} MB in {len(workload.days)} days")


if __name__ == "__main__":
    main()
