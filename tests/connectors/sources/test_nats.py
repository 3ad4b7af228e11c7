"""The raw topic has every message of JetStream once and in order, whatever fails meanwhile."""

import json
import threading
import uuid
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from nats.aio.subscription import Subscription
from nats.js import JetStreamContext

import headrace as hr
from headrace.connectors.sources.nats import NatsReader
from headrace.connectors.sources.source_part import run_sources
from headrace.connectors.sources.source_position import (
    CopyMarker,
    SourcePosition,
    marker_to_headers,
    read_position,
)
from headrace.connectors.sources.source_worker import SourceWorker
from headrace.declare.app import App
from headrace.declare.streams.stream import Stream
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.consumers.offset_range import read_offset_range
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.headers import AFTER_HEADER, NUMBER_HEADER, SOURCE_HEADER, TOO_LARGE_HEADER
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.status.heartbeat import PROGRESS_TOPIC, SILENT_AFTER_US, is_stalled
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.reports.connectors import SourceProgress
from headrace.kafka.topics import ensure_topics
from headrace.server.metrics.metrics_route import source_metrics
from tests.connectors.sources.nats_server import OwnNats
from tests.waiting import wait_until


def stream_of(url: str, subject: str | None = None) -> hr.Stream:
    """A stream no other test has, and the stream of JetStream of that name."""
    name = f"n{uuid.uuid4().hex[:12]}"
    from_ = hr.Nats(url, stream=name, subject=subject)
    return hr.Stream(name, schema="id string, card string, at timestamp", id="id", key="card", time="at", from_=from_)


def payments(first: int, last: int) -> list[bytes]:
    return [
        json.dumps({"id": f"p{n}", "card": f"c{n % 7}", "at": 1_767_225_600_000}).encode() for n in range(first, last)
    ]


def raw(broker: EmbeddedBroker, stream: hr.Stream) -> list[ConsumerRecord]:
    """Everything in a raw topic, each partition in its order."""
    offsets = OffsetClient(broker.address)
    return list(
        read_offset_range(
            broker.address, offsets.topic_start_offsets([stream.name]), offsets.topic_end_offsets([stream.name])
        )
    )


def numbers(records: list[ConsumerRecord]) -> list[int]:
    return sorted(NUMBER_HEADER.read_or(record, 0) for record in records)


def in_order(records: list[ConsumerRecord]) -> bool:
    """Whether each partition has growing numbers."""
    by_partition = defaultdict(list)
    for record in records:
        by_partition[record.partition].append(NUMBER_HEADER.read_or(record, 0))
    return all(of_one == sorted(of_one) for of_one in by_partition.values())


@contextmanager
def bridging(broker: EmbeddedBroker, stream: hr.Stream) -> Iterator[SourceWorker]:
    ensure_topics(broker.address, [stream])
    assert isinstance(stream.from_, hr.Nats)
    bridge = SourceWorker(stream, NatsReader(stream.from_, stream.name), broker.address)
    bridge.start()
    try:
        yield bridge
    finally:
        bridge.stop()
    assert bridge.failure is None


def test_messages_are_copied_as_they_are_in_order_and_once(broker: EmbeddedBroker, nats_server: OwnNats) -> None:
    stream = stream_of(nats_server.url)
    nats_server.add_stream(stream.name, [stream.name])
    nats_server.publish(stream.name, payments(0, 600), {"traceparent": "00-1"})
    nats_server.publish(stream.name, [b"", b"{bad", b"\xff\xfe"])
    with bridging(broker, stream) as bridge:
        wait_until(lambda: bridge.copied_count == 603, 30, "the first copies", lambda: bridge.error)
    nats_server.publish(stream.name, payments(603, 1200))
    with bridging(broker, stream) as bridge:  # another one: it knows from the log where the first ended
        wait_until(lambda: bridge.copied_count == 597, 30, "the others", lambda: bridge.error)
    found = raw(broker, stream)
    assert numbers(found) == list(range(1, 1201))
    assert in_order(found)
    assert len({record.partition for record in found}) == 2
    by_number = {NUMBER_HEADER.read_or(record, 0): record for record in found}
    assert [by_number[n].value for n in range(601, 604)] == [b"", b"{bad", b"\xff\xfe"]
    assert by_number[1].key == b"c0"
    assert by_number[1].header("traceparent") == b"00-1"
    assert by_number[1].value == payments(0, 1)[0]


def test_time_that_ran_out_while_nothing_came_is_no_trouble(
    nats_server: OwnNats, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of(nats_server.url)
    nats_server.add_stream(stream.name, [stream.name])
    assert isinstance(stream.from_, hr.Nats)
    reader = NatsReader(stream.from_, stream.name)
    reader.open()
    # As on a busy machine: the server's word that nothing came is there before the client looks at its clock, and by
    # then there is no time left in which it could ask again.
    next_msg = Subscription.next_msg
    monkeypatch.setattr(Subscription, "next_msg", lambda taking, timeout: next_msg(taking, timeout + 30))
    monkeypatch.setattr(JetStreamContext, "_time_until", lambda *_: -1.0)
    assert reader.read(0, 10) == []
    monkeypatch.undo()
    nats_server.publish(stream.name, payments(0, 3))
    assert [message.number for message in reader.read(0, 10)] == [1, 2, 3]
    reader.close()


def test_what_a_crash_left_out_is_filled_in_and_nothing_doubled(broker: EmbeddedBroker, nats_server: OwnNats) -> None:
    stream = stream_of(nats_server.url)
    nats_server.add_stream(stream.name, [stream.name])
    nats_server.publish(stream.name, payments(0, 10))
    ensure_topics(broker.address, [stream])
    assert isinstance(stream.from_, hr.Nats)
    reader = NatsReader(stream.from_, stream.name)
    history = reader.open()
    reader.close()
    with Producer(broker.address) as producer:  # as one leaves it that died with 4 and 6 on the way
        for number, partition, after in ((1, 0, 0), (2, 1, 0), (3, 0, 2), (5, 0, 2), (7, 0, 2)):
            headers = marker_to_headers(history, CopyMarker(number, after))
            producer.send(stream.name, payments(number - 1, number)[0], partition=partition, headers=headers)
    assert read_position(broker.address, stream.name, history) == SourcePosition(2, frozenset({3, 5, 7}))
    with bridging(broker, stream) as bridge:
        wait_until(lambda: bridge.copied_count == 5, 30, "what is missing", lambda: bridge.error)
    assert numbers(raw(broker, stream)) == list(range(1, 11))


def test_a_position_is_found_below_what_others_wrote(broker: EmbeddedBroker, nats_server: OwnNats) -> None:
    stream = stream_of(nats_server.url)
    ensure_topics(broker.address, [stream])
    assert read_position(broker.address, stream.name, "nats:x@1") == SourcePosition()
    with Producer(broker.address) as producer:
        for number in range(1, 4):
            headers = marker_to_headers("nats:x@1", CopyMarker(number, number - 1))
            producer.send(stream.name, b"{}", partition=0, headers=headers)
        for _ in range(1700):  # of a producer that writes to the topic itself
            producer.send(stream.name, b"{}", partition=0)
        producer.send(stream.name, b"{}", partition=0, headers=marker_to_headers("nats:x@2", CopyMarker(9, 8)))
    assert read_position(broker.address, stream.name, "nats:x@1") == SourcePosition(2, frozenset({3}))
    assert read_position(broker.address, stream.name, "nats:x@2") == SourcePosition(8, frozenset({9}))


def test_of_a_stream_only_the_subject_is_copied(broker: EmbeddedBroker, nats_server: OwnNats) -> None:
    stream = stream_of(nats_server.url, subject="only.*.this")
    nats_server.add_stream(stream.name, ["only.>"])
    for number in range(20):
        nats_server.publish(f"only.x.{'this' if number % 4 == 0 else 'that'}", payments(number, number + 1))
    with bridging(broker, stream) as bridge:
        wait_until(lambda: bridge.copied_count == 5, 30, "the five", lambda: bridge.error)
    with bridging(broker, stream) as again:
        nats_server.publish("only.y.this", payments(20, 21))
        wait_until(lambda: again.copied_count == 1, 30, "the sixth", lambda: again.error)
    assert numbers(raw(broker, stream)) == [1, 5, 9, 13, 17, 21]
    nats_server.delete_stream(stream.name)


def test_a_queue_is_emptied_once_our_log_has_it(broker: EmbeddedBroker, nats_server: OwnNats) -> None:
    stream = stream_of(nats_server.url)
    nats_server.add_stream(stream.name, [stream.name], retention="workqueue")
    nats_server.publish(stream.name, payments(0, 50))
    with bridging(broker, stream) as bridge:
        wait_until(lambda: nats_server.count(stream.name) == 0, 30, "the queue to be empty", lambda: bridge.error)
    nats_server.publish(stream.name, payments(50, 60))
    with bridging(broker, stream) as bridge:
        wait_until(lambda: nats_server.count(stream.name) == 0, 30, "the queue to be empty", lambda: bridge.error)
    assert numbers(raw(broker, stream)) == list(range(1, 61))


def test_a_stream_that_keeps_only_what_is_waited_for_is_refused(broker: EmbeddedBroker, nats_server: OwnNats) -> None:
    stream = stream_of(nats_server.url)
    nats_server.add_stream(stream.name, [stream.name], retention="interest")
    assert "Set its retention to limits or workqueue" in trouble_of(broker, stream)


def trouble_of(broker: EmbeddedBroker, stream: Stream) -> str:
    """What keeps the bridge of a stream from going on, as it reports it while it is tried again."""
    stop, board = threading.Event(), ProgressTable()
    running = threading.Thread(target=run_sources, args=(App("app", (stream,), ()), broker.address, stop))
    running.start()
    try:
        with TailingConsumer(broker.address, [PROGRESS_TOPIC], board.apply):
            wait_until(
                lambda: (
                    stream.name in board.reports(SourceProgress) and board.reports(SourceProgress)[stream.name].trouble
                ),
                30,
                "its trouble",
            )
            assert running.is_alive()
            return board.reports(SourceProgress)[stream.name].trouble
    finally:
        stop.set()
        running.join()


def test_a_bridge_tells_what_it_has_done(broker: EmbeddedBroker, nats_server: OwnNats) -> None:
    stream, stop, board = stream_of(nats_server.url), threading.Event(), ProgressTable()
    running = threading.Thread(target=run_sources, args=(App("app", (stream,), ()), broker.address, stop))
    running.start()
    try:
        with TailingConsumer(broker.address, [PROGRESS_TOPIC], board.apply):
            wait_until(lambda: stream.name in board.reports(SourceProgress), 30, "its first word")
            wait_until(
                lambda: "does not exist" in board.reports(SourceProgress)[stream.name].trouble, 10, "what it waits for"
            )
            nats_server.add_stream(stream.name, [stream.name])
            nats_server.publish(stream.name, payments(0, 5))
            wait_until(lambda: board.reports(SourceProgress)[stream.name].copied == 5, 30, "what it has copied")
            wait_until(lambda: not board.reports(SourceProgress)[stream.name].trouble, 30, "nothing to be waited for")
            said = board.reports(SourceProgress)[stream.name]
            told = {sample.name: sample.value for metric in source_metrics([said]) for sample in metric.samples}
            wanted = {"headrace_bridge_copied_total": 5, "headrace_bridge_left": 0, "headrace_bridge_waits": 0}
            assert told == wanted
            assert is_stalled(said, said.at_us + SILENT_AFTER_US + 1), "one that says nothing does not go on"
    finally:
        stop.set()
        running.join()


def test_a_stream_made_anew_is_another_history(broker: EmbeddedBroker, nats_server: OwnNats) -> None:
    stream = stream_of(nats_server.url)
    for _ in range(2):
        nats_server.add_stream(stream.name, [stream.name])
        nats_server.publish(stream.name, payments(0, 5))
        with bridging(broker, stream) as bridge:
            wait_until(lambda: bridge.copied_count == 5, 30, "all five", lambda: bridge.error)
        nats_server.delete_stream(stream.name)
    found = raw(broker, stream)
    assert numbers(found) == sorted([*range(1, 6), *range(1, 6)])
    assert len({record.header(SOURCE_HEADER.name) for record in found}) == 2


def test_a_message_that_our_log_does_not_take_is_there_by_its_beginning(
    broker: EmbeddedBroker, nats_server: OwnNats
) -> None:
    stream = stream_of(nats_server.url)
    plain = hr.Stream(stream.name, schema="id string, card string, at timestamp", id="id", key="card", time="at")
    ensure_topics(broker.address, [plain])  # a given topic keeps its limit of about a mebibyte
    nats_server.add_stream(stream.name, [stream.name])
    nats_server.publish(stream.name, [b"x" * (1 << 20), b"small"])
    with bridging(broker, stream) as bridge:
        wait_until(lambda: bridge.copied_count == 2, 30, "both", lambda: bridge.error)
    large, small = sorted(raw(broker, stream), key=lambda record: NUMBER_HEADER.read_or(record, 0))
    assert large.value == b"x" * 1024
    assert large.header(TOO_LARGE_HEADER.name) == b"1048576"
    assert small.header(AFTER_HEADER.name) in {b"0", b"1"}  # by whether both were fetched at once


def test_a_server_that_is_away_is_waited_for_and_its_password_shown_nowhere(
    broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = OwnNats(tmp_path, "--user", "me", "--pass", "canary-of-nats")
    where = server.url.replace("nats://", "nats://me:{}@")
    monkeypatch.setenv("NATS_URL", where.format("canary-of-another"))
    stream = stream_of("env:NATS_URL")
    server.url = where.format("canary-of-nats")
    with bridging(broker, stream) as bridge:
        wait_until(lambda: "cannot be read" in bridge.error, 30, "it to say so", lambda: bridge.error)
        heard = bridge.error
        server.start()
        wait_until(lambda: "Authorization" in bridge.error, 30, "it to say so", lambda: bridge.error)
        heard += bridge.error
        monkeypatch.setenv("NATS_URL", server.url)
        wait_until(lambda: "does not exist" in bridge.error, 30, "it to miss the stream", lambda: bridge.error)
        heard += bridge.error
        server.add_stream(stream.name, [stream.name])
        server.publish(stream.name, payments(0, 5))
        wait_until(lambda: bridge.copied_count == 5, 30, "what was sent", lambda: bridge.error)
        server.stop()
        wait_until(lambda: bridge.error, 30, "it to say so")
        server.start()
        server.publish(stream.name, payments(5, 9))
        wait_until(lambda: bridge.copied_count == 9, 30, "what was sent then", lambda: bridge.error)
    assert "canary" not in heard + repr(stream)
    assert numbers(raw(broker, stream)) == list(range(1, 10))
    server.stop()


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"url": "http://x", "stream": "S"}, "no address of nats://"),
        ({"url": "nats://me:hush@x", "stream": "S"}, "code is no place for one"),
        ({"url": "nats://x", "stream": "a.b"}, "'a.b' is no stream"),
        ({"url": "nats://x", "stream": "S", "subject": "a b"}, "'a b' is no subject"),
    ],
)
def test_what_is_declared_wrong_is_said(wrong: dict[str, str], problem: str) -> None:
    with pytest.raises(hr.DeclarationError, match=problem) as bad:
        hr.Nats(**wrong)
    assert "hush" not in str(bad.value)
    with pytest.raises(hr.DeclarationError, match="is not an external source"):
        hr.Stream("s", schema="id string, at timestamp", id="id", key="id", time="at", from_="nats://x")  # type: ignore[arg-type]
