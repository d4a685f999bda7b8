"""Simulated traffic over the demo's retriever: users' sessions and nightly evaluations.

The rankings are real (BM25 and a reranker over real documentation); who asks what and when, and the
latencies, are **simulated**.
"""

from __future__ import annotations

import math
import random
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import accumulate

from retrieval_quality.demo.corpus import Corpus, Passage
from retrieval_quality.demo.landing import digest
from retrieval_quality.demo.search import (
    INDEX_V1,
    INDEX_V2,
    INDEX_V2_BROKEN,
    RERANK_CONTROL,
    RERANK_TREATMENT,
    Hit,
)
from retrieval_quality.demo.tokens import STOP_WORDS

EXPERIMENT_ID = "rerank-weights"
QUERY_SET = "synthetic"
EVAL_AT_HOUR = 2
HIT_DEPTH = 5
"""A simulated reader looks at this many passages."""

N_USERS = 1200
ANONYMOUS_SHARE = 0.12
OUTSIDE_SHARE = 0.06
VERBATIM_SHARE = 0.15
N_VARIANTS = 3
MAX_TURNS = 3
REFORMULATES_SHARE = 0.55
FOLLOWS_UP_SHARE = 0.15
INTENT_SHARE = 0.7
WEEKDAY_FACTOR, WEEKEND_FACTOR = 1.1, 0.82
ZIPF_EXPONENT, ZIPF_OFFSET = 0.9, 8
CANARY_SHARE = 0.10
BROKEN_SHARE = 0.60

INTENTS = {
    "class": "api_class",
    "function": "api_function",
    "language": "language_reference",
    "method": "api_method",
    "module": "module_overview",
}

# Simulated load by UTC hour: an office day in Europe and America.
HOURLY_LOAD = (2, 2, 1, 1, 1, 2, 4, 7, 10, 12, 12, 11, 11, 13, 14, 14, 13, 12, 10, 8, 6, 5, 4, 3)

PREFIXES = ("", "", "", "how to ", "python ", "how do i ", "what is used to ", "python3 ")
SYNONYMS = {
    "call": "invoke",
    "convert": "turn",
    "create": "make",
    "delete": "remove",
    "determine": "find out",
    "dictionary": "dict",
    "directory": "folder",
    "display": "show",
    "execute": "run",
    "function": "routine",
    "get": "fetch",
    "given": "some",
    "integer": "int",
    "list": "array",
    "method": "function",
    "object": "thing",
    "open": "access",
    "print": "output",
    "raise": "throw",
    "raised": "thrown",
    "read": "load",
    "remove": "delete",
    "return": "get",
    "returns": "gives",
    "set": "change",
    "specified": "given",
    "string": "text",
    "test": "check",
    "write": "save",
}

# Questions the documentation of the standard library does not answer.
OUTSIDE_QUESTIONS = (
    "airflow dag retries not working",
    "best laptop for machine learning",
    "cheapest gpu cloud provider",
    "conda environment solving forever",
    "cron job not running on ubuntu",
    "css center a div vertically",
    "difference between kafka and rabbitmq",
    "django migrate fake initial",
    "docker compose healthcheck example",
    "fastapi dependency injection tutorial",
    "flask blueprint url prefix",
    "git rebase interactive squash",
    "github actions cache poetry",
    "how to center a plot in matplotlib",
    "how to deploy django on kubernetes",
    "is rust faster than go",
    "jupyter notebook kernel keeps dying",
    "kubernetes ingress tls certificate renewal",
    "langchain agent memory",
    "latex table too wide",
    "merge two pandas dataframes on index",
    "numpy broadcasting rules explained",
    "pandas groupby multiple columns agg",
    "polars lazy vs eager",
    "postgres vacuum full locking",
    "pytest fixtures scope session",
    "pytorch cuda out of memory",
    "react useeffect runs twice",
    "requests retry with backoff adapter",
    "scikit learn pipeline gridsearchcv",
    "selenium wait until element clickable",
    "spacy custom named entity recognition",
    "sqlalchemy many to many relationship",
    "tensorflow keras early stopping",
    "terraform state lock stuck",
    "vacation request form",
    "vim exit without saving",
    "weather in berlin tomorrow",
)


@dataclass(frozen=True)
class Schedule:
    """What happened when, all on UTC days; ``days`` full days end with ``end_at``."""

    end_at: datetime
    days: tuple[date, ...]
    canary_on: date
    rollout_on: date
    experiment_on: date
    regression_on: date

    def index_shares(self, day: date) -> tuple[tuple[str, float], ...]:
        """(index version, share of that day's sessions), the shares adding up to 1."""
        if day >= self.regression_on:
            return (
                (INDEX_V2_BROKEN.version, BROKEN_SHARE),
                (INDEX_V2.version, 1 - BROKEN_SHARE),
            )
        if day >= self.rollout_on:
            return ((INDEX_V2.version, 1.0),)
        if day >= self.canary_on:
            return ((INDEX_V2.version, CANARY_SHARE), (INDEX_V1.version, 1 - CANARY_SHARE))
        return ((INDEX_V1.version, 1.0),)

    def main_index(self, day: date) -> str:
        """The index version that serves the larger part of a day's traffic."""
        return max(self.index_shares(day), key=lambda pair: pair[1])[0]


@dataclass(frozen=True)
class Ranking:
    """Both stages' answer to one query."""

    candidates: tuple[Hit, ...]
    final: tuple[Hit, ...]


Search = Callable[[str, str, str], Ranking]
"""(index version, reranker version, query) -> both stages' lists."""


@dataclass(frozen=True)
class World:
    """What a simulation runs in; ``seed`` starts every random stream."""

    corpus: Corpus
    search: Search
    schedule: Schedule
    seed: str


@dataclass(frozen=True)
class _Crowd:
    """Who asks what: passage numbers by popularity, cumulative weights of questions and users."""

    asked: tuple[int, ...]
    question_weights: tuple[float, ...]
    user_weights: tuple[float, ...]


@dataclass(frozen=True)
class Trace:
    """One retrieval, simulated or scheduled. Times are epoch seconds (UTC).

    ``target`` is the number of the only relevant passage, None for a question the corpus does not
    answer. ``user_id`` is None for anonymous sessions; ``query_id`` only evaluations have.
    """

    trace_id: str
    session_id: str
    user_id: str | None
    query: str
    query_id: str | None
    ts: int
    index_version: str
    reranker_version: str
    experiment_bucket: str | None
    eval_run_id: str | None
    intent: str | None
    target: int | None
    ranking: Ranking
    retrieval_latency_ms: float
    rerank_latency_ms: float
    delivered_at: int

    @property
    def is_hit(self) -> bool:
        """Whether the relevant passage is among the first ``HIT_DEPTH`` of the final list."""
        return self.target in [h.passage for h in self.ranking.final[:HIT_DEPTH]]


def plan(end_at: datetime, days: int) -> Schedule:
    """The demo's calendar, scaled to ``days``; of 28: canary day 9, rollout 11, regression 23.

    Raises ValueError unless ``end_at`` has a UTC offset and ``days`` is at least 4.
    """
    if end_at.tzinfo is None or end_at.utcoffset() is None:
        raise ValueError("end_at needs a time zone, for example datetime(..., tzinfo=UTC)")
    if days < 4:
        raise ValueError(f"days must be at least 4, got {days}")
    end_at = end_at.astimezone(UTC)
    all_days = tuple(end_at.date() - timedelta(days=days - 1 - i) for i in range(days))
    rollout = max(1, round(days * 10 / 28))
    return Schedule(
        end_at=end_at,
        days=all_days,
        canary_on=all_days[max(0, rollout - max(1, round(days * 2 / 28)))],
        rollout_on=all_days[rollout],
        experiment_on=all_days[round(days * 7 / 28)],
        regression_on=all_days[days - max(1, round(days * 6 / 28))],
    )


def start_of(day: date) -> int:
    """Epoch seconds of a UTC day's first second."""
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())


# --- queries ---------------------------------------------------------------------------------


def paraphrase(question: str, seed: str, variant: int) -> str:
    """A simulated user's wording of a question: words dropped and replaced, now and then a typo.

    Deterministic for (question, seed, variant); at least two words of the question stay.
    """
    rng = random.Random(f"{seed}:paraphrase:{question}:{variant}")
    words = question.rstrip(".:!?").split()
    kept = []
    for word in words:
        lower = word.lower()
        drop = 0.6 if lower in STOP_WORDS else 0.12
        if rng.random() < drop:
            continue
        kept.append(SYNONYMS[lower] if lower in SYNONYMS and rng.random() < 0.4 else lower)
    if len(kept) < 2:
        kept = [w.lower() for w in words]
    if rng.random() < 0.06:
        longest = max(range(len(kept)), key=lambda i: len(kept[i]))
        kept[longest] = _typo(kept[longest], rng)
    return rng.choice(PREFIXES) + " ".join(kept)


def _typo(word: str, rng: random.Random) -> str:
    """Two neighbouring letters swapped; short words stay."""
    if len(word) < 4:
        return word
    i = rng.randrange(1, len(word) - 2)
    return word[:i] + word[i + 1] + word[i] + word[i + 2 :]


def eval_questions(corpus: Corpus, seed: str, n: int) -> tuple[tuple[int, Passage], ...]:
    """The fixed synthetic evaluation set: ``n`` (passage number, passage) drawn once, by number."""
    asked = [(i, p) for i, p in enumerate(corpus.passages) if p.question is not None]
    chosen = random.Random(f"{seed}:eval").sample(range(len(asked)), min(n, len(asked)))
    return tuple(asked[i] for i in sorted(chosen))


def query_id_of(passage: Passage) -> str:
    """The id of the synthetic question made from a passage."""
    return f"syn:{passage.chunk_id}"


# --- sessions --------------------------------------------------------------------------------


def simulate_sessions(world: World, sessions_per_day: int) -> Iterator[tuple[Trace, ...]]:
    """Simulated production sessions, day by day, each a tuple of one to three traces.

    A user asks a Zipf-distributed question in words of their own; when the answer is not among the
    first five passages they often rephrase it, else they may ask something new.
    """
    crowd = _crowd(world)
    for day in world.schedule.days:
        rng = random.Random(f"{world.seed}:day:{day.isoformat()}")
        factor = WEEKEND_FACTOR if day.weekday() >= 5 else WEEKDAY_FACTOR
        n_sessions = max(1, round(sessions_per_day * factor * rng.uniform(0.95, 1.05)))
        starts = sorted(start_of(day) + _second_of_day(rng) for _ in range(n_sessions))
        for number, start in enumerate(starts):
            session_id = f"s-{digest(world.seed, 'session', day.isoformat(), number)}"
            yield _session(world, crowd, rng, session_id, start)


def _crowd(world: World) -> _Crowd:
    """Questions in a shuffled order of popularity, and Zipf weights."""
    asked = [i for i, p in enumerate(world.corpus.passages) if p.question is not None]
    random.Random(f"{world.seed}:popularity").shuffle(asked)
    return _Crowd(tuple(asked), _zipf(len(asked)), _zipf(N_USERS))


def _session(world: World, crowd: _Crowd, rng: random.Random, session_id: str, start: int) -> tuple[Trace, ...]:
    """One simulated session; ``start`` in epoch seconds."""
    day = datetime.fromtimestamp(start, tz=UTC).date()
    is_anonymous = rng.random() < ANONYMOUS_SHARE
    user_id = None if is_anonymous else f"u-{_draw(rng, crowd.user_weights):04d}"
    index_version = _weighted(rng, world.schedule.index_shares(day))
    has_experiment = day >= world.schedule.experiment_on
    bucket = _bucket(user_id or session_id) if has_experiment else None
    reranker = RERANK_TREATMENT if bucket == "treatment" else RERANK_CONTROL
    has_intent = rng.random() < INTENT_SHARE
    traces: list[Trace] = []
    ts, target, wording = start, _question(rng, crowd), _wording(rng)
    outside = rng.choice(OUTSIDE_QUESTIONS)
    while True:
        passage = world.corpus.passages[target] if target is not None else None
        query = outside if passage is None else _words(passage, world.seed, wording)
        trace = Trace(
            trace_id=f"t-{digest(world.seed, session_id, len(traces))}",
            session_id=session_id,
            user_id=user_id,
            query=query,
            query_id=None,
            ts=ts,
            index_version=index_version,
            reranker_version=reranker.version,
            experiment_bucket=bucket,
            eval_run_id=None,
            intent=(INTENTS[passage.kind] if passage else "other") if has_intent else None,
            target=target,
            ranking=world.search(index_version, reranker.version, query),
            retrieval_latency_ms=_latency(rng, index_version),
            rerank_latency_ms=_latency(rng, reranker.version),
            delivered_at=ts + rng.randint(1, 8),
        )
        traces.append(trace)
        if len(traces) == MAX_TURNS:
            break
        move = rng.random()
        if not trace.is_hit and move < REFORMULATES_SHARE:
            wording = (max(wording, 0) + 1) % N_VARIANTS
            outside = f"{outside} python"
        elif trace.is_hit and move < FOLLOWS_UP_SHARE:
            target, wording = _question(rng, crowd), _wording(rng)
        else:
            break
        ts += rng.randint(15, 240)
    return tuple(traces)


def simulate_evaluation(world: World, questions: Sequence[tuple[int, Passage]], day: date) -> tuple[Trace, ...]:
    """The scheduled evaluation of one night: every question once, as written, on the main index.

    The rankings are real; only the latencies are simulated.
    """
    run_id = eval_run_id_of(day)
    rng = random.Random(f"{world.seed}:{run_id}")
    index_version = world.schedule.main_index(day)
    start = start_of(day) + EVAL_AT_HOUR * 3600
    traces = []
    for number, (target, passage) in enumerate(questions):
        query = passage.question or ""
        ts = start + number // 4
        traces.append(
            Trace(
                trace_id=f"t-{digest(world.seed, run_id, passage.chunk_id)}",
                session_id=f"{run_id}-{number:04d}",
                user_id=None,
                query=query,
                query_id=query_id_of(passage),
                ts=ts,
                index_version=index_version,
                reranker_version=RERANK_CONTROL.version,
                experiment_bucket=None,
                eval_run_id=run_id,
                intent=INTENTS[passage.kind],
                target=target,
                ranking=world.search(index_version, RERANK_CONTROL.version, query),
                retrieval_latency_ms=_latency(rng, index_version),
                rerank_latency_ms=_latency(rng, RERANK_CONTROL.version),
                delivered_at=ts + 1,
            )
        )
    return tuple(traces)


def eval_run_id_of(day: date) -> str:
    """The id of a night's scheduled evaluation."""
    return f"eval-{day.isoformat()}"


def _question(rng: random.Random, crowd: _Crowd) -> int | None:
    """A passage number by popularity, or None: a question from outside the corpus."""
    number = crowd.asked[_draw(rng, crowd.question_weights)]
    return None if rng.random() < OUTSIDE_SHARE else number


def _wording(rng: random.Random) -> int:
    """-1 for the question as written, else the number of a paraphrase."""
    return -1 if rng.random() < VERBATIM_SHARE else rng.randrange(N_VARIANTS)


def _words(passage: Passage, seed: str, wording: int) -> str:
    """The query for a passage's question in one of its wordings."""
    question = passage.question or ""
    return question if wording < 0 else paraphrase(question, seed, wording)


def _bucket(unit_id: str) -> str:
    """The experiment arm of a user or an anonymous session, by a stable hash."""
    return "treatment" if int(digest(EXPERIMENT_ID, unit_id), 16) % 2 else "control"


def _zipf(n: int) -> tuple[float, ...]:
    """Cumulative weights of ``n`` items, item i weighing (i + offset) ** -exponent."""
    return tuple(accumulate((i + ZIPF_OFFSET) ** -ZIPF_EXPONENT for i in range(n)))


def _draw(rng: random.Random, cumulative: Sequence[float]) -> int:
    """An item number drawn by its cumulative weights."""
    return min(bisect(cumulative, rng.random() * cumulative[-1]), len(cumulative) - 1)


def _weighted(rng: random.Random, shares: Sequence[tuple[str, float]]) -> str:
    """A name drawn by its share."""
    return shares[_draw(rng, list(accumulate(share for _, share in shares)))][0]


def _second_of_day(rng: random.Random) -> int:
    """A second of the day, drawn by the simulated hourly load."""
    hour = _draw(rng, list(accumulate(float(load) for load in HOURLY_LOAD)))
    return hour * 3600 + rng.randrange(3600)


def _latency(rng: random.Random, version: str) -> float:
    """A simulated, log-normal latency in milliseconds."""
    median = {
        INDEX_V1.version: 14.0,
        INDEX_V2.version: 19.0,
        INDEX_V2_BROKEN.version: 12.0,
        RERANK_CONTROL.version: 6.0,
        RERANK_TREATMENT.version: 8.0,
    }[version]
    return round(median * math.exp(rng.gauss(0.0, 0.45)), 1)
