"""Runs one query through its lanes: first drains its backlog, then runs in real time."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.errors import HeadraceError
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.workers.worker_health import RestartPolicy
from headrace.spark.checkpoints.checkpoint_files import (
    committed_partition_offsets,
    has_committed_batch,
    is_before_log_start,
    query_lag,
)
from headrace.spark.execution.lanes import BACKLOG_RECORDS, Lane, QuerySpec, start_query
from headrace.spark.execution.query_restarts import DEFAULT_POLICY, RestartingThread
from headrace.spark.execution.runner import Runner
from headrace.spark.session.liveness import is_session_alive

POLL_SECONDS = 0.2
SIDE_INPUT_POLL_SECONDS = 1
WAITING_STATUS = "Waiting for "  # data to arrive, or the next trigger: Spark's status of a query


class QueryFailed(HeadraceError):
    """A query ended by itself."""


class PendingQuerySpec(NamedTuple):
    """A query that is planned at its first start: its name, its kind, and the function that plans it."""

    name: str
    stream: str
    views: tuple[str, ...]
    derives: tuple[str, ...]
    build_spec: Callable[[], QuerySpec]


class QueryRunner(RestartingThread):
    """Runs a query through its lanes; restarts it alone after a failure."""

    def __init__(
        self,
        spark: SparkSession,
        spec: QuerySpec | PendingQuerySpec,
        lane: Lane,
        upstream: Sequence[Runner] = (),
        policy: RestartPolicy = DEFAULT_POLICY,
    ) -> None:
        """`lane` is the fastest requested one; the query may only support a slower one."""
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
        """Drain the backlog, then run until stopped."""
        self.lane, self._has_worked = Lane.DRAINING, False
        try:
            self._drain_backlog()
            side_input = self._read_side_input()
            if not self._stopped.is_set():
                self._wait_for_end(self._start_query(self._final_lane), side_input)
        finally:
            self._stop_query()

    def _wait_for_end(self, query: StreamingQuery, side_input: object) -> None:
        """Wait until a query is stopped, or stop it to start again.

        That is needed when the data in its plan is outdated, or when an upstream query drains a backlog after an
        outage: its output may then have partitions far apart in time, as a backlog of its own would.
        """
        while not query.awaitTermination(SIDE_INPUT_POLL_SECONDS):
            has_upstream_backlog = any(runner.is_writing_backlog for runner in self._upstream)
            if self._stopped.is_set() or has_upstream_backlog or self._read_side_input() is not side_input:
                query.stop()
                return
        if not self._stopped.is_set():
            raise QueryFailed(f"The query {self.spec.name} ended by itself. It continues from its checkpoint.")

    def _read_side_input(self) -> object:
        return None if self._query_spec.side_input is None else self._query_spec.side_input()

    def _recover(self, failure: Exception) -> Exception | None:
        """Remove the cause of a failure, where it can be found."""
        try:
            if self._built_spec is None or self._built_spec.repair is None or not self._can_restart():
                return failure
            self._built_spec.repair(self._spark.newSession(), failure)
        except Exception as repair_error:  # noqa: BLE001  # any error of the repair is why the query cannot continue
            return repair_error
        return None

    def _can_restart(self) -> bool:
        return is_session_alive(self._spark)

    def _start_query(self, lane: Lane) -> StreamingQuery:
        self.lane = lane
        self._query = start_query(self._spark, self._query_spec, lane)
        if self._stopped.is_set():
            self._stop_query()  # `stop` may have run before the query started
        return self._query

    def _stop_query(self) -> None:
        if self._query is not None:
            with suppress(Exception):  # without Java there is no query
                self._query.stop()

    def _drain_backlog(self) -> None:
        """Process the backlog of this query, and of the upstream queries."""
        if self._query_spec.first_batch_ends is not None and not has_committed_batch(self._query_spec.checkpoint):
            self._start_query(Lane.DRAINING).awaitTermination()  # in real time a first batch has no end offsets
        while not self._stopped.is_set():
            if self._is_far_behind():
                self._start_query(Lane.DRAINING).awaitTermination()
            elif any(runner.is_draining for runner in self._upstream):
                self._stopped.wait(POLL_SECONDS)
            else:
                return

    @property
    def is_draining(self) -> bool:
        """Whether it drains a backlog, or is about to; a query that is down does not, until it is seen working."""
        return self.lane is Lane.DRAINING and self.is_alive() and not self.check_health().is_down

    @property
    def is_writing_backlog(self) -> bool:
        """Whether it is writing the results of a backlog."""
        query = self._query
        if query is None or self.lane is not Lane.DRAINING or not query.isActive:
            return False
        return has_finished_batch(query)

    def _is_far_behind(self) -> bool:
        """Whether the backlog is large, or the log starts after the position: in real time the query would hang."""
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
        """Whether the query's tasks have been seen working, not merely started."""
        query = self._query
        if query is None or self.lane is Lane.DRAINING or not query.isActive:
            return False
        # Between two checkpoint intervals there are no tasks for a moment: a query seen working once counts as running.
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
        """Rows that Spark's watermark has dropped since the start; the gate judged them on time, so it should be 0."""
        progress = self.last_progress()
        if progress.get("batchId", -1) > self._counted_batch:
            self._counted_batch = progress["batchId"]
            self._dropped_rows += sum(operator["numRowsDroppedByWatermark"] for operator in progress["stateOperators"])
        return self._dropped_rows

    def reached_offsets(self) -> dict[str, int]:
        """The next offset of each source partition, as of its last checkpoint; keys of several sources name topics."""
        if self._built_spec is None:
            return {}
        batch = self.last_progress().get("batchId", -1)
        if batch != self._reached_batch or not self._reached_offsets:
            with suppress(OSError, ValueError):  # Spark cleans up meanwhile: the next call succeeds
                committed = committed_partition_offsets(self._built_spec.checkpoint)
                has_one_topic = len(self._built_spec.source_topics) == 1
                self._reached_offsets = {
                    str(partition.number if has_one_topic else partition): offset
                    for partition, offset in committed.items()
                }
                self._reached_batch = batch
        return self._reached_offsets

    def last_progress(self) -> dict[str, Any]:
        """Spark's progress of the last finished batch; empty before the first."""
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
