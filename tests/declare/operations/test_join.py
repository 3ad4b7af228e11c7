"""Declared joins: the streams they make, and for every mistake an error with its line and the remedy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace.declare.operations.derived_stream import StreamOperation
from headrace.declare.operations.join import AsofJoin, Join

orders = hr.Stream(
    "orders", schema="id string, order_id string, total double, n int, at timestamp", id="id", key="order_id", time="at"
)
payments = hr.Stream(
    "card-payments",
    schema="id string, ref string, order_id string, n bigint, paid double, gone boolean, at timestamp",
    id="id",
    key="ref",
    time="at",
    late=hr.Late("2m", then="update", until="1d"),
)
SECOND = 1_000_000


def joined(**settings: Any) -> Any:
    given: dict[str, Any] = {"on": "order_id", "within": ("0s", "1h")} | settings
    return hr.join("paid", given.pop("left", orders), given.pop("right", payments), **given)


def as_of(**settings: Any) -> Any:
    given: dict[str, Any] = {"on": "order_id", "tolerance": "10m"} | settings
    return hr.join_asof("priced", given.pop("left", orders), given.pop("right", payments), **given)


def what_of(streams: Any) -> Any:
    assert isinstance(streams.out.made_by, StreamOperation)
    return streams.out.made_by.spec


def test_left_columns_keep_their_names_and_right_ones_whose_names_are_taken_get_their_streams() -> None:
    assert joined().out.schema.names == (
        *("id", "orders_id", "order_id", "total", "n", "at"),
        *("card_payments_id", "ref", "card_payments_n", "paid", "gone", "card_payments_at", "event_time", "known_at"),
    )
    assert "other_at" in joined(prefix="other_").out.schema
    assert "order_id" in joined(on=("order_id", "ref")).out.schema
    assert "card_payments_order_id" in joined(on=("order_id", "ref")).out.schema


def test_what_a_join_makes_is_a_stream_and_so_is_what_came_too_late() -> None:
    paid = joined(kind="left")
    assert (paid.out.name, paid.late.name) == ("paid", "paid-late")
    assert (paid.out.id, paid.out.key, paid.out.time, paid.out.arrival) == ("id", "order_id", "event_time", "known_at")
    assert paid.late.schema.names == (*joined().out.schema.names, "stream")
    assert (paid.out.made_by.by, paid.out.made_by.accepts_null_keys) == ((("order_id",), ("order_id",)), True)
    assert joined(kind="right").out.key == "ref"
    assert joined(kind="full", on=("order_id", "ref")).out.key == "order_id"
    assert joined(kind="full").out.key == "id"  # a payment may have no order_id
    assert not joined().out.made_by.accepts_null_keys


def test_a_join_may_read_a_join() -> None:
    again = hr.join("again", joined().out, orders, on="order_id", within=("1h", "1h"), prefix="other_")
    assert {"paid_id", "paid_known_at", "other_total"} <= set(again.out.schema.names)


def test_bounds_may_begin_after_the_left_event() -> None:
    what = what_of(joined(within=("-5m", "1h")))
    assert isinstance(what, Join)
    assert (what.before_us, what.after_us) == (-300 * SECOND, 3600 * SECOND)


def test_without_late_each_stream_is_waited_for_as_it_says_itself() -> None:
    what = what_of(joined())
    assert (what.left.after_us, what.left.until_us) == (3600 * SECOND, 3600 * SECOND)
    assert (what.right.after_us, what.right.until_us) == (120 * SECOND, 86400 * SECOND)
    assert what.then == "update"


def test_late_is_the_joins_own_as_far_as_gates_let_events_pass() -> None:
    what = what_of(as_of(late=hr.Late("2h", then="drop")))
    assert isinstance(what, AsofJoin)
    assert (what.left.until_us, what.right.until_us, what.then) == (3600 * SECOND, 7200 * SECOND, "drop")


def test_rows_that_may_be_taken_back_say_so_in_a_column() -> None:
    assert {"kind", "retracts"} <= set(joined(kind="left").out.schema.names)
    assert "retracts" in as_of().out.schema
    assert "retracts" not in joined().out.schema
    assert "retracts" not in joined(kind="left", late=hr.Late("1m")).out.schema


def test_every_row_of_a_join_passes_the_gate_of_what_it_makes() -> None:
    late = joined(kind="left", late=hr.Late("5m", then="update", until="30m")).out.late
    assert late.after_us >= (3600 + 300) * SECOND + 1
    assert late.until_us >= (3600 + 1800) * SECOND + 1


def test_what_ends_validity_is_true_or_null() -> None:
    assert what_of(as_of(deleted="gone")).deleted == ("gone", True)
    assert what_of(as_of(deleted="paid")).deleted == ("paid", None)


MISTAKES: list[tuple[str, Callable[[], Any], list[str]]] = [
    ("no bounds", lambda: joined(within=None), ["forever", 'within=("0s", "1h")']),
    ("one bound", lambda: joined(within="1h"), ["within='1h'", 'Write within=("0s", "1h")']),
    ("bounds that are none", lambda: joined(within=("0s", "soon")), ["within", "'soon'", "Write a number and a unit"]),
    ("bounds the wrong way", lambda: joined(within=("-2h", "1h")), ["('-2h', '1h')", "ends before it begins"]),
    ("an unknown kind", lambda: joined(kind="outer"), ["kind='outer'", "inner, left, right, full"]),
    (
        "keys of two kinds",
        lambda: joined(on=("order_id", "n")),
        ["orders.order_id is string", "n is bigint", "one type"],
    ),
    ("a key that is a double", lambda: joined(on=("total", "paid")), ["on='total' is a double", "Join by a string"]),
    ("an unknown key", lambda: joined(on=("order_id", "order")), ["on: card-payments", "'order'", "columns are"]),
    ("three names", lambda: joined(on=("a", "b", "c")), ["on=('a', 'b', 'c')", 'on=("order_id", "ref")']),
    ("no key", lambda: joined(on=[]), ["on=[]", 'Write on="order_id"']),
    ("names that stay taken", lambda: joined(prefix="orders_"), ["card-payments.id", "'orders_id'", "prefix="]),
    ("a join for a stream", lambda: joined(left=joined()), ["JoinOutputs is not a stream", ".out of another join"]),
    ("a stream with itself", lambda: joined(right=orders), ["joined with itself", "@hr.derive(orders)"]),
    ("a late that is none", lambda: joined(late="2m"), ["late='2m'", "hr.Late("]),
    (
        "a bad name",
        lambda: hr.join("a b", orders, payments, on="order_id", within=("0s", "1s")),
        ["'a b'", "Rename it"],
    ),
    ("no tolerance", lambda: as_of(tolerance=None), ["forever", 'tolerance="10m"']),
    ("a tolerance below zero", lambda: as_of(tolerance="-1s"), ["tolerance", "'-1s'", "Write a number"]),
    ("a wait that is none", lambda: as_of(wait="never"), ["wait", "'never'", "Write a number"]),
    ("a right as-of join", lambda: as_of(kind="right"), ["kind='right'", "inner, left"]),
    ("an unknown end", lambda: as_of(deleted="dead"), ["deleted", "'dead'", "columns are"]),
    ("a key as an end", lambda: as_of(deleted="order_id"), ["deleted='order_id'", "Name another column"]),
]


@pytest.mark.parametrize(("declare", "words"), [one[1:] for one in MISTAKES], ids=[one[0] for one in MISTAKES])
def test_a_mistake_names_its_line_its_value_and_what_to_write(declare: Callable[[], Any], words: list[str]) -> None:
    with pytest.raises(hr.DeclarationError, match=rf"^{Path(__file__).name}:\d+: ") as refused:
        declare()
    for word in words:
        assert word in str(refused.value)


def merchants(**settings: Any) -> hr.Table:
    given: dict[str, Any] = {"key": "order_id", "schema": "order_id string, n bigint, city string"} | settings
    return hr.Table("merchants.parquet", **given)


def enriched(**settings: Any) -> Any:
    given: dict[str, Any] = {"stream": orders, "table": merchants(), "on": "order_id"} | settings
    return hr.enrich("known", given.pop("stream"), given.pop("table"), **given)


def test_an_enriched_stream_is_its_stream_with_the_tables_columns() -> None:
    known = enriched()
    assert known.schema.names == ("id", "order_id", "total", "n", "at", "merchants_n", "city", "known_at")
    assert (known.id, known.key, known.time, known.arrival) == ("id", "order_id", "at", "known_at")
    assert enriched(columns=["city"]).schema.names == ("id", "order_id", "total", "n", "at", "city", "known_at")


def test_an_enriched_stream_may_be_enriched_and_joined() -> None:
    twice = enriched(stream=enriched(), prefix="other_")
    assert twice.schema.names[-4:] == ("city", "other_n", "other_city", "known_at")
    both = hr.join("both", twice, payments, on="order_id", within=("0s", "1h"))
    assert {"other_city", "known_known_at", "paid"} <= set(both.out.schema.names)


ENRICHMENTS: list[tuple[str, Callable[[], Any], list[str]]] = [
    ("a stream for a table", lambda: enriched(table=payments), ["Stream is not a table", "hr.join_asof"]),
    ("a join for a stream", lambda: enriched(stream=joined()), ["JoinOutputs is not a stream", ".out of a join"]),
    ("keys of two kinds", lambda: enriched(on="n"), ["orders.n is int", "order_id is string", "one type"]),
    ("not the table's key", lambda: enriched(on=("order_id", "city")), ["found by their key 'order_id'"]),
    ("an unknown column", lambda: enriched(columns=["town"]), ["columns", "'town'", "n, city"]),
    ("names that stay taken", lambda: enriched(stream=enriched()), ["two columns 'merchants_n'", "prefix="]),
    ("an unknown kind", lambda: enriched(kind="full"), ["kind='full'", "inner, left"]),
]


@pytest.mark.parametrize(("declare", "words"), [one[1:] for one in ENRICHMENTS], ids=[one[0] for one in ENRICHMENTS])
def test_a_mistaken_enrichment_names_its_line_its_value_and_what_to_write(
    declare: Callable[[], Any], words: list[str]
) -> None:
    with pytest.raises(hr.DeclarationError, match=rf"^{Path(__file__).name}:\d+: enrich 'known': ") as refused:
        declare()
    for word in words:
        assert word in str(refused.value)


def test_the_first_lines_of_the_page_run() -> None:
    page = Path(__file__).parents[3] / "docs" / "joins.md"
    said: dict[str, Any] = {"__name__": "shop"}
    exec(page.read_text().split("```python\n")[1].split("```")[0], said)
    assert said["known"].made_by.inputs == (said["paid"].out,)
    assert said["Unpaid"].streams == (said["paid"].out,)
