"""A consumer that its group no longer admits gets a new client; one without new records keeps its client."""

from typing import Any
from uuid import uuid4

import pytest

from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.consumers import group_consumer
from headrace.kafka.consumers.group_consumer import GroupConsumer
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.topics import LOG_APPEND_TIME, TopicSpec
from tests.kafka.kafka_tools import create_topic
from tests.waiting import wait_until


class NeverLetIn(GroupConsumer):
    """Whose first client never gets in."""

    clients = 0

    def _start_consuming(self, consumer: Any) -> None:
        self.clients += 1
        if self.clients == 1:
            self._unassigned_since = 0.0
        else:
            super()._start_consuming(consumer)


@pytest.fixture
def topic(broker: EmbeddedBroker) -> str:
    name = f"stuck.{uuid4().hex}"
    create_topic(broker.address, TopicSpec(name, name, 1, LOG_APPEND_TIME))
    return name


def test_a_client_that_is_not_let_in_is_replaced(broker: EmbeddedBroker, topic: str) -> None:
    records: list[ConsumerRecord] = []
    with Producer(broker.address) as producer:
        producer.send(topic, b"{}", key="a")
    with NeverLetIn(broker.address, [topic], records.extend, "stuck.one") as follower:
        wait_until(lambda: records, 60, "the record")
    assert follower.clients == 2


def test_who_is_given_no_partition_because_others_have_them_is_not_stuck(
    broker: EmbeddedBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (GroupConsumer(broker.address, [topic], lambda _: None, "stuck.two") for _ in range(2))
    with first:
        wait_until(lambda: first._assigned_partitions, 60, "the partition")
        with second:
            wait_until(lambda: second._unassigned_since is None, 60, "the group to let it in")
            assert (len(first._assigned_partitions), len(second._assigned_partitions)) == (1, 0)
            monkeypatch.setattr(group_consumer, "JOIN_TIMEOUT_SECONDS", 0.0)
            second._require_assignment()
