"""Brings one query through its lanes: drained of its backlog first, then in real time."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.errors import HeadraceError
from headrace.kafka.offsets import OffsetClient
from headrace.spark.checkpoints.checkpoint_files import (
    committed_partition_offsets,
    has_committed_batch,
    is_before_log_start,
    query_lag,
)
from headrace.spark.execution.lanes import BACKLOG_RECORDS, Lane, QuerySpec, start_query
from headrace.spark.execution.query_restarts import DEFAULT_POLICY, RestartingThread, RestartPolicy
from headrace.spark.execution.runner_protocol import Runner
from headrace.spark.session.liveness import is_session_alive

POLL_SECONDS = 0.2
SIDE_INPUT_POLL_SECONDS = 1
WAITING_STATUS = "Waiting for "  # data to arrive, or the next trigger: as Spark words the status of a query


class QueryFailed(HeadraceError):
    """A query stopped by itself."""


class PendingQuerySpec(NamedTuple):
    """A query whose plan is made when it is first started: its name, what it is for, and how the plan is made."""

    name: str
    stream: str
    views: tuple[str, ...]
    derives: tuple[str, ...]
    build_spec: Callable[[], QuerySpec]


class QueryRunner(RestartingThread):
    """Brings one query through its lanes; what fails is begun again, alone."""

    def __init__(
        self,
        spark: SparkSession,
        spec: QuerySpec | PendingQuerySpec,
        lane: Lane,
        upstream: Sequence[Runner] = (),
        policy: RestartPolicy = DEFAULT_POLICY,
    ) -> None:
        """`lane` is the fastest that is wanted; the query may be fit for a slower one only."""
        super().__init__(spec.name, policy)
        self.spec, self.lane = spec, Lane.DRAINING
        self._spark, self._upstream, self._requested_lane = spark.newSession(), upstream, lane
        self._built_spec = None if isinstance(spec, PendingQuerySpec) else spec
        self._query: StreamingQuery | None = None
        self._has_worked = False
        self._counted_batch, self._dropped_rows = -1, 0
        self._reached_batch, self._reached_offsets = -1, dict[str, int]()

    @property
    def _query_spec(self) -> QuerySpec:
        self._built_spec = self._built_spec or _build_spec(self.spec)
        return self._built_spec

    @cached_property
    def _offsets(self) -> OffsetClient:
        return OffsetClient(self._query_spec.broker)

    @property
    def _final_lane(self) -> Lane:
        return self._requested_lane if self._query_spec.lane is Lane.REAL_TIME else self._query_spec.lane

    def _attempt(self) -> None:
        """Work off the backlog, then run until stopped."""
        self.lane, self._has_worked = Lane.DRAINING, False
        try:
            self._drain_backlog()
            side_input = self._read_side_input()
            if not self._stopped.is_set():
                self._wait_for_end(self._start_query(self._final_lane), side_input)
        finally:
            self._stop_query()

    def _wait_for_end(self, query: StreamingQuery, side_input: object) -> None:
        """Wait until a query is stopped, or stop it because it has to begin anew.

        Its plan may hold what is no longer so, or a query before it, which was down, works off a backlog: partitions
        may be far apart in what comes from there, as they may be in a backlog of its own.
        """
        while not query.awaitTermination(SIDE_INPUT_POLL_SECONDS):
            has_upstream_backlog = any(runner.is_writing_backlog for runner in self._upstream)
            if self._stopped.is_set() or has_upstream_backlog or self._read_side_input() is not side_input:
                query.stop()
                return
        if not self._stopped.is_set():
            raise QueryFailed(f"The query {self.spec.name} ended by itself. It goes on where it was.")

    def _read_side_input(self) -> object:
        return None if self._query_spec.side_input is None else self._query_spec.side_input()

    def _recover(self, failure: Exception) -> Exception | None:
        """Remove what made it fail, where that can be found."""
        try:
            if self._built_spec is None or self._built_spec.repair is None or not self._can_restart():
                return failure
            self._built_spec.repair(self._spark.newSession(), failure)
        except Exception as repair_error:  # noqa: BLE001  # whatever it was, it is why the query cannot go on
            return repair_error
        return None

    def _can_restart(self) -> bool:
        return is_session_alive(self._spark)

    def _start_query(self, lane: Lane) -> StreamingQuery:
        self.lane = lane
        self._query = start_query(self._spark, self._query_spec, lane)
        if self._stopped.is_set():
            self._stop_query()  # who stopped us may not have seen it
        return self._query

    def _stop_query(self) -> None:
        if self._query is not None:
            with suppress(Exception):  # where Java is gone, so is the query
                self._query.stop()

    def _drain_backlog(self) -> None:
        """Work off what is waiting, here and at the query whose output this one reads."""
        if self._query_spec.first_batch_ends is not None and not has_committed_batch(self._query_spec.checkpoint):
            self._start_query(Lane.DRAINING).awaitTermination()  # in real time nothing could end a first batch there
        while not self._stopped.is_set():
            if self._is_far_behind():
                self._start_query(Lane.DRAINING).awaitTermination()
            elif any(runner.is_draining for runner in self._upstream):
                self._stopped.wait(POLL_SECONDS)
            else:
                return

    @property
    def is_draining(self) -> bool:
        """Whether it works off a backlog, or is about to; one that is down does not, until it is seen at work again."""
        return self.lane is Lane.DRAINING and self.is_alive() and not self.check_health().is_down

    @property
    def is_writing_backlog(self) -> bool:
        """Whether it writes what it makes of a backlog just now."""
        query = self._query
        if query is None or self.lane is not Lane.DRAINING or not query.isActive:
            return False
        return has_finished_batch(query)

    def _is_far_behind(self) -> bool:
        """Whether much is waiting, or the log begins after the query's place: in real time it would stand there."""
        start_offsets, end_offsets = (
            self._offsets.topic_start_offsets(self._query_spec.source_topics),
            self._offsets.topic_end_offsets(self._query_spec.source_topics),
        )
        return query_lag(
            self._query_spec.checkpoint, start_offsets, end_offsets
        ) > BACKLOG_RECORDS or is_before_log_start(self._query_spec.checkpoint, start_offsets)

    def stop(self) -> None:
        super().stop()
        self._stop_query()

    def is_running(self) -> bool:
        """Whether the query's tasks have been seen at work, not merely started."""
        query = self._query
        if query is None or self.lane is Lane.DRAINING or not query.isActive:
            return False
        # Between two checkpoint intervals there are no tasks for a moment: once at work, an active query runs.
        self._has_worked = self._has_worked or self._has_started_work(query)
        return self._has_worked

    def _is_working(self) -> bool:
        return self.is_writing_backlog or self.is_running()

    def _has_started_work(self, query: StreamingQuery) -> bool:
        return (
            self._are_all_tasks_running(str(query.runId))
            if self.lane is Lane.REAL_TIME
            else has_finished_trigger(query)
        )

    def _are_all_tasks_running(self, run_id: str) -> bool:
        tracker = self._spark.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(run_id)]
        stages = [
            tracker.getStageInfo(stage) for job in jobs if job and job.status == "RUNNING" for stage in job.stageIds
        ]
        return bool(stages) and all(stage is not None and stage.numActiveTasks == stage.numTasks for stage in stages)

    def count_dropped_rows(self) -> int:
        """Rows Spark's watermark has dropped since the start; the gate has judged them on time, so it should be 0."""
        progress = self.last_progress()
        if progress.get("batchId", -1) > self._counted_batch:
            self._counted_batch = progress["batchId"]
            self._dropped_rows += sum(operator["numRowsDroppedByWatermark"] for operator in progress["stateOperators"])
        return self._dropped_rows

    def reached_offsets(self) -> dict[str, int]:
        """The next offset of each partition of its source, as of its last checkpoint; of several sources, by place."""
        if self._built_spec is None:
            return {}
        batch = self.last_progress().get("batchId", -1)
        if batch != self._reached_batch or not self._reached_offsets:
            with suppress(OSError, ValueError):  # Spark cleans up meanwhile: the next look finds it
                committed = committed_partition_offsets(self._built_spec.checkpoint)
                has_one_topic = len(self._built_spec.source_topics) == 1
                self._reached_offsets = {
                    str(partition.number if has_one_topic else partition): offset
                    for partition, offset in committed.items()
                }
                self._reached_batch = batch
        return self._reached_offsets

    def last_progress(self) -> dict[str, Any]:
        """Spark's own account of the last finished batch; empty before the first."""
        progress = self._query.lastProgress if self._query is not None else None
        return json.loads(progress.json) if progress is not None else {}


def _build_spec(spec: QuerySpec | PendingQuerySpec) -> QuerySpec:
    return spec.build_spec() if isinstance(spec, PendingQuerySpec) else spec


def has_finished_batch(query: StreamingQuery) -> bool:
    """Whether Spark has run a batch of a query since it started."""
    return query.lastProgress is not None


def has_finished_trigger(query: StreamingQuery) -> bool:
    """Whether Spark has run a batch of a query since it started, or waits because there is nothing to run."""
    return has_finished_batch(query) or str(query.status["message"]).startswith(WAITING_STATUS)
