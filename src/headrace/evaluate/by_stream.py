"""Predictions joined with labels that come within a day: in the stream, by ids that are remembered until then."""

import json
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.evaluate.feed import PARTITIONS, changes
from headrace.evaluate.join import Join, Place
from headrace.evaluate.told import Feed
from headrace.log.records import Partition
from headrace.stream.checkpoints import prepare
from headrace.stream.clock import Ends
from headrace.stream.run import watermark_us

CHECKPOINT = "outcomes"


class StreamJoin(Join):
    """A query that never ends; what it remembers is in its checkpoint."""

    def __init__(self, spark: SparkSession, feed: Feed, place: Place) -> None:
        super().__init__(spark, feed, place)
        self._spark.conf.set("spark.sql.shuffle.partitions", PARTITIONS)
        self._query: StreamingQuery | None = None

    def stop(self) -> None:
        super().stop()
        if self._query is not None:
            self._query.stop()

    def _run(self) -> None:
        checkpoint = self._place.checkpoint(self._feed.model, CHECKPOINT)
        prepare(checkpoint)
        self._open(checkpoint)
        self._query = (
            changes(self._spark, self._feed)
            .writeStream.queryName(self.name)
            .foreachBatch(self.book.enter)
            .option("checkpointLocation", checkpoint.as_uri())
            .outputMode("update")
            .trigger(processingTime=f"{self._place.pace.batch_seconds} seconds")
            .start()
        )
        try:
            self._watch(self._query)
        finally:  # a broker that is away ends the watch, and not always the query: two of one name cannot run
            self._query.stop()

    def _watch(self, query: StreamingQuery) -> None:
        while not self._stopped.wait(self._place.pace.report_seconds):
            if not query.isActive:
                query.awaitTermination()  # raises what ended it
                return
            last = json.loads(query.lastProgress.json) if query.lastProgress is not None else {}
            joined = _joined(last)
            if joined:
                self._went_on()
            if self._feed.tells_its_own_time:
                self._clock_us = watermark_us(last) or 0
            else:
                self._tell_time(self._known_until(joined))
            operators = last.get("stateOperators", [])
            self._tell(
                joined,
                running=query.isActive,
                state_rows=sum(operator["numRowsTotal"] for operator in operators),
                state_bytes=sum(operator["memoryUsedBytes"] for operator in operators),
            )

    def _tell_time(self, clock_us: int | None) -> None:
        if clock_us is not None:
            self._clock_us = clock_us
            self._teller.send(self._feed.model.clock, str(self._clock_us).encode())


def _joined(progress: dict[str, Any]) -> Ends:
    """How far the last committed batch has read."""
    topics = [item for source in progress.get("sources", []) for item in (source["endOffset"] or {}).items()]
    return {Partition(topic, int(number)): end for topic, ends in topics for number, end in ends.items()}
