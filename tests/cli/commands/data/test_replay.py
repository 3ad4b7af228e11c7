"""`headrace replay` writes a recording to the stream's topic: complete, in order per key, at once or paced."""

import json
from collections import defaultdict
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from headrace.cli import main
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.record import ConsumerRecord
from headrace.tiles.events.event_parser import parse_timestamp_us
from tests.waiting import patiently

EVENTS, KEYS = 5_000, 40
_numbers = count()


@pytest.fixture
def app(tmp_path: Path) -> tuple[str, str]:
    """An app with a stream no other test has: its file and the stream's name."""
    name = f"replayed{next(_numbers)}"
    file = tmp_path / "app.py"
    file.write_text(
        "import headrace as hr\n"
        f'taps = hr.Stream("{name}", schema="id string, card string, at timestamp, seen timestamp",\n'
        '                 id="id", key="card", time="at", arrival="seen")\n'
    )
    return str(file), name


def recording(folder: Path, events: int = EVENTS) -> Path:
    """Events in no order, of which some are of one moment."""
    rows = [{"id": f"e{n}", "card": f"c{n * 7 % KEYS}", "at": n * 1000, "seen": n // 3 * 1000} for n in range(events)]
    rows.sort(key=lambda row: row["id"])
    times = {"at": pa.timestamp("ms"), "seen": pa.timestamp("ms", "UTC")}
    schema = pa.schema({"id": pa.string(), "card": pa.string(), **times})
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / "taps.parquet")
    return folder / "taps.parquet"


def replay(*words: Any) -> Result:
    return CliRunner().invoke(main, ["replay", *map(str, words)])


def records_of(broker: EmbeddedBroker, topic: str) -> list[ConsumerRecord]:
    seen: list[ConsumerRecord] = []
    with TailingConsumer(broker.address, [topic], seen.extend) as follower:
        assert follower.wait_until_caught_up(patiently(30))
    return seen


def test_a_recording_arrives_complete_and_in_order_for_each_key(
    broker: EmbeddedBroker, app: tuple[str, str], tmp_path: Path
) -> None:
    file, stream = app
    said = replay(file, stream, recording(tmp_path), "--speed", "max", "--broker", broker.address, "--json")
    assert said.exit_code == 0, said.output
    told = json.loads(said.output)
    assert (told["sent"], told["of"], told["until"]) == (EVENTS, EVENTS, "1970-01-01T00:27:46+00:00")
    arrived = records_of(broker, stream)
    assert sorted(json.loads(record.value or b"")["id"] for record in arrived) == sorted(f"e{n}" for n in range(EVENTS))
    assert len({record.partition for record in arrived}) == 2
    by_key: dict[bytes | None, list[int | None]] = defaultdict(list)
    for record in arrived:
        event = json.loads(record.value or b"")
        assert record.key == event["card"].encode()
        by_key[record.key].append(parse_timestamp_us(event["seen"]))
    assert len(by_key) == KEYS
    assert all(times == sorted(times) for times in by_key.values())


def test_a_replay_takes_its_share_of_the_recorded_time(
    broker: EmbeddedBroker, app: tuple[str, str], tmp_path: Path
) -> None:
    file, stream = app
    options = ["--speed", "1000x", "--from", "1970-01-01T00:10:00Z", "--limit", 600, "--broker", broker.address]
    said = replay(file, stream, recording(tmp_path), *options, "--json")
    told = json.loads(said.output)
    assert (told["sent"], told["until"]) == (600, "1970-01-01T00:13:19+00:00")
    assert told["seconds"] >= 0.199
    assert len(records_of(broker, stream)) == 600


def test_a_replay_says_what_it_did_in_one_line(broker: EmbeddedBroker, app: tuple[str, str], tmp_path: Path) -> None:
    file, stream = app
    said = replay(file, stream, recording(tmp_path, 10), "--speed", "max", "--broker", broker.address)
    expected = f"headrace: 10 of 10 events to {stream}, recorded until 1970-01-01T00:00:03+00:00, in "
    assert said.output.startswith(expected)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--speed", "fast"], "--speed 'fast' is not a speed"),
        (["--from", "noon"], "--from 'noon' is not a time"),
        (["--order-by", "when"], "no column 'when'"),
        (["--limit", "-1"], "--limit"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_sent(
    app: tuple[str, str], tmp_path: Path, words: list[str], said: str
) -> None:
    answer = replay(*app, recording(tmp_path, 10), *words)
    assert answer.exit_code != 0
    assert said in answer.output


def test_a_stream_that_is_not_declared_is_refused_with_those_that_are(app: tuple[str, str], tmp_path: Path) -> None:
    answer = replay(app[0], "tabs", recording(tmp_path, 10))
    assert answer.exit_code == 1
    assert f"there is no stream 'tabs'. It declares {app[1]}" in answer.output
