"""A relay that goes on: it waits for PostgreSQL, the log and its turn, longer each time, and says what it waits for."""

import logging
import os
import socket
import threading
import time

from headrace.declare.app import App
from headrace.errors import HeadraceError
from headrace.log.produce import Producer
from headrace.log.progress import OutboxProgress, ensure_progress_topic, report
from headrace.outbox.relay import Relay
from headrace.outbox.table import Standby, Table
from headrace.watch.poster import Patience

LOGGER = logging.getLogger("headrace.outbox")
PATIENCE = Patience(pause_seconds=0.2, longest_pause_seconds=30.0)
MOST_DOUBLINGS = 20
EVERY_SECONDS = 0.1
STANDBY_SECONDS = 1.0
REPORT_SECONDS = 1.0


class Relaying:
    """Runs one relay until told to stop."""

    def __init__(self, relay: Relay, name: str, every_s: float) -> None:
        self.trouble = ""
        self.retries = 0
        self._relay, self._name, self._every_s = relay, name, every_s
        self._attempt = 0
        self._copy = f"{socket.gethostname()}:{os.getpid()}"

    def run(self, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                stop.wait(self._pause())
        finally:
            self._relay.close()

    def progress(self) -> OutboxProgress:
        """What it has done so far."""
        relay, at_us = self._relay, time.time_ns() // 1000
        counted = dict(relay.fates), dict(relay.reasons), self.retries
        return OutboxProgress(self._name, self._copy, at_us, *counted, relay.waited_s, self.trouble)

    def _pause(self) -> float:
        """Do a step; how long to wait for the next."""
        try:
            count = self._relay.step()
        except Standby as problem:
            self._tell(str(problem))
            return STANDBY_SECONDS
        except HeadraceError as problem:
            self._tell(str(problem))
            return self._back_off()
        except Exception as problem:  # noqa: BLE001  # whatever it is, the other outboxes go on
            self._tell(f"{self._name} failed, and is tried again: {type(problem).__name__}: {problem}", trace=problem)
            self._relay.close()  # begins the next step with a new connection
            return self._back_off()
        self._attempt = 0
        missing = self._relay.missing
        self._tell(f"{self._name}: rows wait for {', '.join(missing)}: no such topic." if missing else "")
        return 0.0 if count else self._every_s

    def _back_off(self) -> float:
        self._attempt += 1
        self.retries += 1
        return PATIENCE.pause(min(self._attempt - 1, MOST_DOUBLINGS))

    def _tell(self, trouble: str, trace: Exception | None = None) -> None:
        if trouble and trouble != self.trouble:
            LOGGER.warning("%s", trouble, exc_info=trace)
        self.trouble = trouble


def relay_all(app: App, broker: str, stop: threading.Event, every_s: float = EVERY_SECONDS) -> None:
    """Relay every outbox of an app, each in a thread of its own, until `stop` is set."""
    streams = {stream.name: stream for stream in app.streams}
    relayings = [
        Relaying(Relay(Table(outbox.url, outbox.table), broker, streams), outbox.name, every_s)
        for outbox in app.outboxes
    ]
    threads = [threading.Thread(target=relay_until, args=(one, broker, stop), daemon=True) for one in relayings]
    for thread in threads:
        thread.start()
    stop.wait()
    for thread in threads:
        thread.join()


def relay_until(relaying: Relaying, broker: str, stop: threading.Event) -> None:
    """Relay, and tell the log of it each second, until `stop` is set."""
    telling = threading.Thread(target=_tell_on, args=(relaying, broker, stop), name="outbox progress", daemon=True)
    telling.start()
    relaying.run(stop)
    telling.join()


def _tell_on(relaying: Relaying, broker: str, stop: threading.Event) -> None:
    producer: Producer | None = None
    while not stop.wait(REPORT_SECONDS):
        try:
            if producer is None:
                ensure_progress_topic(broker)
                producer = Producer(broker)
            report(producer, relaying.progress())
        except HeadraceError as problem:
            LOGGER.debug("progress is not told: %s", problem)
