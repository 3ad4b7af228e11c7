"""GET /hot: the heaviest keys of each stream and view, how evenly partitions are used, and what to do about it.

A key is hot where it alone has more than half of what one partition's task has when all have the same:

    4 partitions   |····:····|····:····|····:····|····:····|        more than 1/8 of all events
                        └ half of one                               with salt=8, more than all of them: never

Keys may tell who somebody is: they are answered here, and are in no metric.
"""

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from threading import Lock
from typing import Any, NamedTuple, Self

from headrace.declare.app import App
from headrace.declare.stream import Stream
from headrace.declare.views import MOST_SALT, View
from headrace.log.connect import BrokerRefused
from headrace.log.follow import ASK_SECONDS
from headrace.log.heavy import StreamKeys
from headrace.log.offsets import Offsets
from headrace.log.records import printable
from headrace.log.spread import Spread, spreads
from headrace.log.strangers import BrokerUnreachable
from headrace.serve.answers import Answer, json_answer
from headrace.serve.http import Request
from headrace.serve.ledgers import Ledgers
from headrace.tiles.heavy import HALF_US, heaviest

MOST, SHOWN = 5, 64
LEAST_EVENTS = 1000  # shares of fewer say nothing
UNEVEN = 2.0
LOOK_SECONDS, LOST_SECONDS = 5.0, 30.0
LOGGER = logging.getLogger("headrace.serve")


@dataclass(frozen=True)
class HotKey:
    """A heavy key of some streams, or of a view of them: bounds of its share of the events, and whether it is hot.

    The partition is told where the key decides it.
    """

    streams: tuple[str, ...]
    view: str | None
    rank: int
    key: str
    at_least: float
    at_most: float
    events_per_second: float
    partition: int | None
    partitions: int
    salt: int
    is_hot: bool

    @property
    def of(self) -> str:
        """Whose key it is."""
        return self.view or self.streams[0]


@dataclass(frozen=True)
class Report:
    """What is so now: heavy keys by stream and view, and the spread of each topic."""

    keys: tuple[HotKey, ...] = ()
    topics: tuple[Spread, ...] = ()

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Self:
        """A report from its JSON."""
        keys = (HotKey(**{**key, "streams": tuple(key["streams"])}) for key in written["keys"])
        spread = ({name: value for name, value in one.items() if name != "skew"} for one in written["topics"])
        return cls(tuple(keys), tuple(Spread(**one) for one in spread))

    def written(self) -> dict[str, Any]:
        """As JSON can hold it, with the advice in words."""
        topics = [asdict(one) | {"skew": one.skew} for one in self.topics]
        return {"keys": [asdict(one) for one in self.keys], "topics": topics, "advice": [*self.advice()]}

    def advice(self) -> Iterator[str]:
        """What to do: about the heaviest hot key of each stream and view, and about each uneven stream."""
        heaviest_first = {(key.view, key.of): key for key in reversed(self.keys) if key.is_hot}
        yield from map(_advice_of_key, reversed(heaviest_first.values()))
        streams = {key.of for key in self.keys if key.view is None and (None, key.of) not in heaviest_first}
        for one in self.topics:
            if one.topic in streams and one.skew > UNEVEN and one.records >= LEAST_EVENTS:
                yield (
                    f"Partition {one.busiest} of {one.topic} takes {one.skew:.1f} times the mean, and no key alone is "
                    "the cause: more partitions spread its keys, and so does a key with more values."
                )


def _advice_of_key(key: HotKey) -> str:
    said = f"{key.key} is {key.at_least:.0%} of {key.of}"
    if key.partitions == 1:
        return f"{said}. There is one partition, so nothing is shared out yet: that takes more of them."
    if key.view is None:
        return f"{said}, all in partition {key.partition}: more partitions do not help one key."
    rebuilt = "".join(f" --rebuild {stream}" for stream in key.streams)
    return (
        f"{said}, and one task folds all of it: more partitions do not help one key. "
        f"Write @hr.features(…, salt={_enough(key)}) and run headrace up APP{rebuilt}: the numbers stay the same."
    )


def _enough(key: HotKey) -> int:
    """The least power of two by which a key's part is no longer hot."""
    parts = 2
    while parts < MOST_SALT and is_hot(key.at_least, parts, key.partitions):
        parts *= 2
    return parts


def is_hot(share: float, salt: int, tasks: int) -> bool:
    """Whether one part of a key has more than half of what a task has when all have the same."""
    return share / salt > 1 / (2 * tasks)


class Hot:
    """Tells the heaviest keys and the spread of topics; what was looked up is told again for a few seconds."""

    def __init__(self, app: App, ledgers: Ledgers) -> None:
        self._app, self._ledgers = app, ledgers
        self._offsets: Offsets | None = None
        self._looking = Lock()
        self._due_at, self._report = 0.0, Report()

    async def __call__(self, _request: Request) -> Answer:
        # In a thread: the broker is asked where topics end.
        return json_answer((await asyncio.to_thread(self.report)).written())

    def report(self) -> Report:
        """The report now, which may ask the broker and wait; where it does not answer, as last known.

        There is none before the past has been read.
        """
        with self._looking:
            known = frozenset(self._ledgers.read)
            if known and time.monotonic() >= self._due_at:
                self._due_at = time.monotonic() + LOST_SECONDS
                self._look(known, time.time_ns() // 1000)
            return self._report

    def _look(self, known: frozenset[str], now_us: int) -> None:
        streams = [Whose((stream,)) for stream in self._app.streams]
        views = [Whose(view.streams, view) for view in self._app.views]
        every = [one for one in (*streams, *views) if known.issuperset(stream.name for stream in one.streams)]
        try:
            topics = self._spreads([one.topic for one in every], now_us)
        except (BrokerUnreachable, BrokerRefused) as problem:
            LOGGER.warning("How evenly partitions are used is not known now: %s", problem)
            return
        partitions = {one.topic: one.partitions for one in topics}
        found = (heavy_keys(one, self._ledgers.keys, one.tasks(partitions), now_us) for one in every)
        self._report = Report(tuple(chain.from_iterable(found)), tuple(topics))
        self._due_at = time.monotonic() + LOOK_SECONDS

    def _spreads(self, topics: Sequence[str], now_us: int) -> list[Spread]:
        self._offsets = self._offsets or Offsets(self._ledgers.broker, ASK_SECONDS)
        return spreads(self._offsets.added(topics, now_us - 2 * HALF_US), topics)


class Whose(NamedTuple):
    """Whose keys are counted: those of a stream, or the entities of a view of some streams."""

    streams: tuple[Stream, ...]
    view: View | None = None

    @property
    def topic(self) -> str:
        return self.view.topic if self.view else self.streams[0].name

    @property
    def is_by_key(self) -> bool:
        """Whether the key decides in which partition of the log an event is."""
        return len(self.streams) == 1 and self.columns(self.streams[0]) == (self.streams[0].key,)

    @property
    def salt(self) -> int:
        """Into how many parts the events of one key are shared out."""
        return self.view.salt if self.view else 1

    def columns(self, stream: Stream) -> tuple[str, ...]:
        """By what the events of a stream are grouped."""
        return self.view.by if self.view else (stream.key,)

    def tasks(self, partitions: Mapping[str, int]) -> int:
        """Among how many tasks the keys are shared out: as many as the topic has partitions."""
        return max(partitions.get(stream.name, stream.partitions) for stream in self.streams)


def heavy_keys(whose: Whose, keys: Mapping[str, StreamKeys], tasks: int, now_us: int) -> Iterator[HotKey]:
    """The heaviest keys, by what was counted of each stream."""
    counted = [keys[stream.name].recent[whose.columns(stream)] for stream in whose.streams]
    found = heaviest(counted, now_us, MOST)
    for rank, one in enumerate(found.keys, 1):
        at_least = one.at_least / found.events
        yield HotKey(
            streams=tuple(stream.name for stream in whose.streams),
            view=whose.view.name if whose.view else None,
            rank=rank,
            key=_shown(one.key),
            at_least=at_least,
            at_most=min(1.0, one.at_most / found.events),
            events_per_second=one.at_least / max(found.seconds, 1.0),
            partition=keys[whose.streams[0].name].partition_of(one.key) if whose.is_by_key else None,
            partitions=tasks,
            salt=whose.salt,
            is_hot=found.events >= LEAST_EVENTS and is_hot(at_least, whose.salt, tasks),
        )


def _shown(key: str) -> str:
    """A key as text, by its beginning."""
    return printable(key[:SHOWN]) + ("…" if len(key) > SHOWN else "")
