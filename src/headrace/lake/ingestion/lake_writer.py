"""Ingests the topics of an app in parallel to its real-time queries, in a Spark session of its own, every minute."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from pyspark.sql import SparkSession

from headrace.errors import HeadraceError
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from headrace.kafka.status.heartbeat import publish_progress
from headrace.kafka.status.reports.lake import IngestionProgress
from headrace.lake.failure_state import FailureState
from headrace.lake.ingestion.ingest_step import IngestStepResult, TableIngester, new_write_session
from headrace.lake.lake import LakeConfig
from headrace.lake.lake_table import LakeTable
from headrace.lake.maintenance import MaintenanceConfig, MaintenanceThread

LOGGER = logging.getLogger("headrace.lake")
RECORDS_PER_STEP = 100_000  # limits the memory and duration of a step; a backlog takes several, without a pause
MAX_PRIORITY_WAIT_SECONDS = 60.0


class IngestContext(NamedTuple):
    """What workers share: the session that writes, the lake, and the producer of progress reports."""

    session: SparkSession
    lake: LakeConfig
    producer: Producer


class BacklogListener(Protocol):
    """A listener to the progress of ingestion."""

    def on_caught_up(self) -> None:
        """Called when everything but the newest events is ingested."""

    def on_fell_behind(self, waiting_records: int) -> None:
        """Called when this many records wait, more than a step takes."""


class LakeWriter:
    """Ingests topics until stopped: raw records and events in parallel, and derived tables at a lower priority.

    raw      ├ bronze ┤├ bronze ┤├ bronze ┤                                behind for as long as a step leaves some
    events   ├ silver ───┤├ silver ───┤├ late ┤├ dead ┤
    gold     ├ tiles ┤ · · · · · · · · · · · · · · · ├ tiles ┤├ tiles ┤    or after a minute
    """

    def __init__(
        self,
        spark: SparkSession,
        lake: LakeConfig,
        tables: Sequence[LakeTable],
        listener: "BacklogListener | None" = None,
    ) -> None:
        """Calls `listener` after a round of events when all but the newest are ingested, or far too many are left."""
        gold_tables = [table for table in tables if table.mapping.is_gold]
        context = IngestContext(new_write_session(spark), lake, Producer(lake.broker))
        raw_tables = [table for table in tables if table.mapping.is_bronze]
        self._event_tables = [table for table in tables if table not in (*raw_tables, *gold_tables)]
        self._listener, self._offset_client = listener, OffsetClient(lake.broker)
        self._priority_workers = (
            IngestWorker("lake-raw", context, raw_tables),
            IngestWorker("lake-events", context, self._event_tables, on_round_done=self._notify_listener),
        )
        self._workers = [
            *self._priority_workers,
            IngestWorker("lake-gold", context, gold_tables, priority_workers=self._priority_workers),
        ]
        self._maintenance = MaintenanceThread(
            [table.folder for table in tables], MaintenanceConfig(lake.retention), context.producer
        )

    def _notify_listener(self) -> None:
        if self._listener is None:
            return
        remaining = sum(worker.remaining for worker in self._priority_workers)
        with suppress(Exception):  # the broker restarts, or a table does not exist yet: the next round checks again
            if remaining > RECORDS_PER_STEP:
                self._listener.on_fell_behind(remaining)
            elif not remaining and self._count_pending_raw_records() <= RECORDS_PER_STEP:
                self._listener.on_caught_up()

    def _count_pending_raw_records(self) -> int:
        """Raw records beyond the last event in the lake: most of a backlog has not even passed the gate."""
        ends = self._offset_client.topic_end_offsets(list({table.mapping.offset_topic for table in self._event_tables}))
        last_offsets: dict[tuple[str, int], int] = {}
        for table in self._event_tables:
            partition_numbers = [
                partition.number for partition in ends if partition.topic == table.mapping.offset_topic
            ]
            for partition_number, position in table.positions(partition_numbers).items():
                topic_partition = table.mapping.offset_topic, partition_number
                last_offsets[topic_partition] = max(position.last_written, last_offsets.get(topic_partition, -1))
        return sum(end - 1 - last_offsets[at.topic, at.number] for at, end in ends.items())

    def start(self) -> None:
        self._maintenance.start()
        for worker in self._workers:
            worker.start()

    def stop(self) -> None:
        for worker in self._workers:
            worker.stop()
        self._maintenance.stop()

    def join(self, timeout: float | None = None) -> None:
        for worker in self._workers:
            worker.join(timeout)


class IngestWorker(threading.Thread):
    """Ingests topics, one after another. A failed table is retried after a pause, and does not delay the others."""

    def __init__(
        self,
        name: str,
        context: IngestContext,
        tables: Sequence[LakeTable],
        on_round_done: Callable[[], None] = lambda: None,
        priority_workers: Sequence["IngestWorker"] = (),
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.remaining = 1 if tables else 0  # a lower bound, until the first round
        self._on_round_done, self._priority_workers = on_round_done, priority_workers
        self._ingesters = [
            TableIngester(context.session, context.lake.broker, table, RECORDS_PER_STEP) for table in tables
        ]
        self._failures = {ingester: FailureState() for ingester in self._ingesters}
        self._last_results = dict.fromkeys(self._ingesters, IngestStepResult(0, 0, {}))
        self._interval_s, self._producer = context.lake.ingest_interval_s, context.producer
        self._stopped = threading.Event()

    def run(self) -> None:
        pause_s = self._interval_s
        while not self._stopped.wait(pause_s):
            self._wait_for_priority_workers()
            started = time.monotonic()
            self.remaining = sum(self._ingest(ingester) for ingester in self._ingesters)
            pause_s = 0 if self.remaining else max(0.0, started + self._pause_s() - time.monotonic())
            self._on_round_done()

    def _pause_s(self) -> float:
        """The time until the next round, or until the first failed table is retried."""
        return min([self._interval_s, *(state.pause_s for state in self._failures.values() if state.failures)])

    def _wait_for_priority_workers(self) -> None:
        deadline = time.monotonic() + MAX_PRIORITY_WAIT_SECONDS
        while (
            any(worker.remaining for worker in self._priority_workers)
            and time.monotonic() < deadline
            and not self._stopped.wait(1.0)
        ):
            pass

    def _ingest(self, ingester: TableIngester) -> int:
        """Take a step; returns how many records are left for another one at once."""
        state, started = self._failures[ingester], time.monotonic()
        if self._stopped.is_set() or not state.is_due:
            return 0
        try:
            self._last_results[ingester] = ingester.ingest()
        except Exception as failure:  # noqa: BLE001  # the broker restarts, or the disk is full: no record is lost by waiting
            if not self._stopped.is_set():
                self._record_failure(ingester, failure, time.monotonic() - started)
            return 0
        if state.record_success():
            LOGGER.info("Ingests %s again", ingester.table.mapping.table)
        self._report(ingester, self._last_results[ingester], time.monotonic() - started)
        return self._last_results[ingester].remaining

    def _record_failure(self, ingester: TableIngester, failure: Exception, seconds: float) -> None:
        state, table = self._failures[ingester], ingester.table.mapping.table
        if state.record_failure(failure):
            trace = None if isinstance(failure, HeadraceError) else failure  # its message is sufficient
            LOGGER.error("Could not ingest %s; it is retried: %s", table, state.error, exc_info=trace)
        else:
            LOGGER.error("Could not ingest %s (failure %s): %s", table, state.failures, state.error)
        self._report(ingester, ingester.failed_step_result(self._last_results[ingester]), seconds)

    def _report(self, ingester: TableIngester, result: IngestStepResult, seconds: float) -> None:
        mapping, at_us = ingester.table.mapping, time.time_ns() // 1000
        next_offsets = {str(partition): offset for partition, offset in result.next_offsets.items()}
        state = self._failures[ingester]
        progress = IngestionProgress(
            landed=mapping.table,
            at_us=at_us,
            taken=result.ingested,
            left=result.remaining,
            seconds=seconds,
            topic=mapping.topic,
            reached=next_offsets,
            down_since_us=state.down_since_us,
            error=state.error,
        )
        with suppress(Exception):  # the broker is down: the next step reports
            publish_progress(self._producer, progress)

    def stop(self) -> None:
        self._stopped.set()
