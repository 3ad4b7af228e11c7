"""The bridge part of an app: each stream that comes from elsewhere in a thread of its own."""

import threading
from importlib import import_module

from headrace.bridge.reader import Reader
from headrace.bridge.work import Bridging
from headrace.declare.app import App
from headrace.declare.stream import Stream
from headrace.errors import HeadraceError
from headrace.log.produce import Producer
from headrace.log.progress import ensure_progress_topic, report
from headrace.log.topics import ensure_topics

REPORT_SECONDS = 1.0


class DriverMissing(HeadraceError):
    """What another log needs is not installed."""


def bridged(app: App) -> list[Stream]:
    """The streams of an app that come from elsewhere."""
    return [stream for stream in app.streams if stream.from_ is not None]


def reader_of(stream: Stream) -> Reader:
    """Who reads where a stream comes from; what others need is not imported."""
    if stream.from_ is None:
        raise ValueError(f"{stream.name} comes from nowhere else")
    kind = stream.from_.kind
    try:
        room = import_module(f"headrace.bridge.{kind}")
    except ModuleNotFoundError as missing:
        raise DriverMissing(
            f"Stream {stream.name!r} comes from {kind} and needs {missing.name}. "
            f"Install it: pip install 'headrace[{kind}]'."
        ) from missing
    reader: Reader = getattr(room, f"{kind.title()}Reader")(stream.from_, stream.name)
    return reader


def bridge_until(app: App, broker: str, stop: threading.Event) -> None:
    """Copy what comes from elsewhere until `stop` is set."""
    streams = bridged(app)
    if not streams:
        stop.wait()
        return
    ensure_topics(broker, app.streams, app.views, app.models)
    bridges = [Bridging(stream, reader_of(stream), broker) for stream in streams]
    try:
        for bridge in bridges:
            bridge.start()
        _watch(bridges, broker, stop)
    finally:
        for bridge in bridges:
            bridge.stop()


def _watch(bridges: list[Bridging], broker: str, stop: threading.Event) -> None:
    ensure_progress_topic(broker)
    producer = Producer(broker)
    while not stop.wait(REPORT_SECONDS):
        for bridge in bridges:
            if bridge.failure is not None:
                raise bridge.failure
            report(producer, bridge.progress())
