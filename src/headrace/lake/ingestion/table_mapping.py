"""Table mappings: which topic is ingested into which table, and the expression of each column.

    payments            ──▶ bronze/payments          the bytes as they came
    payments.clean      ──▶ silver/payments          typed events, by day of event time
    payments.late       ──▶ silver/payments_late     typed events, by day of arrival
    payments.dead       ──▶ silver/payments_dead     the bytes, and why
    CardSpend.tiles     ──▶ gold/CardSpend_tiles     the changelog of a view
    CardSpend.served    ──▶ gold/CardSpend_served    a sample of what was served
    fraud.predictions   ──▶ gold/fraud_predictions   every score of a model, with what it was made from

A mapping is a plain value: only its execution needs Spark.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.declare.app import App
from headrace.declare.features.view import View
from headrace.declare.models.model import Model
from headrace.declare.names import BRONZE, GOLD, LAKE_ROW_COLUMNS, bronze_table, gold_table, silver_table
from headrace.declare.streams.stream import Stream
from headrace.kafka.headers import (
    ARRIVAL_HEADER,
    DEAD_LETTER_HEADERS,
    OFFSET_HEADER,
    REASON_HEADER,
    SPARK_HEADERS_TYPE,
    TOPIC_HEADER,
    gate_header_sql,
)

ARRIVAL, PARTITION, OFFSET, DAY = LAKE_ROW_COLUMNS
SECONDS_PER_DAY = 86_400


@dataclass(frozen=True)
class LakeColumn:
    """A column of a table: its Spark type, and its value as Spark SQL over a record of the log."""

    name: str
    type: str
    expression: str


@dataclass(frozen=True)
class TableMapping:
    """A topic and its table; every table has an offset, an arrival and a day, and is partitioned by the day.

    `offset_topic` is the topic whose offsets hr_offset holds. Where it differs from `topic`, records are copies made at
    least once: one whose hr_offset is not above the last of its partition is a replay, and is skipped.
    """

    topic: str
    table: str
    columns: tuple[LakeColumn, ...]
    offset_topic: str
    event_stream: Stream | None = None

    @property
    def is_gold(self) -> bool:
        """Whether it is derived from events."""
        return self.table.startswith(GOLD)

    @property
    def is_bronze(self) -> bool:
        """Whether it has the raw records, which need no gate."""
        return self.table.startswith(BRONZE)

    @property
    def may_replay(self) -> bool:
        return self.offset_topic != self.topic

    @property
    def ddl(self) -> str:
        """The table's columns as Spark DDL."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)


def record_position_columns() -> tuple[LakeColumn, ...]:
    """Arrival, offset and day of arrival of a record in its own topic."""
    return _position_columns("timestamp", "offset", "timestamp")


def gate_position_columns(day_source: str | None = None) -> tuple[LakeColumn, ...]:
    """Arrival and offset of the raw record behind a gate's output; by the day of arrival, unless given another."""
    arrival = f"timestamp_micros({gate_header_sql(ARRIVAL_HEADER)})"
    return _position_columns(arrival, gate_header_sql(OFFSET_HEADER), day_source or arrival)


def _position_columns(arrival: str, offset: str, day_source: str) -> tuple[LakeColumn, ...]:
    return (
        LakeColumn(ARRIVAL, "timestamp", arrival),
        LakeColumn(PARTITION, "int", "partition"),
        LakeColumn(OFFSET, "bigint", offset),
        LakeColumn(DAY, "date", _utc_day(day_source)),
    )


def _utc_day(time_expression: str) -> str:
    """The day in UTC, whatever the time zone of the session."""
    return f"date_from_unix_date(cast(floor(unix_seconds({time_expression}) / {SECONDS_PER_DAY}) as int))"


KEY_COLUMN, VALUE_COLUMN = LakeColumn("key", "binary", "key"), LakeColumn("value", "binary", "value")
_TEXT_KEY_COLUMN, _TEXT_VALUE_COLUMN = (
    LakeColumn(name, "string", f"cast({name} as string)") for name in ("key", "value")
)


def bronze_mapping(stream: Stream) -> TableMapping:
    """Every raw record, byte for byte."""
    columns = (
        KEY_COLUMN,
        VALUE_COLUMN,
        LakeColumn("headers", SPARK_HEADERS_TYPE, "headers"),
        *record_position_columns(),
    )
    return TableMapping(stream.name, bronze_table(stream.lake_name), columns, stream.name)


def silver_mapping(stream: Stream) -> TableMapping:
    """Clean events, typed, by day of event time; producers' duplicates are included."""
    columns = (*_event_columns(stream), *gate_position_columns(f"event.`{stream.time}`"))
    return TableMapping(stream.clean, silver_table(stream.lake_name), columns, stream.name, stream)


def late_mapping(stream: Stream) -> TableMapping:
    """Late events, typed. By day of arrival: their event days are arbitrary, and each would be a file."""
    table = silver_table(stream.lake_name, "late")
    return TableMapping(
        stream.late_topic, table, (*_event_columns(stream), *gate_position_columns()), stream.name, stream
    )


def dead_letter_mapping(stream: Stream) -> TableMapping:
    """Dead letters: the bytes, the reason, and the source topic."""
    reason_columns = (
        LakeColumn("reason", "string", gate_header_sql(REASON_HEADER, DEAD_LETTER_HEADERS)),
        LakeColumn("topic", "string", gate_header_sql(TOPIC_HEADER, DEAD_LETTER_HEADERS)),
    )
    table = silver_table(stream.lake_name, "dead")
    return TableMapping(
        stream.dead, table, (KEY_COLUMN, VALUE_COLUMN, *reason_columns, *gate_position_columns()), stream.name
    )


def tiles_mapping(view: View) -> TableMapping:
    """The changelog of a view: among several values of a tile, the one with the greatest n is the newest."""
    return TableMapping(
        view.topic,
        gold_table(view.name, "tiles"),
        (_TEXT_KEY_COLUMN, _TEXT_VALUE_COLUMN, *record_position_columns()),
        view.topic,
    )


def served_mapping(view: View) -> TableMapping:
    """A sample of served values, with their inputs."""
    return TableMapping(
        view.served, gold_table(view.name, "served"), (_TEXT_VALUE_COLUMN, *record_position_columns()), view.served
    )


def predictions_mapping(model: Model) -> TableMapping:
    """Every score of a model; among several with one id, version and role the first of its partition counts."""
    columns = (
        LakeColumn("id", "string", "cast(key AS string)"),
        *(_json_column(name, "string") for name in ("decision", "version", "role", "source")),
        *(_json_column(name, "double") for name in ("score", "latency_ms")),
        *(_json_column(name, "string") for name in ("features", "known", "degraded")),
        *(_timestamp_column(name) for name in ("event_time", "arrival", "read_at", "decided_at")),
        _json_column("partition", "int"),
        _json_column("offset", "bigint"),
        _json_column("answered", "boolean"),
    )
    table = gold_table(model.name, "predictions")
    return TableMapping(model.predictions, table, (*columns, *record_position_columns()), model.predictions)


def _json_field(name: str) -> str:
    return f"get_json_object(cast(value AS string), '$.{name}')"


def _json_column(name: str, spark_type: str) -> LakeColumn:
    # A failed cast is null: no producer of the topic may be able to stop its ingestion.
    return LakeColumn(name, spark_type, f"try_cast({_json_field(name)} AS {spark_type})")


def _timestamp_column(name: str) -> LakeColumn:
    return LakeColumn(name, "timestamp", f"timestamp_micros(try_cast({_json_field(f'{name}_us')} AS bigint))")


def table_mappings(app: App) -> tuple[TableMapping, ...]:
    """Every table mapping of an app."""
    streams = [
        to_mapping(stream)
        for stream in app.streams
        for to_mapping in (bronze_mapping, silver_mapping, late_mapping, dead_letter_mapping)
    ]
    views = [landing(view) for view in app.views for landing in (tiles_mapping, served_mapping)]
    return (*streams, *views, *map(predictions_mapping, app.models))


def _event_columns(stream: Stream) -> Iterable[LakeColumn]:
    return (LakeColumn(column.name, column.type, f"event.`{column.name}`") for column in stream.schema)
