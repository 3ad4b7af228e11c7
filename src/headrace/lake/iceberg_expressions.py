"""Conditions on the rows of Iceberg tables: pyiceberg's own types speak of what these are made into."""

from collections.abc import Callable

from pyiceberg.expressions import And, BooleanExpression, EqualTo, In, LessThan, Or

MakeCondition = Callable[..., BooleanExpression]
IS_IN: MakeCondition = In
EQUALS: MakeCondition = EqualTo
BELOW: MakeCondition = LessThan
BOTH: MakeCondition = And
EITHER: MakeCondition = Or
