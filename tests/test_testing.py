"""hr.testing: unit tests of features, and the helpers that describe how events arrive."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import headrace as hr
from headrace.declare.features.view import View
from headrace.declare.streams.stream import Stream
from headrace.testing import Dead, UnfitQuestion

SCHEMA = "payment_id string, card string, country string, amount double, seen timestamp, at timestamp"
AT = "2026-01-01T00:05:00Z"


def view(by: Any = "card", late: hr.Late | None = None) -> View:
    payments = Stream("payments", schema=SCHEMA, id="payment_id", key="card", time="at", late=late, check="amount >= 0")

    @hr.features(payments, by=by)
    class CardSpend:
        payments = hr.count(windows=["10m", "7d"])
        spend = hr.sum("amount", windows="10m")
        countries = hr.distinct("country", windows="10m")
        country = hr.last("country", windows="10m")
        seen = hr.max("seen", windows="10m")

    return CardSpend


def payment(number: int, minute: int = 0, **fields: Any) -> dict[str, Any]:
    at = f"2026-01-01T00:{minute:02}:00Z"
    return {"payment_id": f"p{number}", "card": "c1", "country": "FR", "amount": 5.0, "at": at} | fields


def test_the_example_of_the_contract() -> None:
    app = hr.testing.feed(view(), [payment(1)])
    assert app.at(AT)["c1"].payments_10m == 1


def test_a_key_never_seen_has_the_defaults() -> None:
    row = hr.testing.feed(view(), [payment(1)]).at(AT)["c2"]
    assert vars(row) == {
        "payments_10m": 0,
        "payments_7d": 0,
        "spend_10m": None,
        "countries_10m": 0,
        "country_10m": None,
        "seen_10m": None,
    }


def test_no_events_at_all_are_fine() -> None:
    app = hr.testing.feed(view(), [])
    assert app.at(AT)["c1"].payments_10m == 0
    assert app.clean == []


def test_entities_of_several_columns_are_tuples() -> None:
    app = hr.testing.feed(
        view(by=["card", "country"]), [payment(1), payment(2, country="DE"), payment(3, country=None)]
    )
    assert app.at(AT)["c1", "FR"].payments_10m == 1
    assert app.at(AT)["c1", "DE"].spend_10m == 5.0


def test_entities_may_be_times() -> None:
    app = hr.testing.feed(view(by="seen"), [payment(1, seen="2026-01-01T00:00:00Z")])
    assert app.at(AT)["2026-01-01T01:00:00+01:00"].payments_10m == 1
    assert app.at(AT)[datetime(2026, 1, 1, tzinfo=UTC)].payments_10m == 1


def test_values_are_typed_like_their_columns() -> None:
    seen = datetime(2026, 1, 1, 0, 0, 0, 5, tzinfo=UTC)
    row = hr.testing.feed(view(), [payment(1, seen=seen)]).at(AT)["c1"]
    assert row.seen_10m == seen
    assert row.country_10m == "FR"


def test_windows_slide_with_the_time_asked() -> None:
    app = hr.testing.feed(view(), [payment(number, minute=number) for number in range(20)])
    asked = [app.at(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minute))["c1"] for minute in (0, 9, 30)]
    assert [(row.payments_10m, row.payments_7d) for row in asked] == [(1, 20), (10, 20), (0, 20)]


def test_a_lifetime_window_holds_every_event_up_to_the_time_asked() -> None:
    @hr.features(view().streams[0], by="card")
    class Lifetime:
        payments = hr.count(windows=["1h", "forever"])
        newcomer = payments["forever"] < 3

    events = [payment(number, at=at) for number, at in enumerate(("1970-01-01", "1999-12-31", "2025-12-31"))]
    fed = hr.testing.feed(Lifetime, [event | {"at": event["at"] + "T23:59:59Z"} for event in events])
    asked = ["1969-12-31T00:00:00Z", "1970-01-02T00:00:00Z", "2026-01-01T00:30:00Z", "9999-12-31T23:59:59Z"]
    rows = [fed.at(time)["c1"] for time in asked]
    assert [(row.payments_1h, row.payments_forever) for row in rows] == [(0, 0), (1, 1), (1, 3), (0, 3)]
    assert [row.newcomer for row in rows] == [True, True, False, False]


def test_a_duplicate_is_counted_once_and_shown() -> None:
    events = [payment(1), payment(2)]
    app = hr.testing.feed(view(), hr.testing.duplicated(events))
    assert app.at(AT)["c1"].payments_10m == 2
    assert app.duplicates == events
    assert app.clean == events


def test_the_first_of_one_id_to_arrive_counts_whatever_their_order_in_the_list() -> None:
    first, second = payment(1, amount=1.0), payment(1, amount=2.0)
    app = hr.testing.feed(view(), [hr.testing.late(second, by="30s"), first])
    assert app.at(AT)["c1"].spend_10m == 1.0
    assert app.duplicates == [second]


@pytest.mark.parametrize(
    ("late", "fates"),
    [
        (hr.Late("1m", then="drop"), ([], [1], 1)),
        (hr.Late("1m", then="side_output"), ([1], [], 1)),
        (hr.Late("1m", then="update", until="10m"), ([], [], 2)),
    ],
)
def test_a_late_event_goes_where_the_policy_says(late: hr.Late, fates: tuple[list[int], list[int], int]) -> None:
    events = [payment(1), payment(2)]
    app = hr.testing.feed(view(late=late), [events[0], hr.testing.late(events[1], by="5m")])
    expected_late, expected_dropped, count = fates
    assert app.late == [events[index] for index in expected_late]
    assert app.dropped == [events[index] for index in expected_dropped]
    assert app.at(AT)["c1"].payments_10m == count


def test_a_dead_letter_has_its_reason() -> None:
    wrong = [payment(1, amount="five"), payment(2, amount=-1), payment(3, card=None), b"no json"]
    app = hr.testing.feed(view(), [*wrong, hr.testing.early(payment(4), by="1h")])
    assert {dead.reason.split(":")[0] for dead in app.dead} == {
        "wrong-type",
        "failed-check",
        "missing-key",
        "not-json",
        "too-far-ahead",
    }
    assert Dead(b"no json", "not-json: the value is not one JSON object in UTF-8") in app.dead
    assert app.at(AT)["c1"].payments_10m == 0


def test_events_out_of_order_give_the_same_features() -> None:
    events = [payment(number, minute=number % 7, country=f"{number % 5}") for number in range(30)]
    shuffled = hr.testing.shuffled(events, within="10m", seed=1)
    assert hr.testing.feed(view(), shuffled).clean != events
    assert hr.testing.feed(view(), shuffled).at(AT)["c1"] == hr.testing.feed(view(), events).at(AT)["c1"]
    assert shuffled == hr.testing.shuffled(events, within="10m", seed=1)


def recorded_view() -> View:
    flights = Stream(
        "flights", schema="id string, tail string, at timestamp, seen timestamp", id="id", key="tail", time="at",
        arrival="seen", late=hr.Late("1h"),
    )  # fmt: skip

    @hr.features(flights, by="tail")
    class Tail:
        flights = hr.count(windows="1d")
        first = hr.first("id", windows="1d")

    return Tail


def flight(number: int, seen: str | None) -> dict[str, Any]:
    return {"id": f"f{number}", "tail": "N1", "at": "2013-01-01T10:00:00Z", "seen": seen}


def test_a_stream_with_an_arrival_column_goes_by_it() -> None:
    events = [flight(1, "2013-01-01T11:00:00Z"), flight(2, "2013-01-01T11:00:00.000001Z"), flight(3, None)]
    app = hr.testing.feed(recorded_view(), events)
    assert (app.clean, app.late) == ([events[0]], [events[1]])
    assert app.dead == [Dead(events[2], "missing-arrival: column seen is absent or null")]
    assert app.at("2013-01-01T12:00:00Z")["N1"].flights_1d == 1


def test_an_event_of_such_a_stream_may_arrive_later_than_its_column_says() -> None:
    on_time, slow = flight(1, "2013-01-01T10:30:00Z"), flight(2, "2013-01-01T10:30:00Z")
    slow_bytes = json.dumps(slow).encode()
    app = hr.testing.feed(
        recorded_view(), [on_time, hr.testing.late(slow, by="31m"), hr.testing.late(slow_bytes, by="30m")]
    )
    assert (app.clean, app.late) == ([on_time, slow_bytes], [slow])


def test_of_one_id_the_first_to_arrive_by_its_column_counts() -> None:
    second, first = flight(1, "2013-01-01T10:20:00Z"), flight(1, "2013-01-01T10:10:00Z")
    app = hr.testing.feed(recorded_view(), [second, first, *hr.testing.duplicated([first], by="1m")])
    assert (app.clean, app.duplicates) == ([first], [first, first, second])


def test_delays_add_up() -> None:
    late = hr.testing.late(hr.testing.late(payment(1), by="1m"), by="2m")
    assert late.delay_us == 180_000_000


@pytest.mark.parametrize("time", ["noon", "2026-01-01", ""])
def test_a_time_that_is_none_is_refused_with_what_to_write(time: str) -> None:
    with pytest.raises(UnfitQuestion, match="Write ISO 8601"):
        hr.testing.feed(view(), []).at(time)


@pytest.mark.parametrize("key", [("c1", "FR"), (), {"card": "c1"}])
def test_a_key_that_is_no_entity_is_refused(key: Any) -> None:
    with pytest.raises(UnfitQuestion, match="card"):
        hr.testing.feed(view(), []).at(AT)[key]


def test_a_feature_that_is_not_there_is_refused_with_those_that_are() -> None:
    row = hr.testing.feed(view(), []).at(AT)["c1"]
    with pytest.raises(AttributeError, match="payments_10m, payments_7d, spend_10m"):
        _ = row.payment_10m
