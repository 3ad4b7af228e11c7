"""The tail of a topic: first its last records, then the new ones."""

from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.consumers.last_records import LastRecordsReader
from headrace.kafka.producer.producer import Producer
from headrace.kafka.topics import ensure_topics
from tests.kafka.streams import new_stream


def test_the_last_records_are_read_once_and_then_what_has_come_since(broker: EmbeddedBroker) -> None:
    stream = new_stream(partitions=2)
    ensure_topics(broker.address, [stream])

    def send(*numbers: int) -> None:
        with Producer(broker.address) as producer:
            for number in numbers:
                producer.send(stream.name, b"%d" % number, partition=number % 2)

    def news() -> list[int]:
        return sorted(int(record.value or b"") for record in tail.read_new_records())

    tail = LastRecordsReader(broker.address, stream.name, max_records=6)
    assert news() == []
    send(*range(20))
    assert news() == [14, 15, 16, 17, 18, 19]
    assert news() == []
    send(20)
    assert news() == [20]
