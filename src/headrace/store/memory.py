"""The online table in this process's memory, fed by the changelogs."""

import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from threading import Lock
from typing import TypeVar

from headrace.declare.catalogue import APPLY_SECONDS
from headrace.declare.stream import Stream
from headrace.declare.views import View
from headrace.log.records import Record
from headrace.store.changelog import Change, Changelog
from headrace.store.delays import Delays
from headrace.store.reads import Added, Read, Sought, Unchanged, ViewReader, require_kept, slack_of
from headrace.tiles.rows import TileRows
from headrace.tiles.tile import Entity

SAMPLE = 64
ENTITY_OVERHEAD = 400  # a slot in the dict, the key and its text, the list of hops, a place in the round
KNOWN_AT_MOST = 100_000

Answer = TypeVar("Answer")


class Kept:
    """What is kept of one entity: its tiles by part, stream and hop, those of history last, and their last answer.

    `changes` is odd while a tile is being changed, so an answer is given only of tiles that stood still.
    """

    __slots__ = ("changes", "known", "rows_by_hop")

    def __init__(self, lives: int) -> None:
        self.rows_by_hop: list[TileRows | None] = [None] * lives
        self.changes = 0
        self.known: tuple[int, Unchanged] | None = None


class MemoryStore:
    """The tables of an app's views: one thread applies, any thread reads."""

    # Hardly a lock is needed here. A dict's lookup, insertion and deletion are each one step under the interpreter's
    # lock; a hop's place in an entity's list changes once, from None to its rows, and the list itself to one with room
    # for more parts; rows lock themselves; an answer and the change it belongs to are one tuple. A reader that still
    # holds an entity just removed reads tiles no window holds any more. So what a reader has seen stays seen. Only
    # whoever has read tiles while they changed keeps the thread that applies from changing more, and reads again.

    def __init__(self, views: Sequence[View], known_at_most: int = KNOWN_AT_MOST) -> None:
        self.tables = {view.name: Table(view, known_at_most) for view in views}
        self.news = 0  # how often tiles have come
        self._came = threading.Condition()
        self._by_topic = {view.topic: self.tables[view.name] for view in views}

    def apply(self, records: Iterable[Record], *, measure: bool = False) -> None:
        """Take the tiles of changelog records, in any order and as often as they come; measure how old they are."""
        for record in records:
            self._by_topic[record.topic].apply(record, measure)
        with self._came:
            self.news += 1
            self._came.notify_all()

    def wait_for_news(self, seen: int | None, seconds: float) -> None:
        """Wait until tiles have come since there was as much news as was seen; so long at most."""
        with self._came:
            self._came.wait_for(lambda: self.news != seen, seconds)

    def read(self, view_name: str, entities: Sequence[Entity], at_us: int) -> list[Read]:
        """One answer an entity, in their order."""
        table = self.tables[view_name]
        return [table.read(entity, at_us) for entity in entities]

    def read_with(self, view_name: str, added: Sequence[Added], at_us: int) -> list[Read]:
        """One answer an event, in their order, each as if it alone were stored already."""
        table = self.tables[view_name]
        return [table.read_with(one, at_us) for one in added]

    def heard(self, view_name: str, sought: Sequence[Sought]) -> list[bool]:
        """Of each event, whether its tiles have taken in what arrived when it did, or later."""
        table = self.tables[view_name]
        return [table.heard(one) for one in sought]


class Table:
    """The tiles of one view.

    Time is the greatest event time that has arrived: tiles no window at that time holds are let go of, and entities
    that have none left. Each new tile pays for a look at one entity, round and round, so that nothing ever stops to
    clean up.
    """

    def __init__(self, view: View, known_at_most: int) -> None:
        self.now_us = 0
        self.tiles = 0
        self.delays = Delays(APPLY_SECONDS)
        self._changelog = Changelog(view)
        self._events = [0] * len(self._changelog.layouts)
        self._arrivals_us = [0] * len(self._changelog.layouts)
        self._reader = ViewReader(view)
        self._hops, self._lives = self._reader.hops, self._reader.lives
        self._slack_us = slack_of(view)
        self._entities: dict[Entity, Kept] = {}
        self._answered: OrderedDict[Entity, Kept] = OrderedDict()
        self._known_at_most = known_at_most
        self._round: deque[Entity] = deque()
        self._changing = Lock()

    def __len__(self) -> int:
        return len(self._entities)

    def entities(self) -> list[Entity]:
        """Everybody who has tiles now."""
        return list(self._entities)  # one step of C code: nobody comes or goes meanwhile

    @property
    def refused(self) -> int:
        """How many records of the changelog were no tiles."""
        return self._changelog.refused

    @property
    def events(self) -> int:
        """How many events the tiles of the store were folded from, those let go of included; every hop sees each."""
        return sum(self._events[self._longest :: self._hops])

    def events_of(self, stream: Stream) -> int:
        """How many of them are of one stream."""
        place = self._longest + self._hops * self._changelog.view.streams_by_name.index(stream)
        return sum(self._events[place :: self._lives])

    def arrived_us(self, stream: Stream) -> int:
        """When the newest event of a stream arrived that is in a tile here, those of history apart; 0 without any."""
        place = self._hops * self._changelog.view.streams_by_name.index(stream)
        return max(self._arrivals_us[place : place + self._hops])

    @property
    def _longest(self) -> int:
        """The hop that is kept longest: a tile that comes again after it was let go of counts again."""
        return max(range(self._hops), key=lambda hop: self._changelog.layouts[hop].keep_us)

    @property
    def bytes(self) -> int:
        """An estimate, from the entities next to be looked at."""
        # Built in one step of C code: the deque cannot change under it.
        sample = list(islice(self._round, SAMPLE))
        sizes = [_bytes_of(kept.rows_by_hop) for kept in map(self._entities.get, sample) if kept is not None]
        return len(self) * sum(sizes) // len(sizes) if sizes else 0

    def read(self, entity: Entity, at_us: int) -> Read:
        require_kept(at_us, self.now_us, self._slack_us)
        kept = self._entities.get(entity)
        if kept is None:
            return self._reader.read(None, at_us)
        known = kept.known
        if known is not None and known[0] == kept.changes and known[1].holds(at_us):
            return known[1].read
        return self._answer(entity, kept, at_us)

    def read_with(self, added: Added, at_us: int) -> Read:
        require_kept(at_us, self.now_us, self._slack_us)
        kept = self._entities.get(added.entity) or Kept(self._lives)
        return self._steady(kept, lambda: self._reader.read_with(kept.rows_by_hop, added, at_us))[1]

    def heard(self, sought: Sought) -> bool:
        kept = self._entities.get(sought.entity)
        return self._reader.heard(kept.rows_by_hop if kept else [None] * self._lives, sought)

    def _answer(self, entity: Entity, kept: Kept, at_us: int) -> Read:
        changes, answer = self._steady(kept, lambda: self._reader.read_for_a_while(kept.rows_by_hop, at_us))
        kept.known = changes, answer
        self._answered[entity] = kept
        if len(self._answered) > self._known_at_most:
            self._answered.popitem(last=False)[1].known = None
        return answer.read

    def _steady(self, kept: Kept, ask: Callable[[], Answer]) -> tuple[int, Answer]:
        """The number of an entity's changes, and the answer of its tiles after so many.

        ├─ ask ─┤ no change meanwhile        ├─ as─█k ─┤├─ ask, no change may come ─┤
        """
        changes = kept.changes
        answer = ask()
        if changes % 2 == 0 and changes == kept.changes:
            return changes, answer
        with self._changing:
            return kept.changes, ask()

    def apply(self, record: Record, measure: bool = False) -> Change | None:
        """Take one tile, unless one with as many events is here; gives what the record says, None of no tile."""
        change = self._changelog.change(record)
        if change is None:
            return None
        kept = self._kept(change.entity)
        rows = self._rows(kept, change.place)
        before = len(rows)
        with self._changing:
            kept.changes += 1
            grown = rows.apply(change.tile)
            kept.changes += 1
        self._events[change.place] += grown
        if measure and grown and not change.layout.part.is_base:  # history says nothing about how soon news is known
            self.delays.add(time.time() - change.arrival_us / 1e6)
        self._arrivals_us[change.place] = max(self._arrivals_us[change.place], change.arrival_us)
        self.now_us = max(self.now_us, change.time_us)
        if len(rows) > before:
            self.tiles += 1
            self._look_at_next()
        return change

    def _kept(self, entity: Entity) -> Kept:
        kept = self._entities.get(entity)
        if kept is None:
            kept = self._entities[entity] = Kept(self._lives)
            self._round.append(entity)
        return kept

    def _rows(self, kept: Kept, place: int) -> TileRows:
        if place >= len(kept.rows_by_hop):
            parts = place // self._lives + 1
            kept.rows_by_hop = [*kept.rows_by_hop, *[None] * (parts * self._lives - len(kept.rows_by_hop))]
        rows = kept.rows_by_hop[place]
        if rows is None:
            rows = kept.rows_by_hop[place] = TileRows(self._changelog.layouts[place])
        return rows

    def _look_at_next(self) -> None:
        entity = self._round.popleft()
        kept = self._entities[entity]
        with self._changing:
            kept.changes += 1
            self.tiles -= sum(self._expire(rows) for rows in kept.rows_by_hop if rows is not None)
            kept.changes += 1
        if any(kept.rows_by_hop):
            self._round.append(entity)
        else:
            del self._entities[entity]

    def _expire(self, rows: TileRows) -> int:
        # A window at `now` holds the tiles that start after now − keep.
        return rows.expire(self.now_us - rows.layout.keep_us - self._slack_us + 1)


def _bytes_of(rows_by_hop: Sequence[TileRows | None]) -> int:
    rows = [rows for rows in rows_by_hop if rows is not None]
    objects = [value for held in rows for stored in held.objects or () for value in stored]
    return ENTITY_OVERHEAD + sum(sys.getsizeof(held.rows) for held in rows) + sum(map(sys.getsizeof, objects))
