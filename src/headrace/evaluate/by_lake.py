"""Predictions joined with labels that may take weeks: in rounds, from the lake's tables, and nothing waits in memory.

gold/fraud_predictions ─┐
                        ├─▶ a round: what has landed since, and what closes ─▶ changes, as the stream's join makes
silver/chargebacks ─────┘
"""

import threading
import time
from contextlib import suppress
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.evaluate.join import Join, Place
from headrace.evaluate.reach import reach_us, require_kept_for
from headrace.evaluate.recall import Clocks, changes, clock_for, newest_arrivals, rows_between
from headrace.evaluate.rounds import Reach, Round, RoundLog
from headrace.evaluate.told import Feed, labels, scored
from headrace.lake.files import day_of
from headrace.lake.landing import DAY
from headrace.lake.table import LakeTable
from headrace.lake.tables import table_rows
from headrace.stream.clock import Ends
from headrace.stream.watermark import DRAINING_MARGIN_US

CHECKPOINT = "outcomes-of-the-lake"
RECORDS_A_ROUND = 200_000  # that come new, and that close: bounds the memory of a round's changes
PARTITIONS = 16  # that the rows of a round are sorted in; Spark joins small ones
SHARE = 4  # a round waits so many times as long as the last one took
CLOSED_AT_ONCE = 1000  # the clock moves by so small a part of `within`: each move looks at all that waits


class LakeJoin(Join):
    """Goes round after round; how far each goes is written down before it begins."""

    def __init__(self, spark: SparkSession, feed: Feed, place: Place) -> None:
        super().__init__(spark, feed, place)
        self._spark.conf.set("spark.sql.shuffle.partitions", PARTITIONS)
        self._tables = [LakeTable(place.lake.folder, landing) for landing in feed.landings]
        self._checkpoint = place.checkpoint(feed.model, CHECKPOINT)
        self._log = RoundLog(self._checkpoint)
        self._last, self._is_behind = Round(), False
        self._telling = threading.Thread(target=self._tell_until_stopped, name=f"{self.name} told", daemon=True)

    def start(self) -> None:
        super().start()
        self._telling.start()

    def _run(self) -> None:
        self.open()
        took_s = 0.0
        while not self._stopped.wait(0 if self._is_behind else max(self._place.pace.round_seconds, SHARE * took_s)):
            began = time.monotonic()
            self.go_on()
            self._went_on()
            took_s = time.monotonic() - began

    def open(self) -> None:
        """Take up what is kept, and finish the round that was begun last: a crash may have cut it short."""
        require_kept_for(self.model, self._place.lake.retention)
        self._open(self._checkpoint)
        before, self._last = self._log.last_two()
        self._clock_us = self._last.clock_us
        if self._last.number >= 0:
            self._enter(before, self._last)

    def go_on(self) -> bool:
        """One more round; whether there was reason for one."""
        following = self._planned(self._last)
        if replace(following, number=self._last.number) == self._last:
            return False
        self._log.begin(following)
        self._enter(self._last, following)
        self._last, self._clock_us = following, following.clock_us
        return True

    def _enter(self, before: Round, after: Round) -> None:
        clocks = Clocks(before.clock_us, after.clock_us)
        self.book.enter(changes(self._rows(before, after), clocks, self._terms), after.number)

    def _planned(self, last: Round) -> Round:
        """The round that follows; the same as the last but for its number where there is no reason for one."""
        most, (scored_end, told_end) = self._feed.records_at_once, (self._reach(table) for table in self._tables)
        predictions, told = last.predictions.towards(scored_end, most), last.labels.towards(told_end, most)
        following = replace(last, number=last.number + 1, predictions=predictions, labels=told)
        if self._feed.tells_its_own_time:
            following = following.heard(newest_arrivals(self._rows(last, following)))
        target_us = self._clock_after(last, following)
        clock_us = self._clock_reached(last, following, target_us)
        self._is_behind = clock_us < target_us or not (predictions.reaches(scored_end) and told.reaches(told_end))
        return replace(following, clock_us=clock_us)

    def _reach(self, table: LakeTable) -> Reach:
        landing = table.landing
        positions = table.positions([at.number for at in self._offsets.end([landing.topic])])
        landed = {number: at.landed if landing.may_replay else at.read for number, at in positions.items()}
        return Reach(landed, {number: at.read + 1 for number, at in positions.items()})

    def _clock_after(self, last: Round, following: Round) -> int:
        """Up to when all is known; where that is hardly later than it was, the same as it was."""
        if self._feed.tells_its_own_time:
            known_us: int | None = min(following.newest_us) - DRAINING_MARGIN_US
        else:
            known_us = self._known_until(self._joined(last))
        if known_us is None or known_us < last.clock_us + self._terms.within_us // CLOSED_AT_ONCE:
            return last.clock_us
        return known_us

    def _clock_reached(self, last: Round, following: Round, target_us: int) -> int:
        if target_us == last.clock_us:
            return target_us
        clocks = Clocks(last.clock_us, target_us)
        return clock_for(self._rows(last, following), clocks, self._terms, self._feed.records_at_once)

    def _rows(self, before: Round, after: Round) -> DataFrame:
        since_us = before.clock_us - reach_us(self._terms)
        predictions, told = (self._table(table, since_us) for table in self._tables)
        return rows_between(scored(predictions, self._feed), labels(told, self._feed), before, after)

    def _table(self, table: LakeTable, since_us: int) -> DataFrame:
        """The rows of a table since a time: predictions land after their event, labels are never later than that."""
        rows = table_rows(self._spark, self._place.lake.folder, table.landing)
        if since_us < 0:
            return rows
        return rows.where(F.col(DAY) >= F.lit(day_of(since_us)))

    def _joined(self, last: Round) -> Ends:
        predictions, told = self._tables
        return last.joined(predictions.landing.topic, told.landing.topic)

    def _tell_until_stopped(self) -> None:
        while not self._stopped.wait(self._place.pace.report_seconds):
            with suppress(Exception):  # a broker that restarts: it is told again
                self._tell(self._joined(self._last), running=self._failure.down_since_us is None)

    def _report_failure(self) -> None:
        self._tell(self._joined(self._last), running=False)
