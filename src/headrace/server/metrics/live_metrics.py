"""GET /live: every metric of /metrics once a second, as server-sent events, collected once for all clients."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf

import orjson
from prometheus_client.metrics_core import Metric

from headrace.server.http.responses import Response, SendChunk
from headrace.server.http.routing import Request

UPDATE_SECONDS = 1.0
MIN_BATCH = 20
MAX_BATCHES, BROADCAST_SECONDS = 400, 0.8  # of many clients: libuv has no timer shorter than a millisecond
RETRY_EVENT = b"retry: 1000\n\n"
EVENT_STREAM_TYPE = b"text/event-stream"
NO_STORE_HEADERS = ((b"cache-control", b"no-store"),)
LOGGER = logging.getLogger("headrace.serve")


def encode_snapshot(
    families: Iterable[Metric],
    watermark_causes: Mapping[str, str] | None = None,
    down_parts: Sequence[Mapping[str, object]] | None = None,
) -> bytes:
    """The time and all samples in JSON, each with its name, labels and value; the causes of slow watermarks as text,
    and what is down.
    """
    samples = [
        [sample.name, sample.labels, _to_json_number(sample.value)] for family in families for sample in family.samples
    ]
    held_fields = {} if watermark_causes is None else {"held": watermark_causes}
    down_fields = {} if down_parts is None else {"down": down_parts}
    return orjson.dumps({"at": time.time_ns() // 1_000_000, "samples": samples, **held_fields, **down_fields})


def _to_json_number(value: float) -> float | str:
    """A number for JSON, which has no infinity: JavaScript parses this text as the number."""
    return "Infinity" if value == inf else value


class LiveMetricsHandler:
    """Streams snapshots and other events to every client; collects nothing without a client."""

    def __init__(self, take_snapshot: Callable[[], bytes], take_events: Callable[[], bytes] = bytes) -> None:
        self._take_snapshot, self._take_events = take_snapshot, take_events
        self._listeners: list[SendChunk] = []
        self._update_task: asyncio.Task[None] | None = None

    async def __call__(self, _request: Request) -> Response:
        return Response(200, b"", EVENT_STREAM_TYPE, NO_STORE_HEADERS, self._subscribe)

    def _subscribe(self, send_chunk: SendChunk) -> None:
        """Add a client; the task that collects runs while there is one."""
        send_chunk(RETRY_EVENT)
        self._listeners.append(send_chunk)
        if self._update_task is None or self._update_task.done():
            self._update_task = asyncio.create_task(self._send_updates())

    async def _send_updates(self) -> None:
        while self._listeners:
            started = time.monotonic()
            try:
                event = b"data: %b\n\n%b" % (await asyncio.to_thread(self._take_snapshot), self._take_events())
            except Exception:
                LOGGER.exception("Could not send the metrics of this second")
                event = b": none\n\n"
            await self._broadcast(event)
            await asyncio.sleep(max(0.0, started + UPDATE_SECONDS - time.monotonic()))

    async def _broadcast(self, event: bytes) -> None:
        """Send in batches, since many sends at once would delay other requests; drop clients that have disconnected."""
        listeners, started = self._listeners, time.monotonic()
        self._listeners = []
        batch_size = -(-len(listeners) // MAX_BATCHES) if len(listeners) > MIN_BATCH else MIN_BATCH
        for batch_index, batch_start in enumerate(range(0, len(listeners), batch_size)):
            if batch_index:
                due_at = started + batch_index * BROADCAST_SECONDS / MAX_BATCHES
                await asyncio.sleep(max(0.0, due_at - time.monotonic()))
            self._listeners += [
                send_chunk for send_chunk in listeners[batch_start : batch_start + batch_size] if send_chunk(event)
            ]
