"""Declared tables: resolved relative to the app, typed by their file, and every error with the remedy."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import headrace as hr
from headrace.declare.app import load_app
from headrace.declare.streams.schema import Kind

payments = hr.Stream(
    "payments",
    schema="id string, card string, merchant string, branch int, amount double, at timestamp",
    id="id",
    key="card",
    time="at",
)
SCHEMA = "merchant string, branch bigint, category string, limit double"


def table(**settings: Any) -> hr.Table:
    given: dict[str, Any] = {"key": "merchant", "schema": SCHEMA} | settings
    return hr.Table(given.pop("path", "merchants.parquet"), **given)


def view(feature: Any, by: str = "merchant", **attributes: Any) -> hr.View:
    body = {"n": hr.count(windows="1h"), **attributes, "joined": feature}
    return hr.features(payments, by=by)(type("Flow", (), body))


def test_a_column_of_a_table_is_a_feature_and_something_to_compute_with() -> None:
    merchants, last = table(), hr.last("merchant", windows="1h")
    by_entity = view(merchants["category"])
    by_feature = view(merchants["limit"].of(last["1h"]) / 2 > hr.request("amount", "double"), by="card", last=last)
    by_other_column = view(table(key="branch")["category"].of("branch"), by="branch")
    assert [view.on_demand_features[0].kind for view in (by_entity, by_feature, by_other_column)] == [
        Kind.STRING,
        Kind.BOOLEAN,
        Kind.STRING,
    ]
    assert [column.name for column in by_feature.request_columns] == ["request.amount"]


def test_a_column_used_twice_is_looked_up_once() -> None:
    merchants = table()
    assert len(view(merchants["limit"] * merchants["limit"] + merchants["limit"]).lookups) == 1


def test_a_table_may_be_looked_up_by_what_another_one_gives() -> None:
    parents = table(path="parents.csv", schema="merchant string, parent string")
    inner, outer = view(table()["category"].of(parents["parent"])).lookups
    assert (inner.column, outer.column) == ("parent", "category")
    assert inner.name in str(outer.key)


def test_a_path_is_relative_to_the_file_that_declares_the_table(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"card": ["c1"], "risk": [0.5]}), tmp_path / "cards.parquet")
    (tmp_path / "app.py").write_text(
        "import headrace as hr\n"
        "taps = hr.Stream('taps', schema='id string, card string, at timestamp', id='id', key='card', time='at')\n"
        "cards = hr.Table('cards.parquet', key='card')\n"
        "@hr.features(taps, by='card')\n"
        "class Taps:\n"
        "    taps = hr.count(windows='1h')\n"
        "    risk = cards['risk']\n"
    )
    (found,) = load_app(str(tmp_path / "app.py")).views
    assert found.lookups[0].table.path == tmp_path / "cards.parquet"
    assert found.on_demand_features[0].kind is Kind.DOUBLE


def test_a_file_tells_the_types_of_its_columns(tmp_path: Path) -> None:
    written = {
        "text": pa.array(["a"]).dictionary_encode(),
        "small": pa.array([1], pa.uint8()),
        "money": pa.array([Decimal("1.50")]),
        "flag": pa.array([True]),
        "day": pa.array([0], pa.date32()),
        "seen": pa.array([0], pa.timestamp("ns")),
        "tags": pa.array([["x"]]),
    }
    pa.parquet.write_table(pa.table(written), tmp_path / "all.parquet")
    found = hr.Table(str(tmp_path / "all.parquet"), key="text").schema
    assert [(column.name, column.type) for column in found] == [
        ("text", "string"),
        ("small", "bigint"),
        ("money", "double"),
        ("flag", "boolean"),
        ("day", "timestamp"),
        ("seen", "timestamp"),
    ]


MISTAKES: list[tuple[str, Callable[[], Any], list[str]]] = [
    ("no file and no schema", lambda: table(schema=None), ["no file", "merchants.parquet", "schema="]),
    ("another format", lambda: table(path="merchants.json"), ["'merchants.json'", ".parquet or .csv"]),
    ("an unknown key", lambda: table(key="shop"), ["key", "'shop'", "columns are merchant"]),
    ("a double as key", lambda: table(key="limit"), ["key='limit'", "double", "Look rows up by"]),
    ("a bad schema", lambda: table(schema="merchant text"), ["'text'", "Use one of string"]),
    ("an unknown column", lambda: table()["country"], ["'country'", "columns are merchant"]),
    (
        "a key the entity lacks",
        lambda: view(table()["limit"], by="card"),
        ["Flow.joined", "'merchant'", "card", ".of("],
    ),
    ("a column the entity lacks", lambda: view(table()["limit"].of("shop")), ["'shop'", "merchant", ".of("]),
    ("a key of another kind", lambda: view(table(key="branch")["limit"].of("merchant")), ["integer", "string", "kind"]),
    ("a text that is computed with", lambda: view(table()["category"] + 1), ["'+'", "string"]),
    (
        "a list as key",
        lambda: view(table()["limit"].of((tops := hr.top("merchant", 1, windows="1h"))["1h"]), tops=tops),
        ["tops_1h is a list"],
    ),
]


@pytest.mark.parametrize(("declare", "said"), [row[1:] for row in MISTAKES], ids=[row[0] for row in MISTAKES])
def test_a_table_with(declare: Callable[[], Any], said: list[str]) -> None:
    with pytest.raises(hr.DeclarationError) as refused:
        declare()
    assert all(part in str(refused.value) for part in said), str(refused.value)


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "merchants.parquet").write_bytes(b"not parquet")
    with pytest.raises(hr.DeclarationError, match="cannot be read"):
        hr.Table(str(tmp_path / "merchants.parquet"), key="merchant")
