"""Which sessions are traced: a stable decision that needs no memory and no coordination."""

from hashlib import blake2b
from typing import Final

SMALLEST_RATE: Final = 0.000001  # what the landing contract takes
_BYTES: Final = 8
_ALL: Final = 2.0 ** (8 * _BYTES)
_SALT: Final = b"rq-sampling"  # apart from an experiment that hashes the same session


def is_sampled(session_id: str, sample_rate: float) -> bool:
    """Is this session traced? The same answer in every process, on every machine, for ever.

    The first 8 bytes of blake2b (person `rq-sampling`) of the id, as a share of 2^64, lie below
    `sample_rate` (0 to 1). A session that is traced at one rate is traced at every higher one.
    """
    digest = blake2b(session_id.encode("utf-8", "surrogatepass"), digest_size=_BYTES, person=_SALT).digest()
    return int.from_bytes(digest, "big") < sample_rate * _ALL
