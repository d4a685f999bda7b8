"""What became of the rows of one process."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Stats:
    """Counts since the logger started in this process. At any time: accepted = written + queued +
    the sum of `dropped`; after `close`: queued = 0.

    `accepted`: rows taken into the queue. `written`: rows the sink has taken. `queued`: rows that
    wait, or are being written. `refused`: rows never taken, by reason: `queue_full`, `closed`,
    `invalid`. `dropped`: rows taken and lost, by reason: `invalid`, `not_serialisable`,
    `redaction_failed`, `sink_failed`, `close_timeout`, and what the sink names. `sampled_out`: rows
    of sessions that are not traced. `recovered_files`, `torn_lines`: files of killed processes that
    were brought to light, and the unfinished last lines that were cut off them.
    """

    accepted: int
    written: int
    queued: int
    sampled_out: int
    refused: Mapping[str, int]
    dropped: Mapping[str, int]
    recovered_files: int = 0
    torn_lines: int = 0

    @property
    def lost(self) -> Mapping[str, int]:
        """Rows refused or dropped, by reason."""
        reasons = sorted({*self.refused, *self.dropped})
        return {reason: self.refused.get(reason, 0) + self.dropped.get(reason, 0) for reason in reasons}


@dataclass(frozen=True)
class SinkStats:
    """What a sink has to say beyond `write`: rows it took and lost, by reason, and what it recovered."""

    lost: Mapping[str, int]
    recovered_files: int = 0
    torn_lines: int = 0
