"""Plays a script on Spark and a broker: the same operation, with its own topics and the script's clock.

send       ──▶ clean topics, as a gate writes them
watermark  ──▶ NAME.clock, then processAllAvailable
kill       ──▶ processAllAvailable, stop, delete the last commit, restart
"""

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from uuid import uuid4

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.declare.operations.derived_stream import DerivedStream, StreamOperation
from headrace.declare.streams.stream import Stream
from headrace.kafka.consumers.last_records import LastRecordsReader
from headrace.kafka.headers import RAISED_HEADER, position_headers
from headrace.kafka.producer.producer import Producer
from headrace.kafka.topics import ensure_topics
from headrace.operators.operator import InputEvent
from headrace.spark.stateful.keyed_operator import KeyedOperatorConfig
from headrace.spark.stateful.operation_query import OperationSpec, start_operation
from headrace.spark.stateful.output_encoding import to_json_bytes
from headrace.testing.scripts.steps import KillStep, OutputRow, RowsByOutput, ScriptStep, WatermarkStep
from headrace.tiles.events.event_parser import parse_event

AnyStream = TypeVar("AnyStream", bound=Stream)
ALL_RECORDS = 10**9


class SparkHost:
    """Plays scripts on a session of Spark and a broker."""

    def __init__(self, spark: SparkSession, broker: str) -> None:
        self._spark, self._broker = spark, broker

    def play(
        self, operation: StreamOperation, outputs: Sequence[DerivedStream], steps: Sequence[ScriptStep]
    ) -> RowsByOutput:
        """The rows that were written, each once, by output."""
        config = _with_unique_topics(operation, outputs, self._broker, uuid4().hex[:8])
        ensure_topics(self._broker, [*config.operation.inputs, *config.outputs])
        with TemporaryDirectory() as folder:
            script_run = _SparkScriptRun(self._spark.newSession(), config, Path(folder) / "checkpoint")
            try:
                for step in steps:
                    script_run.apply_step(step)
                script_run.process_all()
            finally:
                script_run.stop()
        return {stream.output: self._rows(stream) for stream in config.outputs}

    def _rows(self, stream: DerivedStream) -> list[OutputRow]:
        """The rows that were written; rows with one id must be the same."""
        rows: dict[str, OutputRow] = {}
        for record in LastRecordsReader(self._broker, stream.name, ALL_RECORDS).read_new_records():
            if (error := RAISED_HEADER.read(record)) is not None:
                raise AssertionError(f"the operator of {stream.name} raised {error!r}")
            row = parse_event(stream.schema, record.value)
            if rows.setdefault(row[stream.id], row) != row:
                raise AssertionError(f"{row[stream.id]} was written twice with different values: {row}")
        return list(rows.values())


class _SparkScriptRun:
    """A query that a script drives."""

    def __init__(self, spark: SparkSession, config: KeyedOperatorConfig, checkpoint: Path) -> None:
        self._spark, self._config, self._run_id = spark, config, uuid4().hex
        self._spec = OperationSpec(config, checkpoint, lambda _: checkpoint, lambda _: 0)
        self._producer = Producer(config.broker)
        self._query: StreamingQuery = start_operation(spark, self._spec, self._run_id)

    def apply_step(self, step: ScriptStep) -> None:
        match step:
            case InputEvent():
                self._send(step)
            case WatermarkStep(at_us):
                self._producer.flush()  # events come before the clock
                self._producer.send(self._config.operation.clock, str(at_us).encode(), key=self._run_id)
                self.process_all()
            case KillStep():
                self._kill()

    def process_all(self) -> None:
        """Wait until the query has processed everything."""
        self._producer.flush()
        self._query.processAllAvailable()

    def stop(self) -> None:
        self._query.stop()

    def _send(self, event: InputEvent) -> None:
        stream = self._config.operation.inputs[event.input_index]
        headers = position_headers(event.offset, event.arrival_us)
        self._producer.send(stream.clean, to_json_bytes(event.values, stream.schema), partition=0, headers=headers)

    def _kill(self) -> None:
        """Crash: the last batch has written its output, but not its commit."""
        self.process_all()
        self.stop()
        commits = self._spec.checkpoint / "commits"
        last_batch = max((int(file.name) for file in commits.glob("[0-9]*")), default=None)
        if last_batch is not None:
            (commits / str(last_batch)).unlink()
            (commits / f".{last_batch}.crc").unlink(missing_ok=True)
        self._query = start_operation(self._spark, self._spec, self._run_id)


def _with_unique_topics(
    operation: StreamOperation, outputs: Sequence[DerivedStream], broker: str, suffix: str
) -> KeyedOperatorConfig:
    """The operation on topics of its own."""
    inputs = tuple(_rename_stream(stream, suffix) for stream in operation.inputs)
    renamed_operation = replace(operation, name=f"{operation.name}-{suffix}", inputs=inputs)
    return KeyedOperatorConfig(
        renamed_operation,
        tuple(_rename_stream(stream, suffix, made_by=renamed_operation) for stream in outputs),
        broker,
    )


def _rename_stream(stream: AnyStream, suffix: str, **overrides: Any) -> AnyStream:
    stream_copy = copy.copy(stream)
    for field, value in {"name": f"{stream.name}-{suffix}", **overrides}.items():
        object.__setattr__(stream_copy, field, value)
    return stream_copy
