"""The log has every record that a producer reports as delivered; any other record is an error."""

from datetime import UTC, datetime

import pytest

from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.ports import free_port
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.producer.producer import DeliveryFailed, Producer
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.topics import ensure_topics
from tests.kafka.streams import new_stream
from tests.waiting import patiently


def test_events_are_json_with_times_in_utc_and_keys_choose_partitions(broker: EmbeddedBroker) -> None:
    stream = new_stream()
    ensure_topics(broker.address, [stream])
    with Producer(broker.address) as producer:
        for number in range(20):
            producer.send(stream.name, {"at": datetime(2026, 1, 1, tzinfo=UTC)}, key=f"c{number % 4}")
    seen: list[ConsumerRecord] = []
    with TailingConsumer(broker.address, [stream.name], seen.extend) as follower:
        assert follower.wait_until_caught_up(patiently(20))
    assert {record.value for record in seen} == {b'{"at":"2026-01-01T00:00:00Z"}'}
    partitions = {(record.key, record.partition) for record in seen}
    assert len(partitions) == 4
    assert len(seen) == 20


@pytest.mark.parametrize("is_gapless", [False, True])
def test_records_that_were_not_delivered_are_an_error(is_gapless: bool) -> None:
    producer = Producer(f"127.0.0.1:{free_port()}", delivery_seconds=1, is_gapless=is_gapless)
    producer.send("payments", {"id": "p1"})
    producer.send("payments", {"id": "p2"})
    with pytest.raises(DeliveryFailed, match="2 records were not delivered") as caught:
        producer.flush()
    assert caught.value.count == 2
    producer.flush()
