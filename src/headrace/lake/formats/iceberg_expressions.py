"""Conditions on the rows of Iceberg tables: pyiceberg's own types describe what these are converted into."""

from collections.abc import Callable

from pyiceberg.expressions import And, BooleanExpression, EqualTo, In, LessThan, Or

MakeCondition = Callable[..., BooleanExpression]
IS_IN: MakeCondition = In
EQUAL_TO: MakeCondition = EqualTo
LESS_THAN: MakeCondition = LessThan
AND: MakeCondition = And
OR: MakeCondition = Or
