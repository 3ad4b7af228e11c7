"""Other inference protocols: the clients of Triton and MLflow get what /predict returns."""

import json
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tritonclient.http as triton
from mlflow.pyfunc.scoring_server.client import ScoringServerClient

from headrace.embedded_servers.ports import HOST
from tests.server.prediction_app import INPUTS, event, fraud, predicting
from tests.server.server_thread import Asking
from tests.waiting import SOCKET_S

INFER = "/v2/models/fraud/infer"
DATATYPES = {"card": "BYTES", "merchant": "BYTES", "amount": "FP64", "units": "INT32", "online": "BOOL"}
ROWS = [event(number, amount=90.5 + number) for number in range(4)]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    with predicting(fraud(tmp_path_factory.mktemp("model"))) as ask:
        yield ask


@pytest.fixture
def client(ask: Asking) -> Iterator[triton.InferenceServerClient]:
    client = triton.InferenceServerClient(f"{HOST}:{ask.port}")
    yield client
    client.close()


def tensors(columns: dict[str, list[Any]], datatypes: dict[str, str], binary: bool) -> list[triton.InferInput]:
    given = []
    for name, datatype in datatypes.items():
        one = triton.InferInput(name, [len(columns[name])], datatype)
        dtype = object if datatype == "BYTES" else triton.triton_to_np_dtype(datatype)
        one.set_data_from_numpy(np.array(columns[name], dtype), binary_data=binary)
        given.append(one)
    return given


def scores(ask: Asking, include: bool = False) -> list[tuple[float, str | None]]:
    said = ask("POST", "/predict/fraud" + ("?include=true" if include else ""), [without_time(row) for row in ROWS])
    return [(one["score"], one["decision"]) for one in said.json]


def without_time(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name in DATATYPES}


COLUMNS = {name: [row[name] for row in ROWS] for name in DATATYPES}


def test_tritons_client_finds_the_server_and_the_model(client: triton.InferenceServerClient) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("fraud")
    assert not client.is_model_ready("nobody")
    assert client.get_server_metadata()["name"] == "headrace"
    metadata = client.get_model_metadata("fraud")
    assert {one["name"]: one["datatype"] for one in metadata["inputs"]}.items() >= DATATYPES.items() - {
        ("units", "INT32")
    }
    assert [one["name"] for one in metadata["outputs"]] == ["score", "decision"]
    assert len(metadata["versions"]) == 1


@pytest.mark.parametrize("binary_out", [True, False], ids=["bytes out", "json out"])
@pytest.mark.parametrize("binary_in", [True, False], ids=["bytes in", "json in"])
def test_events_as_tensors_are_scored_as_predict_scores_them(
    ask: Asking, client: triton.InferenceServerClient, binary_in: bool, binary_out: bool
) -> None:
    outputs = [triton.InferRequestedOutput(name, binary_data=binary_out) for name in ("score", "decision")]
    found = client.infer("fraud", tensors(COLUMNS, DATATYPES, binary_in), outputs=outputs, request_id="r7")
    wanted = scores(ask)
    assert found.as_numpy("score").tolist() == [score for score, _ in wanted]
    decisions = [one.decode() if isinstance(one, bytes) else one for one in found.as_numpy("decision").tolist()]
    assert decisions == [decision for _, decision in wanted]
    assert found.get_response()["id"] == "r7"


def test_without_outputs_both_are_given(ask: Asking, client: triton.InferenceServerClient) -> None:
    found = client.infer("fraud", tensors(COLUMNS, DATATYPES, True))
    assert found.as_numpy("score").tolist() == [score for score, _ in scores(ask)]


def test_include_is_a_parameter(ask: Asking, client: triton.InferenceServerClient) -> None:
    found = client.infer("fraud", tensors(COLUMNS, DATATYPES, True), parameters={"include": True})
    assert found.as_numpy("score").tolist() == [score for score, _ in scores(ask, include=True)]


@pytest.mark.parametrize("binary", [True, False])
def test_a_whole_vector_is_scored_as_it_is(client: triton.InferenceServerClient, binary: bool) -> None:
    columns = {"payments_1h": [1, 2], "cards_1h": [10, 20], "amount": [0.25, 1e9]}
    datatypes = {"payments_1h": "INT64", "cards_1h": "INT64", "amount": "FP64"}
    found = client.infer("fraud", tensors(columns, datatypes, binary))
    assert found.as_numpy("score").tolist() == [11.25, 1e9 + 22]
    assert columns.keys() == set(INPUTS)


def tensor(name: str = "amount", **changes: Any) -> dict[str, Any]:
    return {"name": name, "datatype": "FP64", "shape": [1], "data": [1.0], **changes}


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({}, "The body has no inputs."),
        ([], "The body has no inputs."),
        ({"inputs": [5]}, "The body has no inputs."),
        ({"inputs": [tensor(datatype="FP8")]}, "Input 'amount' is FP8."),
        ({"inputs": [tensor(shape=[1, 2], data=[1, 2])]}, "Input 'amount' has the shape [1,2]."),
        ({"inputs": [tensor(shape=[])]}, "Input 'amount' has the shape []."),
        ({"inputs": [tensor(shape=[2])]}, "Input 'amount' has 1 values, and its shape says 2."),
        ({"inputs": [tensor(data=5)]}, "Input 'amount' has 0 values, and its shape says 1."),
        ({"inputs": [tensor(parameters={"binary_data_size": 8})]}, "has binary_data_size 8, and 0 bytes are left."),
        ({"inputs": [tensor(), tensor()]}, "Two inputs have one name"),
        ({"inputs": [tensor("nobody")]}, "There is no column 'nobody'. Give columns of an event (id, card,"),
        ({"inputs": [tensor()]}, "Events[0] has no 'card', which the model reads."),
        ({"inputs": [tensor(), tensor("card", shape=[2], data=["a", "b"])]}, "The columns have [1, 2] rows."),
        ({"inputs": [tensor(name, data=["x"]) for name in INPUTS]}, 'payments_1h is "x", and the model reads it as'),
        ({"inputs": [tensor()], "outputs": [{"name": "label"}]}, "There is no such output."),
        ({"inputs": [tensor()], "parameters": {"include": 1}}, "an include that is neither true nor false"),
        (b"{", "The body is not JSON"),
    ],
)
def test_tensors_that_cannot_be_read_are_refused(ask: Asking, body: Any, sentence: str) -> None:
    said = ask("POST", INFER, body)
    assert (said.status, sentence in said.error) == (400, True), said.body


@pytest.mark.parametrize(
    ("datatype", "size", "tail"),
    [
        ("FP64", 7, b"1234567"),
        ("BYTES", 6, struct.pack("<I", 9) + b"ab"),
        ("BYTES", 3, b"abc"),
        ("FP64", 8, b"1234567"),
    ],
)
def test_bytes_that_are_no_tensor_are_refused(ask: Asking, datatype: str, size: int, tail: bytes) -> None:
    head = json.dumps({"inputs": [tensor(datatype=datatype, parameters={"binary_data_size": size})]}).encode()
    assert ask("POST", INFER, head + tail, {"Inference-Header-Content-Length": str(len(head))}).status == 400
    assert ask("POST", INFER, head + tail, {"Inference-Header-Content-Length": "99999"}).status == 400


def test_mlflows_client_is_answered(ask: Asking) -> None:
    client = ScoringServerClient(HOST, ask.port)
    client.wait_server_ready(timeout=SOCKET_S)
    assert client.get_version()
    found = client.invoke(pd.DataFrame(COLUMNS)).get_predictions()
    wanted = scores(ask)
    assert found["score"].tolist() == [score for score, _ in wanted]
    assert found["decision"].tolist() == [decision for _, decision in wanted]
    included = client.invoke(pd.DataFrame(COLUMNS), params={"include": True}).get_predictions()
    assert included["score"].tolist() == [score for score, _ in scores(ask, include=True)]


WAYS = [
    {"dataframe_split": {"columns": [*DATATYPES], "data": [[row[name] for name in DATATYPES] for row in ROWS]}},
    {"dataframe_records": [without_time(row) for row in ROWS]},
    {"instances": [without_time(row) for row in ROWS]},
    {"inputs": COLUMNS},
]


@pytest.mark.parametrize("body", WAYS, ids=lambda body: next(iter(body)))
def test_every_way_to_write_a_table_says_the_same(ask: Asking, body: Any) -> None:
    for path in ("/invocations", "/invocations/fraud"):
        said = ask("POST", path, body, {"Content-Type": "application/json; charset=utf-8"})
        assert [(one["score"], one["decision"]) for one in said.json["predictions"]] == scores(ask)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({}, "The body has to have one of dataframe_split"),
        ({"inputs": {}, "instances": []}, "The body has to have one of"),
        ({"inputs": {}, "more": 1}, "The body has to have one of"),
        ({"inputs": 5}, '"inputs" is 5.'),
        ({"instances": []}, "The columns have [] rows."),
        ({"dataframe_split": {"columns": ["amount"], "data": [[1, 2]]}}, "dataframe_split has no columns with a row"),
        ({"dataframe_split": []}, "dataframe_split has no columns with a row"),
        ({"dataframe_records": {"amount": [1]}}, '"dataframe_records" is {"amount":[1]}.'),
        ({"instances": [{"amount": 1}], "params": {"x": 1}}, '"params" is {"x":1}.'),
        ({"inputs": {"amount": 5}}, "Events[0] has no 'card'"),
        (b"[", "The body is not JSON"),
    ],
)
def test_tables_that_cannot_be_read_are_refused(ask: Asking, body: Any, sentence: str) -> None:
    said = ask("POST", "/invocations", body)
    assert (said.status, sentence in said.error) == (400, True), said.body


@pytest.mark.parametrize("content_type", ["text/csv", "application/x-parquet"])
def test_what_has_no_types_is_refused(ask: Asking, content_type: str) -> None:
    said = ask("POST", "/invocations", b"card,amount\nc1,5\n", {"Content-Type": content_type})
    assert (said.status, "Send" in said.error) == (415, True)


def test_ping_says_that_the_server_lives(ask: Asking) -> None:
    assert ask("GET", "/ping").status == 200
