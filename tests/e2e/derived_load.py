"""Payments for `derived_app`, with duplicates and rows that raise, and their expected results by loops."""

import random
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from headrace.kafka.producer.producer import Producer

CARDS = [f"c{number}" for number in range(7)]
Event = dict[str, Any]


def payments(count: int, seed: int, first: int = 0, raising: int = 40) -> Iterator[Event]:
    """Events of now; one in so many has nothing to divide by."""
    dice = random.Random(seed)
    for number in range(first, first + count):
        country = dice.choice(["FR", "DE", "IT"])
        raises = number % raising == raising - 1
        yield {
            "id": f"p{number}",
            "card": dice.choice(CARDS),
            "country": "DE" if raises else country,
            "amount": dice.randint(0, 1000),
            "parts": 0 if raises else dice.randint(1, 12),
            "at": time.time_ns() // 1_000_000,
        }


def send(producer: Producer, events: list[Event], dice: random.Random) -> None:
    """Each once, every tenth or so once more: a producer that was not sure."""
    for event in events:
        again = event["parts"] > 0 and dice.random() < 0.1
        for _ in range(2 if again else 1):
            producer.send("payments", event, key=event["card"])


def instalments(events: list[Event]) -> dict[str, int]:
    """The expected row of `instalments` for each payment in it, by id."""
    return {
        event["id"]: event["amount"] // event["parts"]
        for event in events
        if event["country"] != "FR" and event["parts"]
    }


def by_card(events: list[Event]) -> dict[str, dict[str, int | None]]:
    """The features of each card."""
    each = defaultdict[str, list[int]](list)
    said = instalments(events)
    for event in events:
        if event["id"] in said:
            each[event["card"]].append(said[event["id"]])
    return {card: {"paid_1h": len(each[card]), "each_1h": sum(each[card]) if each[card] else None} for card in CARDS}


def raising(events: list[Event]) -> list[str]:
    return [event["id"] for event in events if not event["parts"]]
