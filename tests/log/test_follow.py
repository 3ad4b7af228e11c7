"""A follower sees every record, says when it has caught up, and waits for a broker that is gone."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.local.broker import Broker
from headrace.local.ports import free_port
from headrace.log.follow import Follower, FollowerFailed, State
from headrace.log.offsets import Offsets, TopicMissing
from headrace.log.produce import Producer
from headrace.log.records import Partition, Record
from headrace.log.share import Rewind, SharedFollower
from headrace.log.topics import ensure_topics
from tests.log.streams import new_stream
from tests.waiting import patiently, wait_until

NOTICED_S = 30.0  # quiet for five seconds, three for the answer, and a busy machine


class Seen:
    """Collects what it is handed."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def __call__(self, records: list[Record]) -> None:
        self.records += records

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for record in self.records]


def send(broker: Broker, topic: str, values: range, partition: int = 0) -> None:
    with Producer(broker.address) as producer:
        for value in values:
            producer.send(topic, str(value).encode(), partition=partition)


@pytest.fixture
def topic(broker: Broker) -> str:
    stream = new_stream()
    ensure_topics(broker.address, [stream])
    return stream.name


def test_a_follower_reads_from_the_beginning_and_goes_on(broker: Broker, topic: str) -> None:
    send(broker, topic, range(100))
    seen = Seen()
    with Follower(broker.address, [topic], seen) as follower:
        assert follower.wait_until_caught_up(patiently(20))
        assert seen.values == [str(value).encode() for value in range(100)]
        send(broker, topic, range(100, 110))
        wait_until(lambda: len(seen.records) == 110, 20, "the records sent afterwards")
    assert follower.state is State.STOPPED
    assert follower.positions.next == {Partition(topic, 0): 110, Partition(topic, 1): 0}


def test_an_empty_topic_is_caught_up_with_at_once(broker: Broker, topic: str) -> None:
    with Follower(broker.address, [topic], Seen()) as follower:
        assert follower.wait_until_caught_up(patiently(20))
        assert follower.positions.remaining == 0


def test_a_follower_is_not_caught_up_before_its_records_are_handled(broker: Broker, topic: str) -> None:
    send(broker, topic, range(10))
    held = threading.Event()
    with Follower(broker.address, [topic], lambda _: held.wait(20) and None) as follower:
        assert not follower.wait_until_caught_up(0.5)
        held.set()
        assert follower.wait_until_caught_up(patiently(20))


def test_a_record_keeps_its_place_time_and_headers(broker: Broker, topic: str) -> None:
    with Producer(broker.address) as producer:
        producer.send(topic, {"id": "p1"}, key="c1", partition=1, headers=[("headrace.offset", "7")])
    seen = Seen()
    with Follower(broker.address, [topic], seen) as follower:
        assert follower.wait_until_caught_up(patiently(20))
    (record,) = seen.records
    assert (record.place, record.key, record.value) == (f"{topic}-1@0", b"c1", b'{"id":"p1"}')
    assert record.header("headrace.offset") == b"7"
    assert record.appended_us > 1_700_000_000_000_000


def test_followers_of_a_group_share_the_partitions_and_go_on_where_the_group_was(broker: Broker, topic: str) -> None:
    send(broker, topic, range(50), partition=0)
    send(broker, topic, range(50), partition=1)
    first = Seen()
    with SharedFollower(broker.address, [topic], first, topic) as follower:
        wait_until(lambda: len(first.records) == 100, 30, "all records")
        assert follower.wait_until_caught_up(patiently(20))
    send(broker, topic, range(50, 60), partition=1)
    second, third = Seen(), Seen()
    with (
        SharedFollower(broker.address, [topic], second, topic) as one,
        SharedFollower(broker.address, [topic], third, topic) as other,
    ):
        wait_until(lambda: len(one.positions.next) == len(other.positions.next) == 1, 30, "a partition each")
        wait_until(lambda: len(second.records) + len(third.records) == 10, 30, "the new records")


def test_what_was_not_handled_is_read_again_by_the_group(broker: Broker, topic: str) -> None:
    send(broker, topic, range(5))

    def refuse(_records: list[Record]) -> None:
        raise ValueError("no room")

    with SharedFollower(broker.address, [topic], refuse, topic) as failing:
        with pytest.raises(FollowerFailed, match="no room"):
            failing.wait_until_caught_up(patiently(30))
        assert failing.state is State.FAILED
    seen = Seen()
    with SharedFollower(broker.address, [topic], seen, topic):
        wait_until(lambda: len(seen.records) == 5, 30, "all records")


def test_a_group_reads_again_what_its_handler_asks_for(broker: Broker, topic: str) -> None:
    send(broker, topic, range(5))
    seen, asked = Seen(), []

    def lose_once(records: list[Record]) -> None:
        seen(records)
        if len(seen.records) >= 5 and not asked:
            asked.append(True)
            raise Rewind([Partition(topic, 0)])

    with SharedFollower(broker.address, [topic], lose_once, topic) as follower:
        wait_until(lambda: len(seen.records) == 10, 30, "the records to come twice")
        wait_until(lambda: follower.caught_up, 30, "the follower to catch up again")
        assert follower.positions.next[Partition(topic, 0)] == 5
    third = Seen()
    with SharedFollower(broker.address, [topic], third, topic) as follower:
        wait_until(lambda: follower.caught_up, 30, "the group to find its place")
    assert third.records == []


def test_a_follower_waits_for_a_topic_that_is_not_there_yet(broker: Broker) -> None:
    stream = new_stream()
    with Follower(broker.address, [stream.name], Seen()) as follower:
        wait_until(lambda: stream.name in follower.trouble, 20, "the follower to miss its topic")
        ensure_topics(broker.address, [stream])
        assert follower.wait_until_caught_up(patiently(20))
        assert follower.state is State.FOLLOWING


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path, port=free_port()) as running:
        yield running


def test_a_follower_outlives_its_broker(own_broker: Broker) -> None:
    stream = new_stream()
    ensure_topics(own_broker.address, [stream])
    send(own_broker, stream.name, range(10))
    seen = Seen()
    with Follower(own_broker.address, [stream.name], seen) as follower:
        assert follower.wait_until_caught_up(patiently(20))
        own_broker.stop()
        wait_until(lambda: follower.state is State.BROKER_LOST, NOTICED_S, "the follower to notice")
        assert own_broker.address in follower.trouble
        own_broker.start()
        wait_until(lambda: follower.state is State.FOLLOWING, 30, "the follower to come back")
        send(own_broker, stream.name, range(10, 20))
        wait_until(lambda: len(seen.records) == 20, 30, "the records sent afterwards")
    assert seen.values == [str(value).encode() for value in range(20)]


@pytest.mark.faults
def test_a_broker_that_is_lost_is_noticed_also_where_the_client_does_not_say_so(
    own_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Follower, "_client_error", lambda *_: None)
    stream = new_stream()
    ensure_topics(own_broker.address, [stream])
    with Follower(own_broker.address, [stream.name], Seen()) as follower:
        assert follower.wait_until_caught_up(patiently(20))
        own_broker.stop()
        wait_until(lambda: follower.state is State.BROKER_LOST, NOTICED_S, "the follower to notice")
        assert own_broker.address in follower.trouble
        own_broker.start()
        wait_until(lambda: follower.state is State.FOLLOWING, 30, "the follower to come back")


def test_offsets_begin_and_end_where_the_records_do(broker: Broker, topic: str) -> None:
    send(broker, topic, range(7), partition=1)
    offsets = Offsets(broker.address)
    assert offsets.begin([topic]) == {Partition(topic, 0): 0, Partition(topic, 1): 0}
    assert offsets.end([topic]) == {Partition(topic, 0): 0, Partition(topic, 1): 7}
    with pytest.raises(TopicMissing, match="no topic nothing"):
        offsets.every_partition([topic, "nothing"])
