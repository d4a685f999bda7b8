"""Ways to break a retriever on purpose: from the ranked lists of a trace to worse ones.

Each is a pure function of the lists, of random numbers seeded by the trace, and of the chunk ids of
the corpus. No list gets longer; a blank chunk id is the empty text.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, Literal

TOP: Final = 5
REPLACED_SHARE: Final = 0.5
CUT_TO: Final = 5
STALE_SHARE: Final = 0.3
FOREIGN_SHARE: Final = 0.75

_SET_METRICS: Final = frozenset({"precision", "recall", "hit_rate"})

Stage = Literal["retriever", "final"]


@dataclass(frozen=True)
class Lists:
    """What a trace retrieved, best first: the final list, and the first stage's where there is one."""

    final: tuple[str, ...]
    candidates: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Target:
    """A number that an objective watches."""

    metric: str
    k: int
    stage: Stage

    @property
    def name(self) -> str:
        return f"{self.stage} {self.metric}@{self.k}"


Degrade = Callable[[Lists, Random, Sequence[str]], Lists]


@dataclass(frozen=True)
class Degradation:
    """A broken retriever: what was done, and which targets have to page."""

    name: str
    description: str
    degrade: Degrade
    must_page: tuple[Target, ...]


PRECISION: Final = Target("precision", 5, "final")
RECALL: Final = Target("recall", 5, "final")
RECIPROCAL_RANK: Final = Target("reciprocal_rank", 10, "final")
NDCG: Final = Target("ndcg", 10, "final")
CANDIDATE_RECALL: Final = Target("recall", 100, "retriever")
TARGETS: Final = (PRECISION, RECALL, RECIPROCAL_RANK, NDCG, CANDIDATE_RECALL)


def unchanged(lists: Lists, _: Random, __: Sequence[str]) -> Lists:
    """The healthy control."""
    return lists


def shuffled(lists: Lists, random: Random, _: Sequence[str]) -> Lists:
    """The order of the final list destroyed; what is in it stays."""
    return Lists(_shuffled(lists.final, random), lists.candidates)


def shuffled_top(lists: Lists, random: Random, _: Sequence[str]) -> Lists:
    """The order of the first `TOP` destroyed: the shuffle of a system whose top_k is k."""
    return Lists(_shuffled(lists.final[:TOP], random) + lists.final[TOP:], lists.candidates)


def replaced_chunks(lists: Lists, random: Random, corpus: Sequence[str]) -> Lists:
    """A share of the final list replaced by chunks that have nothing to do with the question."""
    foreign = _foreign(lists, random, corpus)
    final = tuple(next(foreign) if random.random() < REPLACED_SHARE else chunk for chunk in lists.final)
    return Lists(final, lists.candidates)


def cut_candidates(n_kept: int) -> Degrade:
    """The first stage returns `n_kept` chunks, and the reranker reorders only those.

    Chunks keep the reranker's order; those whose place in it was not logged follow as the first
    stage had them. Where the whole candidate set was logged reranked, this is what the reranker
    would have made of the shorter one.
    """

    def degrade(lists: Lists, _: Random, __: Sequence[str]) -> Lists:
        if lists.candidates is None:
            return lists
        kept = lists.candidates[:n_kept]
        return Lists(_refilled([chunk for chunk in lists.final if chunk in kept], kept, len(lists.final)), kept)

    return degrade


def stale_index(lists: Lists, _: Random, __: Sequence[str]) -> Lists:
    """A fixed share of the corpus, "added lately", is missing from both stages; others move up."""
    candidates = None if lists.candidates is None else tuple(filter(_is_indexed, lists.candidates))
    survivors = [chunk for chunk in lists.final if _is_indexed(chunk)]
    return Lists(_refilled(survivors, candidates or (), len(lists.final)), candidates)


def dropped_filters(lists: Lists, random: Random, corpus: Sequence[str]) -> Lists:
    """A filter was dropped: both lists are diluted by chunks it kept out, and relevant ones move down."""
    foreign = _foreign(lists, random, corpus)
    candidates = None if lists.candidates is None else _diluted(lists.candidates, random, foreign)
    return Lists(_diluted(lists.final, random, foreign), candidates)


CONTROL: Final = Degradation("control", "Nothing changed: has to stay silent.", unchanged, ())
DEGRADATIONS: Final = (
    Degradation("shuffled", "Order of the final list destroyed.", shuffled, (RECIPROCAL_RANK, NDCG)),
    Degradation(
        "shuffled_top_5",
        f"Order of the first {TOP} destroyed: a shuffle where top_k is {TOP}.",
        shuffled_top,
        (RECIPROCAL_RANK, NDCG),
    ),
    Degradation(
        "replaced_chunks",
        f"{REPLACED_SHARE:.0%} of the final list replaced by chunks of other questions.",
        replaced_chunks,
        (PRECISION, RECALL),
    ),
    Degradation(
        "cut_candidates",
        f"First stage cut to {CUT_TO} chunks before reranking.",
        cut_candidates(CUT_TO),
        (CANDIDATE_RECALL,),
    ),
    Degradation(
        "stale_index",
        f"{STALE_SHARE:.0%} of the chunks missing from the index.",
        stale_index,
        (RECALL, CANDIDATE_RECALL),
    ),
    Degradation(
        "dropped_filters",
        f"Lists diluted: {FOREIGN_SHARE:.0%} of each is what a filter kept out.",
        dropped_filters,
        (RECALL, RECIPROCAL_RANK),
    ),
)


def degraded(degradation: Degradation, trace_id: str, lists: Lists, corpus: Sequence[str]) -> Lists:
    """The lists of a trace after a degradation; the same trace always gets the same ones."""
    return degradation.degrade(lists, Random(f"{degradation.name}:{trace_id}"), corpus)


def can_move(target: Target, before: Lists, after: Lists) -> bool:
    """Can the target tell these lists apart? A set metric sees which chunks are in the top k, not their order."""
    if target.stage == "retriever":
        old, new = before.candidates or (), after.candidates or ()
    else:
        old, new = before.final, after.final
    old, new = old[: target.k], new[: target.k]
    return set(old) != set(new) if target.metric in _SET_METRICS else old != new


def _shuffled(chunks: Sequence[str], random: Random) -> tuple[str, ...]:
    return tuple(random.sample(chunks, len(chunks)))


def _refilled(first: Sequence[str], then: Sequence[str], length: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*first, *then]))[:length]


def _is_indexed(chunk: str) -> bool:
    """Whether a chunk is outside the fixed share; crc32, because it is the same in every process."""
    return zlib.crc32(chunk.encode("utf-8", "surrogatepass")) % 1000 >= STALE_SHARE * 1000


def _diluted(chunks: Sequence[str], random: Random, foreign: Iterator[str]) -> tuple[str, ...]:
    own = iter(chunks)
    return tuple(next(foreign) if random.random() < FOREIGN_SHARE else next(own) for _ in chunks)


def _foreign(lists: Lists, random: Random, corpus: Sequence[str]) -> Iterator[str]:
    """Chunks of the corpus in random order without those of the trace; invented ones when it has no more."""
    own = {*lists.final, *(lists.candidates or ())}
    for chunk in random.sample(corpus, min(len(corpus), len(own) + 200)):
        if chunk not in own:
            yield chunk
    number = 0
    while True:
        yield f"drill:foreign:{number}"
        number += 1
