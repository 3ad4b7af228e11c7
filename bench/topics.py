"""The content of the topics after a run, read from the start."""

from collections.abc import Callable

import orjson

from bench.app import CardSpend
from bench.errors import BenchFailed
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.status.heartbeat import PROGRESS_TOPIC as PROGRESS
from headrace.tiles.layout import hop_layouts
from headrace.tiles.tile import FeatureTileKey, decode_key

READ_SECONDS = 300.0


class Tiles:
    """The tiles of a changelog, each with its greatest number of events."""

    def __init__(self) -> None:
        self.last_append_s = 0.0
        self._counts: dict[FeatureTileKey, int] = {}

    def __len__(self) -> int:
        return len(self._counts)

    @property
    def events(self) -> int:
        """The number of events in the tiles; those of one hop contain each once."""
        longest = max(layout.hop_us for layout in hop_layouts(CardSpend))
        return sum(n for key, n in self._counts.items() if key.hop_us == longest)

    def take(self, records: list[ConsumerRecord]) -> None:
        for record in records:
            key, n = decode_key(record.key or b""), orjson.loads(record.value or b"{}")["n"]
            self._counts[key] = max(n, self._counts.get(key, 0))
            self.last_append_s = max(self.last_append_s, record.appended_us / 1e6)


def tiles(broker: str) -> Tiles:
    """The tiles of the app's view."""
    found = Tiles()
    _read(broker, CardSpend.topic, found.take)
    return found


def last_append_s(broker: str, topic: str) -> float:
    """The append time of a topic's last record, in epoch seconds."""
    moments = [0.0]
    _read(broker, topic, lambda records: moments.append(max(record.appended_us for record in records) / 1e6))
    return max(moments)


def lanes(broker: str) -> dict[str, str]:
    """The lanes of each query, in order."""
    seen: dict[str, dict[str, None]] = {}

    def take(records: list[ConsumerRecord]) -> None:
        for record in records:
            said = orjson.loads(record.value or b"{}")
            seen.setdefault(said["query"], {})[said["lane"]] = None

    _read(broker, PROGRESS, take)
    return {query: ", then ".join(of_query) for query, of_query in seen.items()}


def length(offsets: OffsetClient, topic: str) -> int:
    """The number of records that a topic has had."""
    return sum(offsets.topic_end_offsets([topic]).values())


def _read(broker: str, topic: str, handle: Callable[[list[ConsumerRecord]], None]) -> None:
    with TailingConsumer(broker, [topic], handle) as follower:
        if not follower.wait_until_caught_up(READ_SECONDS):
            raise BenchFailed(f"The topic {topic} could not be read within {READ_SECONDS:g} s.")
