"""Simulates which default alerts fire: from progress through /metrics to the engine, over simulated time."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from headrace.declare.alerts.alert import Alert
from headrace.declare.durations import UNITS_US
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.reports.models import DriftProgress, QualityProgress
from headrace.server.metrics.model_metrics import drift_metrics, quality_metrics
from headrace.telemetry.alerts.alert_engine import AlertEngine
from headrace.telemetry.alerts.alert_state import Phase
from headrace.telemetry.values.metrics_scraper import ServerValues, parse_samples

MINUTE_US = UNITS_US["m"]


class Told(Collector):
    """The metrics of drift and quality in a progress table."""

    def __init__(self, board: ProgressTable) -> None:
        self._board = board

    def collect(self):  # type: ignore[no-untyped-def]
        yield from drift_metrics(self._board.latest(DriftProgress))
        yield from quality_metrics(self._board.latest(QualityProgress))


def metrics_text(board: ProgressTable) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Told(board))
    return generate_latest(registry).decode()


class Answered(ServerValues):
    """The values of a server whose /metrics shows the progress table at each evaluation."""

    def __init__(self, alerts: tuple[Alert, ...], board: ProgressTable) -> None:
        super().__init__("http://nowhere", alerts)
        self._board = board

    def refresh(self, now_us: int) -> None:
        self.apply_samples(parse_samples(metrics_text(self._board)), now_us)


def firing_after(alerts: tuple[Alert, ...], board: ProgressTable, minutes: int) -> set[str]:
    """The alerts that fire after a number of minutes, with one evaluation a minute."""
    values, engine = Answered(alerts, board), AlertEngine(alerts, {}, lambda *_: None)
    for minute in range(minutes + 1):
        engine.evaluate(values, {}, 1_000 * UNITS_US["d"] + minute * MINUTE_US)
    return {name for name, state in engine.states.items() if state.phase is Phase.FIRING}
