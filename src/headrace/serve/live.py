"""GET /live: every number of /metrics once a second, as server-sent events, looked up once for all who listen."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf

import orjson
from prometheus_client.metrics_core import Metric

from headrace.serve.answers import Answer, Tell
from headrace.serve.http import Request

EVERY_SECONDS = 1.0
FEW = 20
TURNS, TURNS_SECONDS = 400, 0.8  # of many who listen: libuv knows no pause shorter than a millisecond
RETRY = b"retry: 1000\n\n"
EVENTS = b"text/event-stream"
NOT_KEPT = ((b"cache-control", b"no-store"),)
LOGGER = logging.getLogger("headrace.serve")


def snapshot(
    families: Iterable[Metric],
    words: Mapping[str, str] | None = None,
    down: Sequence[Mapping[str, object]] | None = None,
) -> bytes:
    """The moment and all samples in JSON, of each its name, labels and value; in words what holds back queries, and
    what is down.
    """
    samples = [[sample.name, sample.labels, _in_json(sample.value)] for family in families for sample in family.samples]
    held = {} if words is None else {"held": words}
    outages = {} if down is None else {"down": down}
    return orjson.dumps({"at": time.time_ns() // 1_000_000, "samples": samples, **held, **outages})


def _in_json(value: float) -> float | str:
    """JSON has no infinity; JavaScript reads this word as the number."""
    return "Infinity" if value == inf else value


class Live:
    """Tells whoever listens what is so now, and other news; nobody looks while nobody listens."""

    def __init__(self, look: Callable[[], bytes], news: Callable[[], bytes] = bytes) -> None:
        self._look, self._news = look, news
        self._listening: list[Tell] = []
        self._looking: asyncio.Task[None] | None = None

    async def __call__(self, _request: Request) -> Answer:
        return Answer(200, b"", EVENTS, NOT_KEPT, self._join)

    def _join(self, tell: Tell) -> None:
        """One more listens; somebody's listening keeps alive the task that looks."""
        tell(RETRY)
        self._listening.append(tell)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_on())

    async def _look_on(self) -> None:
        while self._listening:
            began = time.monotonic()
            try:
                told = b"data: %b\n\n%b" % (await asyncio.to_thread(self._look), self._news())
            except Exception:
                LOGGER.exception("the numbers of this second could not be told")
                told = b": none\n\n"
            await self._tell_all(told)
            await asyncio.sleep(max(0.0, began + EVERY_SECONDS - time.monotonic()))

    async def _tell_all(self, told: bytes) -> None:
        """A few at a time: many at once would hold up whoever asks. Who has gone is told no more."""
        listening, began = self._listening, time.monotonic()
        self._listening = []
        at_once = -(-len(listening) // TURNS) if len(listening) > FEW else FEW
        for turn, first in enumerate(range(0, len(listening), at_once)):
            if turn:
                due = began + turn * TURNS_SECONDS / TURNS
                await asyncio.sleep(max(0.0, due - time.monotonic()))
            self._listening += [tell for tell in listening[first : first + at_once] if tell(told)]
