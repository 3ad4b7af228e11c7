"""Polls for probes: one connection, with repeated requests for the cards that are not counted yet.

The interval is a third of a millisecond or, for slow probes, a twentieth of their median, so that polling does
not slow down what is measured. A delay is thus at most 5 % too long.
"""

import time
from http.client import HTTPConnection
from itertools import islice
from multiprocessing.connection import Connection
from statistics import median

import orjson

from bench.app import CardSpend
from bench.errors import BenchFailed
from bench.load import Probe
from headrace.embedded_servers.ports import HOST

SHORTEST_PAUSE_SECONDS = 0.0003
SHARE_OF_MEDIAN = 0.05
KEYS_AT_ONCE = 50
LIMIT_SECONDS = 180.0


class Features:
    """A persistent connection to a server's features."""

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection(HOST, port, timeout=10)

    def counted(self, cards: list[str]) -> list[str]:
        """The cards whose payment is counted."""
        self._connection.request("POST", f"/features/{CardSpend.name}", orjson.dumps({"keys": cards}))
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise BenchFailed(f"The server answered {answer.status}: {body[:300].decode(errors='replace')}")
        return [row["card"] for row in orjson.loads(body)["rows"] if row["values"]["payments_7d"]]


class Waiting:
    """The probes that are not counted yet, and the delays of the others."""

    def __init__(self) -> None:
        self.sent_ns: dict[str, int] = {}
        self.delays_ms: list[float] = []
        self.pause_seconds = SHORTEST_PAUSE_SECONDS

    def add(self, probe: Probe) -> None:
        self.sent_ns[probe.card] = probe.sent_ns

    def arrived(self, cards: list[str], now_ns: int) -> None:
        """Record that these probes are counted now."""
        if cards:
            self.delays_ms += [(now_ns - self.sent_ns.pop(card)) / 1e6 for card in cards]
            self.pause_seconds = max(SHORTEST_PAUSE_SECONDS, SHARE_OF_MEDIAN * median(self.delays_ms) / 1000)

    def first(self) -> list[str]:
        """The cards to request: those that have waited longest."""
        return list(islice(self.sent_ns, KEYS_AT_ONCE))

    def require_hope(self, now_ns: int) -> None:
        """Fail for a probe that is not counted after three minutes."""
        card, sent_ns = next(iter(self.sent_ns.items()))
        if now_ns - sent_ns > LIMIT_SECONDS * 1e9:
            raise BenchFailed(f"The payment of {card} was not readable within {LIMIT_SECONDS:g} s.")


def delays_ms(probes: Connection, features: Features) -> list[float]:
    """The delay of each probe, once all are readable."""
    waiting, more = Waiting(), True
    while more or waiting.sent_ns:
        more = more and _take(probes, waiting)
        if waiting.sent_ns:
            _ask(features, waiting)
    return waiting.delays_ms


def _take(probes: Connection, waiting: Waiting) -> bool:
    """Receive the probes sent meanwhile, waiting if there are none; False after the last."""
    try:
        while probes.poll(0 if waiting.sent_ns else 0.1):
            waiting.add(probes.recv())
    except EOFError:
        return False
    return True


def _ask(features: Features, waiting: Waiting) -> None:
    counted = features.counted(waiting.first())
    now_ns = time.monotonic_ns()
    waiting.arrived(counted, now_ns)
    if waiting.sent_ns:
        waiting.require_hope(now_ns)
        time.sleep(waiting.pause_seconds)
