"""The cards of a busy shop, as the tiles of their payments.

    a card      ▪▪▪▪▪     ▪▪▪▪▪ ▪▪▪▪▪          ▪▪▪▪▪   ▪▪▪▪▪ │      ▪▪▪▪▪
                └─ a visit: five payments in 20 s ─┘        now    └─ counted once its time is reached

A fixed number of visits an hour, from an hour before to 20 minutes after now, so that a window holds as many events at
the end of a run as at its start. Every card is one of about a hundred patterns with its own name.
"""

import random
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from bench.app import CardSpend, payments
from headrace.kafka.record import ConsumerRecord
from headrace.tiles.events.event_parser import Event
from headrace.tiles.fold import fold_into_tiles, to_event_columns
from headrace.tiles.layout import hop_layouts
from headrace.tiles.tile import FeatureTileKey, encode_key, encode_tile

SECOND_US = 1_000_000
BEHIND_US, AHEAD_US = 3600 * SECOND_US, 1200 * SECOND_US
VISIT_US = 20 * SECOND_US
PAYMENTS_A_VISIT = 5
PATTERNS = 200
AT_ONCE = 5000  # records, as the follower of a changelog takes them


class _Piece(NamedTuple):
    """A changelog record with a gap in its key for the card's name."""

    before: bytes
    after: bytes
    value: bytes


class Cards:
    """Changelog records of any number of cards around a time."""

    def __init__(self, now_us: int, visits_an_hour: int) -> None:
        self._payments = _payments(now_us, visits_an_hour)
        self._patterns = _patterns(self._payments, now_us)

    def batches(self, count: int) -> Iterator[list[ConsumerRecord]]:
        """The records of the first cards, in batches of a server's size."""
        batch: list[ConsumerRecord] = []
        for number in range(count):
            batch += self.records(number)
            if len(batch) >= AT_ONCE:
                yield batch
                batch = []
        yield batch

    def records(self, number: int) -> list[ConsumerRecord]:
        """The tiles of one card."""
        name = card(number).encode()
        return [
            ConsumerRecord(CardSpend.topic, 0, 0, 0, piece.before + name + piece.after, piece.value, None)
            for piece in self._patterns[_pattern(number)]
        ]

    def payments(self, number: int) -> list[Event]:
        """The payments in the tiles of one card."""
        return [event for event in self._payments if event["card"] == _pattern(number)]


def card(number: int) -> str:
    """The name of a card, as in keys.lua.

    >>> card(7)
    'c7'
    """
    return f"c{number}"


def _pattern(number: int) -> str:
    return f"@{number % PATTERNS}"


def _payments(now_us: int, visits_an_hour: int) -> list[Event]:
    """The payments of every pattern."""
    chance = random.Random(7)
    visits = round(visits_an_hour * (BEHIND_US + AHEAD_US) / BEHIND_US)
    return [event for number in range(PATTERNS) for event in _visits(_pattern(number), visits, now_us, chance)]


def _patterns(events: list[Event], now_us: int) -> dict[str, list[_Piece]]:
    # What has not happened yet has arrived all the same: a store's own time must not run ahead.
    arrivals = [min(event["at"], now_us) for event in events]
    folded = fold_into_tiles(CardSpend, to_event_columns(CardSpend, payments, events, arrivals))
    layouts = {layout.version: layout for layout in hop_layouts(CardSpend)}
    patterns: dict[str, list[_Piece]] = defaultdict(list)
    for key, tile in folded:
        patterns[str(*key.entity)].append(_piece(key, encode_tile(layouts[key.version], tile)))
    return patterns


def _visits(name: str, visits: int, now_us: int, chance: random.Random) -> Iterator[Event]:
    for visit in range(visits):
        begins_us = now_us + chance.randint(-BEHIND_US, AHEAD_US)
        for number in range(PAYMENTS_A_VISIT):
            yield {
                "payment_id": f"{name}-{visit}-{number}",
                "card": name,
                "merchant": f"m{chance.randrange(500)}",
                "amount": round(chance.expovariate(1 / 40), 2),
                "at": begins_us + chance.randrange(VISIT_US),
            }


def _piece(key: FeatureTileKey, value: bytes) -> _Piece:
    (name,) = key.entity
    before, after = encode_key(key).split(str(name).encode(), 1)
    return _Piece(before, after, value)
