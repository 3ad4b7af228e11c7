"""A gate stalls for 30 s under load: detected at once, an alert fires, and it catches up when estimated."""

import logging
import os
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import NamedTuple

import pytest

from headrace.kafka.producer.producer import Producer
from tests.running import Running
from tests.waiting import wait_until

APP = Path(__file__).with_name("stalled_gate_app.py")
RATE = 10_000  # near what two cores do: much less is caught up within seconds, with little to foresee
GATE = 'query="taps.gate"'
STILL_SECONDS = 30.0
STEADY_SECONDS = 15.0
LOGGER = logging.getLogger(__name__)


class Load(threading.Thread):
    """Sends so many events a second."""

    def __init__(self, broker: str) -> None:
        super().__init__(name="load", daemon=True)
        self._producer, self._enough = Producer(broker, linger_ms=5), threading.Event()

    def run(self) -> None:
        began, sent = time.monotonic(), 0
        while not self._enough.wait(0.01):
            while sent < (time.monotonic() - began) * RATE:
                event = {"id": f"e{sent}", "card": f"c{sent % 1000}", "at": time.time_ns() // 1_000_000}
                self._producer.send("taps", event, key=event["card"])
                sent += 1

    def finish(self) -> None:
        self._enough.set()
        self.join()
        self._producer.flush()


class Seen(NamedTuple):
    """The content of /metrics at a moment."""

    at_s: float
    lag: float
    lag_s: float
    catch_up_s: float | None
    firing: float


def look(running: Running) -> Seen:
    told = running.metrics()
    return Seen(
        time.monotonic(),
        sum(value for (name, labels), value in told.items() if name == "headrace_query_lag" and GATE in labels),
        told["headrace_lag_seconds", 'stream="taps"'],
        told.get(("headrace_catch_up_seconds", GATE)),
        told.get(("headrace_alerts_firing", ""), 0.0),
    )


def look_until(running: Running, seen: list[Seen], enough: Callable[[Seen], bool], limit_s: float, what: str) -> Seen:
    """Look four times a second until it is enough."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        seen.append(look(running))
        if enough(seen[-1]):
            return seen[-1]
        threading.Event().wait(0.25)
    pytest.fail(f"waited {limit_s} s for {what}; last {seen[-3:]}")


@contextmanager
def standing_still(running: Running) -> Iterator[None]:
    """Suspend the JVM of the gate and the tiles, and resume it at the end."""
    pid = running.pid_of("spark")
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.faults
def test_a_gate_that_stands_still_is_seen_alarmed_and_caught_up_when_it_was_said(tmp_path: Path) -> None:
    with Running(APP, tmp_path / "state", "--lake", "off", "--alerts-every", "1s") as running:
        running.wait_until_ready()
        load, seen = Load(running.broker), list[Seen]()
        load.start()
        wait_until(lambda: ("headrace_lag_seconds", 'stream="taps"') in running.metrics(), 30, "the ledger")
        look_until(running, seen, lambda one: len(seen) > 20 and one.lag_s < 2, 60, "the load to be steady")
        steady = list[Seen]()
        until = time.monotonic() + STEADY_SECONDS
        look_until(running, steady, lambda one: one.at_s > until, 2 * STEADY_SECONDS, "a steady while")
        assert not any(one.firing for one in steady)
        with standing_still(running):
            stopped_s = time.monotonic()
            still = list[Seen]()
            usual_s = max(one.lag_s for one in steady)
            rose = look_until(running, still, lambda one: one.lag_s > usual_s, 10, "the lag to rise")
            fired = look_until(running, still, lambda one: one.firing > 0, STILL_SECONDS, "the alert to fire")
            look_until(running, still, lambda one: one.at_s > stopped_s + STILL_SECONDS, 40, "half a minute")
        went_on_s = time.monotonic()
        drained = list[Seen]()
        caught_up = look_until(running, drained, lambda one: one.lag < RATE and one.lag_s < 2, 120, "nothing to wait")
        resolved = look_until(running, [], lambda one: one.firing == 0, 60, "the alert to be resolved")
        load.finish()
    said = [one for one in drained if one.catch_up_s not in (None, inf) and one.at_s < caught_up.at_s - 2]
    ratios = [(one.catch_up_s or 0.0) / (caught_up.at_s - one.at_s) for one in said]
    LOGGER.info("usual lag %.2f s; rose after %.2f s", usual_s, rose.at_s - stopped_s)
    LOGGER.info("fired after %.2f s; resolved after %.2f s", fired.at_s - stopped_s, resolved.at_s - went_on_s)
    LOGGER.info("%d records waited; caught up after %.2f s", drained[0].lag, caught_up.at_s - went_on_s)
    for one in drained:
        LOGGER.info("after %.1f s: %d records wait, caught up in %s s", one.at_s - went_on_s, one.lag, one.catch_up_s)
    LOGGER.info("estimate as a share of the real time: %s", [f"{ratio:.2f}" for ratio in ratios])
    assert rose.at_s - stopped_s < 2.0
    assert any(one.catch_up_s == inf for one in still)
    assert ratios
    assert 0.7 < statistics.median(ratios) < 1.3
