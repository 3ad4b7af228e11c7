"""Joins the predictions of an app's models with their labels, beside the lake and in its Spark session."""

import json
import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.declare.app import App
from headrace.declare.model import Model
from headrace.evaluate import standing
from headrace.evaluate.book import Book, Fold
from headrace.evaluate.clock import Clock, Ends, patience_us
from headrace.evaluate.feed import PARTITIONS, Feed, changes
from headrace.evaluate.folding import quality_fold
from headrace.lake.care import Care, Caretaker
from headrace.lake.lake import Lake
from headrace.lake.land import writing_session
from headrace.log.offsets import Offsets
from headrace.log.produce import Producer
from headrace.log.progress import OutcomesProgress, report
from headrace.stream.checkpoints import discard_unfinished_state
from headrace.stream.run import watermark_us

LOGGER = logging.getLogger("headrace.evaluate")
RETRY_SECONDS = 5.0


@dataclass(frozen=True)
class Pace:
    """How often changes are made, and how often it is looked how far the log has been read."""

    batch_seconds: float = 10.0
    clock_seconds: float = 30.0
    report_seconds: float = 2.0


@dataclass(frozen=True)
class Place:
    """Where outcomes are kept: the lake, and the folder of checkpoints."""

    lake: Lake
    state: Path
    pace: Pace = Pace()

    def checkpoint(self, model: Model) -> Path:
        return self.state.resolve() / "checkpoints" / f"{model.name}.outcomes"

    def gate(self, stream: str) -> Path:
        return self.state.resolve() / "checkpoints" / stream / "gate"


def folds_of(model: Model) -> Sequence[Fold]:
    """What the changes of a model are folded into."""
    return (standing.fold, quality_fold(model))


class Outcomes:
    """The joins of every model that has labels."""

    def __init__(self, spark: SparkSession, app: App, place: Place) -> None:
        judged = [model for model in app.models if model.labels is not None]
        self._joins = [Join(spark, Feed(model, place.lake.broker), place) for model in judged]
        folders = [folder for join in self._joins for folder in join.book.folders]
        self._caretaker = Caretaker(folders, Care(place.lake.retention))

    def start(self) -> None:
        for join in self._joins:
            join.start()
        self._caretaker.start()

    def stop(self) -> None:
        self._caretaker.stop()
        for join in self._joins:
            join.stop()

    def join(self, timeout: float | None = None) -> None:
        for join in self._joins:
            join.join(timeout)


class Join(threading.Thread):
    """The join of one model; one that fails is started again, and goes on where it was."""

    def __init__(self, spark: SparkSession, feed: Feed, place: Place) -> None:
        super().__init__(name=f"{feed.model.name}.outcomes", daemon=True)
        self._spark, self._feed, self._place = writing_session(spark), feed, place
        self._spark.conf.set("spark.sql.shuffle.partitions", PARTITIONS)
        self._teller = Producer(feed.broker)
        self._offsets = Offsets(feed.broker)
        self._clock = Clock(feed.model, feed.labels, self._offsets, place.gate(feed.labels.name))
        self._clock_us = 0
        self._query: StreamingQuery | None = None
        self._stopped = threading.Event()
        self.model, self.broker = feed.model, feed.broker
        self.book = Book(place.lake.folder, feed.model, folds_of(feed.model), Producer(feed.broker))

    def run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._run()
            except Exception as failure:  # noqa: BLE001  # a broker that restarts, a full disk: nothing is lost by waiting
                if not self._stopped.is_set():
                    LOGGER.error("%s has stopped, and is started again: %s", self.name, failure)
            self._stopped.wait(RETRY_SECONDS)

    def stop(self) -> None:
        self._stopped.set()
        if self._query is not None:
            self._query.stop()

    def _run(self) -> None:
        checkpoint = self._place.checkpoint(self._feed.model)
        discard_unfinished_state(checkpoint)
        self.book.open(checkpoint)
        self._query = (
            changes(self._spark, self._feed)
            .writeStream.queryName(self.name)
            .foreachBatch(self.book.enter)
            .option("checkpointLocation", checkpoint.as_uri())
            .outputMode("update")
            .trigger(processingTime=f"{self._place.pace.batch_seconds} seconds")
            .start()
        )
        self._watch(self._query)

    def _watch(self, query: StreamingQuery) -> None:
        looked = 0.0
        while not self._stopped.wait(self._place.pace.report_seconds):
            if not query.isActive:
                query.awaitTermination()  # raises what ended it
                return
            last = json.loads(query.lastProgress.json) if query.lastProgress is not None else {}
            joined = _joined(last)
            if time.monotonic() > looked + self._place.pace.clock_seconds and not self._feed.tells_its_own_time:
                looked = time.monotonic()
                self._tell_time(self._clock.look(joined))
            report(self._teller, self._progress(query, last, joined))

    def _tell_time(self, at_us: int | None) -> None:
        if at_us is not None:
            self._clock_us = at_us - patience_us(self._feed.declared.within_us)
            self._teller.send(self._feed.model.clock, str(self._clock_us).encode())

    def _progress(self, query: StreamingQuery, last: dict[str, Any], joined: Ends) -> OutcomesProgress:
        known = standing.standing_of(self.book.tiles)
        operators = last.get("stateOperators", [])
        return OutcomesProgress(
            judged=self._feed.model.name,
            at_us=time.time_ns() // 1000,
            running=query.isActive,
            clock_us=watermark_us(last) or 0 if self._feed.tells_its_own_time else self._clock_us,
            lag=self._lag(joined),
            counts=known.rows(),
            delays=known.delays.counts,
            delay_seconds=known.delays.total_seconds,
            state_rows=sum(operator["numRowsTotal"] for operator in operators),
            state_bytes=sum(operator["memoryUsedBytes"] for operator in operators),
        )

    def _lag(self, joined: Ends) -> int:
        topics = (self._feed.model.predictions, self._feed.labels.clean)
        ends, begins = self._offsets.end(topics), self._offsets.begin(topics)
        return sum(end - max(joined.get(at.topic, {}).get(at.number, 0), begins[at]) for at, end in ends.items())


def _joined(progress: dict[str, Any]) -> Ends:
    """How far the last committed batch has read."""
    ends: Ends = {}
    for source in progress.get("sources", []):
        for topic, partitions in (source["endOffset"] or {}).items():
            ends[topic] = {int(number): end for number, end in partitions.items()}
    return ends
