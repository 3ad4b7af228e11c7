"""Runs one operation as a query, and publishes its clock.

    ├── with data: a clock record every second ──────┤├── without data: every `idle` ──▶

The clock advances only as far as it is proven. With recorded history it advances to the newest arrival once nothing
has come for `idle`, so that what is complete by then is closed.
"""

import json
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.declare.operations.derived_stream import Derivation, DerivedStream
from headrace.errors import HeadraceError
from headrace.kafka.client.security_properties import spark_kafka_options
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import Partition
from headrace.kafka.workers.worker_health import RestartPolicy
from headrace.spark.checkpoints.checkpoint_files import (
    committed_partition_offsets,
    committed_watermark_us,
    prepare_checkpoint,
    query_lag,
)
from headrace.spark.execution.lanes import BACKLOG_RECORDS, KAFKA_SINK_OPTIONS, Lane
from headrace.spark.execution.query_restarts import DEFAULT_POLICY, RestartingThread
from headrace.spark.execution.query_runner import POLL_SECONDS, QueryFailed, has_finished_trigger
from headrace.spark.gate.gate_progress import GateProgressTracker
from headrace.spark.session.liveness import is_session_alive
from headrace.spark.stateful.keyed_operator import STATE_PARTITIONS, KeyedOperatorConfig, run_keyed_operator
from headrace.spark.stateful.query_clock import QueryClock, RecordedClock, now_us
from headrace.spark.stateful.start_lock import StartLock

CLOCK_SECONDS = 1.0
TRIGGER_SECONDS = 1  # as often as the clock advances: more often would only cost CPU
EARLIEST_OFFSET, LATEST_OFFSET = -2, -1  # as Spark's Kafka source writes them
LOGGER = logging.getLogger("headrace.stream")


@dataclass(frozen=True)
class OperationSpec:
    """One operation as a query: its inputs, outputs and checkpoint."""

    config: KeyedOperatorConfig
    checkpoint: Path
    gate_checkpoint: Callable[[str], Path]  # the checkpoint of the gate of a stream
    derivation_clock_us: Callable[[Derivation], int]  # the time up to which a derivation's output is complete
    since_us: int | None = None  # the append time of the first records to read; None: all records

    @property
    def name(self) -> str:
        return self.config.operation.query

    @property
    def stream(self) -> str:
        return self.config.operation.inputs[0].name if self.config.view else self.config.outputs[0].name

    @property
    def views(self) -> tuple[str, ...]:
        return (self.config.view.name,) if self.config.view else ()

    @property
    def derives(self) -> tuple[str, ...]:
        return tuple(stream.name for stream in self.config.outputs)

    @property
    def task_slots(self) -> int:
        return STATE_PARTITIONS


def start_operation(spark: SparkSession, spec: OperationSpec, run_id: str) -> StreamingQuery:
    """Start an operation in a session of its own; it follows only clock records with the id of this run."""
    prepare_checkpoint(spec.checkpoint)
    spark.conf.set("spark.sql.shuffle.partitions", STATE_PARTITIONS)
    return (
        run_keyed_operator(spark, spec.config, _start_offsets(spec), run_id)
        .writeStream.format("kafka")
        .queryName(spec.name)
        .options(**spark_kafka_options(spec.config.broker))
        .options(**KAFKA_SINK_OPTIONS)
        .option("checkpointLocation", spec.checkpoint.as_uri())
        .outputMode("update")
        .trigger(processingTime=f"{TRIGGER_SECONDS} seconds")
        .start()
    )


def _start_offsets(spec: OperationSpec) -> dict[str, dict[int, int]]:
    """The start offsets of the first batch; older clock records do not apply to this query."""
    config, offsets = spec.config, OffsetClient(spec.config.broker)
    start_offsets: dict[str, dict[int, int]] = {topic: {} for topic in [*config.input_topics, config.operation.clock]}
    for partition in offsets.require_partitions(list(start_offsets)):
        start_offset = LATEST_OFFSET if partition.topic == config.operation.clock else EARLIEST_OFFSET
        start_offsets[partition.topic][partition.number] = start_offset
    if spec.since_us is not None:
        for topic in config.input_topics:
            start_offsets[topic] = dict(enumerate(offsets.offsets_for_time(topic, spec.since_us)))
    return start_offsets


class OperationRunner(RestartingThread):
    """Runs an operation until it is stopped; restarts it alone after a failure, from its checkpoint."""

    def __init__(
        self,
        spark: SparkSession,
        spec: OperationSpec,
        start_lock: StartLock | None = None,
        before_first_start: Callable[[], None] | None = None,
        policy: RestartPolicy = DEFAULT_POLICY,
    ) -> None:
        """`start_lock` limits concurrent starts in a driver; `before_first_start` is called once before the first."""
        super().__init__(spec.name, policy)
        self.spec, self._before_first_start = spec, before_first_start
        self._spark, self._start_lock = spark.newSession(), start_lock or StartLock()
        self._clock_clients = ClockClients(OffsetClient(spec.config.broker), Producer(spec.config.broker))
        self._run: OperationRun | None = None

    def _attempt(self) -> None:
        if self._before_first_start is not None:
            self._before_first_start()
            self._before_first_start = None
        try:
            with self._start_lock.acquire_slot(self._stopped) as turn:
                if turn is None:
                    return
                self._run = run = OperationRun(self._spark, self.spec, self._clock_clients)
                while not run.has_begun and not turn.is_over and not self._stopped.wait(POLL_SECONDS):
                    run.poll()
            while not self._stopped.wait(POLL_SECONDS):
                run.poll()
        finally:
            self._stop_query()

    def _stop_query(self) -> None:
        if self._run is not None:
            with suppress(Exception):  # without Java there is no query
                self._run.query.stop()

    def _can_restart(self) -> bool:
        return is_session_alive(self._spark)

    def stop(self) -> None:
        super().stop()
        self._stop_query()

    @property
    def lane(self) -> Lane:
        return Lane.DRAINING if self._run is None else self._run.lane

    def is_running(self) -> bool:
        """Whether it has caught up, and its first batch is done, so that its Python workers are up."""
        run = self._run
        return run is not None and run.lane is not Lane.DRAINING and run.query.isActive and run.has_begun

    def _is_working(self) -> bool:
        run = self._run
        return run is not None and run.query.isActive and run.has_begun

    @property
    def is_draining(self) -> bool:
        return self.lane is Lane.DRAINING and self.is_alive() and not self.check_health().is_down

    @property
    def is_writing_backlog(self) -> bool:
        return self.is_draining and self._is_working()

    def last_progress(self) -> dict[str, Any]:
        """Spark's progress of the last finished batch; empty before the first."""
        progress = self._run.query.lastProgress if self._run is not None else None
        return json.loads(progress.json) if progress is not None else {}

    def count_dropped_rows(self) -> int:
        """Always 0: rows with an event have no time that Spark's watermark applies to."""
        return 0

    def reached_offsets(self) -> dict[str, int]:
        """The next offset of each partition of its input, as of its last batch; with several inputs, by partition."""
        has_one_topic, read_offsets = (
            len(self.spec.config.input_topics) == 1,
            {} if self._run is None else self._run.read_offsets,
        )
        return {
            str(partition.number if has_one_topic else partition): offset for partition, offset in read_offsets.items()
        }


class ClockClients(NamedTuple):
    """The clients of a clock: one reads end offsets, one publishes the clock."""

    offsets: OffsetClient
    producer: Producer


class OperationRun:
    """An operation from one start of its query to its end, with a clock of its own.

    Nothing carries over to the next start: a clock record with the id of an earlier run is ignored.
    """

    def __init__(self, spark: SparkSession, spec: OperationSpec, clients: ClockClients) -> None:
        self._spec, self._run_id, self.lane = spec, uuid4().hex, Lane.DRAINING
        self._offsets, self._producer = clients
        self.read_offsets, self._last_read_s, self._last_check_s = dict[Partition, int](), 0.0, 0.0
        self._has_begun = False
        self.query = start_operation(spark, spec, self._run_id)

    @property
    def has_begun(self) -> bool:
        """Whether its first batch is done, or there was nothing to do."""
        self._has_begun = self._has_begun or has_finished_trigger(self.query)
        return self._has_begun

    def poll(self) -> None:
        """Update the progress of the query and publish its clock; raises the failure that ended it."""
        if not self.query.isActive:
            self.query.awaitTermination()  # raises the failure that ended it
            raise QueryFailed(f"The query {self._spec.name} ended by itself. It continues from its checkpoint.")
        try:
            self._update_read_offsets()
            if self.lane is Lane.DRAINING and self._has_caught_up():
                self.lane = Lane.MICRO_BATCH
            if time.monotonic() >= self._next_check_s:
                self._send_clock()
        except (HeadraceError, OSError, ValueError) as error:
            # The broker restarts, or Spark cleans up a batch meanwhile: the next poll succeeds.
            LOGGER.debug("Could not update the clock of %s: %s", self._spec.name, error)

    def _update_read_offsets(self) -> None:
        """Update the offsets it has read."""
        topics, committed = self._spec.config.input_topics, committed_partition_offsets(self._spec.checkpoint)
        read_offsets = {partition: offset for partition, offset in committed.items() if partition.topic in topics}
        if read_offsets != self.read_offsets:
            self.read_offsets, self._last_read_s = read_offsets, time.monotonic()

    def _has_caught_up(self) -> bool:
        """Whether the backlog is small."""
        topics = self._spec.config.input_topics
        return (
            query_lag(
                self._spec.checkpoint,
                self._offsets.topic_start_offsets(topics),
                self._offsets.topic_end_offsets(topics),
            )
            <= BACKLOG_RECORDS
        )

    @property
    def _next_check_s(self) -> float:
        """When to compute the clock next."""
        idle_s = self._spec.config.operation.idle_us / 1_000_000
        if self._spec.config.is_recorded:  # records advance it, unless none arrive
            return max(self._last_read_s, self._last_check_s) + idle_s
        return self._last_check_s + (min(CLOCK_SECONDS, idle_s) if self._last_read_s > self._last_check_s else idle_s)

    def _send_clock(self) -> None:
        self._last_check_s = time.monotonic()
        clock_us = self._clock.advance(self.read_offsets)
        if clock_us is not None and clock_us > committed_watermark_us(self._spec.checkpoint):
            self._producer.send(self._spec.config.operation.clock, str(clock_us).encode(), key=self._run_id)

    @cached_property
    def _clock(self) -> QueryClock | RecordedClock:
        inputs = tuple(dict.fromkeys(self._spec.config.operation.inputs))
        if self._spec.config.is_recorded:
            return RecordedClock([stream.clean for stream in inputs], self._offsets)
        derived = [stream.made_by for stream in inputs if isinstance(stream, DerivedStream)]
        gates = [
            GateProgressTracker(stream, self._offsets, self._spec.gate_checkpoint(stream.name)) for stream in inputs
        ]
        complete_until_us = partial(self._complete_until_us, derived)
        return QueryClock(gates, self._offsets, complete_until_us=complete_until_us, is_in_arrival_order=not derived)

    def _complete_until_us(self, derived: Sequence[Derivation]) -> int:
        return min([now_us(), *map(self._spec.derivation_clock_us, derived)])
