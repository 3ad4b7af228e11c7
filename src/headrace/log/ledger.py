"""What became of every record that arrived: arrived = clean + late + dead + dropped + pending, always.

    payments      begin ├──────────────────────────────┤ end        arrived = end − begin
    payments.clean, .late, .dead, .dropped                           each raw offset once; replays are not counted
    what is left                                                     pending: the gate has not come to it yet

The count begins at the oldest record the raw topic still has when the ledger is opened. The gate's topics are kept
longer than the raw topic, so the fate of each raw record from there on can still be read. What retention deletes
later stays counted. A raw topic written in transactions has markers between its records; they stay pending.
"""

import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Self

from headrace.declare.stream import Stream
from headrace.log.connect import BrokerUnreachable
from headrace.log.follow import ASK_SECONDS, Follower
from headrace.log.offsets import Offsets
from headrace.log.records import Record
from headrace.log.topics import fates_of

OFFSET = "headrace.offset"
ARRIVAL = "headrace.arrival"
REASON = "headrace.reason"
MOST_LOOKS = 10_000


@dataclass(frozen=True)
class Account:
    """How many records arrived, and what became of them; `reasons` splits the dead by the code of their reason.

    `waited_seconds` is for how long the oldest that is pending has waited, at least.
    """

    arrived: int
    clean: int
    late: int
    dead: int
    dropped: int
    pending: int
    reasons: Mapping[str, int]
    waited_seconds: float = 0.0


class Ledger:
    """Counts the fates of a stream's raw records; one thread writes it, any thread asks for the account."""

    def __init__(self, stream: Stream, begins: Mapping[int, int]) -> None:
        self._fates = {stream.clean: "clean", stream.late_topic: "late", stream.dead: "dead", stream.dropped: "dropped"}
        self._begins = dict(begins)
        self._ends: dict[int, int] = {}
        self._last_seen: dict[tuple[str, int], int] = {}
        self._counts: Counter[str] = Counter()
        self._told: Counter[int] = Counter()
        self._reasons: Counter[str] = Counter()
        self._whole = Lock()

    def enter(self, records: Iterable[Record]) -> None:
        """Count records of the gate's topics."""
        with self._whole:
            for record in records:
                self._enter(record)

    def raw_ends(self, ends: Mapping[int, int]) -> None:
        """Where the partitions of the raw topic end now."""
        with self._whole:
            for partition, end in ends.items():
                self._reach(partition, end)

    def account(self) -> Account:
        """All that is known now."""
        with self._whole:
            pending = sum(self._pending(partition) for partition in self._ends)
            told = {fate: self._counts[fate] for fate in self._fates.values()}
            return Account(self._counts.total() + pending, **told, pending=pending, reasons=dict(self._reasons))

    def _enter(self, record: Record) -> None:
        raw_offset = record.header(OFFSET)
        if raw_offset is None:  # not written by the gate, so not the fate of anything that arrived
            return
        if self._is_news(record, int(raw_offset)):
            self._count(record)

    def _is_news(self, record: Record, raw_offset: int) -> bool:
        """Whether this raw offset is above all others of its topic and partition; a lower one is a replay."""
        place = record.topic, record.partition
        if raw_offset <= self._last_seen.get(place, self._begins.get(record.partition, 0) - 1):
            return False
        self._last_seen[place] = raw_offset
        # The fate may be read before the raw topic's end is asked for.
        self._reach(record.partition, raw_offset + 1)
        return True

    def _count(self, record: Record) -> None:
        fate = self._fates[record.topic]
        self._counts[fate] += 1
        self._told[record.partition] += 1
        if fate == "dead":
            self._reasons[code_of(reason_of(record))] += 1

    def _reach(self, partition: int, end: int) -> None:
        self._ends[partition] = max(end, self._ends.get(partition, 0))

    def _pending(self, partition: int) -> int:
        # A gate changed between a crash and its replay may send one record two ways: never less than none is pending.
        return max(0, self._ends[partition] - self._begins.get(partition, 0) - self._told[partition])


class Waiting:
    """When the records arrived that are still waiting: of each look, how many had arrived by then.

    arrived    10 ──── 20 ──── 30 ──── 40 now        25 are done: the oldest that waits came before the third look
    """

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int]] = deque(maxlen=MOST_LOOKS)

    def add(self, arrived: int, waiting: int, now_s: float) -> float:
        """What is so at a look; for how long the oldest one has waited, at least."""
        if self._looks and arrived < self._looks[-1][1]:
            self._looks.clear()
        self._looks.append((now_s, arrived))
        while self._looks and self._looks[0][1] <= arrived - waiting:
            self._looks.popleft()
        return now_s - self._looks[0][0] if self._looks else 0.0


class LedgerFollower:
    """Keeps a stream's ledger from a broker."""

    def __init__(self, broker: str, stream: Stream) -> None:
        self._raw = stream.name
        self._offsets = Offsets(broker, ASK_SECONDS)
        begins = self._offsets.begin([stream.name])
        self.ledger = Ledger(stream, {partition.number: begin for partition, begin in begins.items()})
        self.follower = Follower(broker, fates_of(stream), self.ledger.enter, patient=True)
        self._waiting, self._looking = Waiting(), Lock()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_failure: object) -> None:
        self.stop()

    def start(self) -> Self:
        """Follow in a thread of its own."""
        self.follower.start()
        return self

    def stop(self) -> None:
        self.follower.stop()

    def account(self) -> Account:
        """The account now, which asks the broker and may wait; where it does not answer, as last known."""
        try:
            ends = self._offsets.end([self._raw])
        except BrokerUnreachable:
            return self.ledger.account()
        self.ledger.raw_ends({partition.number: end for partition, end in ends.items()})
        with self._looking:
            account = self.ledger.account()
            waited_seconds = self._waiting.add(account.arrived, account.pending, time.monotonic())
        return replace(account, waited_seconds=waited_seconds)


def reason_of(record: Record) -> str:
    """Why a record is a dead letter."""
    return (record.header(REASON) or b"unknown").decode(errors="replace")


def code_of(reason: str) -> str:
    """The code word a reason starts with.

    >>> code_of("failed-check: amount >= 0")
    'failed-check'
    """
    return reason.partition(":")[0]
