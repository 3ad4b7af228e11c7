"""`@hr.derive`: the defaults of a derived stream, and its errors with the line."""

from types import ModuleType
from typing import Any

import pytest

import headrace as hr
from headrace.declare.app import App, build_app
from headrace.declare.operations.derived_stream import DerivedStream, FunctionDerivation
from headrace.errors import DeclarationError

payments = hr.Stream(
    "payments",
    schema="payment_id string, card string, country string, at timestamp",
    id="payment_id",
    key="card",
    time="at",
    late=hr.Late("2m", then="update", until="1d"),
    ahead="5m",
    partitions=3,
)
rates = hr.Stream("rates", schema="id string, currency string, rate double, at timestamp", id="id", key="id", time="at")


def same(*frames: Any) -> Any:
    return frames[0]


def test_the_example_of_the_contract() -> None:
    @hr.derive(payments)
    def abroad(payments: Any) -> Any: return payments.where("country <> 'FR'")  # fmt: skip

    assert isinstance(abroad, DerivedStream)
    assert abroad.name == "abroad"
    assert abroad.schema.names == ("payment_id", "card", "country", "at", "known_at")
    assert (abroad.id, abroad.key, abroad.time, abroad.arrival) == ("payment_id", "card", "at", "known_at")


def test_what_its_parent_lets_through_is_on_time_for_a_derived_stream() -> None:
    abroad = hr.derive(payments, name="abroad")(same)
    assert (abroad.late, abroad.ahead_us, abroad.partitions) == (payments.late, payments.ahead_us, payments.partitions)
    stricter = hr.derive(payments, name="abroad", late=hr.Late("1m"), partitions=1)(same)
    assert (stricter.late, stricter.partitions) == (hr.Late("1m"), 1)


def test_a_stream_derived_of_a_derived_one_has_one_arrival() -> None:
    abroad = hr.derive(payments, name="abroad")(same)
    again = hr.derive(abroad, name="again")(same)
    assert again.schema == abroad.schema
    assert again.arrival == "known_at"


def test_a_schema_of_its_own_says_when_it_was_known_as_well() -> None:
    short = hr.derive(payments, name="short", schema="payment_id string, card string, at timestamp")(same)
    assert short.schema.names == ("payment_id", "card", "at", "known_at")
    told = hr.derive(payments, name="told", schema="payment_id string, card string, at timestamp", arrival="at")(same)
    assert (told.schema.names, told.arrival) == (("payment_id", "card", "at"), "at")


def test_a_refusal_names_the_line() -> None:
    with pytest.raises(DeclarationError, match=r"test_derive[.]py:\d+: both is derived from 2 streams .* no id, time"):

        @hr.derive(payments, rates, schema="card string, at timestamp", key="card")
        def both(payments: Any, rates: Any) -> Any:
            return payments


@pytest.mark.parametrize(
    ("parents", "words", "said"),
    [
        ((), {}, "has no stream"),
        (("payments",), {}, "'payments' is not a stream"),
        ((same,), {}, "same is not a stream"),
        ((payments, payments), {}, "'payments' is listed twice"),
        ((payments,), {"lane": "fast"}, "lane='fast' is none"),
        ((payments,), {"key": "nobody"}, "no column 'nobody'"),
        ((payments,), {"check": "nobody > 1"}, "nobody"),
        ((payments,), {"name": "a b"}, "a topic's name"),
        ((payments,), {"schema": "payment_id string"}, "no column 'card'"),
        ((payments,), {"arrival": "card"}, "arrival='card' is not a timestamp"),
    ],
)
def test_what_cannot_work_is_refused(parents: tuple[Any, ...], words: dict[str, Any], said: str) -> None:
    with pytest.raises(DeclarationError, match=r"test_derive[.]py:\d+: ") as refused:
        hr.derive(*parents, **words)(same)
    assert said in str(refused.value)


def test_a_column_that_is_known_at_by_chance_is_refused() -> None:
    other = hr.Stream("other", schema="id string, at timestamp, known_at timestamp", id="id", key="id", time="at")
    with pytest.raises(DeclarationError, match="has a column 'known_at' of its own"):
        hr.derive(other, name="derived")(same)


def app(**values: Any) -> App:
    module = ModuleType("shop")
    vars(module).update(values)
    return build_app(module)


def test_an_app_has_what_its_streams_are_made_of_each_after_what_it_reads() -> None:
    abroad = hr.derive(payments, name="abroad")(same)
    both = hr.derive(abroad, rates, name="pair", schema="id string, at timestamp", id="id", key="id", time="at")(same)

    @hr.features(both, by="id")
    class Pair:
        n = hr.count(windows="1h")

    found = app(Pair=Pair)
    assert [stream.name for stream in found.streams] == ["payments", "abroad", "rates", "pair"]
    assert [made_by.name for made_by in found.derivations] == ["abroad", "pair"]
    assert [made_by.query for made_by in found.derivations] == ["abroad.derive", "pair.derive"]
    assert found.derived_streams_of(both.made_by) == (both,)
    assert all(isinstance(made_by, FunctionDerivation) for made_by in found.derivations)


def test_derived_streams_in_a_tuple_are_of_the_app_too() -> None:
    pair = (hr.derive(payments, name="one")(same), hr.derive(payments, name="two")(same))
    assert [made_by.name for made_by in app(pair=pair).derivations] == ["one", "two"]


def test_two_streams_of_one_name_are_refused() -> None:
    with pytest.raises(DeclarationError, match="two declarations are named 'payments'"):
        app(payments=payments, again=hr.derive(payments, name="payments")(same))


def test_a_view_of_a_derived_stream_is_fed_with_its_own_events() -> None:
    abroad = hr.derive(payments, name="abroad")(same)

    @hr.features(abroad, by="card")
    class Abroad:
        n = hr.count(windows="1h")

    event = {"payment_id": "p1", "card": "c1", "country": "DE", "at": "2026-01-01T00:00:00Z"}
    late = {
        "payment_id": "p2",
        "card": "c1",
        "country": "DE",
        "at": "2026-01-01T00:00:00Z",
        "known_at": "2026-01-03T00:00:00Z",
    }
    fed = hr.testing.feed(Abroad, [event, hr.testing.late(event | {"payment_id": "p3"}, by="1h"), late])
    assert fed.at("2026-01-01T00:05:00Z")["c1"].n_1h == 2
    assert (len(fed.clean), len(fed.late), fed.dead) == (2, 1, [])
