"""Following topics: every record from the beginning on, handed over as soon as it is there."""

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
    """What a follower is doing."""

    STARTING = "starting"
    CONSUMING = "following"
    BROKER_LOST = "broker lost"
    FAILED = "failed"
    STOPPED = "stopped"


class ConsumerFailed(HeadraceError):
    """The code that handles records raised: nothing after them is read."""

    def __init__(self, topics: Sequence[str], failure: BaseException) -> None:
        super().__init__(f"Following {', '.join(topics)} stopped: {failure}. Mend the cause and start again.")


class HandlerInterrupted(Exception):
    """Raised by what handles records when it waited for something and the follower is stopping: they stay unread."""


class ConsumerStuck(Exception):
    """Raised by a step where the client will not come right by itself."""


class TailingConsumer:
    """Reads topics from the beginning and hands lists of records, in order of each partition, to `handle`.

    A broker or topic that is not there is waited for.
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
        """Follow in a thread of its own."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End the thread after the records in hand; safe to call twice."""
        self._stop_event.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def stop_event(self) -> threading.Event:
        """Set once `stop` was called: what `handle` looks at while it waits for something."""
        return self._stop_event

    @property
    def is_caught_up(self) -> bool:
        """Whether everything that was in the topics at the start has been handled."""
        return self.positions.is_caught_up

    def wait_until_caught_up(self, timeout: float) -> bool:
        """Wait for `caught_up`; raises if the follower has failed meanwhile."""
        with self._state_changed:
            is_done = self._state_changed.wait_for(lambda: self.is_caught_up or self._failure is not None, timeout)
        self.raise_failure()
        return is_done

    def raise_failure(self) -> None:
        """Raise what made the follower stop by itself, if anything did."""
        if self._failure is not None:
            raise ConsumerFailed(self.topics, self._failure) from self._failure

    def run(self) -> None:
        """Follow in this thread until `stop` is called from another one."""
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
            LOGGER.info("Following %s: stopped with records in hand", ", ".join(self.topics))
        except Exception as failure:
            self._failure, self.error, self.state = failure, str(failure), ConsumerState.FAILED
            raise
        finally:
            # Closing gives the partitions up; who waits must know of the failure before that.
            consumer.close()
            self.state = ConsumerState.FAILED if self._failure else ConsumerState.STOPPED
            self._notify_waiters()

    def _replace_consumer(self, old_consumer: Consumer, reason: "ConsumerStuck") -> Consumer:
        """Go on with another consumer; one that is stuck may take long to close, or for ever."""
        LOGGER.warning("Following %s: %s; a new consumer goes on", ", ".join(self.topics), reason)
        threading.Thread(target=old_consumer.close, name="close a stuck consumer", daemon=True).start()
        consumer = Consumer(self._settings(), logger=LOGGER)
        self._start_consuming(consumer)
        return consumer

    def _run_in_thread(self) -> None:
        try:
            self.run()
        except Exception:  # noqa: BLE001  # nobody is above a thread: whoever asks is told
            LOGGER.exception("Following %s stopped", ", ".join(self.topics))

    def _settings(self) -> dict[str, object]:
        return {
            **client_settings(self._broker),
            "group.id": "headrace",  # the client wants one, though nothing is committed
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            # A fetch is answered when a record comes, so a longer wait costs no latency (measured: 5 to 500 ms give the
            # same median), while a shorter one keeps an idle broker busy: 10 % of a core at 10 ms.
            "fetch.wait.max.ms": 500 if self._is_latency_tolerant else 100,
            # Who can wait half a second spares the broker an answer for each record.
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
        # A single poll returns with the first record; what came along with it is then taken without waiting.
        first = consumer.poll(POLL_SECONDS)
        if first is None:
            self._handle_empty_poll(consumer)
            return
        self._handle_messages(consumer, [first, *consumer.consume(MAX_POLL_RECORDS - 1, 0)])

    def _handle_messages(self, consumer: Consumer, messages: list[Message]) -> None:
        """Hand the records over, then hear what else was said."""
        records = [to_record(message) for message in messages if message.error() is None]
        if records:
            self._process_records(consumer, records)
        for message in messages:
            if (error := message.error()) is not None:
                self._handle_error(message, error)

    def _before_close(self, _consumer: Consumer) -> None:
        """The last step before the consumer is closed, where nothing failed."""

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
        """Nothing came: ask whether the broker is there, at once while it is lost, else once it was quiet for a while.

        A quiet topic does not say so when it is back. And the client tells of a loss once: what it had fetched before,
        handed over after that, looks as if all were well.
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
            LOGGER.warning("Following %s: %s", ", ".join(self.topics), error)
        self.state, self.error = ConsumerState.BROKER_LOST, error

    def _notify_waiters(self) -> None:
        with self._state_changed:
            self._state_changed.notify_all()
