"""Deletes records that are no longer needed."""

from collections.abc import Iterable

from confluent_kafka import KafkaException, TopicPartition

from headrace.kafka.client.client import REQUEST_TIMEOUT_SECONDS, create_admin_client, to_headrace_error
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.record import Partition


def delete_records(broker: str, partition: Partition, before_offset: int) -> None:
    """Delete a partition's records before an offset."""
    admin, topic_partition = create_admin_client(broker), TopicPartition(*partition, before_offset)
    try:
        admin.delete_records([topic_partition], request_timeout=REQUEST_TIMEOUT_SECONDS)[topic_partition].result(
            REQUEST_TIMEOUT_SECONDS
        )
    except KafkaException as failure:
        raise to_headrace_error(broker, f"delete records of {partition}", failure) from failure


def delete_all_records(broker: str, topics: Iterable[str]) -> dict[Partition, int]:
    """Delete all current records of topics; returns the new start offset of each partition."""
    start_offsets = OffsetClient(broker).topic_end_offsets(topics)
    for partition, start_offset in start_offsets.items():
        delete_records(broker, partition, start_offset)
    return start_offsets
