"""The rounds of a join through the lake: how far each goes is written down before it begins.

offsets/41   predictions up to 0@812, 1@790; labels up to 0@77, 1@80; the clock 10:00
offsets/42   what is between is round 42: after a crash it is found again, as it was
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.lake.spans import Span, cut
from headrace.log.records import Partition
from headrace.stream.checkpoints import write_whole
from headrace.stream.clock import Ends

ROUNDS_KEPT = 20


@dataclass(frozen=True)
class Reach:
    """How far a table goes: the last place in each partition, and the topic's offset up to which it was read."""

    places: Mapping[int, int] = field(default_factory=dict)
    read: Mapping[int, int] = field(default_factory=dict)

    def towards(self, end: "Reach", most: int) -> "Reach":
        """So many places nearer to an end; what was read is told where all of it is reached."""
        spans = {number: Span(self.places.get(number, -1) + 1, last + 1) for number, last in end.places.items()}
        taken = cut({number: span for number, span in spans.items() if span.stop > span.start}, most)
        places = {**self.places, **{number: span.stop - 1 for number, span in taken.items()}}
        nearer = Reach(places, self.read)
        return Reach(places, end.read) if nearer.reaches(end) else nearer

    def reaches(self, end: "Reach") -> bool:
        """Whether it goes as far as another."""
        return all(self.places.get(number, -1) >= last for number, last in end.places.items())


@dataclass(frozen=True)
class Round:
    """Up to where a round has taken both tables, and the clock; the newest arrivals in them, where these are it."""

    number: int = -1
    predictions: Reach = Reach()
    labels: Reach = Reach()
    clock_us: int = 0
    newest_us: tuple[int, int] = (0, 0)

    def heard(self, newest_us: tuple[int, int]) -> "Round":
        """The same with arrivals of predictions and labels that may be newer."""
        scored_us, told_us = map(max, self.newest_us, newest_us)
        return replace(self, newest_us=(scored_us, told_us))

    def joined(self, predictions: str, labels: str) -> Ends:
        """How far two topics have been read."""
        both = ((predictions, self.predictions), (labels, self.labels))
        return {Partition(topic, number): end for topic, reach in both for number, end in reach.read.items()}


class RoundLog:
    """The last rounds of a join, in the folder of its checkpoint."""

    def __init__(self, checkpoint: Path) -> None:
        self._folder = checkpoint / "offsets"

    def last_two(self) -> tuple[Round, Round]:
        """The last round that was begun, after the one before it."""
        rounds = [_read(self._file(number)) for number in self._numbers()[-2:]]
        return ([Round(), Round(), *rounds])[-2], ([Round(), *rounds])[-1]

    def begin(self, begun: Round) -> None:
        """Write down how far a round goes, and let go of those of long ago."""
        write_whole(self._file(begun.number), json.dumps(asdict(begun)))
        for number in self._numbers()[:-ROUNDS_KEPT]:
            self._file(number).unlink()

    def _numbers(self) -> list[int]:
        return sorted(int(file.name) for file in self._folder.glob("*") if file.name.isdigit())

    def _file(self, number: int) -> Path:
        return self._folder / str(number)


def _read(file: Path) -> Round:
    said: dict[str, Any] = json.loads(file.read_text())
    reaches = {name: Reach(*map(_by_number, said.pop(name).values())) for name in ("predictions", "labels")}
    return Round(**{**said, **reaches, "newest_us": tuple(said["newest_us"])})


def _by_number(said: Mapping[str, int]) -> dict[int, int]:
    return {int(number): offset for number, offset in said.items()}
