"""Spark and a consumer rebuild a captured table: its rows, and features of them, equal the database's."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.postgres import OwnPostgres
from headrace.declare.app import App
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.table_replica import TableReplica
from headrace.spark.execution.app_queries import StreamingConfig
from headrace.spark.execution.lanes import Lane
from headrace.tiles.events.lookup_tables import shared_captured_table
from tests.connectors.cdc import shop_app
from tests.connectors.cdc.captured_table import Capturing
from tests.connectors.cdc.shop_writer import Shop, countries_of, made_shop, table_of
from tests.connectors.cdc.table_queries import countries_in, running
from tests.waiting import wait_until

CHANGES = 400


def test_rows_and_their_features_are_those_of_the_database(
    spark: SparkSession, postgres: OwnPostgres, broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_shop(postgres)
    monkeypatch.setenv("SHOP_DB", postgres.url)
    customers, view = shop_app.customers, shop_app.Countries
    app, store = App("shop", (customers,), (view,)), MemoryStore([view])
    place = StreamingConfig(broker.address, tmp_path, lane=Lane.MICRO_BATCH)
    captured = TableReplica(App("shop", (customers,), (shop_app.Customer,)), broker.address)
    with (
        Capturing(customers, broker.address, tmp_path),
        running(spark, app, place),
        TailingConsumer(broker.address, [view.topic], store.apply),
    ):
        captured.start()
        Shop(postgres).write(CHANGES)
        rows = table_of(postgres)
        wait_until(lambda: countries_in(store, view) == countries_of(rows), 60, "the features to be those of the rows")
        wait_until(lambda: not captured.readiness_problems(), 30, "the table to be read")
        captured.stop()
    shown = {row[0]: row[1:3] for row in shared_captured_table(customers.latest).list_rows()}
    assert shown == {key: (row["country"], row["credit"]) for key, row in rows.items()}
