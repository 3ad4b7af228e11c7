"""The time in which an engine computes a query from full topics, and whether its result is right.

topics full ▸ the query starts ├ plan, read, answer ───────────── all is answered ┤
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from bench.errors import BenchFailed
from bench.nexmark.catalogue import QUERIES, Query
from bench.nexmark.columns import Events, ended
from bench.nexmark.engines import Engine
from bench.nexmark.generate import Shape
from bench.nexmark.log import fill, make_topics, read
from bench.nexmark.oracle import answers
from bench.nexmark.rows import answered, difference
from bench.topics import last_append_s, length
from bench.waiting import wait_for
from headrace.kafka.offsets import OffsetClient

KINDS = ("persons", "auctions", "bids")
LIMIT_SECONDS = 60.0
QUIET_SECONDS = 2.0


@dataclass(frozen=True)
class Drained:
    """The time of a result, or why there is none; `wrong` is its difference from the expected one."""

    seconds: float | None
    wrong: str = ""


@dataclass(frozen=True)
class Full:
    """Topics that are full of the same events for everybody."""

    broker: str
    events: Events
    until_ms: int

    @classmethod
    def of(cls, broker: str, count: int, shape: Shape) -> Self:
        """Make and fill the topics."""
        made = ended(count, shape)
        make_topics(broker, KINDS)
        fill(broker, made, {kind: kind for kind in KINDS})
        return cls(broker, made, shape.happened_ms(count) + shape.longest_ms + 60_000)

    def read_by(self, query: Query) -> int:
        """How many events a query reads; what reads `winning` reads what that is made of."""
        kinds = QUERIES["q9"].reads if "winning" in query.reads else query.reads
        return sum(table.num_rows for kind, table in self.events if kind in kinds)

    def wrong(self, query: Query, topic: str) -> str:
        """What is wrong with the answer in a topic."""
        columns, rows = answers(self.events, query.name)
        return difference(answered(read(self.broker, topic), columns), rows, columns, self.until_ms)


@dataclass(frozen=True)
class Contender:
    """An engine in one of its lanes."""

    name: str
    engine: Engine
    in_real_time: bool = False

    def topic(self, query: str) -> str:
        """Where its answer is."""
        return f"{query}.{self.name}"

    def answer(self, full: Full, query: Query) -> Drained:
        """How long the answer takes, and what is wrong with it."""
        topic = self.topic(query.name)
        sources = {kind: kind for kind in KINDS} | {"winning": self.topic("q9")}
        order = {"query": query.name, "sources": sources, "to": topic}
        make_topics(full.broker, [topic], partitions=1)
        try:
            seconds = self._in_real_time(full, order) if self.in_real_time else self._drained(order)
            return Drained(seconds, full.wrong(query, topic))
        except BenchFailed as why:
            return Drained(None, str(why))

    def _drained(self, order: Mapping[str, Any]) -> float:
        return float(self.engine.ask({"do": "drain", **order}, LIMIT_SECONDS))

    def _in_real_time(self, full: Full, order: Mapping[str, Any]) -> float:
        """This lane never ends: an answer is there when no more of it comes."""
        began = time.time()
        self.engine.ask({"do": "begin", "lane": "real-time", **order}, LIMIT_SECONDS)
        try:
            wait_until_quiet(full.broker, order["to"], LIMIT_SECONDS)
        finally:
            self.engine.ask({"do": "stop"}, LIMIT_SECONDS)
        return last_append_s(full.broker, order["to"]) - began


def wait_until_quiet(broker: str, topic: str, limit_s: float) -> None:
    """Wait until a topic has grown, and then has not for some seconds."""
    offsets, seen, since = OffsetClient(broker), 0, time.monotonic()

    def is_quiet() -> bool:
        nonlocal seen, since
        now = length(offsets, topic)
        if now != seen:
            seen, since = now, time.monotonic()
        return seen > 0 and time.monotonic() - since > QUIET_SECONDS

    wait_for(is_quiet, limit_s, f"an answer in {topic}", 0.1)
