"""kill -9 of a sink at any moment while events flow: its delivery guarantee holds, row by row."""

import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

import headrace as hr
from bench.postgres import OwnPostgres
from headrace.connectors.sinks.reader_deduplication import SinkTopicDeduplicator
from headrace.connectors.sinks.writer import SinkConfig
from headrace.declare.sinks.sink import Sink
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.child_process import ChildProcess
from headrace.embedded_servers.ports import HOST
from headrace.kafka.topics import TopicSpec
from tests.clickhouse import OwnClickHouse
from tests.connectors.sinks.gate_output import Flow, Gate, new_stream, sinking
from tests.connectors.sinks.target_reader import (
    by,
    in_clickhouse,
    in_delta,
    in_iceberg,
    in_postgres,
    in_redis,
    records_of,
    timed,
)
from tests.kafka.kafka_tools import create_topic
from tests.servers import OwnRedis
from tests.telemetry.https_server import Listening, answer, listening, self_signed
from tests.waiting import PATIENCE, patiently, wait_until

ROOT = Path(__file__).parents[3]
SETTLE_S = 60.0
Rows = Callable[[], list[Any]]


class Killing:
    """A sink in its own process, killed and restarted while events flow."""

    def __init__(self, broker: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **told: str) -> None:
        self.gate = Gate(broker, new_stream(broker, name=f"kills_{random.getrandbits(40)}"))
        self.name, self._folder, self._broker = self.gate.stream.name, folder, broker
        for variable, value in (told | {"SUNK": self.name}).items():
            monkeypatch.setenv(variable, value)

    def endure(self, kills: int, seed: int, rows: Rows, extra: tuple[str, ...] = ()) -> Gate:
        """So many kills, each a while after rows have come; then all that were sent."""
        dice, flow = random.Random(seed), Flow(self.gate, seed)
        flow.start()
        for _ in range(kills):
            self._killed(dice, rows, extra)
        gate, running = flow.finish(), self._start(extra)
        is_lossy = os.environ["DELIVERY"] == "at_most_once"
        try:
            wanted = len(gate.first())
            limit_s = SETTLE_S / PATIENCE if is_lossy else SETTLE_S  # where rows may be lost it may wait in vain
            wait_until(lambda: ids(rows()) >= wanted or not running.is_alive(), limit_s, f"{wanted} rows", self._said)
            assert running.is_alive(), self._said()
        except pytest.fail.Exception:
            if not is_lossy:
                raise
        finally:
            running.stop(grace_s=patiently(10))
        return gate

    def _killed(self, dice: random.Random, rows: Rows, extra: tuple[str, ...]) -> None:
        before, running = len(rows()), self._start(extra)
        wait_until(lambda: len(rows()) > before or not running.is_alive(), SETTLE_S, "rows to come", self._said)
        assert running.is_alive(), self._said()
        time.sleep(dice.uniform(0, 0.5))  # a random moment, not a condition
        assert running.pid is not None
        os.kill(running.pid, signal.SIGKILL)
        assert running.wait(patiently(20))

    def _start(self, extra: tuple[str, ...]) -> ChildProcess:
        app = str(ROOT / "tests" / "sink" / "app.py")
        command = [sys.executable, "-m", "headrace", "run", app, "sink", "--broker", self._broker, *extra]
        running = ChildProcess(command, folder=ROOT, output=self._folder / "sink.out")
        running.start()
        return running

    def _said(self) -> str:
        return (self._folder / "sink.out").read_text()[-3000:]


def ids(rows: list[Any]) -> int:
    return len({row["id"] for row in rows})


AUDIT = """
CREATE TABLE {0} (id text PRIMARY KEY, card text, amount float8, big boolean, n bigint, at timestamptz,
                  hr_partition int, hr_offset bigint);
CREATE TABLE {0}_tried (id text, hr_partition int, hr_offset bigint);
CREATE FUNCTION {0}_note() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN INSERT INTO {0}_tried VALUES (NEW.id, NEW.hr_partition, NEW.hr_offset); RETURN NEW; END $$;
CREATE TRIGGER note BEFORE INSERT ON {0} FOR EACH ROW EXECUTE FUNCTION {0}_note();
"""


def to_postgres(
    broker: EmbeddedBroker, postgres: OwnPostgres, folder: Path, patched: pytest.MonkeyPatch, delivery: str, kills: int
) -> tuple[Gate, Counter[Any]]:
    """Rows as they should be, and how often each was tried in a transaction that was not rolled back."""
    killing = Killing(broker.address, folder, patched, TARGET="postgres", DELIVERY=delivery, PG_URL=postgres.url)
    table = killing.name
    postgres.ask(AUDIT.format(table))
    gate = killing.endure(kills, kills, lambda: [{"id": row[0]} for row in postgres.ask(f"SELECT id FROM {table}")])
    found, first = by("id", in_postgres(postgres, table)), gate.first()
    # If the first event of an id is lost, a later one of the same id replaces it.
    sent = list(map(timed, gate.sent if delivery == "at_most_once" else first.values()))
    assert [row for row in found.values() if row not in sent] == []
    return gate, Counter(postgres.ask(f"SELECT hr_partition, hr_offset FROM {table}_tried"))


@pytest.mark.faults
def test_three_kills_leave_every_row_of_postgres_once(
    broker: EmbeddedBroker, postgres: OwnPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, tried = to_postgres(broker, postgres, tmp_path, monkeypatch, "exactly_once", kills=3)
    assert set(tried.values()) == {1}
    assert len(tried) <= len(gate.sent)
    assert len(postgres.ask(f"SELECT id FROM {gate.stream.name}")) == len(gate.first())


@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.shows("Postgres", delivery="exactly_once", kills=20)
def test_twenty_kills_leave_every_row_of_postgres_once(
    broker: EmbeddedBroker, postgres: OwnPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, tried = to_postgres(broker, postgres, tmp_path, monkeypatch, "exactly_once", kills=20)
    assert set(tried.values()) == {1}
    assert len(postgres.ask(f"SELECT id FROM {gate.stream.name}")) == len(gate.first())


@pytest.mark.faults
@pytest.mark.timeout(900)
@pytest.mark.shows("Postgres", delivery="at_least_once", kills=8)
def test_at_least_once_has_all_rows_after_kills(
    broker: EmbeddedBroker, postgres: OwnPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, _ = to_postgres(broker, postgres, tmp_path, monkeypatch, "at_least_once", kills=8)
    assert len(postgres.ask(f"SELECT id FROM {gate.stream.name}")) == len(gate.first())


@pytest.mark.faults
@pytest.mark.timeout(900)
@pytest.mark.shows("Postgres", delivery="at_most_once", kills=8)
def test_at_most_once_has_no_row_twice_after_kills(
    broker: EmbeddedBroker, postgres: OwnPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, tried = to_postgres(broker, postgres, tmp_path, monkeypatch, "at_most_once", kills=8)
    assert set(tried.values()) == {1}


@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.shows("Redis", delivery="exactly_once", kills=20)
def test_twenty_kills_leave_every_hash_of_redis_right(
    broker: EmbeddedBroker, own_redis: OwnRedis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"TARGET": "redis", "DELIVERY": "exactly_once", "REDIS_URL": own_redis.url}
    killing = Killing(broker.address, tmp_path, monkeypatch, **told)
    gate = killing.endure(20, 21, lambda: in_redis(own_redis.url, killing.name))
    found = by("id", in_redis(own_redis.url, killing.name))
    assert found == {name: timed(one) for name, one in gate.first().items()}


@pytest.mark.faults
@pytest.mark.timeout(600)
@pytest.mark.shows("Iceberg", delivery="exactly_once", kills=10)
def test_ten_kills_leave_every_row_of_iceberg_once(
    broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "warehouse"
    told = {"TARGET": "iceberg", "DELIVERY": "exactly_once", "ICEBERG": str(folder)}
    gate = Killing(broker.address, tmp_path, monkeypatch, **told).endure(10, 23, lambda: in_iceberg(folder, "kills"))
    wait_until(lambda: len(in_iceberg(folder, "kills")) >= len(gate.sent), SETTLE_S, "all rows")
    assert sorted(in_iceberg(folder, "kills"), key=repr) == sorted(map(timed, gate.sent), key=repr)


@pytest.mark.faults
@pytest.mark.timeout(900)
@pytest.mark.shows("ClickHouse", delivery="exactly_once", kills=10)
def test_ten_kills_leave_every_row_of_clickhouse_once(
    broker: EmbeddedBroker, clickhouse: OwnClickHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"TARGET": "clickhouse", "DELIVERY": "exactly_once", "CLICKHOUSE_URL": clickhouse.url}
    killing = Killing(broker.address, tmp_path, monkeypatch, **told)
    table = killing.name
    gate = killing.endure(10, 25, lambda: in_clickhouse(clickhouse, table))
    wait_until(lambda: len(in_clickhouse(clickhouse, table)) >= len(gate.sent), SETTLE_S, "all rows")
    assert sorted(in_clickhouse(clickhouse, table), key=repr) == sorted(map(timed, gate.sent), key=repr)


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_ten_kills_of_clickhouse_itself_leave_every_row_once(
    broker: EmbeddedBroker, clickhouse: OwnClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLICKHOUSE_URL", clickhouse.url)
    gate, dice, table = Gate(broker.address, new_stream(broker.address)), random.Random(26), "crashes"
    target = hr.ClickHouse("env:CLICKHOUSE_URL", table=table)
    sink, flow = Sink(table, of=gate.stream, to=target, delivery="exactly_once"), Flow(gate, 26)
    flow.start()
    with sinking(sink, SinkConfig(broker.address)) as running:
        for _ in range(10):
            before = running.processor.fate_counts["written"]
            wait_until(lambda: running.processor.fate_counts["written"] > before, SETTLE_S, "rows")  # noqa: B023
            time.sleep(dice.uniform(0, 1))  # a random moment, not a condition
            clickhouse.kill()
            clickhouse.start()
        flow.finish()
        wait_until(lambda: len(in_clickhouse(clickhouse, table)) >= len(gate.sent), SETTLE_S, "all rows")
    assert sorted(in_clickhouse(clickhouse, table), key=repr) == sorted(map(timed, gate.sent), key=repr)


@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.shows("Delta", delivery="exactly_once", kills=20)
def test_twenty_kills_leave_every_row_of_delta_once(
    broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "table"
    told = {"TARGET": "delta", "DELIVERY": "exactly_once", "DELTA": str(folder)}
    gate = Killing(broker.address, tmp_path, monkeypatch, **told).endure(20, 22, lambda: in_delta(folder))
    wait_until(lambda: len(in_delta(folder)) >= len(gate.sent), SETTLE_S, "all rows")
    assert sorted(in_delta(folder), key=repr) == sorted(map(timed, gate.sent), key=repr)


@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.shows("Kafka", delivery="exactly_once", kills=20)
def test_twenty_kills_leave_every_row_of_a_topic_once_to_its_reader(
    broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killing = Killing(broker.address, tmp_path, monkeypatch, TARGET="kafka", DELIVERY="exactly_once")
    topic = f"{killing.name}.copied"
    create_topic(broker.address, TopicSpec(topic, topic, 3, {}))

    def read() -> list[Any]:
        once = SinkTopicDeduplicator()
        return [
            orjson.loads(record.value or b"")
            for record in records_of(broker.address, topic)
            if once.is_new(record.partition, record.headers or ())
        ]

    gate = killing.endure(20, 23, read)
    assert sorted(map(timed, read()), key=repr) == sorted(map(timed, gate.sent), key=repr)


@pytest.mark.faults
@pytest.mark.timeout(900)
@pytest.mark.shows("Webhook", delivery="at_least_once", kills=8)
def test_a_webhook_is_told_every_row_after_kills(
    broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = self_signed(tmp_path)
    with listening(certificate, answer(200)) as server:
        told = {"TARGET": "webhook", "DELIVERY": "at_least_once", "HOOK_URL": server.url}
        killing = Killing(broker.address, tmp_path, monkeypatch, **told)
        extra = ("--webhook-allow", HOST, "--webhook-ca", str(certificate))
        gate = killing.endure(8, 24, lambda: rows_told(server), extra)
        assert {row["id"] for row in rows_told(server)} == set(gate.first())


def rows_told(server: Listening) -> list[Any]:
    return [row for body in list(server.bodies) for row in body["rows"]]
