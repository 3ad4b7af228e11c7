"""What every target has to be able to do, and how it says that it cannot."""

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
    """The target does not answer, or not as it should; whether it has taken the rows is not known."""


class RowsRejected(HeadraceError):
    """The target has taken none of these rows, and asking again would change nothing."""


class SinkFencedError(HeadraceError):
    """Somebody else has moved the places since: these rows were not written, for they may be there already."""


class OffsetMove(NamedTuple):
    """From where to where a partition moves when rows are written."""

    before: ExternalOffset
    after: ExternalOffset


OffsetMoves = Mapping[Partition, OffsetMove]


@dataclass(frozen=True)
class SinkConfig:
    """The log that sinks read, and whom their webhooks may reach: addresses that are not public, and certificates."""

    broker: str
    allowed_networks: tuple[Network, ...] = ()
    ca_file: Path | None = None


class SinkWriter(ABC):
    """Writes rows to one target, all of a call or none of them wherever the target can."""

    max_rows: ClassVar[int] = 2000
    linger_s: ClassVar[float] = 0.0  # how long rows are gathered for before they are written
    stores_offsets: ClassVar[bool] = False  # with the rows, in one step

    def __init__(self, sink: Sink, config: SinkConfig) -> None:
        self.sink, self.config = sink, config

    @abstractmethod
    def open(self) -> None:
        """Reach the target and see that it fits; also after it was away."""

    @abstractmethod
    def write(self, rows: Sequence[SinkRow], moves: OffsetMoves | None = None) -> None:
        """Write rows and, of a target that keeps places, move those with them, if they are where they should be."""

    def read_offsets(self, partitions: Iterable[Partition]) -> ExternalOffsets:
        """Where the target says its rows end; of one that keeps places."""
        raise NotImplementedError

    def close(self) -> None:  # noqa: B027  # not all have any
        """Let go of connections."""

    def deduplicate_rows(self, rows: Sequence[SinkRow]) -> list[SinkRow]:
        """One row of each key: the first or the last, whichever wins."""
        if not self.sink.key:
            return list(rows)
        rows_by_precedence = rows if self.sink.conflict_policy == "last" else reversed(rows)
        return list({tuple(row.values[name] for name in self.sink.key): row for row in rows_by_precedence}.values())


def require_not_fenced(moves: OffsetMoves, stored_offsets: Mapping[Partition, ExternalOffset], sink: Sink) -> None:
    """Refuse to write what somebody else may have written: a copy that was thought dead, or one that took over."""
    for partition, move in moves.items():
        stored_offset = stored_offsets.get(partition, ExternalOffset())
        if stored_offset.next_offset != move.before.next_offset:
            raise SinkFencedError(
                f"{sink.name}: {partition} is at {stored_offset.next_offset} and not at {move.before.next_offset}: "
                "another copy of the sink has written, and this one goes on from there."
            )
