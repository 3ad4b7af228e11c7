"""The quality of a model as a table: the newest tile of every key of MODEL.quality, merged over any window."""

import logging
from collections import defaultdict
from collections.abc import Iterator

from headrace.declare.durations import UNITS_US
from headrace.declare.models.metrics import ESTIMATED_PREFIX, MINUTE_US, Metric, Segment
from headrace.declare.models.model import Model
from headrace.monitoring.quality.curves import QualityMetricValue
from headrace.monitoring.quality.metric_values import compute_metric
from headrace.monitoring.quality.quality_tile import (
    QualityKey,
    QualityTile,
    create_layout,
    decode_key,
    decode_tile,
    merge_tiles,
)

LOGGER = logging.getLogger("headrace.evaluate")
CALIBRATION_WINDOW_US = 7 * UNITS_US["d"]


class QualityTable:
    """Encoded tiles by minute, which are decoded when a window is read.

    now − window − 1 m ┤ a window at `now`: every minute that starts in here, up to one minute too long ├ now
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.layout = create_layout(model)
        self.rejected_records = 0
        self._newest_us = 0
        self._minutes: defaultdict[int, dict[QualityKey, tuple[int, bytes]]] = defaultdict(dict)

    def apply_record(self, key: bytes, value: bytes) -> None:
        """Apply a record of MODEL.quality; of two with one key the one with more changes stays, in any order.

        Invalid tiles are counted and logged, and never stop the reader.
        """
        try:
            tile_key, n = decode_key(key), decode_tile(self.layout, value).n
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as problem:
            self.rejected_records += 1
            LOGGER.warning("Skipped %r, which is not a tile of %s: %r", key[:200], self.model.quality, problem)
            return
        tiles = self._minutes[tile_key.start_us]
        if n > tiles.get(tile_key, (0, b""))[0]:
            tiles[tile_key] = (n, value)
        self._newest_us = max(self._newest_us, tile_key.start_us)

    def now_us(self, clock_us: int) -> int:
        """The end of windows: now or, with recorded arrivals of labels, the newest minute in the table."""
        labels = self.model.labels
        return clock_us if labels is None or not labels.stream.is_recorded else self._newest_us

    def forget_before(self, before_us: int) -> None:
        """Drop minutes that started before a time."""
        for start_us in [start_us for start_us in self._minutes if start_us < before_us]:
            del self._minutes[start_us]

    def merge_window(
        self,
        now_us: int,
        window_us: int,
        segment: Segment = (),
        *,
        role: str | None = "champion",
        version: str | None = None,
    ) -> QualityTile:
        """The merged tile of a window's predictions; without a version, of every version that had the role then."""
        values = self._values_between(now_us - window_us - MINUTE_US, now_us)
        selected_values = (
            value
            for key, value in values
            if role in {None, key.role} and version in {None, key.version} and set(segment) <= set(key.segment)
        )
        return merge_tiles(self.layout, (decode_tile(self.layout, value) for value in selected_values))

    def read_metric(self, metric: Metric, now_us: int, version: str | None = None) -> QualityMetricValue:
        """A metric of the model at a time: of the champions, or of one version in any role."""
        window = self._champion_window(now_us, metric.window_us, metric.segment, version)
        settled = (
            self.settled_window(now_us, metric.segment, version) if metric.name.startswith(ESTIMATED_PREFIX) else window
        )
        return compute_metric(metric, self.model, window, settled)

    def settled_window(self, now_us: int, segment: Segment = (), version: str | None = None) -> QualityTile:
        """The last week of predictions whose label horizon has passed: earlier labels alone would be biased."""
        return self._champion_window(self._settled_us(now_us), CALIBRATION_WINDOW_US, segment, version)

    def due_window(self, now_us: int, window_us: int, version: str | None = None) -> QualityTile:
        """The champion's latest predictions whose label horizon has passed."""
        return self.merge_window(self._settled_us(self.now_us(now_us)), window_us, version=version)

    def _champion_window(self, now_us: int, window_us: int, segment: Segment, version: str | None) -> QualityTile:
        """The predictions of the champions, or of one version in any role."""
        role = "champion" if version is None else None
        return self.merge_window(now_us, window_us, segment, role=role, version=version)

    def _settled_us(self, now_us: int) -> int:
        labels = self.model.labels
        label_wait_us = 0 if labels is None else labels.within_us + labels.stream.late.until_us
        return now_us - label_wait_us - MINUTE_US

    def _values_between(self, after_us: int, to_us: int) -> Iterator[tuple[QualityKey, bytes]]:
        for start_us, tiles in self._minutes.items():
            if after_us < start_us <= to_us:
                yield from ((key, value) for key, (_, value) in tiles.items())
