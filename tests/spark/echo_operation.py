"""An operation for tests of the runners: it emits each event at once, and a count of events on a timer."""

import random
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import orjson

import headrace as hr
from headrace.declare.operations.derived_stream import DerivedStream, StreamOperation
from headrace.declare.source_location import SourceLocation
from headrace.kafka.consumers.last_records import LastRecordsReader
from headrace.kafka.headers import position_headers
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.topics import ensure_topics
from headrace.operators.factory import create_inner_operator, create_operator
from headrace.operators.operator import InputEvent, Key, OutputEvent, advance_operator
from headrace.spark.stateful.keyed_operator import KeyedOperatorConfig
from headrace.spark.stateful.operation_query import OperationSpec

SECOND = 1_000_000
FOREVER_US = 1 << 61
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_numbers = count()


@dataclass(frozen=True)
class Echo:
    """Emits an event, and a fixed time after its arrival the number of events emitted by then."""

    after_us: int = SECOND
    poison: float | None = None  # an amount that it cannot take
    fuse: float | None = None  # an amount after which it cannot be woken


class Echoes:
    """The state: the arrival times of events whose timer has not fired, and whether the timer must fail."""

    def __init__(self, what: Echo) -> None:
        self._what = what

    def create_state(self) -> dict[str, Any]:
        return {"arrivals": [], "burns": False}

    def process_event(self, key: Key, kept: dict[str, Any], event: InputEvent) -> Iterator[OutputEvent]:
        amount = event.values["amount"]
        kept["arrivals"].append(event.arrival_us)
        if amount is not None and amount == self._what.poison:
            raise ValueError(f"cannot take {amount}")
        kept["burns"] |= amount is not None and amount == self._what.fuse
        yield OutputEvent(
            "out", f"{key[0]}-{event.input_index}-{event.id}", event.time_us, event.arrival_us, {"amount": amount}
        )

    def next_timer_us(self, kept: dict[str, Any]) -> int | None:
        return min(kept["arrivals"]) + self._what.after_us if kept["arrivals"] else None

    def on_timer(self, key: Key, kept: dict[str, Any], at_us: int) -> Iterator[OutputEvent]:
        if kept["burns"]:
            raise ArithmeticError("cannot be woken")
        count = sum(arrival_us < at_us for arrival_us in kept["arrivals"])
        kept["arrivals"] = [arrival_us for arrival_us in kept["arrivals"] if arrival_us + self._what.after_us != at_us]
        yield OutputEvent("out", f"{key[0]}-woken-{at_us}", at_us, at_us, {"amount": float(count)})

    def encode_state(self, kept: dict[str, Any]) -> bytes:
        return orjson.dumps(kept)

    def decode_state(self, packed: bytes) -> dict[str, Any]:
        return dict(orjson.loads(packed))


@create_inner_operator.register
def _(what: Echo, _operation: StreamOperation) -> Echoes:
    return Echoes(what)


def new_keyed(
    broker: str, what: Echo | None = None, inputs: int = 1, idle_us: int = SECOND, **more: Any
) -> KeyedOperatorConfig:
    """An operation over its own streams, whose topics exist."""
    name = more.pop("name", f"echo{next(_numbers)}")
    given = more.pop("streams", ())
    streams = given or tuple(payments(f"{name}-in{number}", **more) for number in range(inputs))
    return keyed_of(broker, operation_of(name, streams, what or Echo(), idle_us))


def operation_of(name: str, streams: Sequence[hr.Stream], what: Echo, idle_us: int = SECOND) -> StreamOperation:
    return StreamOperation(
        name, tuple(streams), SourceLocation("app.py", 7), (("card",),) * len(streams), what, idle_us
    )


def payments(name: str, **settings: Any) -> hr.Stream:
    schema = "id string, card string, amount double, at timestamp, seen timestamp"
    told = {"late": hr.Late("1s"), "ahead": "1s", **settings}
    return hr.Stream(name, schema=schema, id="id", key="card", time="at", **told)


def out_of(operation: StreamOperation) -> DerivedStream:
    schema = "id string, card string, amount double, at timestamp, known_at timestamp"
    named = {"id": "id", "key": "card", "time": "at", "arrival": "known_at"}
    return DerivedStream(f"{operation.name}-out", made_by=operation, schema=schema, late=hr.Late("1h"), **named)


def keyed_of(broker: str, operation: StreamOperation) -> KeyedOperatorConfig:
    keyed = KeyedOperatorConfig(operation, (out_of(operation),), broker)
    ensure_topics(broker, [*operation.inputs, *keyed.outputs])
    return keyed


def spec_of(keyed: KeyedOperatorConfig, folder: Path, clock_us: int = FOREVER_US) -> OperationSpec:
    """A run without gate checkpoints: the gates' output shows their progress."""
    return OperationSpec(keyed, folder / keyed.operation.name, lambda stream: folder / stream, lambda _: clock_us)


def arrivals(
    seed: int, count: int, now_us: int, *, sources: int = 1, keys: int = 7, partitions: int = 2, **more: int
) -> list[InputEvent]:
    """Events of some keys, a few of them twice; none arrives after now, and no offset is before the first."""
    first, apart_us = more.get("first", 0), more.get("apart_us", 1000)
    dice, events, offsets = random.Random(seed), list[InputEvent](), [[first] * partitions for _ in range(sources)]
    for number in range(count):
        source, partition = dice.randrange(sources), dice.randrange(partitions)
        arrival_us = now_us - (count - number) * apart_us - dice.randrange(apart_us)
        amount = dice.choice([1.5, 2.0, None, float("inf")])
        values = {"id": f"e{first + dice.randrange(count)}", "card": f"c{number % keys}", "amount": amount}
        values |= {"at": arrival_us - dice.randrange(SECOND), "seen": arrival_us}
        offset = offsets[source][partition]
        offsets[source][partition] += 1
        events.append(InputEvent(source, values["id"], values["at"], arrival_us, partition, offset, values))
    return events


def send(keyed: KeyedOperatorConfig, events: Iterable[InputEvent]) -> None:
    """Put events into the log as gates do."""
    with Producer(keyed.broker) as producer:
        for event in events:
            value = orjson.dumps({**event.values, **{name: iso(event.values[name]) for name in ("at", "seen")}})
            if event.values["amount"] == float("inf"):
                value = value.replace(b'"amount":null', b'"amount":Infinity')
            headers = position_headers(event.offset, event.arrival_us)
            topic = keyed.operation.inputs[event.input_index].clean
            producer.send(topic, value, key=event.values["card"], partition=event.partition, headers=headers)


def soon_us() -> int:
    """A time that no clock has come to when what is sent now is in the log."""
    return time.time_ns() // 1_000_000 * 1000 + SECOND // 2


def iso(at_us: int) -> str:
    return (EPOCH + timedelta(microseconds=at_us)).isoformat(timespec="microseconds")


def micros(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1)


def pure(keyed: KeyedOperatorConfig, events: Iterable[InputEvent]) -> dict[str, dict[str, Any]]:
    """What the operator makes of the events where nothing is in between, by id, once all time has passed."""
    operator, by_key = create_operator(keyed.operation), dict[str, list[InputEvent]]()
    for event in events:
        by_key.setdefault(event.values["card"], []).append(event)
    made = {}
    for card, of_key in by_key.items():
        for one in advance_operator(operator, (card,), operator.create_state(), of_key, FOREVER_US):
            amount = one.values["amount"]
            amount = None if amount == float("inf") else amount
            said = {"amount": amount, "at": iso(one.time_us), "known_at": iso(one.known_us)}
            made[one.id] = {"id": one.id, "card": card, **said}
    return made


def written(keyed: KeyedOperatorConfig) -> list[ConsumerRecord]:
    """Every record of the output, in the order of each partition."""
    return list(LastRecordsReader(keyed.broker, keyed.outputs[0].name, 10**9).read_new_records())


def raised(keyed: KeyedOperatorConfig) -> list[tuple[str, bytes]]:
    """The isolated records, with their reasons."""
    found = ((record.header("headrace.raised"), record.value or b"") for record in written(keyed))
    return [(why.decode(), value) for why, value in found if why is not None]


def gated(keyed: KeyedOperatorConfig) -> list[InputEvent]:
    """What an operation has written, sent on as the gate of its output would, and what comes of it."""
    stream, events = keyed.outputs[0], list[InputEvent]()
    with Producer(keyed.broker) as producer:
        for record in written(keyed):
            row = orjson.loads(record.value or b"")
            times = {name: micros(row[name]) for name in ("at", "known_at")}
            place = {"partition": record.partition, "offset": record.offset}
            events.append(InputEvent(0, row["id"], times["at"], times["known_at"], values=row | times, **place))
            headers = position_headers(record.offset, times["known_at"])
            producer.send(stream.clean, record.value, key=record.key, partition=record.partition, headers=headers)
    return events


def told(keyed: KeyedOperatorConfig) -> dict[str, dict[str, Any]]:
    """What was written that is not raised, by id; the same id is always the same row."""
    rows: dict[str, dict[str, Any]] = {}
    for record in written(keyed):
        if record.header("headrace.raised") is None:
            row = orjson.loads(record.value or b"")
            assert rows.setdefault(row["id"], row) == row
            assert record.key == row["card"].encode()
    return rows
