"""Brings one query through its lanes: drained of its backlog first, then in real time."""

import json
import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.errors import HeadraceError
from headrace.log.offsets import Offsets
from headrace.stream.checkpoints import committed_places, is_before, is_begun, lag
from headrace.stream.lanes import BACKLOG, Lane, QuerySpec, start
from headrace.stream.runner import Runner

LOOK_SECONDS = 0.2
HELD_SECONDS = 1
LOGGER = logging.getLogger("headrace.stream")


class QueryFailed(HeadraceError):
    """A query stopped by itself."""


class Pilot(threading.Thread):
    """Brings one query through its lanes."""

    def __init__(self, spark: SparkSession, spec: QuerySpec, lane: Lane, upstream: Sequence[Runner] = ()) -> None:
        """`lane` is the fastest that is wanted; the query may be fit for a slower one only."""
        super().__init__(name=spec.name, daemon=True)
        self.spec, self.lane = spec, Lane.DRAINING
        self._spark, self._upstream = spark.newSession(), upstream
        self._goal = lane if spec.lane is Lane.REAL_TIME else spec.lane
        self._offsets = Offsets(spec.broker)
        self._query: StreamingQuery | None = None
        self._stopped = threading.Event()
        self._at_work = False
        self._counted_batch, self._dropped = -1, 0
        self._reached_batch, self._reached = -1, dict[str, int]()
        self.failure: Exception | None = None

    def run(self) -> None:
        while not self._stopped.is_set() and self.failure is None:
            try:
                self._fly()
            except Exception as failure:  # noqa: BLE001  # whatever it was, the thread's owner raises it
                self._failed(failure)

    def _fly(self) -> None:
        """Work off the backlog, then run until stopped."""
        self._drain()
        held = self._held()
        if not self._stopped.is_set():
            self._watch(self._start(self._goal), held)

    def _watch(self, query: StreamingQuery, held: object) -> None:
        """Wait until a query is stopped, or stop it because its plan holds what is no longer so."""
        while not query.awaitTermination(HELD_SECONDS):
            if self._held() is not held:
                query.stop()
                return
        if not self._stopped.is_set():
            raise QueryFailed(f"The query {self.spec.name} ended by itself. Start again: it goes on where it was.")

    def _held(self) -> object:
        return None if self.spec.held is None else self.spec.held()

    def _failed(self, failure: Exception) -> None:
        """Remove what made it fail, where that can be found; else this is the end."""
        if self._stopped.is_set():
            return
        try:
            if self.spec.mend is None:
                raise failure
            self.spec.mend(self._spark.newSession(), failure)
        except Exception as unmended:  # noqa: BLE001  # as above
            LOGGER.error("%s failed: %s", self.spec.name, unmended)
            self.failure = unmended

    def _start(self, lane: Lane) -> StreamingQuery:
        self.lane = lane
        self._query = start(self._spark, self.spec, lane)
        return self._query

    def _drain(self) -> None:
        """Work off what is waiting, here and at the query whose output this one reads."""
        if self.spec.first_ends is not None and not is_begun(self.spec.checkpoint):
            self._start(Lane.DRAINING).awaitTermination()  # in real time nothing could end a first batch there
        while not self._stopped.is_set():
            if self._is_far():
                self._start(Lane.DRAINING).awaitTermination()
            elif any(runner.draining for runner in self._upstream):
                self._stopped.wait(LOOK_SECONDS)
            else:
                return

    @property
    def draining(self) -> bool:
        return self.lane is Lane.DRAINING and self.is_alive()

    def _is_far(self) -> bool:
        """Whether much is waiting, or the log begins after the query's place: in real time it would stand there."""
        begin, end = self._offsets.begin(self.spec.sources), self._offsets.end(self.spec.sources)
        return lag(self.spec.checkpoint, begin, end) > BACKLOG or is_before(self.spec.checkpoint, begin)

    def stop(self) -> None:
        self._stopped.set()
        if self._query is not None:
            self._query.stop()

    def running(self) -> bool:
        """Whether the query's tasks have been seen at work, not merely started."""
        query = self._query
        if query is None or self.lane is Lane.DRAINING or not query.isActive:
            return False
        # Between two checkpoint intervals there are no tasks for a moment: once at work, an active query runs.
        self._at_work = self._at_work or self.lane is not Lane.REAL_TIME or self._tasks_at_work(str(query.runId))
        return self._at_work

    def _tasks_at_work(self, run_id: str) -> bool:
        tracker = self._spark.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(run_id)]
        stages = [
            tracker.getStageInfo(stage) for job in jobs if job and job.status == "RUNNING" for stage in job.stageIds
        ]
        return bool(stages) and all(stage is not None and stage.numActiveTasks == stage.numTasks for stage in stages)

    def dropped_by_watermark(self) -> int:
        """Rows Spark's watermark has dropped since the start; the gate has judged them on time, so it should be 0."""
        last = self.last_progress()
        if last.get("batchId", -1) > self._counted_batch:
            self._counted_batch = last["batchId"]
            self._dropped += sum(operator["numRowsDroppedByWatermark"] for operator in last["stateOperators"])
        return self._dropped

    def reached(self) -> dict[str, int]:
        """The next offset of each partition of its source, as of its last checkpoint; of several sources, by place."""
        batch = self.last_progress().get("batchId", -1)
        if batch != self._reached_batch or not self._reached:
            with suppress(OSError, ValueError):  # Spark cleans up meanwhile: the next look finds it
                places = committed_places(self.spec.checkpoint)
                alone = len(self.spec.sources) == 1
                self._reached = {str(place.number if alone else place): offset for place, offset in places.items()}
                self._reached_batch = batch
        return self._reached

    def last_progress(self) -> dict[str, Any]:
        """Spark's own account of the last finished batch; empty before the first."""
        progress = self._query.lastProgress if self._query is not None else None
        return json.loads(progress.json) if progress is not None else {}
