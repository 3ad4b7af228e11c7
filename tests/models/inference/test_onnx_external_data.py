"""A model with tensors in other files is rejected, wherever they are referenced, before any file is opened."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, external_data_helper, helper

from headrace.models.inference.onnx_external_data import InvalidProtobufError, find_external_tensor
from headrace.models.inference.onnx_model import ExternalDataRefused, ModelLoadFailed, load_inference_session
from tests.models.networks import FLOAT, INT64, hanging, offset, summing, weighing, with_metadata

PATHS = ["weights.bin", "../../etc/passwd", "/etc/passwd", "/proc/self/environ", "a/../../b", ""]


def external(path: str = "weights.bin", name: str = "outside") -> TensorProto:
    tensor = TensorProto(name=name, data_type=FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=path)
    return tensor


def model_of(graph: onnx.GraphProto) -> onnx.ModelProto:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def graph_of(*nodes: onnx.NodeProto, initializers: list[TensorProto] | None = None) -> onnx.GraphProto:
    shape = [helper.make_tensor_value_info("features", FLOAT, [None, 1])]
    score = [helper.make_tensor_value_info("score", FLOAT, [None, 1])]
    named = [helper.make_node("Identity", ["features"], ["score"]), *nodes]
    return helper.make_graph(named, "g", shape, score, initializers or [])


def constant() -> onnx.NodeProto:
    return helper.make_node("Constant", [], ["unused"], value=external())


def sparse() -> onnx.SparseTensorProto:
    indices = helper.make_tensor("indices", INT64, [1], [0])
    return helper.make_sparse_tensor(external(), indices, [1])


def in_initializer() -> onnx.ModelProto:
    return model_of(graph_of(initializers=[external()]))


def in_attribute() -> onnx.ModelProto:
    return model_of(graph_of(constant()))


def in_list_of_tensors() -> onnx.ModelProto:
    node = helper.make_node("Identity", ["features"], ["unused"])
    node.attribute.append(helper.make_attribute("tensors", [external()]))
    return model_of(graph_of(node))


def in_subgraph() -> onnx.ModelProto:
    inner = graph_of(helper.make_node("If", ["c"], ["x"], then_branch=graph_of(constant()), else_branch=graph_of()))
    return model_of(graph_of(helper.make_node("If", ["c"], ["y"], then_branch=graph_of(), else_branch=inner)))


def in_list_of_subgraphs() -> onnx.ModelProto:
    node = helper.make_node("Identity", ["features"], ["unused"])
    node.attribute.append(helper.make_attribute("graphs", [graph_of(), graph_of(constant())]))
    return model_of(graph_of(node))


def in_sparse_initializer() -> onnx.ModelProto:
    made = model_of(graph_of())
    made.graph.sparse_initializer.append(sparse())
    return made


def in_sparse_attribute() -> onnx.ModelProto:
    return model_of(graph_of(helper.make_node("Constant", [], ["unused"], sparse_value=sparse())))


def in_function() -> onnx.ModelProto:
    made = model_of(graph_of())
    opset = [helper.make_opsetid("", 17)]
    made.functions.append(helper.make_function("own", "f", ["a"], ["unused"], [constant()], opset))
    return made


def in_default_of_function() -> onnx.ModelProto:
    made = in_function()
    del made.functions[0].node[:]
    made.functions[0].attribute_proto.append(helper.make_attribute("weights", external()))
    return made


def in_training() -> onnx.ModelProto:
    made = model_of(graph_of())
    made.training_info.add().initialization.CopyFrom(graph_of(constant()))
    return made


def without_location() -> onnx.ModelProto:
    made = in_initializer()
    made.graph.initializer[0].ClearField("data_location")
    return made


def in_second_graph_field() -> bytes:
    """Protocol Buffers merge a message that is there twice."""
    return model_of(graph_of()).SerializeToString() + in_initializer().SerializeToString()


PLACES: list[Callable[[], onnx.ModelProto | bytes]] = [
    in_initializer, in_attribute, in_list_of_tensors, in_subgraph, in_list_of_subgraphs, in_sparse_initializer,
    in_sparse_attribute, in_function, in_default_of_function, in_training, without_location, in_second_graph_field,
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_a_tensor_of_another_file_is_refused_wherever_it_is(place: Callable[[], onnx.ModelProto | bytes]) -> None:
    made = place()
    content = made if isinstance(made, bytes) else made.SerializeToString()
    with pytest.raises(ExternalDataRefused, match="Model 'fraud' keeps its tensor 'outside' in another file"):
        load_inference_session(content, "Model 'fraud'")


@pytest.mark.parametrize("path", PATHS)
def test_whichever_file_it_names_it_is_not_opened(path: str) -> None:
    content = model_of(graph_of(initializers=[external(path)])).SerializeToString()
    with pytest.raises(ExternalDataRefused) as refused:
        load_inference_session(content, "Model 'fraud'")
    assert "passwd" not in str(refused.value)


def test_a_model_that_onnx_saved_with_its_data_beside_it_is_refused(tmp_path: Path) -> None:
    made = onnx.load_model_from_string(weighing(2))
    weights = made.graph.initializer.add()
    weights.CopyFrom(helper.make_tensor("large", FLOAT, [4096], [0.5] * 4096))
    weights.ClearField("float_data")
    weights.raw_data = b"\0" * 4 * 4096
    external_data_helper.convert_model_to_external_data(made, location="large.bin")
    onnx.save_model(made, str(tmp_path / "m.onnx"))
    assert (tmp_path / "large.bin").exists()
    with pytest.raises(ExternalDataRefused, match="'large'"):
        load_inference_session((tmp_path / "m.onnx").read_bytes(), "Model 'fraud'")


@pytest.mark.parametrize(
    "content", [summing(2), offset(1.0), hanging(5.0), weighing(3), with_metadata(summing(1), a="b")]
)
def test_a_model_in_one_file_is_loaded(content: bytes) -> None:
    assert find_external_tensor(content) is None
    load_inference_session(content, "Model 'fraud'")


@pytest.mark.parametrize("content", [b"\xff", b"\x3a\xff\x01", b"\x0b", b"12345678ORTM", weighing(2)[:-3]])
def test_bytes_that_are_no_model_are_refused_with_a_sentence(content: bytes) -> None:
    with pytest.raises(ModelLoadFailed, match=r"Model 'fraud' .*\.$"):
        load_inference_session(content, "Model 'fraud'")


@given(st.binary(max_size=200))
def test_no_bytes_break_the_search(content: bytes) -> None:
    with suppress(InvalidProtobufError):
        assert find_external_tensor(content) is None or b"j" in content or b"p" in content


def test_a_graph_in_a_graph_in_a_graph_is_looked_through() -> None:
    graph = graph_of(constant())
    for _ in range(20):
        graph = graph_of(helper.make_node("If", ["c"], ["y"], then_branch=graph, else_branch=graph_of()))
    assert find_external_tensor(model_of(graph).SerializeToString()) == "outside"
