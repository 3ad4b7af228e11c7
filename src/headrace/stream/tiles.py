"""Tiles: the clean events of a stream, each id once, folded into every tile they belong to.

    payments.clean ──dedup by id──▶ one row a (view, hop) ──group by tile──▶ CardSpend.tiles, MerchantFlow.tiles …

One query serves all views of a stream, so each id is remembered once. A row of state holds the partials of every view:
those that are not of its tile stay empty.
"""

from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.declare.schema import Kind
from headrace.declare.stream import Stream
from headrace.declare.views import View
from headrace.stream.events import event_of, parsed
from headrace.stream.expressions import to_column, widest
from headrace.stream.partials import partial_columns, value_json
from headrace.tiles.layout import HopLayout, Slot, layouts_of

WATERMARK_METADATA = "spark.watermarkDelayMs"
SHUFFLES = 2  # by id to drop duplicates, by tile to fold


@dataclass(frozen=True)
class TileKind:
    """The tiles of one view and one hop."""

    view: View
    layout: HopLayout


@dataclass(frozen=True)
class TilePlan:
    """Everything one tiles query keeps: the kinds of tile, and the partials they share."""

    stream: Stream
    views: tuple[View, ...]

    @cached_property
    def kinds(self) -> tuple[TileKind, ...]:
        return tuple(TileKind(view, layout) for view in self.views for layout in layouts_of(view))

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """Every partial of every kind once, in an order that depends on nothing but themselves."""
        return tuple(
            sorted({slot for kind in self.kinds for slot in kind.layout.slots}, key=lambda slot: slot.described)
        )


def tiles(clean: DataFrame, plan: TilePlan, watermark_delay_us: int, partitions: int) -> DataFrame:
    """Kafka records of the clean topic → Kafka records of the views' changelogs, with absolute tile values."""
    delay_ms = watermark_delay_us // 1000
    once = (
        _events(clean, plan.stream)
        .withWatermark("event_time", f"{delay_ms} milliseconds")
        .dropDuplicatesWithinWatermark(["id"])
    )
    # Spark evicts state by the column that carries the watermark: each tile's own end, not one window for all hops.
    end = F.col("tile.end").alias("end", metadata={WATERMARK_METADATA: delay_ms})
    placed = once.select("*", F.explode(_places(plan)).alias("tile")).where("tile is not null")
    keyed = placed.select(
        "event",
        "id",
        "event_us",
        "arrival_us",
        F.col("tile.kind").alias("kind"),
        F.col("tile.entity").alias("entity"),
        end,
    )
    folded = keyed.groupBy("kind", "entity", "end").agg(*_head(), *_partials(plan))
    return folded.select(*_record(plan, partitions))


def _events(clean: DataFrame, stream: Stream) -> DataFrame:
    event = event_of(parsed(F.col("value"), stream), stream)
    arrival_us = F.col("headers")[1]["value"].cast("string").cast("bigint")
    read = clean.select(event.alias("event"), arrival_us.alias("arrival_us"))
    event_time = F.col("event").getField(stream.time)
    return read.select(
        "event",
        F.col("event").getField(stream.id).alias("id"),
        event_time.alias("event_time"),
        F.unix_micros(event_time).alias("event_us"),
        "arrival_us",
    )


def _places(plan: TilePlan) -> Column:
    """The tiles an event belongs to, one a kind; null where a column of the entity is null."""
    return F.array(*(_place(number, kind) for number, kind in enumerate(plan.kinds)))


def _place(number: int, kind: TileKind) -> Column:
    event = F.col("event")
    present = reduce(and_, (event.getField(name).isNotNull() for name in kind.view.by))
    entity = F.to_json(
        F.struct(*(_json_value(event, kind.view, name).alias(f"e{i}") for i, name in enumerate(kind.view.by)))
    )
    start_us = F.col("event_us") - F.pmod(F.col("event_us"), F.lit(kind.layout.hop_us))
    end = F.timestamp_micros(start_us + F.lit(kind.layout.hop_us))
    return F.when(present, F.struct(F.lit(number).alias("kind"), entity.alias("entity"), end.alias("end")))


def _json_value(event: Column, view: View, name: str) -> Column:
    field = event.getField(name)
    is_time = view.stream.schema.column(name, view.name).kind is Kind.TIMESTAMP
    return F.unix_micros(field) if is_time else field


def _head() -> list[Column]:
    return [F.count(F.lit(1)).alias("n"), F.max("event_us").alias("t"), F.max("arrival_us").alias("a")]


def _partials(plan: TilePlan) -> list[Column]:
    schema = plan.stream.schema
    columns = []
    for number, slot in enumerate(plan.slots):
        holders = [index for index, kind in enumerate(plan.kinds) if slot in kind.layout.slots]
        counts = F.lit(True) if len(holders) == len(plan.kinds) else F.col("kind").isin(holders)
        if slot.where is not None:
            counts = counts & to_column(slot.where, schema, F.col("event"))
        value = None if slot.column is None else widest(F.col("event"), slot.column, schema)
        columns += [column.alias(f"{name}_{number}") for name, column in partial_columns(slot, value, counts)]
    return columns


def _record(plan: TilePlan, partitions: int) -> list[Column]:
    topic = value = version = hop_us = F.lit(None)
    for number, kind in enumerate(plan.kinds):
        is_kind = F.col("kind") == number
        topic = F.when(is_kind, F.lit(kind.view.topic)).otherwise(topic)
        hop_us = F.when(is_kind, F.lit(kind.layout.hop_us)).otherwise(hop_us)
        version = F.when(is_kind, F.lit(kind.layout.version)).otherwise(version)
        value = F.when(is_kind, value_json(kind.layout, plan.slots)).otherwise(value)
    start_us = F.unix_micros("end") - hop_us
    place = F.to_json(F.struct(hop_us.alias("h"), start_us.alias("s"), version.alias("v")))
    key = F.concat(F.expr("left(entity, length(entity) - 1)"), F.lit(","), F.substr(place, F.lit(2)))
    partition = F.pmod(F.xxhash64("entity"), F.lit(partitions)).cast("int")
    return [topic.alias("topic"), key.alias("key"), value.alias("value"), partition.alias("partition")]
