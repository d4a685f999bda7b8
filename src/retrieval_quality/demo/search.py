"""The demo retriever: BM25 over the passages (first stage) and a lexical reranker (second stage).

Three index versions share the passages and differ in how text becomes tokens:

* ``pydocs-v1``: words of the passage text;
* ``pydocs-v2``: identifiers split into their parts, stop words dropped, and the qualified name as
  a field of its own;
* ``pydocs-v2.1``: v2 rebuilt with a broken tokenizer, the demo's planted regression.

Scores come from ``bm25s`` (numpy backend). Equal scores are ordered by passage number and scores
are rounded, so a ranking never depends on a partial sort or on the last bits of a float.
"""

from __future__ import annotations

import importlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval_quality.demo.corpus import Passage
from retrieval_quality.demo.tokens import (
    broken_tokens,
    plain_tokens,
    split_tokens,
    stemmed_tokens,
)

N_CANDIDATES = 50
TOP_K = 10
SCORE_DIGITS = 4

Tokenizer = Callable[[str], list[str]]


@dataclass(frozen=True)
class IndexSpec:
    """How one index version is built: tokenizer, BM25 parameters, weight of the name field."""

    version: str
    tokenize: Tokenizer
    k1: float
    b: float
    title_weight: int


@dataclass(frozen=True)
class RerankerSpec:
    """Weights of the reranker's four features, each in [0, 1]."""

    version: str
    first_stage: float
    coverage: float
    title: float
    phrase: float


@dataclass(frozen=True)
class Hit:
    """A scored passage: its number in the corpus, and the stage's score (higher is better)."""

    passage: int
    score: float


@dataclass(frozen=True)
class Features:
    """What the reranker knows about the passages: token and bigram sets, and token idf."""

    words: tuple[frozenset[str], ...]
    title_words: tuple[frozenset[str], ...]
    bigrams: tuple[frozenset[tuple[str, str]], ...]
    idf: dict[str, float]


@dataclass(frozen=True)
class Index:
    """A built BM25 index: ``model`` scores token numbers, ``vocabulary`` maps tokens to them."""

    spec: IndexSpec
    model: Any
    vocabulary: dict[str, int]


INDEX_V1 = IndexSpec("pydocs-v1", plain_tokens, k1=1.5, b=0.75, title_weight=0)
INDEX_V2 = IndexSpec("pydocs-v2", split_tokens, k1=1.2, b=0.6, title_weight=2)
INDEX_V2_BROKEN = IndexSpec("pydocs-v2.1", broken_tokens, k1=1.2, b=0.6, title_weight=2)

RERANK_CONTROL = RerankerSpec("overlap-1", first_stage=1.0, coverage=0.3, title=0.2, phrase=0.2)
RERANK_TREATMENT = RerankerSpec("overlap-2", first_stage=1.0, coverage=1.0, title=0.5, phrase=0.2)

BM25_NAME = "bm25s-lucene"
"""Landed as ``embedding_model``: the first stage is lexical, there is no embedding."""


def build_index(spec: IndexSpec, passages: Sequence[Passage]) -> Index:
    """Index the passages; ``title_weight`` repeats the qualified name that many times.

    Raises ImportError naming the ``demo`` extra when ``bm25s`` is not installed.
    """
    vocabulary: dict[str, int] = {}
    documents: list[list[int]] = []
    for passage in passages:
        tokens = spec.tokenize(passage.title) * spec.title_weight + spec.tokenize(passage.text)
        documents.append([vocabulary.setdefault(token, len(vocabulary)) for token in tokens])
    model = load_bm25s().BM25(k1=spec.k1, b=spec.b, method="lucene", backend="numpy")
    model.index((documents, dict(vocabulary)), create_empty_token=False, show_progress=False)
    return Index(spec, model, vocabulary)


def first_stage(index: Index, query: str) -> tuple[Hit, ...]:
    """The ``N_CANDIDATES`` passages with the greatest BM25 score, best first.

    Passages without a common token are not returned, so the result may be shorter or empty.
    """
    numbers = [index.vocabulary[t] for t in index.spec.tokenize(query) if t in index.vocabulary]
    if not numbers:
        return ()
    raw: NDArray[np.float32] = index.model.get_scores_from_ids(numbers)
    scores = np.round(raw.astype(np.float64), SCORE_DIGITS)
    found = np.flatnonzero(scores > 0)
    order = found[np.lexsort((found, -scores[found]))][:N_CANDIDATES]
    return tuple(Hit(int(i), float(scores[i])) for i in order)


def build_features(passages: Sequence[Passage]) -> Features:
    """Token sets, bigram sets and idf of the passages, for ``rerank``."""
    words, titles, bigrams = [], [], []
    frequency: Counter[str] = Counter()
    for passage in passages:
        tokens = stemmed_tokens(passage.text)
        title = frozenset(stemmed_tokens(passage.title))
        words.append(frozenset(tokens) | title)
        titles.append(title)
        bigrams.append(frozenset(pairwise(tokens)))
        frequency.update(words[-1])
    n = len(passages)
    idf = {t: math.log(1 + (n - f + 0.5) / (f + 0.5)) for t, f in sorted(frequency.items())}
    return Features(tuple(words), tuple(titles), tuple(bigrams), idf)


def rerank(spec: RerankerSpec, features: Features, query: str, candidates: Sequence[Hit]) -> tuple[Hit, ...]:
    """Reorder the candidates and keep the best ``TOP_K``.

    The score is a weighted sum of the first-stage score (over its maximum), the idf-weighted share
    of query words in the passage, the same share in its name, and the share of query bigrams in
    its text. The question a passage was cut from is not used.
    """
    if not candidates:
        return ()
    tokens = stemmed_tokens(query)
    weights = {t: features.idf[t] for t in sorted(set(tokens)) if t in features.idf}
    total = sum(weights.values()) or 1.0
    pairs = sorted(set(pairwise(tokens)))
    best = max(hit.score for hit in candidates)
    scored = []
    for hit in candidates:
        words = features.words[hit.passage]
        title = features.title_words[hit.passage]
        bigrams = features.bigrams[hit.passage]
        score = (
            spec.first_stage * hit.score / best
            + spec.coverage * sum(w for t, w in weights.items() if t in words) / total
            + spec.title * sum(w for t, w in weights.items() if t in title) / total
            + spec.phrase * sum(p in bigrams for p in pairs) / (len(pairs) or 1)
        )
        scored.append(Hit(hit.passage, round(score, SCORE_DIGITS)))
    return tuple(sorted(scored, key=lambda hit: (-hit.score, hit.passage))[:TOP_K])


def load_bm25s() -> Any:
    """The optional ``bm25s`` package."""
    try:
        return importlib.import_module("bm25s")
    except ImportError as error:
        raise ImportError("the demo needs bm25s: pip install 'retrieval-quality[demo]'") from error
