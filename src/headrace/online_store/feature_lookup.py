"""Results of feature lookups: the values of an entity's features, and their freshness."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headrace.aggregates.partial import INT64_MAX
from headrace.declare.durations import UNITS_US
from headrace.declare.features.view import View
from headrace.errors import HeadraceError
from headrace.tiles.finish import to_datetime
from headrace.tiles.layout import HopLayout, hop_layouts
from headrace.tiles.online.feature_reader import FeatureReader
from headrace.tiles.online.tile_rows import TileRows
from headrace.tiles.salt import salt_bucket
from headrace.tiles.tile import Entity

TILE_HEADER = struct.Struct("<4q")
# Tiles are retained this much longer than windows need, because the clocks of brokers and servers differ.
RETENTION_SLACK_US = UNITS_US["m"]
# For recorded arrivals: recorded time advances faster than the clock, and differently in each stream.
RECORDED_RETENTION_SLACK_US = UNITS_US["d"]
# Shared servers expire tiles by their own clock, this much later: an entity may be idle, or a scorer lag behind,
# and reads are as of the time of its last event.
EXPIRY_GRACE_US = UNITS_US["h"]


class StoreUnavailable(HeadraceError):
    """A store cannot answer now."""


class StoreNotReadyError(StoreUnavailable):
    """A store has not yet applied all that an earlier server had."""


class TooManyEntitiesError(HeadraceError):
    """A table has more entities than can be listed at once."""

    def __init__(self, view_name: str, entity_count: str, max_entities: int) -> None:
        super().__init__(
            f"live.{view_name} has {entity_count} entities, and a query may read {max_entities:,}. "
            f"Ask POST /features/{view_name} by key, or silver and gold by SQL."
        )


class RetentionExceededError(HeadraceError):
    """Tiles of the requested time may have expired: the values would be silently incomplete."""

    def __init__(self, at_us: int, newest_time_us: int, slack_us: int) -> None:
        oldest_time = to_datetime(newest_time_us - slack_us).isoformat()
        super().__init__(
            f"at={to_datetime(at_us).isoformat()} is too long ago: the online store retains tiles for windows since "
            f"{oldest_time}. "
            "Ask for a later time, or for none."
        )
        self.newest_time_us = newest_time_us


def retention_slack_us(view: View) -> int:
    """How much longer than its windows need the tiles of a view are retained."""
    is_recorded = any(stream.is_recorded for stream in view.streams)
    return RECORDED_RETENTION_SLACK_US if is_recorded else RETENTION_SLACK_US


def require_retained(at_us: int, newest_time_us: int, slack_us: int) -> None:
    """Raise RetentionExceededError if tiles of a window at that time may have expired."""
    if at_us < newest_time_us - slack_us:
        raise RetentionExceededError(at_us, newest_time_us, slack_us)


@dataclass(slots=True)
class LookupResult:
    """Feature values in the view's order; event and arrival time of the newest tile, None for an unknown key.

    `provenance` has the events they are computed from, in the order of `live_layouts(view)`. `cached_json` is the
    encoded result, so that a repeated result is not encoded again.
    """

    values: list[Any]
    event_time_us: int | None
    arrival_us: int | None
    provenance: "Sequence[HopProvenance]"
    cached_json: bytes | None = field(default=None, compare=False)


class CachedLookup(NamedTuple):
    """A lookup result and its validity, if no tile changes: until a tile enters or leaves a window.

    window        (──────────────────at]
    tiles     ├─┤    ├─┤   ├─┤            ├─┤
    result                           [   )         until the oldest leaves the window, or the next enters
    """

    from_us: int
    until_us: int
    result: LookupResult

    def is_valid_at(self, at_us: int) -> bool:
        """Whether it is still the result at a time."""
        return self.from_us <= at_us < self.until_us


class HopProvenance(NamedTuple):
    """The events behind a result, in one hop of one stream: their number, and the arrival of the last."""

    event_count: int
    arrival_us: int


class EventRef(NamedTuple):
    """An event as its tiles identify it: its entity, stream, event time and arrival time.

    Its id determines the salt bucket, if the view has several.
    """

    entity: Entity
    stream: str
    event_time_us: int
    arrival_us: int
    event_id: str = ""


class IncludedEvent(NamedTuple):
    """An event to include in a read as if it were stored: its entity, and its own tiles."""

    entity: Entity
    rows_by_hop: Sequence[TileRows | None]


NO_PROVENANCE = HopProvenance(0, 0)


class TileRowsReader:
    """Reads one view from the rows of an entity, independent of the store."""

    def __init__(self, view: View) -> None:
        self.layouts = hop_layouts(view)
        self._reader = FeatureReader(view)
        self.hop_count = len(self.layouts)
        self.live_layout_count = self.hop_count * len(view.streams)
        self._first_index = {stream.name: self.hop_count * index for index, stream in enumerate(view.sorted_streams)}
        self._salt = view.salt
        # One more set: rows from history may follow the live ones.
        layout_sets = (view.salt + 1) * len(view.streams)
        self._window_reaches_us = layout_sets * [_window_reaches_us(view, layout) for layout in self.layouts]

    def read(self, rows_by_hop: Sequence[TileRows | None] | None, at_us: int) -> LookupResult:
        """The values at a time; an entity without rows has the defaults."""
        if not rows_by_hop:
            return LookupResult(self._reader.default_row.copy(), None, None, [NO_PROVENANCE] * self.live_layout_count)
        read_newest_times = _newest_times if len(rows_by_hop) == self.hop_count else self._newest_times_of_parts
        event_time_us, arrival_us = read_newest_times(rows_by_hop, at_us)
        read_provenance = (
            self._provenance_by_layout if len(rows_by_hop) == self.live_layout_count else self._merged_provenance
        )
        values = self._reader.read_values(rows_by_hop, at_us)
        return LookupResult(values, event_time_us, arrival_us, read_provenance(rows_by_hop, at_us))

    def read_including(self, rows_by_hop: Sequence[TileRows | None], event: IncludedEvent, at_us: int) -> LookupResult:
        """The values as if an event were already stored: its tiles are one more part of each hop."""
        return self.read([*(rows_by_hop or [None] * self.live_layout_count), *event.rows_by_hop], at_us)

    def read_with_validity(self, rows_by_hop: Sequence[TileRows | None], at_us: int) -> CachedLookup:
        """The values at a time, and until when they are valid."""
        hops = zip(rows_by_hop, self._window_reaches_us, strict=False)
        until_us = min(
            (rows.unchanged_until(at_us, reaches_us) for rows, reaches_us in hops if rows is not None),
            default=INT64_MAX,
        )
        return CachedLookup(at_us, until_us, self.read(rows_by_hop, at_us))

    def is_applied(self, rows_by_hop: Sequence[TileRows | None], event: EventRef) -> bool:
        """Whether the event's tile of each hop includes an event that arrived when this one did, or later.

        A hop whose windows did not reach back to the event when it arrived need not include it.
        """
        first_index = self._first_index[event.stream] + self.live_layout_count * salt_bucket(event.event_id, self._salt)
        part_rows = rows_by_hop[first_index : first_index + self.hop_count] or [None] * self.hop_count
        return all(
            rows is not None and rows.is_applied(start_us, event.arrival_us)
            for rows, layout in zip(part_rows, self.layouts, strict=True)
            if (start_us := event.event_time_us // layout.hop_us * layout.hop_us)
            > event.arrival_us - layout.retention_us
        )

    def _provenance_by_layout(self, rows_by_hop: Sequence[TileRows | None], at_us: int) -> list[HopProvenance]:
        """The provenance of a result at that time, for each hop of each stream."""
        return [
            NO_PROVENANCE
            if rows is None
            else HopProvenance(*rows.summarize_events(at_us - rows.layout.retention_us, at_us))
            for rows in rows_by_hop
        ]

    def _merged_provenance(self, rows_by_hop: Sequence[TileRows | None], at_us: int) -> list[HopProvenance]:
        """The provenance of all parts together."""
        by_layout = self._provenance_by_layout(rows_by_hop, at_us)
        parts = [by_layout[index :: self.live_layout_count] for index in range(self.live_layout_count)]
        return [_merge_provenance(part) for part in parts]

    def _newest_times_of_parts(
        self, rows_by_hop: Sequence[TileRows | None], at_us: int
    ) -> tuple[int | None, int | None]:
        """The times of the latest tile of all parts; tiles with one start are combined."""
        for hop, layout in enumerate(self.layouts):
            parts = [rows for rows in rows_by_hop[hop :: self.hop_count] if rows is not None]
            times_of_parts = [
                times for rows in parts if (times := rows.newest_times(at_us - layout.retention_us, at_us)) is not None
            ]
            if times_of_parts:
                last_tile = max(event_us // layout.hop_us for event_us, _ in times_of_parts)
                events_us, arrivals_us = zip(
                    *(
                        event_and_arrival_us
                        for event_and_arrival_us in times_of_parts
                        if event_and_arrival_us[0] // layout.hop_us == last_tile
                    ),
                    strict=True,
                )
                return max(events_us), max(arrivals_us)
        return None, None


def _merge_provenance(parts: Sequence[HopProvenance]) -> HopProvenance:
    """The combined provenance of parts; one without events has no arrival."""
    nonempty_parts = [part for part in parts if part.event_count]
    return (
        HopProvenance(sum(one.event_count for one in nonempty_parts), max(one.arrival_us for one in nonempty_parts))
        if nonempty_parts
        else NO_PROVENANCE
    )


def _window_reaches_us(view: View, layout: HopLayout) -> list[int]:
    """How far back the windows of a hop reach: they exclude a tile that starts at or before that."""
    windows = {feature.window for feature in view.features if feature.window.hop_us == layout.hop_us}
    return sorted(window.length_us + layout.hop_us for window in windows)


def _newest_times(rows_by_hop: Sequence[TileRows | None], at_us: int) -> tuple[int | None, int | None]:
    """Event and arrival time of the newest tile that a window at that time can hold.

    Every hop includes every event, so the last tile of the shortest hop that has one contains the newest event.
    """
    for rows in rows_by_hop:
        if rows is not None:
            newest = rows.newest_times(at_us - rows.layout.retention_us, at_us)
            if newest is not None:
                return newest
    return None, None
