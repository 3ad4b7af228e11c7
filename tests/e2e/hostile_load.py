"""Sends hostile streams to a real broker now, and reads them back with the log's arrival times."""

import time
from collections.abc import Sequence
from dataclasses import replace

import orjson

from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord
from tests.oracle.streams import SECOND_US, Sent, hostile
from tests.waiting import patiently

HOUR_MS = 3_600_000


def sent_now(seed: int, count: int, span_us: int) -> list[Sent]:
    """A hostile stream whose events lie in the span before now, in the order they will be sent."""
    now_us = time.time_ns() // 1000
    made = hostile(seed, count, base_us=now_us - span_us // 2 - 20 * SECOND_US, span_us=span_us // 2)
    return [_ahead(one, now_us) if one.flaw == "too-far-ahead" else one for one in made]


def _ahead(one: Sent, now_us: int) -> Sent:
    return replace(one, event=one.event | {"at": now_us // 1000 + 2 * HOUR_MS})


def send(broker: str, topic: str, sent: Sequence[Sent], first: int = 0, key: str = "card") -> None:
    """Send a stream; each record carries its number, so that it is known again."""
    with Producer(broker) as producer:
        for number, one in enumerate(sent, first):
            value = orjson.dumps(one.event, option=orjson.OPT_PASSTHROUGH_DATETIME)
            producer.send(topic, value, key=str(one.values[key]), headers=[("number", str(number))])


def arrived(broker: str, topic: str, sent: Sequence[Sent]) -> list[Sent]:
    """The same records with their real arrival times, in the order of the log."""
    records: list[ConsumerRecord] = []
    with TailingConsumer(broker, [topic], records.extend) as follower:
        assert follower.wait_until_caught_up(patiently(60))
    ordered = sorted(records, key=lambda record: (record.appended_us, record.offset))
    return [replace(sent[int(record.header("number") or b"")], arrival_us=record.appended_us) for record in ordered]
