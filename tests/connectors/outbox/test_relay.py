"""A relay sends committed rows in order, parks rows that can never be sent, and waits for unavailable servers."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import psycopg
import pytest
from click.testing import CliRunner

from bench.postgres import PASSWORD, OwnPostgres
from headrace.cli import main
from headrace.connectors.outbox import relay as relay_module
from headrace.connectors.outbox.outbox_part import RelayRunner, run_relays
from headrace.connectors.outbox.outbox_table import OutboxLockedError, OutboxTable
from headrace.connectors.outbox.relay import Relay
from headrace.connectors.sinks.writer import TargetUnavailable
from headrace.declare.app import App
from headrace.declare.sinks.outbox import Outbox
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.ports import HOST, free_port
from headrace.kafka.headers import ID_HEADER
from headrace.kafka.topics import LOG_APPEND_TIME, TopicSpec
from tests.connectors.outbox.outbox_service import Shop, Writing
from tests.connectors.sinks.target_reader import records_of
from tests.kafka.kafka_tools import create_topic
from tests.waiting import wait_until

LIMIT_S = 30.0


@pytest.fixture
def shop(postgres: OwnPostgres, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setenv("PG_URL", postgres.url)
    return Shop(postgres, broker.address)


def relay_of(shop: Shop, **how: Any) -> Relay:
    return Relay(OutboxTable("env:PG_URL", shop.table), shop.broker, {shop.stream.name: shop.stream}, **how)


def insert(shop: Shop, payload: Any, *, key: str = "a1", stream: str = "") -> None:
    with psycopg.connect(shop.postgres.url, autocommit=True) as connection:
        connection.execute(
            f"INSERT INTO {shop.table} (id, stream, key, payload) VALUES (%s, %s, %s, %s)",
            [f"row-{shop.left()}", stream or shop.stream.name, key, json.dumps(payload)],
        )


def event(number: int, **changed: Any) -> dict[str, Any]:
    made = {"id": f"a1-{number}", "account": "a1", "version": number, "at": "2026-01-01T00:00:00Z"}
    return made | changed


def told(shop: Shop, topic: str = "") -> list[Any]:
    return [orjson.loads(record.value or b"") for record in records_of(shop.broker, topic or shop.stream.name)]


def drain(relay: Relay) -> None:
    while relay.relay_batch():
        pass


@contextmanager
def relaying(relay: Relay) -> Iterator[RelayRunner]:
    running, stop = RelayRunner(relay, "outbox", poll_interval_s=0.01), threading.Event()
    thread = threading.Thread(target=running.run, args=(stop,))
    thread.start()
    try:
        yield running
    finally:
        stop.set()
        thread.join()


def test_a_transaction_that_commits_late_is_not_passed_over(shop: Shop) -> None:
    relay = relay_of(shop)
    with psycopg.connect(shop.postgres.url) as late, psycopg.connect(shop.postgres.url) as early:
        shop.tell(late, "a1", 1)
        shop.tell(early, "a2", 1)
        early.commit()
        drain(relay)
        assert [one["account"] for one in told(shop)] == ["a2"]
        late.commit()
    drain(relay)
    assert sorted(one["account"] for one in told(shop)) == ["a1", "a2"]
    assert shop.left() == 0
    relay.close()


def test_many_writers_at_once_are_told_in_order_and_once(shop: Shop) -> None:
    writing = Writing(shop, 300)
    with relaying(relay_of(shop, batch_size=17)):
        writing.finish()
        wait_until(lambda: shop.left() == 0, LIMIT_S, "an empty outbox")
    assert shop.require_told_once() == 0


def test_poison_is_parked_with_its_reason_and_holds_up_nobody(shop: Shop) -> None:
    for payload, key in (
        (event(1), "a1"),
        (event(2, version="two"), "a1"),
        (event(3, id=None), "a1"),
        ([event(4)], "a1"),
        (event(5), "a2"),
        (event(6, account="x" * (1 << 20)), "x" * (1 << 20)),
        (event(7), "a1"),
    ):
        insert(shop, payload, key=key)
    insert(shop, event(8), stream="no topic!")
    relay = relay_of(shop)
    drain(relay)
    assert [one["version"] for one in told(shop)] == [1, 7]
    wrong = ("wrong-type", "missing-id", "not-json", "wrong-key", "too-large", "no-topic")
    assert dict(relay.reason_counts) == dict.fromkeys(wrong, 1)
    assert dict(relay.fate_counts) == {"sent": 2, "parked": 6}
    status = asked(shop, "--status", "--json")
    assert (status["waiting"], status["parked"]) == (0, 6)
    assert status["rows"][0]["reason"] == "wrong-type: column version is not a bigint: two"
    shop.postgres.ask(f"UPDATE {shop.table} SET payload = jsonb_set(payload, '{{version}}', '2') WHERE id = 'row-1'")
    assert "6 rows will be retried" in ran(shop, "--unpark")
    drain(relay)
    assert [one["version"] for one in told(shop)] == [1, 7, 2]
    relay.close()


def test_rows_of_a_topic_that_is_not_there_wait_for_it_and_others_go(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "CHECK_INTERVAL_SECONDS", 0.05)
    topic = f"{shop.name}.elsewhere"
    insert(shop, {"any": "thing"}, stream=topic)
    insert(shop, event(1))
    with relaying(relay_of(shop)) as running:
        wait_until(lambda: len(told(shop)) == 1, LIMIT_S, "the other row to go")
        wait_until(lambda: running.error, LIMIT_S, "what is missing to be told")
        assert topic in running.error
        assert shop.left() == 1
        create_topic(shop.broker, TopicSpec(topic, topic, 1, LOG_APPEND_TIME))
        wait_until(lambda: shop.left() == 0, LIMIT_S, "the row to go once its topic is there")
    (record,) = records_of(shop.broker, topic)
    assert (record.value, record.header(ID_HEADER.name)) == (b'{"any": "thing"}', b"row-0")


def test_a_second_relay_stands_by_until_the_first_is_gone(shop: Shop) -> None:
    first, second = relay_of(shop), relay_of(shop)
    first.relay_batch()
    with pytest.raises(OutboxLockedError, match="stands by"):
        second.relay_batch()
    insert(shop, event(1))
    first.close()
    wait_until(lambda: stepped(second), LIMIT_S, "the second to take over")
    assert [one["version"] for one in told(shop)] == [1]
    second.close()


def stepped(relay: Relay) -> bool:
    try:
        return relay.relay_batch() > 0
    except OutboxLockedError:
        return False


def test_postgres_that_goes_away_and_comes_back_is_waited_for(shop: Shop) -> None:
    insert(shop, event(1))
    with relaying(relay_of(shop)) as running:
        wait_until(lambda: shop.left() == 0, LIMIT_S, "the first row")
        shop.postgres.stop()
        try:
            wait_until(lambda: running.retry_count > 1, LIMIT_S, "it to be missed")
            assert "PostgreSQL" in running.error
            assert PASSWORD not in running.error
        finally:
            shop.postgres.start()
        insert(shop, event(2))
        wait_until(lambda: len(told(shop)) == 2, LIMIT_S, "the second row")
    assert running.error == ""


def test_an_error_nobody_foresaw_is_told_and_tried_again_by_that_relay_alone(shop: Shop) -> None:
    failures = iter([RuntimeError("unforeseen")])

    def reached(step: str) -> None:
        if step == "sent" and (failure := next(failures, None)):
            raise failure

    insert(shop, event(1))
    with relaying(relay_of(shop, on_step=reached)) as running:
        wait_until(lambda: running.retry_count, LIMIT_S, "the failure")
        wait_until(lambda: shop.left() == 0 and not running.error, LIMIT_S, "the row to be sent")
    assert event(1) in told(shop)


def test_a_log_that_is_away_leaves_the_rows_where_they_are(shop: Shop) -> None:
    insert(shop, event(1))
    away = Relay(OutboxTable("env:PG_URL", shop.table), f"{HOST}:{free_port()}")
    with relaying(away) as running:
        wait_until(lambda: running.retry_count > 0, LIMIT_S, "it to be missed")
        assert "No Kafka broker answers" in running.error
    assert shop.left() == 1


def test_a_table_that_is_not_there_says_how_to_make_it(shop: Shop) -> None:
    relay = Relay(OutboxTable("env:PG_URL", "nowhere"), shop.broker)
    with pytest.raises(TargetUnavailable, match="headrace outbox --print-sql --table nowhere"):
        relay.relay_batch()


def test_the_sql_that_is_printed_makes_the_table(postgres: OwnPostgres) -> None:
    printed = CliRunner().invoke(main, ["outbox", "--print-sql", "--table", "printed_outbox"]).output
    postgres.ask(printed)
    postgres.ask(printed)
    postgres.ask("""INSERT INTO printed_outbox (stream, key, payload) VALUES ('orders', 'o-1', '{"id": "e-1"}')""")
    assert postgres.ask("SELECT seq, parked FROM printed_outbox") == [(1, None)]


def test_a_password_on_the_command_line_is_refused_and_not_repeated() -> None:
    said = CliRunner().invoke(main, ["outbox", "--from", "postgres://me:canary@db/x"])
    assert said.exit_code == 1
    assert "env:PG_URL" in said.output
    assert "canary" not in said.output


def test_a_password_in_the_environment_is_taken(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_OUTBOX_FROM", shop.postgres.url)
    said = CliRunner().invoke(main, ["outbox", "--table", shop.table, "--status"])
    assert said.output == "0 rows are pending; 0 are parked.\n"


def test_an_app_that_declares_its_outbox_needs_no_more_words(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = tmp_path / "app.py"
    columns = f'"{shop.stream.name}", schema="id string, at timestamp", id="id", key="id", time="at"'
    outbox = f'outbox = hr.Outbox("env:PG_URL", table="{shop.table}")'
    app.write_text(f"import headrace as hr\nchanges = hr.Stream({columns})\n{outbox}\n")
    insert(shop, event(1))
    said = CliRunner().invoke(main, ["outbox", str(app), "--status"])
    assert said.output.startswith("1 rows are pending, the oldest since ")
    planned = CliRunner().invoke(main, ["plan", str(app), "--state", str(tmp_path)]).output
    assert f"{shop.table} (outbox)\n  its rows to {shop.stream.name}" in planned


def ran(shop: Shop, *flags: str) -> str:
    said = CliRunner().invoke(main, ["outbox", "--from", "env:PG_URL", "--table", shop.table, *flags])
    assert said.exit_code == 0, said.output
    return said.output


def asked(shop: Shop, *flags: str) -> Any:
    return json.loads(ran(shop, *flags))


def test_the_part_relays_every_outbox_of_an_app(shop: Shop) -> None:
    app = App("shop", (shop.stream,), (), outboxes=(Outbox("env:PG_URL", shop.table),))
    stop = threading.Event()
    part = threading.Thread(target=run_relays, args=(app, shop.broker, stop))
    part.start()
    try:
        insert(shop, event(1))
        insert(shop, event(2, version="two"))
        wait_until(lambda: shop.left() == 1, LIMIT_S, "the row that fits to go")
    finally:
        stop.set()
        part.join()
    assert [one["version"] for one in told(shop)] == [1]
    assert asked(shop, "--status", "--json")["parked"] == 1
