"""Runs one operation as a query of its own, and tells it the time.

    ├── data comes: the clock is told every second ──┤├── nothing comes: every `idle` ──▶

The clock is told only as far as it is proven; where recorded history tells its own time, it is told only once nothing
has come for `idle`: up to the newest arrival, so that what is complete by then is closed.
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

from headrace.declare.derivation import Derivation, Derived
from headrace.errors import HeadraceError
from headrace.log.dialects import spark_words
from headrace.log.offsets import Offsets
from headrace.log.produce import Producer
from headrace.log.records import Partition
from headrace.stream.checkpoints import committed_places, committed_watermark_us, lag, prepare
from headrace.stream.clock import Clock, RecordedClock, now_us
from headrace.stream.gate_progress import GateWatch
from headrace.stream.keyed import PARTITIONS, Keyed, made
from headrace.stream.lanes import BACKLOG, KAFKA_SINK, Lane
from headrace.stream.pilot import LOOK_SECONDS, QueryFailed, has_finished_trigger
from headrace.stream.query_restarts import DEFAULT_POLICY, RestartingThread, RestartPolicy
from headrace.stream.session_liveness import is_session_alive
from headrace.stream.start_turns import StartTurns

TELL_SECONDS = 1.0
BATCH_SECONDS = 1  # as often as the time is told: more often would only cost cores
FROM_THE_FIRST, FROM_NOW = -2, -1  # as Spark's Kafka source writes them
LOGGER = logging.getLogger("headrace.stream")


@dataclass(frozen=True)
class KeyedSpec:
    """One operation as a query: what it reads and writes, and where it keeps its place."""

    keyed: Keyed
    checkpoint: Path
    gate_of: Callable[[str], Path]  # the checkpoint of the gate of a stream
    clock_of: Callable[[Derivation], int]  # up to when a derivation has written all it knows
    since_us: int | None = None  # when what it reads was appended; None: all there is

    @property
    def name(self) -> str:
        return self.keyed.operation.query

    @property
    def stream(self) -> str:
        return self.keyed.operation.inputs[0].name if self.keyed.view else self.keyed.outputs[0].name

    @property
    def views(self) -> tuple[str, ...]:
        return (self.keyed.view.name,) if self.keyed.view else ()

    @property
    def derives(self) -> tuple[str, ...]:
        return tuple(stream.name for stream in self.keyed.outputs)

    @property
    def slots(self) -> int:
        return PARTITIONS


def started(spark: SparkSession, spec: KeyedSpec, run_id: str) -> StreamingQuery:
    """Start an operation in a session of its own; of the clock it hears what is told under the id of this run."""
    prepare(spec.checkpoint)
    spark.conf.set("spark.sql.shuffle.partitions", PARTITIONS)
    return (
        made(spark, spec.keyed, _begin(spec), run_id)
        .writeStream.format("kafka")
        .queryName(spec.name)
        .options(**spark_words(spec.keyed.broker))
        .options(**KAFKA_SINK)
        .option("checkpointLocation", spec.checkpoint.as_uri())
        .outputMode("update")
        .trigger(processingTime=f"{BATCH_SECONDS} seconds")
        .start()
    )


def _begin(spec: KeyedSpec) -> dict[str, dict[int, int]]:
    """Where a first batch begins: times of before this query are about what it has not read."""
    keyed, offsets = spec.keyed, Offsets(spec.keyed.broker)
    begin: dict[str, dict[int, int]] = {topic: {} for topic in [*keyed.topics, keyed.operation.clock]}
    for partition in offsets.every_partition(list(begin)):
        first = FROM_NOW if partition.topic == keyed.operation.clock else FROM_THE_FIRST
        begin[partition.topic][partition.number] = first
    if spec.since_us is not None:
        for topic in keyed.topics:
            begin[topic] = dict(enumerate(offsets.since(topic, spec.since_us)))
    return begin


class OperationRunner(RestartingThread):
    """Runs an operation until it is stopped; what fails is begun again, alone, and goes on where it was."""

    def __init__(
        self,
        spark: SparkSession,
        spec: KeyedSpec,
        starts: StartTurns | None = None,
        prepare: Callable[[], None] | None = None,
        policy: RestartPolicy = DEFAULT_POLICY,
    ) -> None:
        """`starts` are the turns in which operations of a driver start, `prepare` is called once before the first."""
        super().__init__(spec.name, policy)
        self.spec, self._prepare = spec, prepare
        self._spark, self._starts = spark.newSession(), starts or StartTurns()
        self._log = ClockLog(Offsets(spec.keyed.broker), Producer(spec.keyed.broker))
        self._run: OperationRun | None = None

    def _attempt(self) -> None:
        if self._prepare is not None:
            self._prepare()
            self._prepare = None
        try:
            with self._starts.turn(self._stopped) as turn:
                if turn is None:
                    return
                self._run = run = OperationRun(self._spark, self.spec, self._log)
                while not run.has_begun and not turn.is_over and not self._stopped.wait(LOOK_SECONDS):
                    run.watch()
            while not self._stopped.wait(LOOK_SECONDS):
                run.watch()
        finally:
            self._stop_query()

    def _stop_query(self) -> None:
        if self._run is not None:
            with suppress(Exception):  # where Java is gone, so is the query
                self._run.query.stop()

    def _can_restart(self) -> bool:
        return is_session_alive(self._spark)

    def stop(self) -> None:
        super().stop()
        self._stop_query()

    @property
    def lane(self) -> Lane:
        return Lane.DRAINING if self._run is None else self._run.lane

    def running(self) -> bool:
        """Whether it has caught up, and its first batch is done: its Python workers are there."""
        run = self._run
        return run is not None and run.lane is not Lane.DRAINING and run.query.isActive and run.has_begun

    def _works(self) -> bool:
        run = self._run
        return run is not None and run.query.isActive and run.has_begun

    @property
    def draining(self) -> bool:
        return self.lane is Lane.DRAINING and self.is_alive() and not self.observe().is_down

    @property
    def flooding(self) -> bool:
        return self.draining and self._works()

    def last_progress(self) -> dict[str, Any]:
        """Spark's own account of the last finished batch; empty before the first."""
        progress = self._run.query.lastProgress if self._run is not None else None
        return json.loads(progress.json) if progress is not None else {}

    def dropped_by_watermark(self) -> int:
        """None can be: no row that carries an event carries a time that Spark looks at."""
        return 0

    def reached(self) -> dict[str, int]:
        """The next offset of each partition of its input, as of its last batch; of several inputs, by place."""
        alone, read = len(self.spec.keyed.topics) == 1, {} if self._run is None else self._run.read
        return {str(place.number if alone else place): offset for place, offset in read.items()}


class ClockLog(NamedTuple):
    """The log as a clock needs it: who knows where topics end, and who sends what is told."""

    offsets: Offsets
    teller: Producer


class OperationRun:
    """An operation from one start of its query to its end, and the clock that is told to it.

    Nothing of it is carried over to the next start: what is told under the id of an earlier one is not heard.
    """

    def __init__(self, spark: SparkSession, spec: KeyedSpec, log: ClockLog) -> None:
        self._spec, self._id, self.lane = spec, uuid4().hex, Lane.DRAINING
        self._offsets, self._teller = log
        self.read, self._came_s, self._looked_s = dict[Partition, int](), 0.0, 0.0
        self._has_begun = False
        self.query = started(spark, spec, self._id)

    @property
    def has_begun(self) -> bool:
        """Whether its first batch is done, or there was nothing to do."""
        self._has_begun = self._has_begun or has_finished_trigger(self.query)
        return self._has_begun

    def watch(self) -> None:
        """See how far the query is and tell it the time; raises what ended it."""
        if not self.query.isActive:
            self.query.awaitTermination()  # raises what ended it
            raise QueryFailed(f"The query {self._spec.name} ended by itself. It goes on where it was.")
        try:
            self._look()
            if self.lane is Lane.DRAINING and self._has_caught_up():
                self.lane = Lane.MICRO_BATCH
            if time.monotonic() >= self._due_s:
                self._tell()
        except (HeadraceError, OSError, ValueError) as passing:
            # A broker that restarts, a batch that Spark cleans up meanwhile: the next look finds it.
            LOGGER.debug("%s: no look at the clock: %s", self._spec.name, passing)

    def _look(self) -> None:
        """See how far it has read."""
        topics, places = self._spec.keyed.topics, committed_places(self._spec.checkpoint)
        read = {place: offset for place, offset in places.items() if place.topic in topics}
        if read != self.read:
            self.read, self._came_s = read, time.monotonic()

    def _has_caught_up(self) -> bool:
        """Whether little is waiting."""
        topics = self._spec.keyed.topics
        return lag(self._spec.checkpoint, self._offsets.begin(topics), self._offsets.end(topics)) <= BACKLOG

    @property
    def _due_s(self) -> float:
        """When to look at the clock next."""
        idle_s = self._spec.keyed.operation.idle_us / 1_000_000
        if self._spec.keyed.tells_its_own_time:  # records move it, but where none come
            return max(self._came_s, self._looked_s) + idle_s
        return self._looked_s + (min(TELL_SECONDS, idle_s) if self._came_s > self._looked_s else idle_s)

    def _tell(self) -> None:
        self._looked_s = time.monotonic()
        clock_us = self._clock.look(self.read)
        if clock_us is not None and clock_us > committed_watermark_us(self._spec.checkpoint):
            self._teller.send(self._spec.keyed.operation.clock, str(clock_us).encode(), key=self._id)

    @cached_property
    def _clock(self) -> Clock | RecordedClock:
        inputs = tuple(dict.fromkeys(self._spec.keyed.operation.inputs))
        if self._spec.keyed.tells_its_own_time:
            return RecordedClock([stream.clean for stream in inputs], self._offsets)
        derived = [stream.made_by for stream in inputs if isinstance(stream, Derived)]
        gates = [GateWatch(stream, self._offsets, self._spec.gate_of(stream.name)) for stream in inputs]
        until_us = partial(self._known_until_us, derived)
        return Clock(gates, self._offsets, known_until_us=until_us, in_order=not derived)

    def _known_until_us(self, derived: Sequence[Derivation]) -> int:
        return min([now_us(), *map(self._spec.clock_of, derived)])
