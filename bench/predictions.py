"""Section predictions: from the producer to a readable prediction, by the scorer and by Spark's micro-batches.

producer ─▶ Kafka ─▶ gate ─▶ Kafka ─┬─▶ tiles ─▶ Kafka ─▶ store ─┐
                                    └──────────▶ scorer ◀────────┘──▶ fraud.predictions ─▶ reader
   ├──────────────────────────────── every event's delay ───────────────────────────────────┤
"""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import orjson

from bench.errors import BenchFailed
from bench.load import Phase, producing
from bench.micro_batch_scores import TOPIC as MICRO_BATCH_TOPIC
from bench.parts import APP, Deployed, deployed, running
from bench.percentiles import Spread
from bench.results import Goal, Result, Table
from bench.scored import write_app
from bench.section import Run
from bench.waiting import wait_for
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.record import ConsumerRecord

SCORER = "scorer"
MICRO_BATCH = "micro-batches, features asked for in a pandas UDF"
BARE = "micro-batches, a pandas UDF without features"
RATES = (100, 500)
WARM_UP_RATE = 500
BUDGET_MS = 50.0
LEAST_RATIO, MOST_OUTSIDE, LEAST_OWN = 30.0, 0.001, 0.99
ALL_LIMIT_S, BEGIN_LIMIT_S = 120.0, 120.0
NOTE = (
    "Everything on this machine: broker, Spark, scorer, producer and reader. Warmed up for {warm_up:g} s at {rate} "
    "events/s first; then every event of {measured:g} s. The model is LightGBM with 100 trees on the eleven columns "
    "of the app. Micro-batches as fast as they go: gate, tiles and scores, where a batch's features come from the "
    "server in one request; or scores alone, without features, behind the real-time gate. Outside: readable more "
    f"than {BUDGET_MS:g} ms after it was produced. Own: the vector's last event is the event itself. docs/adr/0027."
)


@dataclass(frozen=True)
class Size:
    """The durations of the measurement, in seconds."""

    warm_up: float
    settle: float
    measured: float


FULL, QUICK = Size(warm_up=60, settle=10, measured=65), Size(warm_up=20, settle=3, measured=15)


@dataclass(frozen=True)
class Found:
    """The delays of a phase's events, and the shares that were late, degraded, or had their own event last."""

    spread: Spread
    outside: float
    degraded: float
    own: float | None


class Readings:
    """The time at which the follower delivers each prediction of a phase."""

    def __init__(self) -> None:
        self.phase = ""
        self.delays_ms: dict[str, float] = {}
        self.said: dict[str, bytes] = {}  # as they came: Python's collector would stop the reader for what it can walk

    def begin(self, phase: str) -> None:
        self.delays_ms, self.said, self.phase = {}, {}, phase

    def take(self, records: list[ConsumerRecord]) -> None:
        now_us = time.time_ns() // 1000
        for record in records:
            value = record.value or b"{}"
            said = orjson.loads(value)
            event_id = said["event_id"]
            if event_id.startswith(f"{self.phase}-") and event_id not in self.delays_ms:
                self.delays_ms[event_id] = (now_us - said["event_time_us"]) / 1000
                self.said[event_id] = value


def measure(run: Run) -> Result:
    """Run the section."""
    size = QUICK if run.quick else FULL
    app = write_app(run.folder)
    run.say(f"{SCORER}: starting headrace up")
    with deployed(run.folder / "scorer", "real-time", app) as server:
        found = {SCORER: _lane(run, server, SCORER, "fraud.predictions", size)}
    found[MICRO_BATCH] = _beside_micro_batches(run, MICRO_BATCH, "micro-batch", size)
    found[BARE] = _beside_micro_batches(run, BARE, "real-time", size)
    return result(found, size)


def _beside_micro_batches(run: Run, name: str, lane: str, size: Size) -> dict[int, Found]:
    """Scores by a separate query, with a full Headrace without a lake."""
    run.say(f"{name}: starting headrace up")
    up = deployed(run.folder / lane, lane, APP, "--lake", "off")
    with up as server, _micro_batches(run, server, reads_features=name == MICRO_BATCH):
        return _lane(run, server, name, MICRO_BATCH_TOPIC, size)


@contextmanager
def _micro_batches(run: Run, server: Deployed, *, reads_features: bool) -> Iterator[None]:
    folder = run.folder / f"{server.lane}-scores"
    folder.mkdir()
    port = [str(server.http_port)] if reads_features else []
    words = ["-m", "bench.micro_batch_scores", server.broker, str(run.folder / "fraud.onnx"), str(folder), *port]
    with running([sys.executable, *words], folder / "scores.out") as child:
        with producing(server.broker, Phase("begin", 20, 0, BEGIN_LIMIT_S / 4)) as probes:
            _to_the_end(probes)
        offsets = OffsetClient(server.broker)

        def has_begun() -> bool:
            if not child.is_alive():
                raise BenchFailed(f"The micro-batches ended:\n{(folder / 'scores.out').read_text()[-3000:]}")
            return sum(offsets.topic_end_offsets([MICRO_BATCH_TOPIC]).values()) > 0

        wait_for(has_begun, BEGIN_LIMIT_S, "the first micro-batch", 0.5)
        yield


def _lane(run: Run, server: Deployed, lane: str, topic: str, size: Size) -> dict[int, Found]:
    readings = Readings()
    with TailingConsumer(server.broker, [topic], readings.take) as follower:
        wait_for(lambda: follower.is_caught_up, ALL_LIMIT_S, f"the topic {topic}")
        run.say(f"{lane}: warming up for {size.warm_up:g} s")
        _phase(server, readings, Phase("warm", WARM_UP_RATE, 0, size.warm_up))
        return {
            rate: _at_rate(run, server, lane, readings, Phase(f"at{rate}", rate, size.settle, size.measured))
            for rate in RATES
        }


def _at_rate(run: Run, server: Deployed, lane: str, readings: Readings, phase: Phase) -> Found:
    _phase(server, readings, phase)
    first = round(phase.settle_seconds * phase.rate)
    names = [f"{phase.name}-{number}" for number in range(first, phase.count)]
    delays_ms = [readings.delays_ms[name] for name in names]
    said = [orjson.loads(readings.said[name]) for name in names]
    found = Found(
        Spread.of(delays_ms),
        sum(delay > BUDGET_MS for delay in delays_ms) / len(names),
        sum(bool(one.get("degraded")) for one in said) / len(names),
        _own(said),
    )
    run.say(f"{lane}: {phase.rate:g} events/s: P50 {_ms(found.spread.p50)}, P99 {_ms(found.spread.p99)}")
    return found


def _own(said: list[dict[str, object]]) -> float | None:
    """The share of vectors whose last event is their own; None if unknown."""
    if "known" not in said[0]:
        return None
    last = [(one["arrival_us"], [hop[1] for hops in one["known"].values() for hop in hops]) for one in said]  # type: ignore[attr-defined]
    return sum(set(arrivals_us) == {arrival_us} for arrival_us, arrivals_us in last) / len(last)


def _phase(server: Deployed, readings: Readings, phase: Phase) -> None:
    """Produce, and wait for every prediction."""
    readings.begin(phase.name)
    with producing(server.broker, phase) as probes:
        _to_the_end(probes)
    wait_for(lambda: len(readings.delays_ms) >= phase.count, ALL_LIMIT_S, f"the predictions of {phase.name}")


def _to_the_end(probes: object) -> None:
    try:
        while True:
            probes.recv()  # type: ignore[attr-defined]
    except EOFError:
        return


def result(found: Mapping[str, Mapping[int, Found]], size: Size) -> Result:
    """The section's table, goals and figures."""
    scorer, micro_batch = found[SCORER], found[MICRO_BATCH]
    ratios = {rate: micro_batch[rate].spread.p50 / scorer[rate].spread.p50 for rate in scorer}
    rows = [
        [f"{lane}, {rate} events/s", *map(_ms, (one.spread.p50, one.spread.p90, one.spread.p99)), *_shares(one)]
        for lane, by_rate in found.items()
        for rate, one in by_rate.items()
    ]
    return Result(
        section="predictions",
        table=Table(["producer to prediction", "P50", "P90", "P99", "outside", "degraded", "own", "events"], rows),
        figures={lane: {str(rate): asdict(one) for rate, one in by.items()} for lane, by in found.items()},
        goals=_goals(scorer, ratios),
        notes=[NOTE.format(warm_up=size.warm_up, measured=size.measured, rate=WARM_UP_RATE)],
    )


def _goals(scorer: Mapping[int, Found], ratios: Mapping[int, float]) -> list[Goal]:
    least, slowest = min(ratios.values()), scorer[min(scorer)]
    outside = f"less than {MOST_OUTSIDE:.1%} outside {BUDGET_MS:g} ms at {min(scorer)} events/s"
    own = f"the last event of {LEAST_OWN:.0%} of vectors is their own at {min(scorer)} events/s"
    return [
        Goal(f"the scorer at least {LEAST_RATIO:g} times faster at P50", f"{least:.0f} ×", least >= LEAST_RATIO),
        Goal(outside, f"{slowest.outside:.2%}", slowest.outside < MOST_OUTSIDE),
        Goal(own, f"{slowest.own or 0:.1%}", (slowest.own or 0) >= LEAST_OWN),
    ]


def _shares(one: Found) -> list[str]:
    own = "" if one.own is None else f"{one.own:.1%}"
    return [f"{one.outside:.2%}", f"{one.degraded:.2%}", own, str(one.spread.count)]


def _ms(value: float) -> str:
    return f"{value:.1f} ms" if value < 100 else f"{value:,.0f} ms"
