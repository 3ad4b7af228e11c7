"""Compacted topics of one partition, of which the latest word under each key counts."""

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # public, unmarked

from headrace.log.connect import ANSWER_SECONDS, admin_client, metadata, refusal

COMPACTED = {"cleanup.policy": "compact", "segment.ms": "600000"}


def ensure_latest_topic(broker: str, name: str) -> None:
    """Create such a topic where it is missing."""
    if has_topic(broker, name):
        return
    try:
        admin = admin_client(broker)
        topic = NewTopic(name, num_partitions=1, config=COMPACTED)
        admin.create_topics([topic], request_timeout=ANSWER_SECONDS)[name].result()
    except KafkaException as failure:
        if failure.args[0].name() != "TOPIC_ALREADY_EXISTS":
            raise refusal(broker, f"create topic {name!r}", failure) from failure


def has_topic(broker: str, name: str) -> bool:
    """Whether a topic is there; it is not created."""
    return name in metadata(admin_client(broker), broker).topics
