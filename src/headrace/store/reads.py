"""What a store answers: the values of an entity's features, and how fresh they are."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headrace.declare.durations import UNITS_US
from headrace.declare.views import View
from headrace.errors import HeadraceError
from headrace.tiles.finish import moment
from headrace.tiles.layout import INT64_MAX, HopLayout, layouts_of
from headrace.tiles.read import Reader
from headrace.tiles.rows import TileRows
from headrace.tiles.salt import salt_of
from headrace.tiles.tile import Entity

HEAD = struct.Struct("<4q")
# Tiles are kept that much longer than a window needs: the clocks of brokers and servers differ a little.
SLACK_US = UNITS_US["m"]
# And where events tell their own arrivals: recorded time passes quicker than the clock, one stream before another.
RECORDED_SLACK_US = UNITS_US["d"]
# Servers that processes share let go of tiles by their own clock, and that much later still: an entity may be quiet, or
# a scorer behind, and questions are about the time of its last event.
EXPIRY_GRACE_US = UNITS_US["h"]


class StoreUnavailable(HeadraceError):
    """A store that cannot answer now."""


class StoreFilling(StoreUnavailable):
    """A store that has not taken in yet what an earlier one knew."""


class TooManyEntities(HeadraceError):
    """A table of more entities than can be listed at once."""

    def __init__(self, view_name: str, found: str, most: int) -> None:
        super().__init__(
            f"live.{view_name} has {found} entities, and a query may read {most:,}. "
            f"Ask POST /features/{view_name} by key, or silver and gold by SQL."
        )


class TooLongAgo(HeadraceError):
    """A time for which tiles may have been let go of: an answer would be short without saying so."""

    def __init__(self, at_us: int, known_us: int, slack_us: int) -> None:
        oldest = moment(known_us - slack_us).isoformat()
        super().__init__(
            f"at={moment(at_us).isoformat()} is too long ago: the online store keeps what windows since {oldest} need. "
            "Ask for a later time, or for none."
        )
        self.known_us = known_us


def slack_of(view: View) -> int:
    """How much longer than its windows need the tiles of a view are kept."""
    is_recorded = any(stream.is_recorded for stream in view.streams)
    return RECORDED_SLACK_US if is_recorded else SLACK_US


def require_kept(at_us: int, known_us: int, slack_us: int) -> None:
    """Raise TooLongAgo where tiles of a window at that time may be gone; `known_us` is the newest time stored."""
    if at_us < known_us - slack_us:
        raise TooLongAgo(at_us, known_us, slack_us)


@dataclass(slots=True)
class Read:
    """Feature values in the view's order; event and arrival time of the newest tile, None for a key never seen.

    `known` says what they were made of, in the order of `lives_of(view)`. Whoever writes a read as text may leave that
    with it: one that is given again need not be written again.
    """

    values: list[Any]
    event_time_us: int | None
    arrival_us: int | None
    known: "Sequence[Known]"
    written: bytes | None = field(default=None, compare=False)


class Unchanged(NamedTuple):
    """An answer, and how long it stays the same if no tile changes: until one enters a window or leaves one.

    window        (──────────────────at]
    tiles     ├─┤    ├─┤   ├─┤            ├─┤
    answer                           [   )         until the oldest is out of reach, or the next begins
    """

    from_us: int
    until_us: int
    read: Read

    def holds(self, at_us: int) -> bool:
        """Whether it is still the answer at a time."""
        return self.from_us <= at_us < self.until_us


class Known(NamedTuple):
    """What an answer was made of, in one hop of one stream: how many events, and when the last of them arrived."""

    events: int
    arrival_us: int


class Sought(NamedTuple):
    """An event by what its tiles tell of it: whose it is, of which stream, when it happened and when it arrived.

    Its id tells in which part it is, where a view has several.
    """

    entity: Entity
    stream: str
    event_time_us: int
    arrival_us: int
    event_id: str = ""


class Added(NamedTuple):
    """An event that is to be read as if it were stored: whose it is, and its own tiles."""

    entity: Entity
    rows_by_hop: Sequence[TileRows | None]


NOTHING_KNOWN = Known(0, 0)


class ViewReader:
    """Reads one view from the rows of an entity, wherever the rows come from."""

    def __init__(self, view: View) -> None:
        self.layouts = layouts_of(view)
        self._reader = Reader(view)
        self.hops = len(self.layouts)
        self.lives = self.hops * len(view.streams)
        self._first_place = {stream.name: self.hops * place for place, stream in enumerate(view.streams_by_name)}
        self._salt = view.salt
        # And once more: rows from history may follow those from the streams.
        sets = (view.salt + 1) * len(view.streams)
        self._reaches_us = sets * [_reaches_us(view, layout) for layout in self.layouts]

    def read(self, rows_by_hop: Sequence[TileRows | None] | None, at_us: int) -> Read:
        """The values at a time; an entity without rows has the defaults."""
        if not rows_by_hop:
            return Read(self._reader.default_row.copy(), None, None, [NOTHING_KNOWN] * self.lives)
        newest = _newest if len(rows_by_hop) == self.hops else self._newest_of_parts
        event_time_us, arrival_us = newest(rows_by_hop, at_us)
        known = self._known if len(rows_by_hop) == self.lives else self._known_of_parts
        values = self._reader.values(rows_by_hop, at_us)
        return Read(values, event_time_us, arrival_us, known(rows_by_hop, at_us))

    def read_with(self, rows_by_hop: Sequence[TileRows | None], added: Added, at_us: int) -> Read:
        """The values as if an event were stored already: its tiles are one part more of each hop."""
        return self.read([*(rows_by_hop or [None] * self.lives), *added.rows_by_hop], at_us)

    def read_for_a_while(self, rows_by_hop: Sequence[TileRows | None], at_us: int) -> Unchanged:
        """The values at a time, and until when they are the same."""
        hops = zip(rows_by_hop, self._reaches_us, strict=False)
        until_us = min(
            (rows.same_until(at_us, reaches_us) for rows, reaches_us in hops if rows is not None), default=INT64_MAX
        )
        return Unchanged(at_us, until_us, self.read(rows_by_hop, at_us))

    def heard(self, rows_by_hop: Sequence[TileRows | None], sought: Sought) -> bool:
        """Whether its tile of each hop has taken in what arrived when this event did, or later.

        A hop whose windows did not reach back to the event when it arrived need not have heard of it.
        """
        first = self._first_place[sought.stream] + self.lives * salt_of(sought.event_id, self._salt)
        own = rows_by_hop[first : first + self.hops] or [None] * self.hops
        return all(
            rows is not None and rows.heard(start_us, sought.arrival_us)
            for rows, layout in zip(own, self.layouts, strict=True)
            if (start_us := sought.event_time_us // layout.hop_us * layout.hop_us) > sought.arrival_us - layout.keep_us
        )

    def _known(self, rows_by_hop: Sequence[TileRows | None], at_us: int) -> list[Known]:
        """Of each hop of each stream, what an answer at that time is made of."""
        return [
            NOTHING_KNOWN if rows is None else Known(*rows.known(at_us - rows.layout.keep_us, at_us))
            for rows in rows_by_hop
        ]

    def _known_of_parts(self, rows_by_hop: Sequence[TileRows | None], at_us: int) -> list[Known]:
        """The same of all parts together."""
        each = self._known(rows_by_hop, at_us)
        parts = [each[place :: self.lives] for place in range(self.lives)]
        return [_together(found) for found in parts]

    def _newest_of_parts(self, rows_by_hop: Sequence[TileRows | None], at_us: int) -> tuple[int | None, int | None]:
        """Of all parts the latest tile's times; of tiles of one start, what they say together."""
        for hop, layout in enumerate(self.layouts):
            parts = [rows for rows in rows_by_hop[hop :: self.hops] if rows is not None]
            found = [times for rows in parts if (times := rows.newest(at_us - layout.keep_us, at_us)) is not None]
            if found:
                last = max(event_us // layout.hop_us for event_us, _ in found)
                events_us, arrivals_us = zip(*(one for one in found if one[0] // layout.hop_us == last), strict=True)
                return max(events_us), max(arrivals_us)
        return None, None


def _together(parts: Sequence[Known]) -> Known:
    """What parts were made of; one without events says nothing of arrivals."""
    known = [one for one in parts if one.events]
    return Known(sum(one.events for one in known), max(one.arrival_us for one in known)) if known else NOTHING_KNOWN


def _reaches_us(view: View, layout: HopLayout) -> list[int]:
    """How far back the windows of a hop reach: a tile that starts at or before that is in none."""
    windows = {feature.window for feature in view.features if feature.window.hop_us == layout.hop_us}
    return sorted(window.length_us + layout.hop_us for window in windows)


def _newest(rows_by_hop: Sequence[TileRows | None], at_us: int) -> tuple[int | None, int | None]:
    """Event and arrival time of the newest tile that a window at that time can hold.

    Tiles of every hop see every event, so the shortest hop that has a tile has the newest event in its last one.
    """
    for rows in rows_by_hop:
        if rows is not None:
            newest = rows.newest(at_us - rows.layout.keep_us, at_us)
            if newest is not None:
                return newest
    return None, None
