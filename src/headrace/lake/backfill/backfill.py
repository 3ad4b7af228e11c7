"""`headrace backfill`: folds a view's history in one batch on Spark, into tiles that merge with those of its stream.

    lake     silver events below the cut, each id once ──▶ base tiles ──┐
    stream   clean records from the cut on ──────────────▶ live tiles ──┴▶ the view's changelog

It may be killed at any time and started again: the cutover stays, and a rewritten tile is the same tile.
"""

import time
from collections.abc import Callable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.declare.features.view import View
from headrace.declare.streams.stream import Stream
from headrace.kafka.client.security_properties import spark_kafka_options
from headrace.kafka.offsets import OffsetClient
from headrace.lake.backfill.cutover import BackfillConfig, begin_or_resume_backfill
from headrace.lake.event_reader import read_silver_events
from headrace.lake.ingestion.table_mapping import ARRIVAL, DAY, OFFSET, PARTITION
from headrace.lake.point_in_time_support import require_point_in_time_support
from headrace.lake.training.training_set import deduplicate_events, disable_ansi_mode
from headrace.spark.execution.lanes import KAFKA_SINK_OPTIONS
from headrace.spark.execution.watermark_delay import watermark_delay_us
from headrace.spark.tiles.backfill_cutovers import Backfill, Cutover, save_backfill
from headrace.spark.tiles.tile_query import TILE_MARGIN_US, TileFoldConfig, TilePlan, fold_events, to_tile_inputs
from headrace.tiles.finish import to_datetime
from headrace.tiles.layout import hop_layouts

ProgressReporter = Callable[[str], None]


def backfill_view(
    session: Callable[[], SparkSession], view: View, config: BackfillConfig, report: ProgressReporter
) -> Backfill:
    """Fold the history of a view and mark it done; a completed backfill is left as it is, without Spark."""
    if view.captured_table:
        require_point_in_time_support(view)
    backfill = begin_or_resume_backfill(view, config)
    report(f"the history of {view.name} ends, and its stream begins, at {backfill.description}")
    if backfill.is_done:
        report(f"{view.name} is backfilled already")
        return backfill
    started, offset_client = time.monotonic(), OffsetClient(config.broker)
    tiles_before = sum(offset_client.end_offset_list(view.topic))
    for stream in view.streams:
        write_history(session(), view, stream, backfill.cuts[stream.name], config, report)
    completed = backfill.with_ends(offset_client.end_offset_list(view.topic))
    save_backfill(completed, config.state)
    tile_count, seconds = sum(completed.ends or ()) - tiles_before, time.monotonic() - started
    report(f"{tile_count:,} tiles of history in {view.topic} after {seconds:.1f} s; {view.name} is backfilled")
    return completed


def write_history(
    spark: SparkSession, view: View, stream: Stream, cutover: Cutover, config: BackfillConfig, report: ProgressReporter
) -> None:
    """Write the tiles of everything before the cutover of one stream."""
    with disable_ansi_mode(spark):
        history = filter_before_cutover(read_silver_events(spark, config.lake, stream), cutover)
        newest_us = _newest_time_us(history, stream)
        if newest_us is None:
            return
        deduplicated = deduplicate_events(_filter_needed(history, view, stream, newest_us), stream)
        report(
            f"folding {deduplicated.total:,} events of {stream.name}, the newest of "
            f"{to_datetime(newest_us).isoformat()}"
        )
        partitions = {view.name: len(OffsetClient(config.broker).end_offset_list(view.topic))}
        fold_config = TileFoldConfig(TilePlan(stream, (view,), is_base=True), partitions, newest_event_us=newest_us)
        sink = fold_base_tiles(deduplicated.events, fold_config).write.format("kafka").options(**KAFKA_SINK_OPTIONS)
        sink.options(**spark_kafka_options(config.broker)).save()


def filter_before_cutover(events: DataFrame, cutover: Cutover) -> DataFrame:
    """The events whose raw offset is below the cutover of their partition."""
    return events.where(F.col(OFFSET) < F.get(F.lit(list(cutover.raw)).cast("array<bigint>"), F.col(PARTITION)))


def fold_base_tiles(events: DataFrame, fold_config: TileFoldConfig) -> DataFrame:
    """Events from the lake, each id once → records of the views' changelogs, as the stream folds them."""
    stream = fold_config.plan.stream
    event = F.struct(*(F.col(f"`{column.name}`") for column in stream.schema))
    events_with_arrival = events.select(event.alias("event"), F.unix_micros(ARRIVAL).alias("arrival_us"))
    return fold_events(to_tile_inputs(events_with_arrival, stream), fold_config)


def _newest_time_us(history: DataFrame, stream: Stream) -> int | None:
    """The earliest read time of windows, as stores compute it: an event far ahead does not make all others old."""
    time_us: Column = F.least(F.unix_micros(F.col(f"`{stream.time}`")), F.unix_micros(ARRIVAL))
    newest_us: int | None = history.agg(F.max(time_us)).head()[0]  # type: ignore[index]  # an aggregate always has a row
    return newest_us


def _filter_needed(history: DataFrame, view: View, stream: Stream, newest_us: int) -> DataFrame:
    """The events that windows may need, plus those whose ids the stream would remember."""
    layouts = hop_layouts(view)
    if any(layout.is_kept_forever for layout in layouts):
        return history
    longest_us = max(layout.retention_us for layout in layouts)
    lookback_us = longest_us + watermark_delay_us(stream, draining=True) + TILE_MARGIN_US
    return history.where(F.col(DAY) >= F.lit(to_datetime(newest_us - lookback_us).date()))
