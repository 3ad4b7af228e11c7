"""Nexmark's topics: creates, fills and reads them."""

from collections.abc import Iterable

import orjson
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # public, unmarked

from bench.errors import BenchFailed
from bench.nexmark.columns import Events
from headrace.kafka.client.client import create_admin_client
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.topics import LOG_APPEND_TIME

PARTITIONS = 2
READ_SECONDS = 60.0


def make_topics(broker: str, names: Iterable[str], partitions: int = PARTITIONS) -> None:
    """Make topics, whose records have the time the log took them."""
    new = [NewTopic(name, num_partitions=partitions, config=LOG_APPEND_TIME) for name in names]
    admin = create_admin_client(broker)
    for made in admin.create_topics(new).values():
        made.result(READ_SECONDS)


def fill(broker: str, events: Events, topics: dict[str, str]) -> None:
    """Send events of each kind to its topic, dealt out to its partitions: so all of them are equally far in time."""
    with Producer(broker, linger_ms=20) as producer:
        for kind, table in events:
            for place, event in enumerate(table.to_pylist()):
                producer.send(topics[kind], orjson.dumps(event), partition=place % PARTITIONS)


def read(broker: str, topic: str) -> list[ConsumerRecord]:
    """All records of a topic."""
    found: list[ConsumerRecord] = []
    with TailingConsumer(broker, [topic], found.extend) as follower:
        if not follower.wait_until_caught_up(READ_SECONDS):
            raise BenchFailed(f"The topic {topic} could not be read within {READ_SECONDS:g} s.")
    return found
