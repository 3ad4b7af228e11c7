"""A derived stream alone: clean events in, the raw records of what is derived out; no gate, no app."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.declare.derivation import Derived, FunctionOf
from headrace.declare.enriched import Enrichment
from headrace.declare.stream import Stream
from headrace.log.between import records_between
from headrace.log.offsets import Offsets
from headrace.log.produce import Producer
from headrace.log.records import Record
from headrace.log.topics import ensure_topics
from headrace.stream import enriched
from headrace.stream.derived import Function, judge
from headrace.stream.lanes import Lane
from headrace.stream.pilot import Pilot
from headrace.stream.queries import Place, derive_spec
from tests.waiting import patiently, wait_until

LIMIT_S = 240


def function_of(stream: Derived) -> Function:
    made_by = enriched.function_of(stream.made_by) if isinstance(stream.made_by, Enrichment) else stream.made_by
    assert isinstance(made_by, FunctionOf)
    return Function(made_by, stream)


def send_clean(broker: str, stream: Stream, events: Sequence[dict[str, Any]]) -> None:
    """Events as the gate of a stream would have written them, each arrived a second after it happened."""
    with Producer(broker) as producer:
        for number, event in enumerate(events):
            arrival_us = event[stream.time] * 1000 + 1_000_000
            headers = [("headrace.offset", str(number)), ("headrace.arrival", str(arrival_us))]
            producer.send(stream.clean, event, key=str(event[stream.key]), headers=headers)


def records_of(broker: str, topic: str) -> list[Record]:
    offsets = Offsets(broker)
    return list(records_between(broker, offsets.begin([topic]), offsets.end([topic])))


def rows_of(broker: str, stream: Derived) -> list[dict[str, Any]]:
    """What was derived, each id once."""
    made = [
        json.loads(one.value or b"") for one in records_of(broker, stream.name) if not one.header("headrace.raised")
    ]
    return list({row[stream.id]: row for row in made}.values())


@contextmanager
def deriving(spark: SparkSession, broker: str, stream: Derived, state: Path) -> Iterator[Pilot]:
    """The query that derives a stream, while it runs."""
    ensure_topics(broker, [*stream.made_by.inputs, stream])
    partitions = {one.name: one.partitions for one in stream.made_by.inputs}
    function = function_of(stream)
    place = Place(broker, state, checkpoint_seconds=5)
    pilot = Pilot(spark, derive_spec(function, judge(spark.newSession(), function), place, partitions), Lane.REAL_TIME)
    pilot.start()
    try:
        yield pilot
    finally:
        pilot.stop()
        pilot.join(patiently(20))


def wait_for_rows(broker: str, stream: Derived, count: int, pilot: Pilot) -> list[dict[str, Any]]:
    def there() -> bool:
        assert not pilot.health.error, pilot.health.error
        return len(rows_of(broker, stream)) >= count

    wait_until(there, LIMIT_S, f"{count} rows of {stream.name}", lambda: f"{len(rows_of(broker, stream))} are there")
    return rows_of(broker, stream)


def now_ms() -> int:
    return time.time_ns() // 1_000_000
