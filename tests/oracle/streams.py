"""Random hostile streams, deterministic for a seed: the effects of producers, networks and clocks on events.

Out of order, duplicated (some with other content and another time), late by every kind of lateness, one hot key,
nulls, NaN and infinities, empty and unicode keys, the extremes of 64 bits, and records the gate must refuse.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

SCHEMA = (
    "id string, card string, region string, shop int, amount double, units bigint, label string, "
    "flag boolean, seen timestamp, at timestamp"
)
CHECK = "not (amount = -1e17 and units = 8)"
SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
BASES_US = (1_767_225_600 * SECOND_US, 0)  # 2026, and 1970 with times before it

_CARDS = ("hot", "", "é", "日本", "\U0001f600", "\uffff", 'q"\\', "c1", "c2")
_LABELS = ("", "a", "Z", "é", "日本", "\U0001f600", "\uffff", "NaN", "null", "a" * 40, None)
_DOUBLES = (math.nan, math.inf, -math.inf, -0.0, 0.0, 0.1, 1e15, -1e15, 1e-100, None)
_INTEGERS = (INT64_MIN, INT64_MAX, INT64_MIN + 1, 0, -1, 2**53 + 1, None)
_DELAYS_US = (0, 1, 5 * SECOND_US, 30 * SECOND_US, 60 * SECOND_US, 60 * SECOND_US + 1, 300 * SECOND_US, 301 * SECOND_US)


@dataclass(frozen=True)
class Sent:
    """One record: the JSON's fields, what they mean, when it arrives, and what the gate must object to, if anything."""

    event: dict[str, Any]
    values: dict[str, Any]  # by column; times in µs
    arrival_us: int
    flaw: str | None = None


def hostile(seed: int, count: int = 100, base_us: int | None = None, span_us: int | None = None) -> list[Sent]:
    """A stream in the order it arrives; its events lie in the span before and after the base."""
    chance = random.Random(seed)
    base_us = chance.choice(BASES_US) if base_us is None else base_us
    span_us = chance.choice((120, 1_800, 3 * 3_600, 10 * 86_400)) * SECOND_US if span_us is None else span_us
    sent = [_sent(chance, number, base_us + _offset_us(chance, span_us)) for number in range(count)]
    again = [_again(chance, one) for one in sent if chance.random() < 0.1]
    return sorted(sent + again, key=lambda one: one.arrival_us)


def _offset_us(chance: random.Random, span_us: int) -> int:
    """Anywhere in the span; now and then a round time, which several events share."""
    offset_us = chance.randint(-span_us, span_us)
    return offset_us - offset_us % (span_us // 8) if chance.random() < 0.2 else offset_us


def _sent(chance: random.Random, number: int, event_us: int) -> Sent:
    values = _values(chance, f"p{number}", event_us)
    sent = _written(chance, values, event_us + _delay_us(chance))
    return _flawed(chance, sent) if chance.random() < 0.06 else sent


def _values(chance: random.Random, event_id: str, event_us: int) -> dict[str, Any]:
    return {
        "id": event_id,
        "card": "hot" if chance.random() < 0.5 else chance.choice(_CARDS),
        "region": chance.choice(("FR", "", "ÅL", None)),
        "shop": chance.choice((0, -1, 2**31 - 1, -(2**31), None)),
        "amount": chance.choice(_DOUBLES) if chance.random() < 0.2 else round(chance.gauss(50, 500), 2),
        "units": chance.choice(_INTEGERS) if chance.random() < 0.3 else chance.randint(-100, 100),
        "label": chance.choice(_LABELS),
        "flag": chance.choice((True, False, None)),
        "seen": chance.choice((None, event_us - chance.randint(0, DAY_US), -1, 1_500_000)),
        "at": event_us,
    }


def _delay_us(chance: random.Random) -> int:
    return chance.choice(_DELAYS_US) if chance.random() < 0.3 else chance.randint(-SECOND_US, 20 * SECOND_US)


def _again(chance: random.Random, one: Sent) -> Sent:
    """A duplicate: the same bytes, or other content and another time under the same id and key."""
    arrival_us = one.arrival_us + chance.randint(1, 30 * SECOND_US)
    if one.flaw or chance.random() < 0.5:
        return replace(one, arrival_us=arrival_us)
    changed = _values(chance, one.values["id"], one.values["at"] + chance.randint(-90, 20) * SECOND_US)
    return _written(chance, changed | {"card": one.values["card"]}, arrival_us)


def _written(chance: random.Random, values: dict[str, Any], arrival_us: int) -> Sent:
    writers: dict[str, Callable[[Any], Any]] = {
        "amount": _written_double,
        "seen": lambda time_us: _written_time(chance, time_us),
        "at": lambda time_us: _written_time(chance, time_us),
    }
    event = {name: writers.get(name, lambda same: same)(value) for name, value in values.items()}
    absent = [name for name, value in event.items() if value is None and chance.random() < 0.5]
    kept = {name: value for name, value in event.items() if name not in absent}
    return Sent(kept | {"unknown": 1}, values, arrival_us)


def _written_double(value: float | None) -> Any:
    """JSON has no word for what is not finite."""
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _written_time(chance: random.Random, time_us: int | None) -> Any:
    if time_us is None:
        return None
    if time_us % 1000 == 0 and chance.random() < 0.3:
        return time_us // 1000
    zone = chance.choice((UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=8))))
    text = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)).astimezone(zone).isoformat()
    return text.replace("+00:00", chance.choice(("Z", "", "+00:00")))


_FLAWS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("too-far-ahead", {}),
    ("missing-id", {"id": None}),
    ("missing-key", {"card": None}),
    ("missing-time", {"at": None}),
    ("failed-check", {"amount": -1e17, "units": 8}),
    ("wrong-type", {"amount": "12"}),
    ("wrong-type", {"units": 5.0}),
    ("wrong-type", {"units": 2**63}),
    ("wrong-type", {"shop": 2**31}),
    ("wrong-type", {"flag": 1}),
    ("wrong-type", {"at": "noon"}),
    ("wrong-type", {"seen": 1.5}),
)


def _flawed(chance: random.Random, sent: Sent) -> Sent:
    flaw, change = chance.choice(_FLAWS)
    arrival_us = sent.values["at"] - 3600 * SECOND_US if flaw == "too-far-ahead" else sent.arrival_us
    return replace(sent, event=sent.event | change, arrival_us=arrival_us, flaw=flaw)
