"""The metrics of sinks: the totals of all copies, and their lag, whether they run or not."""

from types import ModuleType

from prometheus_client.metrics_core import Metric

import headrace as hr
from headrace.declare.app import build_app
from headrace.kafka.consumers.consumer_lag import LagSnapshot, PartitionLag
from headrace.kafka.record import Partition
from headrace.kafka.status.reports.connectors import SinkProgress
from headrace.server.metrics.metrics_route import sink_lag_metrics, sink_metrics
from tests.kafka.streams import new_stream


def values(metric: Metric) -> dict[tuple[str, ...], float]:
    return {tuple(sample.labels.values()): sample.value for sample in metric.samples}


def test_what_copies_have_done_is_added_up() -> None:
    said = [
        SinkProgress("out", "a:1", 0, {"written": 5, "parked": 2}, {"rejected": 2}, 3, ""),
        SinkProgress("out", "b:1", 0, {"written": 7}, {}, 1, "away"),
    ]
    rows, parked, retries = sink_metrics(said)
    assert values(rows) == {("out", "written"): 12, ("out", "parked"): 2}
    assert values(parked) == {("out", "rejected"): 2}
    assert values(retries) == {("out",): 4}


def test_the_lag_of_a_sink_is_that_of_all_it_reads() -> None:
    module, stream = ModuleType("shop"), new_stream()
    out = hr.Sink("the out", of=stream, to=hr.Delta("folder"))
    vars(module).update(out=out, other=hr.Sink("other", of=stream, to=hr.Delta("folder")))
    lags = (
        PartitionLag("the-out.sink", Partition(out.source_topic, 0), 5, 2.0),
        PartitionLag("the-out.sink", Partition(out.again, 0), 1, 70.0),
        PartitionLag("else", Partition("else", 0), 9, 99.0),
    )
    records, seconds = sink_lag_metrics(LagSnapshot(lags), build_app(module))
    assert values(records) == {("the out",): 6, ("other",): 0}
    assert values(seconds) == {("the out",): 70.0, ("other",): 0.0}
