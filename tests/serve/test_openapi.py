"""`GET /openapi.json` tells of every route, is valid OpenAPI 3.1, and what the server answers is what it says."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from headrace.cli.asked import asked_of
from headrace.cli.settings import Settings
from headrace.declare.app import App
from headrace.log.spread import Spread
from headrace.questions import HotKey, HotReport, TopicSpread
from headrace.serve.hot import HotKey as ServedKey
from headrace.serve.hot import Report
from headrace.serve.page import page_of
from headrace.store.online import MemoryOnline
from tests.serve.predicting import VIEWS, event, filled, fraud, payments
from tests.serve.serving import NOT_LOGGED, Asking, board_of, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Asking, App]]:
    folder = tmp_path_factory.mktemp("openapi")
    app = App("shop", (payments,), VIEWS, (fraud(folder),))
    settings = Settings("127.0.0.1:0", None, 9092, "memory", None, folder, None, frozenset(), "real-time", 60)
    more = asked_of("app.py", app, settings)
    with serving(app, MemoryOnline(filled(), None), board_of(app), scoring=NOT_LOGGED, more=more) as ask:
        yield ask, app


@pytest.fixture
def document(served: tuple[Asking, App]) -> Any:
    return served[0]("GET", "/openapi.json").json


def test_it_is_valid(document: Any) -> None:
    validate(document)
    assert document["openapi"] == "3.1.0"


def test_every_route_but_the_pages_own_files_is_told(served: tuple[Asking, App], document: Any) -> None:
    ask, app = served
    paths = set(ask("GET", "/nowhere").error.partition("There is /")[2].removesuffix(".").split(", "))
    paths = {f"/{path}".replace("//", "/") for path in paths}
    files = {route.path for route in page_of(app)}
    assert "/features/CardSpend" in paths
    assert paths - files == set(document["paths"])


def schema_of(document: Any, path: str, status: str = "200") -> Any:
    (operation,) = document["paths"][path].values()
    answer = operation["responses"][status]
    if "$ref" in answer:
        answer = document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    (content,) = answer["content"].values()
    return content["schema"] | {"components": document["components"]}


ASKED: list[tuple[str, str, Any]] = [
    ("POST", "/features/CardSpend", {"keys": ["c1", "nobody"], "request": {"amount": 5.0}}),
    ("POST", "/features/MerchantCards", {"keys": ["m1"]}),
    ("POST", "/predict/fraud", event(77)),
    ("POST", "/predict/fraud", [event(78), event(79)]),
    ("POST", "/invocations", {"dataframe_records": [event(80)]}),
    ("POST", "/invocations/fraud", {"dataframe_records": [event(80)]}),
    ("POST", "/sql", {"sql": "select 1 as one"}),
    (
        "POST",
        "/v2/models/fraud/infer",
        {
            "inputs": [
                {"name": name, "datatype": kind, "shape": [1], "data": [event(81)[name]]}
                for name, kind in (("card", "BYTES"), ("merchant", "BYTES"), ("amount", "FP64"))
            ]
        },
    ),
    ("GET", "/v2", None),
    ("GET", "/v2/models/fraud", None),
    ("GET", "/v2/models/fraud/ready", None),
    ("GET", "/v2/health/live", None),
    ("GET", "/v2/health/ready", None),
    ("GET", "/hot", None),
    ("GET", "/history", None),
    ("GET", "/panels", None),
    ("GET", "/session", None),
    ("GET", "/openapi.json", None),
]


@pytest.mark.parametrize(("method", "path", "body"), ASKED)
def test_an_answer_is_what_is_told_and_so_is_the_question(
    served: tuple[Asking, App], document: Any, method: str, path: str, body: Any
) -> None:
    said = served[0](method, path, body, {"content-type": "application/json"})
    assert said.status == 200, said.body
    Draft202012Validator(schema_of(document, path)).validate(said.json)
    if body is not None:
        asked = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        Draft202012Validator(asked).validate(body)


def test_a_refusal_is_what_is_told(served: tuple[Asking, App], document: Any) -> None:
    said = served[0]("POST", "/features/CardSpend", {"keys": [5]})
    assert said.status == 400
    schema = schema_of(document, "/features/CardSpend", "400")
    Draft202012Validator(schema).validate(said.json)
    asked = document["paths"]["/features/CardSpend"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert not Draft202012Validator(asked).is_valid({"keys": [5]})


def test_every_operation_has_a_name_of_its_own(document: Any) -> None:
    names = [one["operationId"] for path in document["paths"].values() for one in path.values()]
    assert len(set(names)) == len(names)


def test_it_says_nothing_of_this_machine(document: Any) -> None:
    assert str(Path.home()) not in json.dumps(document)


def test_a_report_of_hot_keys_is_what_is_told_and_what_the_client_types(document: Any) -> None:
    key = ServedKey(("payments",), None, 1, "c1", 0.4, 0.5, 12.0, 0, 2, 1, True)
    written = json.loads(json.dumps(Report((key,), (Spread("payments", 2, 100, 1, 0.75),)).written()))
    Draft202012Validator(schema_of(document, "/hot")).validate(written)
    assert written.keys() == HotReport.__required_keys__
    assert written["keys"][0].keys() == HotKey.__required_keys__
    assert written["topics"][0].keys() == TopicSpread.__required_keys__
