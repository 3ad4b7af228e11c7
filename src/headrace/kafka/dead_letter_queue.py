"""Letters: what was refused on its way, sent again once each when the cause is gone, or put away.

payments.dead ──▶ a letter, named by its place in the raw log ──▶ payments, with that place as a header
                    └──▶ payments.dead.done    going ─▶ replayed, or discarded: the latest word under each place counts
SINK.parked ────▶ a letter, named by its place in what is sunk ──▶ SINK.again

Whoever dies between "going" and "replayed" has sent it or not: the raw log itself says which, from where it ended then.
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
REPLAY_LEASE_US = 60_000_000  # so long somebody who has begun is believed to be at work

DeadLetterState = Literal["open", "going", "replayed", "discarded"]


class ReplayInProgressError(HeadraceError):
    """Somebody else sends letters of the same stream."""


class DeadLetterQueueConfig(NamedTuple):
    """Letters of one kind: of what, in which topic, where they are sent again, and which column is then their key."""

    source_name: str
    topic: str
    replay_topic: str
    key_column: str


def stream_queue_config(stream: Stream) -> DeadLetterQueueConfig:
    """What the gate of a stream refused."""
    return DeadLetterQueueConfig(stream.name, stream.dead, stream.name, stream.key)


def sink_queue_config(sink: Sink) -> DeadLetterQueueConfig:
    """What the target of a sink refused."""
    return DeadLetterQueueConfig(sink.name, sink.parked, sink.again, ordering_column(sink.of))


class DeadLetter(NamedTuple):
    """A record that was refused: where it stood, when it arrived, why, and its bytes.

    `origin` is the place it first had, where it has been sent again since.
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
        """The record that was refused: its partition and its offset."""
        partition, _, offset = self.location.rpartition("@")
        return Partition(partition.rpartition("-")[0], self.partition), int(offset)


class DeadLetterStateChange(NamedTuple):
    """What was done with a letter, when, and where the partitions of the raw log ended then."""

    word: DeadLetterState
    at_us: int
    ends: Mapping[str, int]


class DeadLetterQueue:
    """The letters of one box."""

    def __init__(self, broker: str, config: DeadLetterQueueConfig) -> None:
        self._broker, self._config = broker, config
        self._state_topic = f"{config.topic}.done"
        self._offset_client = OffsetClient(broker)

    def read_letters(self) -> Iterator[DeadLetter]:
        """Every letter the log still has, each partition's in order; what was written again is passed over."""
        last_offsets: dict[tuple[str | None, int], int] = {}
        for record in LastRecordsReader(self._broker, self._config.topic, NO_LIMIT).read_new_records():
            source, offset = (TOPIC_HEADER.read(record), record.partition), OFFSET_HEADER.read_or(record, -1)
            if offset > last_offsets.get(source, -1):
                last_offsets[source] = offset
                yield self._to_letter(record, offset)

    def read_states(self) -> dict[str, DeadLetterState]:
        """The latest word on letters, by their places; on those it does not name nothing was done."""
        return {location: change.word for location, change in self._read_state_changes().items()}

    def read_source_headers(self, letters: Iterable[DeadLetter]) -> dict[str, Headers]:
        """What producers gave with letters, by their places, as far as the raw log still has those very records."""
        letters_by_location = {letter.location: letter for letter in letters}
        source_records = fetch_records(self._broker, [letter.source_offset for letter in letters_by_location.values()])
        return {
            record.location: record.headers or []
            for record in source_records
            if record.value == letters_by_location[record.location].value
        }

    def replay(self, letters: Iterable[DeadLetter], corrected_values: Mapping[str, bytes]) -> int:
        """Send letters again, those that are mended with their new value, each once ever; how many went."""
        count, open_letters = 0, self._select_open(letters)
        with Producer(self._broker) as producer:
            while batch := list(islice(open_letters, REPLAY_BATCH_SIZE)):
                self._replay_batch(producer, batch, corrected_values)
                count += len(batch)
        return count

    def discard(self, letters: Iterable[DeadLetter]) -> int:
        """Put letters away: they are open no more, and stay in their topic as long as it keeps them; how many were."""
        locations = [letter.location for letter in self._select_open(letters)]
        with Producer(self._broker) as producer:
            self._write_state(producer, locations, "discarded")
        return len(locations)

    def _select_open(self, letters: Iterable[DeadLetter]) -> Iterator[DeadLetter]:
        """Those nobody has dealt with, once it is known of all."""
        ensure_compacted_topic(self._broker, self._state_topic)
        self._resolve_interrupted_replays()
        states = self.read_states()
        return (letter for letter in letters if states.get(letter.location, "open") == "open")

    def _replay_batch(
        self, producer: Producer, letters: Sequence[DeadLetter], corrected_values: Mapping[str, bytes]
    ) -> None:
        """Each step is in the log before the next begins."""
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
        """Of what somebody had begun: what the raw log has was sent, what it has not is open again."""
        interrupted = {
            location: change for location, change in self._read_state_changes().items() if change.word == "going"
        }
        if not interrupted:
            return
        if max(deed.at_us for deed in interrupted.values()) > time.time_ns() // 1000 - REPLAY_LEASE_US:
            raise ReplayInProgressError(
                f"Somebody sends letters of {self._config.source_name!r}. Wait a minute, then try again."
            )
        replayed = interrupted.keys() & set(self._read_replayed_locations(list(interrupted.values())))
        with Producer(self._broker) as producer:
            self._write_state(producer, replayed, "replayed")
            self._write_state(producer, interrupted.keys() - replayed, "open")

    def _read_replayed_locations(self, interrupted: Sequence[DeadLetterStateChange]) -> Iterator[str]:
        """The places of letters that the raw log has, from where it ended when the first was begun."""
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
    """The text of the key in a mended event, where it has one."""
    try:
        event = orjson.loads(value)
    except ValueError:
        return None
    key = event.get(column) if isinstance(event, dict) else None
    return None if key is None else str(key).encode()
