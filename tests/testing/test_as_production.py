"""hr.testing rejects what production rejects, with the same message: the gate on Spark, the server, the client."""

import json
import math
import re
import warnings
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import headrace as hr
from headrace.client.protocol import UnfitValue, build_features_request
from headrace.errors import HeadraceError
from headrace.kafka.producer.produce_rows import InvalidRowError, encode_rows
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.server.http.responses import BadRequest
from headrace.server.inference.request_events import EventReader
from headrace.spark.gate.gate import apply_gate
from headrace.testing import Fed, UndeclaredField, UnfitQuestion, UnfitScript
from headrace.testing.arrivals import to_arrival
from headrace.testing.event_records import to_raw_records
from tests.models.networks import DOUBLE, summing
from tests.server.server_thread import Asking, serving_store, tiles_of
from tests.testing.hostile import (
    AT,
    EVENTS,
    KEYS,
    NO_ROWS,
    NOT_JSON,
    REQUESTS,
    TAPS,
    TIMES,
    ByEverything,
    ByNumber,
    CardTaps,
    tap,
)

VIEWS = (CardTaps, ByEverything, ByNumber)
SENT = [tap(), tap(id="t2", n=5, ok=True, seen="2026-01-01T00:00:00Z")]


def fate(event: Any) -> tuple[str, str]:
    """What the kit makes of an event, and why."""
    fed = hr.testing.feed(CardTaps, [event])
    (found,) = [name for name in ("clean", "late", "dropped", "dead") if getattr(fed, name)]
    return f"taps.{found}", fed.dead[0].reason if fed.dead else ""


def test_each_event_has_the_fate_and_the_reason_that_the_gate_gives_it(spark: SparkSession) -> None:
    records = [record for _, record in to_raw_records(TAPS, [to_arrival(event) for event in EVENTS.values()])]
    rows = [(bytearray(record.value or b""), record.arrival_us, n) for n, record in enumerate(records)]
    raw = spark.createDataFrame(rows, "value binary, arrival bigint, offset bigint").select(
        F.lit(b"k").alias("key"), "value", F.lit("taps").alias("topic"), F.lit(0).alias("partition"), "offset",
        F.timestamp_micros("arrival").alias("timestamp"),
        F.expr("cast(null as array<struct<key: string, value: binary>>)").alias("headers"),
    )  # fmt: skip
    found = {}
    for row in apply_gate(raw, TAPS).collect():
        headers = {entry.key: bytes(entry.value).decode() for entry in row.headers}
        found[int(headers["headrace.offset"])] = (row.topic, headers.get("headrace.reason", ""))
    expected = {name: fate(event) for name, event in EVENTS.items()}
    assert dict(zip(expected, (found[n] for n in range(len(rows))), strict=True)) == expected
    codes = {reason.split(":")[0] for _, reason in expected.values()}
    assert codes == {"", "not-json", "wrong-type", "missing-id", "missing-key", "missing-time", "failed-check",
                     "too-far-ahead"}  # fmt: skip


def test_an_event_that_is_dead_for_its_values_is_refused_over_http_with_the_same_reason(tmp_path: Path) -> None:
    file = tmp_path / "m.onnx"
    file.write_bytes(summing(1, DOUBLE))
    model = hr.Model("m", on=TAPS, features=[CardTaps], fields=["amount"], inputs=["amount"], file=str(file))
    reader = EventReader(model)
    for name, event in EVENTS.items():
        if not isinstance(event, dict):
            continue
        _, reason = fate(event)
        refused = refusal(reader, event)
        code = reason.partition(":")[0]
        if code in {"missing-key", "failed-check"}:
            assert refused, name
        elif code in {"", "wrong-type"}:
            assert (reason in refused) if reason else not refused, name


def refusal(reader: EventReader, event: Any) -> str:
    """Why the server rejects an event; empty if it scores it. The server needs nulls to be explicit."""
    ((_, record),) = to_raw_records(TAPS, [to_arrival(event)])
    written = dict.fromkeys(TAPS.schema.names) | json.loads(record.value or b"")
    try:
        reader.parse_body(json.dumps(written).encode(), include=False)
    except BadRequest as problem:
        return str(problem)
    return ""


@pytest.fixture(scope="module")
def ask() -> Iterator[Asking]:
    store = MemoryStore(VIEWS)
    for view in VIEWS:
        store.apply(tiles_of(view, SENT))
    with serving_store(store, *VIEWS) as asking:
        yield asking


def fed(view: Any = CardTaps) -> Fed:
    return hr.testing.feed(view, SENT)


def over_http(ask: Asking, view: Any, key: Any, at: Any = AT, request: Any = None) -> Any:
    """The values that the server answers to what the client sends, or its sentence."""
    try:
        body = build_features_request(view, [key], at, request).body
    except UnfitValue as problem:
        return str(problem)
    said = ask("POST", f"/features/{view.name}", body)
    return _plain(said.json["rows"][0]["values"]) if said.status == 200 else _anywhere(said.error)


def in_kit(view: Any, key: Any, at: Any = AT, request: Any = None) -> Any:
    try:
        return _plain(vars(fed(view).at(at, request)[key]))
    except HeadraceError as problem:
        return _anywhere(str(problem))


def _anywhere(sentence: str) -> str:
    """A sentence, wherever in the body it points to: the kit reads a request before it knows the key."""
    return re.sub(r"column \d+ \(char \d+\)", "…", sentence)


def _plain(values: Any) -> Any:
    """Values alike: JSON has no moments, and no NaN."""
    return {name: _value(value) for name, value in values.items()}


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


@pytest.mark.parametrize(("view", "key"), [pytest.param(*one, id=f"{one[0].name}-{n}") for n, one in enumerate(KEYS)])
def test_a_key_is_read_as_the_server_reads_it(ask: Asking, view: Any, key: Any) -> None:
    assert in_kit(view, key) == over_http(ask, view, key)


@pytest.mark.parametrize("request_", REQUESTS, ids=map(str, range(len(REQUESTS))))
def test_what_comes_with_the_question_is_read_as_the_server_reads_it(ask: Asking, request_: Any) -> None:
    assert in_kit(CardTaps, "c1", request=request_) == over_http(ask, CardTaps, "c1", request=request_)


@pytest.mark.parametrize("at", TIMES, ids=map(str, range(len(TIMES))))
def test_a_time_is_read_as_the_server_reads_it(ask: Asking, at: Any) -> None:
    assert in_kit(CardTaps, "c1", at=at) == over_http(ask, CardTaps, "c1", at=at)


@pytest.mark.parametrize("value", NOT_JSON.values(), ids=NOT_JSON)
def test_what_json_cannot_carry_is_refused_in_the_clients_words(value: Any) -> None:
    with pytest.raises(UnfitValue) as refused:
        build_features_request(CardTaps, [value], AT, None)
    assert in_kit(CardTaps, value) == str(refused.value)
    assert in_kit(CardTaps, "c1", request={"amount": value}) == str(refused.value)


@pytest.mark.parametrize("event", NO_ROWS.values(), ids=NO_ROWS)
def test_what_is_no_row_of_its_stream_is_refused_in_the_words_of_hr_produce(event: Any) -> None:
    with pytest.raises(InvalidRowError) as refused:
        list(encode_rows(TAPS, [tap(), event]))
    with pytest.raises(UnfitQuestion) as unfit:
        hr.testing.feed(CardTaps, [tap(), event])
    assert str(refused.value).startswith(f"{unfit.value} Nothing was sent.")


def test_an_event_that_hr_produce_refuses_is_a_dead_letter_with_the_same_reason() -> None:
    for name, event in EVENTS.items():
        if isinstance(event, dict):
            assert dead_by_producer(event) == fate(event)[1], name


def dead_by_producer(event: Any) -> str:
    try:
        list(encode_rows(TAPS, [event]))
    except InvalidRowError as refused:
        return str(refused.__cause__)
    return ""


def test_a_field_of_a_request_that_nobody_declared_is_passed_over_and_warned_of() -> None:
    with pytest.warns(UndeclaredField, match="What CardTaps reads of a request has no 'amuont': it is ignored"):
        assert fed().at(AT, {"amuont": 5})["c1"].share is None


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"amount": Decimal(5)}, "column amount is neither text, a number, a boolean nor a datetime: Decimal"),
        ({"amuont": 5}, "there is no column 'amuont'. The schema's columns are id, card"),
        ({"amount": "5"}, "wrong-type: column amount is not a double: 5"),
    ],
)
def test_a_script_refuses_what_hr_produce_refuses_in_its_words(values: dict[str, Any], words: str) -> None:
    visits = hr.windowed("visits", TAPS, by="card", over=hr.Session("30m"), taps=hr.count())
    with pytest.raises(UnfitScript, match=re.escape(words)):
        hr.testing.script(visits).at("12:00").send(card="c1", **values)


def test_what_is_declared_is_not_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fed().at(AT, {"amount": 5})
