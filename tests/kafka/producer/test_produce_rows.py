"""`hr.produce`: either all rows are valid and written, or none is and the error names row and column."""

import json
import math
from datetime import UTC, datetime
from io import BytesIO
from typing import Any
from uuid import uuid4

import orjson
import pandas as pd
import pytest
from fastavro import parse_schema, schemaless_reader

import headrace as hr
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.offsets import OffsetClient, TopicMissing
from headrace.kafka.producer.produce_rows import InvalidRowError, encode_rows
from headrace.kafka.schema_registry.avro import parse_record_schema
from headrace.kafka.schema_registry.registry_client import SchemaRegistryClient
from headrace.kafka.schema_registry.wire_format import read_schema_id
from headrace.kafka.topics import ensure_topics
from tests.connectors.sinks.target_reader import records_of
from tests.kafka.avro import field, logical, optional, schema
from tests.kafka.streams import new_stream

AT = datetime(2026, 1, 1, tzinfo=UTC)
ROW = {"id": "p1", "card": "c1", "amount": 5.0, "at": AT}


def rows(count: int) -> list[dict[str, Any]]:
    return [ROW | {"id": f"p{number}", "card": f"c{number % 5}", "amount": number / 4} for number in range(count)]


def test_rows_land_where_it_says_in_order_with_the_key_of_their_column(broker: EmbeddedBroker) -> None:
    stream = new_stream()
    ensure_topics(broker.address, [stream])
    landed = hr.produce(stream, rows(50), broker=broker.address)
    found = {record.location: record for record in records_of(broker.address, stream.name)}
    for place, row in zip(landed, rows(50), strict=True):
        record = found[str(place)]
        assert record.key == row["card"].encode()
        assert orjson.loads(record.value or b"") == row | {"at": "2026-01-01T00:00:00Z"}
    assert len(found) == 50


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"amount": "much"}, r"row 7: wrong-type: column amount is not a double: much"),
        ({"id": None}, r"row 7: missing-id: column id is absent or null"),
        ({"at": "noon"}, r"row 7: wrong-type: column at is not a timestamp: noon"),
        ({"amout": 5.0}, r"row 7: there is no column 'amout'. The schema's columns are id, card, amount, at"),
        ({"amount": -1.0}, r"row 7: failed-check: "),
        ({"card": math.nan}, r"row 7: wrong-type: column card is nan"),
        ({"amount": object()}, r"row 7: wrong-type: column amount is neither text, a number"),
        ({"card": "c" * (1 << 20)}, r"row 7: it has \d+ bytes, and the topic takes 1048588"),
    ],
)
def test_a_row_that_does_not_fit_is_named_and_nothing_is_sent(broker: EmbeddedBroker, change: Any, why: str) -> None:
    stream = new_stream(check="amount >= 0")
    ensure_topics(broker.address, [stream])
    wrong = rows(20)
    wrong[7] = wrong[7] | change
    with pytest.raises(InvalidRowError, match=why) as caught:
        hr.produce(stream, wrong, broker=broker.address)
    assert caught.value.row_number == 7
    assert sum(OffsetClient(broker.address).end_offset_list(stream.name)) == 0


def test_a_stream_whose_topic_is_not_there_says_how_to_make_it(broker: EmbeddedBroker) -> None:
    with pytest.raises(TopicMissing, match="headrace up APP"):
        hr.produce(new_stream(), rows(1), broker=broker.address)


@pytest.mark.parametrize("is_registered", [False, True])
def test_a_stream_in_avro_is_written_by_the_newest_schema_of_its_subject_or_its_own(
    registry: SchemaRegistryClient, is_registered: bool
) -> None:
    subject = f"produced-{uuid4().hex[:8]}-value"
    text = schema(
        field("id", "string"),
        field("card", "string"),
        field("at", logical("timestamp-millis")),
        optional("amount", "double"),
    )
    if is_registered:
        registry.register_schema(subject, "AVRO", text)
    stream = new_stream(format="avro", registry=registry.url, subject=subject)
    (ready,) = encode_rows(stream, [ROW])
    latest = registry.get_latest_version(subject)
    assert latest is not None
    assert latest.number == 1
    assert parse_record_schema(latest.schema.text).name == ("shop.Payment" if is_registered else stream.name)
    assert read_schema_id(ready.value) == latest.schema.id
    read = schemaless_reader(BytesIO(ready.value[5:]), parse_schema(json.loads(latest.schema.text)), None)
    assert read == ROW
    with pytest.raises(InvalidRowError, match="row 0: wrong-type: column amount is not a double: much"):
        list(encode_rows(stream, [ROW | {"amount": "much"}]))


def test_what_frames_and_numpy_give_is_written_as_the_gate_reads_it() -> None:
    frame = pd.DataFrame({"id": ["p1"], "card": ["c1"], "amount": [math.inf], "at": [pd.Timestamp(AT)]})
    (ready,) = encode_rows(new_stream(), frame.to_dict("records"))
    assert orjson.loads(ready.value) == {
        "id": "p1",
        "card": "c1",
        "amount": "Infinity",
        "at": "2026-01-01T00:00:00+00:00",
    }
    assert ready.key == "c1"
