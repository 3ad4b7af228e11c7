"""Which columns go to which input of a model, or the reason they cannot.

one input a column      "payments_1h" [rows, 1] …      bound by name; the model says which it takes
one input for all       "features" [rows, 12]          the columns in the order of the vector, or as it was trained
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import onnxruntime

from headrace.declare.model import Model
from headrace.declare.schema import Column, Kind
from headrace.errors import HeadraceError
from headrace.score.network import trained_inputs

COUNTS = frozenset({Kind.INTEGER, Kind.BOOLEAN})
NUMBERS = COUNTS | {Kind.DOUBLE}
PROBABILITIES = "probabilities"


class Tensor(NamedTuple):
    """What a type of tensor holds in numpy, what null is in it, and the kinds that go into it."""

    dtype: Any
    null: Any
    takes: frozenset[Kind]

    @property
    def is_float(self) -> bool:
        return Kind.DOUBLE in self.takes


TENSORS = {
    "tensor(float)": Tensor(np.float32, np.nan, NUMBERS),
    "tensor(double)": Tensor(np.float64, np.nan, NUMBERS),
    "tensor(int64)": Tensor(np.int64, 0, COUNTS),
    "tensor(bool)": Tensor(np.bool_, False, frozenset({Kind.BOOLEAN})),
    "tensor(string)": Tensor(object, "", frozenset({Kind.STRING})),
}
WITHOUT_MAPS = "Export it without ZipMap (zipmap=False)."
ONE_SCORE = (
    "Keep one output of floats, [None, 1] for a score or [None, 2] for two classes, "
    f"or name the one that counts {PROBABILITIES!r}."
)
SCORES = {"tensor(float)", "tensor(double)"}


class UnfitModel(HeadraceError):
    """A model that does not take what its declaration gives it, or does not give a score."""


@dataclass(frozen=True)
class Feed:
    """One input of a model: its tensor, its shape, and the places of its columns in a vector."""

    name: str
    tensor: Tensor
    is_flat: bool
    places: tuple[int, ...]


@dataclass(frozen=True)
class Bound:
    """The columns a model reads, the inputs they go to, and the output that is its score."""

    columns: tuple[Column, ...]
    feeds: tuple[Feed, ...]
    output: str


def bind(model: Model, network: onnxruntime.InferenceSession, where: str) -> Bound:
    """Bind the columns of a model to the inputs of its file."""
    inputs = network.get_inputs()
    if not inputs:
        raise UnfitModel(f"{where} has no inputs. Export a model that reads {', '.join(model.vector.names)}.")
    for one in inputs:
        _require_rows(one, where)
    output = _score_of(network.get_outputs(), where)
    if len(inputs) == 1 and _is_for_all(inputs[0], model):
        return _for_all(model, inputs[0], trained_inputs(network, where), output, where)
    return _by_name(model, inputs, output, where)


def _require_rows(one: Any, where: str) -> None:
    if one.type not in TENSORS:
        raise UnfitModel(
            f"{where}: its input {one.name!r} is {one.type}. A model takes {', '.join(TENSORS)}: export it so."
        )
    if len(one.shape) not in {1, 2}:
        raise UnfitModel(
            f"{where}: its input {one.name!r} has the shape {one.shape}. "
            "A model takes rows of columns: export it with the shape [None, columns]."
        )
    if isinstance(one.shape[0], int):
        raise UnfitModel(
            f"{where}: its input {one.name!r} takes exactly {one.shape[0]} rows. "
            f"Export it with a free first dimension: {[None, *one.shape[1:]]}."
        )


def _is_for_all(one: Any, model: Model) -> bool:
    return len(one.shape) == 2 and (one.shape[1] != 1 or one.name not in model.known)


def _for_all(model: Model, one: Any, trained: Sequence[str] | None, output: str, where: str) -> Bound:
    columns = model.vector.columns if trained is None else tuple(_known(name, model, where) for name in trained)
    width = one.shape[1]
    if isinstance(width, int) and width != len(columns):
        raise UnfitModel(
            f"{where}: its input {one.name!r} takes {width} columns, and the vector has {len(columns)}: "
            f"{', '.join(column.name for column in columns)}. Name those it takes, in order, with inputs=[…]."
        )
    for column in columns:
        _require_kind(one, column, where)
    return Bound(columns, (Feed(one.name, TENSORS[one.type], False, tuple(range(len(columns)))),), output)


def _by_name(model: Model, inputs: Sequence[Any], output: str, where: str) -> Bound:
    columns = tuple(_known(one.name, model, where) for one in inputs)
    for one, column in zip(inputs, columns, strict=True):
        if len(one.shape) == 2 and isinstance(one.shape[1], int) and one.shape[1] != 1:
            raise UnfitModel(
                f"{where}: its input {one.name!r} is {one.shape[1]} wide, and a column is one value. "
                "Export it with the shape [None, 1]."
            )
        _require_kind(one, column, where)
    asked = {one.name for one in inputs}
    for name in model.inputs or ():
        if name not in asked:
            raise UnfitModel(
                f"{where} has no input {name!r}, which inputs= names. It takes {', '.join(sorted(asked))}: "
                "leave the name out, or export a model that reads it."
            )
    feeds = [Feed(one.name, TENSORS[one.type], len(one.shape) == 1, (place,)) for place, one in enumerate(inputs)]
    return Bound(columns, tuple(feeds), output)


def _known(name: str, model: Model, where: str) -> Column:
    if name not in model.vector:
        raise UnfitModel(
            f"{where} asks for {name!r}, and the model reads {', '.join(model.vector.names)}. "
            "Name the input as one of them, or declare what it needs in features=, fields= or inputs=."
        )
    return model.vector.column(name, where)


def _require_kind(one: Any, column: Column, where: str) -> None:
    takes = TENSORS[one.type].takes
    if column.kind not in takes:
        fitting = " or ".join(name for name, tensor in TENSORS.items() if column.kind in tensor.takes)
        raise UnfitModel(
            f"{where}: its input {one.name!r} is {one.type}, and {column.name!r} is {column.kind.value}. "
            f"Give it an input of {fitting}, or leave it out with inputs=[…]."
        )


def _score_of(outputs: Sequence[Any], where: str) -> str:
    usable = [one for one in outputs if one.type in SCORES and _is_one_number(one.shape)]
    named = [one for one in usable if one.name == PROBABILITIES]
    if len(usable) == 1 or named:
        return str((named or usable)[0].name)
    given = ", ".join(f"{one.name!r} {one.type} {one.shape}" for one in outputs)
    has_maps = any(one.type.startswith("seq(map") for one in outputs)
    raise UnfitModel(f"{where} gives {given}: which of it is the score? {WITHOUT_MAPS if has_maps else ONE_SCORE}")


def _is_one_number(shape: Sequence[Any]) -> bool:
    return len(shape) == 1 or (len(shape) == 2 and (not isinstance(shape[1], int) or shape[1] in {1, 2}))
