"""POST /features/VIEW: keys of every type, times, values, freshness."""

import math
from collections.abc import Iterator
from typing import Any

import pytest

import headrace as hr
from headrace.online_store.memory.memory_store import MemoryStore
from tests.server.server_thread import Asking, serving_store, tiles_of

PAYMENTS = hr.Stream(
    "payments",
    schema="id string, card string, country string, branch int, day timestamp, online boolean,"
    " amount double, cents bigint, at timestamp",
    id="id",
    key="card",
    time="at",
)


@hr.features(PAYMENTS, by="card")
class CardSpend:
    payments = hr.count(windows=["10m", "1h"])
    spend = hr.sum("amount", windows="1h")
    cents = hr.sum("cents", windows="1h")
    largest = hr.max("amount", windows="1h")
    latest = hr.last("at", windows="1h")
    countries = hr.distinct("country", windows="1h")


@hr.features(PAYMENTS, by=["branch", "day", "online"])
class BranchDay:
    payments = hr.count(windows="1h")


@hr.features(PAYMENTS, by="card")
class CardRatio:
    payments = hr.count(windows=["10m", "1h"])
    mean = hr.mean("amount", windows="1h")
    burst = payments["10m"] / payments["1h"]
    ratio = hr.request("amount", "double") / mean["1h"]
    abroad = hr.request("country", "string") == "IT"


@hr.features(PAYMENTS, by="card")
class CardCounts:
    countries = hr.count(by="country", windows="1h")
    branches = hr.count(by="branch", windows="1h")
    online = hr.count(by="online", windows="1h")
    refused = hr.count(by="country", where="amount < 0", windows="1h")


def payment(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"p{number}",
        "card": "c1",
        "country": "FR",
        "branch": 7,
        "day": "2026-01-01T00:00:00Z",
        "online": True,
        "amount": 5.0,
        "cents": 500,
        "at": "2026-01-01T11:59:00Z",
        **fields,
    }


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    store = MemoryStore([CardSpend, BranchDay, CardRatio, CardCounts])
    events = [
        payment(1, at="2026-01-01T11:30:00Z"),
        payment(2, country="IT"),
        payment(3, at="2026-01-01T11:59:30.25Z"),
        payment(4, card="odd", amount="NaN", cents=2**63 - 1),
        payment(5, card="odd", amount="Infinity", cents=2**63 - 1),
        payment(6, card="low", amount="-Infinity"),
    ]
    for view in (CardSpend, BranchDay, CardRatio, CardCounts):
        store.apply(tiles_of(view, events))
    return store


@pytest.fixture(scope="module")
def ask(store: MemoryStore) -> Iterator[Asking]:
    with serving_store(store, CardSpend, BranchDay, CardRatio, CardCounts) as ask:
        yield ask


def test_an_answer_has_the_time_and_a_row_for_each_key(ask: Asking) -> None:
    said = ask.features(CardSpend, ["c1", "c2"], at="2026-01-01T12:00:00Z")
    assert said.headers["content-type"] == "application/json"
    assert said.json == {
        "as_of": "2026-01-01T12:00:00Z",
        "rows": [
            {
                "card": "c1",
                "values": {
                    "payments_10m": 2,
                    "payments_1h": 3,
                    "spend_1h": 15.0,
                    "cents_1h": 1500,
                    "largest_1h": 5.0,
                    "latest_1h": "2026-01-01T11:59:30.250000Z",
                    "countries_1h": 2,
                },
                "event_time": "2026-01-01T11:59:30.250000Z",
                "age_ms": 29750,
            },
            {
                "card": "c2",
                "values": {
                    "payments_10m": 0,
                    "payments_1h": 0,
                    "spend_1h": None,
                    "cents_1h": None,
                    "largest_1h": None,
                    "latest_1h": None,
                    "countries_1h": 0,
                },
                "event_time": None,
                "age_ms": None,
            },
        ],
    }


def test_the_time_may_be_epoch_milliseconds(ask: Asking) -> None:
    said = ask.features(CardSpend, ["c1"], at=1767268800000)
    assert said.json["as_of"] == "2026-01-01T12:00:00Z"
    assert said.json["rows"][0]["values"]["payments_1h"] == 3


def test_without_a_time_it_is_now(ask: Asking) -> None:
    said = ask.features(CardSpend, ["c1"])
    assert said.json["as_of"].endswith("Z")
    assert said.json["rows"][0]["values"]["payments_1h"] == 0


def test_numbers_json_has_no_word_for_are_text(ask: Asking) -> None:
    odd, low = ask.rows(CardSpend, ["odd", "low"], at="2026-01-01T12:00:00Z")
    assert odd["values"]["largest_1h"] == "NaN"
    assert low["values"]["largest_1h"] == low["values"]["spend_1h"] == "-Infinity"


def test_maps_of_counts_are_objects_whose_keys_are_text_most_frequent_first(ask: Asking) -> None:
    one, never = ask.rows(CardCounts, ["c1", "never"], at="2026-01-01T12:00:00Z")
    assert list(one["values"]["countries_1h"].items()) == [("FR", 2), ("IT", 1)]
    assert one["values"]["branches_1h"] == {"7": 3}
    assert one["values"]["online_1h"] == {"true": 3}
    assert one["values"]["refused_1h"] == {}
    assert never["values"] == {"countries_1h": {}, "branches_1h": {}, "online_1h": {}, "refused_1h": {}}


def test_sums_of_integers_are_exact_beyond_64_bits(ask: Asking) -> None:
    row = ask.rows(CardSpend, ["odd"], at="2026-01-01T12:00:00Z")[0]
    assert row["values"]["cents_1h"] == 2 * (2**63 - 1)
    assert row["values"]["latest_1h"] == "2026-01-01T11:59:00Z"


def test_a_key_of_several_columns_is_a_list_or_an_object(ask: Asking) -> None:
    keys = [
        [7, "2026-01-01T00:00:00Z", True],
        {"online": True, "branch": 7, "day": 1767225600000},
        [7, "2026-01-01T00:00:00Z", False],
    ]
    rows = ask.rows(BranchDay, keys, at="2026-01-01T12:00:00Z")
    assert [row["values"]["payments_1h"] for row in rows] == [6, 6, 0]
    assert rows[1] | {"values": {}} == {
        "branch": 7,
        "day": "2026-01-01T00:00:00Z",
        "online": True,
        "values": {},
        "event_time": "2026-01-01T11:59:30.250000Z",
        "age_ms": 29750,
    }


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ([5], 'keys[0] is 5, and card is a string. Write it as "c1".'),
        (["c1", None], 'keys[1] is null, and card is a string. Write it as "c1".'),
        ([["c1"]], 'keys[0] is ["c1"], and card is a string. Write it as "c1".'),
        ("c1", '"keys" is "c1". Write a list: {"keys": ["c1"]}.'),
        (None, '"keys" is null. Write a list: {"keys": ["c1"]}.'),
    ],
)
def test_a_key_of_the_wrong_type_is_refused_with_what_to_write(ask: Asking, keys: Any, sentence: str) -> None:
    said = ask.features(CardSpend, keys)
    assert (said.status, said.error) == (400, sentence)


@pytest.mark.parametrize(
    "key",
    [
        [7, "2026-01-01T00:00:00Z"],
        {"branch": 7, "day": 0},
        {"branch": 7, "day": 0, "online": True, "more": 1},
        7,
        [7, "yesterday", True],
        [7, 0, 1],
        [True, 0, True],
        [7.0, 0, True],
        [2**31, 0, True],
        [7, 0.5, True],
        [7, 10**15, True],
    ],
)
def test_parts_of_a_key_are_typed_as_the_schema_says(ask: Asking, key: Any) -> None:
    said = ask.features(BranchDay, [key])
    assert said.status == 400
    assert said.error.startswith("keys[0] is ")


@pytest.mark.parametrize("at", ["noon", 1.5, True, [], {}, 10**18, "2026-13-01T00:00:00Z"])
def test_a_time_that_is_none_is_refused(ask: Asking, at: Any) -> None:
    said = ask.features(CardSpend, ["c1"], at=at)
    assert said.status == 400
    assert said.error.startswith('"at" is ')


@pytest.mark.parametrize(("request_", "ratio", "abroad"), [(None, None, None), ({"amount": 10}, 2.0, None)])
def test_derived_features_take_what_comes_with_the_request(
    ask: Asking, request_: dict[str, Any] | None, ratio: float | None, abroad: bool | None
) -> None:
    given = {} if request_ is None else {"request": request_}
    for _ in range(2):
        (row,) = ask.rows(CardRatio, ["c1"], at="2026-01-01T12:00:00Z", **given)
        assert (row["values"]["burst"], row["values"]["ratio"], row["values"]["abroad"]) == (2 / 3, ratio, abroad)


def test_each_request_gets_its_own_ratio_and_other_fields_are_passed_over(ask: Asking) -> None:
    for amount, country, expected in [(5, "IT", [1.0, True]), (20.0, "FR", [4.0, False])]:
        request = {"amount": amount, "country": country, "merchant": "m"}
        (row,) = ask.rows(CardRatio, ["c1"], at="2026-01-01T12:00:00Z", request=request)
        assert [row["values"]["ratio"], row["values"]["abroad"]] == expected


@pytest.mark.parametrize("amount", ["ten", True, [1], {}])
def test_a_request_of_another_type_is_refused(ask: Asking, amount: Any) -> None:
    said = ask.features(CardRatio, ["c1"], request={"amount": amount})
    assert (said.status, "amount" in said.error) == (400, True)


def test_request_features_must_be_an_object(ask: Asking) -> None:
    assert ask.features(CardSpend, ["c1"], request={"amount": 90}).status == 200
    assert ask.features(CardSpend, ["c1"], request=[90]).status == 400


def test_a_field_nobody_knows_is_refused(ask: Asking) -> None:
    said = ask.features(CardSpend, ["c1"], when="now")
    assert said.status == 400
    assert '"when"' in said.error


def test_no_keys_are_no_rows(ask: Asking) -> None:
    assert ask.rows(CardSpend, []) == []


def test_a_thousand_keys_are_answered_in_their_order(ask: Asking) -> None:
    keys = [*(f"n{number}" for number in range(999)), "c1"]
    rows = ask.rows(CardSpend, keys, at="2026-01-01T12:00:00Z")
    assert [row["card"] for row in rows] == keys
    assert rows[-1]["values"]["payments_1h"] == 3
    assert math.fsum(row["values"]["payments_1h"] for row in rows) == 3


def test_more_than_a_thousand_keys_are_refused(ask: Asking) -> None:
    said = ask.features(CardSpend, ["c1"] * 1001)
    assert (said.status, said.error) == (413, "1001 keys in one request are too many. Ask for 1000 at a time.")
