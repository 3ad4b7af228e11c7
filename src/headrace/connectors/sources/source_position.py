"""The position of a bridge, read from the topic it writes: no other state exists that could disagree.

Each record has its number in the source, and the number up to which all messages were copied when it was sent. A batch
is sent once the previous one is delivered, so only the last batch has numbers beyond that.

    partition 0   … 94 96 97 │ 100, sent after 97
    partition 1   … 93 95    │  99, sent after 97       98 was lost when its sender crashed:
                             └ copied_through = 97, copied_beyond = {99, 100}
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headrace.kafka.consumers.offset_range import read_offset_range
from headrace.kafka.headers import AFTER_HEADER, NUMBER_HEADER, SOURCE_HEADER, WrittenHeader
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.record import ConsumerRecord, Partition

BATCH_SIZE = 500


@dataclass(frozen=True)
class SourcePosition:
    """All messages up to `copied_through` are in the topic; of later ones, those of `copied_beyond`."""

    copied_through: int = 0
    copied_beyond: frozenset[int] = frozenset()


class CopyMarker(NamedTuple):
    """A message's number, and the number up to which all messages were copied before it."""

    number: int
    copied_through: int


def marker_to_headers(source_id: str, marker: CopyMarker) -> list[WrittenHeader]:
    """The headers that name a record's source, its number there and the copied position."""
    return [
        SOURCE_HEADER.write(source_id),
        NUMBER_HEADER.write(marker.number),
        AFTER_HEADER.write(marker.copied_through),
    ]


def marker_of_record(record: ConsumerRecord, source_id: str) -> CopyMarker | None:
    """The marker of a record; None if it has another source id."""
    if SOURCE_HEADER.read(record) != source_id:
        return None
    return CopyMarker(NUMBER_HEADER.read_or(record, 0), AFTER_HEADER.read_or(record, 0))


def read_position(broker: str, topic: str, source_id: str) -> SourcePosition:
    """The position of a source in a topic; reads each partition backwards until the copied position is certain."""
    offset_client = OffsetClient(broker)
    start_offsets, end_offsets = offset_client.topic_start_offsets([topic]), offset_client.topic_end_offsets([topic])
    markers: dict[Partition, set[CopyMarker]] = {partition: set() for partition in end_offsets}
    unfinished, read_from = set(end_offsets), dict(end_offsets)
    while unfinished:
        chunk_starts = {
            partition: max(start_offsets[partition], read_from[partition] - BATCH_SIZE - 1) for partition in unfinished
        }
        for record in read_offset_range(
            broker, chunk_starts, {partition: read_from[partition] for partition in unfinished}
        ):
            if (marker := marker_of_record(record, source_id)) is not None:
                markers[Partition(record.topic, record.partition)].add(marker)
        read_from.update(chunk_starts)
        copied_through = _max_copied_through(markers)
        unfinished = {
            unfinished_partition
            for unfinished_partition in unfinished
            if read_from[unfinished_partition] > start_offsets[unfinished_partition]
            and not _has_number_up_to(markers[unfinished_partition], copied_through)
        }
    copied_through = _max_copied_through(markers)
    return SourcePosition(
        copied_through, frozenset(marker.number for marker in _all_markers(markers) if marker.number > copied_through)
    )


def _max_copied_through(markers_by_partition: Mapping[Partition, set[CopyMarker]]) -> int:
    return max((marker.copied_through for marker in _all_markers(markers_by_partition)), default=0)


def _has_number_up_to(markers: Iterable[CopyMarker], number: int) -> bool:
    return any(marker.number <= number for marker in markers)


def _all_markers(markers_by_partition: Mapping[Partition, set[CopyMarker]]) -> Iterable[CopyMarker]:
    return (marker for markers in markers_by_partition.values() for marker in markers)
