"""Small handmade ONNX models, in every shape that a test wants to see rejected."""

from collections.abc import Sequence
from typing import Any

import onnx
from onnx import TensorProto, helper

FLOAT, DOUBLE, INT64, STRING, BOOL = (
    TensorProto.FLOAT,
    TensorProto.DOUBLE,
    TensorProto.INT64,
    TensorProto.STRING,
    TensorProto.BOOL,
)
Value = tuple[str, int, Sequence[Any]]


def network(
    nodes: Sequence[Any], inputs: Sequence[Value], outputs: Sequence[Value], constants: Sequence[Any] = ()
) -> bytes:
    """The bytes of a graph."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(*one) for one in inputs],
        [helper.make_tensor_value_info(*one) for one in outputs],
        list(constants),
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    content: bytes = made.SerializeToString()
    return content


def summing(width: Any, kind: int = FLOAT, rows: Any = None, name: str = "features") -> bytes:
    """The sum of the columns of one input."""
    axes = helper.make_tensor("axes", INT64, [1], [1])
    node = helper.make_node("ReduceSum", [name, "axes"], ["score"], keepdims=1)
    return network([node], [(name, kind, [rows, width])], [("score", kind, [rows, 1])], [axes])


def offset(by: float, width: int = 2) -> bytes:
    """The sum of the columns of one input, and a number: each version of a model another one."""
    constants = [helper.make_tensor("axes", INT64, [1], [1]), helper.make_tensor("by", FLOAT, [1], [by])]
    nodes = [
        helper.make_node("ReduceSum", ["features", "axes"], ["total"], keepdims=1),
        helper.make_node("Add", ["total", "by"], ["score"]),
    ]
    return network(nodes, [("features", FLOAT, [None, width])], [("score", FLOAT, [None, 1])], constants)


def hanging(above: float, width: int = 2) -> bytes:
    """The sum of the columns of one input; a loop that never ends where that is above a number."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["going"], ["goes_on"]), helper.make_node("Identity", ["value"], ["valued"])],
        "body",
        [
            helper.make_tensor_value_info("turn", INT64, []),
            helper.make_tensor_value_info("going", BOOL, []),
            helper.make_tensor_value_info("value", FLOAT, [None, 1]),
        ],
        [
            helper.make_tensor_value_info("goes_on", BOOL, []),
            helper.make_tensor_value_info("valued", FLOAT, [None, 1]),
        ],
    )
    nodes = [
        helper.make_node("ReduceSum", ["features", "axes"], ["total"], keepdims=1),
        helper.make_node("ReduceMax", ["total"], ["most"], keepdims=0),
        helper.make_node("Greater", ["most", "above"], ["hangs"]),
        helper.make_node("Loop", ["", "hangs", "total"], ["score"], body=body),
    ]
    constants = [helper.make_tensor("axes", INT64, [1], [1]), helper.make_tensor("above", FLOAT, [], [above])]
    return network(nodes, [("features", FLOAT, [None, width])], [("score", FLOAT, [None, 1])], constants)


def named(**inputs: int) -> bytes:
    """The sum of inputs of one column each, whatever their types; texts count as nothing."""
    return shaped({name: (kind, [None, 1]) for name, kind in inputs.items()})


def shaped(inputs: dict[str, tuple[int, Sequence[Any]]]) -> bytes:
    nodes, floats = [], []
    for name, (kind, _) in inputs.items():
        if kind == STRING:
            continue
        nodes.append(helper.make_node("Cast", [name], [f"{name}_float"], to=FLOAT))
        floats.append(f"{name}_float")
    nodes.append(helper.make_node("Sum", floats, ["score"]))
    shape = next(shape for kind, shape in inputs.values() if kind != STRING)
    return network(nodes, [(name, *one) for name, one in inputs.items()], [("score", FLOAT, shape)])


def with_metadata(content: bytes, **values: str) -> bytes:
    made = onnx.load_model_from_string(content)
    helper.set_model_props(made, values)
    changed: bytes = made.SerializeToString()
    return changed


def weighing(width: int, weight: float = 1.0) -> bytes:
    """The sum of the columns of one input, so many times; null counts as nothing."""
    constants = [
        helper.make_tensor("axes", INT64, [1], [1]),
        helper.make_tensor("nothing", FLOAT, [1], [0.0]),
        helper.make_tensor("weight", FLOAT, [1], [weight]),
    ]
    nodes = [
        helper.make_node("IsNaN", ["features"], ["missing"]),
        helper.make_node("Where", ["missing", "nothing", "features"], ["there"]),
        helper.make_node("ReduceSum", ["there", "axes"], ["sum"], keepdims=1),
        helper.make_node("Mul", ["sum", "weight"], ["score"]),
    ]
    return network(nodes, [("features", FLOAT, [None, width])], [("score", FLOAT, [None, 1])], constants)
