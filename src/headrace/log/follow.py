"""Following topics: every record from the beginning on, handed over as soon as it is there."""

import threading
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from headrace.errors import HeadraceError
from headrace.log.connect import LOGGER, client_settings
from headrace.log.offsets import Offsets
from headrace.log.positions import Positions
from headrace.log.records import Partition, Record, record_of
from headrace.log.strangers import BrokerUnreachable

Handle = Callable[[list[Record]], None]

AT_ONCE = 5000
POLL_SECONDS = 0.1
RETRY_SECONDS = 0.5
ASK_SECONDS = 3.0
QUIET_SECONDS = 5.0


class State(Enum):
    """What a follower is doing."""

    STARTING = "starting"
    FOLLOWING = "following"
    BROKER_LOST = "broker lost"
    FAILED = "failed"
    STOPPED = "stopped"


class FollowerFailed(HeadraceError):
    """The code that handles records raised: nothing after them is read."""

    def __init__(self, topics: Sequence[str], failure: BaseException) -> None:
        super().__init__(f"Following {', '.join(topics)} stopped: {failure}. Mend the cause and start again.")


class Interrupted(Exception):
    """Raised by what handles records when it waited for something and the follower is stopping: they stay unread."""


class Stuck(Exception):
    """Raised by a step where the client will not come right by itself."""


class Follower:
    """Reads topics from the beginning and hands lists of records, in order of each partition, to `handle`.

    A broker or topic that is not there is waited for.
    """

    def __init__(self, broker: str, topics: Sequence[str], handle: Handle, *, patient: bool = False) -> None:
        self.topics = tuple(topics)
        self.state = State.STARTING
        self.trouble = ""
        self.positions = Positions()
        self._broker, self._handle, self._patient = broker, handle, patient
        self._offsets = Offsets(broker, ASK_SECONDS)
        self._failure: BaseException | None = None
        self._ask_at = 0.0
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run_to_the_end, name=f"follow {topics[0]}", daemon=True)

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
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def stopping(self) -> threading.Event:
        """Set once `stop` was called: what `handle` looks at while it waits for something."""
        return self._stopping

    @property
    def caught_up(self) -> bool:
        """Whether everything that was in the topics at the start has been handled."""
        return self.positions.caught_up

    def wait_until_caught_up(self, timeout: float) -> bool:
        """Wait for `caught_up`; raises if the follower has failed meanwhile."""
        with self._changed:
            done = self._changed.wait_for(lambda: self.caught_up or self._failure is not None, timeout)
        self.raise_failure()
        return done

    def raise_failure(self) -> None:
        """Raise what made the follower stop by itself, if anything did."""
        if self._failure is not None:
            raise FollowerFailed(self.topics, self._failure) from self._failure

    def run(self) -> None:
        """Follow in this thread until `stop` is called from another one."""
        consumer = Consumer(self._settings(), logger=LOGGER)
        try:
            self._begin(consumer)
            while not self._stopping.is_set():
                try:
                    self._step(consumer)
                except Stuck as stuck:
                    consumer = self._begin_anew(consumer, stuck)
            self._end(consumer)
        except Interrupted:
            LOGGER.info("Following %s: stopped with records in hand", ", ".join(self.topics))
        except Exception as failure:
            self._failure, self.trouble, self.state = failure, str(failure), State.FAILED
            raise
        finally:
            # Closing gives the partitions up; who waits must know of the failure before that.
            consumer.close()
            self.state = State.FAILED if self._failure else State.STOPPED
            self._tell()

    def _begin_anew(self, stuck: Consumer, why: "Stuck") -> Consumer:
        """Go on with another consumer; one that is stuck may take long to close, or for ever."""
        LOGGER.warning("Following %s: %s; a new consumer goes on", ", ".join(self.topics), why)
        threading.Thread(target=stuck.close, name="close a stuck consumer", daemon=True).start()
        consumer = Consumer(self._settings(), logger=LOGGER)
        self._begin(consumer)
        return consumer

    def _run_to_the_end(self) -> None:
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
            "fetch.wait.max.ms": 500 if self._patient else 100,
            # Who can wait half a second spares the broker an answer for each record.
            "fetch.min.bytes": 100_000 if self._patient else 1,
            "fetch.error.backoff.ms": 50,
            "error_cb": self._client_error,
        }

    def _begin(self, consumer: Consumer) -> None:
        while not self._stopping.is_set():
            try:
                partitions = self._offsets.every_partition(self.topics)
                self.positions.take_on(self._offsets.begin_of(partitions), self._offsets.end_of(partitions))
            except HeadraceError as problem:
                self._lost(str(problem))
                self._stopping.wait(RETRY_SECONDS)
            else:
                consumer.assign([TopicPartition(*partition, OFFSET_BEGINNING) for partition in partitions])
                self._well()
                return

    def _step(self, consumer: Consumer) -> None:
        # A single poll returns with the first record; what came along with it is then taken without waiting.
        first = consumer.poll(POLL_SECONDS)
        if first is None:
            self._rest(consumer)
            return
        self._sort(consumer, [first, *consumer.consume(AT_ONCE - 1, 0)])

    def _sort(self, consumer: Consumer, messages: list[Message]) -> None:
        """Hand the records over, then hear what else was said."""
        records = [record_of(message) for message in messages if message.error() is None]
        if records:
            self._hand_over(consumer, records)
        for message in messages:
            if (error := message.error()) is not None:
                self._event(message, error)

    def _end(self, _consumer: Consumer) -> None:
        """The last step before the consumer is closed, where nothing failed."""

    def _hand_over(self, _consumer: Consumer, records: list[Record]) -> None:
        self._handle(records)
        self.positions.handled(records)
        self._well()

    def _event(self, message: Message, error: KafkaError) -> None:
        if error.name() != "_PARTITION_EOF":
            self._lost(f"{error.str()} ({error.name()})")
            return
        record = record_of(message)
        self.positions.at_end(Partition(record.topic, record.partition), record.offset)
        self._well()

    def _rest(self, consumer: Consumer) -> None:
        """Nothing came: ask whether the broker is there, at once while it is lost, else once it was quiet for a while.

        A quiet topic does not say so when it is back. And the client tells of a loss once: what it had fetched before,
        handed over after that, looks as if all were well.
        """
        is_lost = self.state is State.BROKER_LOST
        if not is_lost and (self.state is not State.FOLLOWING or time.monotonic() < self._ask_at):
            return
        try:
            consumer.list_topics(self.topics[0], RETRY_SECONDS if is_lost else ASK_SECONDS)
        except KafkaException:
            if not is_lost:
                self._lost(str(BrokerUnreachable(self._broker)))
            return
        self._well()

    def _client_error(self, error: KafkaError) -> None:
        if error.name() == "_ALL_BROKERS_DOWN":
            self._lost(str(BrokerUnreachable(self._broker)))

    def _well(self) -> None:
        self.state, self.trouble, self._ask_at = State.FOLLOWING, "", time.monotonic() + QUIET_SECONDS
        self._tell()

    def _lost(self, trouble: str) -> None:
        if self.trouble != trouble:
            LOGGER.warning("Following %s: %s", ", ".join(self.topics), trouble)
        self.state, self.trouble = State.BROKER_LOST, trouble

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()
