"""A vector has the features at an event's time and the event's own fields, and records the versions it is made of."""

import asyncio
import json
import random
from dataclasses import replace
from typing import Any

import pytest

import headrace as hr
from headrace.declare.app import App
from headrace.models.inference.feature_vectors import FeatureVector, FeatureVectorReader
from headrace.models.inference.scorer import load_scorer
from headrace.online_store.factory import create_store_reader
from headrace.online_store.feature_lookup import RetentionExceededError
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader
from headrace.online_store.redis.redis_store import RedisStore
from headrace.tiles.events.event_parser import parse_event
from tests.models.networks import FLOAT, named, summing
from tests.online_store.tiles import T0_US
from tests.oracle.streams import SECOND_US
from tests.server.server_thread import tiles_of

payments = hr.Stream(
    "payments",
    schema="id string, card string, merchant string, amount double, points bigint, at timestamp",
    id="id",
    key="card",
    time="at",
    late=hr.Late("1h"),
)


@hr.features(payments, by="card")
class CardSpend:
    payments = hr.count(windows=["10m", "1h"])
    mean = hr.mean("amount", windows="1h")
    points = hr.sum("points", windows="1h")
    first = hr.first("at", windows="1h")
    often = hr.top("merchant", 2, windows="1h")
    ratio = hr.request("amount", "double") / mean["1h"]


@hr.features(payments, by=["merchant", "card"])
class Pairs:
    met = hr.count(windows="1h")
    merchant_last = hr.last("merchant", windows="1h")


VIEWS = (CardSpend, Pairs)
model = hr.Model("fraud", on=payments, features=[*VIEWS], fields=["amount"], file="fraud.onnx")


def event(number: int, **changes: Any) -> dict[str, Any]:
    at_us = T0_US + number * 7 * SECOND_US
    written = {"id": f"p{number}", "card": f"c{number % 3}", "merchant": f"m{number % 2}", "points": 2**62}
    return {**written, "amount": 1.5 * number, "at": at_us // 1000, **changes}


EVENTS = [event(number) for number in range(60)] + [event(60, merchant=None), event(61, amount=None)]


def read(one: dict[str, Any]) -> dict[str, Any]:
    return parse_event(payments.schema, json.dumps(one).encode())


def filled() -> MemoryStore:
    store = MemoryStore(VIEWS)
    for view in VIEWS:
        store.apply(tiles_of(view, [one for one in EVENTS if None not in (one["merchant"], one["card"])]))
    return store


def vectors_of(vectors: FeatureVectorReader, events: list[dict[str, Any]], at_us: list[int]) -> list[FeatureVector]:
    return asyncio.run(vectors.read([read(one) for one in events], at_us))


def test_it_has_every_value_a_model_can_read_and_they_are_what_a_unit_test_of_the_features_says() -> None:
    vectors = FeatureVectorReader(model, MemoryStoreReader(filled(), None))
    assert vectors.names == model.known.names
    chance = random.Random(7)
    asked = [*chance.choices(EVENTS, k=40), event(99, card="nobody", merchant="none"), EVENTS[-2], EVENTS[-1]]
    at_us = [T0_US + chance.randint(380, 500) * SECOND_US for _ in asked]
    fed = {view.name: hr.testing.feed(view, [one for one in EVENTS if one["merchant"] is not None]) for view in VIEWS}
    for one, time_us, vector in zip(asked, at_us, vectors_of(vectors, asked, at_us), strict=True):
        moment = f"{time_us // 1000}"
        card = vars(fed["CardSpend"].at(moment, request={"amount": one["amount"]})[one["card"]])
        pair = vars(fed["Pairs"].at(moment)[one["merchant"] or "nobody", one["card"]])
        expected = {name: (card | pair | one).get(name) for name in vectors.names}
        expected["points_1h"] = None if expected["points_1h"] is None else float(expected["points_1h"])
        assert vectors.to_named_values(vector) == expected


def test_it_says_of_each_view_what_it_was_made_of() -> None:
    vectors = FeatureVectorReader(model, MemoryStoreReader(filled(), None))
    at_us = T0_US + 420 * SECOND_US
    (vector, nobody) = vectors_of(vectors, [EVENTS[57], event(99, card="x", merchant=None)], [at_us, at_us])
    mine = [one for one in EVENTS if one["card"] == "c0" and one["merchant"] is not None and one["at"] * 1000 <= at_us]
    ours = [one for one in mine if one["merchant"] == "m1"]
    assert vector.provenance_by_view["Pairs"] == [[len(ours), max(one["at"] for one in ours) * 1000]]
    assert vector.provenance_by_view["CardSpend"] == [[len(mine), max(one["at"] for one in mine) * 1000]] * 2
    assert vector.event_time_us == max(one["at"] for one in mine) * 1000
    assert nobody.provenance_by_view == {"CardSpend": [[0, 0]] * 2, "Pairs": [[0, 0]]}
    assert nobody.event_time_us is None


def test_a_scorer_gets_the_columns_it_reads_in_its_order() -> None:
    vectors = FeatureVectorReader(model, MemoryStoreReader(filled(), None))
    (vector,) = vectors_of(vectors, EVENTS[:1], [T0_US + 420 * SECOND_US])
    values = vectors.to_named_values(vector)
    one = load_scorer(model, named(amount=FLOAT), "one")
    two = load_scorer(replace_inputs("payments_10m", "amount", "met_1h"), summing(3), "two")
    assert vectors.scorer_rows(one, [vector]) == [(values["amount"],)]
    assert (
        vectors.scorer_rows(two, [vector, vector]) == [(values["payments_10m"], values["amount"], values["met_1h"])] * 2
    )


def replace_inputs(*inputs: str) -> hr.Model:
    return hr.Model("other", on=payments, features=[*VIEWS], fields=["amount"], inputs=inputs, file="fraud.onnx")


def test_a_time_the_store_has_let_go_of_is_refused() -> None:
    with pytest.raises(RetentionExceededError):
        vectors_of(FeatureVectorReader(model, MemoryStoreReader(filled(), None)), EVENTS[:1], [T0_US])


def test_redis_gives_the_same_vectors(redis_url: str) -> None:
    renamed = [replace(view, name=f"{view.name}OfVectors") for view in VIEWS]
    same = hr.Model("fraud", on=payments, features=[*renamed], fields=["amount"], file="fraud.onnx")
    at_us = [T0_US + (400 + number) * SECOND_US for number in range(len(EVENTS))]
    memory = vectors_of(FeatureVectorReader(model, MemoryStoreReader(filled(), None)), EVENTS, at_us)
    tiles = [tile for view in renamed for tile in tiles_of(view, EVENTS[:60] + EVENTS[61:])]
    RedisStore(redis_url, renamed).apply(tiles)

    async def from_redis() -> list[FeatureVector]:
        online = create_store_reader(App("shop", (payments,), tuple(renamed)), "127.0.0.1:1", redis_url)
        try:
            return await FeatureVectorReader(same, online).read([read(one) for one in EVENTS], at_us)
        finally:
            await online.stop()

    found = asyncio.run(from_redis())
    assert [vector.values for vector in found] == [vector.values for vector in memory]
    assert [list(vector.provenance_by_view.values()) for vector in found] == [
        list(vector.provenance_by_view.values()) for vector in memory
    ]
