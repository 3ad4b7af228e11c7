"""Lands the topics of an app beside its real-time queries, in a Spark session of its own, every minute."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from pyspark.sql import SparkSession

from headrace.errors import HeadraceError
from headrace.lake.care import Care, Caretaker
from headrace.lake.failure_state import FailureState
from headrace.lake.lake import Lake
from headrace.lake.land import Lander, Step, writing_session
from headrace.lake.table import LakeTable
from headrace.log.offsets import Offsets
from headrace.log.produce import Producer
from headrace.log.progress import LandingProgress, report

LOGGER = logging.getLogger("headrace.lake")
RECORDS_A_STEP = 100_000  # bounds the memory and the time of a step; a backlog takes several, without a pause between
GIVES_WAY_SECONDS = 60.0


class Place(NamedTuple):
    """What rounds share: the session that writes, the lake, and who is told of it."""

    session: SparkSession
    lake: Lake
    producer: Producer


class Pace(Protocol):
    """Whoever wants to know how landing goes."""

    def kept_up(self) -> None:
        """All but the newest events have landed."""

    def fell_behind(self, left: int) -> None:
        """So many records wait, more than a step takes."""


class LakeWriter:
    """Lands topics until stopped: raw records, beside them events, beside them what is made of events and gives way.

    raw      ├ bronze ┤├ bronze ┤├ bronze ┤                                behind for as long as a step leaves some
    events   ├ silver ───┤├ silver ───┤├ late ┤├ dead ┤
    gold     ├ tiles ┤ · · · · · · · · · · · · · · · ├ tiles ┤├ tiles ┤    or after a minute
    """

    def __init__(
        self, spark: SparkSession, lake: Lake, tables: Sequence[LakeTable], pace: "Pace | None" = None
    ) -> None:
        """Tells `pace` after a round of events whether all but the newest had landed, or far too much is left."""
        gold = [table for table in tables if table.landing.is_gold]
        place = Place(writing_session(spark), lake, Producer(lake.broker))
        raw = [table for table in tables if table.landing.is_bronze]
        self._events = [table for table in tables if table not in (*raw, *gold)]
        self._pace, self._offsets = pace, Offsets(lake.broker)
        self._first = (
            Rounds("lake-raw", place, raw),
            Rounds("lake-events", place, self._events, done=self._tell_pace),
        )
        self._rounds = [*self._first, Rounds("lake-gold", place, gold, after=self._first)]
        self._caretaker = Caretaker([table.folder for table in tables], Care(lake.retention), place.producer)

    def _tell_pace(self) -> None:
        if self._pace is None:
            return
        left = sum(rounds.left for rounds in self._first)
        with suppress(Exception):  # a broker that restarts, a table that is not there yet: the next round looks again
            if left > RECORDS_A_STEP:
                self._pace.fell_behind(left)
            elif not left and self._unseen() <= RECORDS_A_STEP:
                self._pace.kept_up()

    def _unseen(self) -> int:
        """Raw records that no event in the lake comes after: of a backlog, most have not even passed the gate."""
        ends = self._offsets.end(list({table.landing.counts for table in self._events}))
        landed: dict[tuple[str, int], int] = {}
        for table in self._events:
            numbers = [at.number for at in ends if at.topic == table.landing.counts]
            for number, position in table.positions(numbers).items():
                place = table.landing.counts, number
                landed[place] = max(position.landed, landed.get(place, -1))
        return sum(end - 1 - landed[at.topic, at.number] for at, end in ends.items())

    def start(self) -> None:
        self._caretaker.start()
        for rounds in self._rounds:
            rounds.start()

    def stop(self) -> None:
        for rounds in self._rounds:
            rounds.stop()
        self._caretaker.stop()

    def join(self, timeout: float | None = None) -> None:
        for rounds in self._rounds:
            rounds.join(timeout)


class Rounds(threading.Thread):
    """Lands some topics, one after another. A table that fails is tried again after a pause: no other waits for it."""

    def __init__(
        self,
        name: str,
        place: Place,
        tables: Sequence[LakeTable],
        done: Callable[[], None] = lambda: None,
        after: Sequence["Rounds"] = (),
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.left = 1 if tables else 0  # at least, until it has looked
        self._done, self._after = done, after
        self._landers = [Lander(place.session, place.lake.broker, table, RECORDS_A_STEP) for table in tables]
        self._failures = {lander: FailureState() for lander in self._landers}
        self._last = dict.fromkeys(self._landers, Step(0, 0, {}))
        self._every_s, self._producer = place.lake.every_s, place.producer
        self._stopped = threading.Event()

    def run(self) -> None:
        pause_s = self._every_s
        while not self._stopped.wait(pause_s):
            self._give_way()
            began = time.monotonic()
            self.left = sum(self._land(lander) for lander in self._landers)
            pause_s = 0 if self.left else max(0.0, began + self._pause_s() - time.monotonic())
            self._done()

    def _pause_s(self) -> float:
        """Until the next round, or until the first table that failed is tried again."""
        return min([self._every_s, *(one.pause_s for one in self._failures.values() if one.failures)])

    def _give_way(self) -> None:
        until = time.monotonic() + GIVES_WAY_SECONDS
        while any(one.left for one in self._after) and time.monotonic() < until and not self._stopped.wait(1.0):
            pass

    def _land(self, lander: Lander) -> int:
        """Take a step; how many records it has left for another at once."""
        state, began = self._failures[lander], time.monotonic()
        if self._stopped.is_set() or not state.is_due:
            return 0
        try:
            self._last[lander] = lander.land()
        except Exception as failure:  # noqa: BLE001  # a broker that restarts, a full disk: nothing is lost by waiting
            if not self._stopped.is_set():
                self._record_failure(lander, failure, time.monotonic() - began)
            return 0
        if state.record_success():
            LOGGER.info("%s lands again", lander.table.landing.table)
        self._report(lander, self._last[lander], time.monotonic() - began)
        return self._last[lander].left

    def _record_failure(self, lander: Lander, failure: Exception, seconds: float) -> None:
        state, table = self._failures[lander], lander.table.landing.table
        if state.record_failure(failure):
            trace = None if isinstance(failure, HeadraceError) else failure  # its sentence says it all
            LOGGER.error("Could not land %s, which is tried again: %s", table, state.error, exc_info=trace)
        else:
            LOGGER.error("Could not land %s, for the %s. time: %s", table, state.failures, state.error)
        self._report(lander, lander.unlanded(self._last[lander]), seconds)

    def _report(self, lander: Lander, step: Step, seconds: float) -> None:
        landing, at_us = lander.table.landing, time.time_ns() // 1000
        reached = {str(number): offset for number, offset in step.reached.items()}
        state = self._failures[lander]
        said = LandingProgress(
            landed=landing.table,
            at_us=at_us,
            taken=step.taken,
            left=step.left,
            seconds=seconds,
            topic=landing.topic,
            reached=reached,
            down_since_us=state.down_since_us,
            error=state.error,
        )
        with suppress(Exception):  # a broker that is away: it is told at the next step
            report(self._producer, said)

    def stop(self) -> None:
        self._stopped.set()
