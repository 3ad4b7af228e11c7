"""Counts of a model's predictions and labels by state, and label delays: one tile, of all time.

matched + pending + defaulted + expired + orphan = everything ever seen: predictions, and labels without one.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from headrace.declare.metric_catalog import LABEL_SECONDS_BUCKETS
from headrace.monitoring.outcomes.outcome_writer import COUNTS_KEY, OutcomeTile, OutcomeTiles
from headrace.monitoring.outcomes.outcomes import MATCHED
from headrace.online_store.delay_histogram import DelayHistogram

COUNTED_COLUMNS = ("version", "role", "state_before", "state_after", "label_delay_us")


@dataclass
class OutcomeCounts:
    """Counts by version, role and state, and the delays of first labels."""

    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    label_delays: DelayHistogram = field(default_factory=lambda: DelayHistogram(LABEL_SECONDS_BUCKETS))
    change_count: int = 0

    def add_changes(self, changes: pa.Table) -> None:
        """Count some changes."""
        for change in changes.select(list(COUNTED_COLUMNS)).to_pylist():
            self._add_change(change)
        self.change_count += changes.num_rows

    def _add_change(self, change: dict[str, Any]) -> None:
        before, after = change["state_before"], change["state_after"]
        if before is not None:
            self.counts[change["version"], change["role"], before] -= 1
        if after is not None:
            self.counts[change["version"], change["role"], after] += 1
        if after == MATCHED != before and change["label_delay_us"] is not None:
            self.label_delays.add(change["label_delay_us"] / 1_000_000)

    def to_rows(self) -> list[list[Any]]:
        """Version, role, state and count."""
        return [[*group, count] for group, count in sorted(self.counts.items()) if count]

    def to_json(self) -> str:
        """The counts as JSON."""
        plain_counts = {
            "counts": self.to_rows(),
            "delays": self.label_delays.counts,
            "delay_seconds": self.label_delays.total_seconds,
            "n": self.change_count,
        }
        return orjson.dumps(plain_counts).decode()


def counts_from_tiles(tiles: OutcomeTiles) -> OutcomeCounts:
    """The counts in a writer's tiles."""
    counts = OutcomeCounts()
    if COUNTS_KEY in tiles:
        decoded = orjson.loads(tiles[COUNTS_KEY].value)
        counts.counts.update({(version, role, state): count for version, role, state, count in decoded["counts"]})
        counts.label_delays.merge(decoded["delays"], decoded["delay_seconds"])
        counts.change_count = decoded["n"]
    return counts


def fold_counts(changes: pa.Table, tiles: OutcomeTiles) -> OutcomeTiles:
    """The counts after some changes; stored under the newest minute, where they are found again."""
    counts, newest_us = counts_from_tiles(tiles), pc.max(changes["minute_us"]).as_py()
    counts.add_changes(changes)
    minute_us = max(newest_us, tiles[COUNTS_KEY].minute_us) if COUNTS_KEY in tiles else newest_us
    return {COUNTS_KEY: OutcomeTile(counts.change_count, minute_us, counts.to_json())}
