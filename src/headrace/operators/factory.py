"""Creates the operator of an operation from its declaration."""

from functools import singledispatch
from typing import Any

from headrace.declare.features.retractable_views import RetractableView
from headrace.declare.operations.derived_stream import StreamOperation
from headrace.declare.operations.join import AsofJoin, Join
from headrace.declare.operations.pattern_sequence import Sequence
from headrace.declare.operations.windowed_stream import Windowing
from headrace.operators.deduplication import DeduplicatingOperator, id_retentions_us
from headrace.operators.joins.asof_join import AsofJoinOperator
from headrace.operators.joins.interval_join import IntervalJoinOperator
from headrace.operators.operator import Operator
from headrace.operators.patterns.pattern_operator import PatternOperator
from headrace.operators.retracting_fold import RetractingFoldOperator
from headrace.operators.windows.window_operator import WindowOperator


def create_operator(operation: StreamOperation) -> Operator[Any]:
    """The operator of an operation, deduplicated by id unless it recognizes repeats by offset."""
    operator = create_inner_operator(operation.spec, operation)
    return (
        operator
        if isinstance(operator, RetractingFoldOperator)
        else DeduplicatingOperator(operator, id_retentions_us(operation.inputs))
    )


@singledispatch
def create_inner_operator(spec: Any, operation: StreamOperation) -> Operator[Any]:
    """The operator of a declaration; each kind of declaration is registered below."""
    raise TypeError(f"{operation.name}: no operator implements {type(spec).__name__}")


@create_inner_operator.register
def _create_window_operator(spec: Windowing, _operation: StreamOperation) -> WindowOperator:
    return WindowOperator(spec)


@create_inner_operator.register
def _create_interval_join(spec: Join, _operation: StreamOperation) -> IntervalJoinOperator:
    return IntervalJoinOperator(spec)


@create_inner_operator.register
def _create_asof_join(spec: AsofJoin, _operation: StreamOperation) -> AsofJoinOperator:
    return AsofJoinOperator(spec)


@create_inner_operator.register
def _create_pattern_operator(spec: Sequence, _operation: StreamOperation) -> PatternOperator:
    return PatternOperator(spec)


@create_inner_operator.register
def _create_retracting_fold(spec: RetractableView, _operation: StreamOperation) -> RetractingFoldOperator:
    return RetractingFoldOperator(spec)
