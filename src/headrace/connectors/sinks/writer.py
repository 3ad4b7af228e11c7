"""The interface of sink writers, and their errors."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from headrace.connectors.sinks.sink_rows import SinkRow
from headrace.declare.sinks.sink import Sink
from headrace.errors import HeadraceError
from headrace.kafka.consumers.external_offset_consumer import ExternalOffset, ExternalOffsets
from headrace.kafka.record import Partition
from headrace.telemetry.webhooks.allowed_addresses import Network


class TargetUnavailable(HeadraceError):
    """The target does not answer, or not as expected; whether it has written the rows is unknown."""


class RowsRejected(HeadraceError):
    """The target has rejected these rows, and a retry would not help."""


class SinkFencedError(HeadraceError):
    """Another copy has moved the offsets: the rows are not written, since they may be there already."""


class OffsetMove(NamedTuple):
    """The offsets of a partition before and after a write."""

    before: ExternalOffset
    after: ExternalOffset


OffsetMoves = Mapping[Partition, OffsetMove]


@dataclass(frozen=True)
class SinkConfig:
    """The broker that sinks read, and the network access of webhooks: private addresses and certificates."""

    broker: str
    allowed_networks: tuple[Network, ...] = ()
    ca_file: Path | None = None


class SinkWriter(ABC):
    """Writes rows to one target; a call is atomic if the target supports it."""

    max_rows: ClassVar[int] = 2000
    linger_s: ClassVar[float] = 0.0  # how long rows are collected before a write
    stores_offsets: ClassVar[bool] = False  # atomically with the rows

    def __init__(self, sink: Sink, config: SinkConfig) -> None:
        self.sink, self.config = sink, config

    @abstractmethod
    def open(self) -> None:
        """Connect to the target and check its schema; also after it was unavailable."""

    @abstractmethod
    def write(self, rows: Sequence[SinkRow], moves: OffsetMoves | None = None) -> None:
        """Write rows; a target that stores offsets moves them atomically, or raises if they are not as expected."""

    def read_offsets(self, partitions: Iterable[Partition]) -> ExternalOffsets:
        """The offsets stored in the target; only for targets that store offsets."""
        raise NotImplementedError

    def close(self) -> None:  # noqa: B027  # not all writers have connections
        """Close connections."""

    def deduplicate_rows(self, rows: Sequence[SinkRow]) -> list[SinkRow]:
        """One row per key: the first or the last, according to the conflict policy."""
        if not self.sink.key:
            return list(rows)
        rows_by_precedence = rows if self.sink.conflict_policy == "last" else reversed(rows)
        return list({tuple(row.values[name] for name in self.sink.key): row for row in rows_by_precedence}.values())


def require_not_fenced(moves: OffsetMoves, stored_offsets: Mapping[Partition, ExternalOffset], sink: Sink) -> None:
    """Raise if another copy of the sink, a presumed dead one or its successor, has moved the stored offsets."""
    for partition, move in moves.items():
        stored_offset = stored_offsets.get(partition, ExternalOffset())
        if stored_offset.next_offset != move.before.next_offset:
            raise SinkFencedError(
                f"{sink.name}: {partition} is at {stored_offset.next_offset} and not at {move.before.next_offset}: "
                "another copy of the sink has written, and this one continues from there."
            )
