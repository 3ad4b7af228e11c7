"""The bridge part of an app: each stream that comes from elsewhere in a thread of its own."""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from headrace.bridge.reader import Reader
from headrace.bridge.work import Bridging
from headrace.declare.app import App
from headrace.declare.sources import Source
from headrace.declare.stream import Stream
from headrace.extras import module_of
from headrace.log.kept_worker import KeptWorker
from headrace.log.produce import Producer
from headrace.log.progress import BridgeProgress, ensure_progress_topic, report
from headrace.log.retries import retry_until
from headrace.log.topics import ensure_topics

REPORT_SECONDS = 1.0


def bridged(app: App) -> list[Stream]:
    """The streams of an app that come from elsewhere."""
    return [stream for stream in app.streams if stream.from_ is not None]


def readers_of(stream: Stream) -> list[Reader]:
    """Who reads where a stream comes from, each part of it by one; what others need is not imported."""
    if stream.from_ is None:
        raise ValueError(f"{stream.name} comes from nowhere else")
    kind = stream.from_.kind
    room = module_of("bridge", kind, f"Stream {stream.name!r} comes from {kind} and")
    reader: Callable[[Source, str], Reader] = getattr(room, f"{kind.title()}Reader")
    return [reader(part, stream.name) for part in stream.from_.parts]


def bridge_until(app: App, broker: str, stop: threading.Event) -> None:
    """Copy what comes from elsewhere until `stop` is set."""
    streams = bridged(app)
    if not streams:
        stop.wait()
        return
    prepare = partial(ensure_topics, broker, app.streams, app.views, app.models)
    if retry_until(prepare, stop, "Bridges") is None:
        return
    bridges = [
        KeptWorker(f"The bridge of {stream.name}", partial(_bridging, stream, place, broker))
        for stream in streams
        for place in range(len(readers_of(stream)))
    ]
    try:
        for bridge in bridges:
            bridge.start()
        _watch(bridges, broker, stop)
    finally:
        for bridge in bridges:
            bridge.stop()


def _bridging(stream: Stream, place: int, broker: str, _number: int) -> Bridging:
    return Bridging(stream, readers_of(stream)[place], broker)


def _watch(bridges: Sequence[KeptWorker[Bridging]], broker: str, stop: threading.Event) -> None:
    """Restart each bridge that has failed, alone, and report all."""
    retry_until(partial(ensure_progress_topic, broker), stop, "Reporting bridges")
    producer = Producer(broker)
    while not stop.wait(REPORT_SECONDS):
        for bridge in bridges:
            bridge.look()
        for said in of_streams([_progress(bridge) for bridge in bridges]):
            report(producer, said)


def _progress(bridge: KeptWorker[Bridging]) -> BridgeProgress:
    said = bridge.worker.progress()
    return replace(said, trouble=said.trouble or bridge.error)


def of_streams(said: Iterable[BridgeProgress]) -> list[BridgeProgress]:
    """What the bridges of each stream have done, as one word."""
    streams: dict[str, BridgeProgress] = {}
    for one in said:
        rest = streams.get(one.bridged, BridgeProgress(one.bridged, one.at_us, 0, 0, ""))
        copied, left, trouble = rest.copied + one.copied, rest.left + one.left, rest.trouble or one.trouble
        streams[one.bridged] = replace(one, copied=copied, left=left, trouble=trouble)
    return list(streams.values())
