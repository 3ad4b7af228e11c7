"""GET /hot: the heaviest keys of each stream and view, the skew of partitions, and advice.

A key is hot where it alone has more than half of a task's fair share of the events:

    4 partitions   |····:····|····:····|····:····|····:····|        more than 1/8 of all events
                        └ half of one                               with salt=8, more than all of them: never

Keys may identify a person: this route returns them, and no metric contains them.
"""

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from threading import Lock
from typing import Any, NamedTuple, Self

from headrace.aggregates.sketches.heavy_hitters import HALF_WINDOW_US, find_heavy_hitters
from headrace.declare.app import App
from headrace.declare.features.view import MAX_SALT, View
from headrace.declare.streams.stream import Stream
from headrace.kafka.client.client import BrokerRefused
from headrace.kafka.client.connection_diagnosis import BrokerUnreachable
from headrace.kafka.consumers.tailing_consumer import SHORT_REQUEST_TIMEOUT_SECONDS
from headrace.kafka.key_counts import StreamKeyCounts
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.partition_skew import PartitionSkew, partition_skews
from headrace.kafka.record import escape_unprintable
from headrace.server.http.responses import Response, json_response
from headrace.server.http.routing import Request
from headrace.server.metrics.ledgers import StreamLedgers

MAX_KEYS, MAX_KEY_CHARS = 5, 64
MIN_EVENTS = 1000  # shares of fewer are not significant
UNEVEN_SKEW = 2.0
REFRESH_SECONDS, RETRY_SECONDS = 5.0, 30.0
LOGGER = logging.getLogger("headrace.serve")


@dataclass(frozen=True)
class HotKeyStats:
    """A heavy key of some streams, or of a view of them: bounds of its share of the events, and whether it is hot.

    `partition` is set where the key decides it.
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
    def source_name(self) -> str:
        """The stream or view of the key."""
        return self.view or self.streams[0]


@dataclass(frozen=True)
class HotKeyReport:
    """Heavy keys by stream and view, and the partition skew of each topic."""

    keys: tuple[HotKeyStats, ...] = ()
    topics: tuple[PartitionSkew, ...] = ()

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Parse a report from its JSON."""
        keys = (HotKeyStats(**{**key, "streams": tuple(key["streams"])}) for key in content["keys"])
        topics = ({name: value for name, value in topic.items() if name != "skew"} for topic in content["topics"])
        return cls(tuple(keys), tuple(PartitionSkew(**one) for one in topics))

    def to_json(self) -> dict[str, Any]:
        """The report as JSON, with the advice as text."""
        topics = [asdict(entry) | {"skew": entry.skew} for entry in self.topics]
        return {"keys": [asdict(one) for one in self.keys], "topics": topics, "advice": [*self.advice()]}

    def advice(self) -> Iterator[str]:
        """Advice about the heaviest hot key of each stream and view, and about each skewed stream."""
        hot_by_source = {(key.view, key.source_name): key for key in reversed(self.keys) if key.is_hot}
        yield from map(_key_advice, reversed(hot_by_source.values()))
        streams_without_hot_key = {
            key.source_name for key in self.keys if key.view is None and (None, key.source_name) not in hot_by_source
        }
        for topic in self.topics:
            if topic.topic in streams_without_hot_key and topic.skew > UNEVEN_SKEW and topic.records >= MIN_EVENTS:
                yield (
                    f"Partition {topic.busiest} of {topic.topic} takes {topic.skew:.1f} times the mean, and no "
                    f"key alone is "
                    "the cause: more partitions spread its keys, and so does a key with more values."
                )


def _key_advice(key: HotKeyStats) -> str:
    finding = f"{key.key} is {key.at_least:.0%} of {key.source_name}"
    if key.partitions == 1:
        return f"{finding}. There is one partition, so nothing is shared out yet: that takes more of them."
    if key.view is None:
        return f"{finding}, all in partition {key.partition}: more partitions do not help one key."
    rebuild_options = "".join(f" --rebuild {stream}" for stream in key.streams)
    return (
        f"{finding}, and one task folds all of it: more partitions do not help one key. "
        f"Write @hr.features(…, salt={_sufficient_salt(key)}) and run headrace up APP{rebuild_options}: the numbers "
        f"stay the same."
    )


def _sufficient_salt(key: HotKeyStats) -> int:
    """The smallest power of two at which a part of the key is no longer hot."""
    parts = 2
    while parts < MAX_SALT and is_hot(key.at_least, parts, key.partitions):
        parts *= 2
    return parts


def is_hot(share: float, salt: int, task_count: int) -> bool:
    """Whether one part of a key has more than half of a task's fair share."""
    return share / salt > 1 / (2 * task_count)


class HotKeysHandler:
    """Serves the heaviest keys and the partition skew of topics; a report is cached for a few seconds."""

    def __init__(self, app: App, ledgers: StreamLedgers) -> None:
        self._app, self._ledgers = app, ledgers
        self._offset_client: OffsetClient | None = None
        self._lock = Lock()
        self._due_at, self._report = 0.0, HotKeyReport()

    async def __call__(self, _request: Request) -> Response:
        # In a thread: this asks the broker for end offsets.
        return json_response((await asyncio.to_thread(self.current_report)).to_json())

    def current_report(self) -> HotKeyReport:
        """The current report, which may wait for the broker; where it does not answer, the last known one.

        None before the past has been read.
        """
        with self._lock:
            known_streams = frozenset(self._ledgers.caught_up_ledgers)
            if known_streams and time.monotonic() >= self._due_at:
                self._due_at = time.monotonic() + RETRY_SECONDS
                self._refresh(known_streams, time.time_ns() // 1000)
            return self._report

    def _refresh(self, known_streams: frozenset[str], now_us: int) -> None:
        stream_sources = [KeySource((stream,)) for stream in self._app.streams]
        view_sources = [KeySource(view.streams, view) for view in self._app.views]
        sources = [
            entry
            for entry in (*stream_sources, *view_sources)
            if known_streams.issuperset(stream.name for stream in entry.streams)
        ]
        try:
            topics = self._partition_skews([one.topic for one in sources], now_us)
        except (BrokerUnreachable, BrokerRefused) as problem:
            LOGGER.warning("Could not read end offsets for the partition skew: %s", problem)
            return
        partitions = {one.topic: one.partitions for one in topics}
        hot_keys = (find_hot_keys(one, self._ledgers.key_counts, one.task_count(partitions), now_us) for one in sources)
        self._report = HotKeyReport(tuple(chain.from_iterable(hot_keys)), tuple(topics))
        self._due_at = time.monotonic() + REFRESH_SECONDS

    def _partition_skews(self, topics: Sequence[str], now_us: int) -> list[PartitionSkew]:
        self._offset_client = self._offset_client or OffsetClient(self._ledgers.broker, SHORT_REQUEST_TIMEOUT_SECONDS)
        return partition_skews(self._offset_client.count_records_since(topics, now_us - 2 * HALF_WINDOW_US), topics)


class KeySource(NamedTuple):
    """The source of counted keys: a stream, or the entities of a view of some streams."""

    streams: tuple[Stream, ...]
    view: View | None = None

    @property
    def topic(self) -> str:
        return self.view.topic if self.view else self.streams[0].name

    @property
    def is_partition_key(self) -> bool:
        """Whether the key decides the partition of an event."""
        return len(self.streams) == 1 and self.grouping_columns(self.streams[0]) == (self.streams[0].key,)

    @property
    def salt(self) -> int:
        """Into how many parts the events of one key are split."""
        return self.view.salt if self.view else 1

    def grouping_columns(self, stream: Stream) -> tuple[str, ...]:
        """The columns by which the events of a stream are grouped."""
        return self.view.by if self.view else (stream.key,)

    def task_count(self, partitions: Mapping[str, int]) -> int:
        """Among how many tasks the keys are distributed: as many as the topic has partitions."""
        return max(partitions.get(stream.name, stream.partitions) for stream in self.streams)


def find_hot_keys(
    source: KeySource, key_counts: Mapping[str, StreamKeyCounts], task_count: int, now_us: int
) -> Iterator[HotKeyStats]:
    """The heaviest keys, from the counts of each stream."""
    recent_counts = [key_counts[stream.name].recent[source.grouping_columns(stream)] for stream in source.streams]
    ranking = find_heavy_hitters(recent_counts, now_us, MAX_KEYS)
    for rank, heavy_key in enumerate(ranking.keys, 1):
        at_least = heavy_key.at_least / ranking.events
        yield HotKeyStats(
            streams=tuple(stream.name for stream in source.streams),
            view=source.view.name if source.view else None,
            rank=rank,
            key=_shorten_key(heavy_key.key),
            at_least=at_least,
            at_most=min(1.0, heavy_key.at_most / ranking.events),
            events_per_second=heavy_key.at_least / max(ranking.seconds, 1.0),
            partition=key_counts[source.streams[0].name].last_partition(heavy_key.key)
            if source.is_partition_key
            else None,
            partitions=task_count,
            salt=source.salt,
            is_hot=ranking.events >= MIN_EVENTS and is_hot(at_least, source.salt, task_count),
        )


def _shorten_key(key: str) -> str:
    """The beginning of a key as text."""
    return escape_unprintable(key[:MAX_KEY_CHARS]) + ("…" if len(key) > MAX_KEY_CHARS else "")
