"""Other tools' exports as landing files: one module per format family.

`ingest` does it; `ADAPTERS` are the formats. Every adapter reads files record by record and yields
rows for a landing contract, or the reason why a record is none.
"""

from retrieval_quality.adapters.ingest import ADAPTERS, Adapter, IngestError, IngestReport, describe, ingest
from retrieval_quality.adapters.rows import Document, Item, LandingRow, Skipped, Unmapped

__all__ = [
    "ADAPTERS",
    "Adapter",
    "Document",
    "IngestError",
    "IngestReport",
    "Item",
    "LandingRow",
    "Skipped",
    "Unmapped",
    "describe",
    "ingest",
]
