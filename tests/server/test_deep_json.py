"""Deeply nested JSON is a bad request wherever a body is read, never an internal error."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.declare.app import App
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader
from headrace.runtime.admin_routes import admin_routes
from headrace.runtime.settings import Settings
from tests.server.prediction_app import VIEWS, event, filled, fraud, payments
from tests.server.server_thread import Asking, board_of, serving

# 200 levels are read; orjson writes 254 and reads 1024, and Python's own reader stops where its stack does.
DEPTHS = [201, 253, 254, 255, 256, 500, 990, 1000, 1023, 1024, 1025, 2000, 20_000, 150_000]
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    folder = tmp_path_factory.mktemp("deep")
    app = App("shop", (payments,), VIEWS, (fraud(folder),))
    settings = Settings("127.0.0.1:0", None, 9092, "memory", None, folder, None, frozenset(), "real-time", 60)
    more = admin_routes("app.py", app, settings)
    with serving(app, MemoryStoreReader(filled(), None), board_of(app), more=more) as ask:
        yield ask


def nested(depth: int, shape: str) -> str:
    match shape:
        case "lists":
            return "[" * depth + "]" * depth
        case "objects":
            return '{"a":' * depth + "1" + "}" * depth
        case _:
            return '[{"a":' * (depth // 2) + "1" + "}]" * (depth // 2)


def tensor(**changes: Any) -> dict[str, Any]:
    return {"name": "amount", "datatype": "FP64", "shape": [1], "data": [1.0]} | changes


# By path, bodies in which the word HERE stands for what is deep.
BODIES: dict[str, list[Any]] = {
    "/features/CardSpend": [
        "HERE", {"keys": "HERE"}, {"keys": ["HERE"]}, {"keys": ["c1"], "at": "HERE"}, {"keys": ["c1"], "more": "HERE"},
        {"keys": ["c1"], "request": "HERE"}, {"keys": ["c1"], "request": {"amount": "HERE"}},
    ],
    "/predict/fraud": ["HERE", ["HERE"], *(event(1, **{name: "HERE"}) for name in ("amount", "at", "units", "online"))],
    "/sql": ["HERE", {"sql": "HERE"}, {"sql": "select 1", "limit": "HERE"}, {"sql": "select 1", "more": "HERE"}],
    "/v2/models/fraud/infer": [
        "HERE", {"inputs": "HERE"}, {"inputs": ["HERE"]}, {"inputs": [tensor(data="HERE")]},
        {"inputs": [tensor(shape="HERE")]}, {"inputs": [tensor(datatype="HERE")]}, {"inputs": [tensor(data=["HERE"])]},
        {"inputs": [tensor()], "outputs": "HERE"}, {"inputs": [tensor()], "id": "HERE"},
        {"inputs": [tensor(parameters="HERE")]}, {"inputs": [tensor(parameters={"binary_data_size": "HERE"})]},
    ],
    "/invocations": [
        "HERE", {"inputs": "HERE"}, {"inputs": {"amount": "HERE"}}, {"dataframe_split": "HERE"}, {"instances": "HERE"},
        {"dataframe_split": {"columns": "HERE", "data": []}}, {"dataframe_split": {"columns": ["a"], "data": "HERE"}},
        {"dataframe_records": "HERE"}, {"dataframe_records": ["HERE"]}, {"instances": [1], "params": "HERE"},
    ],
    "/ask/letters": ["HERE", {"stream": "HERE"}],
    "/ask/replay": ["HERE", {"stream": "payments", "places": "HERE"}, {"stream": "HERE", "places": ["payments-0@1"]}],
    "/ask/silence": ["HERE", {"name": "HERE"}, {"name": "x", "for": "HERE"}],
    "/ask/card": ["HERE", {"model": "HERE"}, {"model": "fraud", "version": "HERE"}],
}  # fmt: skip


@pytest.mark.parametrize("shape", ["lists", "objects", "both"])
@pytest.mark.parametrize("path", BODIES)
def test_deep_json_is_a_bad_request(served: Asking, path: str, shape: str) -> None:
    for depth in DEPTHS:
        for body in BODIES[path]:
            sent = json.dumps(body).replace('"HERE"', nested(depth, shape))
            said = served("POST", path, sent, JSON)
            assert said.status == 400, (depth, body, said.body[:300])
            assert said.error.endswith(".")


@pytest.mark.parametrize("path", BODIES)
def test_nesting_that_is_not_so_deep_has_an_answer_of_its_own(served: Asking, path: str) -> None:
    for depth in (1, 5, 100, 196):
        for body in BODIES[path]:
            said = served("POST", path, json.dumps(body).replace('"HERE"', nested(depth, "lists")), JSON)
            assert said.status in {200, 400}, (depth, body, said.body[:300])
            assert b"too deeply" not in said.body


@pytest.mark.parametrize("depth", [5, 100, *DEPTHS])
def test_a_deep_text_is_a_text_of_an_event_or_refused(served: Asking, depth: int) -> None:
    """The gate takes what is no text in a column of texts for its JSON."""
    for name in ("card", "merchant", "id"):
        sent = json.dumps(event(1, **{name: "HERE"})).replace('"HERE"', nested(depth, "lists"))
        for query in ("", "?include=true"):
            said = served("POST", f"/predict/fraud{query}", sent, JSON)
            assert said.status in {200, 400}, (depth, name, said.body[:300])
    for where in ({"dataframe_records": [event(1, card="HERE")]}, {"instances": [event(1, card="HERE")]}):
        said = served("POST", "/invocations", json.dumps(where).replace('"HERE"', nested(depth, "lists")), JSON)
        assert said.status in {200, 400}, (depth, where, said.body[:300])


@pytest.mark.parametrize(
    "name", ["inference-header-content-length", "content-type", "cookie", "authorization", "accept"]
)
def test_deep_json_in_a_header_or_a_query_is_text(served: Asking, name: str) -> None:
    deep = nested(5000, "lists")
    assert served("POST", "/v2/models/fraud/infer", "{}", {name: deep}).status == 400
    assert served("GET", f"/history?minutes={deep}").status == 400
    assert served("POST", f"/predict/fraud?include={deep}", event(1)).status == 400
