"""The operator of an operation: which one does what a declaration says."""

from functools import singledispatch
from typing import Any

from headrace.declare.derivation import Operation
from headrace.declare.joined import AsofJoin, Join
from headrace.declare.recounted import Recount
from headrace.declare.sequence import Sequence
from headrace.declare.windowed import Windowing
from headrace.operators.asof import Asof
from headrace.operators.joins import Joins
from headrace.operators.once import Once, remember_us
from headrace.operators.operator import Operator
from headrace.operators.patterns import Patterns
from headrace.operators.recounts import Recounts
from headrace.operators.windows import Windows


def operator_of(operation: Operation) -> Operator[Any]:
    """What runs for an operation: it is given each event of a key once, but where places in a log tell it that."""
    operator = made_of(operation.what, operation)
    return operator if isinstance(operator, Recounts) else Once(operator, remember_us(operation.inputs))


@singledispatch
def made_of(what: Any, operation: Operation) -> Operator[Any]:
    """The operator of what is declared; each kind of declaration registers its own below."""
    raise TypeError(f"{operation.name}: no operator does what {type(what).__name__} declares")


@made_of.register
def _windows(what: Windowing, _operation: Operation) -> Windows:
    return Windows(what)


@made_of.register
def _joins(what: Join, _operation: Operation) -> Joins:
    return Joins(what)


@made_of.register
def _asof(what: AsofJoin, _operation: Operation) -> Asof:
    return Asof(what)


@made_of.register
def _patterns(what: Sequence, _operation: Operation) -> Patterns:
    return Patterns(what)


@made_of.register
def _recounts(what: Recount, _operation: Operation) -> Recounts:
    return Recounts(what)
