"""Section latency: from the producer to a response over HTTP, in the real-time lane and in the micro-batch lane.

producer ─▶ Kafka ─▶ gate ─▶ Kafka ─▶ tiles ─▶ Kafka ─▶ store ─▶ POST /features
   ├──────────────────────── a probe's delay ────────────────────────┤
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from bench.load import PROBES_A_SECOND, Phase, producing
from bench.parts import Deployed, deployed
from bench.percentiles import Spread
from bench.probe import Features, delays_ms
from bench.results import Goal, Result, Table
from bench.section import Run

LANES = ("real-time", "micro-batch")
RATES = (100, 500)
WARM_UP_RATE = 500
LEAST_RATIO, LONGEST_P50_MS = 30.0, 15.0
NOTE = (
    "Everything on this machine: broker, Spark, server, producer and reader. Warmed up for {warm_up:g} s at {rate} "
    f"events/s first; {PROBES_A_SECOND:g} probes a second, each a card of its own. A checkpoint every five minutes "
    "pauses output for a second or more; a rate is measured for {measured:g} s, which may hold one or none."
)


@dataclass(frozen=True)
class Size:
    """The durations of the measurement, in seconds."""

    warm_up: float
    settle: float
    measured: float


FULL, QUICK = Size(warm_up=45, settle=10, measured=65), Size(warm_up=15, settle=3, measured=12)

Found = Mapping[str, Mapping[int, Spread]]


def measure(run: Run) -> Result:
    """Run the section."""
    size = QUICK if run.quick else FULL
    found = {lane: _lane(run, lane, size) for lane in LANES}
    return result(found, size)


def _lane(run: Run, lane: str, size: Size) -> dict[int, Spread]:
    run.say(f"{lane}: starting headrace up")
    with deployed(run.folder / lane, lane) as server:
        run.say(f"{lane}: warming up for {size.warm_up:g} s")
        _spread(server, Phase("warm", WARM_UP_RATE, 0, size.warm_up))
        return {rate: _at_rate(run, server, rate, size) for rate in RATES}


def _at_rate(run: Run, server: Deployed, rate: int, size: Size) -> Spread:
    run.say(f"{server.lane}: {rate} events/s for {size.settle + size.measured:g} s")
    spread = _spread(server, Phase(f"at{rate}", rate, size.settle, size.measured))
    run.say(f"{server.lane}: P50 {_ms(spread.p50)} of {spread.count} probes")
    return spread


def _spread(server: Deployed, phase: Phase) -> Spread:
    with producing(server.broker, phase) as probes:
        return Spread.of(delays_ms(probes, Features(server.http_port)))


def result(found: Found, size: Size) -> Result:
    """The section's table, goals and figures."""
    real_time, micro_batch = (found[lane] for lane in LANES)
    ratios = {rate: micro_batch[rate].p50 / real_time[rate].p50 for rate in real_time}
    rows = [
        [f"{lane}, {rate} events/s", *(_ms(value) for value in (spread.p50, spread.p90, spread.p99)), str(spread.count)]
        for lane, by_rate in found.items()
        for rate, spread in by_rate.items()
    ]
    rows += [
        [f"micro-batch / real-time, {rate} events/s", *_times(real_time[rate], micro_batch[rate]), ""]
        for rate in ratios
    ]
    return Result(
        section="latency",
        table=Table(["producer to HTTP", "P50", "P90", "P99", "probes"], rows),
        figures={lane: {str(rate): asdict(spread) for rate, spread in by.items()} for lane, by in found.items()},
        goals=_goals(real_time, ratios),
        notes=[NOTE.format(warm_up=size.warm_up, measured=size.measured, rate=WARM_UP_RATE)],
    )


def _goals(real_time: Mapping[int, Spread], ratios: Mapping[int, float]) -> list[Goal]:
    least, p50 = min(ratios.values()), real_time[min(real_time)].p50
    return [
        Goal(f"real-time at least {LEAST_RATIO:g} times faster at P50", _ratio(least), least >= LEAST_RATIO),
        Goal(f"P50 under {LONGEST_P50_MS:g} ms at {min(real_time)} events/s", _ms(p50), p50 < LONGEST_P50_MS),
    ]


def _times(real_time: Spread, micro_batch: Spread) -> list[str]:
    pairs = ((micro_batch.p50, real_time.p50), (micro_batch.p90, real_time.p90), (micro_batch.p99, real_time.p99))
    return [_ratio(slow / fast) for slow, fast in pairs]


def _ratio(value: float) -> str:
    return f"{value:.1f} ×" if value < 10 else f"{value:.0f} ×"


def _ms(value: float) -> str:
    return f"{value:.1f} ms" if value < 100 else f"{value:,.0f} ms"
