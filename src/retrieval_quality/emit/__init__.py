"""The emitting SDK: serving code logs retrievals, feedback and answers as landing rows.

Imports the standard library only; Kafka and OpenTelemetry are imported by their sinks when used.
Linux and macOS (it uses flock and fork hooks). See docs/emit.md.
"""

from retrieval_quality.emit.calls import RetrievalCall, Versions
from retrieval_quality.emit.logger import TraceLogger
from retrieval_quality.emit.redaction import Redact, hashed
from retrieval_quality.emit.rows import Row
from retrieval_quality.emit.sampling import is_sampled
from retrieval_quality.emit.sinks import (
    CallableSink,
    JsonlSink,
    KafkaSink,
    OTelSink,
    Recovered,
    Sink,
    SinkUnavailableError,
    recover,
)
from retrieval_quality.emit.stats import SinkStats, Stats

__all__ = [
    "CallableSink",
    "JsonlSink",
    "KafkaSink",
    "OTelSink",
    "Recovered",
    "Redact",
    "RetrievalCall",
    "Row",
    "Sink",
    "SinkStats",
    "SinkUnavailableError",
    "Stats",
    "TraceLogger",
    "Versions",
    "hashed",
    "is_sampled",
    "recover",
]
