"""The producer of section latency, in a process of its own: payments at a steady rate, a few of them probes.

500 a second   ·····●·········●······●·····…      ● a probe: a card of its own, sent to the waiting process
"""

import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import NamedTuple

from bench.app import payments
from bench.errors import BenchFailed
from bench.payments import payment
from headrace.kafka.producer.producer import Producer

PROBES_A_SECOND = 10.0
JOIN_SECONDS = 40.0


class Probe(NamedTuple):
    """A payment with a measured delay, and the monotonic time at which the producer got it."""

    card: str
    sent_ns: int


@dataclass(frozen=True)
class Phase:
    """The rate of payments; probes start after a warm-up time."""

    name: str
    rate: float
    settle_seconds: float
    seconds: float

    @property
    def count(self) -> int:
        return round((self.settle_seconds + self.seconds) * self.rate)


@contextmanager
def producing(broker: str, phase: Phase) -> Iterator[Connection]:
    """Probes come out of the connection as they are sent; it ends with the phase."""
    context = get_context("spawn")
    probes, probe_sender = context.Pipe(duplex=False)
    process = context.Process(target=produce, args=(broker, phase, probe_sender), daemon=True)
    process.start()
    probe_sender.close()
    try:
        yield probes
        process.join(JOIN_SECONDS)
        if process.exitcode != 0:
            raise BenchFailed("The producer has failed, and says why above.")
    finally:
        process.terminate()
        probes.close()


def produce(broker: str, phase: Phase, probe_sender: Connection) -> None:
    """Send each payment at its time."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the benchmark's, which ends this process too
    probes = set(probe_numbers(phase))
    with Producer(broker) as producer:
        began = time.monotonic()
        for number in range(phase.count):
            time.sleep(max(0.0, began + number / phase.rate - time.monotonic()))
            card = f"{phase.name}-{number}" if number in probes else None
            sent_ns = time.monotonic_ns()
            event = payment(f"{phase.name}-{number}", time.time_ns() // 1000, card)
            producer.send(payments.name, event, key=event["card"])
            if card:
                probe_sender.send(Probe(card, sent_ns))


def probe_numbers(phase: Phase) -> Iterator[int]:
    """The numbers of the payments that are probes: a random one per tenth of a second."""
    chance = random.Random(3)
    stride = max(1, round(phase.rate / PROBES_A_SECOND))
    first = round(phase.settle_seconds * phase.rate)
    return (start + chance.randrange(stride) for start in range(first, phase.count - stride + 1, stride))
