"""Load with duplicates, and a reader that remembers every answer, for a Headrace under kill -9."""

import random
import threading
import time
from http.client import HTTPException
from typing import Any

from headrace.kafka.producer.producer import Producer
from tests.running import Running

CARDS = [f"c{number}" for number in range(20)]
SHOPS = [f"s{number}" for number in range(5)]
RATE = 150
DELIVERY_SECONDS = 600.0


class Load(threading.Thread):
    """Sends events at a steady rate, one in ten twice; `events` are those sent, each once."""

    def __init__(self, broker: str, seed: int) -> None:
        super().__init__(name="load", daemon=True)
        self.events: list[dict[str, Any]] = []
        self.sent = 0
        self._dice = random.Random(seed)
        self._producer = Producer(broker, delivery_seconds=DELIVERY_SECONDS)
        self._enough = threading.Event()

    def run(self) -> None:
        began = time.monotonic()
        while not self._enough.wait(0.005):
            while len(self.events) < (time.monotonic() - began) * RATE:
                self._send()

    def _send(self) -> None:
        at_us = time.time_ns() // 1000
        event = {
            "id": f"e{len(self.events)}",
            "card": self._dice.choice(CARDS),
            "shop": self._dice.choice(SHOPS),
            "amount": self._dice.randint(-(2**62), 2**62),
            "at": at_us // 1000,
        }
        self.events.append({**event, "at": at_us // 1000 * 1000})
        for _ in range(2 if self._dice.random() < 0.1 else 1):
            self._producer.send("taps", event, key=event["card"])
            self.sent += 1

    def finish(self) -> None:
        """Stop, and wait until the broker has everything."""
        self._enough.set()
        self.join()
        self._producer.flush()


class Watcher(threading.Thread):
    """Reads all cards over and over; `went_back` lists every count that was smaller than one seen before."""

    def __init__(self, running: Running) -> None:
        super().__init__(name="watcher", daemon=True)
        self.reads, self.refused = 0, 0
        self.went_back: list[tuple[str, int, int]] = []
        self._running, self._enough = running, threading.Event()
        self._seen: dict[str, int] = {}

    def run(self) -> None:
        while not self._enough.wait(0.02):
            try:
                rows = self._running.features("ByCard", CARDS)
            except (OSError, HTTPException, AssertionError, ValueError):  # no server, a killed one, or one not ready
                self.refused += 1
                continue
            self.reads += 1
            for row in rows:
                self._compare(row["card"], row["values"]["taps_7d"])

    def _compare(self, card: str, taps: int) -> None:
        before = self._seen.get(card, 0)
        if taps < before:
            self.went_back.append((card, before, taps))
        self._seen[card] = max(before, taps)

    def finish(self) -> None:
        self._enough.set()
        self.join()
