"""Replicas of the captured tables that views look up, from their clean changes."""

from headrace.declare.app import App
from headrace.declare.streams.change_capture import LatestRows
from headrace.kafka.consumers.tailing_consumer import ConsumerState, TailingConsumer
from headrace.kafka.record import ConsumerRecord
from headrace.tiles.events.event_parser import Event, parse_event
from headrace.tiles.events.lookup_tables import shared_captured_table


class TableReplica:
    """Consumes the changes of every table that a view of an app reads; an app without such views needs no thread."""

    def __init__(self, app: App, broker: str) -> None:
        self._tables_by_topic = {latest.changes.clean: latest for latest in captured_tables(app)}
        self._consumer = (
            TailingConsumer(broker, list(self._tables_by_topic), self._apply) if self._tables_by_topic else None
        )

    def start(self) -> None:
        if self._consumer:
            self._consumer.start()

    def stop(self) -> None:
        if self._consumer:
            self._consumer.stop()

    def readiness_problems(self) -> list[str]:
        """The reasons why rows are not current yet, one sentence each."""
        consumer = self._consumer
        if consumer is None or (consumer.is_caught_up and consumer.state is not ConsumerState.FAILED):
            return []
        names = ", ".join(latest.label for latest in self._tables_by_topic.values())
        return [consumer.error or f"the tables {names} have {consumer.positions.remaining_count} changes to read"]

    def _apply(self, records: list[ConsumerRecord]) -> None:
        by_topic: dict[str, list[Event]] = {}
        for record in records:
            schema = self._tables_by_topic[record.topic].changes.schema
            by_topic.setdefault(record.topic, []).append(parse_event(schema, record.value))
        for topic, changes in by_topic.items():
            shared_captured_table(self._tables_by_topic[topic]).apply(changes)


def captured_tables(app: App) -> list[LatestRows]:
    """The captured tables that views of an app look up."""
    tables = dict.fromkeys(lookup.table for view in app.views for lookup in view.lookups)
    return [table for table in tables if isinstance(table, LatestRows)]
