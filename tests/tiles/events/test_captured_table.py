"""The current rows of a captured table, whatever changes are repeated."""

import random
from typing import Any

import numpy as np

import headrace as hr
from headrace.aggregates.value_columns import to_value_column
from headrace.declare.streams.schema import Kind
from headrace.tiles.events.captured_table import CapturedTable

CUSTOMERS = hr.Changes("customers", schema="id bigint, country string", key="id")


def change(lsn: int | None, key: int, country: str | None) -> dict[str, Any]:
    return {"id": key, "country": country, "deleted": country is None, "lsn": lsn}


def test_changes_that_come_again_leave_the_newest_row() -> None:
    chance, rows, told = random.Random(1), dict[int, str](), []
    for lsn in range(1, 500):
        key, country = chance.randrange(20), chance.choice(["FR", "DE", None])
        told.append(change(lsn, key, country))
        if country is None:
            rows.pop(key, None)
        else:
            rows[key] = country
    current = CapturedTable(CUSTOMERS.latest)
    current.apply(told)
    current.apply(told[300:400])  # after a crash of the process that reads the database
    assert dict(current.list_rows()) == rows


def test_without_places_the_last_one_told_counts() -> None:
    current = CapturedTable(CUSTOMERS.latest)
    current.apply([change(None, 1, "FR"), change(None, 1, "DE"), change(None, 2, "IT"), change(None, 2, None)])
    assert current.list_rows() == [(1, "DE")]


def test_columns_that_are_looked_up_together_are_of_one_row() -> None:
    current = CapturedTable(CUSTOMERS.latest)
    current.apply([change(1, 1, "FR")])
    keys, moment = to_value_column([1, 2, None], Kind.INTEGER), current.snapshot()
    assert moment.look_up("country", keys).data.tolist()[0] == "FR"
    current.apply([change(2, 1, "DE")])
    found = moment.look_up("country", keys)
    assert found.data.tolist()[0] == "FR"
    assert np.array_equal(found.valid, [True, False, False])
    assert current.snapshot().look_up("country", keys).data.tolist()[0] == "DE"
