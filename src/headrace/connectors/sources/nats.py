"""NATS JetStream: a durable pull consumer, recreated at any position that the bridge requests.

Messages are read in stream order. JetStream redelivers a lost message late and out of order, so a gap in the
consumer's sequence makes us recreate the consumer after the last message that we have.
"""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import TypeVar

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, RetentionPolicy, StreamInfo
from nats.js.errors import NotFoundError

from headrace.connectors.sources.source_reader import SourceConfigError, SourceMessage, SourceUnavailable
from headrace.declare.streams.external_sources import Nats
from headrace.storage.secrets import resolve_secret

CONNECT_TIMEOUT_SECONDS = 5
RESPONSE_TIMEOUT_SECONDS = 30.0  # the time that a busy server may need
FETCH_TIMEOUT_SECONDS = 0.3
ACK_WAIT_SECONDS = 60.0
MAX_ACK_PENDING = 5000
ResultT = TypeVar("ResultT")


class NatsReader:
    """Reads a stream as the consumer `headrace-NAME`, which only this bridge uses."""

    def __init__(self, source: Nats, name: str) -> None:
        self._source, self._durable_name = source, f"headrace-{name.replace('.', '_')}"
        self._label = f"NATS stream {source.stream!r} of {name}"
        self._runner = asyncio.Runner()
        self._client: Client | None = None
        self._subscription: JetStreamContext.PullSubscription | None = None
        self._is_work_queue = False
        self._last_stream_sequence, self._last_consumer_sequence = (
            0,
            0,
        )  # the last message we accepted, and its sequence number in the consumer
        self._unacknowledged: list[Msg] = []

    def open(self) -> str:
        stream_info = self._run(self._fetch_stream_info())
        retention = stream_info.config.retention
        if retention == RetentionPolicy.INTEREST:
            raise SourceConfigError(
                f"{self._label} keeps only unacknowledged messages: a bridge that restarts would lose some. "
                "Set its retention to limits or workqueue."
            )
        self._is_work_queue = retention == RetentionPolicy.WORK_QUEUE
        return f"nats:{self._source.stream}@{stream_info.created}"

    def acknowledged_number(self) -> int:
        """The consumer's acknowledgement floor."""
        return self._run(self._fetch_ack_floor())

    def read(self, after: int, max_messages: int) -> list[SourceMessage]:
        if self._subscription is None or after != self._last_stream_sequence:
            self._run(self._recreate_consumer(after))
        return self._run(self._fetch_messages(max_messages))

    def count_remaining(self) -> int:
        return self._run(self._fetch_pending_count())

    def acknowledge(self, last_number: int) -> None:
        messages, self._unacknowledged = self._unacknowledged, []
        self._run(
            self._acknowledge_messages(
                [message for message in messages if message.metadata.sequence.stream <= last_number]
            )
        )

    def close(self) -> None:
        client, self._client, self._subscription = self._client, None, None
        with contextlib.suppress(NatsError, OSError):
            if client is not None:
                self._runner.run(client.close())
        self._runner.close()
        self._runner = asyncio.Runner()

    def _run(self, coroutine: Coroutine[object, object, ResultT]) -> ResultT:
        """Run a call to NATS; its errors never show the address, which may hold a password."""
        try:
            return self._runner.run(coroutine)
        except NotFoundError as error:
            self._subscription = None
            raise SourceUnavailable(
                f"{self._label} does not exist ({error.description}). Create it; the bridge waits for it."
            ) from None
        except (TimeoutError, NatsError, OSError) as failure:
            self._subscription = None
            reason = type(failure).__name__ if isinstance(failure, OSError) else str(failure)
            raise SourceUnavailable(
                f"{self._label} cannot be read: {reason}. Start NATS, or correct its address."
            ) from None

    async def _fetch_stream_info(self) -> StreamInfo:
        if self._client is None:
            url = resolve_secret(self._source.url, self._label)
            self._client = await nats.connect(
                url,
                connect_timeout=CONNECT_TIMEOUT_SECONDS,
                allow_reconnect=False,
                max_reconnect_attempts=1,  # the client then tries twice, and gives up
                reconnect_time_wait=0.1,
                error_cb=_ignore_error,
            )
        return await self._jetstream.stream_info(self._source.stream)

    @property
    def _jetstream(self) -> JetStreamContext:
        if self._client is None:
            raise SourceUnavailable(f"{self._label} is not connected yet.")
        return self._client.jetstream(timeout=RESPONSE_TIMEOUT_SECONDS)

    async def _fetch_ack_floor(self) -> int:
        try:
            consumer_info = await self._jetstream.consumer_info(self._source.stream, self._durable_name)
        except NotFoundError:
            return 0
        return consumer_info.ack_floor.stream_seq if consumer_info.ack_floor else 0

    async def _fetch_pending_count(self) -> int:
        consumer_info = await self._jetstream.consumer_info(self._source.stream, self._durable_name)
        return consumer_info.num_pending or 0

    async def _recreate_consumer(self, after: int) -> None:
        """Create a consumer that starts after a number; a work queue's consumer gets all unacknowledged messages."""
        stream = self._source.stream
        with contextlib.suppress(NotFoundError):
            await self._jetstream.delete_consumer(stream, self._durable_name)
        start_policy = (
            {"deliver_policy": DeliverPolicy.ALL}
            if self._is_work_queue
            else {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": after + 1}
        )
        config = ConsumerConfig(
            durable_name=self._durable_name,
            filter_subject=self._source.subject,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACK_WAIT_SECONDS,
            max_ack_pending=MAX_ACK_PENDING,
            **start_policy,
        )
        await self._jetstream.add_consumer(stream, config)
        self._subscription = await self._jetstream.pull_subscribe_bind(consumer=self._durable_name, stream=stream)
        self._last_stream_sequence, self._last_consumer_sequence, self._unacknowledged = after, 0, []

    async def _fetch_messages(self, max_messages: int) -> list[SourceMessage]:
        if self._subscription is None:
            return []
        try:
            messages = await self._subscription.fetch(max_messages, timeout=FETCH_TIMEOUT_SECONDS)
        except TimeoutError:  # no message arrived; the client raises its own subclass or Python's class
            return []
        return [self._to_source_message(message) for message in messages if self._accept_message(message)]

    def _accept_message(self, message: Msg) -> bool:
        """Whether a message is new and follows the last one; a gap rejects messages until the consumer is recreated."""
        sequence = message.metadata.sequence
        if self._subscription is None or sequence.consumer != self._last_consumer_sequence + 1:
            self._subscription = None
            return False
        self._last_consumer_sequence = sequence.consumer
        self._unacknowledged.append(message)
        if sequence.stream <= self._last_stream_sequence:  # redelivered: our log has it
            return False
        self._last_stream_sequence = sequence.stream
        return True

    def _to_source_message(self, message: Msg) -> SourceMessage:
        headers = [(name, value.encode()) for name, value in (message.headers or {}).items()]
        return SourceMessage(message.metadata.sequence.stream, message.data, headers)

    async def _acknowledge_messages(self, messages: list[Msg]) -> None:
        for message in messages:
            await message.ack()
        if self._client is not None and messages:
            await self._client.flush()


async def _ignore_error(_error: Exception) -> None:
    """Ignore the client's background errors: calls raise them, and printed, they could show the address."""
