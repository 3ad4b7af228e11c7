"""GET /live: every number of /metrics once a second, as server-sent events, looked up once for all who listen."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterable

import orjson
from prometheus_client.metrics_core import Metric

from headrace.serve.answers import Answer
from headrace.serve.http import Request

EVERY_SECONDS = 1.0
EVENTS = b"text/event-stream"
NOT_KEPT = ((b"cache-control", b"no-store"),)
LOGGER = logging.getLogger("headrace.serve")


def snapshot(families: Iterable[Metric]) -> bytes:
    """All samples in JSON: the moment, and of each its name, its labels and its value."""
    samples = [[sample.name, sample.labels, sample.value] for family in families for sample in family.samples]
    return orjson.dumps({"at": time.time_ns() // 1_000_000, "samples": samples})


class Live:
    """Tells whoever listens what is so now; nobody looks while nobody listens."""

    def __init__(self, look: Callable[[], bytes]) -> None:
        self._look = look
        self._listening = 0
        self._looking: asyncio.Task[None] | None = None
        self._next: asyncio.Future[bytes] | None = None

    async def __call__(self, _request: Request) -> Answer:
        return Answer(200, b"", EVENTS, NOT_KEPT, self._pieces())

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        self._listening += 1
        try:
            yield b"retry: 1000\n\n"
            while True:
                yield await asyncio.shield(self._awaited())
        finally:
            self._listening -= 1

    def _awaited(self) -> asyncio.Future[bytes]:
        """What is looked up next, by a task that somebody's listening keeps alive."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_on())
        return self._next

    async def _look_on(self) -> None:
        while self._listening:
            began = time.monotonic()
            try:
                told = b"data: %b\n\n" % await asyncio.to_thread(self._look)
            except Exception:
                LOGGER.exception("the numbers of this second could not be told")
                told = b": none\n\n"
            if self._next is not None:
                self._next.set_result(told)
                self._next = None
            await asyncio.sleep(max(0.0, began + EVERY_SECONDS - time.monotonic()))
