"""Tiles: the clean events of a stream, each id once, folded into every tile they belong to.

    payments.clean ──dedup by id──▶ one row a (view, hop) ──group by tile──▶ CardSpend.tiles, MerchantFlow.tiles …

One query serves all views of a stream, so each id is remembered once. A row of state holds the partials of every view:
those that are not of its tile stay empty. A view of several streams is kept by a query of each: it feeds its part of a
tile.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.declare.durations import UNITS_US
from headrace.declare.expressions import fields
from headrace.declare.schema import Kind
from headrace.declare.stream import Stream
from headrace.declare.union import STREAM
from headrace.declare.views import View
from headrace.stream.backfills import Cut
from headrace.stream.events import event_of, parsed
from headrace.stream.expressions import seen, to_column, widest
from headrace.stream.partials import partial_columns, value_json
from headrace.tiles.layout import HopLayout, Slot, fed_by, salted

WATERMARK_METADATA = "spark.watermarkDelayMs"
COUNTS = "counts"
SPARE_US = UNITS_US["d"]  # tiles are folded that much further back than windows need: clocks differ
SHUFFLES = 2  # by id to drop duplicates, by tile to fold


class Fed(NamedTuple):
    """A partial aggregate that a stream feeds: its slot, and the kinds of what its condition reads, as views differ."""

    slot: Slot
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class TileKind:
    """The tiles of one view and one hop, or the part of them that one stream feeds."""

    view: View
    layout: HopLayout

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions of the parts its tiles are cut into, by their numbers."""
        return tuple(part.version for part in salted(self.layout, self.view))

    def fed_by(self, stream: Stream) -> list[Fed]:
        """The partials that a stream can feed: those of no column of others."""
        return [self._fed(slot) for slot in self.layout.slots if slot.column in (None, STREAM, *stream.schema.names)]

    def _fed(self, slot: Slot) -> Fed:
        read = [] if slot.where is None else sorted(fields(slot.where))
        return Fed(slot, tuple(self.view.schema.column(name, self.view.name).kind.value for name in read))


@dataclass(frozen=True)
class TilePlan:
    """Everything one tiles query keeps: the kinds of tile, and the partials they share."""

    stream: Stream
    views: tuple[View, ...]
    is_base: bool = False

    @cached_property
    def kinds(self) -> tuple[TileKind, ...]:
        return tuple(
            TileKind(view, layout) for view in self.views for layout in fed_by(self.stream, view, is_base=self.is_base)
        )

    @property
    def is_salted(self) -> bool:
        """Whether tiles of any view are cut: only then has the state a column of parts."""
        return any(len(kind.versions) > 1 for kind in self.kinds)

    @cached_property
    def holders(self) -> dict[Fed, list[int]]:
        """Every partial once, in an order that depends on nothing but themselves, and the numbers of its kinds."""
        found: dict[Fed, list[int]] = {}
        for number, kind in enumerate(self.kinds):
            for fed in kind.fed_by(self.stream):
                found.setdefault(fed, []).append(number)
        return dict(sorted(found.items(), key=lambda item: (item[0].slot.described, item[0].kinds)))


@dataclass(frozen=True)
class Fold:
    """How events become tiles: which, in how many partitions of each view, and how long one is kept after its end.

    Where the newest event is known, tiles that no window from then on holds are left out.
    """

    plan: TilePlan
    partitions: Mapping[str, int]
    delay_us: int = 0
    newest_us: int | None = None

    def oldest_us(self, layout: HopLayout) -> int | None:
        """Tiles that start before this are left out; None where all are wanted."""
        if self.newest_us is None or layout.is_kept_forever:
            return None
        return self.newest_us - layout.keep_us - SPARE_US


def tiles(clean: DataFrame, fold: Fold, cut: Cut | None = None) -> DataFrame:
    """Kafka records of the clean topic → Kafka records of the views' changelogs, with absolute tile values.

    With a cut, ids are remembered from the first record on, and what comes after it is counted.
    """
    stream = fold.plan.stream
    once = (
        typed(_events(clean, stream), stream, *([] if cut is None else [_is_after(cut)]))
        .withWatermark("event_time", f"{fold.delay_us // 1000} milliseconds")
        .dropDuplicatesWithinWatermark(["id"])
    )
    return folded(once if cut is None else once.where(COUNTS), fold)


def folded(once: DataFrame, fold: Fold) -> DataFrame:
    """Typed events, each id once → Kafka records of the views' changelogs; in a batch as in a stream."""
    # Spark evicts state by the column that carries the watermark: each tile's own end, not one window for all hops.
    end = F.col("tile.end").alias("end", metadata={WATERMARK_METADATA: fold.delay_us // 1000})
    placed = once.select("*", F.explode(_places(fold)).alias("tile")).where("tile is not null")
    keys = ["kind", "entity", *(["salt"] if fold.plan.is_salted else [])]
    keyed = placed.select(
        "event", "id", "event_us", "arrival_us", *(F.col(f"tile.{name}").alias(name) for name in keys), end
    )
    tile = keyed.groupBy(*keys, "end").agg(*_head(), *_partials(fold.plan))
    return tile.select(*_record(fold))


def _events(clean: DataFrame, stream: Stream) -> DataFrame:
    event = event_of(parsed(F.col("value"), stream), stream)
    return clean.select(event.alias("event"), _header(1).alias("arrival_us"), "partition", _header(0).alias("offset"))


def _header(number: int) -> Column:
    """A number the gate wrote: the raw offset, then the arrival."""
    return F.col("headers")[number]["value"].cast("string").cast("bigint")


def _is_after(cut: Cut) -> Column:
    """Whether a record's raw offset is at or above the cut of its partition; one added since is all after it."""
    first = F.coalesce(F.get(F.lit(list(cut.raw)).cast("array<bigint>"), F.col("partition")), F.lit(0))
    return (F.col("offset") >= first).alias(COUNTS)


def typed(events: DataFrame, stream: Stream, *more: Column) -> DataFrame:
    """Events and their arrival with what tiles need of them, and more where it is asked for."""
    event_time = F.col("event").getField(stream.time)
    return events.select(
        "event",
        F.col("event").getField(stream.id).alias("id"),
        event_time.alias("event_time"),
        F.unix_micros(event_time).alias("event_us"),
        "arrival_us",
        *more,
    )


def _places(fold: Fold) -> Column:
    """The tiles an event belongs to, one a kind; null where a column of the entity is null."""
    return F.array(*(_place(fold, number, kind) for number, kind in enumerate(fold.plan.kinds)))


def _place(fold: Fold, number: int, kind: TileKind) -> Column:
    event, oldest_us = seen(F.col("event"), fold.plan.stream, kind.view), fold.oldest_us(kind.layout)
    present = reduce(and_, (event.getField(name).isNotNull() for name in kind.view.by))
    entity = F.to_json(
        F.struct(*(_json_value(event, kind.view, name).alias(f"e{i}") for i, name in enumerate(kind.view.by)))
    )
    start_us = F.col("event_us") - F.pmod(F.col("event_us"), F.lit(kind.layout.hop_us))
    end = F.timestamp_micros(start_us + F.lit(kind.layout.hop_us))
    if oldest_us is not None:
        present = present & (start_us >= F.lit(oldest_us))
    part = [_part(fold.plan.stream, kind).alias("salt")] if fold.plan.is_salted else []
    return F.when(present, F.struct(F.lit(number).alias("kind"), entity.alias("entity"), *part, end.alias("end")))


def _part(stream: Stream, kind: TileKind) -> Column:
    """The part of its tiles that an event is folded into, as `salt_of` tells it."""
    if len(kind.versions) == 1:
        return F.lit(0)
    is_time = stream.schema.column(stream.id, stream.name).kind is Kind.TIMESTAMP
    text = (F.unix_micros("id") if is_time else F.col("id")).cast("string")
    return F.pmod(F.crc32(text), F.lit(len(kind.versions))).cast("int")


def _json_value(event: Column, view: View, name: str) -> Column:
    field = event.getField(name)
    is_time = view.schema.column(name, view.name).kind is Kind.TIMESTAMP
    return F.unix_micros(field) if is_time else field


def _head() -> list[Column]:
    return [F.count(F.lit(1)).alias("n"), F.max("event_us").alias("t"), F.max("arrival_us").alias("a")]


def _partials(plan: TilePlan) -> list[Column]:
    columns = []
    for number, ((slot, _), holders) in enumerate(plan.holders.items()):
        view = plan.kinds[holders[0]].view
        event = seen(F.col("event"), plan.stream, view)
        counts = F.lit(True) if len(holders) == len(plan.kinds) else F.col("kind").isin(holders)
        if slot.where is not None:
            counts = counts & to_column(slot.where, view.schema, event)
        value = None if slot.column is None else widest(event, slot.column, view.schema)
        columns += [column.alias(f"{name}_{number}") for name, column in partial_columns(slot, value, counts)]
    return columns


def _record(fold: Fold) -> list[Column]:
    plan = fold.plan
    numbers = {fed: number for number, fed in enumerate(plan.holders)}
    topic = value = version = hop_us = partitions = F.lit(None)
    for number, kind in enumerate(plan.kinds):
        is_kind = F.col("kind") == number
        topic = F.when(is_kind, F.lit(kind.view.topic)).otherwise(topic)
        hop_us = F.when(is_kind, F.lit(kind.layout.hop_us)).otherwise(hop_us)
        version = F.when(is_kind, _version(kind)).otherwise(version)
        partitions = F.when(is_kind, F.lit(fold.partitions[kind.view.name])).otherwise(partitions)
        places = {fed.slot: numbers[fed] for fed in kind.fed_by(plan.stream)}
        value = F.when(is_kind, value_json(kind.layout, places)).otherwise(value)
    start_us = F.unix_micros("end") - hop_us
    place = F.to_json(F.struct(hop_us.alias("h"), start_us.alias("s"), version.alias("v")))
    key = F.concat(F.expr("left(entity, length(entity) - 1)"), F.lit(","), F.substr(place, F.lit(2)))
    partition = F.pmod(F.xxhash64("entity"), partitions).cast("int")
    return [topic.alias("topic"), key.alias("key"), value.alias("value"), partition.alias("partition")]


def _version(kind: TileKind) -> Column:
    versions = [F.lit(version) for version in kind.versions]
    return versions[0] if len(versions) == 1 else F.get(F.array(*versions), F.col("salt"))
