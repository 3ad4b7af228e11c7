"""Kafka's command-line tools, as a user runs them against their own broker."""

from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from headrace.kafka.topics import TopicConfig, TopicSpec
from tests.waiting import SOCKET_S, wait_until


def create_topic(broker: str, topic: TopicSpec) -> None:
    new = NewTopic(topic.name, num_partitions=topic.partitions, config=topic.config)
    admin = AdminClient({"bootstrap.servers": broker})
    admin.create_topics([new])[topic.name].result()
    wait_until(lambda: topic.name in admin.list_topics(timeout=SOCKET_S).topics, 10, "the broker to know its topic")


def config_of(broker: str, topic: str) -> TopicConfig:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": broker})
    answer = admin.describe_configs([resource])[resource].result()
    return {name: entry.value for name, entry in answer.items()}
