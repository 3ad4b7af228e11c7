"""Brings one query through its lanes: drained of its backlog first, then in real time."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.errors import HeadraceError
from headrace.log.offsets import Offsets
from headrace.stream.checkpoints import committed_places, is_before, is_begun, lag
from headrace.stream.lanes import BACKLOG, Lane, QuerySpec, start
from headrace.stream.query_restarts import DEFAULT_POLICY, RestartingThread, RestartPolicy
from headrace.stream.runner import Runner
from headrace.stream.session_liveness import is_session_alive

LOOK_SECONDS = 0.2
HELD_SECONDS = 1
WAITING = "Waiting for "  # data to arrive, or the next trigger: as Spark words the status of a query


class QueryFailed(HeadraceError):
    """A query stopped by itself."""


class PendingSpec(NamedTuple):
    """A query whose plan is made when it is first started: its name, what it is for, and how the plan is made."""

    name: str
    stream: str
    views: tuple[str, ...]
    derives: tuple[str, ...]
    make: Callable[[], QuerySpec]


class Pilot(RestartingThread):
    """Brings one query through its lanes; what fails is begun again, alone."""

    def __init__(
        self,
        spark: SparkSession,
        spec: QuerySpec | PendingSpec,
        lane: Lane,
        upstream: Sequence[Runner] = (),
        policy: RestartPolicy = DEFAULT_POLICY,
    ) -> None:
        """`lane` is the fastest that is wanted; the query may be fit for a slower one only."""
        super().__init__(spec.name, policy)
        self.spec, self.lane = spec, Lane.DRAINING
        self._spark, self._upstream, self._wanted = spark.newSession(), upstream, lane
        self._made = None if isinstance(spec, PendingSpec) else spec
        self._query: StreamingQuery | None = None
        self._at_work = False
        self._counted_batch, self._dropped = -1, 0
        self._reached_batch, self._reached = -1, dict[str, int]()

    @property
    def _plan(self) -> QuerySpec:
        self._made = self._made or _plan_of(self.spec)
        return self._made

    @cached_property
    def _offsets(self) -> Offsets:
        return Offsets(self._plan.broker)

    @property
    def _goal(self) -> Lane:
        return self._wanted if self._plan.lane is Lane.REAL_TIME else self._plan.lane

    def _attempt(self) -> None:
        """Work off the backlog, then run until stopped."""
        self.lane, self._at_work = Lane.DRAINING, False
        try:
            self._drain()
            held = self._held()
            if not self._stopped.is_set():
                self._watch(self._start(self._goal), held)
        finally:
            self._stop_query()

    def _watch(self, query: StreamingQuery, held: object) -> None:
        """Wait until a query is stopped, or stop it because it has to begin anew.

        Its plan may hold what is no longer so, or a query before it, which was down, works off a backlog: partitions
        may be far apart in what comes from there, as they may be in a backlog of its own.
        """
        while not query.awaitTermination(HELD_SECONDS):
            is_flooded = any(runner.flooding for runner in self._upstream)
            if self._stopped.is_set() or is_flooded or self._held() is not held:
                query.stop()
                return
        if not self._stopped.is_set():
            raise QueryFailed(f"The query {self.spec.name} ended by itself. It goes on where it was.")

    def _held(self) -> object:
        return None if self._plan.held is None else self._plan.held()

    def _recover(self, failure: Exception) -> Exception | None:
        """Remove what made it fail, where that can be found."""
        try:
            if self._made is None or self._made.mend is None or not self._can_restart():
                return failure
            self._made.mend(self._spark.newSession(), failure)
        except Exception as unmended:  # noqa: BLE001  # whatever it was, it is why the query cannot go on
            return unmended
        return None

    def _can_restart(self) -> bool:
        return is_session_alive(self._spark)

    def _start(self, lane: Lane) -> StreamingQuery:
        self.lane = lane
        self._query = start(self._spark, self._plan, lane)
        if self._stopped.is_set():
            self._stop_query()  # who stopped us may not have seen it
        return self._query

    def _stop_query(self) -> None:
        if self._query is not None:
            with suppress(Exception):  # where Java is gone, so is the query
                self._query.stop()

    def _drain(self) -> None:
        """Work off what is waiting, here and at the query whose output this one reads."""
        if self._plan.first_ends is not None and not is_begun(self._plan.checkpoint):
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
        """Whether it works off a backlog, or is about to; one that is down does not, until it is seen at work again."""
        return self.lane is Lane.DRAINING and self.is_alive() and not self.observe().is_down

    @property
    def flooding(self) -> bool:
        """Whether it writes what it makes of a backlog just now."""
        query = self._query
        if query is None or self.lane is not Lane.DRAINING or not query.isActive:
            return False
        return has_finished_batch(query)

    def _is_far(self) -> bool:
        """Whether much is waiting, or the log begins after the query's place: in real time it would stand there."""
        begin, end = self._offsets.begin(self._plan.sources), self._offsets.end(self._plan.sources)
        return lag(self._plan.checkpoint, begin, end) > BACKLOG or is_before(self._plan.checkpoint, begin)

    def stop(self) -> None:
        super().stop()
        self._stop_query()

    def running(self) -> bool:
        """Whether the query's tasks have been seen at work, not merely started."""
        query = self._query
        if query is None or self.lane is Lane.DRAINING or not query.isActive:
            return False
        # Between two checkpoint intervals there are no tasks for a moment: once at work, an active query runs.
        self._at_work = self._at_work or self._is_at_work(query)
        return self._at_work

    def _works(self) -> bool:
        return self.flooding or self.running()

    def _is_at_work(self, query: StreamingQuery) -> bool:
        return self._tasks_at_work(str(query.runId)) if self.lane is Lane.REAL_TIME else has_finished_trigger(query)

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
        if self._made is None:
            return {}
        batch = self.last_progress().get("batchId", -1)
        if batch != self._reached_batch or not self._reached:
            with suppress(OSError, ValueError):  # Spark cleans up meanwhile: the next look finds it
                places = committed_places(self._made.checkpoint)
                alone = len(self._made.sources) == 1
                self._reached = {str(place.number if alone else place): offset for place, offset in places.items()}
                self._reached_batch = batch
        return self._reached

    def last_progress(self) -> dict[str, Any]:
        """Spark's own account of the last finished batch; empty before the first."""
        progress = self._query.lastProgress if self._query is not None else None
        return json.loads(progress.json) if progress is not None else {}


def _plan_of(spec: QuerySpec | PendingSpec) -> QuerySpec:
    return spec.make() if isinstance(spec, PendingSpec) else spec


def has_finished_batch(query: StreamingQuery) -> bool:
    """Whether Spark has run a batch of a query since it started."""
    return query.lastProgress is not None


def has_finished_trigger(query: StreamingQuery) -> bool:
    """Whether Spark has run a batch of a query since it started, or waits because there is nothing to run."""
    return has_finished_batch(query) or str(query.status["message"]).startswith(WAITING)
