"""A small producer of JSON events."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Self

import orjson
from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as KafkaProducer

from headrace.errors import HeadraceError
from headrace.log.connect import LOGGER, client_settings, refusal
from headrace.tiles.event_json import JSON

DELIVERY_SECONDS = 30.0

Note = Callable[[int, int], None]  # is told the partition and the offset of a record that is in the log


class NotDelivered(HeadraceError):
    """Records the broker has not taken."""

    def __init__(self, broker: str, count: int, why: str) -> None:
        super().__init__(
            f"{count} records were not delivered to the broker at {broker!r}: {why}. Mend that, then send them again."
        )
        self.count = count


class Producer:
    """Sends events in order, each once, and keeps account of what the broker did not take, by topic."""

    def __init__(
        self,
        broker: str,
        linger_ms: float = 0,
        delivery_seconds: float = DELIVERY_SECONDS,
        *,
        is_gapless: bool = False,
    ) -> None:
        """A gapless one delivers nothing of a partition after what was not delivered there, and is then of no use.

        It gives up no record by itself: what has timed out would be a gap that the client does not see.
        """
        self.broker = broker
        self.undelivered: Counter[str] = Counter()
        self._delivery_seconds = delivery_seconds
        self._failed = 0
        self._why = ""
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
        self._kafka = KafkaProducer(client_settings(broker) | settings, logger=LOGGER)

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
        landed: Note | None = None,
    ) -> None:
        """Queue one event; without a partition, its key chooses one. `landed` is told where it is, once it is there."""
        value = event if event is None or isinstance(event, bytes) else orjson.dumps(event, option=JSON)
        record: dict[str, object] = {
            "value": value,
            "key": key,
            "partition": partition,
            "headers": [*headers],
            "on_delivery": self._delivered if landed is None else partial(self._delivered, landed=landed),
        }
        while not self._queued(topic, record):
            self._kafka.poll(0.1)
        self._kafka.poll(0)

    def settle(self) -> None:
        """Take note of what became of records meanwhile, without waiting."""
        self._kafka.poll(0)

    def flush(self) -> None:
        """Wait until everything sent is in the log; what is not there is an error."""
        left = self._kafka.flush(self._delivery_seconds + 1)
        if left:
            self._why = self._why or "the broker has not answered"
            self._kafka.purge()
            self._kafka.flush(1)
        failed, why = max(self._failed, left), self._why
        self._failed, self._why = 0, ""
        if failed:
            raise NotDelivered(self.broker, failed, why)

    def _queued(self, topic: str, record: dict[str, object]) -> bool:
        try:
            self._kafka.produce(topic, **record)  # type: ignore[arg-type]
        except BufferError:
            return False
        except KafkaException as failure:
            if not failure.args[0].fatal():
                raise refusal(self.broker, f"take a record for {topic!r}", failure) from failure
            self._failed += 1  # of one that is of no use any more: whoever flushes is told
            self._why = self._why or failure.args[0].str()
        return True

    def _delivered(self, error: KafkaError | None, message: Message, landed: Note | None = None) -> None:
        if error is not None:
            self._failed += 1
            self.undelivered[message.topic() or ""] += 1
            self._why = self._why or error.str()
        elif landed is not None:
            landed(message.partition() or 0, message.offset() or 0)
