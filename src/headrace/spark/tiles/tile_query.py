"""The tiles query: folds the clean events of a stream, deduplicated by id, into every tile they belong to.

    payments.clean ──dedup by id──▶ one row a (view, hop) ──group by tile──▶ CardSpend.tiles, MerchantFlow.tiles …

One query computes all views of a stream, so that each id is stored once. A row of state has the partials of every view:
those that are not of its tile stay empty. A view of several streams is computed by a query of each stream, which feeds
its part of a tile.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.aggregates.partial import AggregateSlot
from headrace.declare.durations import UNITS_US
from headrace.declare.expressions import field_names
from headrace.declare.features.view import View
from headrace.declare.streams.schema import Kind
from headrace.declare.streams.stream import Stream
from headrace.declare.streams.union import STREAM_COLUMN
from headrace.kafka.headers import ARRIVAL_HEADER, OFFSET_HEADER
from headrace.spark.gate.column_expressions import to_column, to_view_event, widen_field
from headrace.spark.gate.header_columns import gate_header
from headrace.spark.gate.json_parser import parse_json, to_event
from headrace.spark.tiles.backfill_cutovers import Cutover
from headrace.spark.tiles.partial_aggregates import partial_columns, tile_value_json
from headrace.tiles.layout import HopLayout, salted_layouts, stream_layouts

WATERMARK_METADATA = "spark.watermarkDelayMs"
COUNTS_COLUMN = "counts"
TILE_MARGIN_US = UNITS_US["d"]  # folds tiles this much further back than windows need, since clocks differ
SHUFFLE_COUNT = 2  # by id to drop duplicates, by tile to fold


class FedPartial(NamedTuple):
    """A partial aggregate that a stream feeds: its slot, and the column types of its condition, since views differ."""

    slot: AggregateSlot
    column_kinds: tuple[str, ...]


@dataclass(frozen=True)
class TileKind:
    """The tiles of one view and one hop, or the part of them that one stream feeds."""

    view: View
    layout: HopLayout

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions of the salted parts of its tiles, by their numbers."""
        return tuple(part.version for part in salted_layouts(self.layout, self.view))

    def fed_partials(self, stream: Stream) -> list[FedPartial]:
        """The partials that a stream can feed: those without columns of other streams."""
        return [
            self._to_fed_partial(slot)
            for slot in self.layout.slots
            if slot.column in (None, STREAM_COLUMN, *stream.schema.names)
        ]

    def _to_fed_partial(self, slot: AggregateSlot) -> FedPartial:
        column_names = [] if slot.where is None else sorted(field_names(slot.where))
        return FedPartial(
            slot, tuple(self.view.schema.column(name, self.view.name).kind.value for name in column_names)
        )


@dataclass(frozen=True)
class TilePlan:
    """What one tiles query computes: the kinds of tile, and the partials they share."""

    stream: Stream
    views: tuple[View, ...]
    is_base: bool = False

    @cached_property
    def tile_kinds(self) -> tuple[TileKind, ...]:
        return tuple(
            TileKind(view, layout)
            for view in self.views
            for layout in stream_layouts(self.stream, view, is_base=self.is_base)
        )

    @property
    def is_salted(self) -> bool:
        """Whether tiles of any view are salted: only then has the state a column for the part."""
        return any(len(tile_kind.versions) > 1 for tile_kind in self.tile_kinds)

    @cached_property
    def kinds_by_partial(self) -> dict[FedPartial, list[int]]:
        """Every distinct partial, in an order that depends only on the partials, and the numbers of its kinds."""
        partials: dict[FedPartial, list[int]] = {}
        for number, tile_kind in enumerate(self.tile_kinds):
            for partial in tile_kind.fed_partials(self.stream):
                partials.setdefault(partial, []).append(number)
        return dict(sorted(partials.items(), key=lambda item: (item[0].slot.identity, item[0].column_kinds)))


@dataclass(frozen=True)
class TileFoldConfig:
    """How events become tiles: the kinds, the partitions of each view, and the retention of a tile after its end.

    Where the newest event is known, tiles that no later window needs are left out.
    """

    plan: TilePlan
    changelog_partitions: Mapping[str, int]
    retention_us: int = 0
    newest_event_us: int | None = None

    def oldest_tile_us(self, layout: HopLayout) -> int | None:
        """Tiles that start before this are left out; None where all are wanted."""
        if self.newest_event_us is None or layout.is_kept_forever:
            return None
        return self.newest_event_us - layout.retention_us - TILE_MARGIN_US


def compute_tiles(clean_records: DataFrame, config: TileFoldConfig, cutover: Cutover | None = None) -> DataFrame:
    """Kafka records of the clean topic → Kafka records of the views' changelogs, with absolute tile values.

    With a cutover, ids are deduplicated from the first record on, and only records after it are counted.
    """
    stream = config.plan.stream
    deduplicated = (
        to_tile_inputs(
            _parse_events(clean_records, stream), stream, *([] if cutover is None else [_is_after_cutover(cutover)])
        )
        .withWatermark("event_time", f"{config.retention_us // 1000} milliseconds")
        .dropDuplicatesWithinWatermark(["id"])
    )
    return fold_events(deduplicated if cutover is None else deduplicated.where(COUNTS_COLUMN), config)


def fold_events(unique_events: DataFrame, config: TileFoldConfig) -> DataFrame:
    """Typed events, each id once → Kafka records of the views' changelogs; in a batch as in a stream."""
    # Spark evicts state by the column with the watermark: each tile's own end, not one window for all hops.
    end = F.col("tile.end").alias("end", metadata={WATERMARK_METADATA: config.retention_us // 1000})
    event_tiles = unique_events.select("*", F.explode(_event_tiles(config)).alias("tile")).where("tile is not null")
    key_columns = ["kind", "entity", *(["salt"] if config.plan.is_salted else [])]
    keyed_events = event_tiles.select(
        "event", "id", "event_us", "arrival_us", *(F.col(f"tile.{name}").alias(name) for name in key_columns), end
    )
    folded_tiles = keyed_events.groupBy(*key_columns, "end").agg(*_tile_head(), *_partial_aggregates(config.plan))
    return folded_tiles.select(*_changelog_record(config))


def _parse_events(clean_records: DataFrame, stream: Stream) -> DataFrame:
    event = to_event(parse_json(F.col("value"), stream), stream)
    return clean_records.select(
        event.alias("event"),
        gate_header(ARRIVAL_HEADER).alias("arrival_us"),
        "partition",
        gate_header(OFFSET_HEADER).alias("offset"),
    )


def _is_after_cutover(cutover: Cutover) -> Column:
    """Whether a record's raw offset is at or above the cutover of its partition; an added partition is all after it."""
    first_offset = F.coalesce(F.get(F.lit(list(cutover.raw)).cast("array<bigint>"), F.col("partition")), F.lit(0))
    return (F.col("offset") >= first_offset).alias(COUNTS_COLUMN)


def to_tile_inputs(events: DataFrame, stream: Stream, *extra_columns: Column) -> DataFrame:
    """Events and their arrival with the columns that tiles need, and more on request."""
    event_time = F.col("event").getField(stream.time)
    return events.select(
        "event",
        F.col("event").getField(stream.id).alias("id"),
        event_time.alias("event_time"),
        F.unix_micros(event_time).alias("event_us"),
        "arrival_us",
        *extra_columns,
    )


def _event_tiles(config: TileFoldConfig) -> Column:
    """The tiles of an event, one of each kind; null where a column of the entity is null."""
    return F.array(*(_event_tile(config, number, tile_kind) for number, tile_kind in enumerate(config.plan.tile_kinds)))


def _event_tile(config: TileFoldConfig, number: int, tile_kind: TileKind) -> Column:
    event, oldest_tile_us = (
        to_view_event(F.col("event"), config.plan.stream, tile_kind.view),
        config.oldest_tile_us(tile_kind.layout),
    )
    is_present = reduce(and_, (event.getField(name).isNotNull() for name in tile_kind.view.by))
    entity = F.to_json(
        F.struct(*(_json_value(event, tile_kind.view, name).alias(f"e{i}") for i, name in enumerate(tile_kind.view.by)))
    )
    start_us = F.col("event_us") - F.pmod(F.col("event_us"), F.lit(tile_kind.layout.hop_us))
    end = F.timestamp_micros(start_us + F.lit(tile_kind.layout.hop_us))
    if oldest_tile_us is not None:
        is_present = is_present & (start_us >= F.lit(oldest_tile_us))
    salt_columns = [_salt_part(config.plan.stream, tile_kind).alias("salt")] if config.plan.is_salted else []
    return F.when(
        is_present, F.struct(F.lit(number).alias("kind"), entity.alias("entity"), *salt_columns, end.alias("end"))
    )


def _salt_part(stream: Stream, tile_kind: TileKind) -> Column:
    """The part of its tiles that an event is folded into, as `salt_bucket` computes it."""
    if len(tile_kind.versions) == 1:
        return F.lit(0)
    is_time = stream.schema.column(stream.id, stream.name).kind is Kind.TIMESTAMP
    text = (F.unix_micros("id") if is_time else F.col("id")).cast("string")
    return F.pmod(F.crc32(text), F.lit(len(tile_kind.versions))).cast("int")


def _json_value(event: Column, view: View, name: str) -> Column:
    field = event.getField(name)
    is_time = view.schema.column(name, view.name).kind is Kind.TIMESTAMP
    return F.unix_micros(field) if is_time else field


def _tile_head() -> list[Column]:
    return [F.count(F.lit(1)).alias("n"), F.max("event_us").alias("t"), F.max("arrival_us").alias("a")]


def _partial_aggregates(plan: TilePlan) -> list[Column]:
    columns = []
    for number, ((slot, _), kind_numbers) in enumerate(plan.kinds_by_partial.items()):
        view = plan.tile_kinds[kind_numbers[0]].view
        event = to_view_event(F.col("event"), plan.stream, view)
        is_counted = F.lit(True) if len(kind_numbers) == len(plan.tile_kinds) else F.col("kind").isin(kind_numbers)
        if slot.where is not None:
            is_counted = is_counted & to_column(slot.where, view.schema, event)
        value = None if slot.column is None else widen_field(event, slot.column, view.schema)
        columns += [column.alias(f"{name}_{number}") for name, column in partial_columns(slot, value, is_counted)]
    return columns


def _changelog_record(config: TileFoldConfig) -> list[Column]:
    plan = config.plan
    numbers = {partial: number for number, partial in enumerate(plan.kinds_by_partial)}
    topic = value = version = hop_us = partitions = F.lit(None)
    for number, tile_kind in enumerate(plan.tile_kinds):
        is_kind = F.col("kind") == number
        topic = F.when(is_kind, F.lit(tile_kind.view.topic)).otherwise(topic)
        hop_us = F.when(is_kind, F.lit(tile_kind.layout.hop_us)).otherwise(hop_us)
        version = F.when(is_kind, _tile_version(tile_kind)).otherwise(version)
        partitions = F.when(is_kind, F.lit(config.changelog_partitions[tile_kind.view.name])).otherwise(partitions)
        column_numbers = {fed.slot: numbers[fed] for fed in tile_kind.fed_partials(plan.stream)}
        value = F.when(is_kind, tile_value_json(tile_kind.layout, column_numbers)).otherwise(value)
    start_us = F.unix_micros("end") - hop_us
    key_suffix = F.to_json(F.struct(hop_us.alias("h"), start_us.alias("s"), version.alias("v")))
    key = F.concat(F.expr("left(entity, length(entity) - 1)"), F.lit(","), F.substr(key_suffix, F.lit(2)))
    partition = F.pmod(F.xxhash64("entity"), partitions).cast("int")
    return [topic.alias("topic"), key.alias("key"), value.alias("value"), partition.alias("partition")]


def _tile_version(tile_kind: TileKind) -> Column:
    versions = [F.lit(version) for version in tile_kind.versions]
    return versions[0] if len(versions) == 1 else F.get(F.array(*versions), F.col("salt"))
