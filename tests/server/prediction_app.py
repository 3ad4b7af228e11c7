"""The stream, view and model that the tests of predictions share, and the expected predictions."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import headrace as hr
from headrace.declare.app import App
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader, OnlineStoreReader
from tests.models.networks import DOUBLE, summing
from tests.server.server_thread import NOT_LOGGED, Asking, board_of, serving, tiles_of

payments = hr.Stream(
    "payments",
    schema="id string, card string, merchant string, amount double, units int, online boolean, at timestamp",
    id="id",
    key="card",
    time="at",
    late=hr.Late("30m"),
    check="amount >= 0",
)
INPUTS = ["payments_1h", "cards_1h", "amount"]  # those that are never null


@hr.features(payments, by="card")
class CardSpend:
    payments = hr.count(windows="1h")
    spend = hr.sum("amount", windows="1h")
    largest = hr.max("amount", windows="1h")
    latest = hr.last("merchant", windows="1h")
    share = hr.request("amount", "double") / spend["1h"]


@hr.features(payments, by="merchant")
class MerchantCards:
    cards = hr.distinct("card", windows="1h")


VIEWS = (CardSpend, MerchantCards)
NOW_MS = int(time.time() * 1000)


def event(number: int = 0, **changes: Any) -> dict[str, Any]:
    written = {"id": f"p{number}", "card": f"c{number % 3}", "merchant": f"m{number % 2}", "amount": 1.0 + number}
    return {**written, "units": number, "online": True, "at": NOW_MS - 1000 * number, **changes}


EVENTS = [event(number) for number in range(1, 31)]


def filled(events: Sequence[Mapping[str, Any]] = EVENTS) -> MemoryStore:
    store = MemoryStore(VIEWS)
    for view in VIEWS:
        store.apply(tiles_of(view, events))
    return store


def fraud(folder: Path, content: bytes | None = None, **settings: Any) -> hr.Model:
    """A model whose score is the sum of its inputs, unless it is given another file."""
    file = folder / "fraud.onnx"
    file.write_bytes(summing(len(INPUTS), DOUBLE) if content is None else content)
    given: dict[str, Any] = {
        "features": [*VIEWS],
        "fields": ["amount"],
        "inputs": INPUTS,
        "thresholds": {"review": 90.0, "block": 1000.0},
        "budget": "60s",
    }
    return hr.Model("fraud", on=payments, file=str(file), **(given | settings))


@contextmanager
def predicting(model: hr.Model, online: OnlineStoreReader | None = None, **more: Any) -> Iterator[Asking]:
    """A server of one model, over a store that knows the events unless another is given."""
    app = App("shop", (payments,), VIEWS, (model,))
    scoring = more.pop("scoring", NOT_LOGGED)
    with serving(app, online or MemoryStoreReader(filled(), None), board_of(app), scoring=scoring, **more) as ask:
        yield ask


def expected(event: Mapping[str, Any], others: Sequence[Mapping[str, Any]] = EVENTS) -> dict[str, Any]:
    """The vector of an event by `hr.testing`, now."""
    at, request = datetime.now(UTC), {"amount": event["amount"]}
    card = hr.testing.feed(CardSpend, others).at(at, request)[event["card"]]
    merchant = hr.testing.feed(MerchantCards, others).at(at)[event["merchant"]]
    columns = vars(card) | vars(merchant) | {"amount": event["amount"]}
    return {name: columns[name] for name in (*CardSpend.names, *MerchantCards.names, "amount")}
