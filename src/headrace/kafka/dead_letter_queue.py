"""The dead-letter queue: refused records, each replayed exactly once when the cause is fixed, or discarded.

payments.dead ──▶ a dead letter, named by its offset in the raw log ──▶ payments, with that offset as a header
     └──▶ payments.dead.done    going ─▶ replayed, or discarded: the latest record under each offset counts
SINK.parked ────▶ a dead letter, named by its offset in the sink's topic ──▶ SINK.again

After a crash between "going" and "replayed" the raw log itself shows what was sent, from its end at that time on.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal, NamedTuple

import orjson

from headrace.declare.sinks.sink import Sink
from headrace.declare.sinks.sink_source import ordering_column
from headrace.declare.streams.stream import Stream
from headrace.errors import HeadraceError
from headrace.kafka.compacted_topic import ensure_compacted_topic
from headrace.kafka.consumers.fetch_by_offset import fetch_records
from headrace.kafka.consumers.last_records import LastRecordsReader
from headrace.kafka.consumers.offset_range import read_offset_range
from headrace.kafka.headers import ARRIVAL_HEADER, OFFSET_HEADER, ORIGIN_HEADER, REPLAYS_HEADER, TOPIC_HEADER
from headrace.kafka.ledger import dead_letter_reason, reason_code
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord, Headers, Partition

REPLAY_BATCH_SIZE = 500
NO_LIMIT = 10**9
REPLAY_LEASE_US = 60_000_000  # for so long after its start a replay counts as running

DeadLetterState = Literal["open", "going", "replayed", "discarded"]


class ReplayInProgressError(HeadraceError):
    """Another process replays dead letters of the same stream."""


class DeadLetterQueueConfig(NamedTuple):
    """A queue: its source, its topic, the topic of replays, and the key column of replayed records."""

    source_name: str
    topic: str
    replay_topic: str
    key_column: str


def stream_queue_config(stream: Stream) -> DeadLetterQueueConfig:
    """The queue of a stream's gate."""
    return DeadLetterQueueConfig(stream.name, stream.dead, stream.name, stream.key)


def sink_queue_config(sink: Sink) -> DeadLetterQueueConfig:
    """The queue of a sink's parked rows."""
    return DeadLetterQueueConfig(sink.name, sink.parked, sink.again, ordering_column(sink.of))


class DeadLetter(NamedTuple):
    """A refused record: its location, arrival, reason and bytes.

    `origin` is its first location, where it has been replayed since.
    """

    location: str
    partition: int
    arrival_us: int
    reason: str
    key: bytes | None
    value: bytes | None
    origin: str | None = None

    @property
    def code(self) -> str:
        return reason_code(self.reason)

    @property
    def source_offset(self) -> tuple[Partition, int]:
        """The partition and the offset of the refused record."""
        partition, _, offset = self.location.rpartition("@")
        return Partition(partition.rpartition("-")[0], self.partition), int(offset)


class DeadLetterStateChange(NamedTuple):
    """A state change of a dead letter, its time, and the end offsets of the raw log then."""

    word: DeadLetterState
    at_us: int
    ends: Mapping[str, int]


class DeadLetterQueue:
    """The dead letters of one source."""

    def __init__(self, broker: str, config: DeadLetterQueueConfig) -> None:
        self._broker, self._config = broker, config
        self._state_topic = f"{config.topic}.done"
        self._offset_client = OffsetClient(broker)

    def read_letters(self) -> Iterator[DeadLetter]:
        """Every dead letter the log still has, in order of each partition; repeated records are skipped."""
        last_offsets: dict[tuple[str | None, int], int] = {}
        for record in LastRecordsReader(self._broker, self._config.topic, NO_LIMIT).read_new_records():
            source, offset = (TOPIC_HEADER.read(record), record.partition), OFFSET_HEADER.read_or(record, -1)
            if offset > last_offsets.get(source, -1):
                last_offsets[source] = offset
                yield self._to_letter(record, offset)

    def read_states(self) -> dict[str, DeadLetterState]:
        """The latest state of dead letters, by location; others are open."""
        return {location: change.word for location, change in self._read_state_changes().items()}

    def read_source_headers(self, letters: Iterable[DeadLetter]) -> dict[str, Headers]:
        """The producers' headers of dead letters, by location, as far as the raw log still has those records."""
        letters_by_location = {letter.location: letter for letter in letters}
        source_records = fetch_records(self._broker, [letter.source_offset for letter in letters_by_location.values()])
        return {
            record.location: record.headers or []
            for record in source_records
            if record.value == letters_by_location[record.location].value
        }

    def replay(self, letters: Iterable[DeadLetter], corrected_values: Mapping[str, bytes]) -> int:
        """Replay dead letters, corrected ones with their new value, each exactly once; returns how many were sent."""
        count, open_letters = 0, self._select_open(letters)
        with Producer(self._broker) as producer:
            while batch := list(islice(open_letters, REPLAY_BATCH_SIZE)):
                self._replay_batch(producer, batch, corrected_values)
                count += len(batch)
        return count

    def discard(self, letters: Iterable[DeadLetter]) -> int:
        """Discard dead letters: they are no longer open, but stay in their topic for its retention; returns a count."""
        locations = [letter.location for letter in self._select_open(letters)]
        with Producer(self._broker) as producer:
            self._write_state(producer, locations, "discarded")
        return len(locations)

    def _select_open(self, letters: Iterable[DeadLetter]) -> Iterator[DeadLetter]:
        """The open dead letters, once interrupted replays are resolved."""
        ensure_compacted_topic(self._broker, self._state_topic)
        self._resolve_interrupted_replays()
        states = self.read_states()
        return (letter for letter in letters if states.get(letter.location, "open") == "open")

    def _replay_batch(
        self, producer: Producer, letters: Sequence[DeadLetter], corrected_values: Mapping[str, bytes]
    ) -> None:
        """Each step is flushed to the log before the next begins."""
        locations = [letter.location for letter in letters]
        self._write_state(producer, locations, "going")
        for letter in letters:
            self._replay_letter(producer, letter, corrected_values.get(letter.location))
        producer.flush()
        self._write_state(producer, locations, "replayed")

    def _replay_letter(self, producer: Producer, letter: DeadLetter, corrected_value: bytes | None) -> None:
        if corrected_value is None:
            value, key, partition = letter.value, letter.key, letter.partition
        else:
            value, key, partition = (
                corrected_value,
                _extract_key(corrected_value, self._config.key_column) or letter.key,
                -1,
            )
        producer.send(
            self._config.replay_topic,
            value,
            key=key,
            partition=partition,
            headers=[REPLAYS_HEADER.write(letter.location), *ORIGIN_HEADER.write_optional(letter.origin)],
        )

    def _write_state(self, producer: Producer, locations: Iterable[str], state: DeadLetterState) -> None:
        end_offsets = {
            str(partition.number): end
            for partition, end in self._offset_client.topic_end_offsets([self._config.replay_topic]).items()
        }
        payload = orjson.dumps(DeadLetterStateChange(state, time.time_ns() // 1000, end_offsets)._asdict())
        for location in locations:
            producer.send(self._state_topic, payload, key=location)
        producer.flush()

    def _resolve_interrupted_replays(self) -> None:
        """Resolve replays that a crash interrupted: those in the raw log were sent, the others are open again."""
        interrupted = {
            location: change for location, change in self._read_state_changes().items() if change.word == "going"
        }
        if not interrupted:
            return
        if max(deed.at_us for deed in interrupted.values()) > time.time_ns() // 1000 - REPLAY_LEASE_US:
            raise ReplayInProgressError(
                f"Another process replays dead letters of {self._config.source_name!r}. Wait a minute, then try again."
            )
        replayed = interrupted.keys() & set(self._read_replayed_locations(list(interrupted.values())))
        with Producer(self._broker) as producer:
            self._write_state(producer, replayed, "replayed")
            self._write_state(producer, interrupted.keys() - replayed, "open")

    def _read_replayed_locations(self, interrupted: Sequence[DeadLetterStateChange]) -> Iterator[str]:
        """The locations of replayed dead letters in the raw log, from its end when the first replay started."""
        end_offsets = self._offset_client.topic_end_offsets([self._config.replay_topic])
        start_offsets = {
            partition: max(start_offset, min(change.ends.get(str(partition.number), 0) for change in interrupted))
            for partition, start_offset in self._offset_client.start_offsets(end_offsets).items()
        }
        for record in read_offset_range(self._broker, start_offsets, end_offsets):
            location = REPLAYS_HEADER.read(record)
            if location is not None:
                yield location

    def _read_state_changes(self) -> dict[str, DeadLetterStateChange]:
        records = LastRecordsReader(self._broker, self._state_topic, NO_LIMIT).read_new_records()
        return {
            (record.key or b"").decode(): DeadLetterStateChange(**orjson.loads(record.value or b""))
            for record in records
        }

    def _to_letter(self, record: ConsumerRecord, offset: int) -> DeadLetter:
        arrival_us = ARRIVAL_HEADER.read_or(record, record.appended_us)
        topic = TOPIC_HEADER.read(record) or self._config.replay_topic
        location = f"{topic}-{record.partition}@{offset}"
        content = record.key, record.value, ORIGIN_HEADER.read(record)
        return DeadLetter(location, record.partition, arrival_us, dead_letter_reason(record), *content)


def _extract_key(value: bytes, column: str) -> bytes | None:
    """The key of a corrected event as text, where it has one."""
    try:
        event = orjson.loads(value)
    except ValueError:
        return None
    key = event.get(column) if isinstance(event, dict) else None
    return None if key is None else str(key).encode()
