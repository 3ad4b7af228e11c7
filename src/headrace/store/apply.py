"""Apply workers: they carry the changelogs into a store, as many processes as one likes."""

import asyncio
import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import Self, TypeVar

from headrace.declare.app import App
from headrace.declare.views import View
from headrace.log.follow import Interrupted
from headrace.log.records import Partition, Record
from headrace.log.share import Rewind, SharedFollower
from headrace.store.kinds import store_of
from headrace.store.reads import StoreUnavailable
from headrace.store.shared import SharedStore
from headrace.tiles.layout import salted_lives_of

RETRY_SECONDS = 0.2

Answer = TypeVar("Answer")


class ApplyWorker:
    """Follows the changelogs of views as one of a group and applies them to a store.

    A server that is gone is waited for, with the records in hand: their offsets are committed only once it has taken
    them. One that came back empty is filled again from the beginning of the changelog.
    """

    def __init__(self, broker: str, store: SharedStore, views: Sequence[View], group: str | None = None) -> None:
        self.group = group or group_of(views)
        self.trouble = ""
        self._store = store
        self._beginning: set[Partition] = set()
        topics = [view.topic for view in views]
        self.follower = SharedFollower(broker, topics, self._take, self.group, self._look_for_places)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_failure: object) -> None:
        self.stop()

    def start(self) -> Self:
        """Apply in a thread of its own."""
        self.follower.start()
        return self

    def run(self) -> None:
        """Apply in this thread until `stop` is called from another one."""
        self.follower.run()

    def stop(self) -> None:
        self.follower.stop()

    def _take(self, records: list[Record]) -> None:
        self._begin(records)
        places = {Partition(record.topic, record.partition): record.offset + 1 for record in records}
        self._until_taken(lambda: self._store.apply(records))
        self._begin_again(self._until_taken(lambda: self._store.keep_places(self.group, places, ())))

    def _begin(self, records: list[Record]) -> None:
        """Where a partition begins, its place is there before its tiles: a server that loses them loses it too."""
        firsts = {Partition(record.topic, record.partition): record.offset for record in reversed(records)}
        new = {partition: offset for partition, offset in firsts.items() if partition in self._beginning}
        if new:
            self._until_taken(lambda: self._store.keep_places(self.group, new, new))
            self._beginning -= new.keys()

    def _look_for_places(self) -> None:
        """Nothing comes, so nothing would tell that the server has lost what was applied: look."""
        mine = set(self.follower.positions.next)
        self._beginning &= mine
        try:
            lost = self._store.lost_places(self.group, mine)
        except StoreUnavailable as problem:
            self.trouble = str(problem)
            return
        self.trouble = ""
        self._begin_again(lost - self._beginning)

    def _begin_again(self, lost: set[Partition]) -> None:
        if lost:
            self._beginning |= lost
            raise Rewind(lost)

    def _until_taken(self, step: Callable[[], Answer]) -> Answer:
        """Repeat a step until it is answered: what is in hand is not lost by waiting, and tiles may be sent twice."""
        while True:
            try:
                answer = step()
            except StoreUnavailable as problem:
                self.trouble = str(problem)
                if self.follower.stopping.wait(RETRY_SECONDS):
                    raise Interrupted from problem
            else:
                self.trouble = ""
                return answer


def group_of(views: Sequence[View]) -> str:
    """The group that applies these views: others where their layouts differ, for those skip each other's tiles."""
    versions = [f"{view.name} {layout.version}" for view in views for layout in salted_lives_of(view)]
    return f"headrace.apply.{hashlib.sha256(' '.join(sorted(versions)).encode()).hexdigest()[:12]}"


def apply_until(app: App, broker: str, store_url: str, stop: threading.Event) -> None:
    """Carry an app's changelogs into a store until `stop` is set."""
    if not app.views:
        stop.wait()
        return
    store = store_of(store_url, app.views)
    try:
        with ApplyWorker(broker, store, app.views) as worker:
            while not stop.wait(RETRY_SECONDS):
                worker.follower.raise_failure()
    finally:
        asyncio.run(store.close())
