"""A script on Spark and a broker: the same operation, with topics of its own and the script's clock.

send       ──▶ clean topics, as a gate writes them
watermark  ──▶ NAME.clock, then until there is nothing left to do
kill       ──▶ until there is nothing left to do, stopped, its last commit taken away, started again
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

from headrace.declare.derivation import Derived, Operation
from headrace.declare.stream import Stream
from headrace.log.ledger import ARRIVAL, OFFSET
from headrace.log.produce import Producer
from headrace.log.tail import Tail
from headrace.log.topics import ensure_topics
from headrace.operators.operator import Arrived
from headrace.scripts.acts import Act, Kill, Row, Rows, Watermark
from headrace.stream.gate import RAISED
from headrace.stream.keyed import Keyed
from headrace.stream.making import as_json
from headrace.stream.operation import KeyedSpec, started
from headrace.tiles.events import read_event

AnyStream = TypeVar("AnyStream", bound=Stream)
ALL = 10**9


class OnSpark:
    """Plays scripts on a session of Spark and a broker."""

    def __init__(self, spark: SparkSession, broker: str) -> None:
        self._spark, self._broker = spark, broker

    def play(self, operation: Operation, outputs: Sequence[Derived], acts: Sequence[Act]) -> Rows:
        """Every row that was written, each once, by output."""
        keyed = _with_own_names(operation, outputs, self._broker, uuid4().hex[:8])
        ensure_topics(self._broker, [*keyed.operation.inputs, *keyed.outputs])
        with TemporaryDirectory() as folder:
            playing = _Playing(self._spark.newSession(), keyed, Path(folder) / "checkpoint")
            try:
                for act in acts:
                    playing.do(act)
                playing.settle()
            finally:
                playing.stop()
        return {stream.output: self._rows(stream) for stream in keyed.outputs}

    def _rows(self, stream: Derived) -> list[Row]:
        """What was written; the same id must be the same row."""
        rows: dict[str, Row] = {}
        for record in Tail(self._broker, stream.name, ALL).news():
            if (why := record.header(RAISED)) is not None:
                raise AssertionError(f"the operator of {stream.name} raised {why!r}")
            row = read_event(stream.schema, record.value)
            if rows.setdefault(row[stream.id], row) != row:
                raise AssertionError(f"{row[stream.id]} was written twice, and not the same: {row}")
        return list(rows.values())


class _Playing:
    """A query that a script drives."""

    def __init__(self, spark: SparkSession, keyed: Keyed, checkpoint: Path) -> None:
        self._spark, self._keyed, self._run_id = spark, keyed, uuid4().hex
        self._spec = KeyedSpec(keyed, checkpoint, lambda _: checkpoint, lambda _: 0)
        self._producer = Producer(keyed.broker)
        self._query: StreamingQuery = started(spark, self._spec, self._run_id)

    def do(self, act: Act) -> None:
        match act:
            case Arrived():
                self._send(act)
            case Watermark(at_us):
                self._producer.flush()  # before it the time is not told
                self._producer.send(self._keyed.operation.clock, str(at_us).encode(), key=self._run_id)
                self.settle()
            case Kill():
                self._kill()

    def settle(self) -> None:
        """Wait until it has done all there is to do."""
        self._producer.flush()
        self._query.processAllAvailable()

    def stop(self) -> None:
        self._query.stop()

    def _send(self, event: Arrived) -> None:
        stream = self._keyed.operation.inputs[event.source]
        headers = [(OFFSET, str(event.offset)), (ARRIVAL, str(event.arrival_us))]
        self._producer.send(stream.clean, as_json(event.values, stream.schema), partition=0, headers=headers)

    def _kill(self) -> None:
        """Its last batch has written, but it does not know."""
        self.settle()
        self.stop()
        commits = self._spec.checkpoint / "commits"
        last = max((int(file.name) for file in commits.glob("[0-9]*")), default=None)
        if last is not None:
            (commits / str(last)).unlink()
            (commits / f".{last}.crc").unlink(missing_ok=True)
        self._query = started(self._spark, self._spec, self._run_id)


def _with_own_names(operation: Operation, outputs: Sequence[Derived], broker: str, mark: str) -> Keyed:
    """The operation between topics that nobody else has."""
    inputs = tuple(_renamed(stream, mark) for stream in operation.inputs)
    own = replace(operation, name=f"{operation.name}-{mark}", inputs=inputs)
    return Keyed(own, tuple(_renamed(stream, mark, made_by=own) for stream in outputs), broker)


def _renamed(stream: AnyStream, mark: str, **more: Any) -> AnyStream:
    renamed = copy.copy(stream)
    for field, value in {"name": f"{stream.name}-{mark}", **more}.items():
        object.__setattr__(renamed, field, value)
    return renamed
