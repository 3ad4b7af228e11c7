"""Joins predictions with labels within a day: in the stream, with ids in state until then."""

import json
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.kafka.record import Partition
from headrace.monitoring.outcomes.join_inputs import LabelJoinInputs
from headrace.monitoring.outcomes.join_query import PARTITIONS, outcome_changes
from headrace.monitoring.outcomes.label_join import LabelJoin, OutcomeJoinConfig
from headrace.spark.checkpoints.checkpoint_files import prepare_checkpoint
from headrace.spark.execution.query_manager import parse_watermark_us
from headrace.spark.stateful.query_clock import EndOffsets

CHECKPOINT = "outcomes"


class StreamingLabelJoin(LabelJoin):
    """A continuous query with its state in a checkpoint."""

    def __init__(self, spark: SparkSession, inputs: LabelJoinInputs, config: OutcomeJoinConfig) -> None:
        super().__init__(spark, inputs, config)
        self._spark.conf.set("spark.sql.shuffle.partitions", PARTITIONS)
        self._query: StreamingQuery | None = None

    def stop(self) -> None:
        super().stop()
        if self._query is not None:
            self._query.stop()

    def _run(self) -> None:
        checkpoint = self._config.checkpoint_folder(self._inputs.model, CHECKPOINT)
        prepare_checkpoint(checkpoint)
        self._open_writer(checkpoint)
        self._query = (
            outcome_changes(self._spark, self._inputs)
            .writeStream.queryName(self.name)
            .foreachBatch(self.outcome_writer.write_batch)
            .option("checkpointLocation", checkpoint.as_uri())
            .outputMode("update")
            .trigger(processingTime=f"{self._config.intervals.stream_batch_seconds} seconds")
            .start()
        )
        try:
            self._monitor_query(self._query)
        finally:  # a broker outage ends this loop, and not always the query: two of one name cannot run
            self._query.stop()

    def _monitor_query(self, query: StreamingQuery) -> None:
        while not self._stopped.wait(self._config.intervals.report_seconds):
            if not query.isActive:
                query.awaitTermination()  # raises the failure that ended it
                return
            progress = json.loads(query.lastProgress.json) if query.lastProgress is not None else {}
            joined_offsets = _joined_offsets(progress)
            if joined_offsets:
                self._record_success()
            if self._inputs.is_recorded:
                self._clock_us = parse_watermark_us(progress) or 0
            else:
                self._publish_clock(self._complete_until_us(joined_offsets))
            operators = progress.get("stateOperators", [])
            self._report_progress(
                joined_offsets,
                running=query.isActive,
                state_rows=sum(operator["numRowsTotal"] for operator in operators),
                state_bytes=sum(operator["memoryUsedBytes"] for operator in operators),
            )

    def _publish_clock(self, clock_us: int | None) -> None:
        if clock_us is not None:
            self._clock_us = clock_us
            self._producer.send(self._inputs.model.clock, str(self._clock_us).encode())


def _joined_offsets(progress: dict[str, Any]) -> EndOffsets:
    """The offsets of the last committed batch."""
    topics = [
        topic_ends for source in progress.get("sources", []) for topic_ends in (source["endOffset"] or {}).items()
    ]
    return {Partition(topic, int(partition)): end for topic, ends in topics for partition, end in ends.items()}
