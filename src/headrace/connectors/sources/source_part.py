"""The bridge part of an app: copies each stream that has an external source, in its own thread."""

import threading
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from headrace.connectors.sources.source_reader import SourceReader
from headrace.connectors.sources.source_worker import SourceWorker
from headrace.declare.app import App
from headrace.declare.streams.stream import Stream
from headrace.kafka.client.startup_retries import retry_until_stopped
from headrace.kafka.status.reports.connectors import SourceProgress
from headrace.kafka.topics import ensure_topics
from headrace.kafka.workers.restarting_worker import RestartingWorker
from headrace.kafka.workers.worker_group import WorkerGroup


def external_streams(app: App) -> list[Stream]:
    """The streams of an app that have an external source."""
    return [stream for stream in app.streams if stream.from_ is not None]


def create_source_readers(stream: Stream) -> list[SourceReader]:
    """Create the readers of a stream's source, one per split; imports only the driver that they need."""
    if stream.from_ is None:
        raise ValueError(f"{stream.name} comes from nowhere else")
    source = stream.from_
    reader_class: type[SourceReader] = source.reader.load(f"Stream {stream.name!r} comes from {source.kind} and")
    return [reader_class(split, stream.name) for split in source.splits]


def run_sources(app: App, broker: str, stop: threading.Event) -> None:
    """Copy the external sources of an app until `stop` is set."""
    streams = external_streams(app)
    if not streams:
        stop.wait()
        return
    prepare = partial(ensure_topics, broker, app.streams, app.views, app.models)
    if retry_until_stopped(prepare, stop, "Bridges") is None:
        return
    workers = [
        RestartingWorker(f"The bridge of {stream.name}", partial(_create_worker, stream, split_index, broker))
        for stream in streams
        for split_index in range(len(create_source_readers(stream)))
    ]
    WorkerGroup("Reporting bridges", workers, broker, merge_reports=merge_progress_by_stream).run(stop)


def _create_worker(stream: Stream, split_index: int, broker: str, _restart_count: int) -> SourceWorker:
    return SourceWorker(stream, create_source_readers(stream)[split_index], broker)


def merge_progress_by_stream(reports: Iterable[SourceProgress]) -> list[SourceProgress]:
    """Merge the reports of a stream's bridges into one per stream."""
    progress_by_stream: dict[str, SourceProgress] = {}
    for report in reports:
        merged = progress_by_stream.get(report.bridged, SourceProgress(report.bridged, report.at_us, 0, 0, ""))
        copied, remaining, error = (
            merged.copied + report.copied,
            merged.left + report.left,
            merged.trouble or report.trouble,
        )
        progress_by_stream[report.bridged] = replace(report, copied=copied, left=remaining, trouble=error)
    return list(progress_by_stream.values())
