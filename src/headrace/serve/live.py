"""GET /live: every number of /metrics once a second, as server-sent events, looked up once for all who listen."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from math import inf

import orjson
from prometheus_client.metrics_core import Metric

from headrace.serve.answers import Answer
from headrace.serve.http import Request

EVERY_SECONDS = 1.0
FEW = 20
TURNS, TURNS_SECONDS = 500, 0.8  # many who listen are told in turns: at once they would hold up whoever asks
EVENTS = b"text/event-stream"
NOT_KEPT = ((b"cache-control", b"no-store"),)
LOGGER = logging.getLogger("headrace.serve")


def snapshot(families: Iterable[Metric], words: Mapping[str, str] | None = None) -> bytes:
    """The moment and all samples in JSON, of each its name, labels and value; and in words what holds back queries."""
    samples = [[sample.name, sample.labels, _in_json(sample.value)] for family in families for sample in family.samples]
    held = {} if words is None else {"held": words}
    return orjson.dumps({"at": time.time_ns() // 1_000_000, "samples": samples, **held})


def _in_json(value: float) -> float | str:
    """JSON has no infinity; JavaScript reads this word as the number."""
    return "Infinity" if value == inf else value


class Live:
    """Tells whoever listens what is so now, and other news; nobody looks while nobody listens."""

    def __init__(self, look: Callable[[], bytes], news: Callable[[], bytes] = bytes) -> None:
        self._look, self._news = look, news
        self._listening = self._came = 0
        self._looking: asyncio.Task[None] | None = None
        self._next: asyncio.Future[bytes] | None = None

    async def __call__(self, _request: Request) -> Answer:
        return Answer(200, b"", EVENTS, NOT_KEPT, self._pieces())

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        self._listening += 1
        self._came += 1
        turn = self._came % TURNS
        try:
            yield b"retry: 1000\n\n"
            while True:
                told = await asyncio.shield(self._awaited())
                if self._listening > FEW:
                    await asyncio.sleep(turn * TURNS_SECONDS / TURNS)
                yield told
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
                told = b"data: %b\n\n%b" % (await asyncio.to_thread(self._look), self._news())
            except Exception:
                LOGGER.exception("the numbers of this second could not be told")
                told = b": none\n\n"
            if self._next is not None:
                self._next.set_result(told)
                self._next = None
            await asyncio.sleep(max(0.0, began + EVERY_SECONDS - time.monotonic()))
