"""Delivery to a target that fails in every way at any moment: the guarantee holds."""

import random
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.connectors.sinks import delivery as working
from headrace.connectors.sinks.delivery import SinkProcessor
from headrace.connectors.sinks.parked_rows import ParkingFailed
from headrace.connectors.sinks.sink_rows import SinkRow
from headrace.connectors.sinks.writer import (
    OffsetMoves,
    RowsRejected,
    SinkConfig,
    SinkWriter,
    TargetUnavailable,
    require_not_fenced,
)
from headrace.declare.sinks.sink import Sink
from headrace.declare.sinks.target import Delivery
from headrace.kafka.client.connection_diagnosis import BrokerUnreachable
from headrace.kafka.consumers.external_offset_consumer import ExternalOffset, ExternalOffsets
from headrace.kafka.headers import OFFSET_HEADER
from headrace.kafka.record import ConsumerRecord, Partition
from headrace.telemetry.webhooks.webhook_client import RetryPolicy

stream = hr.Stream("s", schema="id string, card string, at timestamp", id="id", key="card", time="at")
POISON = "poison"


class Killed(BaseException):
    """The process dies here."""


class Luck:
    """What goes wrong next."""

    def __init__(self, seed: int, share: float) -> None:
        self._dice, self._share = random.Random(seed), share

    def strikes(self, *failures: BaseException) -> None:
        for failure in failures:
            if self._dice.random() < self._share / len(failures):
                raise failure


class MemoryTarget(SinkWriter):
    """Writes all rows of a call and their offsets in one transaction, or nothing; rejects poison rows."""

    def __init__(self, sink: Sink, luck: Luck, *, keeps_places: bool) -> None:
        super().__init__(sink, SinkConfig("nowhere"))
        self.stores_offsets = keeps_places  # type: ignore[misc]  # of the class elsewhere
        self.max_rows = 7  # type: ignore[misc]
        self.taken: list[str] = []
        self.kept: ExternalOffsets = {}
        self._luck = luck

    def open(self) -> None:
        self._luck.strikes(TargetUnavailable("away"))

    def read_offsets(self, partitions: Iterable[Partition]) -> ExternalOffsets:
        self._luck.strikes(TargetUnavailable("away"))
        return {at: self.kept.get(at, ExternalOffset()) for at in partitions}

    def write(self, rows: Sequence[SinkRow], moves: OffsetMoves | None = None) -> None:
        self._luck.strikes(TargetUnavailable("before"), Killed())
        if moves:
            require_not_fenced(moves, self.kept, self.sink)
        if any(row.values["id"] == POISON for row in rows):
            raise RowsRejected("rejected: poison")
        self.taken += [row.location for row in rows]
        self.kept |= {at: move.after for at, move in (moves or {}).items()}
        self._luck.strikes(TargetUnavailable("after"), Killed())


class MemoryLog:
    """The records of a topic, a group's offsets in it, and the parked rows; the source of the processor's records."""

    def __init__(self, luck: Luck, records: Sequence[ConsumerRecord]) -> None:
        self.stop_event = threading.Event()
        self.committed: ExternalOffsets = {}
        self.parked: list[str] = []
        self._luck, self._records = luck, records
        self._read: dict[Partition, int] = {}

    def commit_offsets(self, places: Mapping[Partition, ExternalOffset], *, is_synchronous: bool = True) -> None:
        if is_synchronous:
            self._luck.strikes(BrokerUnreachable("nowhere"), Killed())
        self.committed |= places
        self._luck.strikes(Killed())

    def seek_to(self, places: Mapping[Partition, ExternalOffset]) -> None:
        self._read |= {at: max(0, place.next_offset) for at, place in places.items()}

    def park_row(self, row: SinkRow, reason: str) -> None:
        self._luck.strikes(ParkingFailed("not parked"), Killed())
        self.parked.append(row.location)

    def steps(self, work: SinkProcessor, dice: random.Random) -> Iterator[None]:
        """Run step by step until all records are processed; partitions are assigned and revoked meanwhile."""
        work.consumer = self
        ends = {at: 1 + max(r.offset for r in self._records if r.partition == at.number) for at in self.partitions}
        self._begin(work, self.partitions)
        for _ in range(20_000):
            if dice.random() < 0.02:
                work.on_partitions_revoked([self.partitions[0]])
                self._begin(work, self.partitions[:1])
            if work.process_ready():
                work.add_records(self._next(dice.randrange(1, 20)))
                if work._committed_offsets == work._next_offsets and self._read == ends:
                    return
            yield
        pytest.fail(f"it does not come to an end: {work.fate_counts} {work.error}")

    @property
    def partitions(self) -> list[Partition]:
        return [Partition(stream.clean, number) for number in sorted({record.partition for record in self._records})]

    def _begin(self, work: SinkProcessor, partitions: Sequence[Partition]) -> None:
        self.seek_to(work.on_partitions_assigned({at: self.committed.get(at, ExternalOffset()) for at in partitions}))

    def _next(self, most: int) -> list[ConsumerRecord]:
        found = [r for r in self._records if r.offset >= self._read[Partition(r.topic, r.partition)]][:most]
        for record in found:
            self._read[Partition(record.topic, record.partition)] = record.offset + 1
        return found


def records_of(written: Sequence[tuple[int, bool]]) -> list[ConsumerRecord]:
    """Records by their partition, some of them poison; every fifth was written again by the gate."""
    made: list[ConsumerRecord] = []
    ends, raws = Counter[int](), Counter[int]()
    for number, (partition, is_poison) in enumerate(written):
        value: dict[str, Any] = {"id": POISON if is_poison else f"e{number}", "card": "c", "at": 0}
        raws[partition] += 1
        for _ in range(2 if number % 5 == 0 else 1):
            headers = [OFFSET_HEADER.write(raws[partition] - 1)]
            place = stream.clean, partition, ends[partition]
            made.append(ConsumerRecord(*place, 0, b"c", orjson.dumps(value), headers))
            ends[partition] += 1
    return made


def brought(
    delivery: Delivery, keeps: bool, seed: int, written: Sequence[tuple[int, bool]]
) -> tuple[list[str], list[str]]:
    """What a target has and what is parked once all records were brought, by a process that dies now and then."""
    luck, records = Luck(seed, 0.15), records_of(written)
    sink = Sink("x", of=stream, to=hr.Kafka("y"), delivery=delivery)
    log, target, dice = MemoryLog(luck, records), MemoryTarget(sink, luck, keeps_places=keeps), random.Random(seed)
    while True:
        try:
            for _ in log.steps(SinkProcessor(sink, target, log), dice):  # type: ignore[arg-type]  # parks too
                pass
        except Killed:
            continue
        return target.taken, log.parked


flows = st.lists(st.tuples(st.integers(0, 1), st.booleans() | st.just(False)), min_size=1, max_size=60)


def all_of(written: Sequence[tuple[int, bool]]) -> tuple[set[str], set[str]]:
    """The offsets of good rows, and of bad ones."""
    raws, places = Counter[int](), (set[str](), set[str]())
    for partition, is_poison in written:
        places[is_poison].add(f"s-{partition}@{raws[partition]}")
        raws[partition] += 1
    return places


@pytest.fixture(autouse=True, scope="module")
def _hurried() -> Any:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            working, "RETRY_POLICY", RetryPolicy(max_attempts=3, first_pause_seconds=0, max_pause_seconds=0)
        )
        yield


@settings(max_examples=150)
@given(flows, st.integers(0, 2**32))
def test_exactly_once_takes_each_row_once_whatever_fails(written: list[tuple[int, bool]], seed: int) -> None:
    taken, parked = brought("exactly_once", True, seed, written)
    good, bad = all_of(written)
    assert sorted(taken) == sorted(good)
    assert set(parked) == bad


@settings(max_examples=100)
@given(flows, st.integers(0, 2**32))
def test_at_least_once_loses_no_row_whatever_fails(written: list[tuple[int, bool]], seed: int) -> None:
    taken, parked = brought("at_least_once", False, seed, written)
    assert (set(taken), set(parked)) == all_of(written)


@settings(max_examples=100)
@given(flows, st.integers(0, 2**32))
def test_at_most_once_takes_no_row_twice_whatever_fails(written: list[tuple[int, bool]], seed: int) -> None:
    taken, parked = brought("at_most_once", False, seed, written)
    good, bad = all_of(written)
    assert len(taken) == len(set(taken))
    assert set(taken) <= good
    assert set(parked) <= bad


@settings(max_examples=100)
@given(flows, st.integers(0, 2**32))
def test_what_is_written_again_comes_in_runs_that_leave_nothing_out(written: list[tuple[int, bool]], seed: int) -> None:
    """What the reader of a topic counts on: before a row is taken for the first time, all before it were."""
    taken, _ = brought("exactly_once", False, seed, written)
    good, _ = all_of(written)
    for partition in (0, 1):
        offsets = [int(place.partition("@")[2]) for place in taken if place.startswith(f"s-{partition}@")]
        first_times = list(dict.fromkeys(offsets))
        assert first_times == sorted(first_times)
    assert set(taken) == good


@settings(max_examples=100)
@given(flows, st.integers(0, 2**32))
def test_two_copies_at_once_take_each_row_once(written: list[tuple[int, bool]], seed: int) -> None:
    """One was thought dead and was not: both read every partition in turn, until one of them is dead indeed."""
    luck, records, dice = Luck(seed, 0.0), records_of(written), random.Random(seed)
    sink = Sink("x", of=stream, to=hr.Kafka("y"), delivery="exactly_once")
    target, logs = MemoryTarget(sink, luck, keeps_places=True), [MemoryLog(luck, records) for _ in range(2)]
    copies = [log.steps(SinkProcessor(sink, target, log), dice) for log in logs]  # type: ignore[arg-type]
    while copies:
        copy = dice.choice(copies)
        is_dead = len(copies) > 1 and dice.random() < 0.05
        if is_dead or next(copy, "over") == "over":
            copies.remove(copy)
    good, bad = all_of(written)
    assert sorted(target.taken) == sorted(good)
    assert {place for log in logs for place in log.parked} == bad
