"""In any batches and with any clock updates, a bucket emits what its pure operator emits."""

import math
import random
from collections import Counter
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.declare.features.retractable_views import RetractableView
from headrace.declare.features.view import require_view
from headrace.declare.operations.derived_stream import DerivedStream
from headrace.operators.error_isolation import OperatorStepResult, StepFailure
from headrace.operators.operator import InputEvent, OutputEvent
from headrace.spark.stateful.keyed_operator import (
    DISTANT_TIMER_STEP_US,
    TIMER_STEP_US,
    BucketProcessor,
    KeyedOperatorConfig,
    OperatorEventReader,
    round_timer_us,
)
from headrace.spark.stateful.output_encoding import OutputEncoder, TileOutputEncoder
from tests.spark.echo_operation import SECOND, Echo, operation_of, out_of, payments, pure
from tests.spark.spark_state import Bucket

HOUR = 3600 * SECOND


def keyed(after_us: int = SECOND) -> KeyedOperatorConfig:
    operation = operation_of("echo", [payments("a"), payments("b")], Echo(after_us))
    return KeyedOperatorConfig(operation, (out_of(operation),), "nowhere")


def said(event: InputEvent) -> str:
    head = [event.input_index, event.arrival_us, event.partition, event.offset]
    return orjson.dumps([*head, event.values]).decode()


def history(seed: int, count: int, apart_us: int) -> list[InputEvent]:
    """Events as they arrive, some of them again while a gate would let them pass."""
    dice, events, offsets = random.Random(seed), list[InputEvent](), Counter[tuple[int, int]]()
    arrival_us = 100 * HOUR
    for number in range(count):
        arrival_us += dice.choice([0, 1000, apart_us])
        source, partition = dice.randrange(2), dice.randrange(2)
        values = {"id": f"e{number}", "card": f"c{dice.randrange(3)}", "amount": 1.0}
        values |= {"at": arrival_us - dice.randrange(SECOND), "seen": arrival_us}
        known = [one for one in events if one.input_index == source and arrival_us <= one.time_us + SECOND]
        if known and dice.random() < 0.3:
            values = {**dice.choice(known).values}
        place = (source, partition, offsets[source, partition])
        offsets[source, partition] += 1
        events.append(InputEvent(source, values["id"], values["at"], arrival_us, *place[1:], values))
    return events


def made_in_batches(of: KeyedOperatorConfig, events: list[InputEvent], dice: random.Random) -> tuple[list[Any], Bucket]:
    """What comes of events that are read at random, with replays; each clock is one that could be proven."""
    bucket, made, left = Bucket(BucketProcessor(of)), list[Any](), list(events)
    read: list[InputEvent] = []
    while left:
        taken = left[: dice.randint(0, 5)]
        left = left[len(taken) :]
        again = dice.sample(read, min(len(read), dice.randint(0, 2)))
        batch = [*taken, *again]
        dice.shuffle(batch)
        clock_us = min([event.arrival_us for event in (*taken, *left)], default=0) - dice.choice([0, HOUR])
        made += bucket.batch([said(event) for event in batch], clock_us // 1000)
        read += taken
    made += bucket.batch([], 10**12)
    return made, bucket


@given(
    st.integers(0, 10**6),
    st.integers(0, 40),
    st.sampled_from([1000, SECOND, HOUR]),
    st.sampled_from([7, SECOND, 3 * HOUR]),
)
def test_what_a_bucket_makes_does_not_depend_on_batches_clocks_and_replays(
    seed: int, count: int, apart_us: int, after_us: int
) -> None:
    of, events = keyed(after_us), history(seed, count, apart_us)
    made, bucket = made_in_batches(of, events, random.Random(seed))
    rows = [orjson.loads(row["value"]) for row in made]
    wanted = pure(of, events)
    assert {row["id"]: row for row in rows} == wanted
    assert len(rows) == len(wanted), "nothing is made twice where nothing crashes"
    assert not bucket.states["kept"].rows, "all is forgotten in the end"
    assert not bucket.states["due"].rows
    assert not bucket.timers


def test_a_key_whose_time_moves_on_and_on_has_one_note() -> None:
    of = keyed(after_us=30 * SECOND)
    bucket = Bucket(BucketProcessor(of))
    for number in range(50):
        arrival_us = 100 * HOUR + number * SECOND
        values = {"id": f"e{number}", "card": "c1", "amount": 1.0, "at": arrival_us, "seen": arrival_us}
        bucket.batch([said(InputEvent(0, f"e{number}", arrival_us, arrival_us, 0, number, values))], arrival_us // 1000)
        assert len(bucket.states["due"].rows) <= 2, "the one it needs, and one that has not passed yet"


@given(st.integers(0, 10**16), st.integers(0, 10**16))
def test_a_key_is_looked_at_after_the_clock_and_soon_after_it_is_due(clock_us: int, ahead_us: int) -> None:
    due_us = clock_us + 1 + ahead_us
    look_us = round_timer_us(due_us, clock_us)
    assert clock_us < look_us < due_us + TIMER_STEP_US
    assert look_us >= due_us or due_us - look_us < DISTANT_TIMER_STEP_US


def test_numbers_that_json_has_not_are_read_as_spark_writes_them() -> None:
    reader = OperatorEventReader(keyed().operation)
    event = reader.read_event('[1,5,0,7,{"id":"e","card":"c","amount":"NaN","at":3,"seen":4}]')
    assert math.isnan(event.values["amount"])
    assert (event.input_index, event.time_us, event.arrival_us, event.sort_key) == (1, 3, 5, (5, 1, 0, 7))
    assert (
        reader.read_event('[0,5,0,7,{"id":"e","card":"c","amount":"-Infinity","at":3,"seen":4}]').values["amount"]
        == -math.inf
    )
    assert reader.to_key_text(event) == '["c"]'


def rows_of(done: OperatorStepResult, **more: Any) -> list[Any]:
    operation = operation_of("echo", [payments("a")], Echo())
    schema = "id string, card string, amount double, at timestamp, known_at timestamp"
    named = {"id": "id", "key": "card", "time": "at", "arrival": "known_at"} | more
    out = DerivedStream("out", made_by=operation, schema=schema, **named)
    return list(OutputEncoder(operation, (out,)).to_records(("c1",), done))


def raised_in(row: Any) -> str:
    (header,) = row["headers"]
    assert header["key"] == "headrace.raised"
    return str(header["value"].decode())


def test_what_is_made_is_the_columns_of_its_stream_with_times_to_the_microsecond() -> None:
    (row,) = rows_of(
        OperatorStepResult([OutputEvent("out", "x", 1, 1_700_000_000_123_456, {"amount": math.nan, "other": 5})])
    )
    assert (row["topic"], row["key"], row["headers"]) == ("out", "c1", None)
    assert orjson.loads(row["value"]) == {
        "id": "x",
        "card": "c1",
        "amount": None,
        "at": "1970-01-01T00:00:00.000001+00:00",
        "known_at": "2023-11-14T22:13:20.123456+00:00",
    }


def test_an_output_that_nobody_declared_is_passed_over() -> None:
    assert rows_of(OperatorStepResult([OutputEvent("late", "x", 1, 1, {})])) == []


@pytest.mark.parametrize(
    "made", [OutputEvent("out", "x", 1, 1 << 62, {}), OutputEvent("out", "x", 1, 1, {"amount": object()})]
)
def test_what_cannot_be_written_is_put_aside_with_what_there_is_of_it(made: OutputEvent) -> None:
    (row,) = rows_of(OperatorStepResult([made]))
    assert raised_in(row).startswith(("OverflowError: ", "TypeError: "))
    assert b"OutputEvent(output='out', id='x'" in row["value"]


def test_what_is_raised_says_where_the_event_stands() -> None:
    event = InputEvent(0, "e", 3, 5, 1, 42, {"id": "e", "card": "c1", "amount": 2.0, "at": 3, "seen": 5})
    (row,) = rows_of(OperatorStepResult(failures=[StepFailure("ValueError: no", event)]))
    assert raised_in(row) == "ValueError: no (at a-1@42)"
    assert orjson.loads(row["value"])["id"] == "e"


def test_a_change_that_a_view_of_rows_cannot_take_is_a_dead_letter_of_its_table() -> None:
    customers = hr.Changes("customers", schema="id bigint, country string", key="id")

    @hr.features(customers, by="country")
    class Countries:
        customers = hr.count(windows="forever")

    event = InputEvent(1, "7/u/1", 5, 5, 0, 42, {"id": 1, "country": "FR", "op": "u", "before_id": None})
    maker = TileOutputEncoder(RetractableView(require_view(Countries)), 1)
    (row,) = maker.to_records(("FR",), OperatorStepResult(failures=[StepFailure("ValueError: no", event)]))
    headers = {header["key"]: header["value"].decode() for header in row["headers"]}
    assert row["topic"] == "customers.dead"
    assert headers["headrace.reason"] == "raised: Countries: ValueError: no"
    assert (headers["headrace.topic"], headers["headrace.offset"]) == ("customers", "42")
