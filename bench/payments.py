"""Payments: a card, an amount, and occasional duplicates."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

CARDS = 5_000
DUPLICATES = 0.02
_CHANCE = random.Random(11)


def payment(name: str, at_us: int, card: str | None = None) -> dict[str, Any]:
    """A payment at a time, of a random card or of a given one; its name is its id."""
    return {
        "payment_id": name,
        "card": card or f"c{_CHANCE.randrange(CARDS)}",
        "merchant": f"m{_CHANCE.randrange(500)}",
        "amount": round(_CHANCE.expovariate(1 / 40), 2),
        "at": datetime.fromtimestamp(at_us / 1e6, UTC),
    }


def backlog(count: int, until_us: int, rate: float) -> Iterator[dict[str, Any]]:
    """Payments at a steady rate up to a time; some are sent twice in a row."""
    last: dict[str, Any] = {}
    for number in range(count):
        if not last or _CHANCE.random() >= DUPLICATES:
            last = payment(f"p{number}", until_us - int((count - number) * 1e6 / rate))
        yield last
