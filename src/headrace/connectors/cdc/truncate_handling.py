"""Retracts published rows: a delete for each, which every reader understands.

A TRUNCATE message names no row, so readers cannot apply it: each row from before it is published as deleted at the
log position of the TRUNCATE. Rows from after it have a later position, and stay.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from headrace.declare.streams.change_capture import CHANGED_AT, DELETED, LSN, OP, Changes
from headrace.errors import HeadraceError
from headrace.kafka.consumers.offset_range import read_offset_range
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord
from headrace.tiles.events.event_parser import parse_event

ChangeMessage = dict[str, Any]
TRUNCATE_OPERATION = b'"op":"t"'


def publish_deletes(broker: str, changes: Changes, truncate_message: ChangeMessage | None = None) -> int:
    """Publish a delete for every live row, or for those from before a TRUNCATE; returns their number."""
    source = None if truncate_message is None else truncate_message["source"]
    live_rows = _read_live_rows(broker, changes)
    deleted_rows = {
        key: message for key, message in live_rows.items() if source is None or message["source"][LSN] < source[LSN]
    }
    with Producer(broker) as producer:
        for key, told in deleted_rows.items():
            delete_message = {"before": told["after"], "after": None, "op": "d", "source": source or told["source"]}
            producer.send(changes.name, orjson.dumps(delete_message), key=key, partition=0)
    return len(deleted_rows)


class TruncateHandler:
    """Finds TRUNCATE messages in raw records and publishes their deletes; a repeated message has no effect."""

    def __init__(self, broker: str, captured_changes: Sequence[Changes]) -> None:
        self._broker, self._changes_by_topic = broker, {changes.name: changes for changes in captured_changes}

    def handle_records(self, records: Sequence[ConsumerRecord]) -> None:
        for record in records:
            if TRUNCATE_OPERATION not in (record.value or b""):
                continue
            message = parse_change(record)
            if message is not None and message.get(OP) == "t":
                publish_deletes(self._broker, self._changes_by_topic[record.topic], message)


def _read_live_rows(broker: str, changes: Changes) -> dict[bytes, ChangeMessage]:
    """The live rows by key, according to the clean and the raw topic."""
    messages = [(record, _to_change_message(record, changes)) for record in read_topic(broker, changes.clean)]
    messages += [(record, parse_change(record)) for record in read_topic(broker, changes.name)]
    live_rows: dict[bytes, ChangeMessage] = {}
    for record, message in messages:
        if record.key is None or message is None or _is_older(message, live_rows.get(record.key)):
            continue
        if message[OP] == "d":
            live_rows.pop(record.key, None)
        elif message.get("after") is not None:
            live_rows[record.key] = message
    return live_rows


def _is_older(message: ChangeMessage, known_message: ChangeMessage | None) -> bool:
    """Whether a change is older than the known one of its key."""
    return known_message is not None and bool(message["source"][LSN] < known_message["source"][LSN])


def _to_change_message(record: ConsumerRecord, changes: Changes) -> ChangeMessage | None:
    """A clean change as Debezium wrote it."""
    event = parse_change(record)
    if event is None:
        return None
    row = {name: event[name] for name in changes.row_schema.names}
    at_us = parse_event(changes.schema, record.value)[CHANGED_AT]
    source = {LSN: event[LSN], "ts_us": at_us}
    return {"after": None if event[DELETED] else row, OP: event[OP], "source": source}


def parse_change(record: ConsumerRecord) -> ChangeMessage | None:
    """The JSON object of a record, if it is one."""
    try:
        message = orjson.loads(record.value or b"null")
    except ValueError:  # a dead letter
        return None
    return message if isinstance(message, dict) else None


def read_topic(broker: str, topic: str) -> Iterator[ConsumerRecord]:
    """All records that a topic has now; none if there is no such topic."""
    offset_client = OffsetClient(broker)
    try:
        end_offsets = offset_client.topic_end_offsets([topic])
    except HeadraceError:  # there is no such topic yet
        return
    yield from read_offset_range(broker, offset_client.topic_start_offsets([topic]), end_offsets)
