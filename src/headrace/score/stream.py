"""Scoring a stream: each clean event once, on its features after the event itself has been applied to them.

payments.clean ──▶ seen before? ──▶ waits for its tiles, within the budget ──▶ vectors ──▶ scores ──▶ fraud.predictions
                                         │
CardSpend.tiles ──▶ store ───────────────┘

arrival ├──── applied? ────┤ due        budget ┤      what the store has not heard of when it is due goes out as stale
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.declare.model import Model
from headrace.log.ledger import ARRIVAL, OFFSET
from headrace.log.produce import Producer
from headrace.log.records import Partition, Record
from headrace.log.traceparent import TRACEPARENT, passed_on, traceparent_of
from headrace.score.decide import Arrived, predictions
from headrace.score.lineup import Lineup
from headrace.score.prediction import LATE, STALE, encode
from headrace.score.scored import ScoredIds
from headrace.score.tally import ScoreTally
from headrace.score.vectors import Vector, Vectors, picked
from headrace.store.online import Online
from headrace.store.reads import Sought, StoreUnavailable, TooLongAgo
from headrace.tiles.events import Event, Unreadable, read_event
from headrace.tiles.frequent import key_text

LOGGER = logging.getLogger("headrace.score")
MARGIN_US = 10_000  # of the budget, for reading, scoring and sending; a fifth of it where that is less


@dataclass(slots=True, eq=False)
class Case:
    """An event in hand: until when it may wait, and by view what the store has not heard of yet."""

    record: Record
    event: Event
    event_id: str
    arrival_us: int
    due_us: int
    unheard: dict[str, Sought]


@dataclass(frozen=True)
class Bench:
    """What a scorer works with: the store, who scores, where predictions go, and which events have some."""

    online: Online
    lineup: Lineup
    producer: Producer
    scored: ScoredIds
    loop: asyncio.AbstractEventLoop


class StreamScorer:
    """Scores the records a follower hands it; everything happens in the follower's thread."""

    def __init__(self, model: Model, bench: Bench) -> None:
        self.tally = ScoreTally()
        self._model, self._bench = model, bench
        self._vectors = Vectors(model, bench.online)
        self._fed = [(view.name, picked(view.by)) for view in model.views if model.stream in view.streams]
        self._patience_us = model.budget_us - min(MARGIN_US, model.budget_us // 5)
        self._waiting: list[Case] = []
        self._passed_over: list[Record] = []
        self._trouble = ""
        self._news: int | None = None
        self._due_us = 0

    def begin(self, _partitions: Sequence[Partition]) -> None:
        """Whoever had these partitions may have scored some of what comes."""
        self._bench.scored.learn()

    def take(self, records: Sequence[Record]) -> None:
        for record in records:
            case = self._case(record)
            if case is not None and self._bench.scored.add(case.event_id):
                self._waiting.append(case)
                self._news = None
            else:
                self._passed_over.append(record)

    def wait(self, seconds: float) -> None:
        self._bench.online.wait_for_news(self._news, seconds)

    def go_on(self) -> list[Record]:
        """Decide what is ready."""
        done, self._passed_over = self._passed_over, []
        if self._waiting and self._has_changed():
            done += self._bench.loop.run_until_complete(self._decided())
            self._due_us = min((case.due_us for case in self._waiting), default=0)
        return done

    def _has_changed(self) -> bool:
        """Whether an event, a tile or the time has come since the cases were last looked at."""
        news = self._bench.online.news
        has_changed = news != self._news or time.time_ns() // 1000 >= self._due_us
        self._news = news
        return has_changed

    def settle(self) -> None:
        self._bench.producer.flush()

    def give_up(self, partitions: Sequence[Partition]) -> None:
        given = {partition.number for partition in partitions}
        self._bench.scored.forget(case.event_id for case in self._waiting if case.record.partition in given)
        self._waiting = [case for case in self._waiting if case.record.partition not in given]

    def _case(self, record: Record) -> Case | None:
        """The case of a record; None for one that was written under another schema."""
        stream = self._model.stream
        try:
            event = read_event(stream.schema, record.value)
        except Unreadable as reason:
            LOGGER.warning("%s cannot be scored by %s: %s", record.place, self._model.name, reason)
            return None
        arrival_us = int(record.header(ARRIVAL) or record.appended_us)
        # Where events say themselves when they arrived, that may be long ago; the log took them when it did.
        logged_us = arrival_us if stream.arrival is None else record.appended_us
        entities = {name: entity(event) for name, entity in self._fed}
        event_id = key_text(event[stream.id])
        unheard = {
            name: Sought(entity, stream.name, event[stream.time], arrival_us, event_id)
            for name, entity in entities.items()
            if None not in entity
        }
        return Case(record, event, event_id, arrival_us, logged_us + self._patience_us, unheard)

    async def _decided(self) -> list[Record]:
        """The records of those cases that could be decided; a store that is gone is waited for."""
        try:
            await self._listen()
            ready, waiting = self._sorted()
            read = await self._read(ready) if ready else []
        except StoreUnavailable as problem:
            self._say(str(problem))
            self._news = None
            return []
        self._say("")
        self._send(read, {case.event_id: traceparent_of(case.record.header(TRACEPARENT)) for case in ready})
        self._waiting = waiting
        return [case.record for case in ready]

    async def _listen(self) -> None:
        """Ask which of the cases the store has heard of."""
        for name, _ in self._fed:
            asking = [case for case in self._waiting if name in case.unheard]
            heard = await self._bench.online.heard(name, [case.unheard[name] for case in asking]) if asking else []
            for case, is_heard in zip(asking, heard, strict=True):
                if is_heard:
                    del case.unheard[name]

    def _sorted(self) -> tuple[list[Case], list[Case]]:
        """The cases that are ready, and those that wait on."""
        now_us = time.time_ns() // 1000
        ready: list[Case] = []
        waiting: list[Case] = []
        for case in self._waiting:
            (waiting if case.unheard and now_us < case.due_us else ready).append(case)
        return ready, waiting

    async def _read(self, cases: Sequence[Case]) -> list[tuple[Arrived, Vector]]:
        """The vectors of cases at their arrival: what had arrived by then, as a training set has it."""
        try:
            return await self._read_at(cases, [case.arrival_us for case in cases])
        except TooLongAgo:
            return [await self._read_late(case) for case in cases]

    async def _read_late(self, case: Case) -> tuple[Arrived, Vector]:
        """A vector at the event's arrival or, where the store has let go of that, at this moment."""
        at_us, degraded = case.arrival_us, list[str]()
        while True:
            try:
                (read,) = await self._read_at([case], [at_us], *degraded)
            except TooLongAgo as gone:
                at_us, degraded = self._this_moment_us(gone), [LATE]
            else:
                return read

    def _this_moment_us(self, gone: TooLongAgo) -> int:
        """Now or, where events tell their own times, the newest that is stored."""
        return gone.known_us if self._model.stream.arrival else max(time.time_ns() // 1000, gone.known_us)

    async def _read_at(
        self, cases: Sequence[Case], at_us: Sequence[int], *degraded: str
    ) -> list[tuple[Arrived, Vector]]:
        found = await self._vectors.read([case.event for case in cases], at_us)
        arrived = [_arrived(case, time_us, degraded) for case, time_us in zip(cases, at_us, strict=True)]
        return list(zip(arrived, found, strict=True))

    def _send(self, read: Sequence[tuple[Arrived, Vector]], traces: Mapping[str, bytes | None]) -> None:
        if not read:
            return
        for prediction in predictions(self._model, self._bench.lineup.standing, self._vectors, read):
            event_id = key_text(prediction.event_id)
            headers = passed_on(traces[event_id])
            self._bench.producer.send(self._model.predictions, encode(prediction), key=event_id, headers=headers)
            self.tally.count(prediction)

    def _say(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            LOGGER.warning("%s waits: %s", self._model.name, trouble)
        self._trouble = trouble


def _arrived(case: Case, read_at_us: int, degraded: Iterable[str]) -> Arrived:
    stale = (STALE,) if case.unheard else ()
    raw_offset = int(case.record.header(OFFSET) or case.record.offset)
    return Arrived(case.event, case.arrival_us, case.record.partition, raw_offset, read_at_us, (*stale, *degraded))
