"""Joins predictions with labels over weeks: in batches from the lake's tables, without state in memory.

gold/fraud_predictions ─┐
                        ├─▶ a batch: new rows, and predictions that close ─▶ changes, as the stream's join makes
silver/chargebacks ─────┘
"""

import logging
import threading
import time
from contextlib import suppress
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.lake.event_reader import read_table_rows
from headrace.lake.formats.parquet_files import to_date
from headrace.lake.ingestion.table_mapping import DAY
from headrace.lake.lake_table import LakeTable
from headrace.monitoring.outcomes.batch_changes import (
    ClockInterval,
    batch_changes,
    limit_clock,
    newest_arrivals,
    rows_up_to,
)
from headrace.monitoring.outcomes.batch_log import JoinBatch, JoinBatchLog, TableOffsets
from headrace.monitoring.outcomes.join_inputs import LabelJoinInputs, label_rows, prediction_rows
from headrace.monitoring.outcomes.label_join import LabelJoin, OutcomeJoinConfig
from headrace.monitoring.outcomes.lookback import lookback_us, require_retention_for
from headrace.spark.execution.watermark_delay import DRAINING_MARGIN_US
from headrace.spark.stateful.query_clock import EndOffsets

LOGGER = logging.getLogger("headrace.evaluate")
CHECKPOINT = "outcomes-of-the-lake"
TABLE_POLL_SECONDS = 1.0
RECORDS_PER_BATCH = 200_000  # new and closing ones: limits the memory of a batch's changes
PARTITIONS = 16  # in which the rows of a batch are sorted; Spark merges small ones
PAUSE_FACTOR = 4  # the pause before a batch, as a multiple of the last one's duration
CLOCK_STEPS_PER_WITHIN = 1000  # the clock advances in such parts of `within`: each step scans everything that waits


class BatchLabelJoin(LabelJoin):
    """Runs batch after batch; the end of each is recorded before it starts."""

    def __init__(self, spark: SparkSession, inputs: LabelJoinInputs, config: OutcomeJoinConfig) -> None:
        super().__init__(spark, inputs, config)
        self._spark.conf.set("spark.sql.shuffle.partitions", PARTITIONS)
        self._tables = [LakeTable(config.lake.folder, mapping) for mapping in inputs.mappings]
        self._checkpoint = config.checkpoint_folder(inputs.model, CHECKPOINT)
        self._batch_log = JoinBatchLog(self._checkpoint)
        self._last_batch, self._is_behind = JoinBatch(), False
        self._report_thread = threading.Thread(target=self._report_until_stopped, name=f"{self.name} told", daemon=True)

    def start(self) -> None:
        super().start()
        self._report_thread.start()

    def _run(self) -> None:
        self._wait_for_tables()
        self.open()
        took_s = 0.0
        while not self._stopped.wait(
            0 if self._is_behind else max(self._config.intervals.lake_batch_seconds, PAUSE_FACTOR * took_s)
        ):
            began_s = time.monotonic()
            self.run_batch()
            self._record_success()
            took_s = time.monotonic() - began_s

    def _wait_for_tables(self) -> None:
        """Wait until the lake's process has created the tables that are read; it reports one that it cannot create."""
        missing = [table for table in self._tables if table.format.read_schema() is None]
        if missing:
            LOGGER.info("%s waits for the tables %s", self.name, ", ".join(table.mapping.table for table in missing))
        while missing and not self._stopped.wait(TABLE_POLL_SECONDS):
            missing = [table for table in missing if table.format.read_schema() is None]

    def open(self) -> None:
        """Load the saved state, and repeat the batch that was started last, which a crash may have interrupted."""
        require_retention_for(self.model, self._config.lake.retention)
        self._open_writer(self._checkpoint)
        previous_batch, self._last_batch = self._batch_log.last_two_batches()
        self._clock_us = self._last_batch.clock_us
        if self._last_batch.number >= 0:
            self._write_batch(previous_batch, self._last_batch)

    def run_batch(self) -> bool:
        """Run one more batch; returns whether there was anything to do."""
        next_batch = self._plan_batch(self._last_batch)
        if replace(next_batch, number=self._last_batch.number) == self._last_batch:
            return False
        self._batch_log.record_batch(next_batch)
        self._write_batch(self._last_batch, next_batch)
        self._last_batch, self._clock_us = next_batch, next_batch.clock_us
        return True

    def _write_batch(self, previous_batch: JoinBatch, next_batch: JoinBatch) -> None:
        clock = ClockInterval(previous_batch.clock_us, next_batch.clock_us)
        self.outcome_writer.write_batch(
            batch_changes(self._batch_rows(previous_batch, next_batch), clock, self._policy), next_batch.number
        )

    def _plan_batch(self, last_batch: JoinBatch) -> JoinBatch:
        """The next batch; it differs from the last only in its number where there is nothing to do."""
        max_records, (predictions_end, labels_end) = (
            self._inputs.max_batch_records,
            (self._table_offsets(table) for table in self._tables),
        )
        prediction_offsets, label_offsets = (
            last_batch.predictions.advance_towards(predictions_end, max_records),
            last_batch.labels.advance_towards(labels_end, max_records),
        )
        next_batch = replace(
            last_batch, number=last_batch.number + 1, predictions=prediction_offsets, labels=label_offsets
        )
        if self._inputs.is_recorded:
            next_batch = next_batch.with_arrivals(newest_arrivals(self._batch_rows(last_batch, next_batch)))
        target_us = self._target_clock_us(last_batch, next_batch)
        clock_us = self._limited_clock_us(last_batch, next_batch, target_us)
        self._is_behind = clock_us < target_us or not (
            prediction_offsets.has_reached(predictions_end) and label_offsets.has_reached(labels_end)
        )
        return replace(next_batch, clock_us=clock_us)

    def _table_offsets(self, table: LakeTable) -> TableOffsets:
        mapping = table.mapping
        positions = table.positions(
            [partition.number for partition in self._offset_client.topic_end_offsets([mapping.topic])]
        )
        landed_offsets = {
            partition_number: at.last_written if mapping.may_replay else at.last_read
            for partition_number, at in positions.items()
        }
        return TableOffsets(landed_offsets, {number: at.last_read + 1 for number, at in positions.items()})

    def _target_clock_us(self, last_batch: JoinBatch, next_batch: JoinBatch) -> int:
        """The time up to which everything is known; unchanged where it would hardly advance."""
        if self._inputs.is_recorded:
            known_us: int | None = min(next_batch.newest_us) - DRAINING_MARGIN_US
        else:
            known_us = self._complete_until_us(self._joined_offsets(last_batch))
        if known_us is None or known_us < last_batch.clock_us + self._policy.within_us // CLOCK_STEPS_PER_WITHIN:
            return last_batch.clock_us
        return known_us

    def _limited_clock_us(self, last_batch: JoinBatch, next_batch: JoinBatch, target_us: int) -> int:
        if target_us == last_batch.clock_us:
            return target_us
        clock = ClockInterval(last_batch.clock_us, target_us)
        return limit_clock(
            self._batch_rows(last_batch, next_batch), clock, self._policy, self._inputs.max_batch_records
        )

    def _batch_rows(self, previous_batch: JoinBatch, next_batch: JoinBatch) -> DataFrame:
        since_us = previous_batch.clock_us - lookback_us(self._policy)
        prediction_events, label_events = (self._table_rows(table, since_us) for table in self._tables)
        return rows_up_to(
            prediction_rows(prediction_events, self._inputs),
            label_rows(label_events, self._inputs),
            previous_batch,
            next_batch,
        )

    def _table_rows(self, table: LakeTable, since_us: int) -> DataFrame:
        """The rows of a table since a time: predictions are ingested after their event, labels not later than that."""
        rows = read_table_rows(self._spark, self._config.lake.folder, table.mapping)
        if since_us < 0:
            return rows
        return rows.where(F.col(DAY) >= F.lit(to_date(since_us)))

    def _joined_offsets(self, last_batch: JoinBatch) -> EndOffsets:
        predictions_table, labels_table = self._tables
        return last_batch.end_offsets(predictions_table.mapping.topic, labels_table.mapping.topic)

    def _report_until_stopped(self) -> None:
        while not self._stopped.wait(self._config.intervals.report_seconds):
            with suppress(Exception):  # the broker restarts: the next report follows
                self._report_progress(
                    self._joined_offsets(self._last_batch), running=self._failure.down_since_us is None
                )

    def _report_failure(self) -> None:
        self._report_progress(self._joined_offsets(self._last_batch), running=False)
