"""Binds the columns of a vector to the inputs of a model, or explains why that is impossible.

one input a column      "payments_1h" [rows, 1] …      bound by the input's name
one input for all       "features" [rows, 12]          the columns in the order of the vector, or of the training
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import onnxruntime

from headrace.declare.models.model import Model
from headrace.declare.streams.schema import Column, Kind
from headrace.errors import HeadraceError
from headrace.models.inference.onnx_model import trained_input_names

INTEGER_KINDS = frozenset({Kind.INTEGER, Kind.BOOLEAN})
NUMERIC_KINDS = INTEGER_KINDS | {Kind.DOUBLE}
PROBABILITIES_OUTPUT = "probabilities"


class TensorType(NamedTuple):
    """A tensor type: its numpy type, its value for null, and the column kinds that fit it."""

    dtype: Any
    null_value: Any
    accepted_kinds: frozenset[Kind]

    @property
    def is_float(self) -> bool:
        return Kind.DOUBLE in self.accepted_kinds


TENSOR_TYPES = {
    "tensor(float)": TensorType(np.float32, np.nan, NUMERIC_KINDS),
    "tensor(double)": TensorType(np.float64, np.nan, NUMERIC_KINDS),
    "tensor(int64)": TensorType(np.int64, 0, INTEGER_KINDS),
    "tensor(bool)": TensorType(np.bool_, False, frozenset({Kind.BOOLEAN})),
    "tensor(string)": TensorType(object, "", frozenset({Kind.STRING})),
}
ZIPMAP_ADVICE = "Export it without ZipMap (zipmap=False)."
SCORE_OUTPUT_ADVICE = (
    "Keep one output of floats, [None, 1] for a score or [None, 2] for two classes, "
    f"or name the one that counts {PROBABILITIES_OUTPUT!r}."
)
SCORE_TENSOR_TYPES = {"tensor(float)", "tensor(double)"}


class IncompatibleModelError(HeadraceError):
    """A model whose inputs do not match its declaration, or that does not return a score."""


@dataclass(frozen=True)
class ModelInput:
    """One input of a model: its tensor type, its shape, and the indexes of its columns in a vector."""

    name: str
    tensor_type: TensorType
    is_flat: bool
    column_indexes: tuple[int, ...]


@dataclass(frozen=True)
class ModelBinding:
    """The columns a model reads, the inputs they go to, and the output with its score."""

    columns: tuple[Column, ...]
    inputs: tuple[ModelInput, ...]
    output: str


def bind_model(model: Model, session: onnxruntime.InferenceSession, where: str) -> ModelBinding:
    """Bind the columns of a model to the inputs of its file."""
    inputs = session.get_inputs()
    if not inputs:
        raise IncompatibleModelError(
            f"{where} has no inputs. Export a model that reads {', '.join(model.vector.names)}."
        )
    for input_node in inputs:
        _require_row_input(input_node, where)
    output = _score_output(session.get_outputs(), where)
    if len(inputs) == 1 and _is_vector_input(inputs[0], model):
        return _bind_vector_input(model, inputs[0], trained_input_names(session, where), output, where)
    return _bind_inputs_by_name(model, inputs, output, where)


def _require_row_input(input_node: Any, where: str) -> None:
    if input_node.type not in TENSOR_TYPES:
        raise IncompatibleModelError(
            f"{where}: its input {input_node.name!r} is {input_node.type}. A model takes {', '.join(TENSOR_TYPES)}: "
            f"export it so."
        )
    if len(input_node.shape) not in {1, 2}:
        raise IncompatibleModelError(
            f"{where}: its input {input_node.name!r} has the shape {input_node.shape}. "
            "A model takes rows of columns: export it with the shape [None, columns]."
        )
    if isinstance(input_node.shape[0], int):
        raise IncompatibleModelError(
            f"{where}: its input {input_node.name!r} takes exactly {input_node.shape[0]} rows. "
            f"Export it with a free first dimension: {[None, *input_node.shape[1:]]}."
        )


def _is_vector_input(input_node: Any, model: Model) -> bool:
    return len(input_node.shape) == 2 and (input_node.shape[1] != 1 or input_node.name not in model.known)


def _bind_vector_input(
    model: Model, input_node: Any, trained_names: Sequence[str] | None, output: str, where: str
) -> ModelBinding:
    columns = (
        model.vector.columns
        if trained_names is None
        else tuple(_require_column(name, model, where) for name in trained_names)
    )
    width = input_node.shape[1]
    if isinstance(width, int) and width != len(columns):
        raise IncompatibleModelError(
            f"{where}: its input {input_node.name!r} takes {width} columns, and the vector has {len(columns)}: "
            f"{', '.join(column.name for column in columns)}. Name those it takes, in order, with inputs=[…]."
        )
    for column in columns:
        _require_kind(input_node, column, where)
    return ModelBinding(
        columns,
        (ModelInput(input_node.name, TENSOR_TYPES[input_node.type], False, tuple(range(len(columns)))),),
        output,
    )


def _bind_inputs_by_name(model: Model, inputs: Sequence[Any], output: str, where: str) -> ModelBinding:
    columns = tuple(_require_column(input_node.name, model, where) for input_node in inputs)
    for one, column in zip(inputs, columns, strict=True):
        if len(one.shape) == 2 and isinstance(one.shape[1], int) and one.shape[1] != 1:
            raise IncompatibleModelError(
                f"{where}: its input {one.name!r} is {one.shape[1]} wide, and a column is one value. "
                "Export it with the shape [None, 1]."
            )
        _require_kind(one, column, where)
    input_names = {one.name for one in inputs}
    for name in model.inputs or ():
        if name not in input_names:
            raise IncompatibleModelError(
                f"{where} has no input {name!r}, which inputs= names. It takes {', '.join(sorted(input_names))}: "
                "leave the name out, or export a model that reads it."
            )
    model_inputs = [
        ModelInput(one.name, TENSOR_TYPES[one.type], len(one.shape) == 1, (index,)) for index, one in enumerate(inputs)
    ]
    return ModelBinding(columns, tuple(model_inputs), output)


def _require_column(name: str, model: Model, where: str) -> Column:
    if name not in model.vector:
        raise IncompatibleModelError(
            f"{where} asks for {name!r}, and the model reads {', '.join(model.vector.names)}. "
            "Name the input as one of them, or declare what it needs in features=, fields= or inputs=."
        )
    return model.vector.column(name, where)


def _require_kind(input_node: Any, column: Column, where: str) -> None:
    accepted_kinds = TENSOR_TYPES[input_node.type].accepted_kinds
    if column.kind not in accepted_kinds:
        accepting_types = " or ".join(
            name for name, tensor_type in TENSOR_TYPES.items() if column.kind in tensor_type.accepted_kinds
        )
        raise IncompatibleModelError(
            f"{where}: its input {input_node.name!r} is {input_node.type}, and {column.name!r} is {column.kind.value}. "
            f"Give it an input of {accepting_types}, or leave it out with inputs=[…]."
        )


def _score_output(outputs: Sequence[Any], where: str) -> str:
    usable_outputs = [
        output_node
        for output_node in outputs
        if output_node.type in SCORE_TENSOR_TYPES and _is_score_shape(output_node.shape)
    ]
    probability_outputs = [one for one in usable_outputs if one.name == PROBABILITIES_OUTPUT]
    if len(usable_outputs) == 1 or probability_outputs:
        return str((probability_outputs or usable_outputs)[0].name)
    output_texts = ", ".join(f"{one.name!r} {one.type} {one.shape}" for one in outputs)
    has_maps = any(one.type.startswith("seq(map") for one in outputs)
    raise IncompatibleModelError(
        f"{where} gives {output_texts}: which of it is the score? {ZIPMAP_ADVICE if has_maps else SCORE_OUTPUT_ADVICE}"
    )


def _is_score_shape(shape: Sequence[Any]) -> bool:
    return len(shape) == 1 or (len(shape) == 2 and (not isinstance(shape[1], int) or shape[1] in {1, 2}))
