"""Dead letters: each is replayed at most once, whichever process dies meanwhile, and the outcome is recorded."""

import json
import time
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

import headrace as hr
from headrace.cli import main
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka import dead_letter_queue as module
from headrace.kafka.consumers.last_records import LastRecordsReader
from headrace.kafka.dead_letter_queue import (
    DeadLetter,
    DeadLetterQueue,
    ReplayInProgressError,
    stream_queue_config,
)
from headrace.kafka.headers import REASON_HEADER, REPLAYS_HEADER, position_headers
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.topics import ensure_topics
from tests.kafka.streams import new_stream

ARRIVED_US = 1_700_000_000_000_000
VALUES = [b"{", b'{"id": "a", "card": "c1", "amount": -1}', b"\xff\xfe", b'{"id": "b", "card": 7}']
REASONS = ["not-json: no object", "failed-check: amount >= 0", "not-json: no object", "wrong-type: card"]


def refused(broker: EmbeddedBroker, **settings: object) -> hr.Stream:
    """A stream whose gate has refused four records, and written one of them twice."""
    stream = new_stream(partitions=2, **settings)
    ensure_topics(broker.address, [stream])
    with Producer(broker.address) as producer:
        for number in (0, 1, 0, 2, 3):
            told = [*position_headers(10 + number, ARRIVED_US + number), REASON_HEADER.write(REASONS[number])]
            producer.send(stream.dead, VALUES[number], key=b"k", partition=number % 2, headers=told)
    return stream


def raw(broker: EmbeddedBroker, stream: hr.Stream) -> list[ConsumerRecord]:
    return list(LastRecordsReader(broker.address, stream.name, 10**6).read_new_records())


def sent(broker: EmbeddedBroker, stream: hr.Stream) -> Counter[str]:
    return Counter(REPLAYS_HEADER.read_or(record, "") for record in raw(broker, stream))


def places(stream: hr.Stream, *numbers: int) -> list[str]:
    return [f"{stream.name}-{number % 2}@{10 + number}" for number in numbers]


def test_letters_are_what_the_gate_refused_each_once(broker: EmbeddedBroker) -> None:
    stream = refused(broker)
    found = sorted(
        DeadLetterQueue(broker.address, stream_queue_config(stream)).read_letters(),
        key=lambda letter: letter.arrival_us,
    )
    assert [letter.location for letter in found] == places(stream, 0, 1, 2, 3)
    assert found[1] == DeadLetter(found[1].location, 1, ARRIVED_US + 1, REASONS[1], b"k", VALUES[1])
    assert [letter.code for letter in found] == ["not-json", "failed-check", "not-json", "wrong-type"]


def test_each_is_sent_once_with_its_key_and_partition_or_mended_by_its_new_key(broker: EmbeddedBroker) -> None:
    stream = refused(broker)
    letters = DeadLetterQueue(broker.address, stream_queue_config(stream))
    mended = {places(stream, 1)[0]: b'{"id": "a", "card": "c9", "amount": 1}'}
    assert letters.replay(letters.read_letters(), mended) == 4
    assert letters.replay(letters.read_letters(), mended) == 0
    assert sent(broker, stream) == Counter(places(stream, 0, 1, 2, 3))
    by_place = {REPLAYS_HEADER.read_or(record, ""): record for record in raw(broker, stream)}
    same, other = (by_place[places(stream, number)[0]] for number in (2, 1))
    assert (same.key, same.value, same.partition) == (b"k", VALUES[2], 0)
    assert (other.key, other.value) == (b"c9", b'{"id": "a", "card": "c9", "amount": 1}')
    assert set(letters.read_states().values()) == {"replayed"}


@pytest.mark.parametrize("dies_after", [0, 1, 2, 3, 4])
def test_whoever_dies_on_the_way_sends_none_twice_and_leaves_none_out(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, dies_after: int
) -> None:
    stream = refused(broker)
    letters, count = DeadLetterQueue(broker.address, stream_queue_config(stream)), 0
    send_one = DeadLetterQueue._replay_letter

    def dying(self: DeadLetterQueue, producer: Producer, letter: DeadLetter, mended: bytes | None) -> None:
        nonlocal count
        if count == dies_after:
            raise KeyboardInterrupt
        count += 1
        send_one(self, producer, letter, mended)

    with monkeypatch.context() as patched:
        patched.setattr(DeadLetterQueue, "_replay_letter", dying)
        if dies_after < 4:
            with pytest.raises(KeyboardInterrupt):
                letters.replay(letters.read_letters(), {})
        else:
            patched.setattr(DeadLetterQueue, "_write_state", _only_the_first_word(DeadLetterQueue._write_state))
            letters.replay(letters.read_letters(), {})
    assert sum(sent(broker, stream).values()) == dies_after
    with pytest.raises(ReplayInProgressError, match="Wait a minute"):
        letters.replay(letters.read_letters(), {})
    monkeypatch.setattr(module, "REPLAY_LEASE_US", 0)
    assert letters.replay(letters.read_letters(), {}) == 4 - dies_after
    assert sent(broker, stream) == Counter(places(stream, 0, 1, 2, 3))


def _only_the_first_word(write: object) -> object:
    def written(self: DeadLetterQueue, producer: Producer, of: list[str], word: str) -> None:
        if word == "going":
            write(self, producer, of, word)  # type: ignore[operator]

    return written


def test_what_is_discarded_is_not_sent(broker: EmbeddedBroker) -> None:
    stream = refused(broker)
    letters = DeadLetterQueue(broker.address, stream_queue_config(stream))
    assert letters.discard(one for one in letters.read_letters() if one.code == "not-json") == 2
    assert letters.discard(letters.read_letters()) == 2
    assert letters.discard(letters.read_letters()) == 0
    assert letters.replay(letters.read_letters(), {}) == 0
    assert raw(broker, stream) == []


APP = """
import headrace as hr

schema = "id string, card string, amount double, at timestamp"
payments = hr.Stream({name!r}, schema=schema, id="id", key="card", time="at")
"""


@pytest.fixture
def app(broker: EmbeddedBroker, tmp_path: Path) -> tuple[hr.Stream, Path]:
    stream, file = refused(broker), tmp_path / "app.py"
    file.write_text(APP.format(name=stream.name))
    return stream, file


def said(broker: EmbeddedBroker, app: Path, *words: str) -> str:
    result = CliRunner().invoke(main, ["dead", str(app), *words, "--broker", broker.address])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_command_lists_shows_mends_and_discards(
    broker: EmbeddedBroker, app: tuple[hr.Stream, Path], tmp_path: Path
) -> None:
    stream, file = app
    listed = {row["reason"]: row for row in json.loads(said(broker, file, "ls", "--json"))}
    opened = {reason: row["open"] for reason, row in listed.items()}
    assert opened == {"not-json": 2, "failed-check": 1, "wrong-type": 1}
    assert "not-json" in said(broker, file, "ls")
    shown = said(broker, file, "show", stream.name, "--reason", "not-json")
    assert "ff fe" in shown
    assert "failed-check" not in shown
    out = tmp_path / "letters.jsonl"
    said(broker, file, "show", stream.name, "--reason", "failed-check", "--out", str(out))
    (row,) = map(json.loads, out.read_text().splitlines())
    out.write_text(json.dumps(row | {"value": json.loads(row["value"]) | {"amount": 1}}) + "\n")
    replay = ("replay", stream.name, "--from", str(out), "--json")
    assert json.loads(said(broker, file, *replay)) == {"replayed": 1, "already": 0}
    assert json.loads(said(broker, file, *replay)) == {"replayed": 0, "already": 1}
    (record,) = raw(broker, stream)
    assert json.loads(record.value or b"") == {"id": "a", "card": "c1", "amount": 1}
    assert json.loads(said(broker, file, "discard", stream.name, "--yes", "--json")) == {"discarded": 3}
    assert said(broker, file, "show", stream.name) == "There are none.\n"
    assert "replayed" in said(broker, file, "show", stream.name, "--every", "--place", row["place"])


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("nonsense", "line 1 is no letter"),
        ('{"place": "x"}', "line 1 is no letter"),
        ('{"place": "x", "value": {"base64": "!"}}', "line 1 is no letter"),
        ('{"place": "nowhere-0@1", "value": {}}', "There is no letter nowhere-0@1"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(
    broker: EmbeddedBroker, app: tuple[hr.Stream, Path], tmp_path: Path, written: str, reason: str
) -> None:
    stream, file = app
    (tmp_path / "bad.jsonl").write_text(written)
    words = ["replay", stream.name, "--from", str(tmp_path / "bad.jsonl"), "--broker", broker.address]
    result = CliRunner().invoke(main, ["dead", str(file), *words])
    assert (result.exit_code, reason in result.output) == (1, True), result.output
    assert raw(broker, stream) == []


def test_letters_are_shown_and_not_obeyed(broker: EmbeddedBroker, app: tuple[hr.Stream, Path]) -> None:
    stream, file = app
    with Producer(broker.address) as producer:
        headers = [
            *position_headers(99, time.time_ns() // 1000),
            REASON_HEADER.write("not-json: no"),
        ]
        producer.send(stream.dead, b"\x1b[2Jhello\x07", partition=0, headers=headers)
    shown = said(broker, file, "show", stream.name, "--place", f"{stream.name}-0@99")
    assert r"\x1b[2Jhello\x07" in shown


HOSTILE = "<img src=x onerror=alert(1)>\x1b[2J"
GIVEN: list[list[tuple[str, str | bytes]]] = [
    [("app", "till"), ("app", b"\xff"), (HOSTILE, HOSTILE)],
    [],
    [("x", "y")],
]


def with_headers(broker: EmbeddedBroker) -> hr.Stream:
    """A stream with three raw records, two of which its gate has refused, and a letter of one that is gone."""
    stream = new_stream(partitions=1)
    ensure_topics(broker.address, [stream])
    with Producer(broker.address) as producer:
        for number, headers in enumerate(GIVEN):
            producer.send(stream.name, VALUES[number], partition=0, headers=headers)
        for offset, value in ((0, VALUES[0]), (1, VALUES[1]), (2, b"another value"), (99, VALUES[3])):
            told = [
                *position_headers(offset, ARRIVED_US),
                REASON_HEADER.write(REASONS[0]),
            ]
            producer.send(stream.dead, value, partition=0, headers=told)
    return stream


def test_what_a_producer_gave_is_read_from_the_raw_record_if_it_is_still_that_one(broker: EmbeddedBroker) -> None:
    stream = with_headers(broker)
    letters = DeadLetterQueue(broker.address, stream_queue_config(stream))
    found = letters.read_source_headers(letters.read_letters())
    assert found == {
        f"{stream.name}-0@0": [("app", b"till"), ("app", b"\xff"), (HOSTILE, HOSTILE.encode())],
        f"{stream.name}-0@1": [],
    }
    assert letters.read_source_headers([]) == {}


def test_headers_are_shown_and_never_obeyed(broker: EmbeddedBroker, tmp_path: Path) -> None:
    stream = with_headers(broker)
    app = tmp_path / "app.py"
    app.write_text(APP.format(name=stream.name))
    words = ["dead", str(app), "show", stream.name, "--broker", broker.address]
    said = CliRunner().invoke(main, words)
    assert said.exit_code == 0, said.output
    assert "\x1b" not in said.output
    assert "  app: till\n  app: ff\n" in said.output
    rows = json.loads(CliRunner().invoke(main, [*words, "--json", "--limit", "3"]).output)
    assert [row["headers"] for row in rows] == [
        [["app", "till"], ["app", {"base64": "/w=="}], [HOSTILE, HOSTILE]],
        [],
        None,
    ]
