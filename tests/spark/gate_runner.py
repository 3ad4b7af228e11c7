"""Runs a gate without an app: raw records in, its output records out."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.declare.streams.stream import Stream
from headrace.kafka.consumers.offset_range import read_offset_range
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.topics import ensure_topics, fate_topics
from headrace.spark.execution.app_queries import StreamingConfig, gate_spec
from headrace.spark.execution.lanes import Lane
from headrace.spark.execution.query_runner import QueryRunner
from tests.waiting import patiently, wait_until

LIMIT_S = 240


@contextmanager
def gating(spark: SparkSession, broker: str, stream: Stream, state: Path) -> Iterator[QueryRunner]:
    """The gate of a stream, while it runs."""
    ensure_topics(broker, [stream])
    pilot = QueryRunner(
        spark,
        gate_spec(stream, StreamingConfig(broker, state, checkpoint_seconds=5), stream.partitions),
        Lane.REAL_TIME,
    )
    pilot.start()
    try:
        yield pilot
    finally:
        pilot.stop()
        pilot.join(patiently(30))
    assert not pilot.health.error, pilot.health.error


def fates(broker: str, stream: Stream) -> dict[str, list[ConsumerRecord]]:
    """What there is of each fate, each raw record once, in its order."""
    return {topic.removeprefix(f"{stream.name}."): _once(broker, topic) for topic in fate_topics(stream)}


def _once(broker: str, topic: str) -> list[ConsumerRecord]:
    offsets = OffsetClient(broker)
    read = read_offset_range(broker, offsets.topic_start_offsets([topic]), offsets.topic_end_offsets([topic]))
    found = {(one.partition, int(one.header("headrace.offset") or -1)): one for one in read}
    return [found[place] for place in sorted(found)]


def wait_for(pilot: QueryRunner, broker: str, stream: Stream, **counts: int) -> dict[str, list[ConsumerRecord]]:
    """Wait until so many records have each fate."""

    def has_come() -> bool:
        assert not pilot.health.error, pilot.health.error
        found = Counter({fate: len(records) for fate, records in fates(broker, stream).items()})
        return all(found[fate] >= count for fate, count in counts.items())

    wait_until(has_come, LIMIT_S, f"{counts} of {stream.name}", lambda: str(_counts(broker, stream)))
    return fates(broker, stream)


def _counts(broker: str, stream: Stream) -> dict[str, int]:
    return {fate: len(records) for fate, records in fates(broker, stream).items()}
