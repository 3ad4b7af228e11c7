"""A server process: cards in memory or in Redis, or the same constant for every request.

python -m bench.servers memory --cards 1000 --visits 10 --now 1767225600000000
"""

import contextlib
import json
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click
import redis
import uvicorn
import uvloop

from bench.app import CardSpend, payments
from bench.entities import Cards
from headrace.declare.app import App
from headrace.embedded_servers.ports import HOST
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.status.progress_table import ProgressTable
from headrace.online_store.memory.memory_store import MAX_CACHED_READS, MemoryStore
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader, OnlineStoreReader, tune_for_latency
from headrace.online_store.redis.pipeline import PipelinedHashReader
from headrace.online_store.redis.redis_store import RedisStore
from headrace.online_store.shared_store import MAX_CACHED_ENTITIES
from headrace.online_store.shared_store_reader import SharedStoreReader
from headrace.server.features.feature_routes import FeaturesHandler
from headrace.server.http.listener import HttpServer, bind
from headrace.server.http.routing import Router, post_route
from headrace.server.inference.model_resolver import ModelServingContext
from headrace.server.inference.prediction_log import PredictionLog
from headrace.server.metrics.ledgers import StreamLedgers
from headrace.server.metrics.metric_history import MetricHistory
from headrace.server.server import ServerComponents, serve_until

NO_BROKER = "127.0.0.1:1"
PATH = f"/features/{CardSpend.name}"


@dataclass(frozen=True)
class Filled:
    """The content of a server, and the duration of filling it."""

    port: int = 0
    cards: int = 0
    tiles: int = 0
    apply_seconds: float = 0.0
    bytes: int = 0


@click.group()
@click.option("--workers", default=1)
@click.pass_context
def main(context: click.Context, workers: int) -> None:
    """Serve until SIGTERM; the first output line has the port and the cost of filling the store."""
    context.obj = workers


@main.command()
@click.option("--cards", type=int, required=True)
@click.option("--visits", type=int, required=True)
@click.option("--now", "now_us", type=int, required=True)
@click.option("--forget", is_flag=True)
def memory(cards: int, visits: int, now_us: int, forget: bool) -> None:
    """The store in the server's memory."""
    store = MemoryStore([CardSpend], 0 if forget else MAX_CACHED_READS)
    _serve_filled(MemoryStoreReader(store, None), Filling(store.apply, _resident_bytes), Cards(now_us, visits), cards)


@main.command(name="redis")
@click.option("--cards", type=int, required=True)
@click.option("--visits", type=int, required=True)
@click.option("--now", "now_us", type=int, required=True)
@click.option("--url", required=True)
@click.option("--forget", is_flag=True)
def from_redis(cards: int, visits: int, now_us: int, url: str, forget: bool) -> None:
    """The store in Redis."""
    app = App("bench", (payments,), (CardSpend,))
    store = RedisStore(url, app.views, PipelinedHashReader(url), 0 if forget else MAX_CACHED_ENTITIES)
    online = SharedStoreReader(app, NO_BROKER, store)
    client = redis.Redis.from_url(url)
    filling = Filling(online.store.apply, lambda: int(client.info("memory")["used_memory"]))
    _serve_filled(online, filling, Cards(now_us, visits), cards)


@main.command()
@click.option("--cards", type=int, required=True)
@click.option("--visits", type=int, required=True)
@click.option("--now", "now_us", type=int, required=True)
@click.argument("folder", type=click.Path(exists=True, path_type=Path))
def predict(cards: int, visits: int, now_us: int, folder: Path) -> None:
    """Scores of events, on the store in the server's memory; the fitted model is saved in a folder."""
    from bench.scoring import predicting  # noqa: PLC0415  # LightGBM is in no other server's memory

    store = MemoryStore([CardSpend])
    filled = Filling(store.apply, _resident_bytes).fill(Cards(now_us, visits), cards)
    _serve(Router([predicting(MemoryStoreReader(store, None), folder)], {}), filled)


@main.command()
@click.option("--cards", type=int, required=True)
@click.option("--visits", type=int, required=True)
@click.option("--now", "now_us", type=int, required=True)
@click.argument("folder", type=click.Path(exists=True, path_type=Path))
def whole(cards: int, visits: int, now_us: int, folder: Path) -> None:
    """All routes of a server, including its page and its metrics, on the store in its memory."""
    tune_for_latency()
    store = MemoryStore([CardSpend])
    filled = Filling(store.apply, _resident_bytes).fill(Cards(now_us, visits), cards)
    app, ledgers = App("bench", (payments,), (CardSpend,)), StreamLedgers(NO_BROKER, ())
    scoring, history = ModelServingContext(folder, PredictionLog()), MetricHistory(folder / "history.db")
    parts = ServerComponents(
        app, MemoryStoreReader(store, None), ProgressTable(), ledgers, scoring, metric_history=history
    )
    stop, (listening,) = _listening(filled, 1)
    uvloop.run(serve_until(stop, listening, parts))


@main.command()
@click.argument("answer", type=click.Path(exists=True, path_type=Path))
def constant(answer: Path) -> None:
    """The same bytes for every request, directly from uvicorn."""
    stop, (listening,) = _listening(Filled(), 1)
    config = uvicorn.Config(
        Constant(answer.read_bytes()), loop="uvloop", http="httptools", log_config=None, access_log=False
    )
    uvloop.run(Uvicorn(config, stop).serve(sockets=[listening]))


@dataclass(frozen=True)
class Filling:
    """The functions that fill a store and measure its size."""

    apply: Callable[[list[ConsumerRecord]], None]
    size_bytes: Callable[[], int]

    def fill(self, source: Cards, cards: int) -> Filled:
        """Apply the tiles of a number of cards."""
        tiles, seconds = 0, 0.0
        before = self.size_bytes()
        for batch in source.batches(cards):
            began = time.perf_counter()
            self.apply(batch)
            seconds += time.perf_counter() - began
            tiles += len(batch)
        return Filled(0, cards, tiles, seconds, self.size_bytes() - before)


class Uvicorn(uvicorn.Server):
    """uvicorn, run until an event is set."""

    def __init__(self, config: uvicorn.Config, stop: threading.Event) -> None:
        super().__init__(config)
        self._stop = stop
        tune_for_latency()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do not handle signals."""
        yield

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self._stop.is_set()


class Constant:
    """An ASGI application with a constant response."""

    def __init__(self, body: bytes) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        self._start = {"type": "http.response.start", "status": 200, "headers": headers}
        self._body = {"type": "http.response.body", "body": body}

    async def __call__(self, _scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(self._start)
        await send(self._body)


def _serve_filled(online: OnlineStoreReader, filling: Filling, source: Cards, cards: int) -> None:
    filled = filling.fill(source, cards)
    http = Router([post_route(PATH, FeaturesHandler(CardSpend, online), runs_inline=bool(online.tables))], {})
    _serve(http, filled)


def _serve(http: Router, filled: Filled) -> None:
    """Serve with the given number of processes, each with the full content."""
    tune_for_latency()
    stop, (listening, *others) = _listening(filled, click.get_current_context().obj)
    workers = [pid for one in others if (pid := _forked(one, http, stop))]
    uvloop.run(HttpServer(http, stop).serve(listening))
    for worker in workers:
        os.kill(worker, signal.SIGTERM)
        os.waitpid(worker, 0)


def _forked(listening: socket.socket, http: Router, stop: threading.Event) -> int:
    """Fork another process that serves too."""
    pid = os.fork()
    if not pid:
        uvloop.run(HttpServer(http, stop).serve(listening))
        os._exit(0)
    return pid


def _listening(filled: Filled, count: int) -> tuple[threading.Event, list[socket.socket]]:
    """The event that SIGTERM sets, and sockets that listen on one port, after printing it."""
    stop, first = threading.Event(), bind(HOST, 0, is_shared=True)
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    port = first.getsockname()[1]
    sockets = [first, *(bind(HOST, port, is_shared=True) for _ in range(count - 1))]
    for one in sockets:
        one.listen()
    print(json.dumps(asdict(replace(filled, port=port))), flush=True)
    return stop, sockets


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    main()
