"""How long state is kept. The gate judges lateness; Spark's watermark only limits the state."""

from headrace.declare.durations import UNITS_US
from headrace.declare.streams.stream import Stream

# How far one partition may be ahead of another before Spark would evict state too early.
LIVE_MARGIN_US = 10 * UNITS_US["m"]
DRAINING_MARGIN_US = UNITS_US["d"]


def watermark_delay_us(stream: Stream, draining: bool = False) -> int:
    """How far behind the newest event ids and tiles are kept; while draining, partitions may be a day apart."""
    # Recorded event times may pass faster than the clock: in a replay at 10000x a day is nine seconds.
    is_fast = draining or stream.is_recorded
    return stream.late.until_us + stream.ahead_us + (DRAINING_MARGIN_US if is_fast else LIVE_MARGIN_US)
