"""Any operator as Spark runs it: events by bucket of their key, what is kept by key, a clock that only clock rows move.

payments.clean ──┐
rates.clean ─────┼──▶ rows by bucket of their key ──▶ bucket 7   kept: key ──▶ what its operator keeps
NAME.clock ──────┘                                               due:  time ──▶ keys, woken when the clock has passed it
                       └──▶ what operators make ──▶ the raw topics of the streams that are derived

A call has many keys: rows cross to Python as one JSON text each, and state is asked for many keys at once.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from headrace.declare.derivation import Derived, Operation, tell_their_own_time
from headrace.declare.durations import UNITS_US
from headrace.declare.recounted import Recount
from headrace.declare.schema import Kind
from headrace.declare.stream import Stream
from headrace.declare.views import View
from headrace.operators.careful import Stepped, stepped
from headrace.operators.of import operator_of
from headrace.operators.operator import Arrived, Key, Operator
from headrace.stream.due import Due
from headrace.stream.events import event_of, parsed
from headrace.stream.making import MADE, Maker, TileMaker
from headrace.stream.records import records_of
from headrace.stream.seen import Seen
from headrace.stream.shelves import OnShelf, Shelves
from headrace.stream.watermark import DRAINING_MARGIN_US

BUCKETS, PARTITIONS = 64, 2
RECORDS_AT_ONCE = 20_000  # bounds the memory of a batch, and how long it takes a core
# Keys that are due within a second of each other are looked at together. Long before, an hour is near enough: recorded
# time passes days in a batch, and what is due by then is found at one look.
FINE_US, COARSE_US = UNITS_US["s"], UNITS_US["h"]
CLOCKED, SAID, BUCKET, KEY = "clocked", "said", "bucket", "key"


@dataclass(frozen=True)
class Keyed:
    """An operation, the streams it writes, and the log they are in."""

    operation: Operation
    outputs: tuple[Derived, ...]
    broker: str
    records_at_once: int = RECORDS_AT_ONCE
    changelog_partitions: int = 1  # of a view that it keeps

    @property
    def topics(self) -> list[str]:
        """What is read, but for the clock."""
        return list(dict.fromkeys(stream.clean for stream in self.operation.inputs))

    @property
    def view(self) -> View | None:
        """The view of a captured table that it keeps, where that is what it does."""
        what = self.operation.what
        return what.view if isinstance(what, Recount) else None

    @property
    def maker(self) -> Maker | TileMaker:
        """Who writes what it makes."""
        what = self.operation.what
        if isinstance(what, Recount):
            return TileMaker(what, self.changelog_partitions)
        return Maker(self.operation, self.outputs)

    @cached_property
    def tells_its_own_time(self) -> bool:
        """Whether arrivals are those of recorded history: then records move the clock, not the time it is now."""
        return tell_their_own_time(self.operation.inputs)

    @property
    def margin_us(self) -> int:
        """How far partitions may be apart in a time that passes quicker than the clock."""
        return DRAINING_MARGIN_US if self.tells_its_own_time else 0


def made(spark: SparkSession, keyed: Keyed, begin: Mapping[str, Mapping[int, int]], run: str) -> DataFrame:
    """Kafka records of the inputs → Kafka records of what is derived; of the clock, only what this run tells counts."""
    topics, start = [*keyed.topics, keyed.operation.clock], orjson.dumps(begin, option=orjson.OPT_NON_STR_KEYS)
    records = records_of(spark, keyed.broker, topics, start.decode(), keyed.records_at_once)
    rows = _rows(records, keyed, run)
    clocked = rows.withWatermark(CLOCKED, f"{keyed.margin_us} microseconds").select(BUCKET, SAID)
    return clocked.groupBy(BUCKET).transformWithState(Buckets(keyed), MADE, "Update", "EventTime")


def _rows(records: DataFrame, keyed: Keyed, run: str) -> DataFrame:
    """Events and clocks: a bucket, what an event says, and the time that moves the clock."""
    is_clock = (F.col("topic") == keyed.operation.clock) & (F.col("key").cast("string") == run)
    told_us = F.when(is_clock, F.col("value").cast("string").cast("bigint") + keyed.margin_us)
    read, key, said = _read(_parsed(records, keyed.operation), keyed)
    if keyed.tells_its_own_time:
        told_us = F.coalesce(told_us, F.when(said.isNotNull(), _header(1)))
    rows = read.select(
        F.pmod(F.xxhash64(key), F.lit(BUCKETS)).cast("int").alias(BUCKET),
        F.when(key.isNotNull(), said).alias(SAID),
        F.timestamp_micros(told_us).alias(CLOCKED),
    )
    return rows.where(F.col(SAID).isNotNull() | F.col(CLOCKED).isNotNull())


def _read(records: DataFrame, keyed: Keyed) -> tuple[DataFrame, Column, Column]:
    """Records with the key of what they say, and what that is; one that is read as several inputs, as often."""
    read = [_as_input(number, keyed.operation) for number in range(len(keyed.operation.inputs))]
    if len(keyed.topics) < len(read):
        each = records.withColumn("side", F.explode(F.array(*(F.struct(*one) for one in read))))
        return each, F.col("side").getField(KEY), F.col("side").getField(SAID)
    key, said = (F.coalesce(*columns) for columns in zip(*read, strict=True))
    return records, key, said


def _as_input(number: int, operation: Operation) -> tuple[Column, Column]:
    """The key of a record of an input, and what it says; null of other records."""
    stream = operation.inputs[number]
    place = list(dict.fromkeys(operation.inputs)).index(stream)
    is_of, event = F.col("topic") == stream.clean, F.col(f"event_{place}")
    key, said = _key(event, operation, number), _said(number, event, stream)
    return F.when(is_of, key).alias(KEY), F.when(is_of, said).alias(SAID)


def _parsed(records: DataFrame, operation: Operation) -> DataFrame:
    """Records with the event of each input, parsed in a step of its own.

    Within a condition Spark would parse again for every column that is taken of it: eighteen times as slow.
    """
    texts = [
        F.when(F.col("topic") == stream.clean, parsed(F.col("value"), stream)).alias(f"json_{number}")
        for number, stream in enumerate(dict.fromkeys(operation.inputs))
    ]
    events = [
        event_of(F.col(f"json_{number}"), stream).alias(f"event_{number}")
        for number, stream in enumerate(dict.fromkeys(operation.inputs))
    ]
    return records.select("*", *texts).select("*", *events)


def _key(event: Column, operation: Operation, source: int) -> Column:
    """What events of one key have in common, as text; null where a column of the key is null and must not be."""
    columns = [event.getField(name) for name in operation.by[source]]
    text = F.to_json(F.struct(*(column.alias(f"k{number}") for number, column in enumerate(columns))))
    for column in () if operation.null_keys else columns:
        text = F.when(column.isNotNull(), text)
    return text


def _said(number: int, event: Column, stream: Stream) -> Column:
    """An event as JSON: its source, arrival and place, and its values, times in microseconds."""
    values = [
        (F.unix_micros(field) if column.kind is Kind.TIMESTAMP else field).alias(column.name)
        for column in stream.schema
        for field in [event.getField(column.name)]
    ]
    head = [_header(1), F.col("partition"), _header(0)]
    texts = [column.cast("string") for column in (F.lit(number), *head)]
    body = F.to_json(F.struct(*values), {"ignoreNullFields": "false"})
    return F.concat(F.lit("["), *(part for text in texts for part in (text, F.lit(","))), body, F.lit("]"))


def _header(number: int) -> Column:
    """A number the gate wrote: the raw offset, then the arrival."""
    return F.col("headers")[number]["value"].cast("string").cast("bigint")


class Buckets(StatefulProcessor):
    """Runs the operator of each key of a bucket."""

    def __init__(self, keyed: Keyed) -> None:
        self._operator: Operator[Any] = operator_of(keyed.operation)
        self._reader, self._maker = Reader(keyed.operation), keyed.maker

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._shelves, self._due, self._seen = Shelves(handle), Due(handle), Seen(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803, ARG002  # Spark's names
        events = self._seen.news(self._reader.read(said) for _bucket, said in rows if said is not None)
        by_key: dict[str, list[Arrived]] = {}
        for event in events:
            by_key.setdefault(self._reader.key(event), []).append(event)
        yield from self._stepped(by_key.items(), timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        keys = self._due.taken(expiredTimerInfo.getExpiryTimeInMs() * 1000)
        yield from self._stepped(((by, []) for by in keys), timerValues)

    def close(self) -> None:
        pass

    def _stepped(self, news: Iterable[tuple[str, list[Arrived]]], timers: TimerValues) -> Iterator[Row]:
        clock_us = max(0, timers.getCurrentWatermarkInMs()) * 1000
        later: dict[int, list[str]] = {}
        self._shelves.open()
        for by, events in news:
            known = self._shelves.get(by)
            if known is None and not events:  # forgotten since it was noted as due
                continue
            key: Key = tuple(orjson.loads(by))
            done = stepped(self._operator, key, None if known is None else known.packed.encode(), events, clock_us)
            yield from self._maker.rows(key, done)
            look_us = self._keep(by, done, known, clock_us)
            if look_us is not None:
                later.setdefault(look_us, []).append(by)
        self._shelves.close()
        for at_us, keys in later.items():
            self._due.note(at_us, keys)

    def _keep(self, by: str, done: Stepped, known: OnShelf | None, clock_us: int) -> int | None:
        """Keep what a step left of a key; when to look at it, where that is not noted already.

        A key that is noted for an earlier time than it needs is looked at then, and noted anew.
        """
        if done.due_us is None or done.packed is None:
            self._shelves.put(by, None)
            return None
        look_us = look_at_us(done.due_us, clock_us)
        is_noted = known is not None and clock_us < known.look_us <= look_us
        noted_us = known.look_us if known is not None and is_noted else look_us
        self._shelves.put(by, OnShelf(noted_us, done.packed.decode()))
        return None if is_noted else look_us


def look_at_us(due_us: int, clock_us: int) -> int:
    """When to look at a key: the first second after it is due, or before the last hour until then."""
    if due_us - clock_us > COARSE_US:
        return due_us // COARSE_US * COARSE_US
    return -(-due_us // FINE_US) * FINE_US


class Reader:
    """Events as JSON texts, as operators take them."""

    def __init__(self, operation: Operation) -> None:
        self._by = operation.by
        self._ids = tuple(stream.id for stream in operation.inputs)
        self._times = tuple(stream.time for stream in operation.inputs)
        self._doubles = tuple(_doubles(stream) for stream in operation.inputs)

    def read(self, said: str) -> Arrived:
        """An event."""
        source, arrival_us, partition, offset, values = orjson.loads(said)
        for name in self._doubles[source]:
            if isinstance(values[name], str):  # JSON has no number for what is not a number, and Spark writes its name
                values[name] = float(values[name])
        time_us = values[self._times[source]]
        return Arrived(source, values[self._ids[source]], time_us, arrival_us, partition, offset, values)

    def key(self, event: Arrived) -> str:
        """The key of an event, as text."""
        return orjson.dumps([event.values[name] for name in self._by[event.source]]).decode()


def _doubles(stream: Stream) -> tuple[str, ...]:
    return tuple(column.name for column in stream.schema if column.kind is Kind.DOUBLE)
