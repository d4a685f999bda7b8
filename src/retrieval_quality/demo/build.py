"""Putting the demo together: corpus, indexes, simulated traffic, planted blemishes, files."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from retrieval_quality.demo.blemishes import Blemish, blemished_lines, with_faults
from retrieval_quality.demo.corpus import Corpus, Passage, build_corpus
from retrieval_quality.demo.feedback import simulate_feedback
from retrieval_quality.demo.landing import (
    ContractFiles,
    Delivery,
    check_landing,
    delivery,
    landing_files,
    write_landing,
)
from retrieval_quality.demo.rows import eval_run_row, qrel_row, query_row, trace_row, verdict_row
from retrieval_quality.demo.search import (
    INDEX_V1,
    INDEX_V2,
    INDEX_V2_BROKEN,
    RERANK_CONTROL,
    RERANK_TREATMENT,
    Hit,
    build_features,
    build_index,
    first_stage,
    load_bm25s,
    rerank,
)
from retrieval_quality.demo.traffic import (
    Ranking,
    Schedule,
    Search,
    Trace,
    World,
    eval_questions,
    plan,
    simulate_evaluation,
    simulate_sessions,
    start_of,
)
from retrieval_quality.demo.verdicts import Verdict, simulate_verdicts

DEFAULT_SEED = 7
DEFAULT_END_AT = datetime(2026, 11, 29, 23, 59, 59, tzinfo=UTC)
DEFAULT_DAYS = 28
DEFAULT_SESSIONS_PER_DAY = 325
DEFAULT_EVAL_QUERIES = 200


@dataclass(frozen=True)
class NightQuality:
    """One scheduled evaluation scored directly from the rankings, as a witness for the warehouse.

    ``recall_50_retriever`` is the first stage's; the others read the final list.
    """

    eval_run_id: str
    index_version: str
    n_queries: int
    recall_50_retriever: float
    recall_5: float
    reciprocal_rank_10: float


@dataclass(frozen=True)
class DemoSummary:
    """What a demo landing holds. Traffic and feedback are simulated, the rankings are real."""

    landing: Path
    seed: int
    python_version: str
    schedule: Schedule
    n_documents: int
    n_passages: int
    n_questions: int
    n_ambiguous_questions: int
    n_duplicate_texts: int
    n_sessions: int
    n_production_traces: int
    n_eval_traces: int
    n_sessions_with_feedback: int
    n_sessions_audited: int
    n_sessions_judged: int
    contracts: tuple[ContractFiles, ...]
    blemishes: tuple[Blemish, ...]
    nights: tuple[NightQuality, ...]

    @property
    def n_bytes(self) -> int:
        """Size of all landed files."""
        return sum(c.n_bytes for c in self.contracts)


def build_demo(
    landing: Path,
    *,
    seed: int = DEFAULT_SEED,
    end_at: datetime = DEFAULT_END_AT,
    days: int = DEFAULT_DAYS,
    sessions_per_day: int = DEFAULT_SESSIONS_PER_DAY,
    n_eval_queries: int = DEFAULT_EVAL_QUERIES,
    modules: Sequence[str] | None = None,
    on_step: Callable[[str], None] | None = None,
) -> DemoSummary:
    """Land ``days`` full UTC days of simulated "ask the Python docs" traffic, ending at ``end_at``.

    The same interpreter and arguments give byte-identical files. ``modules`` limits the corpus to
    these top-level modules (None: all that the interpreter ships); ``on_step`` is told what is
    being done.

    Raises ValueError for a landing folder with files of others (``check_landing``), ``days`` below
    4, a count below 1 or an ``end_at`` without a time zone; ImportError without ``bm25s``;
    RuntimeError when the interpreter ships too little documentation.
    """
    schedule = plan(end_at, days)
    if sessions_per_day < 1 or n_eval_queries < 1:
        raise ValueError("sessions_per_day and n_eval_queries must be at least 1")
    check_landing(landing)
    load_bm25s()
    tell = on_step or _say_nothing

    tell("reading the documentation")
    corpus = build_corpus(modules)
    tell(f"indexing {len(corpus.passages)} passages")
    search = build_search(corpus)
    tell(f"simulating {days} days of traffic")
    world = World(corpus, search, schedule, str(seed))
    sessions = with_faults(tuple(simulate_sessions(world, sessions_per_day)))
    traces = tuple(trace for session in sessions for trace in session)
    feedback = simulate_feedback(sessions, world.seed)
    verdicts = simulate_verdicts(sessions, world.seed)
    questions = eval_questions(corpus, world.seed, n_eval_queries)
    evaluations = tuple(simulate_evaluation(world, questions, day) for day in schedule.days)

    tell("writing the landing files")
    production = blemished_lines(corpus, traces, feedback, end=int(schedule.end_at.timestamp()))
    files, contracts = landing_files(
        [
            *production.lines,
            *_verdict_lines(corpus, verdicts, end=int(schedule.end_at.timestamp())),
            *_evaluation_lines(corpus, schedule, evaluations),
            *_label_lines(schedule, questions),
        ],
        compressed_before=schedule.days[days * 3 // 4].isoformat(),
    )
    write_landing(landing, files, description="retrieval-quality demo: simulated traffic and feedback")
    return DemoSummary(
        landing=landing,
        seed=seed,
        python_version=platform.python_version(),
        schedule=schedule,
        n_documents=corpus.n_docs,
        n_passages=len(corpus.passages),
        n_questions=len(corpus.asked),
        n_ambiguous_questions=corpus.n_ambiguous_questions,
        n_duplicate_texts=corpus.n_duplicate_texts,
        n_sessions=len(sessions),
        n_production_traces=len(traces),
        n_eval_traces=sum(len(e) for e in evaluations),
        n_sessions_with_feedback=len({f.session_id for f in feedback}),
        n_sessions_audited=len({v.session_id for v in verdicts if v.signal == "audit"}),
        n_sessions_judged=len({v.session_id for v in verdicts if v.signal == "judge"}),
        contracts=contracts,
        blemishes=production.blemishes,
        nights=tuple(_night_quality(e) for e in evaluations),
    )


def build_search(corpus: Corpus) -> Search:
    """All index versions and rerankers behind one function that remembers its answers."""
    specs = (INDEX_V1, INDEX_V2, INDEX_V2_BROKEN)
    indexes = {spec.version: build_index(spec, corpus.passages) for spec in specs}
    rerankers = {spec.version: spec for spec in (RERANK_CONTROL, RERANK_TREATMENT)}
    features = build_features(corpus.passages)

    @cache
    def search(index_version: str, reranker_version: str, query: str) -> Ranking:
        candidates = first_stage(indexes[index_version], query)
        final = rerank(rerankers[reranker_version], features, query, candidates)
        return Ranking(candidates, final)

    return search


def format_summary(summary: DemoSummary) -> str:
    """The summary as a few lines of text for a terminal."""
    schedule = summary.schedule
    share = summary.n_sessions_with_feedback / summary.n_sessions
    lines = [
        f"Demo: ask the Python {summary.python_version} docs (traffic and feedback are simulated)",
        f"  {summary.n_passages:,} passages of {summary.n_documents:,} documents",
        f"  {summary.n_questions:,} known-item questions",
        f"    left out: {summary.n_ambiguous_questions:,} that several passages share",
        f"    left out: {summary.n_duplicate_texts:,} passages with the text of another",
        f"  {schedule.days[0]} to {schedule.days[-1]}",
        f"    {summary.n_sessions:,} simulated sessions, {summary.n_production_traces:,} traces",
        f"    simulated feedback on {share:.0%} of the sessions",
        f"    {summary.n_sessions_audited:,} sessions audited, {summary.n_sessions_judged:,} judged (simulated)",
        f"    {summary.n_eval_traces:,} traces of {len(summary.nights)} scheduled evaluations",
        f"  {schedule.rollout_on}: {INDEX_V2.version} replaces {INDEX_V1.version}",
        f"  {schedule.regression_on}: {INDEX_V2_BROKEN.version} with a broken tokenizer, in part",
        f"  landed in {summary.landing} ({summary.n_bytes / 1e6:.1f} MB)",
    ]
    lines += [f"    {c.contract}: {c.n_lines:,} lines in {c.n_files} files" for c in summary.contracts]
    lines += ["  planted blemishes:"]
    lines += [f"    {b.n} x {b.name}: {b.description}" for b in summary.blemishes]
    return "\n".join(lines)


def _evaluation_lines(corpus: Corpus, schedule: Schedule, evaluations: Sequence[Sequence[Trace]]) -> Iterator[Delivery]:
    """Traces and the run of every night; the run is landed when its last query is answered."""
    for day, traces in zip(schedule.days, evaluations, strict=True):
        for trace in traces:
            yield delivery("retrieval_traces", trace.delivered_at, trace_row(trace, corpus))
        yield delivery("eval_runs", traces[-1].delivered_at, eval_run_row(schedule, day))


def _verdict_lines(corpus: Corpus, verdicts: Sequence[Verdict], *, end: int) -> Iterator[Delivery]:
    """Verdicts given by ``end`` (epoch seconds)."""
    for verdict in verdicts:
        if verdict.ts <= end:
            yield delivery("feedback", verdict.ts, verdict_row(verdict, corpus))


def _label_lines(schedule: Schedule, questions: Sequence[tuple[int, Passage]]) -> Iterator[Delivery]:
    """The evaluation set: questions and labels made the day before, landed on the first day."""
    first_day = start_of(schedule.days[0])
    made_at = datetime.fromtimestamp(first_day, tz=UTC) - timedelta(hours=12)
    for _, passage in questions:
        yield delivery("queries", first_day, query_row(passage, made_at))
        yield delivery("qrels", first_day, qrel_row(passage, made_at))


def _night_quality(traces: Sequence[Trace]) -> NightQuality:
    """Score one evaluation; every question has exactly one relevant passage."""
    ranks = [_rank(t.target, t.ranking.final) for t in traces]
    first = [_rank(t.target, t.ranking.candidates) for t in traces]
    n = len(traces)
    return NightQuality(
        eval_run_id=traces[0].eval_run_id or "",
        index_version=traces[0].index_version,
        n_queries=n,
        recall_50_retriever=sum(0 < r <= 50 for r in first) / n,
        recall_5=sum(0 < r <= 5 for r in ranks) / n,
        reciprocal_rank_10=sum(1 / r for r in ranks if 0 < r <= 10) / n,
    )


def _rank(target: int | None, hits: Sequence[Hit]) -> int:
    """The 1-based rank of a passage, 0 where it is missing."""
    return next((rank for rank, hit in enumerate(hits, start=1) if hit.passage == target), 0)


def _say_nothing(step: str) -> None:
    """Ignore progress."""
