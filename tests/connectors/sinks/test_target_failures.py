"""Targets that are away, reject rows or differ from their declaration: no row is lost, every failure is reported."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import headrace as hr
from bench.postgres import OwnPostgres
from headrace.cli import main
from headrace.connectors.sinks.sink_part import SinkWorker
from headrace.connectors.sinks.writer import SinkConfig
from headrace.declare.sinks.sink import Sink
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.dead_letter_queue import DeadLetterQueue, sink_queue_config
from tests.connectors.sinks.gate_output import Flow, Gate, event, new_stream, sinking
from tests.connectors.sinks.target_reader import by, in_postgres, in_redis, timed
from tests.connectors.sinks.test_kills import AUDIT
from tests.servers import OwnRedis
from tests.waiting import wait_until

APP = Path(__file__).with_name("app.py")
LIMIT_S = 60.0


def wait_for(running: SinkWorker, fate: str, rows: int, limit_s: float = LIMIT_S) -> None:
    wait_until(
        lambda: running.processor.fate_counts[fate] >= rows, limit_s, f"{rows} {fate}", lambda: f"{running.progress()}"
    )


@pytest.mark.parametrize("delivery", ["exactly_once", "at_most_once"])
def test_a_target_that_is_away_is_waited_for_and_nothing_is_parked_or_lost(
    broker: EmbeddedBroker, postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch, delivery: Any
) -> None:
    monkeypatch.setenv("PG_URL", postgres.url)
    gate, table = Gate(broker.address, new_stream(broker.address)), f"away_{delivery}"
    sink = Sink(table, of=gate.stream, to=hr.Postgres("env:PG_URL", table=table), delivery=delivery)
    with sinking(sink, SinkConfig(broker.address)) as running:
        gate.send(*map(event, range(50)))
        wait_for(running, "written", 50)
        postgres.stop()
        try:
            gate.send(*map(event, range(50, 100)))
            wait_until(
                lambda: running.processor.error and running.processor.retry_count > 2, LIMIT_S, "trouble to be told"
            )
            assert "hush-hush" not in running.processor.error
        finally:
            postgres.start()
        wait_for(running, "written", 100)
        assert set(running.processor.fate_counts) == {"written"}
        assert running.processor.error == ""
    assert by("id", in_postgres(postgres, table)) == {name: timed(one) for name, one in gate.first().items()}


def test_bad_rows_are_parked_shown_mended_and_sent_again(
    broker: EmbeddedBroker, postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gate = Gate(broker.address, new_stream(broker.address, name="parking_lot"))
    told = {"SUNK": "parking_lot", "TARGET": "postgres", "DELIVERY": "exactly_once", "PG_URL": postgres.url}
    for variable, value in told.items():
        monkeypatch.setenv(variable, value)
    postgres.ask(AUDIT.format("parking_lot") + "ALTER TABLE parking_lot ADD CHECK (amount < 1000)")
    bad = [
        event(7, id="bad7", amount=5000.0),
        event(8, id="with\x00nul"),
        b"no json",
        event(9, id="bad9", amount=2000.0),
    ]
    gate.send(*map(event, range(40)), *bad[:2], *map(event, range(40, 60)), *bad[2:], *map(event, range(60, 80)))
    to_table = hr.Postgres("env:PG_URL", table="parking_lot")
    sink = hr.Sink("rows of parking_lot", of=gate.stream, to=to_table, delivery="exactly_once")
    with sinking(sink, SinkConfig(broker.address)) as running:
        wait_for(running, "parked", 4)
        wait_for(running, "written", 80)
        assert dict(running.processor.reason_counts) == {"rejected": 3, "not-json": 1}
        shown = {row["place"]: row for row in asked("show", "--json", broker=broker)}
        assert {row["state"] for row in shown.values()} == {"open"}
        checked = {place: row for place, row in shown.items() if "check constraint" in row["reason"]}
        assert len(checked) == 2
        mended = tmp_path / "mended.jsonl"
        rows = [{"place": place, "value": json.loads(row["value"]) | {"amount": 1.0}} for place, row in checked.items()]
        mended.write_text("\n".join(map(json.dumps, rows)))
        assert asked("replay", "--from", str(mended), "--json", broker=broker) == {"replayed": 2, "already": 0}
        assert asked("replay", "--from", str(mended), "--json", broker=broker) == {"replayed": 0, "already": 2}
        wait_for(running, "written", 82)
        assert asked("replay", "--reason", "not-json", "--json", broker=broker) == {"replayed": 1, "already": 0}
        wait_for(running, "parked", 5)
    assert asked("discard", "--yes", "--json", broker=broker) == {"discarded": 2}
    (first, second) = asked("ls", "--json", broker=broker)
    assert (first["reason"], first["open"], first["replayed"], first["discarded"]) == ("not-json", 0, 1, 1)
    assert (second["reason"], second["open"], second["replayed"], second["discarded"]) == ("rejected", 0, 2, 1)
    found = by("id", in_postgres(postgres, "parking_lot"))
    assert found.keys() == {f"e{number}" for number in range(80)} | {"bad7", "bad9"}
    assert {row["amount"] for name, row in found.items() if name.startswith("bad")} == {1.0}


def asked(action: str, *flags: str, broker: EmbeddedBroker) -> Any:
    words = ["parked", str(APP), action, "rows of parking_lot", *flags, "--broker", broker.address]
    ran = CliRunner().invoke(main, words, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.output)


def test_a_row_that_is_sent_again_does_not_take_the_place_of_a_later_one(
    broker: EmbeddedBroker, postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PG_URL", postgres.url)
    gate = Gate(broker.address, new_stream(broker.address))
    postgres.ask(AUDIT.format("late_again").replace("id text PRIMARY KEY, card text", "id text, card text PRIMARY KEY"))
    postgres.ask("ALTER TABLE late_again ADD CONSTRAINT few CHECK (amount < 1000)")
    sink = Sink("again", of=gate.stream, to=hr.Postgres("env:PG_URL", table="late_again"), key="card")
    gate.send(event(1, amount=5000.0), event(2, card="c1", amount=3.0), event(3, card="c3", amount=4000.0))
    with sinking(sink, SinkConfig(broker.address)) as running:
        wait_for(running, "parked", 2)
        wait_for(running, "written", 1)
        postgres.ask("ALTER TABLE late_again DROP CONSTRAINT few")
        letters = DeadLetterQueue(broker.address, sink_queue_config(sink))
        assert letters.replay(letters.read_letters(), {}) == 2
        wait_for(running, "written", 3)
    assert sorted(postgres.ask("SELECT card, id FROM late_again")) == [("c1", "e2"), ("c3", "e3")]


@pytest.mark.faults  # on a busy machine a broker takes more than a minute to share partitions out
def test_copies_that_come_and_go_write_each_row_once(
    broker: EmbeddedBroker, postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PG_URL", postgres.url)
    gate = Gate(broker.address, new_stream(broker.address))
    postgres.ask(AUDIT.format("copies"))
    sink = Sink("copies", of=gate.stream, to=hr.Postgres("env:PG_URL", table="copies"), delivery="exactly_once")
    place, flow = SinkConfig(broker.address), Flow(gate, 5)
    flow.start()
    with sinking(sink, place) as second:
        with sinking(sink, place) as first:
            wait_for(first, "written", 1, 240)
            wait_for(second, "written", 1, 240)
        flow.finish()
        wanted = len(gate.first())
        wait_until(lambda: postgres.ask("SELECT count(*) FROM copies") == [(wanted,)], LIMIT_S, f"{wanted} rows")
    tried = postgres.ask("SELECT hr_partition, hr_offset FROM copies_tried")
    assert len(tried) == len(set(tried))
    assert by("id", in_postgres(postgres, "copies")) == {name: timed(one) for name, one in gate.first().items()}


def test_a_redis_that_comes_back_empty_is_filled_anew(
    broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = OwnRedis(tmp_path)
    server.start()
    monkeypatch.setenv("REDIS_URL", server.url)
    gate = Gate(broker.address, new_stream(broker.address))
    sink = Sink("empty", of=gate.stream, to=hr.Redis("env:REDIS_URL", prefix="again"), delivery="exactly_once")
    gate.send(*map(event, range(50)))
    try:
        with sinking(sink, SinkConfig(broker.address)) as running:
            wait_for(running, "written", 50)
            server.stop()
            server.start()
            gate.send(*map(event, range(50, 60)))
            wait_until(lambda: len(in_redis(server.url, "again")) == 60, LIMIT_S, "all rows")
    finally:
        server.stop()


NO_KEY = AUDIT.format("unfit").partition(";")[0].replace(" PRIMARY KEY", "")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("CREATE TABLE unfit (id text PRIMARY KEY)", "needs the columns id, card, amount, big, n, at, hr_partition"),
        (NO_KEY, "a unique index on id"),
    ],
)
def test_a_table_that_does_not_fit_is_told_of_with_what_it_needs(
    broker: EmbeddedBroker, postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch, table: str, said: str
) -> None:
    monkeypatch.setenv("PG_URL", postgres.url)
    postgres.ask("DROP TABLE IF EXISTS unfit")
    postgres.ask(table)
    gate = Gate(broker.address, new_stream(broker.address))
    sink = Sink("unfit", of=gate.stream, to=hr.Postgres("env:PG_URL", table="unfit"))
    gate.send(event(1))
    with sinking(sink, SinkConfig(broker.address)) as running:
        wait_until(lambda: said in running.processor.error, LIMIT_S, said, lambda: running.processor.error)
        assert not running.processor.fate_counts


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "variable PG_URL is not set"),
        ("postgresql://headrace:s3cret@127.0.0.1:1/x", "does not take rows"),
        ("postgresql//headrace:s3cret@nowhere", "does not take rows"),
    ],
)
def test_a_secret_is_in_no_text(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, url: str, said: str
) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed: run `make setup`")
    caplog.set_level("DEBUG")
    monkeypatch.setenv("PG_URL", url)
    gate = Gate(broker.address, new_stream(broker.address))
    sink = Sink("secret", of=gate.stream, to=hr.Postgres("env:PG_URL", table="t"), delivery="exactly_once")
    with sinking(sink, SinkConfig(broker.address)) as running:
        wait_until(lambda: said in running.processor.error, LIMIT_S, said, lambda: running.processor.error)
        assert "s3cret" not in str(running.progress())
    assert "s3cret" not in caplog.text
    assert "s3cret" not in repr(sink)
