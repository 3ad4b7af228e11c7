"""Spans of events whose trace is sampled: the work of the gate and the scorers, as read from the log.

producer's span ──┬── payments gate   arrival ──▶ payments.clean     an error where it is a dead letter
(traceparent)     └── fraud score     arrival ──▶ fraud.predictions

Tiles have no span: a record of them is of many events. `headrace trace` shows those of one event, by its offset.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

import orjson

from headrace.declare.app import App
from headrace.declare.models.model import Model
from headrace.declare.streams.stream import Stream
from headrace.kafka.headers import ARRIVAL_HEADER, OFFSET_HEADER, TRACEPARENT_HEADER
from headrace.kafka.ledger import dead_letter_reason, reason_code
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.topics import fate_topics
from headrace.telemetry.otlp.otlp_metrics import to_attributes

INTERNAL, SERVER, CONSUMER = 1, 2, 5
SAMPLED = 1
ERROR = 2
Span = dict[str, Any]


class SpanContext(NamedTuple):
    """The parent span that a record names."""

    trace_id: str
    span_id: str


class SpanData(NamedTuple):
    """One step of an event, its start and end, and its attributes: never its key or its values."""

    name: str
    kind: int
    start_us: int
    end_us: int
    attributes: Mapping[str, str]
    is_error: bool = False


SpanBuilders = dict[str, Callable[[ConsumerRecord], SpanData | None]]


def parse_span_context(record: ConsumerRecord) -> SpanContext | None:
    """The parent span of a record; None without one, or where the trace is not sampled.

    >>> traceparent = b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01"
    >>> record = ConsumerRecord("t", 0, 0, 0, None, None, [("traceparent", traceparent)])
    >>> parse_span_context(record).span_id
    'bbbbbbbbbbbbbbbb'
    """
    traceparent = TRACEPARENT_HEADER.read(record)
    if traceparent is None:
        return None
    version, trace_id, span_id, flags = traceparent.decode().split("-")
    is_valid = version != "ff" and bool(trace_id.strip("0")) and bool(span_id.strip("0"))
    return SpanContext(trace_id, span_id) if is_valid and int(flags, 16) & SAMPLED else None


def to_otlp_span(record: ConsumerRecord, parent: SpanContext, span_data: SpanData) -> Span:
    """A span whose id is derived from the record's offset, so that a span pushed twice is one."""
    return {
        "traceId": parent.trace_id,
        "spanId": sha256(record.location.encode()).hexdigest()[:16],
        "parentSpanId": parent.span_id,
        "flags": SAMPLED,
        "name": span_data.name,
        "kind": span_data.kind,
        "startTimeUnixNano": str(min(span_data.start_us, span_data.end_us) * 1000),
        "endTimeUnixNano": str(span_data.end_us * 1000),
        "attributes": to_attributes(span_data.attributes),
        "status": {"code": ERROR} if span_data.is_error else {},
    }


def gate_span(stream: Stream, record: ConsumerRecord) -> SpanData | None:
    """The gate's span; a record that the gate did not write has no raw record."""
    offset = OFFSET_HEADER.read(record)
    if offset is None:
        return None
    fate = record.topic.removeprefix(f"{stream.name}.")
    span_attributes = {"headrace.place": f"{stream.name}-{record.partition}@{offset}", "headrace.fate": fate}
    if fate == "dead":
        span_attributes["headrace.reason"] = reason_code(dead_letter_reason(record))
    arrival_us = ARRIVAL_HEADER.read(record)
    # Replayed history has its own arrival times, which may be years ago.
    start_us = record.appended_us if stream.arrival is not None or arrival_us is None else arrival_us
    return SpanData(f"{stream.name} gate", CONSUMER, start_us, record.appended_us, span_attributes, fate == "dead")


def score_span(model: Model, record: ConsumerRecord) -> SpanData:
    """The span of a scorer or of the server."""
    prediction = orjson.loads(record.value or b"{}")
    end_us = int(prediction["decided_at_us"])
    is_http = prediction["source"] == "http"
    arrival_us = prediction["arrival_us"] if model.stream.arrival is None and not is_http else None
    span_attributes = {f"headrace.{name}": str(prediction[name]) for name in ("model", "version", "role", "source")}
    if prediction["degraded"]:
        span_attributes["headrace.degraded"] = ",".join(prediction["degraded"])
    kind = SERVER if is_http else INTERNAL
    return SpanData(
        f"{model.name} score", kind, end_us if arrival_us is None else int(arrival_us), end_us, span_attributes
    )


def span_builders(app: App) -> SpanBuilders:
    """The span builders by topic."""
    gate_builders: SpanBuilders = {
        topic: partial(gate_span, stream) for stream in app.streams for topic in fate_topics(stream)
    }
    return gate_builders | {model.predictions: partial(score_span, model) for model in app.models}


def build_spans(records: Iterable[ConsumerRecord], builders: SpanBuilders, since_us: int) -> Iterator[Span]:
    """The spans of records appended since a time."""
    for record in records:
        parent = parse_span_context(record) if record.appended_us >= since_us else None
        if parent is not None and (span_data := _build_span_data(builders, record)) is not None:
            yield to_otlp_span(record, parent, span_data)


def _build_span_data(builders: SpanBuilders, record: ConsumerRecord) -> SpanData | None:
    """The data of a span; a record of another producer makes none."""
    try:
        return builders[record.topic](record)
    except (ValueError, KeyError, TypeError):
        return None
