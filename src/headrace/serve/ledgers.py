"""The ledger of each stream, opened as soon as the broker answers."""

import threading
from collections.abc import Sequence
from typing import Self

from headrace.declare.stream import Stream
from headrace.log.connect import BrokerUnreachable
from headrace.log.ledger import Account, LedgerFollower

RETRY_SECONDS = 0.5


class Ledgers:
    """Follows what becomes of every stream's records; a broker that is not there yet is waited for."""

    def __init__(self, broker: str, streams: Sequence[Stream]) -> None:
        self._broker, self._streams = broker, streams
        self._open: dict[str, LedgerFollower] = {}
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
        """The account of each stream, which asks the broker and may wait; none before the past has been read.

        Counts that have yet to catch up would look like events that come now.
        """
        return {name: ledger.account() for name, ledger in list(self._open.items()) if ledger.follower.caught_up}

    def _open_all(self) -> None:
        for stream in self._streams:
            while not self._stopping.is_set() and stream.name not in self._open:
                self._try_to_open(stream)

    def _try_to_open(self, stream: Stream) -> None:
        try:
            self._open[stream.name] = LedgerFollower(self._broker, stream).start()
        except BrokerUnreachable:
            self._stopping.wait(RETRY_SECONDS)
