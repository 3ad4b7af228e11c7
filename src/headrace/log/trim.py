"""Records that nobody needs any more."""

from collections.abc import Iterable

from confluent_kafka import KafkaException, TopicPartition

from headrace.log.connect import ANSWER_SECONDS, admin_client, refusal
from headrace.log.offsets import Offsets
from headrace.log.records import Partition


def trim(broker: str, partition: Partition, before: int) -> None:
    """Let go of a partition's records before an offset."""
    admin, place = admin_client(broker), TopicPartition(*partition, before)
    try:
        admin.delete_records([place], request_timeout=ANSWER_SECONDS)[place].result(ANSWER_SECONDS)
    except KafkaException as failure:
        raise refusal(broker, f"let go of records of {partition}", failure) from failure


def empty(broker: str, topics: Iterable[str]) -> dict[Partition, int]:
    """Let go of everything that topics have now; gives where each partition begins from here on."""
    begins = Offsets(broker).end(topics)
    for partition, begin in begins.items():
        trim(broker, partition, begin)
    return begins
