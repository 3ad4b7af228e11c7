"""The offsets of a topic that are still to ingest, from its table and its log."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.errors import HeadraceError
from headrace.kafka.offsets import OffsetClient
from headrace.lake.lake_table import LakeTable, TablePosition

LOGGER = logging.getLogger("headrace.lake")


class LogRecreatedError(HeadraceError):
    """A table is ahead of the log it was ingested from."""

    def __init__(self, table: LakeTable, partition: int, last_read: int, end: int) -> None:
        super().__init__(
            f"The table at {str(table.folder)!r} holds {table.mapping.offset_topic}-{partition}@{last_read}, but "
            f"that log ends "
            f"at {end}: it is not the log that was ingested here. Move that folder away, or give another --lake DIR."
        )


@dataclass(frozen=True)
class OffsetSpan:
    """The offsets of one partition that a step reads: from start up to stop (exclusive)."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


def pending_spans(
    table: LakeTable, offset_client: OffsetClient
) -> tuple[dict[int, TablePosition], dict[int, OffsetSpan]]:
    """The position of each partition in the table, and the spans that are still to ingest."""
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
        return begin  # rebuilt by the gate from the raw log: ingested records are recognized by raw offset
    if begin > start > 0:
        LOGGER.warning(
            "Lost records of %s-%s: retention removed %s before they were ingested",
            table.mapping.topic,
            partition,
            begin - start,
        )
    return max(start, begin)


def limit_spans(spans: Mapping[int, OffsetSpan], max_records: int) -> dict[int, OffsetSpan]:
    """Limit the total length of the spans, so that partitions advance evenly.

    >>> limit_spans({0: OffsetSpan(0, 1000), 1: OffsetSpan(5, 10)}, 200)
    {0: OffsetSpan(start=0, stop=100), 1: OffsetSpan(start=5, stop=10)}
    """
    records_per_partition = max(1, max_records // len(spans)) if spans else 0
    return {
        partition: OffsetSpan(span.start, min(span.stop, span.start + records_per_partition))
        for partition, span in spans.items()
    }
