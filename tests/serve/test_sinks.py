"""What /metrics says of sinks: what their copies have done together, and how far they are behind, dead or alive."""

from types import ModuleType

from prometheus_client.metrics_core import Metric

import headrace as hr
from headrace.declare.app import app_of
from headrace.log.lag import Behind, Lag
from headrace.log.progress import SinkProgress
from headrace.log.records import Partition
from headrace.serve.metrics import sink_lags, sinks
from tests.log.streams import new_stream


def values(metric: Metric) -> dict[tuple[str, ...], float]:
    return {tuple(sample.labels.values()): sample.value for sample in metric.samples}


def test_what_copies_have_done_is_added_up() -> None:
    said = [
        SinkProgress("out", "a:1", 0, {"written": 5, "parked": 2}, {"rejected": 2}, 3, ""),
        SinkProgress("out", "b:1", 0, {"written": 7}, {}, 1, "away"),
    ]
    rows, parked, retries = sinks(said)
    assert values(rows) == {("out", "written"): 12, ("out", "parked"): 2}
    assert values(parked) == {("out", "rejected"): 2}
    assert values(retries) == {("out",): 4}


def test_the_lag_of_a_sink_is_that_of_all_it_reads() -> None:
    module, stream = ModuleType("shop"), new_stream()
    out = hr.Sink("the out", of=stream, to=hr.Delta("folder"))
    vars(module).update(out=out, other=hr.Sink("other", of=stream, to=hr.Delta("folder")))
    lags = (
        Lag("the-out.sink", Partition(out.topic, 0), 5, 2.0),
        Lag("the-out.sink", Partition(out.again, 0), 1, 70.0),
        Lag("else", Partition("else", 0), 9, 99.0),
    )
    records, seconds = sink_lags(Behind(lags), app_of(module))
    assert values(records) == {("the out",): 6, ("other",): 0}
    assert values(seconds) == {("the out",): 70.0, ("other",): 0.0}
