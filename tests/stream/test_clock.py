"""A clock goes as far as everything has been read, and no further."""

import time
from pathlib import Path

import headrace as hr
from headrace.local.broker import Broker
from headrace.log.ledger import ARRIVAL, OFFSET
from headrace.log.offsets import Offsets
from headrace.log.produce import Producer
from headrace.log.records import Partition
from headrace.log.topics import ensure_topics
from headrace.stream.clock import Clock, GateWatch, RecordedClock, now_us
from tests.log.streams import new_stream

MS = 1000


def watched(broker: Broker, folder: Path, **more: object) -> tuple[hr.Stream, Clock]:
    stream = new_stream()
    ensure_topics(broker.address, [stream])
    offsets = Offsets(broker.address)
    return stream, Clock([GateWatch(stream, offsets, folder / "none")], offsets, **more)  # type: ignore[arg-type]


def arrive(
    broker: Broker, stream: hr.Stream, partition: int, *arrivals_us: int, first: int = 0, gated: bool = True
) -> None:
    with Producer(broker.address) as producer:
        for offset, arrival_us in enumerate(arrivals_us, first):
            producer.send(stream.name, b"{}", key="k", partition=partition)
            headers = [(OFFSET, str(offset)), (ARRIVAL, str(arrival_us))]
            if gated:
                producer.send(stream.clean, b"{}", key="k", partition=partition, headers=headers)


def test_of_a_stream_without_records_the_clock_is_the_time(broker: Broker, tmp_path: Path) -> None:
    _, clock = watched(broker, tmp_path)
    before_us = now_us()
    found_us = clock.look({})
    assert found_us is not None
    assert before_us <= found_us <= time.time_ns() // 1000


def test_a_partition_in_which_nothing_comes_holds_nothing_up(broker: Broker, tmp_path: Path) -> None:
    stream, clock = watched(broker, tmp_path)
    arrive(broker, stream, 0, 10 * MS, 20 * MS)
    assert clock.look({}) is None
    before_us = now_us()
    found_us = clock.look({Partition(stream.clean, 0): 2})
    assert found_us is not None
    assert found_us >= before_us, "the moments before it are passed with it"


def test_while_behind_the_clock_goes_as_far_as_the_partition_that_is_farthest_behind(
    broker: Broker, tmp_path: Path
) -> None:
    stream, clock = watched(broker, tmp_path, in_order=True)
    arrive(broker, stream, 0, 10 * MS, 20 * MS, 30 * MS)
    arrive(broker, stream, 1, 15 * MS, 25 * MS)
    zero, one = Partition(stream.clean, 0), Partition(stream.clean, 1)
    assert clock.look({zero: 2}) == 0, "of the other partition nothing was read"
    assert clock.look({zero: 2, one: 1}) == 15 * MS
    assert clock.look({zero: 2, one: 2}) == 20 * MS, "a partition that was read to its end is not what is behind"
    arrive(broker, stream, 1, 40 * MS, first=2, gated=False)
    later_us = now_us()
    found_us = clock.look({zero: 3, one: 2})
    assert found_us is not None
    assert 30 * MS < found_us < later_us, "up to a moment before the gate had something left to judge"


def test_what_another_query_writes_is_known_as_far_as_that_one_has_come(broker: Broker, tmp_path: Path) -> None:
    _, clock = watched(broker, tmp_path, known_until_us=lambda: 77 * MS)
    assert clock.look({}) == 77 * MS


def test_recorded_history_ends_with_its_newest_record_once_all_is_read(broker: Broker) -> None:
    stream = new_stream()
    ensure_topics(broker.address, [stream])
    arrive(broker, stream, 0, 10 * MS, 30 * MS)
    arrive(broker, stream, 1, 20 * MS)
    clock = RecordedClock([stream.clean], Offsets(broker.address))
    zero, one = Partition(stream.clean, 0), Partition(stream.clean, 1)
    assert clock.look({zero: 1, one: 1}) is None
    assert clock.look({zero: 2, one: 1}) == 30 * MS
