"""What a sink does with records: rows in batches, delivered as declared; a bad row is found, parked, and passed over.

waiting rows ──▶ batch ──▶ written
                   ├ the target is away ──▶ waits, longer each time; nothing is read meanwhile, nothing is lost
                   └ rejected, three times ──▶ halves ──▶ halves ──▶ the bad row ──▶ SINK.parked
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from headrace.declare.sink import Sink
from headrace.errors import HeadraceError
from headrace.log.follow import Interrupted
from headrace.log.ledger import code_of
from headrace.log.placed import Place, Places
from headrace.log.records import Partition, Record
from headrace.sink.park import NotParked, Parking
from headrace.sink.rows import Row
from headrace.sink.views import reader_of
from headrace.sink.writer import Away, Move, Moved, Rejected, Writer
from headrace.watch.poster import Patience

LOGGER = logging.getLogger("headrace.sink")
PATIENCE = Patience(attempts=3, pause_seconds=0.2, longest_pause_seconds=30.0)
MOST_DOUBLINGS = 20


class Group(Protocol):
    """The consumer group, which keeps places where the target does not."""

    def commit(self, places: Mapping[Partition, Place], *, is_waited_for: bool = True) -> None:
        """Keep places."""

    def go_to(self, places: Mapping[Partition, Place]) -> None:
        """Read on from other places."""

    @property
    def stopping(self) -> threading.Event:
        """Set once it is over."""


@dataclass(frozen=True)
class Batch:
    """Rows in hand, and the places they move; `is_kept` where those have been moved before the rows were written."""

    rows: tuple[Row, ...]
    before: Places
    after: Places
    is_part: bool = False
    is_kept: bool = False

    @property
    def moves(self) -> dict[Partition, Move]:
        return {at: Move(self.before[at], after) for at, after in self.after.items()}

    def halves(self) -> list["Batch"]:
        """Two that together are this one."""
        half = len(self.rows) // 2
        middle = {row.at: row.after for row in self.rows[:half]}
        first = Batch(self.rows[:half], {at: self.before[at] for at in middle}, middle, True, self.is_kept)
        return [first, Batch(self.rows[half:], self.before | middle, self.after, True, self.is_kept)]

    def without(self, gone: Collection[Partition]) -> "Batch":
        """What of it is not of these partitions."""
        rows = tuple(row for row in self.rows if row.at not in gone)
        return replace(self, rows=rows, before=_without(self.before, gone), after=_without(self.after, gone))


class Work:
    """Brings the records of a sink to its target; everything happens in the follower's thread."""

    def __init__(self, sink: Sink, writer: Writer, parking: Parking) -> None:
        self.fates: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.retries = 0
        self.trouble = ""
        self.group: Group
        self._sink, self._writer, self._parking = sink, writer, parking
        self._reader = reader_of(sink)
        self._reached: Places = {}
        self._kept: Places = {}
        self._waiting: list[Row] = []
        self._hand: list[Batch] = []
        self._attempt, self._refusals, self._due, self._since = 0, 0, 0.0, 0.0

    def begin(self, committed: Mapping[Partition, Place]) -> Places:
        places = self._where(committed)
        self._reached |= places
        self._kept |= places
        return self._reader.begins(places)

    def take(self, records: Sequence[Record]) -> None:
        self._reader.learn(records)
        if not self._waiting:
            self._since = time.monotonic()
        for record in records:
            at = Partition(record.topic, record.partition)
            if at not in self._reached or record.offset < self._reached[at].next_offset:
                continue
            row, self._reached[at] = self._reader.row(record, self._reached[at])
            if row is None:
                self.fates["skipped"] += 1
            else:
                self._waiting.append(row)

    def go_on(self) -> bool:
        if time.monotonic() < self._due:
            return False
        while (batch := self._next()) is not None:
            if not self._went(batch):
                return False
        return True

    def give_up(self, partitions: Sequence[Partition]) -> None:
        gone = frozenset(partitions)
        self._waiting = [row for row in self._waiting if row.at not in gone]
        self._hand = [batch.without(gone) for batch in self._hand]
        self._reached, self._kept = _without(self._reached, gone), _without(self._kept, gone)

    def _where(self, committed: Mapping[Partition, Place]) -> Places:
        """Where the target, or else the group, says to go on; a target that is away is waited for."""
        while self._writer.keeps_places and self._sink.delivery == "exactly_once":
            try:
                places = self._writer.places(committed)
            except Away as problem:
                self._back_off(problem)
                if self.group.stopping.wait(max(0.0, self._due - time.monotonic())):
                    raise Interrupted from problem
            else:
                self._well()
                return places
        return dict(committed)

    def _next(self) -> Batch | None:
        """The batch in hand, or a new one once there are rows enough, or they have waited."""
        if self._hand:
            return self._hand[-1]
        most, is_due = self._writer.most_rows, time.monotonic() >= self._since + self._writer.linger_s
        if self._reached == self._kept or (len(self._waiting) < most and not is_due):
            return None
        rows, self._waiting = self._waiting[:most], self._waiting[most:]
        reached = {row.at: row.after for row in rows} if self._waiting else self._reached
        after = {at: place for at, place in reached.items() if place != self._kept[at]}
        self._hand.append(Batch(tuple(rows), {at: self._kept[at] for at in after}, after))
        return self._hand[-1]

    def _went(self, batch: Batch) -> bool:
        """Whether something was done with the batch in hand: written, split, parked, or left to others."""
        try:
            return self._tried(batch)
        except Moved as problem:
            LOGGER.warning("%s", problem)
            self._begin_again(self._where(self._kept))
        except HeadraceError as problem:
            if not self._hand[-1].is_kept or isinstance(problem, NotParked):
                return self._back_off(problem)
            LOGGER.error("%d rows are lost, as delivery='at_most_once' has it: %s", len(batch.rows), problem)
            self._done("lost")
        return True

    def _tried(self, batch: Batch) -> bool:
        try:
            self._deliver(batch)
        except Rejected as problem:
            return self._refused(problem)
        self._done("written")
        return True

    def _deliver(self, batch: Batch) -> None:
        problem = next((row.problem for row in batch.rows if row.problem), None)
        if problem is not None:
            raise Rejected(problem)
        if self._sink.delivery == "at_most_once":
            self._keep_first(batch)
            self._writer.write(batch.rows)
        elif self._sink.delivery == "exactly_once" and self._writer.keeps_places:
            self._writer.write(batch.rows, batch.moves)
            self.group.commit(batch.after, is_waited_for=False)  # for those who look at groups
        else:
            self._writer.write(batch.rows)
            self.group.commit(batch.after)

    def _keep_first(self, batch: Batch) -> None:
        """Keep the places before the rows are written, once somebody is there to write them to."""
        if not batch.is_kept:
            self._writer.open()
            self.group.commit(batch.after)
            self._hand[-1] = replace(self._hand[-1], is_kept=True)

    def _refused(self, problem: Rejected) -> bool:
        """Try again a few times, then look for the bad row by halves; the bad row itself is parked."""
        batch = self._hand[-1]
        self._refusals += 1
        is_known = batch.is_part or any(row.problem for row in batch.rows)
        if not is_known and self._refusals < PATIENCE.attempts:
            return self._back_off(problem)
        if len(batch.rows) > 1:
            self._hand[-1:] = reversed(batch.halves())
            return True
        self._park(batch, problem)
        return True

    def _park(self, batch: Batch, problem: Rejected) -> None:
        for row in batch.rows:
            self._parking.park(row, str(problem))
            self.reasons[code_of(str(problem))] += 1
            LOGGER.warning("%s: %s is parked: %s", self._sink.name, row.place, problem)
        self._deliver(replace(batch, rows=()))  # moves the places
        self._done("parked")

    def _done(self, fate: str) -> None:
        batch = self._hand.pop()
        self.fates[fate] += len(batch.rows)
        self._kept |= batch.after
        self._well()

    def _well(self) -> None:
        self._attempt, self._refusals, self._due, self.trouble = 0, 0, 0.0, ""

    def _back_off(self, problem: Exception) -> bool:
        """Wait longer each time, whatever it is."""
        if str(problem) != self.trouble:
            LOGGER.warning("%s", problem)
        self.trouble = str(problem)
        self._due = time.monotonic() + PATIENCE.pause(min(self._attempt, MOST_DOUBLINGS))
        self._attempt += 1
        self.retries += 1
        return False

    def _begin_again(self, places: Places) -> None:
        """Forget what is in hand, and read on from where everything before is done with."""
        self._waiting, self._hand = [], []
        moved = {at: place for at, place in places.items() if place != self._reached.get(at)}
        self._reached |= places
        self._kept |= places
        self.group.go_to(moved)


def _without(places: Places, gone: Collection[Partition]) -> Places:
    return {at: place for at, place in places.items() if at not in gone}
