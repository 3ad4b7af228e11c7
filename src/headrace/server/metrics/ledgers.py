"""The ledger of each stream, and its heaviest keys, opened as soon as the broker answers."""

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Self

from headrace.declare.features.view import View
from headrace.declare.streams.stream import Stream
from headrace.errors import HeadraceError
from headrace.kafka.key_counts import StreamKeyCounts
from headrace.kafka.ledger import Ledger, LedgerConsumer, LedgerCounts
from headrace.kafka.record import Partition

RETRY_SECONDS = 0.5
LOGGER = logging.getLogger("headrace.serve")


class StreamLedgers:
    """Follows the fate of every stream's records; waits for a broker that is not up yet."""

    def __init__(self, broker: str, streams: Sequence[Stream], views: Sequence[View] = ()) -> None:
        self.broker, self._streams = broker, streams
        self.key_counts = {
            stream.name: StreamKeyCounts(stream, [view.by for view in views if stream in view.streams])
            for stream in streams
        }
        self._ledger_consumers: dict[str, LedgerConsumer] = {}
        self._streams_with_ends: set[str] = set()
        self._stopping = threading.Event()
        self._opening_thread = threading.Thread(target=self._open_all, name="open ledgers", daemon=True)

    def __enter__(self) -> Self:
        self._opening_thread.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._stopping.set()
        self._opening_thread.join()
        for ledger_consumer in self._ledger_consumers.values():
            ledger_consumer.stop()

    def accounts(self) -> dict[str, LedgerCounts]:
        """The account of each stream as of the last poll of end offsets; None before that, and before the past is read.

        Counts that have yet to catch up would look like events that arrive now.
        """
        return {
            name: ledger.counts() for name, ledger in self.caught_up_ledgers.items() if name in self._streams_with_ends
        }

    def update_raw_ends(self, end_offsets: Mapping[Partition, int]) -> None:
        """Set the end offsets of raw topics; other partitions are ignored."""
        ledgers = self.caught_up_ledgers
        for partition, end in end_offsets.items():
            if partition.topic in ledgers:
                ledgers[partition.topic].update_raw_ends({partition.number: end})
                self._streams_with_ends.add(partition.topic)

    def next_offsets(self, stream: str) -> Mapping[Partition, int]:
        """The next offset of each partition of the gate's topics that a stream's ledger reads."""
        return self._ledger_consumers[stream].consumer.positions.next_offsets

    @property
    def caught_up_ledgers(self) -> dict[str, Ledger]:
        """The ledgers of those streams whose past has been read."""
        return {
            name: ledger_consumer.ledger
            for name, ledger_consumer in list(self._ledger_consumers.items())
            if ledger_consumer.consumer.is_caught_up
        }

    def _open_all(self) -> None:
        while not self._stopping.is_set() and len(self._ledger_consumers) < len(self._streams):
            for stream in self._streams:
                if stream.name not in self._ledger_consumers and not self._stopping.is_set():
                    self._try_to_open(stream)

    def _try_to_open(self, stream: Stream) -> None:
        try:
            self._ledger_consumers[stream.name] = LedgerConsumer(
                self.broker, stream, self.key_counts[stream.name]
            ).start()
        except HeadraceError as problem:  # one failure must not stop the other streams or the next attempt
            LOGGER.info("Could not open the ledger of %s yet: %s", stream.name, problem)
            self._stopping.wait(RETRY_SECONDS)
