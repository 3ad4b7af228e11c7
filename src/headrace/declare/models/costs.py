"""Costs: what each kind of right or wrong prediction costs the user."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from headrace.errors import DeclarationError

_EXAMPLE = 'Write costs={"false_positive": 1, "false_negative": 20}.'


@dataclass(frozen=True)
class Costs:
    """The cost of a prediction by predicted and true class; a gain is below zero."""

    true_positive: float = 0.0
    false_positive: float = 0.0
    true_negative: float = 0.0
    false_negative: float = 0.0


def parse_costs(costs: object, where: str) -> Costs | None:
    """Parse the costs a user wrote as a dict; None for none."""
    if costs is None:
        return None
    if not isinstance(costs, Mapping) or not costs:
        raise DeclarationError(f"{where}: costs={costs!r}. {_EXAMPLE}")
    known_names = [field.name for field in fields(Costs)]
    for name, cost in costs.items():
        if name not in known_names:
            raise DeclarationError(
                f"{where}: costs= has {name!r}, which is none of {', '.join(known_names)}. {_EXAMPLE}"
            )
        if type(cost) not in {int, float} or not math.isfinite(cost):
            raise DeclarationError(f"{where}: costs[{name!r}] is {cost!r}. Write a number; a gain is below zero.")
    return Costs(**{name: float(cost) for name, cost in costs.items()})
