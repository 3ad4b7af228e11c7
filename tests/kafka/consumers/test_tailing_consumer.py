"""A tailing consumer reads every record, reports when it has caught up, and waits for a broker that is away."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.ports import free_port
from headrace.kafka.consumers.group_consumer import GroupConsumer, RewindRequested
from headrace.kafka.consumers.tailing_consumer import ConsumerFailed, ConsumerState, TailingConsumer
from headrace.kafka.offsets import OffsetClient, TopicMissing
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord, Partition
from headrace.kafka.topics import ensure_topics
from tests.kafka.streams import new_stream
from tests.waiting import patiently, wait_until

NOTICED_S = 30.0  # quiet for five seconds, three for the answer, and a busy machine


class Seen:
    """Collects what it is handed."""

    def __init__(self) -> None:
        self.records: list[ConsumerRecord] = []

    def __call__(self, records: list[ConsumerRecord]) -> None:
        self.records += records

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for record in self.records]


def send(broker: EmbeddedBroker, topic: str, values: range, partition: int = 0) -> None:
    with Producer(broker.address) as producer:
        for value in values:
            producer.send(topic, str(value).encode(), partition=partition)


@pytest.fixture
def topic(broker: EmbeddedBroker) -> str:
    stream = new_stream()
    ensure_topics(broker.address, [stream])
    return stream.name


def test_a_follower_reads_from_the_beginning_and_goes_on(broker: EmbeddedBroker, topic: str) -> None:
    send(broker, topic, range(100))
    seen = Seen()
    with TailingConsumer(broker.address, [topic], seen) as follower:
        assert follower.wait_until_caught_up(patiently(20))
        assert seen.values == [str(value).encode() for value in range(100)]
        send(broker, topic, range(100, 110))
        wait_until(lambda: len(seen.records) == 110, 20, "the records sent afterwards")
    assert follower.state is ConsumerState.STOPPED
    assert follower.positions.next_offsets == {Partition(topic, 0): 110, Partition(topic, 1): 0}


def test_an_empty_topic_is_caught_up_with_at_once(broker: EmbeddedBroker, topic: str) -> None:
    with TailingConsumer(broker.address, [topic], Seen()) as follower:
        assert follower.wait_until_caught_up(patiently(20))
        assert follower.positions.remaining_count == 0


def test_a_follower_is_not_caught_up_before_its_records_are_handled(broker: EmbeddedBroker, topic: str) -> None:
    send(broker, topic, range(10))
    held = threading.Event()
    with TailingConsumer(broker.address, [topic], lambda _: held.wait(20) and None) as follower:
        assert not follower.wait_until_caught_up(0.5)
        held.set()
        assert follower.wait_until_caught_up(patiently(20))


def test_a_record_keeps_its_place_time_and_headers(broker: EmbeddedBroker, topic: str) -> None:
    with Producer(broker.address) as producer:
        producer.send(topic, {"id": "p1"}, key="c1", partition=1, headers=[("headrace.offset", "7")])
    seen = Seen()
    with TailingConsumer(broker.address, [topic], seen) as follower:
        assert follower.wait_until_caught_up(patiently(20))
    (record,) = seen.records
    assert (record.location, record.key, record.value) == (f"{topic}-1@0", b"c1", b'{"id":"p1"}')
    assert record.header("headrace.offset") == b"7"
    assert record.appended_us > 1_700_000_000_000_000


def test_followers_of_a_group_share_the_partitions_and_go_on_where_the_group_was(
    broker: EmbeddedBroker, topic: str
) -> None:
    send(broker, topic, range(50), partition=0)
    send(broker, topic, range(50), partition=1)
    first = Seen()
    with GroupConsumer(broker.address, [topic], first, topic) as follower:
        wait_until(lambda: len(first.records) == 100, 30, "all records")
        assert follower.wait_until_caught_up(patiently(20))
    send(broker, topic, range(50, 60), partition=1)
    second, third = Seen(), Seen()
    with (
        GroupConsumer(broker.address, [topic], second, topic) as one,
        GroupConsumer(broker.address, [topic], third, topic) as other,
    ):
        wait_until(
            lambda: len(one.positions.next_offsets) == len(other.positions.next_offsets) == 1, 30, "a partition each"
        )
        wait_until(lambda: len(second.records) + len(third.records) == 10, 30, "the new records")


def test_what_was_not_handled_is_read_again_by_the_group(broker: EmbeddedBroker, topic: str) -> None:
    send(broker, topic, range(5))

    def refuse(_records: list[ConsumerRecord]) -> None:
        raise ValueError("no room")

    with GroupConsumer(broker.address, [topic], refuse, topic) as failing:
        with pytest.raises(ConsumerFailed, match="no room"):
            failing.wait_until_caught_up(patiently(30))
        assert failing.state is ConsumerState.FAILED
    seen = Seen()
    with GroupConsumer(broker.address, [topic], seen, topic):
        wait_until(lambda: len(seen.records) == 5, 30, "all records")


def test_a_group_reads_again_what_its_handler_asks_for(broker: EmbeddedBroker, topic: str) -> None:
    send(broker, topic, range(5))
    seen, asked = Seen(), []

    def lose_once(records: list[ConsumerRecord]) -> None:
        seen(records)
        if len(seen.records) >= 5 and not asked:
            asked.append(True)
            raise RewindRequested([Partition(topic, 0)])

    with GroupConsumer(broker.address, [topic], lose_once, topic) as follower:
        wait_until(lambda: len(seen.records) == 10, 30, "the records to come twice")
        wait_until(lambda: follower.is_caught_up, 30, "the follower to catch up again")
        assert follower.positions.next_offsets[Partition(topic, 0)] == 5
    third = Seen()
    with GroupConsumer(broker.address, [topic], third, topic) as follower:
        wait_until(lambda: follower.is_caught_up, 30, "the group to find its place")
    assert third.records == []


def test_a_follower_waits_for_a_topic_that_is_not_there_yet(broker: EmbeddedBroker) -> None:
    stream = new_stream()
    with TailingConsumer(broker.address, [stream.name], Seen()) as follower:
        wait_until(lambda: stream.name in follower.error, 20, "the follower to miss its topic")
        ensure_topics(broker.address, [stream])
        assert follower.wait_until_caught_up(patiently(20))
        assert follower.state is ConsumerState.CONSUMING


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path, port=free_port()) as running:
        yield running


def test_a_follower_outlives_its_broker(own_broker: EmbeddedBroker) -> None:
    stream = new_stream()
    ensure_topics(own_broker.address, [stream])
    send(own_broker, stream.name, range(10))
    seen = Seen()
    with TailingConsumer(own_broker.address, [stream.name], seen) as follower:
        assert follower.wait_until_caught_up(patiently(20))
        own_broker.stop()
        wait_until(lambda: follower.state is ConsumerState.BROKER_LOST, NOTICED_S, "the follower to notice")
        assert own_broker.address in follower.error
        own_broker.start()
        wait_until(lambda: follower.state is ConsumerState.CONSUMING, 30, "the follower to come back")
        send(own_broker, stream.name, range(10, 20))
        wait_until(lambda: len(seen.records) == 20, 30, "the records sent afterwards")
    assert seen.values == [str(value).encode() for value in range(20)]


@pytest.mark.faults
def test_a_broker_that_is_lost_is_noticed_also_where_the_client_does_not_say_so(
    own_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TailingConsumer, "_client_error", lambda *_: None)
    stream = new_stream()
    ensure_topics(own_broker.address, [stream])
    with TailingConsumer(own_broker.address, [stream.name], Seen()) as follower:
        assert follower.wait_until_caught_up(patiently(20))
        own_broker.stop()
        wait_until(lambda: follower.state is ConsumerState.BROKER_LOST, NOTICED_S, "the follower to notice")
        assert own_broker.address in follower.error
        own_broker.start()
        wait_until(lambda: follower.state is ConsumerState.CONSUMING, 30, "the follower to come back")


def test_offsets_begin_and_end_where_the_records_do(broker: EmbeddedBroker, topic: str) -> None:
    send(broker, topic, range(7), partition=1)
    offsets = OffsetClient(broker.address)
    assert offsets.topic_start_offsets([topic]) == {Partition(topic, 0): 0, Partition(topic, 1): 0}
    assert offsets.topic_end_offsets([topic]) == {Partition(topic, 0): 0, Partition(topic, 1): 7}
    with pytest.raises(TopicMissing, match="no topic nothing"):
        offsets.require_partitions([topic, "nothing"])
