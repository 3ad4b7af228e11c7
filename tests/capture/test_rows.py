"""What Spark and a follower make of a captured table is what the database says: its rows, and features of them."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.postgres import OwnPostgres
from headrace.declare.app import App
from headrace.local.broker import Broker
from headrace.log.follow import Follower
from headrace.store.captured import Captured
from headrace.store.memory import MemoryStore
from headrace.stream.lanes import Lane
from headrace.stream.queries import Place
from headrace.tiles.tables import current
from tests.capture import shop_app
from tests.capture.capturing import Capturing
from tests.capture.keeping import countries_in, running
from tests.capture.writing import Shop, countries_of, made_shop, table_of
from tests.waiting import wait_until

CHANGES = 400


def test_rows_and_their_features_are_those_of_the_database(
    spark: SparkSession, postgres: OwnPostgres, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_shop(postgres)
    monkeypatch.setenv("SHOP_DB", postgres.url)
    customers, view = shop_app.customers, shop_app.Countries
    app, store = App("shop", (customers,), (view,)), MemoryStore([view])
    place = Place(broker.address, tmp_path, lane=Lane.MICRO_BATCH)
    captured = Captured(App("shop", (customers,), (shop_app.Customer,)), broker.address)
    with (
        Capturing(customers, broker.address, tmp_path),
        running(spark, app, place),
        Follower(broker.address, [view.topic], store.apply),
    ):
        captured.start()
        Shop(postgres).write(CHANGES)
        rows = table_of(postgres)
        wait_until(lambda: countries_in(store, view) == countries_of(rows), 60, "the features to be those of the rows")
        wait_until(lambda: not captured.missing(), 30, "the table to be read")
        captured.stop()
    shown = {row[0]: row[1:3] for row in current(customers.latest).listed()}
    assert shown == {key: (row["country"], row["credit"]) for key, row in rows.items()}
