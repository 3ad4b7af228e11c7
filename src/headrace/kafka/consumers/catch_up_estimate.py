"""How long it takes until nothing waits any more, from how fast records come and how fast they are done with.

came   ─────────────────────────────────────▶   the last 30 seconds: what comes does not depend on who reads it
done   ──────╮ stands still ╭───────────────▶   since it moved again, of the last 25 seconds
             └ does not catch up └ two moves later: what waits / (done a second − came a second)
"""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from math import inf
from typing import NamedTuple

MIN_WAIT_SECONDS = 2.0  # what is on its way is no lag: looks are a second apart
ARRIVAL_WINDOW_SECONDS = 30.0
PROCESSING_WINDOW_SECONDS = 25.0
STALL_SECONDS = 5.0  # the longest that a micro-batch may take and still move
MIN_SAMPLE_INTERVAL_SECONDS = 0.5
MIN_RELATIVE_GAIN = 0.02  # of what comes: who is hardly faster than that does not catch up


class LagSample(NamedTuple):
    """How many records had come and were done with at a moment."""

    at_s: float
    arrived: int
    processed: int


class CatchUpEstimator:
    """Looks of one query, and what they say; one thread looks."""

    def __init__(self) -> None:
        self._samples: deque[LagSample] = deque()

    def add_sample(self, sample: LagSample, oldest_wait_s: float) -> float | None:
        """The seconds until nothing waits: infinity where it does not catch up, None without lag, or too little known.

        `waited_s` is for how long the oldest record has waited.
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
        # What a batch has done is seen at its end: what was left then is known best.
        last_advance = advances[-1]
        return max(0.0, (last_advance.arrived - last_advance.processed) / gain - (sample.at_s - last_advance.at_s))

    def _append_sample(self, sample: LagSample) -> None:
        samples = self._samples
        if samples and sample.arrived < samples[-1].arrived:
            samples.clear()  # a topic that began anew
        if samples and sample.processed < samples[-1].processed:
            sample = sample._replace(
                processed=samples[-1].processed
            )  # what is on its way may be counted twice for a moment
        if len(samples) > 1 and sample.at_s - samples[-2].at_s < MIN_SAMPLE_INTERVAL_SECONDS:
            samples.pop()
        samples.append(sample)
        while samples[0].at_s < sample.at_s - ARRIVAL_WINDOW_SECONDS:
            samples.popleft()

    def _processing_rate(self, advances: Sequence[LagSample], now_s: float) -> float | None:
        """How fast records are done with since that moved again; 0 where it stands still, None where too few know."""
        last_advance_s = advances[-1].at_s if advances else self._samples[0].at_s
        if now_s - last_advance_s >= STALL_SECONDS:
            return 0.0
        recent = _since_last_pause(
            [advance for advance in advances if advance.at_s >= now_s - PROCESSING_WINDOW_SECONDS]
        )
        if len(recent) < 2:
            return None
        # Moves are as far apart as batches: who has not moved for two of them has become slower.
        mean_interval_s = (last_advance_s - recent[0].at_s) / (len(recent) - 1)
        return _rate_per_second(
            [
                (recent[0].at_s, recent[0].processed),
                (max(last_advance_s, now_s - 2 * mean_interval_s), recent[-1].processed),
            ]
        )


def _since_last_pause(advances: Sequence[LagSample]) -> Sequence[LagSample]:
    """The last moves, of which none came long after the one before."""
    pause_indexes = [
        index
        for index, (previous, current) in enumerate(pairwise(advances), 1)
        if current.at_s - previous.at_s >= STALL_SECONDS
    ]
    return advances[pause_indexes[-1] if pause_indexes else 0 :]


def _rate_per_second(counts: Sequence[tuple[float, int]]) -> float:
    (first_s, first), (last_s, last) = counts[0], counts[-1]
    return (last - first) / (last_s - first_s) if last_s > first_s else 0.0
