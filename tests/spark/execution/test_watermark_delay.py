"""The watermark delay, which decides how long state is kept."""

from headrace.declare.durations import duration_us
from headrace.spark.execution.watermark_delay import watermark_delay_us
from tests.kafka.streams import new_stream


def test_a_stream_whose_times_may_be_replayed_quickly_is_kept_a_day_longer() -> None:
    live, recorded = new_stream(), new_stream(arrival="at")
    day_us, margin_us = duration_us("1d", "a day"), duration_us("10m", "the margin")
    assert watermark_delay_us(recorded) - watermark_delay_us(live) == day_us - margin_us
    assert watermark_delay_us(recorded, draining=True) == watermark_delay_us(live, draining=True)
