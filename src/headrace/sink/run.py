"""The sink part of an app: each of its sinks in a thread of its own."""

import logging
import os
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from headrace.declare.app import App
from headrace.declare.sink import Sink
from headrace.errors import HeadraceError
from headrace.extras import module_of
from headrace.log.kept_worker import KeptWorker
from headrace.log.placed import PlacedFollower
from headrace.log.produce import Producer
from headrace.log.progress import SinkProgress, ensure_progress_topic, report
from headrace.log.retries import retry_until
from headrace.log.topics import ensure_sink_topics
from headrace.sink.park import Parking
from headrace.sink.work import Work
from headrace.sink.writer import SinkPlace, Writer

LOGGER = logging.getLogger("headrace.sink")
RETRY_SECONDS = 0.5
REPORT_SECONDS = 1.0


def writer_of(sink: Sink, place: SinkPlace) -> Writer:
    """Who writes to a sink's target; what others need is not imported."""
    kind = sink.to.kind
    room = module_of("sink", kind, f"{sink.written}: Sink {sink.name!r}")
    writer: Writer = getattr(room, f"{kind.title()}Writer")(sink, place)
    return writer


def sink_until(app: App, place: SinkPlace, stop: threading.Event) -> None:
    """Bring an app's streams and predictions where they are wanted until `stop` is set."""
    if not app.sinks:
        stop.wait()
        return
    sinkings = [KeptWorker(f"Sink {sink.name}", partial(_sinking, sink, place)) for sink in app.sinks]
    try:
        for sinking in sinkings:
            sinking.start()
        _watch(sinkings, place.broker, stop)
    finally:
        for sinking in sinkings:
            sinking.stop()


def _sinking(sink: Sink, place: SinkPlace, number: int) -> "Sinking":
    return Sinking(sink, writer_of(sink, place), place.broker, number)


def _watch(sinkings: Sequence[KeptWorker["Sinking"]], broker: str, stop: threading.Event) -> None:
    """Restart each sink that has failed, alone, and report all."""
    retry_until(partial(ensure_progress_topic, broker), stop, "Reporting sinks")
    producer = Producer(broker)
    while not stop.wait(REPORT_SECONDS):
        for sinking in sinkings:
            sinking.look()
            said = sinking.worker.progress()
            report(producer, replace(said, trouble=said.trouble or sinking.error))


class Sinking(threading.Thread):
    """Waits for the topic of a sink, then brings it to its target as one of a group."""

    def __init__(self, sink: Sink, writer: Writer, broker: str, number: int = 0) -> None:
        """`number` is how many of this sink were before it in this process: each counts for itself."""
        super().__init__(name=f"sink {sink.slug}", daemon=True)
        self.work = Work(sink, writer, Parking(broker, sink))
        self._sink, self._writer, self._broker = sink, writer, broker
        self._follower = PlacedFollower(broker, [sink.topic, sink.again], self.work, sink.group)
        self.work.group = self._follower
        self._failure: BaseException | None = None
        self._copy = f"{socket.gethostname()}:{os.getpid()}" + (f":{number}" if number else "")

    def run(self) -> None:
        try:
            self._prepare()
            if not self._follower.stopping.is_set():
                LOGGER.info("%s: %s to %s, %s", self._sink.name, self._sink.topic, self._sink.to, self._sink.delivery)
                self._follower.run()
        except Exception as failure:  # noqa: BLE001 - nobody is above a thread: whoever watches is told
            self._failure = failure
        finally:
            self._writer.close()

    def stop(self) -> None:
        """End after what is in hand was tried."""
        self._follower.stop()
        self.join()

    @property
    def failure(self) -> BaseException | None:
        """What made it stop by itself, if anything did."""
        return self._failure

    def raise_failure(self) -> None:
        """Raise what made it stop by itself, if anything did."""
        if self._failure is not None:
            raise self._failure

    def progress(self) -> SinkProgress:
        """What it has done so far."""
        work, at_us = self.work, time.time_ns() // 1000
        counted = dict(work.fates), dict(work.reasons), work.retries, work.trouble
        return SinkProgress(self._sink.name, self._copy, at_us, *counted)

    def _prepare(self) -> None:
        """Wait for the topic that is read; a target that is away is waited for with what was read, so lag is seen."""
        while not self._follower.stopping.is_set():
            try:
                ensure_sink_topics(self._broker, self._sink)
            except HeadraceError as problem:
                if str(problem) != self.work.trouble:
                    LOGGER.warning("%s waits: %s", self._sink.name, problem)
                self.work.trouble = str(problem)
                self._follower.stopping.wait(RETRY_SECONDS)
            else:
                self.work.trouble = ""
                return
