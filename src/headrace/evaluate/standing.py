"""How many predictions and labels of a model stand how, and how long labels took: one tile, of all time.

matched + pending + defaulted + expired + orphan = everything there ever was: predictions, and labels without one.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from headrace.declare.catalogue import LABEL_SECONDS
from headrace.evaluate.book import STANDING, Tile, Tiles
from headrace.evaluate.outcomes import MATCHED
from headrace.store.delays import Delays

COUNTED = ("version", "role", "state_before", "state_after", "label_delay_us")


@dataclass
class Standing:
    """Counts by version, role and state, and the delays of first labels."""

    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    delays: Delays = field(default_factory=lambda: Delays(LABEL_SECONDS))
    n: int = 0

    def add(self, changes: pa.Table) -> None:
        """Count some changes."""
        for change in changes.select(list(COUNTED)).to_pylist():
            self._add(change)
        self.n += changes.num_rows

    def _add(self, change: dict[str, Any]) -> None:
        before, after = change["state_before"], change["state_after"]
        if before is not None:
            self.counts[change["version"], change["role"], before] -= 1
        if after is not None:
            self.counts[change["version"], change["role"], after] += 1
        if after == MATCHED != before and change["label_delay_us"] is not None:
            self.delays.add(change["label_delay_us"] / 1_000_000)

    def rows(self) -> list[list[Any]]:
        """Version, role, state and how many."""
        return [[*of, count] for of, count in sorted(self.counts.items()) if count]

    def encoded(self) -> str:
        """As its tile holds it."""
        said = {
            "counts": self.rows(),
            "delays": self.delays.counts,
            "delay_seconds": self.delays.total_seconds,
            "n": self.n,
        }
        return orjson.dumps(said).decode()


def standing_of(tiles: Tiles) -> Standing:
    """The standing that a book's tiles hold."""
    standing = Standing()
    if STANDING in tiles:
        said = orjson.loads(tiles[STANDING].value)
        standing.counts.update({(version, role, state): count for version, role, state, count in said["counts"]})
        standing.delays.add_all(said["delays"], said["delay_seconds"])
        standing.n = said["n"]
    return standing


def fold(changes: pa.Table, tiles: Tiles) -> Tiles:
    """The standing after some changes; it is of the newest minute there is, where it is found again."""
    standing, newest_us = standing_of(tiles), pc.max(changes["minute_us"]).as_py()
    standing.add(changes)
    minute_us = max(newest_us, tiles[STANDING].minute_us) if STANDING in tiles else newest_us
    return {STANDING: Tile(standing.n, minute_us, standing.encoded())}
