"""Apply workers: any number of processes that apply the changelogs to a store."""

import asyncio
import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import Self, TypeVar

from headrace.declare.app import App
from headrace.declare.features.view import View
from headrace.kafka.consumers.group_consumer import GroupConsumer, RewindRequested
from headrace.kafka.consumers.tailing_consumer import HandlerInterrupted
from headrace.kafka.record import ConsumerRecord, Partition
from headrace.online_store.feature_lookup import StoreUnavailable
from headrace.online_store.registry import create_store
from headrace.online_store.shared_store import SharedStore
from headrace.tiles.layout import salted_live_layouts

RETRY_SECONDS = 0.2

Answer = TypeVar("Answer")


class ApplyWorker:
    """Consumes the changelogs of views in a consumer group and applies them to a store.

    While a server is down, the current records wait: their offsets are committed only after it has applied them. A
    server that came back empty is filled again from the start of the changelog.
    """

    def __init__(self, broker: str, store: SharedStore, views: Sequence[View], group: str | None = None) -> None:
        self.group = group or apply_group(views)
        self.error = ""
        self._store = store
        self._starting: set[Partition] = set()
        topics = [view.topic for view in views]
        self.consumer = GroupConsumer(broker, topics, self._handle_records, self.group, self._check_lost_offsets)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_failure: object) -> None:
        self.stop()

    def start(self) -> Self:
        """Apply in a thread."""
        self.consumer.start()
        return self

    def run(self) -> None:
        """Apply in this thread until another one calls `stop`."""
        self.consumer.run()

    def stop(self) -> None:
        self.consumer.stop()

    def _handle_records(self, records: list[ConsumerRecord]) -> None:
        self._commit_start_offsets(records)
        offsets = {Partition(record.topic, record.partition): record.offset + 1 for record in records}
        self._retry_until_answered(lambda: self._store.apply(records))
        self._rewind(self._retry_until_answered(lambda: self._store.commit_offsets(self.group, offsets, ())))

    def _commit_start_offsets(self, records: list[ConsumerRecord]) -> None:
        """Store a partition's start offset before its tiles: a server that loses the tiles loses the offset, too."""
        first_offsets = {Partition(record.topic, record.partition): record.offset for record in reversed(records)}
        start_offsets = {
            partition: offset for partition, offset in first_offsets.items() if partition in self._starting
        }
        if start_offsets:
            self._retry_until_answered(lambda: self._store.commit_offsets(self.group, start_offsets, start_offsets))
            self._starting -= start_offsets.keys()

    def _check_lost_offsets(self) -> None:
        """Without new records, check whether the server has lost what was applied."""
        assigned = set(self.consumer.positions.next_offsets)
        self._starting &= assigned
        try:
            lost_partitions = self._store.find_lost_partitions(self.group, assigned)
        except StoreUnavailable as problem:
            self.error = str(problem)
            return
        self.error = ""
        self._rewind(lost_partitions - self._starting)

    def _rewind(self, lost_partitions: set[Partition]) -> None:
        if lost_partitions:
            self._starting |= lost_partitions
            raise RewindRequested(lost_partitions)

    def _retry_until_answered(self, step: Callable[[], Answer]) -> Answer:
        """Retry a step until the store answers: the current records are not lost, and tiles may be sent twice."""
        while True:
            try:
                answer = step()
            except StoreUnavailable as problem:
                self.error = str(problem)
                if self.consumer.stop_event.wait(RETRY_SECONDS):
                    raise HandlerInterrupted from problem
            else:
                self.error = ""
                return answer


def apply_group(views: Sequence[View]) -> str:
    """The consumer group for these views; it depends on their layouts, because workers skip tiles of other layouts."""
    versions = [f"{view.name} {layout.version}" for view in views for layout in salted_live_layouts(view)]
    return f"headrace.apply.{hashlib.sha256(' '.join(sorted(versions)).encode()).hexdigest()[:12]}"


def apply_until(app: App, broker: str, store_url: str, stop: threading.Event) -> None:
    """Apply an app's changelogs to a store until `stop` is set."""
    if not app.views:
        stop.wait()
        return
    store = create_store(store_url, app.views)
    try:
        with ApplyWorker(broker, store, app.views) as worker:
            while not stop.wait(RETRY_SECONDS):
                worker.consumer.raise_failure()
    finally:
        asyncio.run(store.close())
