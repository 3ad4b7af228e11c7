"""How long state is kept. Lateness is judged by the gate; Spark's watermark only bounds what is remembered."""

from headrace.declare.durations import UNITS_US
from headrace.declare.streams.stream import Stream

# How far one partition may run ahead of another before Spark would let go of state too early.
LIVE_MARGIN_US = 10 * UNITS_US["m"]
DRAINING_MARGIN_US = UNITS_US["d"]


def watermark_delay_us(stream: Stream, draining: bool = False) -> int:
    """How far behind the newest event ids and tiles are remembered; while draining, partitions may be a day apart."""
    # Times that a column says may pass quicker than the clock: in a replay at 10000x a day is nine seconds.
    is_fast = draining or stream.is_recorded
    return stream.late.until_us + stream.ahead_us + (DRAINING_MARGIN_US if is_fast else LIVE_MARGIN_US)
