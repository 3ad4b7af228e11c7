"""Costs: what each way of being right or wrong is worth to the user."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from headrace.errors import DeclarationError

_WRITE = 'Write costs={"false_positive": 1, "false_negative": 20}.'


@dataclass(frozen=True)
class Costs:
    """The cost of one prediction by what it said and what was true; a gain is below zero."""

    true_positive: float = 0.0
    false_positive: float = 0.0
    true_negative: float = 0.0
    false_negative: float = 0.0


def costs_of(written: object, where: str) -> Costs | None:
    """The costs a user wrote as a dict, None for none."""
    if written is None:
        return None
    if not isinstance(written, Mapping) or not written:
        raise DeclarationError(f"{where}: costs={written!r}. {_WRITE}")
    known = [field.name for field in fields(Costs)]
    for name, cost in written.items():
        if name not in known:
            raise DeclarationError(f"{where}: costs= has {name!r}, which is none of {', '.join(known)}. {_WRITE}")
        if type(cost) not in {int, float} or not math.isfinite(cost):
            raise DeclarationError(f"{where}: costs[{name!r}] is {cost!r}. Write a number; a gain is below zero.")
    return Costs(**{name: float(cost) for name, cost in written.items()})
