"""The declared half of an aggregate function: the columns and options it takes, and its result type.

The same class computes it, in `headrace.aggregates`: one file per function, which registers itself here.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from headrace.declare.expressions import NUMBER_KINDS
from headrace.declare.streams.schema import Kind
from headrace.errors import DeclarationError

if TYPE_CHECKING:
    from headrace.declare.features.aggregates import AggregateDeclaration

ANY_KINDS = frozenset(Kind)
ORDERED_KINDS = frozenset({*NUMBER_KINDS, Kind.STRING, Kind.TIMESTAMP})
COUNTABLE_KINDS = frozenset({Kind.STRING, Kind.INTEGER, Kind.BOOLEAN, Kind.TIMESTAMP})
CATEGORY_KINDS = COUNTABLE_KINDS - {Kind.TIMESTAMP}


class Shape(Enum):
    """Whether a feature is one value, a list of values, or a map of values to counts."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"


@dataclass(frozen=True)
class ResultType:
    """The type of an aggregate's result, from which its type in Spark, Arrow, SQL and OpenAPI is derived."""

    kind: Kind
    shape: Shape = Shape.VALUE
    is_nullable: bool = True
    is_column_value: bool = False  # one of the column's own values, so of the column's type
    is_unbounded: bool = False  # a whole number that may exceed 64 bits


COUNT_TYPE = ResultType(Kind.INTEGER, is_nullable=False)
NUMBER_TYPE = ResultType(Kind.DOUBLE)


class AggregateRules(ABC):
    """The declaring half of an aggregate function; `headrace.aggregates` adds the computing half to the same class."""

    name: ClassVar[str]
    accepted_kinds: ClassVar[frozenset[Kind]] = frozenset(NUMBER_KINDS)
    # Its row in the docs: how it is written, what it takes where its kinds do not say it, what it gives, of nothing.
    usage: ClassVar[str]
    takes: ClassVar[str] = "numbers"
    gives: ClassVar[str]
    of_nothing: ClassVar[str] = "null"
    why_not_windowed: ClassVar[str | None] = None  # why a windowed stream cannot have it as a column

    @abstractmethod
    def result_type(self, kind: Kind | None) -> ResultType:
        """The type of its result over a column of a kind."""

    def default_value(self) -> Any:
        """Its result where there is no event."""
        return None

    def require_options(self, declaration: "AggregateDeclaration", where: str) -> None:  # noqa: B027 - most have none
        """Raise DeclarationError if an option is invalid for this function."""

    @property
    def call_name(self) -> str:
        """As users call it."""
        return self.usage.partition("(")[0]

    def describe(self) -> str:
        """Its name in errors, before a column: `sum of 'amount'`."""
        return f"{self.name} of"


_FUNCTIONS: dict[str, AggregateRules] = {}
Function = TypeVar("Function", bound=AggregateRules)


def register_aggregate(function: type[Function]) -> type[Function]:
    """Register an aggregate function by its name, so that it is declared, computed, documented and tested."""
    if function.name in _FUNCTIONS:
        raise AssertionError(f"two aggregate functions are named {function.name!r}")
    _FUNCTIONS[function.name] = function()
    return function


def aggregate_rules(name: str) -> AggregateRules:
    """The aggregate function of a name."""
    return _FUNCTIONS[name]


def registered_aggregates() -> Mapping[str, AggregateRules]:
    """Every aggregate function by its name, in the order of the docs."""
    return MappingProxyType(_FUNCTIONS)


def require_sketch_error(error: object, where: str) -> None:
    """Raise DeclarationError if the stated error is out of a sketch's range."""
    if not isinstance(error, float) or not 0.001 <= error <= 0.25:
        raise DeclarationError(f"{where}: error={error!r}. Write a relative error from 0.001 to 0.25.")
