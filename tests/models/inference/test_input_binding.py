"""Model inputs are bound by name and type at load; each mismatch is rejected with its error."""

import json
from typing import Any

import numpy as np
import pytest
from onnx import helper

import headrace as hr
from headrace.models.inference.input_binding import IncompatibleModelError
from headrace.models.inference.onnx_model import INPUTS_KEY, ModelLoadFailed
from headrace.models.inference.scorer import load_scorer
from tests.models.fraud import model
from tests.models.networks import BOOL, DOUBLE, FLOAT, INT64, STRING, named, network, shaped, summing, with_metadata

NULL_TO_ZERO = ["payments_1h", "amount"]


def node(kind: str, inputs: list[str], outputs: list[str], **settings: Any) -> Any:
    return helper.make_node(kind, inputs, outputs, **settings)


def load(content: bytes, **settings: Any) -> Any:
    return load_scorer(model(**settings), content, "Model 'fraud'")


def test_inputs_are_bound_by_name_whatever_their_order() -> None:
    scorer = load(named(amount=FLOAT, payments_1h=INT64, country_1h=STRING, online=BOOL))
    assert [column.name for column in scorer.columns] == ["amount", "payments_1h", "country_1h", "online"]
    assert scorer.score_rows([[2.5, 3, "FR", True], [0.0, 1, None, None]]).tolist() == [6.5, 1.0]


def test_a_flat_input_is_bound_as_well() -> None:
    assert load(shaped({"amount": (DOUBLE, [None])})).score_rows([[2.5], [1.0]]).tolist() == [2.5, 1.0]


def test_one_input_takes_the_columns_in_the_declared_order() -> None:
    scorer = load(summing(2), inputs=NULL_TO_ZERO)
    assert scorer.score_rows([[3, 0.5]]).tolist() == [3.5]


def test_a_trained_model_says_itself_which_columns_it_takes() -> None:
    content = with_metadata(summing(2), **{INPUTS_KEY: json.dumps(["units", "payments_1h"])})
    assert [column.name for column in load(content).columns] == ["units", "payments_1h"]


def test_null_is_zero_false_or_an_empty_text_where_a_tensor_has_no_nan() -> None:
    scorer = load(named(payments_1h=INT64, online=BOOL))
    assert scorer.score_rows([[None, None]]).tolist() == [0.0]


def test_nothing_is_scored_without_rows() -> None:
    assert len(load(summing(2), inputs=NULL_TO_ZERO).score_rows([])) == 0


def test_two_classes_are_the_probability_of_the_second() -> None:
    content = network(
        [node("Identity", ["features"], ["p"])], [("features", FLOAT, [None, 2])], [("p", FLOAT, [None, 2])]
    )
    assert load(content, inputs=NULL_TO_ZERO).score_rows([[3, 0.5]]).tolist() == [0.5]


AXES = helper.make_tensor("axes", INT64, [1], [1])
SUM = node("ReduceSum", ["x", "axes"], ["y"], keepdims=1)
ONE = ("amount", FLOAT, [None, 1])
TWO = [("features", FLOAT, [None, 2])]
MISMATCHES: list[tuple[str, bytes, dict[str, Any], list[str]]] = [
    ("an input nobody gives", named(amount=FLOAT, age=FLOAT), {},
     ["asks for 'age'", "payments_1h", "features=, fields="]),
    ("an input beyond inputs=", named(amount=FLOAT, units=FLOAT), {"inputs": ["amount"]}, ["asks for 'units'"]),
    ("no input for a declared one", named(amount=FLOAT), {"inputs": ["amount", "units"]},
     ["no input 'units'", "inputs="]),
    ("a text as a number", named(country_1h=FLOAT), {}, ["'country_1h' is tensor(float)", "string", "tensor(string)"]),
    ("a number as a text", named(amount=FLOAT, units=STRING), {}, ["'units' is tensor(string)", "integer"]),
    ("a double as a whole number", named(amount=INT64), {}, ["'amount' is tensor(int64)", "double", "tensor(float)"]),
    ("a number as a boolean", named(units=BOOL), {}, ["'units' is tensor(bool)", "integer"]),
    ("a text among numbers", summing(8), {}, ["'features' is tensor(float)", "'country_1h' is string", "inputs=["]),
    ("too many columns", summing(3), {"inputs": NULL_TO_ZERO},
     ["takes 3 columns", "has 2: payments_1h, amount", "inputs="]),
    ("a type no column has", shaped({"amount": (helper.np_dtype_to_tensor_dtype(np.dtype("int32")), [None, 1])}), {},
     ["tensor(int32)", "tensor(float), tensor(double)"]),
    ("a fixed number of rows", summing(2, rows=1), {"inputs": NULL_TO_ZERO}, ["exactly 1 rows", "[None, 2]"]),
    ("rows of rows", network([node("Identity", ["x"], ["y"])], [("x", FLOAT, [None, 2, 3])], [("y", FLOAT,
     [None, 1])]), {},
     ["shape [None, 2, 3]", "[None, columns]"]),
    ("a wide input among others", network([node("Add", ["amount", "units"], ["x"]), SUM], [ONE, ("units", FLOAT,
     [None, 3])],
     [("y", FLOAT, [None, 1])], [AXES]), {}, ["'units' is 3 wide", "[None, 1]"]),
    ("no inputs", network([node("Constant", [], ["y"], value_floats=[1.0])], [], [("y", FLOAT, [None])]), {},
     ["no inputs"]),
    ("no score", network([node("Cast", ["features"], ["y"], to=INT64)], TWO, [("y", INT64, [None, 2])]),
     {"inputs": NULL_TO_ZERO}, ["which of it is the score?", "'y' tensor(int64)", "'probabilities'"]),
    ("two scores", network([node("Identity", ["features"], ["a"]), node("Identity", ["features"], ["b"])], TWO,
     [("a", FLOAT, [None, 2]), ("b", FLOAT, [None, 2])]), {"inputs": NULL_TO_ZERO}, ["'a'", "'b'", "which of it"]),
    ("three classes", network([node("Identity", ["features"], ["y"])], [("features", FLOAT, [None, 3])],
     [("y", FLOAT, [None, 3])]), {"inputs": ["payments_1h", "amount", "units"]}, ["which of it is the score?"]),
    ("other rows than it got", network([node("Concat", ["features", "features"], ["y"], axis=0)], TWO,
     [("y", FLOAT, [None, 2])]), {"inputs": NULL_TO_ZERO}, ["1 rows with the shape [2, 2]"]),
    ("NaN for zeros", network([node("Div", ["features", "features"], ["y"])], TWO, [("y", FLOAT, [None, 2])]),
     {"inputs": NULL_TO_ZERO}, ["answers nan to a row of zeros", "imputer"]),
    ("NaN for nulls", summing(2), {"inputs": ["payments_1h", "mean_1h"]},
     ["answers nan to an entity never seen", "mean_1h=None", "imputer"]),
    ("a failure", network([node("Reshape", ["features", "s"], ["y"])], TWO, [("y", FLOAT, [None, 2])],
     [helper.make_tensor("s", INT64, [2], [3, 2])]), {"inputs": NULL_TO_ZERO}, ["fails on a row of ones"]),
]  # fmt: skip


@pytest.mark.parametrize(("content", "settings", "said"), [m[1:] for m in MISMATCHES], ids=[m[0] for m in MISMATCHES])
def test_a_model_is_refused_with(content: bytes, settings: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(IncompatibleModelError) as refused:
        load(content, **settings)
    assert all(part in str(refused.value) for part in ["Model 'fraud'", *said]), str(refused.value)


def test_maps_of_probabilities_are_refused_with_how_to_leave_them_out() -> None:
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression().fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])
    content = to_onnx(fitted, initial_types=[("features", FloatTensorType([None, 2]))]).SerializeToString()
    with pytest.raises(IncompatibleModelError, match="zipmap=False"):
        load(content, inputs=NULL_TO_ZERO)


@pytest.mark.parametrize("content", [b"", b"\x80\x04K\x01.", b"not onnx" * 100, summing(2)[:-20]])
def test_what_is_no_model_is_refused_and_never_unpickled(content: bytes) -> None:
    with pytest.raises(hr.HeadraceError, match=r"Model 'fraud'"):
        load(content, inputs=NULL_TO_ZERO)


@pytest.mark.parametrize("written", ["[", "{}", "[]", "[1]", "[" * 100_000])
def test_names_that_are_none_are_refused(written: str) -> None:
    with pytest.raises(ModelLoadFailed, match=r"headrace\.inputs"):
        load(with_metadata(summing(2), **{INPUTS_KEY: written}))
