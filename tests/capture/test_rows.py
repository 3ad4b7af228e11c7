"""What Spark and a follower make of a captured table is what the database says: its rows, and features of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bench.postgres import OwnPostgres
from headrace.declare.app import App
from headrace.local.broker import Broker
from headrace.log.follow import Follower
from headrace.store.captured import Captured
from headrace.store.memory import MemoryStore
from headrace.stream.lanes import Lane
from headrace.stream.operations import begin_run
from headrace.stream.queries import Place, plan_queries
from headrace.stream.run import Crew
from headrace.tiles.tables import current
from tests.capture import shop_app
from tests.capture.capturing import Capturing
from tests.capture.writing import COUNTRIES, Shop, countries_of, made_shop, table_of
from tests.waiting import wait_until

CHANGES = 400
LATER_US = 4_000_000_000_000_000  # after every tile


@contextmanager
def running(spark: SparkSession, app: App, place: Place) -> Iterator[None]:
    """The gate of a captured table, and what keeps the view of its rows, for the length of the block."""
    planned = plan_queries(app, place)
    for run in planned.runs:
        begin_run(app, run, place.state, place.broker)
    crew = Crew(spark, app, place, planned)
    runners = [*crew.runners(), *crew.operators()]
    for runner in runners:
        runner.start()
    try:
        yield
    finally:
        for runner in runners:
            runner.stop()
        for runner in runners:
            runner.join(30)
    assert [runner.failure for runner in runners] == [None] * len(runners)


def countries_in(store: MemoryStore) -> dict[str, dict[str, Any]]:
    view = shop_app.Countries
    reads = store.read(view.name, [(country,) for country in COUNTRIES], LATER_US)
    return {
        country: dict(zip(view.names, read.values, strict=True)) for country, read in zip(COUNTRIES, reads, strict=True)
    }


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
        wait_until(lambda: countries_in(store) == countries_of(rows), 60, "the features to be those of the rows")
        wait_until(lambda: not captured.missing(), 30, "the table to be read")
        captured.stop()
    shown = {row[0]: row[1:3] for row in current(customers.latest).listed()}
    assert shown == {key: (row["country"], row["credit"]) for key, row in rows.items()}
