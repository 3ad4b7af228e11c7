"""The sink part of an app: each of its sinks in a thread of its own."""

import logging
import os
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from headrace.connectors.sinks.delivery import SinkProcessor
from headrace.connectors.sinks.parked_rows import ParkedRowWriter
from headrace.connectors.sinks.writer import SinkConfig, SinkWriter
from headrace.declare.app import App
from headrace.declare.sinks.sink import Sink
from headrace.errors import HeadraceError
from headrace.kafka.client.startup_retries import retry_until_stopped
from headrace.kafka.consumers.external_offset_consumer import ExternalOffsetConsumer
from headrace.kafka.consumers.restarting_worker import RestartingWorker
from headrace.kafka.producer.producer import Producer
from headrace.kafka.status.heartbeat import ensure_progress_topic, publish_progress
from headrace.kafka.status.reports.connectors import SinkProgress
from headrace.kafka.topics import ensure_sink_topics

LOGGER = logging.getLogger("headrace.sink")
RETRY_SECONDS = 0.5
REPORT_INTERVAL_SECONDS = 1.0


def create_sink_writer(sink: Sink, config: SinkConfig) -> SinkWriter:
    """Who writes to a sink's target; what others need is not imported."""
    writer_class: type[SinkWriter] = sink.to.writer.load(f"{sink.location}: Sink {sink.name!r}")
    return writer_class(sink, config)


def run_sinks(app: App, config: SinkConfig, stop: threading.Event) -> None:
    """Bring an app's streams and predictions where they are wanted until `stop` is set."""
    if not app.sinks:
        stop.wait()
        return
    workers = [RestartingWorker(f"Sink {sink.name}", partial(_create_worker, sink, config)) for sink in app.sinks]
    try:
        for worker in workers:
            worker.start()
        _supervise_workers(workers, config.broker, stop)
    finally:
        for worker in workers:
            worker.stop()


def _create_worker(sink: Sink, config: SinkConfig, restart_count: int) -> "SinkWorker":
    return SinkWorker(sink, create_sink_writer(sink, config), config.broker, restart_count)


def _supervise_workers(workers: Sequence[RestartingWorker["SinkWorker"]], broker: str, stop: threading.Event) -> None:
    """Restart each sink that has failed, alone, and report all."""
    retry_until_stopped(partial(ensure_progress_topic, broker), stop, "Reporting sinks")
    producer = Producer(broker)
    while not stop.wait(REPORT_INTERVAL_SECONDS):
        for worker in workers:
            worker.restart_if_failed()
            progress = worker.worker.progress()
            publish_progress(producer, replace(progress, trouble=progress.trouble or worker.error))


class SinkWorker(threading.Thread):
    """Waits for the topic of a sink, then brings it to its target as one of a group."""

    def __init__(self, sink: Sink, writer: SinkWriter, broker: str, restart_count: int = 0) -> None:
        """`number` is how many of this sink were before it in this process: each counts for itself."""
        super().__init__(name=f"sink {sink.slug}", daemon=True)
        self.processor = SinkProcessor(sink, writer, ParkedRowWriter(broker, sink))
        self._sink, self._writer, self._broker = sink, writer, broker
        self._consumer = ExternalOffsetConsumer(broker, [sink.source_topic, sink.again], self.processor, sink.group)
        self.processor.consumer = self._consumer
        self._failure: BaseException | None = None
        self._instance_id = f"{socket.gethostname()}:{os.getpid()}" + (f":{restart_count}" if restart_count else "")

    def run(self) -> None:
        try:
            self._wait_for_topic()
            if not self._consumer.stop_event.is_set():
                LOGGER.info(
                    "%s: %s to %s, %s", self._sink.name, self._sink.source_topic, self._sink.to, self._sink.delivery
                )
                self._consumer.run()
        except Exception as failure:  # noqa: BLE001 - nobody is above a thread: whoever watches is told
            self._failure = failure
        finally:
            self._writer.close()

    def stop(self) -> None:
        """End after what is in hand was tried."""
        self._consumer.stop()
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
        processor, at_us = self.processor, time.time_ns() // 1000
        counts = dict(processor.fate_counts), dict(processor.reason_counts), processor.retry_count, processor.error
        return SinkProgress(self._sink.name, self._instance_id, at_us, *counts)

    def _wait_for_topic(self) -> None:
        """Wait for the topic that is read; a target that is away is waited for with what was read, so lag is seen."""
        while not self._consumer.stop_event.is_set():
            try:
                ensure_sink_topics(self._broker, self._sink)
            except HeadraceError as error:
                if str(error) != self.processor.error:
                    LOGGER.warning("%s waits: %s", self._sink.name, error)
                self.processor.error = str(error)
                self._consumer.stop_event.wait(RETRY_SECONDS)
            else:
                self.processor.error = ""
                return
