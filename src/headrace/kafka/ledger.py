"""The ledger: the fate of every record that arrived; always arrived = clean + late + dead + dropped + pending.

    payments      begin ├──────────────────────────────┤ end        arrived = end − begin
    payments.clean, .late, .dead, .dropped                           each raw offset once; replays are not counted
    the rest                                                         pending: the gate has not processed it yet

The count begins at the oldest record the raw topic still has when the ledger is opened. The gate's topics are kept
longer than the raw topic, so the fate of each raw record from there on can still be read. What retention deletes
later stays counted. A raw topic written in transactions has markers between its records; they stay pending.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Self

from headrace.declare.streams.stream import Stream
from headrace.kafka.consumers.tailing_consumer import SHORT_REQUEST_TIMEOUT_SECONDS, TailingConsumer
from headrace.kafka.consumers.time_to_offset import TimeToOffsetIndex
from headrace.kafka.headers import ARRIVAL_HEADER, OFFSET_HEADER, REASON_HEADER
from headrace.kafka.key_counts import StreamKeyCounts
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.topics import fate_topics

SAMPLE_SIZE = 64


@dataclass(frozen=True)
class LedgerCounts:
    """Counts of records by fate; `reasons` splits the dead by the code of their reason."""

    arrived: int
    clean: int
    late: int
    dead: int
    dropped: int
    pending: int
    reasons: Mapping[str, int]


class Ledger:
    """Counts the fates of a stream's raw records; one thread writes, any thread reads the counts."""

    def __init__(self, stream: Stream, start_offsets: Mapping[int, int]) -> None:
        self._fate_by_topic = {
            stream.clean: "clean",
            stream.late_topic: "late",
            stream.dead: "dead",
            stream.dropped: "dropped",
        }
        self._clean_topic, self._arrival_indexes = stream.clean, dict[int, TimeToOffsetIndex]()
        self._start_offsets = dict(start_offsets)
        self._raw_end_offsets: dict[int, int] = {}
        self._last_raw_offsets: dict[tuple[str, int], int] = {}
        self._last_processed_us: dict[int, int] = {}
        self._fate_counts: Counter[str] = Counter()
        self._processed_counts: Counter[int] = Counter()
        self._reason_counts: Counter[str] = Counter()
        self._lock = Lock()

    def count_records(self, records: Sequence[ConsumerRecord]) -> list[ConsumerRecord]:
        """Count records of the gate's topics; returns those that were counted."""
        with self._lock:
            for record in _sample_records(records):
                self._note_times(record)
            return [record for record in records if self._count_if_new(record)]

    def update_raw_ends(self, end_offsets: Mapping[int, int]) -> None:
        """Update the end offsets of the raw topic's partitions."""
        with self._lock:
            for partition, end in end_offsets.items():
                self._extend_raw_end(partition, end)

    def counts(self) -> LedgerCounts:
        """The current counts."""
        with self._lock:
            pending = sum(self._count_pending(partition) for partition in self._raw_end_offsets)
            counts_by_fate = {fate: self._fate_counts[fate] for fate in self._fate_by_topic.values()}
            return LedgerCounts(
                self._fate_counts.total() + pending,
                **counts_by_fate,
                pending=pending,
                reasons=dict(self._reason_counts),
            )

    def next_raw_offsets(self) -> dict[int, int]:
        """The next raw offset of each partition that the gate has to process."""
        with self._lock:
            next_offsets = dict(self._start_offsets)
            for (_, partition), offset in self._last_raw_offsets.items():
                next_offsets[partition] = max(offset + 1, next_offsets.get(partition, 0))
            return next_offsets

    def last_processed_us(self) -> dict[int, int]:
        """When the last record of each partition was processed, by the log's append time; 0 if none was."""
        with self._lock:
            return dict.fromkeys(self._start_offsets, 0) | self._last_processed_us

    def clean_offsets_by_arrival(self, until_us: int) -> dict[int, int]:
        """The offset of each clean partition before which all records had arrived by a time, as far as it is known."""
        with self._lock:
            return {partition: index.offset_at(until_us) for partition, index in self._arrival_indexes.items()}

    def _count_if_new(self, record: ConsumerRecord) -> bool:
        raw_offset = OFFSET_HEADER.read(record)
        if raw_offset is None:  # not written by the gate, so not the fate of anything that arrived
            return False
        is_new = self._advance_if_new(record, raw_offset)
        if is_new:
            self._count_fate(record)
        return is_new

    def _note_times(self, record: ConsumerRecord) -> None:
        """Record when a record was processed, and of a clean one when it had arrived."""
        self._last_processed_us[record.partition] = max(
            record.appended_us, self._last_processed_us.get(record.partition, 0)
        )
        if record.topic == self._clean_topic and (arrival_us := ARRIVAL_HEADER.read(record)) is not None:
            self._arrival_indexes.setdefault(record.partition, TimeToOffsetIndex()).add(arrival_us, record.offset + 1)

    def _advance_if_new(self, record: ConsumerRecord, raw_offset: int) -> bool:
        """Whether this raw offset is above all others of its topic and partition; a lower one is a replay."""
        topic_partition = record.topic, record.partition
        if raw_offset <= self._last_raw_offsets.get(topic_partition, self._start_offsets.get(record.partition, 0) - 1):
            return False
        self._last_raw_offsets[topic_partition] = raw_offset
        # The fate may be read before the raw topic's end offset is fetched.
        self._extend_raw_end(record.partition, raw_offset + 1)
        return True

    def _count_fate(self, record: ConsumerRecord) -> None:
        fate = self._fate_by_topic[record.topic]
        self._fate_counts[fate] += 1
        self._processed_counts[record.partition] += 1
        if fate == "dead":
            self._reason_counts[reason_code(dead_letter_reason(record))] += 1

    def _extend_raw_end(self, partition: int, end: int) -> None:
        self._raw_end_offsets[partition] = max(end, self._raw_end_offsets.get(partition, 0))

    def _count_pending(self, partition: int) -> int:
        # A gate that changed between a crash and its replay may give a record two fates: pending is never negative.
        return max(
            0,
            self._raw_end_offsets[partition]
            - self._start_offsets.get(partition, 0)
            - self._processed_counts[partition],
        )


class LedgerConsumer:
    """Keeps a stream's ledger from a broker; `key_counts` counts the keys of its clean records, each record once."""

    def __init__(self, broker: str, stream: Stream, key_counts: StreamKeyCounts | None = None) -> None:
        self._clean_topic, self._key_counts = stream.clean, key_counts or StreamKeyCounts(stream)
        self._offset_client = OffsetClient(broker, SHORT_REQUEST_TIMEOUT_SECONDS)
        start_offsets = self._offset_client.topic_start_offsets([stream.name])
        self.ledger = Ledger(
            stream, {partition.number: start_offset for partition, start_offset in start_offsets.items()}
        )
        self.consumer = TailingConsumer(broker, fate_topics(stream), self._handle_records, is_latency_tolerant=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_failure: object) -> None:
        self.stop()

    def start(self) -> Self:
        """Start consuming in its own thread."""
        self.consumer.start()
        return self

    def stop(self) -> None:
        self.consumer.stop()

    def _handle_records(self, records: list[ConsumerRecord]) -> None:
        counted_records = self.ledger.count_records(records)
        self._key_counts.count_records([record for record in counted_records if record.topic == self._clean_topic])


def _sample_records(records: Sequence[ConsumerRecord]) -> list[ConsumerRecord]:
    """A sample of the records, and the last of each partition: times need a precision of some milliseconds."""
    return [
        *records[:: max(1, len(records) // SAMPLE_SIZE)],
        *{(record.topic, record.partition): record for record in records}.values(),
    ]


def dead_letter_reason(record: ConsumerRecord) -> str:
    """Why a record is a dead letter."""
    return REASON_HEADER.read(record) or "unknown"


def reason_code(reason: str) -> str:
    """The code word a reason starts with.

    >>> reason_code("failed-check: amount >= 0")
    'failed-check'
    """
    return reason.partition(":")[0]
