"""Invalid input from tests and producers: events, keys, requests and times."""

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

import headrace as hr

TAPS = hr.Stream(
    "taps",
    schema="id string, card string, country string, amount double, n bigint, tiny tinyint, ok boolean, seen timestamp,"
    " at timestamp",
    id="id",
    key="card",
    time="at",
    late=hr.Late("2m"),
    check="amount >= 0",
)
AT = "2026-01-01T00:05:00Z"


@hr.features(TAPS, by="card")
class CardTaps:
    taps = hr.count(windows="1h")
    spend = hr.sum("amount", windows="1h")
    share = hr.request("amount", "double") / spend["1h"]
    known = hr.request("n", "bigint") + taps["1h"]
    abroad = hr.request("country", "string") == "IT"
    ok = hr.request("ok", "boolean")


@hr.features(TAPS, by=["n", "ok", "seen"])
class ByEverything:
    taps = hr.count(windows="1h")


@hr.features(TAPS, by="n")
class ByNumber:
    taps = hr.count(windows="1h")


def tap(**fields: Any) -> dict[str, Any]:
    return {"id": "t1", "card": "c1", "amount": 1.0, "at": "2026-01-01T00:00:00Z"} | fields


def raw(**fields: Any) -> bytes:
    """A tap as another producer may write it."""
    return json.dumps(tap(**fields)).encode()


def without(name: str) -> dict[str, Any]:
    return {field: value for field, value in tap().items() if field != name}


NANOSECONDS = pd.Timestamp("2026-01-01T00:00:00.123456789Z")
NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - as users write it; it is taken for UTC
INDIA = datetime(2026, 1, 1, 5, 30, tzinfo=timezone(timedelta(hours=5, minutes=30)))

EVENTS: dict[str, Any] = {
    "as it should be": tap(),
    "more fields than declared": raw(colour="red", nested={"a": [1, None]}),
    **{f"without {name}": without(name) for name in ("id", "card", "at", "amount")},
    **{f"null {name}": tap(**{name: None}) for name in ("id", "card", "at", "amount", "n")},
    **{f"amount {value!r}": tap(amount=value) for value in ("5", "", True, [], {}, "NaN", 5, -1, -0.0, 1e308)},
    **{f"amount {value!r}": tap(amount=value) for value in (float("nan"), float("inf"), float("-inf"))},
    **{f"n {value!r}": tap(n=value) for value in (5.0, "5", True, 2**63 - 1, 2**63, -(2**63), np.int64(5))},
    **{f"n {value!r}": raw(n=value) for value in (-(2**63) - 1, 10**40, 1e3)},
    **{f"tiny {value!r}": tap(tiny=value) for value in (127, 128, -129, False)},
    **{f"ok {value!r}": tap(ok=value) for value in (1, 0, "true", True, np.bool_(True).item())},
    **{f"card {value!r}": tap(card=value) for value in (5, 1.5, True, "", {"a": 1}, ["c1"], "é\u0000🙂")},
    "half a character": raw(card="\ud800"),
    "NaN without quotes": raw(amount=float("nan")),
    **{f"id {value!r}": tap(id=value) for value in (7, "", np.str_("t1"))},
    **{
        f"seen {value!r}": tap(seen=value)
        for value in ("noon", "2026-01-01", 0, -1, 1.5, True, "1767225600000", NAIVE, INDIA, NANOSECONDS)
    },
    "float of numpy": tap(amount=np.float32(2.5)),
    "time of numpy": tap(seen=np.datetime64("2026-01-01T00:00:00.123456789")),
    "no time at all": tap(at=pd.NaT),
    "nearly a megabyte": tap(card="x" * 900_000),
    "no event": b"no JSON",
    "a list": b"[]",
    "two events": b"{}{}",
    "nothing": b"",
    "no text": b'{"id": "\xff"}',
    "early, as far as is allowed": hr.testing.early(tap(), by="1m"),
    "too far ahead": hr.testing.early(tap(), by="61s"),
    "late, as far as is allowed": hr.testing.late(tap(), by="2m"),
    "late": hr.testing.late(tap(), by="121s"),
}

NO_ROWS: dict[str, Any] = {
    **{name: tap(amount=value) for name, value in [("decimal", Decimal("5.00")), ("bytes", b"5"), ("set", {1})]},
    "date": tap(at=date(2026, 1, 1)),
    "duration": tap(n=timedelta(hours=1)),
    "nested decimal": tap(card={"a": [Decimal(1)]}),
    "half a character": tap(card="\ud800"),
    "huge": tap(n=10**40),
    "NaN of an integer": tap(n=float("nan")),
    "undeclared column": tap(amuont=5),
    "text": "card",
    "number": 5,
    "null": None,
    "list": ["c1"],
}

NOT_JSON: dict[str, Any] = {
    "decimal": Decimal("5.00"),
    "bytes": b"c1",
    "date": date(2026, 1, 1),
    "integer of numpy": np.int64(5),
    "array": np.array([1, 2]),
    "set": {1},
    "complex": 1j,
    "duration": timedelta(hours=1),
}

KEYS: list[tuple[Any, Any]] = [
    *((CardTaps, key) for key in ("c1", "never seen", "", "é🙂", "x" * 200)),
    *((CardTaps, key) for key in (5, 1.5, True, None, [], ["c1"], ("c1",), ("c1", "FR"), (), {"card": "c1"})),
    *((CardTaps, key) for key in (datetime(2026, 1, 1, tzinfo=UTC), float("nan"), [[[]]])),
    *((ByNumber, key) for key in (5, 0, -(2**63), 2**63 - 1, 2**63, 2**70, "5", 5.0, True, None, float("inf"))),
    *(
        (ByEverything, key)
        for key in (
            (5, True, "2026-01-01T00:00:00Z"),
            [5, True, "2026-01-01T00:00:00Z"],
            {"n": 5, "ok": True, "seen": 1_767_225_600_000},
            (5, True, INDIA),
            (5, True, NAIVE),
            (5, True, NANOSECONDS),
            (5, True, "2026-01-01"),
            (5, 1, "2026-01-01T00:00:00Z"),
            ("5", True, "2026-01-01T00:00:00Z"),
            (5, True, 1.5),
            (5, True, True),
            (5, True, None),
            (5, True),
            5,
            {"n": 5},
        )
    ),
]

REQUESTS: list[Any] = [
    {},
    {"amount": 5, "n": 5, "country": "IT", "ok": True},
    {"amount": None, "n": None},
    *({"amount": value} for value in ("5", True, [], {}, "NaN", float("nan"), 1e308)),
    *({"n": value} for value in ("5", 5.0, True, 2**63, [])),
    *({"country": value} for value in (5, True, ["IT"], {})),
    *({"ok": value} for value in (1, "true")),
    ["amount"],
    "amount",
    5,
]

TIMES: list[Any] = [
    "2026-01-01T00:05:00Z", "2026-01-01T05:35:00+05:30", "2026-01-01 00:05", 1_767_225_900_000, "1767225900000",
    datetime(2026, 1, 1, 0, 5, tzinfo=UTC), NAIVE, NANOSECONDS,
    "noon", "2026-01-01", "", "12:00", "2026-02-30T00:00:00Z", True, 1.5, [], {}, 10**30,
]  # fmt: skip
