"""`GET /openapi.json` covers every route, is valid OpenAPI 3.1, and matches the server's responses."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker
from openapi_spec_validator import validate

from headrace.client.protocol import HotKey, HotReport, TopicSpread
from headrace.declare.app import App
from headrace.kafka.partition_skew import PartitionSkew
from headrace.kafka.status.progress_table import ProgressTable
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader
from headrace.runtime.admin_routes import admin_routes
from headrace.runtime.settings import Settings
from headrace.server.auth.scopes import Scope
from headrace.server.dashboard.dashboard_route import dashboard_routes
from headrace.server.metrics.hot_keys import HotKeyReport
from headrace.server.metrics.hot_keys import HotKeyStats as ServedKey
from tests.golden.snapshots import structure_of_http
from tests.golden.test_outside import require_same
from tests.server.prediction_app import VIEWS, event, filled, fraud, payments
from tests.server.secured_server import guarded
from tests.server.server_thread import NOT_LOGGED, Asking, board_of, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Asking, App]]:
    folder = tmp_path_factory.mktemp("openapi")
    app = App("shop", (payments,), VIEWS, (fraud(folder),))
    settings = Settings("127.0.0.1:0", None, 9092, "memory", None, folder, None, frozenset(), "real-time", 60)
    more = admin_routes("app.py", app, settings)
    with serving(app, MemoryStoreReader(filled(), None), board_of(app), scoring=NOT_LOGGED, more=more) as ask:
        yield ask, app


@pytest.fixture
def document(served: tuple[Asking, App]) -> Any:
    return served[0]("GET", "/openapi.json").json


def test_it_is_valid(document: Any) -> None:
    validate(document)
    assert document["openapi"] == "3.1.0"


def test_the_fields_and_codes_of_every_route_are_as_they_were(document: Any) -> None:
    require_same("http", structure_of_http(document))


def test_every_route_but_the_pages_own_files_is_told(served: tuple[Asking, App], document: Any) -> None:
    ask, app = served
    paths = set(ask("GET", "/nowhere").error.partition("There is /")[2].removesuffix(".").split(", "))
    paths = {f"/{path}".replace("//", "/") for path in paths}
    files = {route.path for route in dashboard_routes(app)}
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
    written = json.loads(json.dumps(HotKeyReport((key,), (PartitionSkew("payments", 2, 100, 1, 0.75),)).to_json()))
    Draft202012Validator(schema_of(document, "/hot")).validate(written)
    assert written.keys() == HotReport.__required_keys__
    assert written["keys"][0].keys() == HotKey.__required_keys__
    assert written["topics"][0].keys() == TopicSpread.__required_keys__


def asked_with(**changes: Any) -> dict[str, Any]:
    return {"keys": ["c1"]} | changes


def tensors(**changes: Any) -> dict[str, Any]:
    sent = [("card", "BYTES"), ("merchant", "BYTES"), ("amount", "FP64")]
    inputs = [{"name": name, "datatype": kind, "shape": [1], "data": [event(1)[name]]} for name, kind in sent]
    return {"inputs": inputs} | changes


ROW = event(1)
LACKING = {name: value for name, value in ROW.items() if name != "amount"}
# By path, bodies that the document allows and bodies that it does not; the server has to agree.
BODIES: dict[str, list[Any]] = {
    "/features/CardSpend": [
        None, [], "c1", {}, {"keys": "c1"}, {"keys": [5]}, {"keys": [None]}, {"keys": []}, asked_with(),
        asked_with(more=1),         asked_with(at=None), asked_with(at=True), asked_with(at="noon"),
        asked_with(at=1.5), asked_with(at=[]),
        asked_with(at=10**14), asked_with(request=None), asked_with(request=[]), asked_with(request={}),
        asked_with(request={"amount": 5}), asked_with(request={"amount": None}), asked_with(request={"amount": "5"}),
        asked_with(request={"amount": "NaN"}), asked_with(request={"amount": True}), asked_with(request={"other": 5}),
        {"keys": ["c1"] * 1001},
    ],
    "/predict/fraud": [
        None, "x", {}, [{}], ROW, [ROW], [ROW] * 1001, [ROW, 5], LACKING, event(1, amount="5"), event(1, amount=True),
        event(1, amount="NaN"), event(1, amount="nan"), event(1, units=1.5), event(1, units="5"), event(1, units=2**31),
        event(1, units=None), event(1, online="true"), event(1, online=None), event(1, card=None), event(1, card=7),
        event(1, card={"a": [1]}), event(1, at="12:00"), event(1, at="1767225600000"), event(1, at=None),
        event(1, at=True), event(1, at=[]), event(1, merchant=None), event(1, more=[1, 2]),
    ],
    "/invocations": [
        None, [], {}, {"params": {}}, {"dataframe_records": []}, {"inputs": {}},
        {"dataframe_records": [ROW]}, {"dataframe_records": 5},
        {"dataframe_records": [5]}, {"instances": [ROW]}, {"instances": 5}, {"instances": None}, {"inputs": [ROW]},
        {"inputs": "x"},
        {"dataframe_records": [ROW], "params": {}}, {"dataframe_records": [ROW], "params": None},
        {"dataframe_records": [ROW], "params": {"include": 1}}, {"dataframe_records": [ROW], "params": {"more": True}},
        {"dataframe_records": [ROW], "params": []}, {"dataframe_records": [ROW], "instances": [ROW]},
        {"dataframe_records": [ROW], "more": 1}, {"dataframe_split": {"columns": [*ROW], "data": [[*ROW.values()]]}},
        {"dataframe_split": {"columns": [*ROW]}}, {"dataframe_split": {"columns": [5], "data": [[1]]}},
        {"dataframe_split": {"columns": [*ROW, "id"], "data": [[*ROW.values(), "x"]]}}, {"dataframe_split": []},
        {"dataframe_split": {"columns": [*ROW], "data": [5]}},
    ],
    "/v2/models/fraud/infer": [
        None, [], {}, {"inputs": []}, {"inputs": {}}, {"inputs": [5]}, {"inputs": [{}]}, tensors(), tensors(id="x"),
        tensors(id=5), tensors(id=None), tensors(parameters={}), tensors(parameters=[]), tensors(parameters=5),
        {"inputs": [{"name": 5, "datatype": "FP64", "shape": [1], "data": [1]}]},
        {"inputs": [{"name": "amount", "datatype": 5, "shape": [1], "data": [1]}]},
        {"inputs": [{"name": "amount", "datatype": "FP63", "shape": [1], "data": [1]}]},
        {"inputs": [{"name": "amount", "datatype": "FP64", "shape": 1, "data": [1]}]},
        {"inputs": [{"name": "amount", "datatype": "FP64", "shape": ["1"], "data": [1]}]},
    ],
    "/sql": [
        None, [], {}, {"sql": 5}, {"sql": None}, {"sql": ""}, {"sql": "select 1"}, {"sql": "select 1", "limit": 0},
        {"sql": "select 1", "limit": 1}, {"sql": "select 1", "limit": 100_000}, {"sql": "select 1", "limit": 100_001},
        {"sql": "select 1", "limit": "1"}, {"sql": "select 1", "limit": True}, {"sql": "select 1", "more": 1},
    ],
}  # fmt: skip
BODIES["/invocations/fraud"] = BODIES["/invocations"]
MOMENTS = FormatChecker(["date-time"])


@pytest.mark.parametrize("path", BODIES)
def test_what_the_document_calls_valid_is_answered_and_what_not_is_refused(
    served: tuple[Asking, App], document: Any, path: str
) -> None:
    told = document["paths"][path]["post"]
    asked = told["requestBody"]["content"]["application/json"]["schema"]
    opinions = {}
    for number, body in enumerate(BODIES[path]):
        said = served[0]("POST", path, json.dumps(body), {"content-type": "application/json"})
        assert str(said.status) in told["responses"], (body, said.body)
        Draft202012Validator(schema_of(document, path, str(said.status))).validate(said.json)
        is_valid = Draft202012Validator(asked, format_checker=MOMENTS).is_valid(body)
        opinions[number] = (is_valid, said.status in {200, 503})  # 503: the model has no number for a NaN
    wrong = [(BODIES[path][number], both) for number, both in opinions.items() if both[0] != both[1]]
    assert wrong == []


@pytest.mark.parametrize(
    ("minutes", "status"), [("1", 200), ("1440", 200), ("0", 400), ("1441", 400), ("", 400), ("x", 400), ("-1", 400)]
)
def test_a_query_is_what_is_told(served: tuple[Asking, App], document: Any, minutes: str, status: int) -> None:
    (parameter,) = document["paths"]["/history"]["get"]["parameters"]
    said = served[0]("GET", f"/history?minutes={minutes}")
    assert said.status == status
    number = int(minutes) if minutes.lstrip("-").isdecimal() else minutes
    assert Draft202012Validator(parameter["schema"]).is_valid(number) == (status == 200)


def test_every_question_of_the_page_is_refused_or_answered_as_is_told(
    served: tuple[Asking, App], document: Any
) -> None:
    """None of these starts a command: what is wrong is refused before."""
    wrong: dict[str, Any] = {
        "/ask/letters": {"stream": "nobody"}, "/ask/replay": {"stream": "payments", "places": []},
        "/ask/discard": {"stream": "payments", "places": [5]}, "/ask/trace": {"id": ""}, "/ask/silence": {"name": 5},
        "/ask/card": {"model": "nobody"}, "/ask/quality": {"model": 5}, "/ask/drift": {},
        "/ask/lateness": {"stream": []},
    }  # fmt: skip
    for path, body in wrong.items():
        told = document["paths"][path]["post"]
        for sent, kind in ((json.dumps(body), "application/json"), ("{", "application/json"), ("{}", "text/plain")):
            said = served[0]("POST", path, sent, {"content-type": kind})
            assert said.status == (415 if kind == "text/plain" else 400)
            assert str(said.status) in told["responses"]
            Draft202012Validator(schema_of(document, path, str(said.status))).validate(said.json)


def test_a_server_that_is_not_ready_says_so_as_is_told(document: Any, tmp_path: Path) -> None:
    model = fraud(tmp_path)
    Path(model.file or "").unlink()
    app = App("shop", (payments,), VIEWS, (model,))
    with serving(app, MemoryStoreReader(filled(), None), ProgressTable(), scoring=NOT_LOGGED) as ask:
        for path in ("/v2/health/ready", "/v2/models/fraud/ready", "/v2/models/fraud"):
            said = ask("GET", path)
            assert said.status == 503
            Draft202012Validator(schema_of(document, path, "503")).validate(said.json)


def test_a_login_is_what_is_told(tmp_path: Path) -> None:
    with guarded(tmp_path) as server:
        document = server(Scope.READ, "GET", "/openapi.json").json
        responses = document["paths"]["/login"]["post"]["responses"]
        for token, status, kind in ((server.tokens[Scope.READ], "303", "text/plain"), ("no", "401", "text/html")):
            said = server.ask("POST", "/login", f"token={token}")
            assert str(said.status) == status
            assert said.headers["content-type"].partition(";")[0] == kind
            assert list(responses[status]["content"]) == [kind]
        assert "200" not in responses
