"""The beginning of a backfill: the cut is found, refused where it would miss or double something, and written down."""

import time
from dataclasses import dataclass
from pathlib import Path

from headrace.declare.durations import UNITS_US
from headrace.declare.stream import Stream
from headrace.declare.views import View
from headrace.errors import HeadraceError
from headrace.lake.landing import silver
from headrace.lake.table import LakeTable
from headrace.log.offsets import Offsets
from headrace.log.topics import ensure_topics
from headrace.stream.backfills import Backfill, Cut, forget, keep, load, versions_of
from headrace.stream.generations import is_kept_from_the_beginning

# While it catches up the stream lets its partitions be a day apart: where it begins, they must be far closer.
BEHIND_US = UNITS_US["h"]


class CannotBackfill(HeadraceError):
    """A view that cannot have its history folded as things are."""


@dataclass(frozen=True)
class HistoryPlace:
    """Where history is, where its tiles go, and where its cut is written down."""

    lake: Path
    broker: str
    state: Path


def begun(view: View, place: HistoryPlace) -> Backfill:
    """The backfill of a view: as it was begun, or begun now."""
    found = load(place.state, view)
    if found is None:
        return _begin(view, place)
    if not found.fits(view):
        raise CannotBackfill(
            f"{view.name} has changed since its backfill began. Undo the change, or give it another name."
        )
    ensure_topics(place.broker, view.streams, [view])
    return found


def _begin(view: View, place: HistoryPlace) -> Backfill:
    _require_new(view, place.state)
    partitions = ensure_topics(place.broker, view.streams, [view]).partitions
    offsets = Offsets(place.broker)
    if any(offsets.ends(view.topic)):
        raise CannotBackfill(
            f"{view.topic} has tiles already: they would be counted beside those of the history. "
            f"Give {view.name} another name."
        )
    cuts = {stream.name: _cut(view, stream, place.lake, offsets, partitions[stream.name]) for stream in view.streams}
    backfill = Backfill(view.name, cuts, versions_of(view))
    keep(backfill, place.state)
    try:
        _require_new(view, place.state)  # a stream that was started meanwhile has not seen the file
    except CannotBackfill:
        forget(backfill, place.state)
        raise
    return backfill


def _require_new(view: View, state: Path) -> None:
    if is_kept_from_the_beginning(view, state):
        raise CannotBackfill(
            f"{view.name} is kept by a query that counts from the beginning of the log: its history would be counted "
            f"twice. Give the view another name, and backfill that before it is started."
        )


def _cut(view: View, stream: Stream, lake: Path, offsets: Offsets, partitions: int) -> Cut:
    table = LakeTable(lake, silver(stream))
    positions = table.positions(range(partitions)).values()
    cut = Cut(tuple(at.landed + 1 for at in positions), tuple(at.read + 1 for at in positions))
    cut.require_in(view.name, stream.clean, offsets.begins(stream.clean))
    _require_near_the_end(stream, cut, offsets)
    return cut


def _require_near_the_end(stream: Stream, cut: Cut, offsets: Offsets) -> None:
    recent = offsets.since(stream.clean, time.time_ns() // 1000 - BEHIND_US)
    for number, (landed, end, hour_ago) in enumerate(zip(cut.clean, offsets.ends(stream.clean), recent, strict=True)):
        if not hour_ago <= landed <= end:
            said = "is more than an hour behind that log" if landed < hour_ago else "has read another log"
            raise CannotBackfill(
                f"The lake has landed {stream.clean}-{number} up to {landed} of {end}: it {said}. "
                "Let `headrace up` run until it has landed what is there, then begin the backfill."
            )
