"""The estimated time to catch up, compared with the real one in simulated streams."""

import random
from collections.abc import Callable
from math import inf
from typing import NamedTuple

import pytest

from headrace.kafka.consumers.catch_up_estimate import CatchUpEstimator, LagSample

Rate = Callable[[float], float]
STEP_SECONDS = 0.1
STOPPED = (20.0, 50.0)


class Told(NamedTuple):
    """What was estimated at a look, and how long it really took from there."""

    at_s: float
    estimate: float | None
    really: float


def simulated(comes: Rate, goes: Rate, until_s: float, jitter: float = 0.0, batch_s: float = 0.0) -> list[Told]:
    """Look about once a second at a stream whose reader may do so many; what a batch does is seen at its end."""
    chance, catch_up = random.Random(7), CatchUpEstimator()
    came = done = seen = 0.0
    arrivals: list[float] = []
    looks: list[tuple[float, float | None]] = []
    caught_up: list[float] = []
    next_look = next_batch = now = 0.0
    while now < until_s:
        now += STEP_SECONDS
        came += comes(now) * STEP_SECONDS
        done = min(came, done + goes(now) * STEP_SECONDS)
        arrivals += [now] * (int(came) - len(arrivals))
        if now >= next_batch:
            seen, next_batch = done, now + batch_s
        if came - seen < 1:
            caught_up.append(now)
        if now >= next_look:
            waited = now - arrivals[int(seen)] if int(seen) < len(arrivals) else 0.0
            looks.append((now, catch_up.add_sample(LagSample(now, int(came), int(seen)), waited)))
            next_look = now + 1.0 + chance.uniform(-jitter, jitter)
    return [Told(at, told, next((one - at for one in caught_up if one >= at), inf)) for at, told in looks]


def stopped(rate: float) -> Rate:
    return lambda now: 0.0 if STOPPED[0] <= now < STOPPED[1] else rate


def drained(told: list[Told], settle_s: float = 4.0) -> list[Told]:
    """The estimates made some seconds after the reader went on, while there still was something to estimate."""
    return [one for one in told if one.at_s >= STOPPED[1] + settle_s and 2.5 < one.really < inf]


@pytest.mark.parametrize(("comes", "goes"), [(100, 150), (1000, 2000), (50, 400), (900, 1000), (3000, 6500)])
@pytest.mark.parametrize("jitter", [0.0, 0.4])
def test_a_constant_stream_is_estimated_within_30_percent(comes: float, goes: float, jitter: float) -> None:
    told = drained(simulated(lambda _: comes, stopped(goes), 400, jitter))
    given = [one for one in told if one.estimate is not None]
    assert given or 30 * comes / (goes - comes) < 7
    for one in given:
        assert one.estimate == pytest.approx(one.really, rel=0.3), one
    assert len(given) >= 0.9 * len(told) - 2


def test_who_stands_still_does_not_catch_up_and_is_known_to_within_seconds() -> None:
    told = simulated(lambda _: 100.0, stopped(200), 60)
    still = [one.estimate for one in told if STOPPED[0] + 6 < one.at_s < STOPPED[1]]
    assert len(still) > 20
    assert set(still) == {inf}


def test_without_lag_there_is_nothing_to_estimate() -> None:
    assert {one.estimate for one in simulated(lambda _: 100.0, lambda _: 200.0, 60, 0.4)} == {None}
    assert {one.estimate for one in simulated(lambda _: 0.0, lambda _: 200.0, 60)} == {None}


@pytest.mark.parametrize("goes", [50.0, 100.0, 101.0])
def test_who_is_no_faster_than_what_comes_does_not_catch_up(goes: float) -> None:
    told = [one.estimate for one in simulated(lambda _: 100.0, stopped(goes), 120) if one.at_s > STOPPED[1] + 5]
    assert set(told) == {inf}


def test_twice_the_sustainable_rate_is_told_as_such() -> None:
    told = simulated(lambda now: 100.0 if now < 20 else 400.0, lambda _: 200.0, 60)
    assert {one.estimate for one in told if one.at_s > 35} == {inf}


def test_bursts_are_seen_as_what_comes_on_average() -> None:
    told = drained(simulated(lambda now: 500.0 if now % 5 < 1 else 0.0, stopped(300), 200))
    assert len(told) > 5
    for one in told:
        assert one.estimate == pytest.approx(one.really, rel=0.3, abs=5), one  # a burst


def test_noise_does_not_mislead() -> None:
    chance = random.Random(3)
    told = drained(simulated(lambda _: chance.uniform(50, 150), stopped(200), 200, 0.4))
    assert len(told) > 15
    for one in told:
        assert one.estimate == pytest.approx(one.really, rel=0.3), one


@pytest.mark.parametrize("batch_s", [2.0, 4.0])
def test_batches_are_no_standstill(batch_s: float) -> None:
    told = drained(simulated(lambda _: 100.0, stopped(180), 200, batch_s=batch_s), settle_s=3 * batch_s)
    given = [one.estimate for one in told if one.estimate is not None]
    assert len(given) > 10
    assert inf not in given
    for one in told:
        assert one.estimate is None or one.estimate == pytest.approx(one.really, rel=0.3, abs=batch_s), one


def test_a_slow_start_is_told_too_long_and_then_right() -> None:
    def warming(now: float) -> float:
        return 0.0 if STOPPED[0] <= now < STOPPED[1] else 300.0 if now < 20 else min(300.0, 120 + 20 * (now - 50))

    told = drained(simulated(lambda _: 100.0, warming, 200))
    assert len(told) > 5
    for one in told:
        assert one.estimate is not None
        assert one.estimate > 0.9 * one.really, one
    late = [one for one in told if one.at_s > STOPPED[1] + 12]
    for one in late:
        assert one.estimate is not None
        assert one.estimate == pytest.approx(one.really, rel=0.6), one


def test_a_topic_that_began_anew_is_looked_at_anew() -> None:
    catch_up = CatchUpEstimator()
    for second in range(10):
        catch_up.add_sample(LagSample(float(second), 1000 + 100 * second, 500 + 150 * second), 5.0)
    assert catch_up.add_sample(LagSample(10.0, 50, 0), 5.0) is None


def test_what_seems_undone_for_a_moment_changes_nothing() -> None:
    catch_up = CatchUpEstimator()
    for second in range(10):
        told = catch_up.add_sample(
            LagSample(float(second), 1000 + 100 * second, 500 + 150 * second - 200 * (second == 6)), 5.0
        )
    assert told == pytest.approx((500 - 50 * 9) / 50, rel=0.01)
