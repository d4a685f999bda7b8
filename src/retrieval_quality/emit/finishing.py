"""What the background thread makes of a row before any sink sees it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from retrieval_quality.emit.calls import Versions
from retrieval_quality.emit.redaction import Redact
from retrieval_quality.emit.rows import Row, finished


@dataclass(frozen=True)
class Finisher:
    """Fills in what the logger knows for all rows, redacts, checks, and writes the line.

    `defaults`: values by contract and column.
    """

    defaults: Mapping[str, Mapping[str, object]]
    redact: Redact | None

    def __call__(self, contract: str, logged: dict[str, Any]) -> Row:
        """Raises RefusedRowError. The versions of one call go before those of the logger."""
        values = {**self.defaults.get(contract, {})}
        versions = logged.pop("versions", None)
        if versions is not None:
            values |= told(versions)
        values |= {column: value for column, value in logged.items() if value is not None}
        return finished(contract, values, self.redact)


def told(versions: Versions) -> dict[str, object]:
    """The versions that are named."""
    return {column: value for column, value in asdict(versions).items() if value is not None}
