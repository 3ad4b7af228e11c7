"""Payments as a pure function of a seed and a number: the same bytes in every process, on every machine.

    number    0     1     2     3     4 …
              ├─────┼─────┼─────┼─────┼──▶  produced at start + number / rate
    clean     event time: up to two seconds before it is produced
    late      event time: 3 to 20 minutes before
    ahead     event time: 10 to 60 minutes after, a dead letter
    broken    not JSON, a wrong type, no id, or a negative amount: dead letters too
    again     the same bytes as a clean payment shortly before

Attacks: twelve high payments at twelve merchants abroad, within seconds. Trials of stolen cards are more frequent:
three payments of less than a euro, then one of hundreds.
Half of the clean payments get a verdict (a label) 2 to 40 seconds later; in production that takes weeks. One percent
of these verdicts are wrong at first, and are corrected ten seconds later.
"""

import math
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import lru_cache
from hashlib import blake2b
from statistics import NormalDist

import orjson

CARDS, MERCHANTS = 5_000, 800
COUNTRIES = ("FR", "DE", "ES", "IT", "NL", "BE", "PT", "GB")
ATTACK_EVERY, ATTACK_LENGTH, ATTACK_STRIDE = 1_000, 12, 50
TRIAL_EVERY, TRIAL_LENGTH, TRIAL_STRIDE = 250, 4, 15
FARTHEST_BACK = 40
TOLD_SHARE, DOUBTED_SHARE = 0.5, 0.01

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND_US, _MINUTE_US = 1_000_000, 60_000_000
_NORMAL = NormalDist()
_LATE, _AGAIN, _BROKEN, _AHEAD = 0.010, 0.030, 0.035, 0.037  # cumulative shares


class Fate(Enum):
    """The fate of a payment at the gate and in the tiles."""

    CLEAN = "clean"
    DUPLICATE = "duplicate"
    LATE = "late"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Event:
    """A payment as it is produced, and its expected fate."""

    number: int
    moment_us: int
    key: bytes
    value: bytes
    fate: Fate
    reason: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Verdict:
    """The label of a payment, and when it is sent."""

    moment_us: int
    payment_id: str
    fraud: bool

    @property
    def value(self) -> bytes:
        return orjson.dumps({"payment_id": self.payment_id, "fraud": self.fraud, "at": _text(self.moment_us)})


@dataclass(frozen=True)
class Truth:
    """Expected counts of payments per fate; the gate counts duplicates as clean, and the tiles drop them.

    `trials` counts the trials of stolen cards whose high payment is among the payments.
    """

    produced: int
    clean: int
    late: int
    dead: dict[str, int]
    duplicates: int
    trials: int


@dataclass(frozen=True)
class Timeline:
    """Payments at a steady rate from a start time on."""

    seed: int
    start_us: int
    rate: float

    def moment_us(self, number: int) -> int:
        """The time at which a payment is produced."""
        return self.start_us + round(number * _SECOND_US / self.rate)

    def event(self, number: int) -> Event:
        """The payment with this number."""
        fate, reason = fate_of(self.seed, number)
        source = original_of(self.seed, number) if fate is Fate.DUPLICATE else number
        fields = payment(self.seed, source, self.moment_us(source))
        key = str(fields["card"]).encode()
        if fate is Fate.LATE:
            fields["at"] = _text(self.moment_us(number) - _between(3, 20, _draws(self.seed, number)[4]))
        value = _broken(fields, reason, self.moment_us(number), _draws(self.seed, number)[4])
        return Event(number, self.moment_us(number), key, value, fate, reason)

    def verdicts(self, number: int) -> list[Verdict]:
        """The labels of a payment: none, the correct one, or a wrong one and then the correct one."""
        chance, delay, doubt, *_ = _draws(self.seed, number, "verdict")
        if chance >= TOLD_SHARE or fate_of(self.seed, number)[0] is not Fate.CLEAN:
            return []
        payment_id, fraud = f"p{self.seed}-{number}", is_fraud(self.seed, number)
        moment_us = self.moment_us(number) + int((2 + 38 * delay) * _SECOND_US)
        verdict = Verdict(moment_us, payment_id, fraud)
        if doubt >= DOUBTED_SHARE:
            return [verdict]
        return [Verdict(moment_us, payment_id, not fraud), replace(verdict, moment_us=moment_us + 10 * _SECOND_US)]


def events(seed: int, count: int, start_us: int, rate: float, first: int = 0) -> Iterator[Event]:
    """Payments from number `first` on, in the order they are produced."""
    timeline = Timeline(seed, start_us, rate)
    return map(timeline.event, range(first, first + count))


def truth(seed: int, count: int, first: int = 0) -> Truth:
    """The counts that a correct platform reports for these payments."""
    fates = Counter(fate_of(seed, number) for number in range(first, first + count))
    dead = {reason: times for (fate, reason), times in sorted(fates.items(), key=str) if fate is Fate.DEAD}
    duplicates, late = fates[Fate.DUPLICATE, ""], fates[Fate.LATE, ""]
    trials = sum(is_end_of_trial(seed, number) for number in range(first, first + count))
    return Truth(count, fates[Fate.CLEAN, ""] + duplicates, late, dead, duplicates, trials)


def payment(seed: int, number: int, moment_us: int) -> dict[str, object]:
    """The fields of a valid payment, produced at `moment_us`.

    >>> payment(7, 0, 1_767_225_600_000_000)["payment_id"]
    'p7-0'
    """
    _, card, merchant, amount, way, abroad, *_ = _draws(seed, number)
    changed = attack_of(seed, number) or trial_of(seed, number, moment_us)
    fields = {
        "payment_id": f"p{seed}-{number}",
        "card": f"c{_rank(card, CARDS)}",
        "merchant": f"m{_rank(merchant, MERCHANTS)}",
        "country": _country(_rank(card, CARDS), abroad < 0.04),
        "amount": round(math.exp(3.2 + 0.9 * _NORMAL.inv_cdf(max(amount, 1e-9))), 2),
        "at": _text(moment_us - int(way * 2 * _SECOND_US)),
    }
    return fields if changed is None else fields | changed


def fate_of(seed: int, number: int) -> tuple[Fate, str]:
    """The expected fate of a payment, and the reason of a dead letter."""
    chance, kind = _draws(seed, number)[0], _draws(seed, number)[6]
    if chance >= _AHEAD or attack_of(seed, number) is not None or _trial_step(seed, number) is not None:
        return Fate.CLEAN, ""
    if chance < _LATE:
        return Fate.LATE, ""
    if chance < _AGAIN:
        return (Fate.DUPLICATE, "") if number > FARTHEST_BACK * 2 else (Fate.CLEAN, "")
    if chance < _BROKEN:
        return Fate.DEAD, ("not-json", "wrong-type", "missing-id", "failed-check")[int(kind * 4)]
    return Fate.DEAD, "too-far-ahead"


def original_of(seed: int, number: int) -> int:
    """The clean payment a duplicate repeats."""
    source = number - 1 - int(_draws(seed, number)[6] * FARTHEST_BACK)
    while fate_of(seed, source)[0] is not Fate.CLEAN:
        source -= 1
    return source


def attack_of(seed: int, number: int) -> dict[str, object] | None:
    """The fields that an attack changes in a payment, or None if the payment is not part of one."""
    block, place = divmod(number, ATTACK_EVERY)
    start, card, merchant, *_ = _draws(seed, -1 - block)
    step, between = divmod(place - int(start * 400), ATTACK_STRIDE)
    if between or not 0 <= step < ATTACK_LENGTH:
        return None
    rank = _rank(card, CARDS)
    return {
        "card": f"c{rank}",
        "merchant": f"m{(int(merchant * MERCHANTS) + 37 * step) % MERCHANTS + 1}",
        "country": _country(rank, abroad=True),
        "amount": round(400 + 1_500 * _draws(seed, number)[3], 2),
    }


def trial_of(seed: int, number: int, moment_us: int) -> dict[str, object] | None:
    """The fields that a trial changes in a payment, or None; a trial has its own card and increasing event times."""
    step = _trial_step(seed, number)
    if step is None:
        return None
    amount = _draws(seed, number)[3]
    return {
        "card": f"c{CARDS + 1 + number // TRIAL_EVERY}",
        "amount": round(400 + 1_500 * amount if step == TRIAL_LENGTH - 1 else 0.1 + 0.8 * amount, 2),
        "at": _text(moment_us),
    }


def is_end_of_trial(seed: int, number: int) -> bool:
    """Whether it is the high payment at the end of a trial."""
    return _trial_step(seed, number) == TRIAL_LENGTH - 1


def _trial_step(seed: int, number: int) -> int | None:
    """The step of a trial that this payment is, if any; trials never use the numbers of an attack."""
    attack = int(_draws(seed, -1 - number // ATTACK_EVERY)[0] * 400)
    step, between = divmod(number % TRIAL_EVERY - attack % ATTACK_STRIDE - 7, TRIAL_STRIDE)
    return step if not between and 0 <= step < TRIAL_LENGTH else None


def is_fraud(seed: int, number: int) -> bool:
    """Whether its holder disputes a payment: most payments of an attack or at the end of a trial, and few others."""
    suspicious = attack_of(seed, number) is not None or is_end_of_trial(seed, number)
    return _draws(seed, number)[7] < (0.95 if suspicious else 0.001)


def _broken(fields: dict[str, object], reason: str, moment_us: int, draw: float) -> bytes:
    """The bytes of a payment, with the fault that makes it a dead letter."""
    other = draw < 0.5
    match reason:
        case "not-json":
            whole = orjson.dumps(fields)
            return whole[: len(whole) // 2] if other else b"\xff\xfe" + whole
        case "wrong-type":
            fields |= {"amount": "12,50"} if other else {"at": "yesterday"}
        case "missing-id":
            identity = fields.pop("payment_id")
            fields |= {"payment_id": None} if other else {"id": identity}
        case "failed-check":
            fields["amount"] = -1.0 - round(99 * draw, 2)
        case "too-far-ahead":
            fields["at"] = _text(moment_us + _between(10, 60, draw))
    return orjson.dumps(fields)


@lru_cache(maxsize=256)
def _draws(seed: int, number: int, of: str = "") -> tuple[float, ...]:
    """Eight random draws from [0, 1) for one payment or its verdict; negative numbers are attacks."""
    digest = blake2b(f"{seed}:{number}{of}".encode(), digest_size=64).digest()
    return tuple((word >> 11) * 2.0**-53 for word in struct.unpack("<8Q", digest))


def _rank(draw: float, size: int) -> int:
    """A rank from 1 on with Zipf's distribution: rank k is about 1/k as frequent as rank 1."""
    return int(size**draw)


def _country(rank: int, abroad: bool) -> str:
    return COUNTRIES[(rank + (1 + rank % 7 if abroad else 0)) % len(COUNTRIES)]


def _between(low: int, high: int, draw: float) -> int:
    """A delay between two numbers of minutes, in microseconds."""
    return int((low + (high - low) * draw) * _MINUTE_US)


def _text(time_us: int) -> str:
    time = _EPOCH + timedelta(microseconds=time_us)
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
