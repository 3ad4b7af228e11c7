"""Each event of a key once: its duplicates are dropped for as long as any can still come.

    event time         arrival                            time + until, and a margin
    ├──────────────────┼──────────────────────────────────┼──▶ clock
                       └ its id is kept, with its source  └ what comes now is late for any gate: the id is let go

The gate lets an event pass while its lateness is at most `until`, so a duplicate of it comes before then or is late.
Ids are let go together, some at a time: waking a key costs more than keeping a few ids a little longer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import orjson

from headrace.declare.durations import UNITS_US
from headrace.declare.stream import Stream
from headrace.operators.operator import Arrived, Key, Made, Operator
from headrace.tiles.tile import Scalar

Kept = TypeVar("Kept")
Id = tuple[int, Scalar]
MARGIN_US = UNITS_US["s"]
SHORTEST_GRAIN_US = UNITS_US["s"]
GRAINS = 8


def remember_us(inputs: Sequence[Stream]) -> tuple[int, ...]:
    """How long after its arrival an id of each input may come again."""
    return tuple(stream.late.until_us + stream.ahead_us + MARGIN_US for stream in inputs)


@dataclass
class Known(Generic[Kept]):
    """The ids a key has had, by the time they are let go, and what the operator keeps."""

    inner: Kept
    until: dict[int, list[Id]] = field(default_factory=dict)
    ids: set[Id] = field(default_factory=set)


class Once(Operator[Known[Kept]]):
    """An operator that is given each event once, by its id and source."""

    def __init__(self, operator: Operator[Kept], remember_us: Sequence[int]) -> None:
        self.operator, self._remember_us = operator, tuple(remember_us)
        self._grain_us = max(SHORTEST_GRAIN_US, max(self._remember_us) // GRAINS)

    def begin(self) -> Known[Kept]:
        return Known(self.operator.begin())

    def take(self, key: Key, kept: Known[Kept], event: Arrived) -> Iterator[Made]:
        one = event.source, event.id
        if one not in kept.ids:
            made = list(self.operator.take(key, kept.inner, event))
            self._note(kept, one, event)
            yield from made

    def due_us(self, kept: Known[Kept]) -> int | None:
        inner_us = self.operator.due_us(kept.inner)
        dues = [*kept.until, *([] if inner_us is None else [inner_us])]
        return min(dues, default=None)

    def wake(self, key: Key, kept: Known[Kept], at_us: int) -> Iterator[Made]:
        kept.ids.difference_update(kept.until.pop(at_us, ()))
        if self.operator.due_us(kept.inner) == at_us:
            yield from self.operator.wake(key, kept.inner, at_us)

    def packed(self, kept: Known[Kept]) -> bytes:
        until = orjson.dumps({str(until_us): ids for until_us, ids in kept.until.items()})
        return b'{"ids":%b,"kept":%b}' % (until, self.operator.packed(kept.inner))

    def unpacked(self, packed: bytes) -> Known[Kept]:
        read: Mapping[str, Any] = orjson.loads(packed)
        until = {int(until_us): [(source, one) for source, one in ids] for until_us, ids in read["ids"].items()}
        inner = self.operator.unpacked(orjson.dumps(read["kept"]))
        return Known(inner, until, {one for ids in until.values() for one in ids})

    def _note(self, kept: Known[Kept], one: Id, event: Arrived) -> None:
        last_us = max(event.time_us, event.arrival_us) + self._remember_us[event.source]
        until_us = -(-last_us // self._grain_us) * self._grain_us
        kept.until.setdefault(until_us, []).append(one)
        kept.ids.add(one)
