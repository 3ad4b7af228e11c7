"""Estimates how long a consumer takes to catch up, from the arrival rate and the processing rate.

arrived    ─────────────────────────────────────▶   the last 30 seconds: arrivals do not depend on the consumer
processed  ──────╮   stalled    ╭───────────────▶   since it resumed, within the last 25 seconds
                 └ never catches up └ two advances later: waiting / (processed per second − arrived per second)
"""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from math import inf
from typing import NamedTuple

MIN_WAIT_SECONDS = 2.0  # records in flight are not lag: samples are a second apart
ARRIVAL_WINDOW_SECONDS = 30.0
PROCESSING_WINDOW_SECONDS = 25.0
STALL_SECONDS = 5.0  # the longest duration of a micro-batch that is not a stall
MIN_SAMPLE_INTERVAL_SECONDS = 0.5
MIN_RELATIVE_GAIN = 0.02  # of the arrival rate: a consumer that is hardly faster does not catch up


class LagSample(NamedTuple):
    """How many records had arrived and were processed at a time."""

    at_s: float
    arrived: int
    processed: int


class CatchUpEstimator:
    """The samples of one query, and its estimate; used by one thread."""

    def __init__(self) -> None:
        self._samples: deque[LagSample] = deque()

    def add_sample(self, sample: LagSample, oldest_wait_s: float) -> float | None:
        """The seconds until nothing waits: infinity where it never catches up, None without lag or enough samples.

        `oldest_wait_s` is how long the oldest record has waited.
        """
        self._append_sample(sample)
        if sample.arrived <= sample.processed or oldest_wait_s < MIN_WAIT_SECONDS:
            return None
        advances = [current for previous, current in pairwise(self._samples) if current.processed > previous.processed]
        processing_rate = self._processing_rate(advances, sample.at_s)
        if processing_rate is None:
            return None
        arrival_rate = _rate_per_second([(one.at_s, one.arrived) for one in self._samples])
        gain = processing_rate - arrival_rate
        if gain <= MIN_RELATIVE_GAIN * arrival_rate:
            return inf
        # The progress of a batch shows at its end, so the count of waiting records is most exact then.
        last_advance = advances[-1]
        return max(0.0, (last_advance.arrived - last_advance.processed) / gain - (sample.at_s - last_advance.at_s))

    def _append_sample(self, sample: LagSample) -> None:
        samples = self._samples
        if samples and sample.arrived < samples[-1].arrived:
            samples.clear()  # the topic was recreated
        if samples and sample.processed < samples[-1].processed:
            sample = sample._replace(
                processed=samples[-1].processed
            )  # records in flight may be counted twice for a moment
        if len(samples) > 1 and sample.at_s - samples[-2].at_s < MIN_SAMPLE_INTERVAL_SECONDS:
            samples.pop()
        samples.append(sample)
        while samples[0].at_s < sample.at_s - ARRIVAL_WINDOW_SECONDS:
            samples.popleft()

    def _processing_rate(self, advances: Sequence[LagSample], now_s: float) -> float | None:
        """The processing rate since it last resumed; 0 where it is stalled, None where too few samples are known."""
        last_advance_s = advances[-1].at_s if advances else self._samples[0].at_s
        if now_s - last_advance_s >= STALL_SECONDS:
            return 0.0
        recent = _since_last_pause(
            [advance for advance in advances if advance.at_s >= now_s - PROCESSING_WINDOW_SECONDS]
        )
        if len(recent) < 2:
            return None
        # Advances are as far apart as batches: a query without one for two intervals has slowed down.
        mean_interval_s = (last_advance_s - recent[0].at_s) / (len(recent) - 1)
        return _rate_per_second(
            [
                (recent[0].at_s, recent[0].processed),
                (max(last_advance_s, now_s - 2 * mean_interval_s), recent[-1].processed),
            ]
        )


def _since_last_pause(advances: Sequence[LagSample]) -> Sequence[LagSample]:
    """The last advances, without a long gap between two of them."""
    pause_indexes = [
        index
        for index, (previous, current) in enumerate(pairwise(advances), 1)
        if current.at_s - previous.at_s >= STALL_SECONDS
    ]
    return advances[pause_indexes[-1] if pause_indexes else 0 :]


def _rate_per_second(counts: Sequence[tuple[float, int]]) -> float:
    (first_s, first), (last_s, last) = counts[0], counts[-1]
    return (last - first) / (last_s - first_s) if last_s > first_s else 0.0
