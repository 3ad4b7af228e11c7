"""Compacted topics of one partition, of which the latest record under each key counts."""

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # public, unmarked

from headrace.kafka.client.client import REQUEST_TIMEOUT_SECONDS, create_admin_client, fetch_metadata, to_headrace_error

COMPACTED_CONFIG = {"cleanup.policy": "compact", "segment.ms": "600000"}


def ensure_compacted_topic(broker: str, name: str) -> None:
    """Create such a topic where it is missing."""
    if has_topic(broker, name):
        return
    try:
        admin = create_admin_client(broker)
        topic = NewTopic(name, num_partitions=1, config=COMPACTED_CONFIG)
        admin.create_topics([topic], request_timeout=REQUEST_TIMEOUT_SECONDS)[name].result()
    except KafkaException as failure:
        if failure.args[0].name() != "TOPIC_ALREADY_EXISTS":
            raise to_headrace_error(broker, f"create topic {name!r}", failure) from failure


def has_topic(broker: str, name: str) -> bool:
    """Whether a topic exists; does not create it."""
    return name in fetch_metadata(create_admin_client(broker), broker).topics
