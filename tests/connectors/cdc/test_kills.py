"""Connect and PostgreSQL killed repeatedly, queries stopped: rows and features end as the database has them."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import orjson
import pytest
from pyspark.sql import SparkSession

import headrace as hr
from bench.postgres import OwnPostgres
from headrace.connectors.cdc.capture_part import run_capture
from headrace.declare.app import App
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.errors import HeadraceError
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.table_replica import TableReplica
from headrace.spark.execution.app_queries import StreamingConfig
from headrace.spark.execution.lanes import Lane
from headrace.tiles.events.lookup_tables import shared_captured_table
from tests.connectors.cdc.shop_writer import Shop, countries_of, made_shop, table_of
from tests.connectors.cdc.table_queries import countries_in, running
from tests.servers import own_postgres
from tests.waiting import patiently, wait_until

CHANGES, KILLS, PAUSE_S = 3000, 3, 0.03
CUSTOMERS = hr.Changes(
    "killed_customers",
    from_="env:KILLED_DB",
    table="public.customers",
    key="id",
    schema="id bigint, country string, credit double, since timestamp",
)


@hr.features(CUSTOMERS, by="country")
class KilledCountries:
    customers = hr.count(windows="forever")
    credit = hr.sum("credit", windows="forever")
    least = hr.min("credit", windows="forever")
    most = hr.max("credit", windows="forever")
    rich = hr.count(where="credit > 50", windows="forever")


@hr.features(
    hr.Stream("visits", schema="id string, customer bigint, at timestamp", id="id", key="customer", time="at"),
    by="customer",
)
class Visitor:
    visits = hr.count(windows="1h")
    country = CUSTOMERS["country"].of("customer")


@pytest.fixture
def killed_database(monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnPostgres]:
    with own_postgres(is_captured=True) as server:
        monkeypatch.setenv("KILLED_DB", server.url)
        made_shop(server)
        yield server


class Supervised:
    """Captures a table, and restarts the capture whenever it ends, as `up` does."""

    def __init__(self, app: App, broker: str, state: Path) -> None:
        self._of, self._state = (app, broker, state), state
        self._stop, self._thread = threading.Event(), threading.Thread(target=self._run)
        self.begun = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._stop.set()
        self._thread.join(patiently(60))

    def kill(self) -> None:
        """kill -9 of Connect, once there is one that was not killed before."""
        before, file = self.begun, self._state / "connect" / "connect.pid"
        wait_until(file.exists, 60, "Connect to begin")
        os.kill(orjson.loads(file.read_bytes())["pid"], signal.SIGKILL)
        wait_until(lambda: self.begun > before, 60, "it to begin anew")
        file.unlink(missing_ok=True)

    def _run(self) -> None:
        while not self._stop.is_set():
            self.begun += 1
            try:
                run_capture(*self._of, self._stop)
            except HeadraceError:  # it was killed
                self._stop.wait(0.2)


@pytest.mark.faults
def test_rows_and_features_end_as_the_database_has_them(
    spark: SparkSession, killed_database: OwnPostgres, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    app, store = App("killed", (CUSTOMERS,), (KilledCountries,)), MemoryStore([KilledCountries])
    place = StreamingConfig(broker.address, tmp_path, lane=Lane.MICRO_BATCH)
    table = TableReplica(App("killed", (CUSTOMERS,), (Visitor,)), broker.address)
    due = [CHANGES * (number + 1) // (2 * KILLS + 1) for number in range(2 * KILLS)]
    shop = Shop(killed_database, PAUSE_S)

    def kill(changes: int) -> None:
        if due and changes >= due[0]:
            due.pop(0)
            if len(due) % 2:
                capturing.kill()
            else:
                killed_database.kill()
                killed_database.start()

    with (
        Supervised(app, broker.address, tmp_path) as capturing,
        TailingConsumer(broker.address, [KilledCountries.topic], store.apply) as follower,
    ):
        for part in range(KILLS):
            with running(spark, app, place):  # and again from its checkpoint, wherever it was stopped
                shop.write(CHANGES * (part + 1) // KILLS, kill)
        with running(spark, app, place):
            rows = table_of(killed_database)
            wait_until(lambda: countries_in(store, KilledCountries) == countries_of(rows), 120, "features of the rows")
        follower.raise_failure()
        table.start()
        wait_until(lambda: not table.readiness_problems(), 30, "the table to be read")
        table.stop()
    assert not due
    shown = {row[0]: row[1:3] for row in shared_captured_table(CUSTOMERS.latest).list_rows()}
    assert shown == {key: (row["country"], row["credit"]) for key, row in rows.items()}
