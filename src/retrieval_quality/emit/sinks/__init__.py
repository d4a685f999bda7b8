"""Where rows go: landing files, a function, OpenTelemetry, Kafka."""

from retrieval_quality.emit.sinks.base import Sink, SinkUnavailableError
from retrieval_quality.emit.sinks.files import Recovered, recover
from retrieval_quality.emit.sinks.function import CallableSink
from retrieval_quality.emit.sinks.jsonl import JsonlSink
from retrieval_quality.emit.sinks.kafka import KafkaSink
from retrieval_quality.emit.sinks.otel import OTelSink

__all__ = ["CallableSink", "JsonlSink", "KafkaSink", "OTelSink", "Recovered", "Sink", "SinkUnavailableError", "recover"]
