"""A follower that its group lets in no more is given another client; one that has just nothing to read is not."""

from typing import Any
from uuid import uuid4

import pytest

from headrace.local.broker import Broker
from headrace.log import share
from headrace.log.produce import Producer
from headrace.log.records import Record
from headrace.log.share import SharedFollower
from headrace.log.topics import APPEND_TIME, Topic
from tests.log.kafka import create_topic
from tests.waiting import wait_until


class NeverLetIn(SharedFollower):
    """Whose first client never gets in."""

    clients = 0

    def _begin(self, consumer: Any) -> None:
        self.clients += 1
        if self.clients == 1:
            self._joining_since = 0.0
        else:
            super()._begin(consumer)


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"stuck.{uuid4().hex}"
    create_topic(broker.address, Topic(name, name, 1, APPEND_TIME))
    return name


def test_a_client_that_is_not_let_in_is_replaced(broker: Broker, topic: str) -> None:
    records: list[Record] = []
    with Producer(broker.address) as producer:
        producer.send(topic, b"{}", key="a")
    with NeverLetIn(broker.address, [topic], records.extend, "stuck.one") as follower:
        wait_until(lambda: records, 60, "the record")
    assert follower.clients == 2


def test_who_is_given_no_partition_because_others_have_them_is_not_stuck(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (SharedFollower(broker.address, [topic], lambda _: None, "stuck.two") for _ in range(2))
    with first:
        wait_until(lambda: first._held, 60, "the partition")
        with second:
            wait_until(lambda: second._joining_since is None, 60, "the group to let it in")
            assert (len(first._held), len(second._held)) == (1, 0)
            monkeypatch.setattr(share, "JOIN_SECONDS", 0.0)
            second._require_joined()
