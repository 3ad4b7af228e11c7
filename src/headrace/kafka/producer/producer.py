"""A producer of JSON events."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Self

import orjson
from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as KafkaProducer

from headrace.errors import HeadraceError
from headrace.kafka.client.client import LOGGER, client_settings, to_headrace_error
from headrace.tiles.events.event_json import JSON_OPTIONS

DELIVERY_TIMEOUT_SECONDS = 30.0

DeliveryCallback = Callable[[int, int], None]  # called with the partition and offset of a delivered record


class DeliveryFailed(HeadraceError):
    """Records that the broker has not acknowledged."""

    def __init__(self, broker: str, count: int, reason: str) -> None:
        super().__init__(
            f"{count} records were not delivered to the broker at {broker!r}: {reason}. Fix that, then send them again."
        )
        self.count = count


class Producer:
    """Sends events in order, each once, and counts undelivered ones by topic."""

    def __init__(
        self,
        broker: str,
        linger_ms: float = 0,
        delivery_seconds: float = DELIVERY_TIMEOUT_SECONDS,
        *,
        is_gapless: bool = False,
    ) -> None:
        """A gapless producer delivers nothing of a partition after an undelivered record, and is then unusable.

        It times out no record by itself: that would be a gap that the client does not see.
        """
        self.broker = broker
        self.undelivered_counts: Counter[str] = Counter()
        self._delivery_seconds = delivery_seconds
        self._failed_count = 0
        self._failure_reason = ""
        settings = {
            "enable.idempotence": True,
            # As Java's producer does; the default spreads records with an empty key over all partitions.
            "partitioner": "murmur2_random",
            "linger.ms": linger_ms,
            "compression.type": "lz4",
            "message.max.bytes": 64 << 20,
            "delivery.timeout.ms": 0 if is_gapless else int(delivery_seconds * 1000),
            **({"enable.gapless.guarantee": True} if is_gapless else {}),
        }
        self._kafka_producer = KafkaProducer(client_settings(broker) | settings, logger=LOGGER)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        self.flush()

    def send(
        self,
        topic: str,
        event: Mapping[str, object] | bytes | None,
        *,
        key: str | bytes | None = None,
        partition: int = -1,
        headers: Sequence[tuple[str, str | bytes]] = (),
        on_delivery: DeliveryCallback | None = None,
    ) -> None:
        """Queue one event; without a partition, its key chooses one. `on_delivery` is called once it is in the log."""
        value = event if event is None or isinstance(event, bytes) else orjson.dumps(event, option=JSON_OPTIONS)
        record: dict[str, object] = {
            "value": value,
            "key": key,
            "partition": partition,
            "headers": [*headers],
            "on_delivery": self._handle_delivery
            if on_delivery is None
            else partial(self._handle_delivery, on_delivery=on_delivery),
        }
        while not self._enqueue(topic, record):
            self._kafka_producer.poll(0.1)
        self._kafka_producer.poll(0)

    def poll_deliveries(self) -> None:
        """Handle delivery reports, without waiting."""
        self._kafka_producer.poll(0)

    def flush(self) -> None:
        """Wait until everything sent is in the log; raises if something is not."""
        unsent_count = self._kafka_producer.flush(self._delivery_seconds + 1)
        if unsent_count:
            self._failure_reason = self._failure_reason or "the broker has not answered"
            self._kafka_producer.purge()
            self._kafka_producer.flush(1)
        failed_count, reason = max(self._failed_count, unsent_count), self._failure_reason
        self._failed_count, self._failure_reason = 0, ""
        if failed_count:
            raise DeliveryFailed(self.broker, failed_count, reason)

    def _enqueue(self, topic: str, record: dict[str, object]) -> bool:
        try:
            self._kafka_producer.produce(topic, **record)  # type: ignore[arg-type]
        except BufferError:
            return False
        except KafkaException as failure:
            if not failure.args[0].fatal():
                raise to_headrace_error(self.broker, f"take a record for {topic!r}", failure) from failure
            self._failed_count += 1  # the producer is unusable: `flush` reports it
            self._failure_reason = self._failure_reason or failure.args[0].str()
        return True

    def _handle_delivery(
        self, error: KafkaError | None, message: Message, on_delivery: DeliveryCallback | None = None
    ) -> None:
        if error is not None:
            self._failed_count += 1
            self.undelivered_counts[message.topic() or ""] += 1
            self._failure_reason = self._failure_reason or error.str()
        elif on_delivery is not None:
            on_delivery(message.partition() or 0, message.offset() or 0)
