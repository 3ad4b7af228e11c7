"""`headrace backfill`: a view's history folded in one batch on Spark, into tiles that its stream is merged with.

    lake     silver events below the cut, each id once ──▶ base tiles ──┐
    stream   clean records from the cut on ──────────────▶ live tiles ──┴▶ the view's changelog

It may be killed at any moment and started again: the cut stays, and a tile that is written again is the same tile.
"""

import time
from collections.abc import Callable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.declare.stream import Stream
from headrace.declare.views import View
from headrace.lake.cutting import HistoryPlace, begun
from headrace.lake.landing import ARRIVAL, DAY, OFFSET, PARTITION
from headrace.lake.past import require_of_the_past
from headrace.lake.tables import silver_events
from headrace.lake.training import each_once, plain_arithmetic
from headrace.log.dialects import spark_words
from headrace.log.offsets import Offsets
from headrace.stream.backfills import Backfill, Cut, keep
from headrace.stream.lanes import KAFKA_SINK
from headrace.stream.tiles import SPARE_US, Fold, TilePlan, folded, typed
from headrace.stream.watermark import watermark_delay_us
from headrace.tiles.finish import moment
from headrace.tiles.layout import layouts_of

Say = Callable[[str], None]


def backfill_view(session: Callable[[], SparkSession], view: View, place: HistoryPlace, say: Say) -> Backfill:
    """Fold the history of a view and mark it done; one that is done stays as it is, and needs no Spark."""
    if view.captured:
        require_of_the_past(view)
    backfill = begun(view, place)
    say(f"the history of {view.name} ends, and its stream begins, at {backfill.described}")
    if backfill.is_done:
        say(f"{view.name} is backfilled already")
        return backfill
    began, offsets = time.monotonic(), Offsets(place.broker)
    before = sum(offsets.ends(view.topic))
    for stream in view.streams:
        write_history(session(), view, stream, backfill.cuts[stream.name], place, say)
    done = backfill.done(offsets.ends(view.topic))
    keep(done, place.state)
    tiles, seconds = sum(done.ends or ()) - before, time.monotonic() - began
    say(f"{tiles:,} tiles of history in {view.topic} after {seconds:.1f} s; {view.name} is backfilled")
    return done


def write_history(spark: SparkSession, view: View, stream: Stream, cut: Cut, place: HistoryPlace, say: Say) -> None:
    """Write the tiles of everything before the cut of one stream."""
    with plain_arithmetic(spark):
        history = below(silver_events(spark, place.lake, stream), cut)
        newest_us = _newest_us(history, stream)
        if newest_us is None:
            return
        once = each_once(_needed(history, view, stream, newest_us), stream)
        say(f"folding {once.total:,} events of {stream.name}, the newest of {moment(newest_us).isoformat()}")
        partitions = {view.name: len(Offsets(place.broker).ends(view.topic))}
        fold = Fold(TilePlan(stream, (view,), is_base=True), partitions, newest_us=newest_us)
        sink = base_tiles(once.events, fold).write.format("kafka").options(**KAFKA_SINK)
        sink.options(**spark_words(place.broker)).save()


def below(events: DataFrame, cut: Cut) -> DataFrame:
    """The events whose raw offset is below the cut of their partition."""
    return events.where(F.col(OFFSET) < F.get(F.lit(list(cut.raw)).cast("array<bigint>"), F.col(PARTITION)))


def base_tiles(events: DataFrame, fold: Fold) -> DataFrame:
    """Events as the lake has them, each id once → records of the views' changelogs, as the stream folds them."""
    stream = fold.plan.stream
    event = F.struct(*(F.col(f"`{column.name}`") for column in stream.schema))
    arrived = events.select(event.alias("event"), F.unix_micros(ARRIVAL).alias("arrival_us"))
    return folded(typed(arrived, stream), fold)


def _newest_us(history: DataFrame, stream: Stream) -> int | None:
    """The time windows are read at, at the earliest: as stores tell it, who let nothing far ahead make all else old."""
    time_us: Column = F.least(F.unix_micros(F.col(f"`{stream.time}`")), F.unix_micros(ARRIVAL))
    newest_us: int | None = history.agg(F.max(time_us)).head()[0]  # type: ignore[index]  # an aggregate has a row
    return newest_us


def _needed(history: DataFrame, view: View, stream: Stream, newest_us: int) -> DataFrame:
    """What windows may hold, and before it what the stream too would remember the ids of."""
    layouts = layouts_of(view)
    if any(layout.is_kept_forever for layout in layouts):
        return history
    longest_us = max(layout.keep_us for layout in layouts)
    back_us = longest_us + watermark_delay_us(stream, draining=True) + SPARE_US
    return history.where(F.col(DAY) >= F.lit(moment(newest_us - back_us).date()))
