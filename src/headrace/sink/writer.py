"""What every target has to be able to do, and how it says that it cannot."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from headrace.declare.sink import Sink
from headrace.errors import HeadraceError
from headrace.log.placed import Place, Places
from headrace.log.records import Partition
from headrace.sink.rows import Row
from headrace.watch.addresses import Network


class Away(HeadraceError):
    """The target does not answer, or not as it should; whether it has taken the rows is not known."""


class Rejected(HeadraceError):
    """The target has taken none of these rows, and asking again would change nothing."""


class Moved(HeadraceError):
    """Somebody else has moved the places since: these rows were not written, for they may be there already."""


class Move(NamedTuple):
    """From where to where a partition moves when rows are written."""

    before: Place
    after: Place


Moves = Mapping[Partition, Move]


@dataclass(frozen=True)
class SinkPlace:
    """The log that sinks read, and whom their webhooks may reach: addresses that are not public, and certificates."""

    broker: str
    allowed: tuple[Network, ...] = ()
    ca: Path | None = None


class Writer(ABC):
    """Writes rows to one target, all of a call or none of them wherever the target can."""

    most_rows: ClassVar[int] = 2000
    linger_s: ClassVar[float] = 0.0  # how long rows are gathered for before they are written
    keeps_places: ClassVar[bool] = False  # with the rows, in one step

    def __init__(self, sink: Sink, place: SinkPlace) -> None:
        self.sink, self.place = sink, place

    @abstractmethod
    def open(self) -> None:
        """Reach the target and see that it fits; also after it was away."""

    @abstractmethod
    def write(self, rows: Sequence[Row], moves: Moves | None = None) -> None:
        """Write rows and, of a target that keeps places, move those with them, if they are where they should be."""

    def places(self, partitions: Iterable[Partition]) -> Places:
        """Where the target says its rows end; of one that keeps places."""
        raise NotImplementedError

    def close(self) -> None:  # noqa: B027  # not all have any
        """Let go of connections."""

    def distinct(self, rows: Sequence[Row]) -> list[Row]:
        """One row of each key: the first or the last, whichever wins."""
        if not self.sink.key:
            return list(rows)
        ordered = rows if self.sink.wins == "last" else reversed(rows)
        return list({tuple(row.values[name] for name in self.sink.key): row for row in ordered}.values())


def require_unmoved(moves: Moves, found: Mapping[Partition, Place], sink: Sink) -> None:
    """Refuse to write what somebody else may have written: a copy that was thought dead, or one that took over."""
    for at, move in moves.items():
        there = found.get(at, Place())
        if there.next_offset != move.before.next_offset:
            raise Moved(
                f"{sink.name}: {at} is at {there.next_offset} and not at {move.before.next_offset}: "
                "another copy of the sink has written, and this one goes on from there."
            )
