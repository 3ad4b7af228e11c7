"""Explains what holds back a watermark or the clock of a model's outcomes: the first cause that applies."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.declare.durations import UNITS_US
from headrace.declare.models.model import Model
from headrace.kafka.consumers.consumer_lag import LagSnapshot
from headrace.kafka.status.heartbeat import SILENT_AFTER_US
from headrace.kafka.status.reports.models import OutcomesProgress
from headrace.kafka.status.reports.queries import QueryProgress
from headrace.server.metrics.lag_monitor import LogConsumers

DELAY_THRESHOLD_SECONDS = 5.0  # less than that is in flight
QUIET_AFTER_US = 10 * UNITS_US["s"]
IDLE_AFTER_US = 30 * UNITS_US["s"]  # for one partition among others: keys leave natural gaps
MAX_NAMED_PARTITIONS = 3
MINUTES_FROM_SECONDS = 300.0


@dataclass(frozen=True)
class WatermarkDiagnosis:
    """The current lag of queries, and when a record of each partition was last classified."""

    now_us: int
    consumer_lag: LagSnapshot
    last_processed_us: Mapping[str, Mapping[int, int]]

    def explain_watermark(self, progress: QueryProgress) -> str:
        """What holds back the watermark of a query's state."""
        gate_delay_s = self.consumer_lag.longest_wait_s(f"{progress.stream}.gate") or 0.0
        tiles_delay_s = self.consumer_lag.longest_wait_s(progress.query) or 0.0
        if not self._is_running(progress):
            return f"{progress.query} does not run"
        if gate_delay_s >= DELAY_THRESHOLD_SECONDS:
            return f"waits for the gate, which is {_format_seconds(gate_delay_s)} behind"
        if tiles_delay_s >= DELAY_THRESHOLD_SECONDS:
            return f"is {_format_seconds(tiles_delay_s)} behind the gate"
        return self._explain_idleness(progress.stream) or "nothing: it follows the newest event with each checkpoint"

    def explain_outcome_clock(self, model: Model, progress: OutcomesProgress) -> str:
        """What holds back the clock of a model's outcomes, which is that of its slower stream."""
        label_stream = model.stream if model.labels is None else model.labels.stream
        delays_s = {
            stream.name: self.consumer_lag.longest_wait_s(f"{stream.name}.gate") or 0.0
            for stream in (model.stream, label_stream)
        }
        slower_stream = max(delays_s, key=lambda name: delays_s[name])
        if not self._is_running(progress):
            return f"the outcomes of {model.name} are not joined"
        if delays_s[slower_stream] >= DELAY_THRESHOLD_SECONDS:
            return (
                f"waits for the slower stream {slower_stream}, whose gate is "
                f"{_format_seconds(delays_s[slower_stream])} behind"
            )
        if progress.lag:
            return f"waits for the join, which has {progress.lag} records before it"
        return "nothing: it moves with each step of the join"

    def _is_running(self, progress: QueryProgress | OutcomesProgress) -> bool:
        return progress.running and self.now_us - progress.at_us < SILENT_AFTER_US

    def _explain_idleness(self, stream: str) -> str:
        """The idle partitions of a stream, where others have events; empty where none is idle."""
        processed_us = self.last_processed_us.get(stream, {})
        if not any(processed_us.values()):
            return "no events yet"
        quiet_us = {partition: self.now_us - at_us for partition, at_us in processed_us.items() if at_us}
        if min(quiet_us.values()) >= QUIET_AFTER_US:
            return f"no events for {_format_seconds(min(quiet_us.values()) / 1e6)}"
        idle_partitions = sorted(partition for partition, idle_us in quiet_us.items() if idle_us >= IDLE_AFTER_US)
        sentences = [
            f"partition {partition} idle for {_format_seconds(quiet_us[partition] / 1e6)}"
            for partition in idle_partitions
        ]
        remainder = (
            [f"and {len(idle_partitions) - MAX_NAMED_PARTITIONS} more"]
            if len(idle_partitions) > MAX_NAMED_PARTITIONS
            else []
        )
        return ", ".join([*sentences[:MAX_NAMED_PARTITIONS], *remainder])


def diagnose_watermarks(consumers: LogConsumers, consumer_lag: LagSnapshot, now_us: int) -> dict[str, str]:
    """The explanation for each query with a watermark, and for each model whose outcomes are joined."""
    diagnosis = WatermarkDiagnosis(
        now_us,
        consumer_lag,
        {name: ledger.last_processed_us() for name, ledger in consumers.ledgers.caught_up_ledgers.items()},
    )
    queries = {
        progress.query: diagnosis.explain_watermark(progress)
        for stream in consumers.app.streams
        for progress in consumers.tile_queries(stream)
    }
    outcomes = consumers.progress_table.reports(OutcomesProgress).copy()
    judged_models = [model for model in consumers.app.models if model.name in outcomes]
    return queries | {
        f"outcomes of {model.name}": diagnosis.explain_outcome_clock(model, outcomes[model.name])
        for model in judged_models
    }


def _format_seconds(seconds: float) -> str:
    """A duration for readers.

    >>> _format_seconds(40.2), _format_seconds(4000.0)
    ('40 s', '67 min')
    """
    return f"{seconds:.0f} s" if seconds < MINUTES_FROM_SECONDS else f"{seconds / 60:.0f} min"
