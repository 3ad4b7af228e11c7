"""An aggregate as declared, and as bound to a stream's columns."""

from dataclasses import dataclass

from headrace.declare.expressions import Expression
from headrace.declare.features.aggregate_rules import ResultType, Shape, aggregate_rules
from headrace.declare.features.operands import Operand, OutputLeaf
from headrace.declare.features.windows import WindowLengths
from headrace.declare.streams.schema import Kind


@dataclass(frozen=True)
class AggregateDeclaration:
    """An aggregate as written; a view binds it to its stream."""

    function: str
    column: str | None
    where: str | None
    windows: WindowLengths
    hop: str | None
    error: float | None = None
    share: float | None = None
    halflife: str | None = None
    k: int | None = None

    def __getitem__(self, window: str) -> Operand:
        """Its value over one of its windows, as an operand."""
        return Operand(OutputLeaf(self, window))

    __iter__ = None  # otherwise `list(…)` would ask for the windows 0, 1, 2, … without end


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of a stream's column over the events that meet a condition."""

    function: str
    column: str | None
    kind: Kind | None
    where: Expression | None
    error: float | None
    share: float | None = None
    halflife_us: int | None = None
    k: int | None = None

    @property
    def text(self) -> str:
        """The aggregate as text."""
        where = "" if self.where is None else f" where {self.where}"
        return f"{self.function}({self.column or ''}){where}"

    @property
    def result_type(self) -> ResultType:
        """The type of its result."""
        return aggregate_rules(self.function).result_type(self.kind)

    @property
    def is_list_valued(self) -> bool:
        return self.result_type.shape is Shape.LIST

    @property
    def is_map_valued(self) -> bool:
        return self.result_type.shape is Shape.MAP
