"""NATS JetStream: a durable pull consumer, begun anew wherever the bridge says.

Messages are taken in the order of the stream. One that was lost on the way would be given again only after a while and
behind others, so a gap in what the consumer has sent makes us begin again after the last one that we have.
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

from headrace.bridge.reader import Arrived, Away, Unreadable
from headrace.declare.sources import Nats
from headrace.log.secrets import secret_in

CONNECT_SECONDS = 5
ANSWER_SECONDS = 30.0  # what a busy server may take
WAIT_SECONDS = 0.3
ACK_SECONDS = 60.0
PENDING = 5000
Answer = TypeVar("Answer")


class NatsReader:
    """Reads a stream as the consumer `headrace-NAME`, which is this bridge's alone."""

    def __init__(self, source: Nats, name: str) -> None:
        self._source, self._durable = source, f"headrace-{name.replace('.', '_')}"
        self._where = f"NATS stream {source.stream!r} of {name}"
        self._loop = asyncio.Runner()
        self._client: Client | None = None
        self._taking: JetStreamContext.PullSubscription | None = None
        self._is_queue = False
        self._last, self._sent = 0, 0  # the last message we took, and the consumer's own count of what it sent
        self._unacked: list[Msg] = []

    def open(self) -> str:
        info = self._do(self._open())
        retention = info.config.retention
        if retention == RetentionPolicy.INTEREST:
            raise Unreadable(
                f"{self._where} keeps only what consumers wait for: a bridge that begins anew would lose messages. "
                "Set its retention to limits or workqueue."
            )
        self._is_queue = retention == RetentionPolicy.WORK_QUEUE
        return f"nats:{self._source.stream}@{info.created}"

    def kept(self) -> int:
        """As the consumer remembers what was acknowledged."""
        return self._do(self._acknowledged())

    def read(self, after: int, most: int) -> list[Arrived]:
        if self._taking is None or after != self._last:
            self._do(self._begin(after))
        return self._do(self._fetch(most))

    def left(self) -> int:
        return self._do(self._pending())

    def keep(self, through: int) -> None:
        taken, self._unacked = self._unacked, []
        self._do(self._ack([message for message in taken if message.metadata.sequence.stream <= through]))

    def close(self) -> None:
        client, self._client, self._taking = self._client, None, None
        with contextlib.suppress(NatsError, OSError):
            if client is not None:
                self._loop.run(client.close())
        self._loop.close()
        self._loop = asyncio.Runner()

    def _do(self, work: Coroutine[object, object, Answer]) -> Answer:
        """Wait for NATS; whatever went wrong is told without its address, which may have a password."""
        try:
            return self._loop.run(work)
        except NotFoundError as missing:
            self._taking = None
            raise Away(f"{self._where} is not there ({missing.description}). Create it; it is waited for.") from None
        except (TimeoutError, NatsError, OSError) as error:
            self._taking = None
            told = type(error).__name__ if isinstance(error, OSError) else str(error)
            raise Away(f"{self._where} cannot be read: {told}. Start NATS, or mend its address.") from None

    async def _open(self) -> StreamInfo:
        if self._client is None:
            url = secret_in(self._source.url, self._where)
            self._client = await nats.connect(
                url,
                connect_timeout=CONNECT_SECONDS,
                allow_reconnect=False,
                max_reconnect_attempts=1,  # with which it tries twice, and gives up
                reconnect_time_wait=0.1,
                error_cb=_unsaid,
            )
        return await self._jetstream.stream_info(self._source.stream)

    @property
    def _jetstream(self) -> JetStreamContext:
        if self._client is None:
            raise Away(f"{self._where} is not reached yet.")
        return self._client.jetstream(timeout=ANSWER_SECONDS)

    async def _acknowledged(self) -> int:
        try:
            known = await self._jetstream.consumer_info(self._source.stream, self._durable)
        except NotFoundError:
            return 0
        return known.ack_floor.stream_seq if known.ack_floor else 0

    async def _pending(self) -> int:
        known = await self._jetstream.consumer_info(self._source.stream, self._durable)
        return known.num_pending or 0

    async def _begin(self, after: int) -> None:
        """A consumer that starts there; one of a queue is given whatever nobody has acknowledged."""
        stream = self._source.stream
        with contextlib.suppress(NotFoundError):
            await self._jetstream.delete_consumer(stream, self._durable)
        start = (
            {"deliver_policy": DeliverPolicy.ALL}
            if self._is_queue
            else {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": after + 1}
        )
        config = ConsumerConfig(
            durable_name=self._durable,
            filter_subject=self._source.subject,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACK_SECONDS,
            max_ack_pending=PENDING,
            **start,
        )
        await self._jetstream.add_consumer(stream, config)
        self._taking = await self._jetstream.pull_subscribe_bind(consumer=self._durable, stream=stream)
        self._last, self._sent, self._unacked = after, 0, []

    async def _fetch(self, most: int) -> list[Arrived]:
        if self._taking is None:
            return []
        try:
            messages = await self._taking.fetch(most, timeout=WAIT_SECONDS)
        except TimeoutError:  # nothing came; the client raises its own kind of it, or Python's where time was short
            return []
        return [self._arrived(message) for message in messages if self._is_next(message)]

    def _is_next(self, message: Msg) -> bool:
        """Whether it comes after what we have; after a gap nothing does, until we begin again."""
        place = message.metadata.sequence
        if self._taking is None or place.consumer != self._sent + 1:
            self._taking = None
            return False
        self._sent = place.consumer
        self._unacked.append(message)
        if place.stream <= self._last:  # given again: our log has it
            return False
        self._last = place.stream
        return True

    def _arrived(self, message: Msg) -> Arrived:
        headers = [(name, value.encode()) for name, value in (message.headers or {}).items()]
        return Arrived(message.metadata.sequence.stream, message.data, headers)

    async def _ack(self, messages: list[Msg]) -> None:
        for message in messages:
            await message.ack()
        if self._client is not None and messages:
            await self._client.flush()


async def _unsaid(_error: Exception) -> None:
    """Whatever the client says on the side is raised by what was asked for; printed, it could show the address."""
