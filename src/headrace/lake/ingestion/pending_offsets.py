"""What of a topic is still to land, told by its table and its log."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.errors import HeadraceError
from headrace.kafka.offsets import OffsetClient
from headrace.lake.lake_table import LakeTable, TablePosition

LOGGER = logging.getLogger("headrace.lake")


class LogRecreatedError(HeadraceError):
    """A table is ahead of the log it is said to come from."""

    def __init__(self, table: LakeTable, partition: int, last_read: int, end: int) -> None:
        super().__init__(
            f"The table at {str(table.folder)!r} holds {table.mapping.offset_topic}-{partition}@{last_read}, but "
            f"that log ends "
            f"at {end}: it is not the log that landed here. Move that folder away, or give another --lake DIR."
        )


@dataclass(frozen=True)
class OffsetSpan:
    """The offsets of one partition that a step reads: from start up to, not with, stop."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


def pending_spans(
    table: LakeTable, offset_client: OffsetClient
) -> tuple[dict[int, TablePosition], dict[int, OffsetSpan]]:
    """How far each partition has landed, and what of those with news has not."""
    mapping = table.mapping
    begins = {
        partition.number: offset for partition, offset in offset_client.topic_start_offsets([mapping.topic]).items()
    }
    ends = {at.number: offset for at, offset in offset_client.topic_end_offsets([mapping.topic]).items()}
    positions = table.positions(sorted(ends))
    spans = {
        partition_number: OffsetSpan(
            _start_offset(table, partition_number, position, begins[partition_number], ends[partition_number]),
            ends[partition_number],
        )
        for partition_number, position in positions.items()
    }
    return positions, {number: span for number, span in spans.items() if len(span)}


def _start_offset(table: LakeTable, partition: int, position: TablePosition, begin: int, end: int) -> int:
    start = position.last_read + 1
    if start > end:
        if not table.mapping.may_replay:
            raise LogRecreatedError(table, partition, position.last_read, end)
        return begin  # made anew by the gate from the raw log: what has landed is known by its raw offset
    if begin > start > 0:
        LOGGER.warning("%s-%s: %s records were gone before they landed", table.mapping.topic, partition, begin - start)
    return max(start, begin)


def limit_spans(spans: Mapping[int, OffsetSpan], max_records: int) -> dict[int, OffsetSpan]:
    """The spans cut so that together they are about so long at most, partitions moving evenly.

    >>> limit_spans({0: OffsetSpan(0, 1000), 1: OffsetSpan(5, 10)}, 200)
    {0: OffsetSpan(start=0, stop=100), 1: OffsetSpan(start=5, stop=10)}
    """
    records_per_partition = max(1, max_records // len(spans)) if spans else 0
    return {
        partition: OffsetSpan(span.start, min(span.stop, span.start + records_per_partition))
        for partition, span in spans.items()
    }
