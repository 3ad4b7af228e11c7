"""Runs one derived stream without gate and app: clean events in, raw records of the derived stream out."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.declare.operations.derived_stream import DerivedStream, FunctionDerivation
from headrace.declare.operations.enrichment import Enrichment
from headrace.declare.streams.stream import Stream
from headrace.kafka.consumers.offset_range import read_offset_range
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.topics import ensure_topics
from headrace.spark.derived_streams import enrichment
from headrace.spark.derived_streams.derived_query import StreamFunction, choose_lane
from headrace.spark.execution.app_queries import StreamingConfig, derive_spec
from headrace.spark.execution.lanes import Lane
from headrace.spark.execution.query_runner import QueryRunner
from tests.waiting import patiently, wait_until

LIMIT_S = 240


def function_of(stream: DerivedStream) -> StreamFunction:
    made_by = (
        enrichment.to_function_derivation(stream.made_by) if isinstance(stream.made_by, Enrichment) else stream.made_by
    )
    assert isinstance(made_by, FunctionDerivation)
    return StreamFunction(made_by, stream)


def send_clean(broker: str, stream: Stream, events: Sequence[dict[str, Any]]) -> None:
    """Events as the gate of a stream would have written them, each arrived a second after it happened."""
    with Producer(broker) as producer:
        for number, event in enumerate(events):
            arrival_us = event[stream.time] * 1000 + 1_000_000
            headers = [("headrace.offset", str(number)), ("headrace.arrival", str(arrival_us))]
            producer.send(stream.clean, event, key=str(event[stream.key]), headers=headers)


def records_of(broker: str, topic: str) -> list[ConsumerRecord]:
    offsets = OffsetClient(broker)
    return list(read_offset_range(broker, offsets.topic_start_offsets([topic]), offsets.topic_end_offsets([topic])))


def rows_of(broker: str, stream: DerivedStream) -> list[dict[str, Any]]:
    """What was derived, each id once."""
    made = [
        json.loads(one.value or b"") for one in records_of(broker, stream.name) if not one.header("headrace.raised")
    ]
    return list({row[stream.id]: row for row in made}.values())


@contextmanager
def deriving(spark: SparkSession, broker: str, stream: DerivedStream, state: Path) -> Iterator[QueryRunner]:
    """The query that derives a stream, while it runs."""
    ensure_topics(broker, [*stream.made_by.inputs, stream])
    partitions = {one.name: one.partitions for one in stream.made_by.inputs}
    function = function_of(stream)
    place = StreamingConfig(broker, state, checkpoint_seconds=5)
    pilot = QueryRunner(
        spark, derive_spec(function, choose_lane(spark.newSession(), function), place, partitions), Lane.REAL_TIME
    )
    pilot.start()
    try:
        yield pilot
    finally:
        pilot.stop()
        pilot.join(patiently(20))


def wait_for_rows(broker: str, stream: DerivedStream, count: int, pilot: QueryRunner) -> list[dict[str, Any]]:
    def there() -> bool:
        assert not pilot.health.error, pilot.health.error
        return len(rows_of(broker, stream)) >= count

    wait_until(there, LIMIT_S, f"{count} rows of {stream.name}", lambda: f"{len(rows_of(broker, stream))} are there")
    return rows_of(broker, stream)


def now_ms() -> int:
    return time.time_ns() // 1_000_000
