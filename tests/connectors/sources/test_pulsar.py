"""The raw topic has every message of a Pulsar topic once and in order, whatever fails meanwhile."""

import json
import os
import random
import signal
import sys
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import headrace as hr
from headrace.connectors.sources.source_part import create_source_readers, merge_progress_by_stream
from headrace.connectors.sources.source_reader import SourceUnavailable
from headrace.connectors.sources.source_worker import SourceWorker
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.child_process import ChildProcess
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.status.reports.connectors import SourceProgress
from headrace.kafka.topics import ensure_topics
from tests.connectors.sources.pulsar_server import OwnPulsar, token_of
from tests.connectors.sources.test_nats import in_order, payments, raw, trouble_of
from tests.waiting import patiently, wait_until

HERE, ROOT = Path(__file__).parent, Path(__file__).parents[3]
MESSAGES, KILLS = 9_000, 6


class Bridges:
    """The bridges of one stream, seen as one."""

    def __init__(self, parts: list[SourceWorker]) -> None:
        self.parts = parts

    @property
    def copied(self) -> int:
        return sum(part.copied_count for part in self.parts)

    @property
    def trouble(self) -> str:
        return " ".join(part.error for part in self.parts)


@contextmanager
def bridging(broker: EmbeddedBroker, stream: hr.Stream) -> Iterator[Bridges]:
    ensure_topics(broker.address, [stream])
    bridges = Bridges([SourceWorker(stream, reader, broker.address) for reader in create_source_readers(stream)])
    for part in bridges.parts:
        part.start()
    try:
        yield bridges
    finally:
        for part in bridges.parts:
            part.stop()
    assert [part.failure for part in bridges.parts] == [None] * len(bridges.parts)


def topic_of(name: str) -> str:
    return f"persistent://public/default/{name}"


def stream_of(url: str, partitions: int | None = None, token: str | None = None) -> hr.Stream:
    """A stream no other test has, and the topic of Pulsar of that name."""
    name = f"u{uuid.uuid4().hex[:12]}"
    from_ = hr.Pulsar(url, topic=topic_of(name), partitions=partitions, token=token)
    return hr.Stream(name, schema="id string, card string, at timestamp", id="id", key="card", time="at", from_=from_)


def ids(records: list[ConsumerRecord]) -> list[str]:
    """The events' ids, each partition in its order."""
    return [json.loads(record.value or b"")["id"] for record in records]


def ordered_by_card(records: list[ConsumerRecord]) -> bool:
    """Whether each card's payments are in the order in which they were sent."""
    of_cards = defaultdict(list)
    for record in records:
        event = json.loads(record.value or b"")
        of_cards[event["card"]].append(int(event["id"].removeprefix("p")))
    return all(numbers == sorted(numbers) for numbers in of_cards.values())


def test_messages_are_copied_as_they_are_in_order_and_once(broker: EmbeddedBroker, pulsar_server: OwnPulsar) -> None:
    stream = stream_of(pulsar_server.url)
    topic, bad = topic_of(stream.name), [b"", b"{bad", b"\xff\xfe"]
    pulsar_server.add_topic(topic)
    pulsar_server.publish(topic, payments(0, 600), {"traceparent": "00-1"})
    pulsar_server.publish(topic, bad, batched=False)
    with bridging(broker, stream) as bridge:
        wait_until(lambda: bridge.copied == 603, 30, "the first copies", lambda: bridge.trouble)
    pulsar_server.unload(topic)  # it continues in another ledger
    pulsar_server.publish(topic, payments(600, 1200), batched=False)
    with bridging(broker, stream) as bridge:  # another one: it knows from the log where the first ended
        wait_until(lambda: bridge.copied == 600, 30, "the others", lambda: bridge.trouble)
    found = raw(broker, stream)
    events = [record for record in found if record.value not in bad]
    assert in_order(found)
    assert Counter(record.value for record in found) == Counter(payments(0, 1200) + bad)
    assert ordered_by_card(events)
    first = next(record for record in events if record.value == payments(0, 1)[0])
    assert (first.key, first.header("traceparent")) == (b"c0", b"00-1")


def test_a_bridge_goes_on_in_the_midst_of_a_batch(pulsar_server: OwnPulsar) -> None:
    stream = stream_of(pulsar_server.url)
    pulsar_server.add_topic(topic_of(stream.name))
    pulsar_server.publish(topic_of(stream.name), payments(0, 40))
    pulsar_server.publish(topic_of(stream.name), payments(40, 50), batched=False)
    (reader,) = create_source_readers(stream)
    reader.open()
    everything = reader.read(0, 100)
    assert [message.value for message in everything] == payments(0, 50)
    for place, message in enumerate(everything[:-1]):
        assert reader.read(message.number, 3) == everything[place + 1 : place + 4]
    reader.close()


def test_every_partition_is_copied_and_a_card_keeps_its_order(broker: EmbeddedBroker, pulsar_server: OwnPulsar) -> None:
    stream = stream_of(pulsar_server.url, partitions=3)
    pulsar_server.add_topic(topic_of(stream.name), 3)
    for first in (0, 500):
        pulsar_server.publish(topic_of(stream.name), payments(first, first + 500))
        with bridging(broker, stream) as bridge:
            wait_until(lambda: bridge.copied == 500, 30, "all of them", lambda: bridge.trouble)
            assert sum(part.copied_count > 0 for part in bridge.parts) > 1
    found = raw(broker, stream)
    assert sorted(ids(found)) == sorted(f"p{number}" for number in range(1000))
    assert ordered_by_card(found)


def test_another_number_of_partitions_than_declared_is_refused(
    broker: EmbeddedBroker, pulsar_server: OwnPulsar
) -> None:
    stream = stream_of(pulsar_server.url)
    pulsar_server.add_topic(topic_of(stream.name), 2)
    assert "Write partitions=2" in trouble_of(broker, stream)


def test_a_topic_made_anew_is_copied_from_its_beginning(broker: EmbeddedBroker, pulsar_server: OwnPulsar) -> None:
    stream = stream_of(pulsar_server.url)
    for first in (0, 5):
        pulsar_server.add_topic(topic_of(stream.name))
        pulsar_server.publish(topic_of(stream.name), payments(first, first + 5))
        with bridging(broker, stream) as bridge:
            wait_until(lambda: bridge.copied == 5, 30, "all five", lambda: bridge.trouble)
        pulsar_server.delete_topic(topic_of(stream.name))
    assert sorted(ids(raw(broker, stream))) == [f"p{number}" for number in range(10)]


def test_what_retention_took_is_told(broker: EmbeddedBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = OwnPulsar(tmp_path, retention_minutes=0)
    server.start()
    stream = stream_of(server.url)
    topic = topic_of(stream.name)
    server.add_topic(topic)
    with bridging(broker, stream) as bridge:
        for first, last in ((0, 3), (3, 5)):  # that a batch was there for certain is said by the next one
            server.publish(topic, payments(first, last))
            wait_until(lambda: bridge.copied == last, 30, "the first", lambda: bridge.trouble)  # noqa: B023
    server.publish(topic, payments(5, 7))
    server.unload(topic)
    server.publish(topic, payments(7, 9))
    wait_until(lambda: server.trimmed(topic), 30, "retention to take the first ledger")
    with bridging(broker, stream) as bridge:
        wait_until(lambda: bridge.copied == 2, 30, "what is left", lambda: bridge.trouble)
    assert "messages in between may be lost" in caplog.text
    assert sorted(ids(raw(broker, stream))) == ["p0", "p1", "p2", "p3", "p4", "p7", "p8"]
    server.stop()


@pytest.mark.faults
def test_a_server_that_is_away_is_waited_for_and_its_token_shown_nowhere(
    broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    server, wrong, right = OwnPulsar(tmp_path, guarded=True), token_of("me", b"another"), token_of("me")
    monkeypatch.setenv("PULSAR_URL", server.url)
    monkeypatch.setenv("PULSAR_TOKEN", wrong)
    stream = stream_of("env:PULSAR_URL", token="env:PULSAR_TOKEN")
    topic, heard = topic_of(stream.name), ""
    with bridging(broker, stream) as bridge:
        wait_until(lambda: "cannot be read" in bridge.trouble, 30, "it to say so", lambda: bridge.trouble)
        heard += bridge.trouble
        server.start()
        with pytest.raises(SourceUnavailable, match="correct its address or token") as refused:
            create_source_readers(stream)[0].open()
        heard += str(refused.value)
        monkeypatch.setenv("PULSAR_TOKEN", right)
        wait_until(lambda: "does not exist" in bridge.trouble, 30, "it to miss the topic", lambda: bridge.trouble)
        server.add_topic(topic)
        server.publish(topic, payments(0, 5))
        wait_until(lambda: bridge.copied == 5, 30, "what was sent", lambda: bridge.trouble)
        server.stop()
        wait_until(lambda: bridge.trouble, 30, "it to say so")
        heard += bridge.trouble
        server.start()
        server.publish(topic, payments(5, 9))
        wait_until(lambda: bridge.copied == 9, 30, "what was sent then", lambda: bridge.trouble)
    server.stop()
    printed = capfd.readouterr()
    heard += repr(stream) + printed.out + printed.err
    assert not [secret for secret in (wrong, right, server.url) if secret in heard]
    assert sorted(ids(raw(broker, stream))) == [f"p{number}" for number in range(9)]


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_killed_again_and_again_a_bridge_neither_loses_nor_doubles(
    broker: EmbeddedBroker, pulsar_server: OwnPulsar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, dice = stream_of(pulsar_server.url, partitions=3), random.Random(7)
    monkeypatch.setenv("BRIDGED", stream.name)
    monkeypatch.setenv("PULSAR_URL", pulsar_server.url)
    pulsar_server.add_topic(topic_of(stream.name), 3)
    publisher = threading.Thread(target=publish_slowly, args=(pulsar_server, topic_of(stream.name)))
    publisher.start()
    for kill in range(KILLS):
        before, bridge = copied(broker, stream.name), started(broker, tmp_path / f"{kill}.log")
        wait_until(lambda: copied(broker, stream.name) > before or not bridge.is_alive(), 60, "messages to come")  # noqa: B023
        time.sleep(dice.uniform(0, 0.3))  # a random moment, not a condition
        os.kill(bridge.pid, signal.SIGKILL)
        assert bridge.wait(patiently(20))
    bridge = started(broker, tmp_path / "last.log")
    publisher.join()
    wait_until(lambda: copied(broker, stream.name) >= MESSAGES, 120, "all", (tmp_path / "last.log").read_text)
    bridge.stop(grace_s=patiently(20))
    found = raw(broker, stream)
    assert sorted(ids(found)) == sorted(f"p{number}" for number in range(MESSAGES))
    assert ordered_by_card(found)


def publish_slowly(server: OwnPulsar, topic: str) -> None:
    """Some every while, so that a bridge is killed with messages on the way."""
    for first in range(0, MESSAGES, 250):
        server.publish(topic, payments(first, first + 250))
        time.sleep(0.5)


def copied(broker: EmbeddedBroker, topic: str) -> int:
    return sum(OffsetClient(broker.address).end_offset_list(topic))


def started(broker: EmbeddedBroker, log: Path) -> ChildProcess:
    app = str(HERE / "pulsar_app.py")
    command = [sys.executable, "-m", "headrace", "run", app, "bridge", "--broker", broker.address]
    child = ChildProcess(command, folder=ROOT, output=log)
    child.start()
    return child


def test_the_bridges_of_one_stream_tell_as_one() -> None:
    said = [SourceProgress("s", 1, 3, 1, ""), SourceProgress("t", 1, 9, 0, ""), SourceProgress("s", 2, 4, 1, "away")]
    assert merge_progress_by_stream(said) == [SourceProgress("s", 2, 7, 2, "away"), SourceProgress("t", 1, 9, 0, "")]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"url": "http://x"}, "no address of pulsar://"),
        ({"url": "pulsar://me:hush@x"}, "no address of pulsar://"),
        ({"topic": "payments"}, "'payments' is no topic"),
        ({"partitions": 0}, "partitions=0 is no number"),
        ({"partitions": 2, "partition": 2}, "partition=2 is none of partitions=2"),
        ({"token": "hush"}, "code is no place for one"),
    ],
)
def test_what_is_declared_wrong_is_said(wrong: dict[str, str], problem: str) -> None:
    right = {"url": "pulsar://x", "topic": topic_of("payments")}
    with pytest.raises(hr.DeclarationError, match=problem) as bad:
        hr.Pulsar(**right | wrong)  # type: ignore[arg-type]
    assert "hush" not in str(bad.value)
