"""The faults of the soak test: each starts, lasts a while, and ends."""

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.kafka.producer.producer import Producer
from tests.soak.system import System

PARTS = ("serve", "stream", "operate", "lake", "evaluate", "score", "apply", "sink", "check", "watch")
DEEP = b'{"a":' * 5_000 + b"1" + b"}" * 5_000
POISON = (b"", b"\x00" * 64, b"\xff\xfe\xfd", DEEP, b"[]", b"null", b'{"payment_id": 1e400}', b"{" + b" " * 900_000)
LASTS_S = 20.0
DELIVERY_SECONDS = 600  # a broker may have been killed just before
CLOCK_JUMPS_S = (90, -40)


@dataclass(frozen=True)
class Fault:
    """One kind of fault; `strike` returns once it is over."""

    name: str
    strike: Callable[[System], None]


def faults(poisoned: Callable[[bytes], None]) -> list[Fault]:
    """All faults; `poisoned` gets the poison records."""
    return [
        *(Fault(f"kill {part}", _killing(part)) for part in PARTS),
        Fault("kill the JVM of the stream", lambda system: _kill_java(system, "stream")),
        Fault("kill the JVM of the operators", lambda system: _kill_java(system, "operate")),
        Fault("kill the JVM of the lake", lambda system: _kill_java(system, "lake")),
        Fault("kill the JVM of evaluation", lambda system: _kill_java(system, "evaluate")),
        Fault("kill the Python workers of operators", _kill_workers),
        Fault("kill the broker", _killing("broker")),
        Fault("broker stands still", _stop_broker),
        Fault("Redis gone, and empty when it returns", _lose_redis),
        Fault("disk full", _fill_disk),
        Fault("the broker's clock jumps", _jump_clock),
        Fault("poison records", lambda system: _poison(system, poisoned)),
        Fault("slow sink", _slow_sink),
    ]


def schedule(seed: int, seconds: float, available: list[Fault], gap_s: float) -> list[tuple[float, Fault]]:
    """Every fault repeatedly, in an order given by the seed, one per `gap_s`; none near the end."""
    chance, planned, at_s = random.Random(seed), list[tuple[float, Fault]](), gap_s
    while at_s < seconds - 2 * gap_s:
        order = available.copy()
        chance.shuffle(order)
        for fault in order:
            if at_s < seconds - 2 * gap_s:
                planned.append((at_s, fault))
                at_s += gap_s * chance.uniform(0.8, 1.2)
    return planned


def _killing(part: str) -> Callable[[System], None]:
    return lambda system: _kill([pid] if (pid := system.running.pid_of(part)) else [])


def _kill_java(system: System, part: str) -> None:
    _kill([pid for pid in system.below(part) if "java" in _program(pid)])


def _kill_workers(system: System) -> None:
    _kill([pid for pid in system.below("operate") if "python" in _program(pid)])


def _program(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/exe").readlink().name
    return ""


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _stop_broker(system: System) -> None:
    pid = system.running.pid_of("broker")
    if pid is not None:
        _pause(pid)


def _pause(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(LASTS_S)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _lose_redis(system: System) -> None:
    os.kill(system.redis.pid, signal.SIGKILL)
    time.sleep(LASTS_S / 2)
    system.redis.start()


def _fill_disk(system: System) -> None:
    if not system.is_disk_bounded:
        return
    filler = system.disk / "filler"
    with suppress(OSError), filler.open("wb") as file:
        while True:
            file.write(b"\0" * (1 << 22))
    time.sleep(LASTS_S)
    filler.unlink()


def _jump_clock(system: System) -> None:
    if system.clock is None:
        return
    for seconds in CLOCK_JUMPS_S:
        system.clock.shift(seconds)
        time.sleep(LASTS_S)
    system.clock.shift(0)


def _poison(system: System, poisoned: Callable[[bytes], None]) -> None:
    with Producer(system.running.broker, delivery_seconds=DELIVERY_SECONDS) as producer:
        for value in POISON:
            poisoned(value)
            producer.send("payments", value, key=b"poison")


def _slow_sink(system: System) -> None:
    pids = system.postgres.pids()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(LASTS_S * 2)
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
