"""The start of a backfill: chooses the cutover, rejects one that would miss or double events, and saves it."""

import time
from dataclasses import dataclass
from pathlib import Path

from headrace.declare.durations import UNITS_US
from headrace.declare.features.view import View
from headrace.declare.streams.stream import Stream
from headrace.errors import HeadraceError
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.topics import ensure_topics
from headrace.lake.ingestion.table_mapping import silver_mapping
from headrace.lake.lake_table import LakeTable
from headrace.spark.tiles.backfill_cutovers import (
    Backfill,
    Cutover,
    base_tile_versions,
    delete_backfill,
    load_backfill,
    save_backfill,
)
from headrace.spark.tiles.query_versions import is_computed_without_cutover

# While catching up, the stream's partitions may be a day apart: at the cutover they must be far closer.
MAX_DELAY_US = UNITS_US["h"]


class BackfillRefused(HeadraceError):
    """A view whose history cannot be folded in the current state."""


@dataclass(frozen=True)
class BackfillConfig:
    """Where history is, where its tiles go, and where its cutover is saved."""

    lake: Path
    broker: str
    state: Path


def begin_or_resume_backfill(view: View, config: BackfillConfig) -> Backfill:
    """The backfill of a view: resumed, or started now."""
    backfill = load_backfill(config.state, view)
    if backfill is None:
        return _begin_backfill(view, config)
    if not backfill.matches_view(view):
        raise BackfillRefused(
            f"{view.name} has changed since its backfill began. Undo the change, or give it another name."
        )
    ensure_topics(config.broker, view.streams, [view])
    return backfill


def _begin_backfill(view: View, config: BackfillConfig) -> Backfill:
    _require_new_view(view, config.state)
    partitions = ensure_topics(config.broker, view.streams, [view]).stream_partitions
    offset_client = OffsetClient(config.broker)
    if any(offset_client.end_offset_list(view.topic)):
        raise BackfillRefused(
            f"{view.topic} has tiles already: they would be counted in addition to those of the history. "
            f"Give {view.name} another name."
        )
    cutovers = {
        stream.name: _find_cutover(view, stream, config.lake, offset_client, partitions[stream.name])
        for stream in view.streams
    }
    backfill = Backfill(view.name, cutovers, base_tile_versions(view))
    save_backfill(backfill, config.state)
    try:
        _require_new_view(view, config.state)  # a stream that was started meanwhile has not read the file
    except BackfillRefused:
        delete_backfill(backfill, config.state)
        raise
    return backfill


def _require_new_view(view: View, state: Path) -> None:
    if is_computed_without_cutover(view, state):
        raise BackfillRefused(
            f"{view.name} is computed by a query from the beginning of the log: its history would be counted "
            f"twice. Give the view another name, and backfill that before it is started."
        )


def _find_cutover(view: View, stream: Stream, lake: Path, offset_client: OffsetClient, partition_count: int) -> Cutover:
    table = LakeTable(lake, silver_mapping(stream))
    positions = table.positions(range(partition_count)).values()
    cutover = Cutover(
        tuple(position.last_written + 1 for position in positions), tuple(at.last_read + 1 for at in positions)
    )
    cutover.require_within_log(view.name, stream.clean, offset_client.start_offset_list(stream.clean))
    _require_near_log_end(stream, cutover, offset_client)
    return cutover


def _require_near_log_end(stream: Stream, cutover: Cutover, offset_client: OffsetClient) -> None:
    hour_ago_offsets = offset_client.offsets_for_time(stream.clean, time.time_ns() // 1000 - MAX_DELAY_US)
    for partition, (ingested, end, hour_ago_offset) in enumerate(
        zip(cutover.clean, offset_client.end_offset_list(stream.clean), hour_ago_offsets, strict=True)
    ):
        if not hour_ago_offset <= ingested <= end:
            problem = "is more than an hour behind that log" if ingested < hour_ago_offset else "has read another log"
            raise BackfillRefused(
                f"The lake has landed {stream.clean}-{partition} up to {ingested} of {end}: it {problem}. "
                "Let `headrace up` run until it has landed what is there, then begin the backfill."
            )
