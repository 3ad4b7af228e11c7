"""The batch log of a join through the lake: the end of each batch is recorded before it starts.

offsets/41   predictions up to 0@812, 1@790; labels up to 0@77, 1@80; the clock 10:00
offsets/42   what is between is batch 42: after a crash it is the same again
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.kafka.record import Partition
from headrace.lake.ingestion.pending_offsets import OffsetSpan, limit_spans
from headrace.spark.checkpoints.checkpoint_files import write_atomically
from headrace.spark.stateful.query_clock import EndOffsets

BATCHES_KEPT = 20


@dataclass(frozen=True)
class TableOffsets:
    """The end of a table: the last offset in each partition, and the topic's offset up to which it was read."""

    places: Mapping[int, int] = field(default_factory=dict)
    read: Mapping[int, int] = field(default_factory=dict)

    def advance_towards(self, end: "TableOffsets", max_records: int) -> "TableOffsets":
        """At most this many offsets closer to an end; the topic's offset advances once all of it is reached."""
        spans = {
            partition: OffsetSpan(self.places.get(partition, -1) + 1, last_offset + 1)
            for partition, last_offset in end.places.items()
        }
        taken_spans = limit_spans(
            {number: span for number, span in spans.items() if span.stop > span.start}, max_records
        )
        places = {**self.places, **{number: span.stop - 1 for number, span in taken_spans.items()}}
        advanced = TableOffsets(places, self.read)
        return TableOffsets(places, end.read) if advanced.has_reached(end) else advanced

    def has_reached(self, end: "TableOffsets") -> bool:
        """Whether it has reached another end."""
        return all(self.places.get(partition, -1) >= last_offset for partition, last_offset in end.places.items())


@dataclass(frozen=True)
class JoinBatch:
    """The end of a batch in both tables, and its clock; the newest arrivals, where these are the clock."""

    number: int = -1
    predictions: TableOffsets = TableOffsets()
    labels: TableOffsets = TableOffsets()
    clock_us: int = 0
    newest_us: tuple[int, int] = (0, 0)

    def with_arrivals(self, newest_us: tuple[int, int]) -> "JoinBatch":
        """The batch with newer arrivals of predictions and labels."""
        predictions_us, labels_us = map(max, self.newest_us, newest_us)
        return replace(self, newest_us=(predictions_us, labels_us))

    def end_offsets(self, predictions_topic: str, labels_topic: str) -> EndOffsets:
        """The read offsets of both topics."""
        topic_offsets = ((predictions_topic, self.predictions), (labels_topic, self.labels))
        return {
            Partition(topic, partition): end
            for topic, table_offsets in topic_offsets
            for partition, end in table_offsets.read.items()
        }


class JoinBatchLog:
    """The last batches of a join, in the folder of its checkpoint."""

    def __init__(self, checkpoint: Path) -> None:
        self._folder = checkpoint / "offsets"

    def last_two_batches(self) -> tuple[JoinBatch, JoinBatch]:
        """The last started batch and the one before it."""
        batches = [_read_batch(self._batch_file(batch_number)) for batch_number in self._batch_numbers()[-2:]]
        return ([JoinBatch(), JoinBatch(), *batches])[-2], ([JoinBatch(), *batches])[-1]

    def record_batch(self, batch: JoinBatch) -> None:
        """Record the end of a batch, and delete old records."""
        write_atomically(self._batch_file(batch.number), json.dumps(asdict(batch)))
        for batch_number in self._batch_numbers()[:-BATCHES_KEPT]:
            self._batch_file(batch_number).unlink()

    def _batch_numbers(self) -> list[int]:
        return sorted(int(file.name) for file in self._folder.glob("*") if file.name.isdigit())

    def _batch_file(self, batch_number: int) -> Path:
        return self._folder / str(batch_number)


def _read_batch(file: Path) -> JoinBatch:
    decoded: dict[str, Any] = json.loads(file.read_text())
    table_offsets = {
        name: TableOffsets(*map(_by_partition, decoded.pop(name).values())) for name in ("predictions", "labels")
    }
    return JoinBatch(**{**decoded, **table_offsets, "newest_us": tuple(decoded["newest_us"])})


def _by_partition(offsets: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): offset for partition, offset in offsets.items()}
