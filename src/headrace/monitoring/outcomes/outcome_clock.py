"""The clock of a model's outcomes: the clock of its join, delayed for late predictions.

The clock waits for predictions by a fixed delay: as long as `within`, an hour at most.
"""

from pathlib import Path

from headrace.declare.durations import UNITS_US
from headrace.declare.models.model import Model
from headrace.declare.streams.stream import Stream
from headrace.kafka.offsets import OffsetClient
from headrace.spark.gate.gate_progress import GateProgressTracker
from headrace.spark.stateful.query_clock import QueryClock

MAX_PREDICTION_DELAY_US = UNITS_US["h"]


def prediction_delay_us(within_us: int) -> int:
    """The maximum delay of a prediction."""
    return min(within_us, MAX_PREDICTION_DELAY_US)


def create_clock(model: Model, labels: Stream, offset_client: OffsetClient, gate_folder: Path) -> QueryClock:
    """The time up to which every label, which has a gate, and every prediction, which has none, has been read."""
    return QueryClock([GateProgressTracker(labels, offset_client, gate_folder)], offset_client, [model.predictions])
