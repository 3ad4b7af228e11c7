"""A view's features as rows: the last one of each key equals the server's answer and brute force."""

import random
from datetime import datetime
from typing import Any

import orjson
import pytest

import headrace as hr
from headrace.connectors.sinks.reader_deduplication import SinkTopicDeduplicator
from headrace.connectors.sinks.writer import SinkConfig
from headrace.declare.sinks.sink import Sink
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.topics import TopicSpec, ensure_topics
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.tiles.events.event_parser import parse_event
from headrace.tiles.finish import EPOCH
from tests.connectors.sinks.gate_output import SCHEMA, event, sinking
from tests.connectors.sinks.target_reader import records_of
from tests.kafka.kafka_tools import create_topic
from tests.online_store.test_changelog_applier import send
from tests.oracle import brute
from tests.server.server_thread import serving_store, tiles_of
from tests.waiting import wait_until

EVENTS = [event(number) for number in range(700)]  # the last of each card within seconds of the end
CARDS = [f"c{number}" for number in range(7)]
PUBLISHED = "payments_1m payments_5m spend_5m total_5m last_5m shops_5m kinds_5m burst"


def new_view(broker: str) -> hr.View:
    """A view whose topics are there."""
    name = f"published{random.getrandbits(40)}"
    stream = hr.Stream(name, schema=SCHEMA, id="id", key="card", time="at", partitions=2)

    class Published:
        payments = hr.count(windows=["1m", "5m"])
        spend = hr.sum("amount", windows="5m")
        total = hr.sum("n", windows="5m")
        last = hr.last("id", windows="5m")
        shops = hr.top("big", 2, windows="5m")
        kinds = hr.count(by="big", windows="5m")
        burst = payments["1m"] / payments["5m"]
        ratio = hr.request("amount", "double") / spend["5m"]

    Published.__name__ = f"View{name}"
    view: hr.View = hr.features(stream, by="card")(Published)
    ensure_topics(broker, [], [view])
    return view


def to_topic(broker: str, view: hr.View, **settings: Any) -> Sink:
    topic = f"{view.name}.published"
    create_topic(broker, TopicSpec(topic, topic, 3, {}))
    return Sink(f"features of {view.name}", of=view, to=hr.Kafka(topic, **settings))


def grown(view: hr.View, *ends: int) -> list[ConsumerRecord]:
    """The changelog as it grows: every tile after so many events, and after so many."""
    return [record for end in ends for record in tiles_of(view, EVENTS[:end])]


def publish(broker: EmbeddedBroker, sink: Sink, records: list[ConsumerRecord]) -> None:
    """Write tiles to the changelog, and run a sink until it has delivered their features."""
    send(broker, records, 2)
    with sinking(sink, SinkConfig(broker.address)) as running:
        fates = running.processor.fate_counts
        wait_until(
            lambda: fates["written"] + fates["skipped"] >= len(records), 40, "tiles", lambda: f"{running.progress()}"
        )


def rows_in(broker: str, sink: Sink) -> list[dict[str, Any]]:
    """What is in the topic, each row once."""
    once, records = SinkTopicDeduplicator(), records_of(broker, sink.to.topic)  # type: ignore[attr-defined]
    assert all(once.is_new(record.partition, record.headers or ()) for record in records)
    return [orjson.loads(record.value or b"") for record in records]


def brute_force(view: hr.View, card: str, at: str, count: int = len(EVENTS)) -> dict[str, Any]:
    """By the definition, as the published columns have it."""
    events = [parse_event(view.schema, orjson.dumps(one)) for one in EVENTS[:count]]
    at_us = (datetime.fromisoformat(at) - EPOCH) // EPOCH.resolution
    found = {name: one.value for name, one in brute.features(view, events, (card,), at_us).items()}
    kinds = {str(kind).lower(): count for kind, count in found["kinds_5m"].items()}
    as_text = {"shops_5m": orjson.dumps(found["shops_5m"]).decode(), "kinds_5m": orjson.dumps(kinds).decode()}
    return found | as_text | {"burst": found["payments_1m"] / found["payments_5m"]}


def test_the_last_row_of_each_key_is_what_the_server_answers_and_what_brute_force_gives(broker: EmbeddedBroker) -> None:
    view = new_view(broker.address)
    sink = to_topic(broker.address, view)
    first, rest = grown(view, 150, 300), grown(view, 500, 700)
    publish(broker, sink, first)
    half = rows_in(broker.address, sink)
    publish(broker, sink, rest)
    rows = rows_in(broker.address, sink)
    assert rows[0].keys() == {"card", *PUBLISHED.split(), "event_time", "as_of"}
    assert len(half) < len(rows) <= len(first) + len(rest)
    last = {row["card"]: row for row in rows}
    assert sorted(last) == CARDS
    store = MemoryStore([view])
    store.apply([*first, *rest])
    with serving_store(store, view) as ask:
        for card, row in last.items():
            (served,) = ask.rows(view, [card], at=row["as_of"])
            values = {name: served["values"][name] for name in PUBLISHED.split()}
            as_text = {name: orjson.dumps(values[name]).decode() for name in ("shops_5m", "kinds_5m")}
            assert row == {"card": card, "event_time": served["event_time"], "as_of": row["as_of"]} | values | as_text
            assert {name: row[name] for name in PUBLISHED.split()} == brute_force(view, card, row["as_of"])


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"key": "last_5m"}, r"a row of Spend is one entity's\. Write key=\['card'\], or leave it out"),
        ({"columns": ["card", "ratio"]}, "there is no column 'ratio'. The schema's columns are card, payments_5m"),
    ],
)
def test_what_is_known_only_at_a_request_and_other_keys_are_refused(how: dict[str, Any], said: str) -> None:
    stream = hr.Stream("s", schema=SCHEMA, id="id", key="card", time="at")

    @hr.features(stream, by="card")
    class Spend:
        payments = hr.count(windows="5m")
        last = hr.last("id", windows="5m")
        ratio = hr.request("amount", "double") / payments["5m"]

    with pytest.raises(hr.DeclarationError, match=said):
        Sink("x", of=Spend, to=hr.Kafka("topic"), **how)
    sink = Sink("x", of=Spend, to=hr.Kafka("topic"))
    assert (sink.key, sink.conflict_policy, sink.source_topic) == (("card",), "last", "Spend.tiles")
