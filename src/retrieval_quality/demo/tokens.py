"""Text to tokens: what the demo's index versions and its reranker understand as words."""

from __future__ import annotations

import re

_STOP_TEXT = """
a an and any are as at be been but by can do does for from has have how i if in into is it its may
my not of on or s so such that the their then there these they this to was what when where which
will with you
"""
STOP_WORDS = frozenset(re.findall(r"[a-z]+", _STOP_TEXT))

# A length filter this short is a mistake: it was meant to be 50.
BROKEN_MAX_LENGTH = 5

_PLAIN = re.compile(r"[a-z0-9_]+")
_IDENTIFIER = re.compile(r"[A-Za-z0-9_]+")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SUFFIXES = ("ies", "ing", "ed", "es", "s")


def plain_tokens(text: str) -> list[str]:
    """Lower-case words; an identifier stays one token."""
    return _PLAIN.findall(text.lower())


def split_tokens(text: str) -> list[str]:
    """Lower-case words without stop words; an identifier whole and in its parts.

    ``readLine`` gives readline, read, line.
    """
    tokens = []
    for word in _IDENTIFIER.findall(text):
        parts = [p.lower() for p in _PARTS.findall(word)]
        if len(parts) > 1:
            tokens.append(word.lower())
        tokens.extend(p for p in parts if p not in STOP_WORDS)
    return tokens


def broken_tokens(text: str) -> list[str]:
    """The planted regression: ``split_tokens``, then every word longer than five letters is lost.

    A length filter with the wrong limit, applied while indexing and while searching.
    """
    return [token for token in split_tokens(text) if len(token) <= BROKEN_MAX_LENGTH]


def stemmed_tokens(text: str) -> list[str]:
    """``split_tokens`` without common English endings (returns, returned, returning: return)."""
    return [_stem(token) for token in split_tokens(text)]


def normalise(text: str) -> str:
    """Lower-case words joined by single spaces: what counts as the same question or text."""
    return " ".join(_PLAIN.findall(text.lower()))


def _stem(word: str) -> str:
    """Strip one ending and a final e; at least three letters stay."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3 and not word.endswith("ss"):
            word = word[: -len(suffix)] + ("y" if suffix == "ies" else "")
            break
    return word[:-1] if word.endswith("e") and len(word) > 4 else word
