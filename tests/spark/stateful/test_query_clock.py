"""A query's clock advances as far as all inputs have been read, and no further."""

import time
from pathlib import Path

import confluent_kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.headers import position_headers
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import Partition
from headrace.kafka.topics import ensure_topics
from headrace.spark.gate.gate_progress import GateProgressTracker, ProcessedOffsets
from headrace.spark.stateful.query_clock import QueryClock, RecordedClock, now_us
from tests.kafka.streams import new_stream
from tests.waiting import wait_until

MS = 1000


def watched(broker: EmbeddedBroker, folder: Path, **more: object) -> tuple[hr.Stream, QueryClock]:
    stream = new_stream(late=more.pop("late")) if "late" in more else new_stream()
    ensure_topics(broker.address, [stream])
    offsets = OffsetClient(broker.address)
    return stream, QueryClock([GateProgressTracker(stream, offsets, folder / "none")], offsets, **more)  # type: ignore[arg-type]


def arrive(
    broker: EmbeddedBroker, stream: hr.Stream, partition: int, *arrivals_us: int, first: int = 0, gated: bool = True
) -> None:
    with Producer(broker.address) as producer:
        for offset, arrival_us in enumerate(arrivals_us, first):
            producer.send(stream.name, b"{}", key="k", partition=partition)
            if gated:
                judge(producer, stream.clean, partition, offset, arrival_us)


def judge(producer: Producer, topic: str, partition: int, offset: int, arrival_us: int = MS) -> None:
    """What the gate writes of a raw record."""
    headers = position_headers(offset, arrival_us)
    producer.send(topic, b"{}", key="k", partition=partition, headers=headers)


def test_of_a_stream_without_records_the_clock_is_the_time(broker: EmbeddedBroker, tmp_path: Path) -> None:
    _, clock = watched(broker, tmp_path)
    before_us = now_us()
    found_us = clock.advance({})
    assert found_us is not None
    assert before_us <= found_us <= time.time_ns() // 1000


def test_a_partition_in_which_nothing_comes_holds_nothing_up(broker: EmbeddedBroker, tmp_path: Path) -> None:
    stream, clock = watched(broker, tmp_path)
    arrive(broker, stream, 0, 10 * MS, 20 * MS)
    assert clock.advance({}) is None
    before_us = now_us()
    found_us = clock.advance({Partition(stream.clean, 0): 2})
    assert found_us is not None
    assert found_us >= before_us, "the moments before it are passed with it"


def test_while_behind_the_clock_goes_as_far_as_the_partition_that_is_farthest_behind(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    stream, clock = watched(broker, tmp_path, is_in_arrival_order=True)
    arrive(broker, stream, 0, 10 * MS, 20 * MS, 30 * MS)
    arrive(broker, stream, 1, 15 * MS, 25 * MS)
    zero, one = Partition(stream.clean, 0), Partition(stream.clean, 1)
    assert clock.advance({zero: 2}) == 0, "of the other partition nothing was read"
    assert clock.advance({zero: 2, one: 1}) == 15 * MS
    assert clock.advance({zero: 2, one: 2}) == 20 * MS, "a partition that was read to its end is not what is behind"
    arrive(broker, stream, 1, 40 * MS, first=2, gated=False)
    later_us = now_us()
    found_us = clock.advance({zero: 3, one: 2})
    assert found_us is not None
    assert 30 * MS < found_us < later_us, "up to a moment before the gate had something left to judge"


def test_what_another_query_writes_is_known_as_far_as_that_one_has_come(broker: EmbeddedBroker, tmp_path: Path) -> None:
    _, clock = watched(broker, tmp_path, complete_until_us=lambda: 77 * MS)
    assert clock.advance({}) == 77 * MS


def test_recorded_history_ends_with_its_newest_record_once_all_is_read(broker: EmbeddedBroker) -> None:
    stream = new_stream()
    ensure_topics(broker.address, [stream])
    arrive(broker, stream, 0, 10 * MS, 30 * MS)
    arrive(broker, stream, 1, 20 * MS)
    clock = RecordedClock([stream.clean], OffsetClient(broker.address))
    zero, one = Partition(stream.clean, 0), Partition(stream.clean, 1)
    assert clock.advance({zero: 1, one: 1}) is None
    assert clock.advance({zero: 2, one: 1}) == 30 * MS


@pytest.mark.parametrize("fate", ["late", "dead", "dropped"])
def test_a_partition_whose_last_records_are_not_clean_holds_nothing_up(
    broker: EmbeddedBroker, tmp_path: Path, fate: str
) -> None:
    stream, clock = watched(broker, tmp_path, late=hr.Late("1h", then="drop"))
    arrive(broker, stream, 0, 10 * MS, 20 * MS)
    read = {Partition(stream.clean, 0): 2}
    assert clock.advance(read) is not None
    arrive(broker, stream, 0, 30 * MS, 40 * MS, first=2, gated=False)
    assert clock.advance(read) is None, "the gate may still find it clean"
    before_us = now_us()
    with Producer(broker.address) as producer:
        judge(producer, f"{stream.name}.{fate}", 0, 2)
        judge(producer, stream.dead, 0, 3)
    found_us = clock.advance(read)
    assert found_us is not None
    assert found_us >= before_us


def test_a_watch_that_begins_later_finds_what_was_put_aside_before(broker: EmbeddedBroker, tmp_path: Path) -> None:
    stream, _ = watched(broker, tmp_path)
    arrive(broker, stream, 0, 10 * MS)
    with Producer(broker.address) as producer:
        for offset in range(1, 30):
            producer.send(stream.name, b"{}", key="k", partition=0)
            judge(producer, stream.dead, 0, offset)
    offsets = OffsetClient(broker.address)
    clock = QueryClock([GateProgressTracker(stream, offsets, tmp_path / "none")], offsets)
    assert clock.advance({Partition(stream.clean, 0): 1}) is not None


def test_a_dead_record_does_not_vouch_for_one_before_it(broker: EmbeddedBroker, tmp_path: Path) -> None:
    stream, clock = watched(broker, tmp_path)
    arrive(broker, stream, 0, 10 * MS, 20 * MS, gated=False)
    with Producer(broker.address) as producer:
        judge(producer, stream.dead, 0, 1)
    assert clock.advance({}) is None, "topics are written beside each other: the first may be clean and on its way"
    with Producer(broker.address) as producer:
        judge(producer, stream.clean, 0, 0)
    assert clock.advance({Partition(stream.clean, 0): 1}) is not None


def test_the_marker_of_a_transaction_holds_nothing_up(broker: EmbeddedBroker, tmp_path: Path) -> None:
    stream, clock = watched(broker, tmp_path)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.address, "transactional.id": stream.name})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(stream.name, b"{}", partition=0)
    producer.commit_transaction()
    wait_until(lambda: clock.offsets.end_offset_list(stream.name)[0] == 2, 60, "the marker")
    read = {Partition(stream.clean, 0): 1}
    assert clock.advance(read) is None
    assert clock.advance(read) is None, "there is a record that nothing is known of"
    with Producer(broker.address) as judging:
        judge(judging, stream.clean, 0, 0)
    wait_until(lambda: clock.advance(read) is not None, 10, "the clock to pass the marker")


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=40))
def test_offsets_are_judged_up_to_the_first_that_is_not(steps: list[tuple[bool, int]]) -> None:
    judged, known = ProcessedOffsets(), set[int]()
    for is_range, offset in steps:
        known |= set(range(offset)) if is_range else {offset}
        (judged.advance if is_range else judged.add)(offset)
        assert judged.next_offset == next(one for one in range(100) if one not in known)
