"""Which default alerts fire, from progress through /metrics to the engine, over a time that is simulated."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from headrace.declare.alert import Alert
from headrace.declare.durations import UNITS_US
from headrace.log.progress import ProgressBoard
from headrace.serve.metrics import drifts, qualities
from headrace.watch.engine import Engine
from headrace.watch.phases import Phase
from headrace.watch.scrape import ServerValues, samples_of

MINUTE_US = UNITS_US["m"]


class Told(Collector):
    """What /metrics says of a board's drift and quality."""

    def __init__(self, board: ProgressBoard) -> None:
        self._board = board

    def collect(self):  # type: ignore[no-untyped-def]
        yield from drifts(self._board.drifts.values())
        yield from qualities(self._board.qualities.values())


def metrics_text(board: ProgressBoard) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Told(board))
    return generate_latest(registry).decode()


class Answered(ServerValues):
    """The values of a server that answers with what a board says at each look."""

    def __init__(self, alerts: tuple[Alert, ...], board: ProgressBoard) -> None:
        super().__init__("http://nowhere", alerts)
        self._board = board

    def look(self, now_us: int) -> None:
        self.take(samples_of(metrics_text(self._board)), now_us)


def firing_after(alerts: tuple[Alert, ...], board: ProgressBoard, minutes: int) -> set[str]:
    """The alerts that fire after so many minutes, a look each."""
    values, engine = Answered(alerts, board), Engine(alerts, {}, lambda *_: None)
    for minute in range(minutes + 1):
        engine.look(values, {}, 1_000 * UNITS_US["d"] + minute * MINUTE_US)
    return {name for name, state in engine.states.items() if state.phase is Phase.FIRING}
