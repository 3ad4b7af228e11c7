"""An aggregate function: what it takes and gives, and how every path computes it from what its partial keeps.

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
# A hundred times the precision of a double, of the sum of absolute values: how far sums in two orders may lie apart.
ROUNDING_SHARE = 1e-14


class AggregateFunction(AggregateRules):
    """One aggregate function; the class that is registered under its name."""

    is_additive: ClassVar[bool] = False  # each event adds its own share, so it can be said what late ones would add

    @abstractmethod
    def partial(self, kind: Kind | None) -> Partial:
        """What tiles keep of a column of a kind."""

    def size(self, aggregate: Aggregate) -> int:
        """The size of its partial: of a sketch by its error, or a half-life."""
        return 0

    @abstractmethod
    def make_finisher(self, aggregate: Aggregate, columns: SlotColumns) -> Finisher:
        """The last step online, from a window's merged columns to the value; timestamps in µs."""

    def finish_history(self, aggregate: Aggregate, merged: MergedColumns) -> ValueColumn:
        """The last step of training sets: the values of many windows from their merged columns."""
        raise NotImplementedError(f"{self.name} is computed from the very events of a window")

    def compute_history(self, aggregate: Aggregate, window_events: WindowEvents) -> ValueColumn | MapColumn:
        """The same where it takes every event of a window."""
        raise NotImplementedError(f"{self.name} is finished from merged columns")

    def create_accumulator(self, aggregate: Aggregate) -> Accumulator:
        """What a windowed stream keeps before anything came."""
        raise NotImplementedError(f"{self.name} is no column of a windowed stream")

    def rounding_tolerance(self, magnitudes: Data) -> float:
        """How far two computations of it over doubles of these sizes may lie apart, in different orders."""
        return ROUNDING_SHARE * float(magnitudes.sum())

    def by_definition(self, values: Sequence[Any]) -> Any:
        """The value of some values in the order of their events, in plain Python: what tests hold each path to."""
        raise NotImplementedError(f"the oracle of tests/oracle/brute.py says what {self.name} is")


def aggregate_function(name: str) -> AggregateFunction:
    """The aggregate function of a name."""
    return cast("AggregateFunction", aggregate_rules(name))


def aggregate_functions() -> list[AggregateFunction]:
    """Every aggregate function, in the order of the docs."""
    return [cast("AggregateFunction", rules) for rules in registered_aggregates().values()]


def to_slot(aggregate: Aggregate) -> AggregateSlot:
    """The partial aggregate from which an aggregate is finished."""
    function = aggregate_function(aggregate.function)
    partial = function.partial(aggregate.kind)
    return AggregateSlot(partial, aggregate.column, aggregate.kind, aggregate.where, function.size(aggregate))
