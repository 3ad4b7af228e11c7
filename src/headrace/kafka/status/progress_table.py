"""The latest report of each kind and subject, from the records of the progress topic."""

import logging
import time
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar, cast

import orjson

from headrace.declare.features.view import View
from headrace.declare.operations.derived_stream import DerivedStream
from headrace.declare.streams.stream import Stream
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.status.heartbeat import SILENT_AFTER_US
from headrace.kafka.status.reports.progress_report import ProgressReport
from headrace.kafka.status.reports.queries import QueryProgress
from headrace.kafka.status.reports.report_types import REPORT_TYPES
from headrace.kafka.status.reports.untagged_reports import untagged_kind

ReportT = TypeVar("ReportT", bound=ProgressReport)
LOGGER = logging.getLogger("headrace.log")


class ProgressTable:
    """The latest reports; one thread applies records, any thread reads."""

    def __init__(self) -> None:
        self._reports: dict[str, dict[str, ProgressReport]] = {kind: {} for kind in REPORT_TYPES}
        self._unknown_kinds: set[str | None] = set()

    def reports(self, report_type: type[ReportT]) -> dict[str, ReportT]:
        """The latest reports of a kind, by subject; a live view that another thread may change."""
        return cast("dict[str, ReportT]", self._reports[report_type.kind])

    def latest(self, report_type: type[ReportT]) -> list[ReportT]:
        """A copy of the latest reports of a kind."""
        return list(self.reports(report_type).copy().values())

    def put(self, report: ProgressReport) -> None:
        """Store a report, which replaces the previous one of its subject."""
        self._reports[report.kind][report.subject] = report

    def apply(self, records: Iterable[ConsumerRecord]) -> None:
        """Store the reports of records; logs and skips those that cannot be read."""
        for record in records:
            if record.value is not None:
                try:
                    self._apply_message(record, orjson.loads(record.value))
                except (ValueError, KeyError, TypeError) as error:
                    LOGGER.warning("Skipped %s, which is not a status report: %s", record.location, error)

    def _apply_message(self, record: ConsumerRecord, message: Any) -> None:
        if not isinstance(message, dict):
            raise TypeError(f"it is a {type(message).__name__}, not an object")
        kind = message.get("kind") or untagged_kind(message)
        report_type = REPORT_TYPES.get(kind) if kind is not None else None
        if report_type is not None:
            self.put(report_type.from_json(message))
        elif kind not in self._unknown_kinds:
            self._unknown_kinds.add(kind)
            LOGGER.debug("Ignored reports of unknown kind %r, the first at %s", kind, record.location)

    def missing_queries(self, streams: Sequence[Stream], views: Sequence[View], now_us: int | None = None) -> list[str]:
        """The queries that do not run yet or no longer report, a sentence each."""
        now_us = now_us or time.time_ns() // 1000
        running = [
            progress
            for progress in self.latest(QueryProgress)
            if progress.running and now_us - progress.at_us < SILENT_AFTER_US
        ]
        gated_streams = {query.stream for query in running if query.is_gate}
        computed_tiles = {(query.stream, view) for query in running for view in query.views}
        derived_streams = {stream for query in running for stream in query.derives}
        return [
            *(
                f"{stream.name} is not derived yet"
                for stream in streams
                if isinstance(stream, DerivedStream) and stream.name not in derived_streams
            ),
            *(f"the gate of {stream.name} does not run yet" for stream in streams if stream.name not in gated_streams),
            *(
                f"the tiles of {_describe_tiles(view, stream)} are not computed yet"
                for view in views
                for stream in view.streams
                if (stream.name, view.name) not in computed_tiles
            ),
        ]


def _describe_tiles(view: View, stream: Stream) -> str:
    return view.name if len(view.streams) == 1 else f"{view.name} from {stream.name}"
