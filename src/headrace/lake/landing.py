"""Landings: which topic lands in which table, and what each column of a row is.

    payments            ──▶ bronze/payments          the bytes as they came
    payments.clean      ──▶ silver/payments          typed events, by day of event time
    payments.late       ──▶ silver/payments_late     typed events, by day of arrival
    payments.dead       ──▶ silver/payments_dead     the bytes, and why
    CardSpend.tiles     ──▶ gold/CardSpend_tiles     the changelog of a view
    CardSpend.served    ──▶ gold/CardSpend_served    a sample of what was served
    fraud.predictions   ──▶ gold/fraud_predictions   every score of a model, with what it was made from

A landing is a plain value: Spark is needed to carry it out, not to speak of it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.declare.app import App
from headrace.declare.model import Model
from headrace.declare.names import BRONZE, GOLD, OF_LAKE_ROWS, bronze_table, gold_table, silver_table
from headrace.declare.stream import Stream
from headrace.declare.views import View

ARRIVAL, PARTITION, OFFSET, DAY = OF_LAKE_ROWS
HEADERS = "array<struct<key:string,value:binary>>"
SECONDS_A_DAY = 86_400


@dataclass(frozen=True)
class LakeColumn:
    """A column of a table: its Spark type, and its value as Spark SQL over a record of the log."""

    name: str
    type: str
    value: str


@dataclass(frozen=True)
class Landing:
    """A topic and the table it lands in; every table has a place, an arrival and a day, and is partitioned by the day.

    `counts` is the topic whose offsets hr_offset holds. Where it is another than `topic`, records are copies made at
    least once: one whose hr_offset is not above the last of its partition is a replay, and does not land.
    """

    topic: str
    table: str
    columns: tuple[LakeColumn, ...]
    counts: str
    event_of: Stream | None = None

    @property
    def is_gold(self) -> bool:
        """Whether it is made of events, and not the events themselves."""
        return self.table.startswith(GOLD)

    @property
    def is_bronze(self) -> bool:
        """Whether it is the raw records, which wait for no gate."""
        return self.table.startswith(BRONZE)

    @property
    def may_replay(self) -> bool:
        return self.counts != self.topic

    @property
    def ddl(self) -> str:
        """The table's columns as Spark DDL."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)


def as_appended() -> tuple[LakeColumn, ...]:
    """Arrival, place and day of arrival of a record as its own topic has them."""
    return _placed("timestamp", "offset", "timestamp")


def as_gated(day_of: str | None = None) -> tuple[LakeColumn, ...]:
    """Arrival and place of the raw record a gate's output was made of; by the day it arrived, unless told another."""
    arrival = f"timestamp_micros({_header(1, 'bigint')})"
    return _placed(arrival, _header(0, "bigint"), day_of or arrival)


def _placed(arrival: str, offset: str, day_of: str) -> tuple[LakeColumn, ...]:
    return (
        LakeColumn(ARRIVAL, "timestamp", arrival),
        LakeColumn(PARTITION, "int", "partition"),
        LakeColumn(OFFSET, "bigint", offset),
        LakeColumn(DAY, "date", _day(day_of)),
    )


def _day(moment: str) -> str:
    """The day in UTC, whatever the time zone of the session."""
    return f"date_from_unix_date(cast(floor(unix_seconds({moment}) / {SECONDS_A_DAY}) as int))"


def _header(number: int, spark_type: str) -> str:
    """A header the gate wrote; it writes them in one order."""
    return f"cast(cast(headers[{number}].value as string) as {spark_type})"


KEY, VALUE = LakeColumn("key", "binary", "key"), LakeColumn("value", "binary", "value")
_TEXT_KEY, _TEXT_VALUE = (LakeColumn(name, "string", f"cast({name} as string)") for name in ("key", "value"))


def bronze(stream: Stream) -> Landing:
    """Every raw record, byte for byte."""
    columns = (KEY, VALUE, LakeColumn("headers", HEADERS, "headers"), *as_appended())
    return Landing(stream.name, bronze_table(stream.lake_name), columns, stream.name)


def silver(stream: Stream) -> Landing:
    """Clean events, typed, by day of their own time; producers' duplicates are all there."""
    columns = (*_fields(stream), *as_gated(f"event.`{stream.time}`"))
    return Landing(stream.clean, silver_table(stream.lake_name), columns, stream.name, stream)


def late(stream: Stream) -> Landing:
    """Late events, typed. By day of arrival: their own days may be any, and each would be a file."""
    table = silver_table(stream.lake_name, "late")
    return Landing(stream.late_topic, table, (*_fields(stream), *as_gated()), stream.name, stream)


def dead(stream: Stream) -> Landing:
    """Dead letters: the bytes, the reason, and the topic they stood in."""
    why = (LakeColumn("reason", "string", _header(2, "string")), LakeColumn("topic", "string", _header(3, "string")))
    table = silver_table(stream.lake_name, "dead")
    return Landing(stream.dead, table, (KEY, VALUE, *why, *as_gated()), stream.name)


def tiles(view: View) -> Landing:
    """The changelog of a view: of several values of a tile, the one with the greatest n is the newest."""
    return Landing(view.topic, gold_table(view.name, "tiles"), (_TEXT_KEY, _TEXT_VALUE, *as_appended()), view.topic)


def served(view: View) -> Landing:
    """A sample of what was served, with what it was made of."""
    return Landing(view.served, gold_table(view.name, "served"), (_TEXT_VALUE, *as_appended()), view.served)


def predictions(model: Model) -> Landing:
    """Every score of a model; of several with one id, version and role the first of its partition counts."""
    columns = (
        LakeColumn("id", "string", "cast(key AS string)"),
        *(_told(name, "string") for name in ("decision", "version", "role", "source")),
        *(_told(name, "double") for name in ("score", "latency_ms")),
        *(_told(name, "string") for name in ("features", "known", "degraded")),
        *(_moment(name) for name in ("event_time", "arrival", "read_at", "decided_at")),
        _told("partition", "int"),
        _told("offset", "bigint"),
        _told("answered", "boolean"),
    )
    table = gold_table(model.name, "predictions")
    return Landing(model.predictions, table, (*columns, *as_appended()), model.predictions)


def _json(name: str) -> str:
    return f"get_json_object(cast(value AS string), '$.{name}')"


def _told(name: str, kind: str) -> LakeColumn:
    # Tried, not cast: whoever can write to the topic must not be able to stop its landing.
    return LakeColumn(name, kind, f"try_cast({_json(name)} AS {kind})")


def _moment(name: str) -> LakeColumn:
    return LakeColumn(name, "timestamp", f"timestamp_micros(try_cast({_json(f'{name}_us')} AS bigint))")


def landings_of(app: App) -> tuple[Landing, ...]:
    """Every landing of an app."""
    streams = [landing(stream) for stream in app.streams for landing in (bronze, silver, late, dead)]
    views = [landing(view) for view in app.views for landing in (tiles, served)]
    return (*streams, *views, *map(predictions, app.models))


def _fields(stream: Stream) -> Iterable[LakeColumn]:
    return (LakeColumn(column.name, column.type, f"event.`{column.name}`") for column in stream.schema)
