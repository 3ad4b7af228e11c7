"""How far a bridge has come, read from the log it writes: nothing else has to be kept, or can disagree.

Each record says its number in the other log, and up to which number all was in ours when it was sent. A batch is sent
once the one before it is there, so what is after that number is of the last batch.

    partition 0   … 94 96 97 │ 100, sent after 97
    partition 1   … 93 95    │  99, sent after 97       98 was lost with whoever sent it:
                             └ through = 97, beyond = {99, 100}
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headrace.log.between import records_between
from headrace.log.offsets import Offsets
from headrace.log.records import Partition, Record

HISTORY, NUMBER, AFTER = "headrace.source", "headrace.number", "headrace.after"
BATCH = 500


@dataclass(frozen=True)
class Position:
    """What there was up to `through` is all in the log; of what comes after it, `beyond` is."""

    through: int = 0
    beyond: frozenset[int] = frozenset()


class Place(NamedTuple):
    """A message's number, and up to which number all was there before it."""

    number: int
    after: int


def headers_of(history: str, place: Place) -> list[tuple[str, bytes]]:
    """What a record of our log says of where it comes from."""
    return [(HISTORY, history.encode()), (NUMBER, b"%d" % place.number), (AFTER, b"%d" % place.after)]


def place_of(record: Record, history: str) -> Place | None:
    """Where a record of our log comes from; None where it is not of this history."""
    if record.header(HISTORY) != history.encode():
        return None
    return Place(int(record.header(NUMBER) or b"0"), int(record.header(AFTER) or b"0"))


def position_in(broker: str, topic: str, history: str) -> Position:
    """How much of a history a topic has: each partition is read back until what is there for certain."""
    offsets = Offsets(broker)
    begins, ends = offsets.begin([topic]), offsets.end([topic])
    found: dict[Partition, set[Place]] = {partition: set() for partition in ends}
    left, read = set(ends), dict(ends)
    while left:
        spans = {partition: max(begins[partition], read[partition] - BATCH - 1) for partition in left}
        for record in records_between(broker, spans, {partition: read[partition] for partition in left}):
            if (place := place_of(record, history)) is not None:
                found[Partition(record.topic, record.partition)].add(place)
        read.update(spans)
        through = _through(found)
        left = {one for one in left if read[one] > begins[one] and not _reaches(found[one], through)}
    through = _through(found)
    return Position(through, frozenset(place.number for place in _every(found) if place.number > through))


def _through(found: Mapping[Partition, set[Place]]) -> int:
    return max((place.after for place in _every(found)), default=0)


def _reaches(places: Iterable[Place], through: int) -> bool:
    return any(place.number <= through for place in places)


def _every(found: Mapping[Partition, set[Place]]) -> Iterable[Place]:
    return (place for places in found.values() for place in places)
