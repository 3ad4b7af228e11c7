"""Declared sinks, and for every mistake an error with the line and the remedy."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import headrace as hr
from headrace.declare.app import App, build_app
from headrace.declare.sinks.target import DELIVERIES, Target
from headrace.declare.sinks.targets import TARGETS
from headrace.runtime.parts.app_parts import list_parts
from headrace.telemetry.alerts.default_alerts import app_alerts

payments = hr.Stream(
    "payments",
    schema="id string, card string, shop string, amount double, at timestamp",
    id="id",
    key="card",
    time="at",
)
warehouse = hr.Postgres("env:PG_URL", table="payments")
EXAMPLES: dict[type[Target], Target] = {target: eval(target.example, {"hr": hr}) for target in TARGETS}


@hr.features(payments, by="card")
class CardSpend:
    payments = hr.count(windows="1h")


fraud = hr.Model("fraud", on=payments, features=[CardSpend], file="fraud.onnx")


def app(**declared: object) -> App:
    module = ModuleType("shop")
    vars(module).update(declared)
    return build_app(module)


def test_a_sink_brings_all_columns_by_the_id_at_least_once_unless_told_otherwise() -> None:
    sink = hr.Sink("payments to the warehouse", of=payments, to=warehouse)
    assert (sink.key, sink.conflict_policy, sink.delivery) == (("id",), "first", "at_least_once")
    assert sink.columns == ("id", "card", "shop", "amount", "at")
    assert (sink.source_topic, sink.parked, sink.again) == (
        "payments.clean",
        "payments-to-the-warehouse.parked",
        "payments-to-the-warehouse.again",
    )


def test_by_the_key_of_the_stream_the_last_wins() -> None:
    assert hr.Sink("x", of=payments, to=warehouse, key="card").conflict_policy == "last"
    assert hr.Sink("x", of=payments, to=warehouse, key=["card", "shop"]).conflict_policy == "last"
    assert hr.Sink("x", of=payments, to=warehouse, key=["shop", "id"]).conflict_policy == "first"


def test_predictions_are_rows_by_event_version_and_role() -> None:
    sink = hr.Sink("scores", of=fraud, to=warehouse)
    assert (sink.source_topic, sink.key, sink.conflict_policy) == (
        "fraud.predictions",
        ("event_id", "version", "role"),
        "first",
    )
    assert hr.Sink("scores", of=fraud, to=warehouse, key="event_id").conflict_policy == "last"


def test_an_app_has_the_sinks_of_a_module_and_what_they_are_of() -> None:
    found = app(sinks=[hr.Sink("a", of=payments, to=warehouse), hr.Sink("b", of=fraud, to=warehouse)])
    assert [sink.name for sink in found.sinks] == ["a", "b"]
    assert (found.streams, found.models) == ((payments,), (fraud,))
    assert found.sink("a") is found.sinks[0]
    with pytest.raises(hr.DeclarationError, match=r"there is no sink 'c'\. It declares 'a', 'b'"):
        found.sink("c")
    with pytest.raises(hr.DeclarationError, match="two declarations are named 'a-b'"):
        app(x=hr.Sink("a b", of=payments, to=warehouse), y=hr.Sink("a-b", of=payments, to=warehouse))


def test_an_app_with_sinks_has_a_part_for_them_and_alerts(settings: Any) -> None:
    with_sink = app(sink=hr.Sink("out", of=payments, to=warehouse))
    assert "sink" in list_parts(settings, with_sink)[1]
    assert "sink" not in list_parts(settings, app(payments=payments))[1]
    names = [alert.name for alert in app_alerts(with_sink, "shop.py")]
    assert names[-2:] == ["out: lag", "out: parked rows"]


@pytest.fixture
def settings(tmp_path: Path) -> Any:
    from headrace.runtime.settings import Settings

    return Settings("127.0.0.1:0", None, 0, "memory", None, tmp_path, None, frozenset(), "real-time", 5)


WRONG = [
    ({"to": "postgres://x/y"}, r'to= is no target. Write to=hr.Postgres\("env:PG_URL"'),
    ({"of": "payments"}, "of='payments' is neither a stream nor a view nor a model. Write of=payments"),
    ({"delivery": "twice"}, "delivery='twice'. Write one of 'at_most_once', 'at_least_once', 'exactly_once'"),
    ({"key": "shop"}, "so none of them is the last. Write key='card' for the last of each"),
    ({"key": "nothing"}, "there is no column 'nothing'. The schema's columns are id, card"),
    ({"key": []}, "key="),
    ({"columns": ["card"]}, "columns= lacks 'id', which is of its key. Add it"),
    ({"columns": "card"}, "Write a list"),
    ({"columns": ["id", "id"]}, "two columns 'id'"),
    ({"columns": ["id", "nothing"]}, "there is no column 'nothing'"),
    ({"to": hr.Webhook("env:X"), "delivery": "exactly_once"}, 'Write delivery="at_least_once", and let the receiver'),
    ({"to": hr.Webhook("env:X"), "key": "card"}, "a webhook has no keys. Leave key= out"),
]


@pytest.mark.refuses("Webhook", delivery="exactly_once")
@pytest.mark.parametrize(("changed", "said"), WRONG, ids=[said for _, said in WRONG])
def test_what_cannot_work_is_refused_with_its_line_and_what_to_write(changed: Any, said: str) -> None:
    with pytest.raises(hr.DeclarationError, match=said) as refused:
        hr.Sink("x", **({"of": payments, "to": warehouse} | changed))
    assert str(refused.value).startswith("test_sinks.py:")


@pytest.mark.parametrize("name", ["", "a" * 101, "tab\there", "…", 7])
def test_a_name_that_is_none_is_refused(name: Any) -> None:
    with pytest.raises(hr.DeclarationError, match="name it in at most 100 printable characters"):
        hr.Sink(name, of=payments, to=warehouse)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (hr.Postgres, {"url": "postgres://me:s3cret@db/x", "table": "t"}),
        (hr.Postgres, {"url": "postgres://db/x?password=s3cret", "table": "t"}),
        (hr.Redis, {"url": "redis://:s3cret@cache", "prefix": "p"}),
        (hr.Postgres, {"url": "mysql://s3cret", "table": "t"}),
        (hr.Webhook, {"url": "http://hooks/s3cret"}),
        (hr.Postgres, {"url": "env:X", "table": "shop."}),
        (hr.Redis, {"url": "env:X", "prefix": ""}),
        (hr.Delta, {"folder": "s3://bucket"}),
        (hr.Iceberg, {"folder": "s3://bucket", "table": "t"}),
        (hr.Iceberg, {"folder": "warehouse", "table": "shop."}),
        (hr.ClickHouse, {"url": "http://me:s3cret@db:8123", "table": "t"}),
        (hr.ClickHouse, {"url": "clickhouse://s3cret:9000", "table": "t"}),
        (hr.ClickHouse, {"url": "env:X", "table": ".t"}),
        (hr.Kafka, {"topic": ""}),
    ],
)
def test_a_target_that_is_none_or_has_a_password_is_refused_and_not_quoted(kind: Any, settings: Any) -> None:
    with pytest.raises(hr.DeclarationError, match="Write ") as refused:
        kind(**settings)
    assert str(refused.value).startswith("test_sinks.py:")
    assert "s3cret" not in str(refused.value)


def test_a_stream_may_not_be_named_as_the_topics_of_sinks_are() -> None:
    with pytest.raises(hr.DeclarationError, match="Headrace's own topics"):
        hr.Stream("x.parked", schema="id string, at timestamp", id="id", key="id", time="at")


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("delivery", DELIVERIES)
def test_a_target_honours_a_delivery_or_says_what_to_do_instead(kind: type[Target], delivery: Any) -> None:
    assert (delivery in kind.delivery_guarantees) != (delivery in kind.unsupported_deliveries)
    if delivery in kind.delivery_guarantees:
        assert hr.Sink("x", of=payments, to=EXAMPLES[kind], delivery=delivery).delivery == delivery
    else:
        with pytest.raises(hr.DeclarationError, match="Write delivery="):
            hr.Sink("x", of=payments, to=EXAMPLES[kind], delivery=delivery)
