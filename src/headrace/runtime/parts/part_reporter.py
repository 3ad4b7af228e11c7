"""Reports the state of the supervisor's parts each second, to the progress topic and to STATE/status.json."""

import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from threading import Event, Thread

from headrace.embedded_servers.child_process import ProcessId
from headrace.embedded_servers.ports import is_listening, parse_address
from headrace.errors import HeadraceError
from headrace.kafka.producer.producer import Producer
from headrace.kafka.status.heartbeat import ensure_progress_topic, publish_progress
from headrace.kafka.status.reports.parts import PartProgress
from headrace.kafka.status.status_file import StatusFile, write_status
from headrace.runtime.supervisor import STOPPED, PartState

REPORT_SECONDS = 1.0
DELIVERY_SECONDS = 3.0  # older reports are useless: the next one follows
LOGGER = logging.getLogger("headrace.local")


class PartReporter:
    """Reports the states of parts until it is stopped; a broker that is down blocks nothing else."""

    def __init__(self, app: str, broker: str, state: Path, read_states: Callable[[], Sequence[PartState]]) -> None:
        self._app, self._broker, self._folder, self._read_states = app, broker, state, read_states
        process_id = ProcessId.from_pid(os.getpid())
        self._supervisor = {} if process_id is None else asdict(process_id)
        self._producer: Producer | None = None
        self._stopping = Event()
        self._send_thread = Thread(target=self._send_periodically, name="report parts", daemon=True)
        self._write_thread = Thread(target=self._write_periodically, name="write status", daemon=True)

    def start(self) -> None:
        for thread in (self._send_thread, self._write_thread):
            thread.start()

    def stop(self) -> None:
        """Report every part as stopped, then end."""
        self._stopping.set()
        for thread in (self._send_thread, self._write_thread):
            if thread.ident is not None:
                thread.join(DELIVERY_SECONDS + 1)  # does not wait for a broker that is down
        self._write(STOPPED)

    def _part_progress(self, state: str | None = None) -> list[PartProgress]:
        at_us = time.time_ns() // 1000
        reports = [to_part_progress(part, self._app, at_us) for part in self._read_states()]
        return reports if state is None else [replace(one, state=state, down_since_us=None) for one in reports]

    def _write_periodically(self) -> None:
        self._write()
        while not self._stopping.wait(REPORT_SECONDS):
            self._write()

    def _write(self, state: str | None = None) -> None:
        parts, at_us = tuple(self._part_progress(state)), time.time_ns() // 1000
        try:
            write_status(self._folder, StatusFile(self._app, at_us, self._supervisor, parts, self._broker))
        except OSError as error:  # a full disk: the topic still has it
            LOGGER.debug("Could not write the status of parts in %s: %s", self._folder, error)

    def _send_periodically(self) -> None:
        while not self._stopping.wait(REPORT_SECONDS):
            self._send()
        self._send(STOPPED)
        self._flush()

    def _send(self, state: str | None = None) -> None:
        try:
            if (producer := self._open_producer()) is not None:
                for part_progress in self._part_progress(state):
                    publish_progress(producer, part_progress)
        except HeadraceError as error:
            LOGGER.debug("Could not report the state of parts: %s", error)

    def _open_producer(self) -> Producer | None:
        """A producer while the broker is up, or None; without a broker, a client would log errors all the time."""
        if self._producer is not None and self._producer.undelivered_counts:
            self._producer = None
        if self._producer is None and is_answering(self._broker):
            ensure_progress_topic(self._broker)
            self._producer = Producer(self._broker, delivery_seconds=DELIVERY_SECONDS)
        return self._producer

    def _flush(self) -> None:
        try:
            if self._producer is not None:
                self._producer.flush()
        except HeadraceError as error:
            LOGGER.debug("Could not report the state of parts: %s", error)


def is_answering(broker: str) -> bool:
    """Whether one of a broker's addresses accepts connections."""
    return any(is_listening(*parse_address(address, "--broker")) for address in broker.split(","))


def to_part_progress(state: PartState, app: str, at_us: int) -> PartProgress:
    """Convert a part's state to a report for the progress topic."""
    return PartProgress(
        part=state.name,
        at_us=at_us,
        state=state.state,
        restarts=state.restarts,
        down_since_us=state.down_since_us,
        error=state.error,
        affects=state.affects,
        app=app,
    )
