"""Traces one event through a salted view: the tiles of its own part, before and after."""

import json
import time
from dataclasses import replace

import headrace as hr
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.producer.producer import Producer
from headrace.kafka.topics import ensure_topics
from headrace.telemetry.event_tracer import EventTracer
from headrace.tiles.events.event_parser import parse_event
from headrace.tiles.salt import salt_bucket
from tests.kafka.streams import new_stream, new_view
from tests.oracle.test_salt import in_parts
from tests.oracle.test_several_streams import records
from tests.server.server_thread import app_of_views


def test_the_tiles_of_an_event_are_those_of_its_part(broker: EmbeddedBroker) -> None:
    view = replace(new_view(new_stream(), few="1m", many="1h"), salt=8)
    app, stream, now_ms = app_of_views(view), view.streams[0], time.time_ns() // 1_000_000
    ensure_topics(broker.address, app.streams, app.views)
    ids = [f"p{number}" for number in range(12)]
    events = [{"id": one, "card": "c1", "amount": 1.0, "at": now_ms // 60_000 * 60_000} for one in ids]
    with Producer(broker.address) as producer:
        for offset, event in enumerate(events):
            value, arrival_us = json.dumps(event).encode(), now_ms * 1000 + offset
            headers = [("headrace.offset", str(offset)), ("headrace.arrival", str(arrival_us))]
            producer.send(stream.name, value, key="c1", partition=0)
            producer.send(stream.clean, value, key="c1", partition=0, headers=headers)
    kept = [(parse_event(stream.schema, json.dumps(one).encode()), now_ms * 1000 + n) for n, one in enumerate(events)]
    with Producer(broker.address) as producer:
        for known in range(1, len(kept) + 1):  # the tiles after each event
            for tile in records(view, in_parts(view, stream, kept[:known])):
                producer.send(view.topic, tile.value, key=tile.key, partition=0)
    (way,) = EventTracer(app, broker.address, now_ms * 1000 - 60_000_000).trace_event("p11")
    folded = [step.said for step in way if step.what == "folded"]
    before = sum(salt_bucket(one, 8) == salt_bucket("p11", 8) for one in ids[:11])
    assert before > 0
    assert sorted(said["hop_us"] for said in folded) == [1_000_000, 60_000_000]
    assert all(said["changed"]["events"] == [before, before + 1] for said in folded)


def test_steps_are_in_the_order_of_the_log_and_an_event_is_scored_once(broker: EmbeddedBroker) -> None:
    """A score that was due before its tiles had come, and was made again by a scorer that did not know of it."""
    view = new_view(new_stream(), few="1m", many="1h")
    stream, now_ms = view.streams[0], time.time_ns() // 1_000_000
    model = hr.Model("traced" + stream.name, on=stream, features=[view], train=lambda frame: frame)
    app = replace(app_of_views(view), models=(model,))
    ensure_topics(broker.address, app.streams, app.views, app.models)
    event = json.dumps({"id": "e1", "card": "c1", "amount": 1.0, "at": now_ms}).encode()
    with Producer(broker.address) as producer:
        producer.send(stream.name, event, key="c1", partition=0)
        producer.flush()
        headers = [("headrace.offset", "0"), ("headrace.arrival", str(now_ms * 1000))]
        producer.send(stream.clean, event, key="c1", partition=0, headers=headers)
        for score, role in ((0.1, "champion"), (0.2, "champion"), (0.3, "challenger")):
            said = {"event_id": "e1", "score": score, "role": role, "version": "1", "source": "stream"}
            producer.send(model.predictions, json.dumps(said).encode(), key="e1", partition=0)
        producer.flush()
        time.sleep(0.005)  # the log counts in milliseconds
        for tile in records(view, in_parts(view, stream, [(parse_event(stream.schema, event), now_ms * 1000)])):
            producer.send(view.topic, tile.value, key=tile.key, partition=0)
    (way,) = EventTracer(app, broker.address, now_ms * 1000 - 60_000_000).trace_event("e1")
    assert [step.at_us for step in way] == sorted(step.at_us for step in way)
    whats = [step.what for step in way]
    assert whats == ["arrived", "clean", "scored", "scored by a challenger", "folded", "folded"]
    assert [step.said["score"] for step in way if step.what.startswith("scored")] == [0.1, 0.3]


def test_what_became_of_an_event_is_found_though_its_time_in_the_log_is_earlier(broker: EmbeddedBroker) -> None:
    """Two brokers' clocks differ, and each topic has the time of the one that leads it."""
    view = new_view(new_stream(), few="1m", many="1h")
    app, stream, now_ms = app_of_views(view), view.streams[0], time.time_ns() // 1_000_000
    ensure_topics(broker.address, app.streams, app.views)
    event = json.dumps({"id": "e1", "card": "c1", "amount": 1.0, "at": now_ms}).encode()
    headers = [("headrace.offset", "0"), ("headrace.arrival", str(now_ms * 1000))]
    with Producer(broker.address) as producer:
        producer.send(stream.clean, event, key="c1", partition=0, headers=headers)
        producer.flush()
        time.sleep(0.005)  # the log counts in milliseconds
        producer.send(stream.name, event, key="c1", partition=0)
    (way,) = EventTracer(app, broker.address, now_ms * 1000 - 60_000_000).trace_event("e1")
    assert [step.what for step in way] == ["arrived", "clean"]
