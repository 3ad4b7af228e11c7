"""A tailing consumer: reads topics from the beginning, and hands over each record as soon as it arrives."""

import threading
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from headrace.errors import HeadraceError
from headrace.kafka.client.client import LOGGER, client_settings
from headrace.kafka.client.connection_diagnosis import BrokerUnreachable
from headrace.kafka.consumers.catch_up_state import CatchUpState
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.record import ConsumerRecord, Partition, to_record

RecordHandler = Callable[[list[ConsumerRecord]], None]

MAX_POLL_RECORDS = 5000
POLL_SECONDS = 0.1
RETRY_SECONDS = 0.5
SHORT_REQUEST_TIMEOUT_SECONDS = 3.0
IDLE_CHECK_SECONDS = 5.0


class ConsumerState(Enum):
    """The state of a consumer."""

    STARTING = "starting"
    CONSUMING = "following"
    BROKER_LOST = "broker lost"
    FAILED = "failed"
    STOPPED = "stopped"


class ConsumerFailed(HeadraceError):
    """The handler of records raised: no record after them is read."""

    def __init__(self, topics: Sequence[str], failure: BaseException) -> None:
        super().__init__(f"Following {', '.join(topics)} stopped: {failure}. Fix the cause and start again.")


class HandlerInterrupted(Exception):
    """Raised by a handler that was waiting when the consumer stopped: the records stay unread."""


class ConsumerStuck(Exception):
    """Raised by a step where the client does not recover by itself."""


class TailingConsumer:
    """Reads topics from the beginning and hands lists of records, in order of each partition, to `handler`.

    Waits for a broker or topic that is missing.
    """

    def __init__(
        self, broker: str, topics: Sequence[str], handler: RecordHandler, *, is_latency_tolerant: bool = False
    ) -> None:
        self.topics = tuple(topics)
        self.state = ConsumerState.STARTING
        self.error = ""
        self.positions = CatchUpState()
        self._broker, self._handler, self._is_latency_tolerant = broker, handler, is_latency_tolerant
        self._offset_client = OffsetClient(broker, SHORT_REQUEST_TIMEOUT_SECONDS)
        self._failure: BaseException | None = None
        self._check_at = 0.0
        self._state_changed = threading.Condition()
        self._stop_event = threading.Event()
        self._thread = threading.Thread(target=self._run_in_thread, name=f"follow {topics[0]}", daemon=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_failure: object) -> None:
        self.stop()

    def start(self) -> Self:
        """Consume in a thread of its own."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop the thread after the records in flight; safe to call twice."""
        self._stop_event.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def stop_event(self) -> threading.Event:
        """Set by `stop`: a handler checks it while it waits."""
        return self._stop_event

    @property
    def is_caught_up(self) -> bool:
        """Whether everything that was in the topics at the start has been handled."""
        return self.positions.is_caught_up

    def wait_until_caught_up(self, timeout: float) -> bool:
        """Wait until it is caught up; raises if the consumer has failed meanwhile."""
        with self._state_changed:
            is_done = self._state_changed.wait_for(lambda: self.is_caught_up or self._failure is not None, timeout)
        self.raise_failure()
        return is_done

    def raise_failure(self) -> None:
        """Raise the failure that stopped the consumer, if any."""
        if self._failure is not None:
            raise ConsumerFailed(self.topics, self._failure) from self._failure

    def run(self) -> None:
        """Consume in this thread until another one calls `stop`."""
        consumer = Consumer(self._settings(), logger=LOGGER)
        try:
            self._start_consuming(consumer)
            while not self._stop_event.is_set():
                try:
                    self._step(consumer)
                except ConsumerStuck as error:
                    consumer = self._replace_consumer(consumer, error)
            self._before_close(consumer)
        except HandlerInterrupted:
            LOGGER.info("Stopped following %s with unhandled records", ", ".join(self.topics))
        except Exception as failure:
            self._failure, self.error, self.state = failure, str(failure), ConsumerState.FAILED
            raise
        finally:
            # Closing revokes the partitions; threads that wait must see the failure before that.
            consumer.close()
            self.state = ConsumerState.FAILED if self._failure else ConsumerState.STOPPED
            self._notify_waiters()

    def _replace_consumer(self, old_consumer: Consumer, reason: "ConsumerStuck") -> Consumer:
        """Replace the consumer; a stuck one may take long to close, or for ever."""
        LOGGER.warning("Replaced the consumer of %s: %s", ", ".join(self.topics), reason)
        threading.Thread(target=old_consumer.close, name="close a stuck consumer", daemon=True).start()
        consumer = Consumer(self._settings(), logger=LOGGER)
        self._start_consuming(consumer)
        return consumer

    def _run_in_thread(self) -> None:
        try:
            self.run()
        except Exception:  # noqa: BLE001  # a thread has no caller: `raise_failure` reports it
            LOGGER.exception("Stopped following %s after a failure", ", ".join(self.topics))

    def _settings(self) -> dict[str, object]:
        return {
            **client_settings(self._broker),
            "group.id": "headrace",  # required by the client, though nothing is committed
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            # A fetch is answered when a record arrives, so a longer wait costs no latency (measured: 5 to 500 ms give
            # the same median), while a shorter one keeps an idle broker busy: 10 % of a core at 10 ms.
            "fetch.wait.max.ms": 500 if self._is_latency_tolerant else 100,
            # A latency-tolerant consumer waits half a second, which saves the broker one response for each record.
            "fetch.min.bytes": 100_000 if self._is_latency_tolerant else 1,
            "fetch.error.backoff.ms": 50,
            "error_cb": self._client_error,
        }

    def _start_consuming(self, consumer: Consumer) -> None:
        while not self._stop_event.is_set():
            try:
                partitions = self._offset_client.require_partitions(self.topics)
                self.positions.add_partitions(
                    self._offset_client.start_offsets(partitions), self._offset_client.end_offsets(partitions)
                )
            except HeadraceError as error:
                self._mark_disconnected(str(error))
                self._stop_event.wait(RETRY_SECONDS)
            else:
                consumer.assign([TopicPartition(*partition, OFFSET_BEGINNING) for partition in partitions])
                self._mark_connected()
                return

    def _step(self, consumer: Consumer) -> None:
        # A single poll returns with the first record; the rest of its batch is then consumed without waiting.
        first = consumer.poll(POLL_SECONDS)
        if first is None:
            self._handle_empty_poll(consumer)
            return
        self._handle_messages(consumer, [first, *consumer.consume(MAX_POLL_RECORDS - 1, 0)])

    def _handle_messages(self, consumer: Consumer, messages: list[Message]) -> None:
        """Hand over the records, then handle errors and ends of partitions."""
        records = [to_record(message) for message in messages if message.error() is None]
        if records:
            self._process_records(consumer, records)
        for message in messages:
            if (error := message.error()) is not None:
                self._handle_error(message, error)

    def _before_close(self, _consumer: Consumer) -> None:
        """The last step before the consumer is closed, if nothing failed."""

    def _process_records(self, _consumer: Consumer, records: list[ConsumerRecord]) -> None:
        self._handler(records)
        self.positions.advance_past(records)
        self._mark_connected()

    def _handle_error(self, message: Message, error: KafkaError) -> None:
        if error.name() != "_PARTITION_EOF":
            self._mark_disconnected(f"{error.str()} ({error.name()})")
            return
        record = to_record(message)
        self.positions.mark_end(Partition(record.topic, record.partition), record.offset)
        self._mark_connected()

    def _handle_empty_poll(self, consumer: Consumer) -> None:
        """No record came: check whether the broker is reachable, at once after an error, else after a quiet period.

        A quiet topic does not report that it is back. And the client reports a loss only once: records fetched before
        it, handed over afterwards, look like a working connection.
        """
        is_disconnected = self.state is ConsumerState.BROKER_LOST
        if not is_disconnected and (self.state is not ConsumerState.CONSUMING or time.monotonic() < self._check_at):
            return
        try:
            consumer.list_topics(self.topics[0], RETRY_SECONDS if is_disconnected else SHORT_REQUEST_TIMEOUT_SECONDS)
        except KafkaException:
            if not is_disconnected:
                self._mark_disconnected(str(BrokerUnreachable(self._broker)))
            return
        self._mark_connected()

    def _client_error(self, error: KafkaError) -> None:
        if error.name() == "_ALL_BROKERS_DOWN":
            self._mark_disconnected(str(BrokerUnreachable(self._broker)))

    def _mark_connected(self) -> None:
        self.state, self.error, self._check_at = ConsumerState.CONSUMING, "", time.monotonic() + IDLE_CHECK_SECONDS
        self._notify_waiters()

    def _mark_disconnected(self, error: str) -> None:
        if self.error != error:
            LOGGER.warning("Lost the broker while following %s: %s", ", ".join(self.topics), error)
        self.state, self.error = ConsumerState.BROKER_LOST, error

    def _notify_waiters(self) -> None:
        with self._state_changed:
            self._state_changed.notify_all()
