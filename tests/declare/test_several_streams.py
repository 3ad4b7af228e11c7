"""Several streams of one view: their common columns, and every error in combining them."""

from typing import Any

import pytest

import headrace as hr
from headrace.declare.app import App

payments = hr.Stream(
    "payments",
    schema="id string, card string, shop int, amount float, at timestamp",
    id="id",
    key="card",
    time="at",
)
refunds = hr.Stream(
    "refunds",
    schema="number string, card string, shop bigint, amount double, reason string, back_at timestamp",
    id="number",
    key="card",
    time="back_at",
)


@hr.features([payments, refunds], by="card")
class CardFlow:
    events = hr.count(windows="1h")
    refunds = hr.count(where="stream = 'refunds'", windows="1h")
    reason = hr.last("reason", windows="1h")


def other(**changes: Any) -> hr.Stream:
    settings = {"schema": "id string, card string, at timestamp", "id": "id", "key": "card", "time": "at"}
    return hr.Stream(**({"name": "other"} | settings | changes))


def view(streams: Any, by: str | list[str] = "card", **features: Any) -> hr.View:
    return hr.features(streams, by=by)(type("CardFlow", (), features or {"events": hr.count(windows="1h")}))


def test_the_columns_are_those_of_all_streams_by_name_each_of_its_widest_type_and_the_stream() -> None:
    assert [(column.name, column.type) for column in CardFlow.schema] == [
        ("id", "string"),
        ("card", "string"),
        ("shop", "bigint"),
        ("amount", "double"),
        ("at", "timestamp"),
        ("number", "string"),
        ("reason", "string"),
        ("back_at", "timestamp"),
        ("stream", "string"),
    ]
    assert CardFlow.streams == (payments, refunds)


def test_a_list_of_one_stream_is_that_stream_and_has_no_column_of_its_name() -> None:
    assert view([payments]) == view(payments)
    assert "stream" not in view([payments]).schema
    with pytest.raises(hr.DeclarationError, match="no column 'stream'"):
        view([payments], events=hr.count(where="stream = 'payments'", windows="1h"))


def test_a_view_is_one_of_each_of_its_streams() -> None:
    app = App("shop", (payments, refunds), (CardFlow, view(payments)))
    assert app.views_of(refunds) == (CardFlow,)
    assert len(app.views_of(payments)) == 2


def test_events_may_be_grouped_by_their_stream() -> None:
    assert [column.name for column in view([payments, refunds], by=["card", "stream"]).entity] == ["card", "stream"]


TWICE = other(schema="id string, card string, amount string, at timestamp")
MISTAKES: list[tuple[str, Any, dict[str, Any], list[str]]] = [
    ("no stream", [], {}, ["CardFlow: [] names no stream", "Write @hr.features([payments, refunds], by=…)"]),
    (
        "a stream twice",
        [payments, refunds, payments],
        {},
        ["stream 'payments' is listed twice", "List each stream once"],
    ),
    ("two streams of one name", [payments, other(name="payments")], {}, ["'payments' is listed twice"]),
    ("a name for a stream", [payments, "refunds"], {}, ["'refunds' is not a stream", "hr.Stream"]),
    ("streams that are a set", {payments}, {}, ["is not a stream"]),
    (
        "a column of the entity that one lacks",
        [payments, refunds],
        {"by": "reason"},
        ["by='reason'", "'payments' has no such column, only id, card", "Add it to that stream, or group by"],
    ),
    (
        "a column of two kinds",
        [payments, TWICE],
        {},
        ["column 'amount' is float in stream 'payments' and string in stream 'other'", "Declare both", "or rename"],
    ),
    (
        "a column of two kinds in the second and the third",
        [other(name="first"), payments, TWICE],
        {},
        ["'amount' is float in stream 'payments' and string in stream 'other'"],
    ),
    (
        "ids of two kinds",
        [payments, other(schema="n bigint, card string, at timestamp", id="n")],
        {},
        ["the id is string in stream 'payments' and bigint in stream 'other'", "Declare both", "id="],
    ),
    (
        "a column named stream",
        [payments, other(schema="id string, card string, stream string, at timestamp")],
        {},
        ["stream 'other' has a column 'stream'", "the name of each event's stream", "Rename the column"],
    ),
]


@pytest.mark.parametrize(
    ("streams", "settings", "said"), [case[1:] for case in MISTAKES], ids=[case[0] for case in MISTAKES]
)
def test_streams_that_do_not_fit_together_are_refused_with_what_to_write(
    streams: Any, settings: dict[str, Any], said: list[str]
) -> None:
    with pytest.raises(hr.DeclarationError) as refused:
        view(streams, **settings)
    for words in said:
        assert words in str(refused.value), str(refused.value)


def test_a_fed_view_of_several_streams_asks_which_events_are_whose() -> None:
    with pytest.raises(hr.testing.UnfitQuestion, match=r"streams payments, refunds.*Write \{'payments': \[…\]"):
        hr.testing.feed(CardFlow, [{"id": "p1"}])
    with pytest.raises(
        hr.testing.UnfitQuestion, match=r"'returns' is no stream of CardFlow\. It has payments, refunds"
    ):
        hr.testing.feed(CardFlow, {"returns": []})
