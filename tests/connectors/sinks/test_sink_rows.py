"""Records as rows: their values, their offsets, and which of them are duplicates."""

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

import headrace as hr
from headrace.connectors.sinks.connection_secrets import redact_secret
from headrace.connectors.sinks.sink_rows import SinkRow, SinkRowReader
from headrace.declare.sinks.sink import Sink
from headrace.kafka.consumers.external_offset_consumer import ExternalOffset
from headrace.kafka.headers import OFFSET_HEADER, ORIGIN_HEADER, REPLAYS_HEADER
from headrace.kafka.record import ConsumerRecord

stream = hr.Stream("taps", schema="id string, card string, n int, at timestamp", id="id", key="card", time="at")
sink = Sink("out", of=stream, to=hr.Kafka("y"), key=["card", "n"], columns=["card", "n", "at"])
EVENT = {"id": "e1", "card": "c1", "n": 3, "at": "2026-01-01T00:00:01Z"}


def record(offset: int, raw: int | None, topic: str = stream.clean, **changed: Any) -> ConsumerRecord:
    headers = [] if raw is None else [OFFSET_HEADER.write(raw)]
    return ConsumerRecord(topic, 1, offset, 0, b"c1", orjson.dumps(EVENT | changed), headers)


def row_of(one: ConsumerRecord, place: ExternalOffset) -> SinkRow:
    row, _ = SinkRowReader(sink).read_row(one, place)
    assert row is not None
    return row


def test_a_row_has_the_wanted_columns_and_the_place_of_its_event_in_the_raw_log() -> None:
    row = row_of(record(7, 5), ExternalOffset(7, 4))
    assert row.values == {"card": "c1", "n": 3, "at": datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)}
    assert (row.location, row.partition, row.offset) == ("taps-1@5", 1, 5)
    assert (row.offset_after, row.problem) == (ExternalOffset(8, 5), None)


@pytest.mark.parametrize("raw", [None, 3, 4])
def test_what_the_gate_wrote_again_and_what_no_gate_wrote_is_passed_over(raw: int | None) -> None:
    assert SinkRowReader(sink).read_row(record(7, raw), ExternalOffset(7, 4)) == (None, ExternalOffset(8, 4))


def test_a_row_that_is_sent_again_keeps_the_place_it_first_had_and_is_always_news() -> None:
    sent = record(2, None, topic=sink.again)
    sent = sent._replace(headers=[REPLAYS_HEADER.write("taps.clean-0@9"), ORIGIN_HEADER.write("taps-0@6")])
    row = row_of(sent, ExternalOffset(2, -1))
    assert (row.location, row.offset_after) == ("taps-0@6", ExternalOffset(3, -1))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"n": None}, "null-key: column n is of the key, and is null"),
        ({"n": "three"}, "wrong-type: column n is not a int: three"),
        ({"at": -99999999999999}, "beyond-calendar: column at"),
    ],
)
def test_a_row_that_fits_no_target_says_why_and_is_still_a_row(changed: dict[str, Any], said: str) -> None:
    row = row_of(record(7, 5, **changed), ExternalOffset(7, 4))
    assert row.problem is not None
    assert row.problem.startswith(said)
    assert row.offset_after == ExternalOffset(8, 5)


@pytest.mark.parametrize("text", ["at postgres://me:hush@db/x", "password hush is wrong", "x"])
def test_a_secret_is_taken_out_of_whatever_quotes_it(text: str) -> None:
    assert "hush" not in redact_secret(text, "postgres://me:hush@db/x")
