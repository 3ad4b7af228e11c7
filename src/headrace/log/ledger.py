"""What became of every record that arrived: arrived = clean + late + dead + dropped + pending, always.

    payments      begin ├──────────────────────────────┤ end        arrived = end − begin
    payments.clean, .late, .dead, .dropped                           each raw offset once; replays are not counted
    what is left                                                     pending: the gate has not come to it yet

The count begins at the oldest record the raw topic still has when the ledger is opened. The gate's topics are kept
longer than the raw topic, so the fate of each raw record from there on can still be read. What retention deletes
later stays counted. A raw topic written in transactions has markers between its records; they stay pending.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Self

from headrace.declare.stream import Stream
from headrace.log.follow import ASK_SECONDS, Follower
from headrace.log.heavy import StreamKeys
from headrace.log.marks import Marks
from headrace.log.offsets import Offsets
from headrace.log.records import Record
from headrace.log.topics import fates_of

OFFSET = "headrace.offset"
ARRIVAL = "headrace.arrival"
REASON = "headrace.reason"
TOPIC = "headrace.topic"
PARTITION = "headrace.partition"
SAMPLED = 64


@dataclass(frozen=True)
class Account:
    """How many records arrived, and what became of them; `reasons` splits the dead by the code of their reason."""

    arrived: int
    clean: int
    late: int
    dead: int
    dropped: int
    pending: int
    reasons: Mapping[str, int]


class Ledger:
    """Counts the fates of a stream's raw records; one thread writes it, any thread asks for the account."""

    def __init__(self, stream: Stream, begins: Mapping[int, int]) -> None:
        self._fates = {stream.clean: "clean", stream.late_topic: "late", stream.dead: "dead", stream.dropped: "dropped"}
        self._clean, self._marks = stream.clean, dict[int, Marks]()
        self._begins = dict(begins)
        self._ends: dict[int, int] = {}
        self._last_seen: dict[tuple[str, int], int] = {}
        self._heard_us: dict[int, int] = {}
        self._counts: Counter[str] = Counter()
        self._told: Counter[int] = Counter()
        self._reasons: Counter[str] = Counter()
        self._whole = Lock()

    def enter(self, records: Sequence[Record]) -> list[Record]:
        """Count records of the gate's topics; gives those that were counted."""
        with self._whole:
            for record in _sampled(records):
                self._hear(record)
            return [record for record in records if self._enter(record)]

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

    def reached(self) -> dict[int, int]:
        """The next raw offset of each partition that the gate has to judge."""
        with self._whole:
            reached = dict(self._begins)
            for (_, partition), offset in self._last_seen.items():
                reached[partition] = max(offset + 1, reached.get(partition, 0))
            return reached

    def heard_us(self) -> dict[int, int]:
        """When the last record of each partition was judged, by the log's own time; 0 where none ever was."""
        with self._whole:
            return dict.fromkeys(self._begins, 0) | self._heard_us

    def arrived(self, until_us: int) -> dict[int, int]:
        """The offset of each clean partition before which everything had arrived by a time, as far as that is known."""
        with self._whole:
            return {partition: marks.reached(until_us) for partition, marks in self._marks.items()}

    def _enter(self, record: Record) -> bool:
        raw_offset = record.header(OFFSET)
        if raw_offset is None:  # not written by the gate, so not the fate of anything that arrived
            return False
        is_news = self._is_news(record, int(raw_offset))
        if is_news:
            self._count(record)
        return is_news

    def _hear(self, record: Record) -> None:
        """Note when a record was judged, and of a clean one when it had arrived."""
        self._heard_us[record.partition] = max(record.appended_us, self._heard_us.get(record.partition, 0))
        if record.topic == self._clean and (arrival := record.header(ARRIVAL)) is not None:
            self._marks.setdefault(record.partition, Marks()).add(int(arrival), record.offset + 1)

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


class LedgerFollower:
    """Keeps a stream's ledger from a broker; `keys` are those of its clean records, each counted once."""

    def __init__(self, broker: str, stream: Stream, keys: StreamKeys | None = None) -> None:
        self._clean, self._keys = stream.clean, keys or StreamKeys(stream)
        self._offsets = Offsets(broker, ASK_SECONDS)
        begins = self._offsets.begin([stream.name])
        self.ledger = Ledger(stream, {partition.number: begin for partition, begin in begins.items()})
        self.follower = Follower(broker, fates_of(stream), self._take, patient=True)

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

    def _take(self, records: list[Record]) -> None:
        counted = self.ledger.enter(records)
        self._keys.take([record for record in counted if record.topic == self._clean])


def _sampled(records: Sequence[Record]) -> list[Record]:
    """Few in their order, all of few, and the last of each partition: times are wanted to some milliseconds."""
    return [
        *records[:: max(1, len(records) // SAMPLED)],
        *{(record.topic, record.partition): record for record in records}.values(),
    ]


def reason_of(record: Record) -> str:
    """Why a record is a dead letter."""
    return (record.header(REASON) or b"unknown").decode(errors="replace")


def code_of(reason: str) -> str:
    """The code word a reason starts with.

    >>> code_of("failed-check: amount >= 0")
    'failed-check'
    """
    return reason.partition(":")[0]
