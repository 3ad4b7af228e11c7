"""The expected fate of every record of the raw log, by loops over the log and what was sent."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from headrace.declare.streams.stream import Stream
from headrace.kafka.consumers.offset_range import read_offset_range
from headrace.kafka.headers import OFFSET_HEADER
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.record import ConsumerRecord

Position = tuple[int, int]  # partition and offset in the raw log
BROKEN = {"not-json", "wrong-type", "missing-id", "failed-check", "poison"}


@dataclass
class Expected:
    """The records of the raw log by fate, and the events that count by id."""

    fates: dict[str, set[Position]] = field(default_factory=lambda: defaultdict(set))
    events: dict[str, dict[str, Any]] = field(default_factory=dict)

    def by_card(self) -> dict[str, tuple[int, float]]:
        """The count and the sum of each card's payments."""
        counts: Counter[str] = Counter()
        sums: dict[str, float] = defaultdict(float)
        for event in self.events.values():
            counts[event["card"]] += 1
            sums[event["card"]] += event["amount"]
        return {card: (count, sums[card]) for card, count in counts.items()}


def records_of(broker: str, topic: str) -> Iterator[ConsumerRecord]:
    """Every record of a topic."""
    offsets = OffsetClient(broker)
    return read_offset_range(broker, offsets.topic_start_offsets([topic]), offsets.topic_end_offsets([topic]))


def expect(broker: str, stream: Stream, reasons: Mapping[bytes, str]) -> Expected:
    """The expected output of the gate for the raw log; `reasons` has the bytes that must be dead letters, and why."""
    expected = Expected()
    for record in sorted(records_of(broker, stream.name), key=lambda one: one.appended_us):
        value = record.value or b""
        fate, event = expected_fate(stream, record, value, reasons.get(value, ""))
        expected.fates[fate].add((record.partition, record.offset))
        if fate == "clean":
            expected.events.setdefault(event["payment_id"], event)
    return expected


def expected_fate(stream: Stream, record: ConsumerRecord, value: bytes, reason: str) -> tuple[str, dict[str, Any]]:
    """The fate of a record: dead for its content, or late or too early by its arrival time."""
    if reason in BROKEN:
        return "dead", {}
    event: dict[str, Any] = json.loads(value)
    at_us = round(datetime.fromisoformat(event["at"]).timestamp() * 1_000_000)
    arrival_us = record.appended_us
    if at_us - arrival_us > stream.ahead_us:
        return "dead", event
    return ("late" if arrival_us - at_us > stream.late.until_us else "clean"), event


def found_fates(broker: str, stream: Stream) -> dict[str, set[Position]]:
    """The raw positions of the records that the gate wrote, by fate."""
    topics = {"clean": stream.clean, "late": stream.late_topic, "dead": stream.dead}
    return {
        fate: {(record.partition, OFFSET_HEADER.read_or(record, -1)) for record in records_of(broker, topic)}
        for fate, topic in topics.items()
    }
