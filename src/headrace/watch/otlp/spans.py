"""Spans of events whose trace is recorded: what the gate and the scorers did with them, as the log has it.

producer's span ──┬── payments gate   arrival ──▶ payments.clean     an error where it is a dead letter
(traceparent)     └── fraud score     arrival ──▶ fraud.predictions

Tiles have no span: a record of them is of many events. `headrace trace` names those of one event, by its place.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

import orjson

from headrace.declare.app import App
from headrace.declare.model import Model
from headrace.declare.stream import Stream
from headrace.log.ledger import ARRIVAL, OFFSET, code_of, reason_of
from headrace.log.records import Record
from headrace.log.topics import fates_of
from headrace.log.traceparent import TRACEPARENT, traceparent_of
from headrace.watch.otlp.metrics import attributes

INTERNAL, SERVER, CONSUMER = 1, 2, 5
SAMPLED = 1
ERROR = 2
Span = dict[str, Any]


class Parent(NamedTuple):
    """The span that a record is told to be part of."""

    trace: str
    span: str


class Made(NamedTuple):
    """What was done with an event, from when to when, and what is known of it: never its key or its values."""

    name: str
    kind: int
    began_us: int
    ended_us: int
    said: Mapping[str, str]
    is_error: bool = False


Makers = dict[str, Callable[[Record], Made | None]]


def parent_of(record: Record) -> Parent | None:
    """Whose span a record belongs to; None without one, or where nobody records the trace.

    >>> record = Record("t", 0, 0, 0, None, None, [("traceparent", b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01")])
    >>> parent_of(record).span
    'bbbbbbbbbbbbbbbb'
    """
    found = traceparent_of(record.header(TRACEPARENT))
    if found is None:
        return None
    version, trace, span, flags = found.decode().split("-")
    is_whole = version != "ff" and bool(trace.strip("0")) and bool(span.strip("0"))
    return Parent(trace, span) if is_whole and int(flags, 16) & SAMPLED else None


def span_of(record: Record, parent: Parent, made: Made) -> Span:
    """A span; its id is that of the record's place, so that one that is pushed twice is one."""
    return {
        "traceId": parent.trace,
        "spanId": sha256(record.place.encode()).hexdigest()[:16],
        "parentSpanId": parent.span,
        "flags": SAMPLED,
        "name": made.name,
        "kind": made.kind,
        "startTimeUnixNano": str(min(made.began_us, made.ended_us) * 1000),
        "endTimeUnixNano": str(made.ended_us * 1000),
        "attributes": attributes(made.said),
        "status": {"code": ERROR} if made.is_error else {},
    }


def judged(stream: Stream, record: Record) -> Made | None:
    """What the gate did; what it did not write has no raw record."""
    offset = record.header(OFFSET)
    if offset is None:
        return None
    fate = record.topic.removeprefix(f"{stream.name}.")
    said = {"headrace.place": f"{stream.name}-{record.partition}@{int(offset)}", "headrace.fate": fate}
    if fate == "dead":
        said["headrace.reason"] = code_of(reason_of(record))
    arrival = record.header(ARRIVAL)
    # Recorded history says itself when it arrived: years ago, maybe.
    began_us = record.appended_us if stream.arrival is not None or arrival is None else int(arrival)
    return Made(f"{stream.name} gate", CONSUMER, began_us, record.appended_us, said, fate == "dead")


def scored(model: Model, record: Record) -> Made:
    """What a scorer or the server did."""
    said = orjson.loads(record.value or b"{}")
    ended_us = int(said["decided_at_us"])
    is_asked = said["source"] == "http"
    known = said["arrival_us"] if model.stream.arrival is None and not is_asked else None
    words = {f"headrace.{name}": str(said[name]) for name in ("model", "version", "role", "source")}
    if said["degraded"]:
        words["headrace.degraded"] = ",".join(said["degraded"])
    kind = SERVER if is_asked else INTERNAL
    return Made(f"{model.name} score", kind, ended_us if known is None else int(known), ended_us, words)


def makers_of(app: App) -> Makers:
    """Who tells what was done, by the topic that has it."""
    gates: Makers = {topic: partial(judged, stream) for stream in app.streams for topic in fates_of(stream)}
    return gates | {model.predictions: partial(scored, model) for model in app.models}


def spans_of(records: Iterable[Record], makers: Makers, since_us: int) -> Iterator[Span]:
    """The spans of records that the log took since a time."""
    for record in records:
        parent = parent_of(record) if record.appended_us >= since_us else None
        if parent is not None and (made := _made(makers, record)) is not None:
            yield span_of(record, parent, made)


def _made(makers: Makers, record: Record) -> Made | None:
    """What was done; whoever else writes to our topics makes no span."""
    try:
        return makers[record.topic](record)
    except (ValueError, KeyError, TypeError):
        return None
