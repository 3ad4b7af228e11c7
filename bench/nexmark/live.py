"""The delay from a bid to its result, while bids arrive at a steady rate.

a bid happens ─▶ producer ─▶ log ─▶ engine ─▶ log takes the answer
├───────────────────────── its delay ─────────────────────────┤

When a bid happened follows from its number; which bid an answer is about, from the answer: q12 counts the bids of a
bidder, so a count of 7 is the answer to the seventh.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from bench.errors import BenchFailed
from bench.nexmark.columns import events
from bench.nexmark.drains import LIMIT_SECONDS, wait_until_quiet
from bench.nexmark.engines import Engine
from bench.nexmark.generate import Shape
from bench.nexmark.log import PARTITIONS, make_topics, read
from bench.nexmark.rows import plain
from bench.percentiles import Spread
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord

RATE = 500  # events a second, of which 460 are bids
FIRST_MEASURED = 188_350  # from here on the hot auction is one that q2 asks for, for three seconds
WINDOW_MS = 10_000
LEAD_MS = 300

Bid = dict[str, Any]
Answered = Callable[[dict[str, Any]], int | None]


@dataclass(frozen=True)
class Pace:
    """For how long bids come, and for how long they are looked at, in seconds."""

    warm_up: float
    measured: float


@dataclass(frozen=True)
class Asked:
    """A query of an engine in one of its lanes; what it is called there, and which bid an answer is about."""

    engine: Engine
    query: str
    lane: str | None
    answers: Callable[[list[Bid]], Answered]


def delays_ms(broker: str, asked: Asked, pace: Pace, name: str) -> Spread:
    """How long answers took; those to bids of the warm-up are not looked at."""
    source, to = f"{name}.bids", f"{name}.answers"
    make_topics(broker, [source])
    make_topics(broker, [to], partitions=1)
    sources = dict.fromkeys(("persons", "auctions", "bids", "winning"), source)
    lane = {} if asked.lane is None else {"lane": asked.lane}
    order = {"do": "begin", "query": asked.query, "sources": sources, "to": to, **lane}
    asked.engine.ask(order, LIMIT_SECONDS)
    try:
        bids = _send(broker, source, pace)
        wait_until_quiet(broker, to, LIMIT_SECONDS)
    finally:
        asked.engine.ask({"do": "stop"}, LIMIT_SECONDS)
    since_ms = bids[0]["happened_ms"] + 1_000 * pace.warm_up
    found = list(_delays(read(broker, to), asked.answers(bids), since_ms))
    if not found:
        raise BenchFailed("no answer to any bid after the warm-up")
    return Spread.of(found)


def _send(broker: str, topic: str, pace: Pace) -> list[Bid]:
    """Send each bid when it happens; those of a bidder to one partition, so that they are counted in their order."""
    first = FIRST_MEASURED - round(pace.warm_up * RATE)
    shape = Shape(rate=RATE, start_ms=time.time_ns() // 1_000_000 + LEAD_MS - first * 1_000 // RATE)
    bids: list[Bid] = events(round((pace.warm_up + pace.measured) * RATE), shape, first).bids.to_pylist()
    with Producer(broker) as producer:
        for bid in bids:
            time.sleep(max(0.0, bid["happened_ms"] / 1_000 - time.time()))
            producer.send(topic, orjson.dumps(bid), partition=bid["bidder"] % PARTITIONS)
    return bids


def _delays(records: Iterable[ConsumerRecord], answers: Answered, since_ms: float) -> Iterator[float]:
    """The delay of each row; a retracted row has none."""
    for row in records:
        happened_ms = None if row.value is None else answers(orjson.loads(row.value))
        if happened_ms is not None and happened_ms >= since_ms:
            yield row.appended_us / 1_000 - happened_ms


def by_number(bids: list[Bid]) -> Answered:
    """For results that contain the number of their bid."""
    happened_ms = {bid["number"]: bid["happened_ms"] for bid in bids}
    return lambda answer: happened_ms.get(answer.get("number", -1))


def by_count(bids: list[Bid]) -> Answered:
    """For answers that count the bids of a bidder in ten seconds."""
    counts: Counter[tuple[int, int]] = Counter()
    happened_ms: dict[tuple[int, int, int], int] = {}
    for bid in bids:
        window = bid["bidder"], (bid["happened_ms"] // WINDOW_MS + 1) * WINDOW_MS
        counts[window] += 1
        happened_ms[*window, counts[window]] = bid["happened_ms"]
    return lambda answer: happened_ms.get((answer["bidder"], plain(answer["ends"]), answer["bids"]))
