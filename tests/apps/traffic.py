"""Hostile traffic: in bursts, out of order, late, twice, broken, too far ahead, without a key, and above 2 kB.

Each burst lies in some seconds of event time. What was meant by each record is kept by its bytes, so that whoever reads
the raw log knows what every record must have become.
"""

import json
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.apps.factors import Row
from tests.apps.naming import Names, names_of
from tests.apps.text import SORTS
from tests.oracle.streams import SECOND_US, Sent

KEYS = ("k1", "k2", "k3", "k4", "é 日本", "hot", "hot", "hot")
SINCE_US = tuple(1_700_000_000 * SECOND_US + number * 86_400 * SECOND_US for number in range(3))
HISTORY_US = 1_714_564_800 * SECOND_US  # 2024-05-01 12:00
HOUR_US = 3600 * SECOND_US
LATE_US = (2 * SECOND_US, 2 * SECOND_US, 8 * SECOND_US, 30 * SECOND_US, 700 * SECOND_US, 2 * HOUR_US)
BURST_US = 8 * SECOND_US
BIG = "x" * 3000


@dataclass
class Traffic:
    """What is sent to an app's streams; the same for the same seed, but for the time."""

    row: Row
    seed: int
    meant: dict[bytes, Sent] = field(default_factory=dict)  # by what is in the raw log
    bursts: int = 0
    rows: int = 0  # of a captured table, ever inserted
    _number: int = 0

    def __post_init__(self) -> None:
        self.names: Names = names_of(self.row)
        self.dice = random.Random(self.seed)

    @property
    def is_history(self) -> bool:
        return self.row["source"] == "history"

    def burst(self, count: int, *, is_other: bool = False) -> list[tuple[int, bytes, Sent]]:
        """Records with when each is sent, in µs after the burst began, its bytes and what is meant, in that order."""
        is_framed = self.row["source"] == "avro" and not is_other  # the other stream is JSON always
        base_us = HISTORY_US + self.bursts * 10 * BURST_US if self.is_history else time.time_ns() // 1000
        made = []
        for _ in range(count):
            offset_us = self.dice.randrange(BURST_US)
            made += [(offset_us + again_us, *one) for again_us, *one in self._records(base_us + offset_us, is_framed)]
        made += [(BURST_US, *one) for _, *one in self._closing(base_us + BURST_US)]
        return sorted(made, key=lambda one: one[0])

    def _records(self, now_us: int, is_framed: bool) -> Iterator[tuple[int, bytes, Sent]]:
        late_us = self.dice.choice(LATE_US) if self.dice.random() < 0.25 else self.dice.randrange(500_000)
        values = self.values(now_us - late_us)
        flaw, change = self._flaw(now_us, is_framed) if self.dice.random() < 0.08 else (None, {})
        value, sent = self._written(values, now_us, flaw, change)
        yield 0, value, sent
        if self.dice.random() < 0.1:
            yield self.dice.randrange(SECOND_US), value, sent

    def _closing(self, now_us: int) -> Iterator[tuple[int, bytes, Sent]]:
        """The last records of each partition are late, and dead: they must not hold back what is due."""
        for key in dict.fromkeys(KEYS):
            yield 0, *self._written(self.values(now_us) | {self.names.key: key}, now_us, None, {})
        for key in dict.fromkeys(KEYS):
            late = self.values(now_us - 3 * HOUR_US) | {self.names.key: key}
            yield 0, *self._written(late, now_us, None, {})
            dead = self.values(now_us) | {self.names.key: key}
            yield 0, *self._written(dead, now_us, "failed-check", {self.names.amount: -1.0})

    def values(self, at_us: int) -> dict[str, Any]:
        self._number += 1
        dice, names = self.dice, self.names
        return {
            names.id: f"{self.seed}-{self._number}",
            names.key: dice.choice(KEYS),
            "zone": dice.choice((1, -2, 2**40, None)),
            "peak": dice.choice((True, False, None)),
            "since": dice.choice((*SINCE_US, None)),
            names.amount: dice.choice((None, *(number / 2 for number in range(200)))),
            names.sort: dice.choice((*SORTS, None)),
            "note": BIG if dice.random() < 0.05 else "short",
            "at": at_us // 1000 * 1000,
        }

    def _flaw(self, now_us: int, is_framed: bool) -> tuple[str, dict[str, Any]]:
        names = self.names
        ahead = (now_us + 2 * HOUR_US) // 1000 * 1000
        flaws: list[tuple[str, dict[str, Any]]] = [
            ("failed-check", {names.amount: -5.0}),
            ("too-far-ahead", {"at": ahead}),
        ]
        if is_framed:  # a schema holds no others
            return self.dice.choice([*flaws, ("not-framed", {})])
        flaws += [("missing-id", {names.id: None}), ("missing-key", {names.key: None}), ("missing-time", {"at": None})]
        flaws += [("wrong-type", {names.amount: "much"}), ("wrong-type", {"zone": 1.5}), ("not-json", {})]
        return self.dice.choice(flaws)

    def _written(
        self, values: dict[str, Any], now_us: int, flaw: str | None, change: Mapping[str, Any]
    ) -> tuple[bytes, Sent]:
        arrival = {"seen_at": now_us // 1000 * 1000} if self.is_history else {}
        event = {name: _json(name, value) for name, value in (values | dict(change) | arrival).items()}
        value = (
            json.dumps(event, ensure_ascii=False).encode() if flaw != "not-json" else b"{" + json.dumps(event).encode()
        )
        sent = Sent(event, values | arrival, arrival.get("seen_at", 0), flaw)
        self.meant[canonical(value)] = sent
        return value, sent


def _json(name: str, value: Any) -> Any:
    if name in ("at", "since", "seen_at") and isinstance(value, int):
        return datetime.fromtimestamp(value / SECOND_US, UTC).isoformat().replace("+00:00", "Z")
    return value


def canonical(value: bytes) -> bytes:
    """A record in a canonical form, independent of its JSON writer."""
    try:
        return json.dumps(json.loads(value), sort_keys=True).encode()
    except ValueError:
        return value
