"""The ledger of each stream, and its heaviest keys, opened as soon as the broker answers."""

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Self

from headrace.declare.stream import Stream
from headrace.declare.views import View
from headrace.errors import HeadraceError
from headrace.log.heavy import StreamKeys
from headrace.log.ledger import Account, Ledger, LedgerFollower
from headrace.log.records import Partition

RETRY_SECONDS = 0.5
LOGGER = logging.getLogger("headrace.serve")


class Ledgers:
    """Follows what becomes of every stream's records; a broker that is not there yet is waited for."""

    def __init__(self, broker: str, streams: Sequence[Stream], views: Sequence[View] = ()) -> None:
        self.broker, self._streams = broker, streams
        self.keys = {
            stream.name: StreamKeys(stream, [view.by for view in views if stream in view.streams]) for stream in streams
        }
        self._open: dict[str, LedgerFollower] = {}
        self._ended: set[str] = set()
        self._stopping = threading.Event()
        self._opening = threading.Thread(target=self._open_all, name="open ledgers", daemon=True)

    def __enter__(self) -> Self:
        self._opening.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._stopping.set()
        self._opening.join()
        for ledger in self._open.values():
            ledger.stop()

    def accounts(self) -> dict[str, Account]:
        """The account of each stream as of the last look at where it ends; none before that, and the past, is read.

        Counts that have yet to catch up would look like events that come now.
        """
        return {name: ledger.account() for name, ledger in self.read.items() if name in self._ended}

    def raw_ends(self, ends: Mapping[Partition, int]) -> None:
        """Where the partitions of raw topics end now; others are passed over."""
        read = self.read
        for partition, end in ends.items():
            if partition.topic in read:
                read[partition.topic].raw_ends({partition.number: end})
                self._ended.add(partition.topic)

    def unread(self, stream: str) -> Mapping[Partition, int]:
        """The next record of each partition of the gate's topics that a stream's ledger has to read."""
        return self._open[stream].follower.positions.next

    @property
    def read(self) -> dict[str, Ledger]:
        """The ledgers of those streams whose past has been read."""
        return {name: one.ledger for name, one in list(self._open.items()) if one.follower.caught_up}

    def _open_all(self) -> None:
        while not self._stopping.is_set() and len(self._open) < len(self._streams):
            for stream in self._streams:
                if stream.name not in self._open and not self._stopping.is_set():
                    self._try_to_open(stream)

    def _try_to_open(self, stream: Stream) -> None:
        try:
            self._open[stream.name] = LedgerFollower(self.broker, stream, self.keys[stream.name]).start()
        except HeadraceError as problem:  # whatever it is, the other streams and the next look do not suffer from it
            LOGGER.info("The ledger of %s is not open yet: %s", stream.name, problem)
            self._stopping.wait(RETRY_SECONDS)
