"""What a store answers: the values of an entity's features, and how fresh they are."""

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
# Tiles are kept that much longer than a window needs: the clocks of brokers and servers differ a little.
RETENTION_SLACK_US = UNITS_US["m"]
# And where events tell their own arrivals: recorded time passes quicker than the clock, one stream before another.
RECORDED_RETENTION_SLACK_US = UNITS_US["d"]
# Servers that processes share let go of tiles by their own clock, and that much later still: an entity may be quiet, or
# a scorer behind, and questions are about the time of its last event.
EXPIRY_GRACE_US = UNITS_US["h"]


class StoreUnavailable(HeadraceError):
    """A store that cannot answer now."""


class StoreNotReadyError(StoreUnavailable):
    """A store that has not taken in yet what an earlier one knew."""


class TooManyEntitiesError(HeadraceError):
    """A table of more entities than can be listed at once."""

    def __init__(self, view_name: str, entity_count: str, max_entities: int) -> None:
        super().__init__(
            f"live.{view_name} has {entity_count} entities, and a query may read {max_entities:,}. "
            f"Ask POST /features/{view_name} by key, or silver and gold by SQL."
        )


class RetentionExceededError(HeadraceError):
    """A time for which tiles may have been let go of: an answer would be short without saying so."""

    def __init__(self, at_us: int, newest_time_us: int, slack_us: int) -> None:
        oldest_time = to_datetime(newest_time_us - slack_us).isoformat()
        super().__init__(
            f"at={to_datetime(at_us).isoformat()} is too long ago: the online store keeps what windows since "
            f"{oldest_time} need. "
            "Ask for a later time, or for none."
        )
        self.newest_time_us = newest_time_us


def retention_slack_us(view: View) -> int:
    """How much longer than its windows need the tiles of a view are kept."""
    is_recorded = any(stream.is_recorded for stream in view.streams)
    return RECORDED_RETENTION_SLACK_US if is_recorded else RETENTION_SLACK_US


def require_retained(at_us: int, newest_time_us: int, slack_us: int) -> None:
    """Raise TooLongAgo where tiles of a window at that time may be gone; `known_us` is the newest time stored."""
    if at_us < newest_time_us - slack_us:
        raise RetentionExceededError(at_us, newest_time_us, slack_us)


@dataclass(slots=True)
class LookupResult:
    """Feature values in the view's order; event and arrival time of the newest tile, None for a key never seen.

    `known` says what they were made of, in the order of `lives_of(view)`. Whoever writes a read as text may leave that
    with it: one that is given again need not be written again.
    """

    values: list[Any]
    event_time_us: int | None
    arrival_us: int | None
    provenance: "Sequence[HopProvenance]"
    cached_json: bytes | None = field(default=None, compare=False)


class CachedLookup(NamedTuple):
    """An answer, and how long it stays the same if no tile changes: until one enters a window or leaves one.

    window        (──────────────────at]
    tiles     ├─┤    ├─┤   ├─┤            ├─┤
    answer                           [   )         until the oldest is out of reach, or the next begins
    """

    from_us: int
    until_us: int
    result: LookupResult

    def is_valid_at(self, at_us: int) -> bool:
        """Whether it is still the answer at a time."""
        return self.from_us <= at_us < self.until_us


class HopProvenance(NamedTuple):
    """What an answer was made of, in one hop of one stream: how many events, and when the last of them arrived."""

    event_count: int
    arrival_us: int


class EventRef(NamedTuple):
    """An event by what its tiles tell of it: whose it is, of which stream, when it happened and when it arrived.

    Its id tells in which part it is, where a view has several.
    """

    entity: Entity
    stream: str
    event_time_us: int
    arrival_us: int
    event_id: str = ""


class IncludedEvent(NamedTuple):
    """An event that is to be read as if it were stored: whose it is, and its own tiles."""

    entity: Entity
    rows_by_hop: Sequence[TileRows | None]


NO_PROVENANCE = HopProvenance(0, 0)


class TileRowsReader:
    """Reads one view from the rows of an entity, wherever the rows come from."""

    def __init__(self, view: View) -> None:
        self.layouts = hop_layouts(view)
        self._reader = FeatureReader(view)
        self.hop_count = len(self.layouts)
        self.live_layout_count = self.hop_count * len(view.streams)
        self._first_index = {stream.name: self.hop_count * index for index, stream in enumerate(view.sorted_streams)}
        self._salt = view.salt
        # And once more: rows from history may follow those from the streams.
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
        """The values as if an event were stored already: its tiles are one part more of each hop."""
        return self.read([*(rows_by_hop or [None] * self.live_layout_count), *event.rows_by_hop], at_us)

    def read_with_validity(self, rows_by_hop: Sequence[TileRows | None], at_us: int) -> CachedLookup:
        """The values at a time, and until when they are the same."""
        hops = zip(rows_by_hop, self._window_reaches_us, strict=False)
        until_us = min(
            (rows.unchanged_until(at_us, reaches_us) for rows, reaches_us in hops if rows is not None),
            default=INT64_MAX,
        )
        return CachedLookup(at_us, until_us, self.read(rows_by_hop, at_us))

    def is_applied(self, rows_by_hop: Sequence[TileRows | None], event: EventRef) -> bool:
        """Whether its tile of each hop has taken in what arrived when this event did, or later.

        A hop whose windows did not reach back to the event when it arrived need not have heard of it.
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
        """Of each hop of each stream, what an answer at that time is made of."""
        return [
            NO_PROVENANCE
            if rows is None
            else HopProvenance(*rows.summarize_events(at_us - rows.layout.retention_us, at_us))
            for rows in rows_by_hop
        ]

    def _merged_provenance(self, rows_by_hop: Sequence[TileRows | None], at_us: int) -> list[HopProvenance]:
        """The same of all parts together."""
        by_layout = self._provenance_by_layout(rows_by_hop, at_us)
        parts = [by_layout[index :: self.live_layout_count] for index in range(self.live_layout_count)]
        return [_merge_provenance(part) for part in parts]

    def _newest_times_of_parts(
        self, rows_by_hop: Sequence[TileRows | None], at_us: int
    ) -> tuple[int | None, int | None]:
        """Of all parts the latest tile's times; of tiles of one start, what they say together."""
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
    """What parts were made of; one without events says nothing of arrivals."""
    nonempty_parts = [part for part in parts if part.event_count]
    return (
        HopProvenance(sum(one.event_count for one in nonempty_parts), max(one.arrival_us for one in nonempty_parts))
        if nonempty_parts
        else NO_PROVENANCE
    )


def _window_reaches_us(view: View, layout: HopLayout) -> list[int]:
    """How far back the windows of a hop reach: a tile that starts at or before that is in none."""
    windows = {feature.window for feature in view.features if feature.window.hop_us == layout.hop_us}
    return sorted(window.length_us + layout.hop_us for window in windows)


def _newest_times(rows_by_hop: Sequence[TileRows | None], at_us: int) -> tuple[int | None, int | None]:
    """Event and arrival time of the newest tile that a window at that time can hold.

    Tiles of every hop see every event, so the shortest hop that has a tile has the newest event in its last one.
    """
    for rows in rows_by_hop:
        if rows is not None:
            newest = rows.newest_times(at_us - rows.layout.retention_us, at_us)
            if newest is not None:
                return newest
    return None, None
