"""The sink part of an app: each of its sinks in its own thread."""

import logging
import os
import socket
import threading
import time
from functools import partial

from headrace.connectors.sinks.delivery import SinkProcessor
from headrace.connectors.sinks.parked_rows import ParkedRowWriter
from headrace.connectors.sinks.writer import SinkConfig, SinkWriter
from headrace.declare.app import App
from headrace.declare.sinks.sink import Sink
from headrace.errors import HeadraceError
from headrace.kafka.consumers.external_offset_consumer import ExternalOffsetConsumer
from headrace.kafka.status.reports.connectors import SinkProgress
from headrace.kafka.topics import ensure_sink_topics
from headrace.kafka.workers.restarting_worker import RestartingWorker
from headrace.kafka.workers.worker_group import WorkerGroup
from headrace.kafka.workers.worker_thread import WorkerThread

LOGGER = logging.getLogger("headrace.sink")
RETRY_SECONDS = 0.5


def create_sink_writer(sink: Sink, config: SinkConfig) -> SinkWriter:
    """Create the writer of a sink's target; imports only the driver that it needs."""
    writer_class: type[SinkWriter] = sink.to.writer.load(f"{sink.location}: Sink {sink.name!r}")
    return writer_class(sink, config)


def run_sinks(app: App, config: SinkConfig, stop: threading.Event) -> None:
    """Write an app's streams and predictions to the targets of its sinks until `stop` is set."""
    if not app.sinks:
        stop.wait()
        return
    workers = [RestartingWorker(f"Sink {sink.name}", partial(_create_worker, sink, config)) for sink in app.sinks]
    WorkerGroup("Reporting sinks", workers, config.broker).run(stop)


def _create_worker(sink: Sink, config: SinkConfig, restart_count: int) -> "SinkWorker":
    return SinkWorker(sink, create_sink_writer(sink, config), config.broker, restart_count)


class SinkWorker(WorkerThread):
    """Waits for the topic of a sink, then writes its records to the target as a member of a consumer group."""

    def __init__(self, sink: Sink, writer: SinkWriter, broker: str, restart_count: int = 0) -> None:
        """`restart_count` is the number of earlier workers of this sink in the process: each reports its own counts."""
        super().__init__(f"sink {sink.slug}")
        self.processor = SinkProcessor(sink, writer, ParkedRowWriter(broker, sink))
        self._sink, self._writer, self._broker = sink, writer, broker
        self._consumer = ExternalOffsetConsumer(broker, [sink.source_topic, sink.again], self.processor, sink.group)
        self.processor.consumer = self._consumer
        self._instance_id = f"{socket.gethostname()}:{os.getpid()}" + (f":{restart_count}" if restart_count else "")

    def _work(self) -> None:
        self._wait_for_topic()
        if not self.stop_event.is_set():
            LOGGER.info(
                "%s: %s to %s, %s", self._sink.name, self._sink.source_topic, self._sink.to, self._sink.delivery
            )
            self._consumer.run()

    def _interrupt(self) -> None:
        self._consumer.stop()

    def _close(self) -> None:
        self._writer.close()

    def progress(self) -> SinkProgress:
        """Its progress so far."""
        processor, at_us = self.processor, time.time_ns() // 1000
        counts = dict(processor.fate_counts), dict(processor.reason_counts), processor.retry_count, processor.error
        return SinkProgress(self._sink.name, self._instance_id, at_us, *counts)

    def _wait_for_topic(self) -> None:
        """Wait for the source topic; the processor waits for an unavailable target itself, so that lag is visible."""
        while not self.stop_event.is_set():
            try:
                ensure_sink_topics(self._broker, self._sink)
            except HeadraceError as error:
                if str(error) != self.processor.error:
                    LOGGER.warning("%s is waiting: %s", self._sink.name, error)
                self.processor.error = str(error)
                self.stop_event.wait(RETRY_SECONDS)
            else:
                self.processor.error = ""
                return
