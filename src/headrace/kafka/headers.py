"""The headers of Kafka records: their names, types and bytes, and which components write them.

The gate's headers start with the position of the raw record, always in this order, and Spark reads them by index:

    clean            headrace.offset  headrace.arrival
    late, dropped    headrace.offset  headrace.arrival  headrace.lateness
    dead, parked     headrace.offset  headrace.arrival  headrace.reason  headrace.topic  headrace.partition
    any of them      … and then traceparent, where the raw record has one

`RECORD_HEADERS` is the whole table; docs/how-it-works.md shows it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from headrace.kafka.record import ConsumerRecord, Partition
from headrace.kafka.trace_context import TRACEPARENT, parse_traceparent

HeaderValue = TypeVar("HeaderValue")
WrittenHeader = tuple[str, bytes]
SPARK_HEADERS_TYPE = "array<struct<key:string,value:binary>>"


@dataclass(frozen=True)
class HeaderEncoding(Generic[HeaderValue]):
    """The encoding of a value as bytes: its name in the docs, and the type that Spark casts it to."""

    name: str
    spark_type: str
    encode: Callable[[HeaderValue], bytes]
    decode: Callable[[bytes], HeaderValue | None]


def _encode_int(value: int) -> bytes:
    return b"%d" % value


def _decode_int(value: bytes) -> int | None:
    try:
        return int(value)
    except ValueError:  # any producer may write to a topic: other text is not from us
        return None


def _decode_text(value: bytes) -> str:
    return value.decode(errors="replace")


INTEGER = HeaderEncoding("integer, in decimal digits", "bigint", _encode_int, _decode_int)
TEXT = HeaderEncoding("UTF-8 text", "string", str.encode, _decode_text)
TRACE_CONTEXT = HeaderEncoding("W3C trace context", "binary", bytes, parse_traceparent)


@dataclass(frozen=True)
class RecordHeader(Generic[HeaderValue]):
    """One header: its name, its type and bytes, which component writes it, and its meaning.

    >>> OFFSET_HEADER.write(42)
    ('headrace.offset', b'42')
    >>> record = ConsumerRecord("payments.clean", 0, 7, 0, None, None, [OFFSET_HEADER.write(42)])
    >>> OFFSET_HEADER.read(record), ARRIVAL_HEADER.read(record), ARRIVAL_HEADER.read_or(record, 0)
    (42, None, 0)
    """

    name: str
    encoding: HeaderEncoding[HeaderValue]
    writers: str
    meaning: str

    def read(self, record: ConsumerRecord) -> HeaderValue | None:
        """The value of the first such header of a record; None if it is missing or has another type."""
        value = record.header(self.name)
        return None if value is None else self.encoding.decode(value)

    def read_or(self, record: ConsumerRecord, default: HeaderValue) -> HeaderValue:
        """The value, or a default if there is none."""
        value = self.read(record)
        return default if value is None else value

    def write(self, value: HeaderValue) -> WrittenHeader:
        """Encode the header for a record."""
        return self.name, self.encoding.encode(value)

    def write_optional(self, value: HeaderValue | None) -> list[WrittenHeader]:
        """The header if there is a value, else none."""
        return [] if value is None else [self.write(value)]


_GATE_AND_SINKS = "the gate; sinks, on parked rows"
_GATE_AND_KAFKA_SINKS = "the gate, on dead letters; sinks, on parked rows and what they write to Kafka"
_BRIDGE = "bridges of NATS and Pulsar, on raw records"

OFFSET_HEADER = RecordHeader(
    "headrace.offset",
    INTEGER,
    "the gate; sinks, on parked rows and what they write to Kafka",
    "the offset of the record it was made of: of the gate, the raw record's",
)
ARRIVAL_HEADER = RecordHeader(
    "headrace.arrival", INTEGER, _GATE_AND_SINKS, "when the event arrived, in microseconds since 1970"
)
LATENESS_HEADER = RecordHeader(
    "headrace.lateness", INTEGER, "the gate, on late and dropped records", "arrival − event time, in microseconds"
)
REASON_HEADER = RecordHeader(
    "headrace.reason",
    TEXT,
    "the gate, on dead letters; sinks, on parked rows",
    "why the record was refused: a sentence that starts with a code",
)
TOPIC_HEADER = RecordHeader("headrace.topic", TEXT, _GATE_AND_KAFKA_SINKS, "the topic of the record it was made of")
PARTITION_HEADER = RecordHeader(
    "headrace.partition", INTEGER, _GATE_AND_KAFKA_SINKS, "the partition of the record it was made of"
)
ORIGIN_HEADER = RecordHeader(
    "headrace.origin",
    TEXT,
    "sinks, on parked rows and what they write to Kafka; replays of parked rows",
    "where the event stood first, as `topic-partition@offset`",
)
REPLAYS_HEADER = RecordHeader(
    "headrace.replays",
    TEXT,
    "replays of dead letters and of parked rows",
    "the record that is sent again, as `topic-partition@offset`",
)
RAISED_HEADER = RecordHeader(
    "headrace.raised",
    TEXT,
    "queries of derived streams, on raw records",
    "what the function or the operator raised on the row this record is made of",
)
SOURCE_HEADER = RecordHeader("headrace.source", TEXT, _BRIDGE, "the id of the log the message was copied from")
NUMBER_HEADER = RecordHeader("headrace.number", INTEGER, _BRIDGE, "the number of the message in that log")
AFTER_HEADER = RecordHeader(
    "headrace.after", INTEGER, _BRIDGE, "the number up to which every message had been copied when this one was sent"
)
TOO_LARGE_HEADER = RecordHeader(
    "headrace.too-large", INTEGER, _BRIDGE, "the bytes of a message of which only the beginning was copied"
)
ID_HEADER = RecordHeader("headrace.id", TEXT, "relays of outboxes", "the id of the row of the outbox")
TRACEPARENT_HEADER = RecordHeader(
    TRACEPARENT,
    TRACE_CONTEXT,
    "producers; the gate, scorers and the server pass it on",
    "the [W3C trace](https://www.w3.org/TR/trace-context/) that the record is part of",
)

RECORD_HEADERS: tuple[RecordHeader[Any], ...] = (
    OFFSET_HEADER,
    ARRIVAL_HEADER,
    LATENESS_HEADER,
    REASON_HEADER,
    TOPIC_HEADER,
    PARTITION_HEADER,
    ORIGIN_HEADER,
    REPLAYS_HEADER,
    RAISED_HEADER,
    SOURCE_HEADER,
    NUMBER_HEADER,
    AFTER_HEADER,
    TOO_LARGE_HEADER,
    ID_HEADER,
    TRACEPARENT_HEADER,
)

HeaderLayout = tuple[RecordHeader[Any], ...]
POSITION_HEADERS: HeaderLayout = (OFFSET_HEADER, ARRIVAL_HEADER)
LATE_HEADERS: HeaderLayout = (*POSITION_HEADERS, LATENESS_HEADER)
DEAD_LETTER_HEADERS: HeaderLayout = (*POSITION_HEADERS, REASON_HEADER, TOPIC_HEADER, PARTITION_HEADER)


def position_headers(offset: int, arrival_us: int) -> list[WrittenHeader]:
    """The gate's headers of a clean event: the raw record's offset and arrival time.

    >>> position_headers(42, 1_767_225_600_000_000)
    [('headrace.offset', b'42'), ('headrace.arrival', b'1767225600000000')]
    """
    return _write_layout(POSITION_HEADERS, (offset, arrival_us))


def dead_letter_headers(partition: Partition, offset: int, arrival_us: int, reason: str) -> list[WrittenHeader]:
    """The headers of a dead letter, which describe the rejected record.

    >>> partition, reason = Partition("payments", 3), "not-json: the value is not JSON"
    >>> for header in dead_letter_headers(partition, 42, 1_767_225_600_000_000, reason):
    ...     print(header)
    ('headrace.offset', b'42')
    ('headrace.arrival', b'1767225600000000')
    ('headrace.reason', b'not-json: the value is not JSON')
    ('headrace.topic', b'payments')
    ('headrace.partition', b'3')
    """
    return _write_layout(DEAD_LETTER_HEADERS, (offset, arrival_us, reason, partition.topic, partition.number))


def _write_layout(layout: HeaderLayout, values: Sequence[object]) -> list[WrittenHeader]:
    return [header.write(value) for header, value in zip(layout, values, strict=True)]


def gate_header_sql(header: RecordHeader[Any], layout: HeaderLayout = POSITION_HEADERS) -> str:
    """Spark SQL that reads a header of the gate's records, by its index.

    >>> gate_header_sql(ARRIVAL_HEADER)
    'cast(cast(headers[1].value as string) as bigint)'
    """
    return f"cast(cast(headers[{layout.index(header)}].value as string) as {header.encoding.spark_type})"
