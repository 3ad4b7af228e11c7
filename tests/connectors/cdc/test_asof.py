"""As-of join with a captured table: the row valid at an event's time, by the database's own commits."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

import headrace as hr
from bench.postgres import OwnPostgres
from headrace.declare.app import App
from headrace.declare.operations.derived_stream import DerivedStream
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.producer.producer import Producer
from headrace.kafka.topics import ensure_topics
from headrace.spark.execution.app_queries import StreamingConfig
from headrace.spark.execution.lanes import Lane
from tests.connectors.cdc.captured_table import Capturing, changes_of, made_table
from tests.connectors.cdc.table_queries import running
from tests.servers import own_postgres
from tests.spark.derived_stream_runner import rows_of
from tests.waiting import wait_until

KEYS, TRANSACTIONS = 12, 80
UPSERT = """INSERT INTO tiers VALUES (%s, %s, %s, now())
    ON CONFLICT (id) DO UPDATE SET country = excluded.country, credit = excluded.credit"""
MOVE = "UPDATE tiers SET id = %s WHERE id = %s AND NOT EXISTS (SELECT FROM tiers WHERE id = %s)"
Tier = tuple[str, float]


class Tiers:
    """A table that is changed in transactions, several changes of a row in one among them, and when each committed."""

    def __init__(self, postgres: OwnPostgres, seed: int) -> None:
        made_table(postgres, "tiers")
        postgres.ask(f"INSERT INTO tiers SELECT n, 'FR', n, now() FROM generate_series(1, {KEYS // 2}) n")
        self._dice, self._connection = random.Random(seed), psycopg.connect(postgres.url)
        self.history: list[tuple[datetime, dict[int, Tier]]] = [(datetime.min.replace(tzinfo=UTC), self._rows())]

    def change(self) -> None:
        """A transaction; one in five is rolled back."""
        for _ in range(self._dice.randint(1, 4)):
            self._connection.execute(*self._statement())
        ((number,),) = self._connection.execute("SELECT pg_current_xact_id()::xid").fetchall()
        rows = self._rows()
        if self._dice.random() < 0.2:
            self._connection.rollback()
            return
        self._connection.commit()
        ((at,),) = self._connection.execute("SELECT pg_xact_commit_timestamp(%s)", (number,)).fetchall()
        self._connection.rollback()
        if at is not None:  # it changed something
            self.history.append((at, rows))

    def at(self, moment: datetime, key: int) -> Tier | None:
        """The row of a key at a time."""
        return [rows for at, rows in self.history if at <= moment][-1].get(key)

    def _rows(self) -> dict[int, Tier]:
        found = self._connection.execute("SELECT id, country, credit FROM tiers").fetchall()
        return {key: (country, credit) for key, country, credit in found}

    def _statement(self) -> tuple[Any, tuple[Any, ...]]:
        key, other = self._dice.randint(1, KEYS), self._dice.randint(1, KEYS)
        kind = self._dice.random()
        if kind < 0.25:
            return "DELETE FROM tiers WHERE id = %s", (key,)
        if kind < 0.35:
            return MOVE, (other, key, other)
        return UPSERT, (key, self._dice.choice(["FR", "DE", "IT"]), self._dice.randint(0, 400) / 4)


class Payments:
    """Payments of customers at times that are past: at random, and when a row changed, a moment before and after."""

    def __init__(self, broker: str, stream: hr.Stream, seed: int) -> None:
        self._producer, self._stream, self._dice = Producer(broker), stream, random.Random(seed)
        self._since = datetime.now(UTC)
        self.sent: dict[str, tuple[int, datetime]] = {}

    def send(self, tiers: Tiers) -> None:
        changed, now = tiers.history[-1][0], datetime.now(UTC)
        moments = [self._since + (now - self._since) * self._dice.random()]
        moments += [changed + timedelta(microseconds=us) for us in (-1, 0, 1) if changed > self._since]
        for moment in moments:
            name, customer = f"p{len(self.sent)}", self._dice.randint(1, KEYS)
            self.sent[name] = customer, moment
            event = {"id": name, "customer": customer, "at": moment.isoformat()}
            self._producer.send(self._stream.name, event, key=str(customer))
        self._producer.flush()


def standing(broker: str, joined: DerivedStream) -> dict[str, Tier | None]:
    """The row of each payment: results minus retractions."""
    rows = rows_of(broker, joined)
    taken_back = {row["retracts"] for row in rows if row["kind"] == "retraction"}
    left = [row for row in rows if row["kind"] == "result" and row["id"] not in taken_back]
    assert len({row["valued_payments_id"] for row in left}) == len(left)
    return {
        row["valued_payments_id"]: None if row["country"] is None else (row["country"], row["credit"]) for row in left
    }


@pytest.fixture
def exact_postgres() -> Iterator[OwnPostgres]:
    """A database with change data capture that records commit timestamps."""
    with own_postgres(is_captured=True) as server:
        server.ask("ALTER SYSTEM SET track_commit_timestamp = on")
        server.stop()
        server.start()
        yield server


@pytest.mark.faults
def test_a_payment_has_the_row_that_was_valid_at_its_time(
    spark: SparkSession, exact_postgres: OwnPostgres, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    tiers, rows = Tiers(exact_postgres, seed=2), changes_of(exact_postgres, "tiers")
    payments = hr.Stream(
        "valued_payments",
        schema="id string, customer bigint, at timestamp",
        id="id",
        key="customer",
        time="at",
        late=hr.Late("10m"),
    )
    late = hr.Late("10m", then="update", until="10m")
    valued = hr.join_asof(
        "valued",
        payments,
        rows,
        on=("customer", "id"),
        tolerance="1h",
        wait="1s",
        deleted="deleted",
        late=late,
        prefix="row_",
        idle="1s",
    ).out
    app = App("valued", (rows, payments, valued), ())
    ensure_topics(broker.address, app.streams)
    place = StreamingConfig(broker.address, tmp_path, lane=Lane.MICRO_BATCH)
    with Capturing(rows, broker.address, tmp_path) as capturing, running(spark, app, place):
        capturing.wait_for(KEYS // 2)
        sending = Payments(broker.address, payments, seed=3)
        for _ in range(TRANSACTIONS):
            tiers.change()
            sending.send(tiers)
        wanted = {name: tiers.at(moment, customer) for name, (customer, moment) in sending.sent.items()}
        assert len({tier is None for tier in wanted.values()}) == 2

        def different() -> str:
            found = standing(broker.address, valued)
            return str(
                {
                    name: (found.get(name, "nothing"), tier)
                    for name, tier in wanted.items()
                    if found.get(name, "nothing") != tier
                }
            )

        wait_until(lambda: standing(broker.address, valued) == wanted, 90, "every payment's row", different)
