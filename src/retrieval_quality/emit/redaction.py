"""Texts that must not leave the process as they are."""

from collections.abc import Callable
from hashlib import blake2b
from typing import Final

Redact = Callable[[str], str | None]
"""A text in, what may leave the process out; None writes no text at all."""

_BYTES: Final = 16
_MAX_KEY_BYTES: Final = 64


def hashed(key: bytes) -> Redact:
    """A hook that replaces a text by `h:` and 32 hex digits of its keyed blake2b.

    Case and spacing do not count, so equal questions stay equal. `key`: a secret of 1 to 64 bytes;
    without it the hash of a guessed text cannot be computed. Raises ValueError for other lengths.
    """
    if not 1 <= len(key) <= _MAX_KEY_BYTES:
        raise ValueError(f"a key has 1 to {_MAX_KEY_BYTES} bytes, this one has {len(key)}")

    def redact(text: str) -> str:
        normalised = " ".join(text.casefold().split())
        return f"h:{blake2b(normalised.encode('utf-8', 'surrogatepass'), key=key, digest_size=_BYTES).hexdigest()}"

    return redact
