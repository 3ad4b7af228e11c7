"""Point-in-time features that read tables and lists: they equal those of a fed view at that time."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import headrace as hr
from headrace.lake.historical_features import compute_past_features
from tests.tiles.events.test_lookup_tables import payments, write

START = datetime(2026, 1, 1, tzinfo=UTC)


def view(file: Path) -> hr.View:
    merchants = hr.Table(str(file), key="merchant")
    cards = hr.Table(str(file.with_name("cards.parquet")), key="card", schema="card string, since timestamp")

    @hr.features(payments, by="card")
    class Card:
        merchant = hr.last("merchant", windows=["1h", "forever"])
        favourites = hr.top("merchant", 2, windows="forever")
        spend = hr.ewm("amount", halflife="1h", windows="forever", hop="1m")
        limit = merchants["limit"].of(merchant["1h"])
        used = spend["forever"] / merchants["limit"].of(merchant["forever"])
        asked = merchants["limit"].of(hr.request("merchant", "string"))
        since = cards["since"]

    return Card


def event(number: int, card: str, merchant: str | None) -> dict[str, Any]:
    at = START + timedelta(minutes=number)
    return {"id": f"p{number}", "card": card, "merchant": merchant, "amount": float(number), "at": at}


def test_tables_and_lists_are_those_of_a_fed_view(tmp_path: Path) -> None:
    file = write(tmp_path / "merchants.parquet", merchant=["m1", "x" * 200, "é"], limit=[10, 20, None])
    write(tmp_path / "cards.parquet", card=["c1"], since=[START])
    named = view(file)
    sent = [event(n, f"c{n % 3}", ("m1", "é", "x" * 200, "unknown", None)[n % 5]) for n in range(200)]
    spine = [(f"c{n % 4}", START + timedelta(minutes=n), ("m1", None, "nobody")[n % 3]) for n in range(0, 400, 7)]
    events = pa.table(
        {
            "e0": [one["card"] for one in sent],
            "hr_time": [_us(one["at"]) for one in sent],
            "hr_known": [_us(one["at"]) for one in sent],
            "hr_id": [one["id"] for one in sent],
            "v0": pa.array([one["merchant"] for one in sent]),
            "v1": [one["amount"] for one in sent],
        }
    )
    asked = pa.table(
        {
            "e0": [card for card, _, _ in spine],
            "hr_at": [_us(at) for _, at, _ in spine],
            "r0": pa.array([merchant for _, _, merchant in spine]),
        }
    )
    found = compute_past_features(named, events, asked).to_pylist()
    for (card, at, merchant), row in zip(spine, found, strict=True):
        known = hr.testing.feed(named, [one for one in sent if one["at"] <= at])
        expected = known.at(at, {} if merchant is None else {"merchant": merchant})[card]
        assert {name: _rounded(row[name]) for name in named.names} == {
            name: _rounded(getattr(expected, name)) for name in named.names
        }


def _us(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _rounded(value: Any) -> Any:
    return round(value, 9) if isinstance(value, float) else value
