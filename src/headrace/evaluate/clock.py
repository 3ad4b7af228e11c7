"""The clock of a model's outcomes: that of the query which joins them, but for predictions that are made late.

They are waited for by the clock alone: as long as `within`, an hour at most.
"""

from pathlib import Path

from headrace.declare.durations import UNITS_US
from headrace.declare.model import Model
from headrace.declare.stream import Stream
from headrace.log.offsets import Offsets
from headrace.stream.clock import Clock
from headrace.stream.gate_progress import GateWatch

LONGEST_PATIENCE_US = UNITS_US["h"]


def patience_us(within_us: int) -> int:
    """How long a prediction may take to be made."""
    return min(within_us, LONGEST_PATIENCE_US)


def clock_of(model: Model, labels: Stream, offsets: Offsets, gate: Path) -> Clock:
    """The time up to which every label, which has a gate, and every prediction, which has none, has been read."""
    return Clock([GateWatch(labels, offsets, gate)], offsets, [model.predictions])
