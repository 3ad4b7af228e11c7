"""An aggregate function: its types, and how every path computes it from the state in its partial.

features online, training in tiles    Partial.fold or .spark_columns ──merge──▶ make_finisher
training sets of whole columns        Partial.fold_history ──reductions──▶ finish_history, or compute_history
windowed streams                      create_accumulator
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, cast

from headrace.aggregates.accumulator import Accumulator
from headrace.aggregates.partial import AggregateSlot, Finisher, Partial, SlotColumns
from headrace.aggregates.value_columns import Data, MapColumn, ValueColumn
from headrace.aggregates.window_events import WindowEvents
from headrace.declare.features.aggregate_rules import AggregateRules, aggregate_rules, registered_aggregates
from headrace.declare.features.aggregates import Aggregate
from headrace.declare.streams.schema import Kind

MergedColumns = dict[str, Data]
# The tolerance between sums in two orders, relative to the sum of absolute values: a hundred times a double's epsilon.
ROUNDING_SHARE = 1e-14


class AggregateFunction(AggregateRules):
    """One aggregate function; the class that is registered under its name."""

    is_additive: ClassVar[bool] = False  # each event adds its own share, so the effect of late events can be estimated

    @abstractmethod
    def partial(self, kind: Kind | None) -> Partial:
        """The partial that tiles store for a column of a kind."""

    def size(self, aggregate: Aggregate) -> int:
        """The size of its partial: of a sketch by its error, or a half-life."""
        return 0

    @abstractmethod
    def make_finisher(self, aggregate: Aggregate, columns: SlotColumns) -> Finisher:
        """The last step online, from a window's merged columns to the value; timestamps in µs."""

    def finish_history(self, aggregate: Aggregate, merged: MergedColumns) -> ValueColumn:
        """The last step in training sets: the values of many windows from their merged columns."""
        raise NotImplementedError(f"{self.name} is computed from the single events of a window")

    def compute_history(self, aggregate: Aggregate, window_events: WindowEvents) -> ValueColumn | MapColumn:
        """The values of many windows, for functions that need every event of a window."""
        raise NotImplementedError(f"{self.name} is finished from merged columns")

    def create_accumulator(self, aggregate: Aggregate) -> Accumulator:
        """The initial state in a windowed stream."""
        raise NotImplementedError(f"{self.name} cannot be a column of a windowed stream")

    def rounding_tolerance(self, magnitudes: Data) -> float:
        """The tolerance between two computations over doubles of these sizes in different orders."""
        return ROUNDING_SHARE * float(magnitudes.sum())

    def by_definition(self, values: Sequence[Any]) -> Any:
        """The result for values in the order of their events, in plain Python: the reference in tests of each path."""
        raise NotImplementedError(f"tests/oracle/brute.py defines {self.name}")


def aggregate_function(name: str) -> AggregateFunction:
    """The aggregate function of a name."""
    return cast("AggregateFunction", aggregate_rules(name))


def aggregate_functions() -> list[AggregateFunction]:
    """Every aggregate function, in the order of the docs."""
    return [cast("AggregateFunction", rules) for rules in registered_aggregates().values()]


def to_slot(aggregate: Aggregate) -> AggregateSlot:
    """The partial aggregate that an aggregate is computed from."""
    function = aggregate_function(aggregate.function)
    partial = function.partial(aggregate.kind)
    return AggregateSlot(partial, aggregate.column, aggregate.kind, aggregate.where, function.size(aggregate))
