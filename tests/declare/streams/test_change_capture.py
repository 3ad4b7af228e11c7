"""Declared captured tables, and the errors that are raised at import."""

import types
from typing import Any

import pytest

import headrace as hr
from headrace.declare.app import build_app
from headrace.declare.features.retractable_views import retractable_view_operation
from headrace.errors import DeclarationError
from headrace.lake.point_in_time_support import PointInTimeUnsupportedError, require_point_in_time_support

ROW = "id bigint, country string, credit double"
CUSTOMERS = hr.Changes("customers", schema=ROW, key="id")
PAYMENTS = hr.Stream(
    "payments",
    schema="payment_id string, customer bigint, at timestamp",
    id="payment_id",
    key="customer",
    time="at",
)


@hr.features(PAYMENTS, by="customer")
class Customer:
    payments = hr.count(windows="1h")
    country = CUSTOMERS["country"].of("customer")


@hr.features(CUSTOMERS, by="country")
class Countries:
    customers = hr.count(windows="forever")


def test_a_change_has_the_row_what_is_told_of_it_and_the_row_before() -> None:
    assert CUSTOMERS.schema.names == (
        *("id", "country", "credit"),
        *("op", "deleted", "changed_at", "lsn", "change"),
        *("before_id", "before_country", "before_credit"),
    )
    assert (CUSTOMERS.id, CUSTOMERS.key, CUSTOMERS.time, CUSTOMERS.arrival) == (
        *("change", "id"),
        *("changed_at", "changed_at"),
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"from_": "postgres://me:hush@db/shop", "table": "public.c"}, "has a password, and code is no place for one"),
        ({"from_": "postgres://db/shop?password=hush", "table": "public.c"}, "has a password"),
        ({"from_": "mysql://me@db/shop", "table": "public.c"}, "no address of a PostgreSQL"),
        ({"from_": "postgres://me@db/shop"}, "from_= and table= belong together"),
        ({"from_": "postgres://me@db/shop", "table": "customers"}, 'Write table="public.customers"'),
        ({"from_": "postgres://me@db/shop", "table": "public.c", "partitions": 2}, "in the order of their commits"),
        ({"schema": "id bigint, op string"}, "a column is named 'op'"),
        ({"schema": "id bigint, before_id string"}, "a column is named 'before_id'"),
        ({"key": "customer"}, "there is no column 'customer'"),
    ],
)
def test_what_cannot_be_captured_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        hr.Changes("c", **({"schema": ROW, "key": "id"} | settings))
    assert said in str(refused.value)
    assert "hush" not in str(refused.value)


def test_an_address_is_shown_nowhere() -> None:
    changes = hr.Changes("c", schema=ROW, key="id", from_="postgres://someone@db/shop", table="public.c")
    assert "someone" not in repr(changes)


def test_a_column_that_is_told_of_changes_is_none_of_the_row() -> None:
    with pytest.raises(DeclarationError, match="there is no column 'op'"):
        CUSTOMERS["op"]


def test_a_view_of_rows_is_of_one_table_and_whole() -> None:
    body = type("Both", (), {"n": hr.count(windows="1h")})
    with pytest.raises(DeclarationError, match="a view of one is of its rows alone"):
        hr.features([CUSTOMERS, hr.Changes("others", schema=ROW, key="id")], by="country")(body)
    with pytest.raises(DeclarationError, match="are kept whole"):
        hr.features(CUSTOMERS, by="country", salt=4)(body)


def test_an_app_has_the_tables_its_views_look_up_and_who_keeps_views_of_rows() -> None:
    module = types.ModuleType("shop")
    module.Customer, module.Countries = Customer, Countries  # type: ignore[attr-defined]
    app = build_app(module)
    assert {stream.name for stream in app.streams} == {"payments", "customers"}
    assert app.derivations == (retractable_view_operation(Countries),)
    assert app.views_of(CUSTOMERS) == ()


@pytest.mark.parametrize("view", [Customer, Countries])
def test_what_rows_were_before_nobody_can_tell(view: Any) -> None:
    with pytest.raises(PointInTimeUnsupportedError, match="reads the rows that 'customers' has now"):
        require_point_in_time_support(view)


def test_beside_other_streams_a_captured_table_goes_by_their_time_and_alone_by_its_own() -> None:
    recorded = hr.Stream("flown", schema="id bigint, at timestamp", id="id", key="id", time="at", arrival="at")
    kept = hr.derive(CUSTOMERS)(kept_ones)
    how: Any = {"tolerance": "1d", "prefix": "row_"}
    assert not hr.join_asof("billed", PAYMENTS, CUSTOMERS, on=("customer", "id"), **how).out.is_recorded
    assert not hr.join_asof("kept_billed", PAYMENTS, kept, on=("customer", "id"), **how).out.is_recorded
    assert hr.join_asof("flown_by", recorded, CUSTOMERS, on="id", **how).out.is_recorded
    assert kept.is_recorded


def kept_ones(customers: Any) -> Any:
    return customers.where("op <> 'd'")
