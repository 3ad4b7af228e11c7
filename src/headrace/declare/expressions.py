"""The one small language of `check=` and `where=`: a tree that compiles to a Spark column and to numpy.

Numbers are 64-bit integers or doubles. Null is unknown, as in SQL; dividing by zero gives null; integers wrap;
NaN equals NaN and is greater than every other number. What is not in the tree is refused, with what is.
"""

from collections.abc import Callable
from dataclasses import dataclass

import sqlglot
import sqlglot.errors
from sqlglot import expressions as sql

from headrace.declare.schema import Kind, Schema
from headrace.errors import DeclarationError

Value = bool | int | float | str

ARITHMETIC = {"+", "-", "*", "/", "%"}
COMPARISON = {"=", "<>", "<", "<=", ">", ">="}
FUNCTIONS = {"abs", "coalesce", "ln", "sqrt", "least", "greatest", "if"}
NUMBERS = {Kind.INTEGER, Kind.DOUBLE}
INT64 = range(-(2**63), 2**63)
IN_THE_TREE = (
    "columns, numbers, 'text', true, false, + - * / %, = <> < <= > >=, and, or, not, is null, in (…), between, "
    "abs(x), sqrt(x), least(x, …), greatest(x, …), coalesce(x, …), if(condition, x, y)"
)


@dataclass(frozen=True)
class Field:
    """The value of a column."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Literal:
    """A value written in the expression; 1, 1.0 and true are three."""

    value: Value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and (type(self.value), self.value) == (type(other.value), other.value)

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))

    def __str__(self) -> str:
        return "'" + self.value.replace("'", "''") + "'" if isinstance(self.value, str) else str(self.value).lower()


@dataclass(frozen=True)
class Call:
    """An operator or function and what it is applied to."""

    op: str
    args: tuple["Expression", ...]

    def __str__(self) -> str:
        written = [f"({arg})" if isinstance(arg, Call) else str(arg) for arg in self.args]
        if self.op in FUNCTIONS:
            return f"{self.op}({', '.join(map(str, self.args))})"
        return {"not": f"not {written[0]}", "is null": f"{written[0]} is null"}.get(self.op) or f" {self.op} ".join(
            written
        )


Expression = Field | Literal | Call

_BINARY: dict[type[sql.Expr], str] = {
    sql.Add: "+", sql.Sub: "-", sql.Mul: "*", sql.Div: "/", sql.Mod: "%",
    sql.EQ: "=", sql.NEQ: "<>", sql.LT: "<", sql.LTE: "<=", sql.GT: ">", sql.GTE: ">=",
    sql.And: "and", sql.Or: "or",
}  # fmt: skip


def of_step(which: str, step: str, column: str) -> str:
    """The name of the column of the first or last event that a step of a pattern took."""
    return f"{which}({step}.{column})"


def parse(text: object, schema: Schema, where: str) -> Expression:
    """The tree of a condition in Spark SQL, checked against the schema: its type must be boolean."""
    if not isinstance(text, str):
        raise DeclarationError(f'{where}: {text!r} is not an expression. Write it as text, such as "amount > 1000".')
    try:
        # A condition, not a statement: a column may be called `load` or `comment`.
        written = sqlglot.parse_one(text, dialect="spark", into=sql.Condition)
    except sqlglot.errors.SqlglotError as error:
        raise DeclarationError(
            f"{where}: {text!r} cannot be read as a condition. Use {IN_THE_TREE}. "
            "Write a column that is named like a word of SQL between backticks: `call` > 1."
        ) from error
    tree = _Reader(where, text).read(written)
    if kind_of(tree, schema, where) is not Kind.BOOLEAN:
        raise DeclarationError(
            f'{where}: {text!r} is not a condition. Write something true or false, such as "amount > 1000".'
        )
    return tree


class _Reader:
    """Turns sqlglot's tree into ours and refuses what ours has no word for."""

    def __init__(self, where: str, text: str) -> None:
        self.where, self.text = where, text

    def read(self, node: sql.Expr) -> Expression:
        if type(node) in _BINARY:
            return Call(_BINARY[type(node)], (self.read(node.this), self.read(node.expression)))
        return self._readers().get(type(node), self._refuse)(node)

    def _refuse(self, node: sql.Expr) -> Expression:
        raise DeclarationError(
            f"{self.where}: {node.sql('spark')!r} in {self.text!r} is not in the language of conditions. "
            f"Use {IN_THE_TREE}."
        )

    def _readers(self) -> dict[type[sql.Expr], Callable[[sql.Expr], Expression]]:
        return {
            sql.Paren: lambda node: self.read(node.this),
            sql.Column: lambda node: self._refuse(node) if node.args.get("table") else Field(node.name),
            sql.Boolean: lambda node: Literal(bool(node.this)),
            sql.Literal: self._literal,
            sql.Neg: self._negated,
            sql.Not: lambda node: Call("not", (self.read(node.this),)),
            sql.Is: self._is_null,
            sql.In: self._is_in,
            sql.Between: self._between,
            sql.Abs: lambda node: Call("abs", (self.read(node.this),)),
            sql.Sqrt: lambda node: Call("sqrt", (self.read(node.this),)),
            sql.Least: lambda node: Call("least", tuple(map(self.read, (node.this, *node.expressions)))),
            sql.Greatest: lambda node: Call("greatest", tuple(map(self.read, (node.this, *node.expressions)))),
            sql.If: self._if,
            sql.Coalesce: lambda node: Call("coalesce", tuple(map(self.read, (node.this, *node.expressions)))),
            sql.First: lambda node: self._of_step("first", node),
            sql.Last: lambda node: self._of_step("last", node),
        }

    def _of_step(self, which: str, node: sql.Expr) -> Expression:
        """What an earlier step of a pattern took: a column like any other to whoever has it in the schema."""
        column = node.this
        if not isinstance(column, sql.Column) or not column.table or column.args.get("db"):
            return self._refuse(node)
        return Field(of_step(which, column.table, column.name))

    def _literal(self, node: sql.Expr) -> Expression:
        return Literal(str(node.this)) if node.is_string else self._number(str(node.this))

    def _number(self, written: str) -> Expression:
        if not written.removeprefix("-").isdigit():
            return Literal(float(written))
        if int(written) not in INT64:
            raise DeclarationError(
                f"{self.where}: {written} in {self.text!r} does not fit 64 bits. Write it as {written}.0."
            )
        return Literal(int(written))

    def _negated(self, node: sql.Expr) -> Expression:
        if isinstance(node.this, sql.Literal) and not node.this.is_string:
            return self._number(f"-{node.this.this}")
        return Call("-", (Literal(0), self.read(node.this)))

    def _is_null(self, node: sql.Expr) -> Expression:
        if not isinstance(node.expression, sql.Null):
            raise DeclarationError(f"{self.where}: {self.text!r} uses IS with something other than NULL. Use =.")
        return Call("is null", (self.read(node.this),))

    def _is_in(self, node: sql.Expr) -> Expression:
        subject, options = self.read(node.this), [self.read(option) for option in node.expressions]
        if not options:
            raise DeclarationError(f"{self.where}: {self.text!r} uses IN without a list. Write x in ('a', 'b').")
        return _any_of([Call("=", (subject, option)) for option in options])

    def _if(self, node: sql.Expr) -> Expression:
        otherwise = node.args.get("false")
        if otherwise is None:
            raise DeclarationError(f"{self.where}: {self.text!r} uses IF without a third value. Write if(x > 0, 1, 0).")
        return Call("if", (self.read(node.this), self.read(node.args["true"]), self.read(otherwise)))

    def _between(self, node: sql.Expr) -> Expression:
        subject = self.read(node.this)
        low, high = self.read(node.args["low"]), self.read(node.args["high"])
        return Call("and", (Call(">=", (subject, low)), Call("<=", (subject, high))))


def _any_of(tests: list[Call]) -> Call:
    """One or the other, halved again and again: a long list makes no deep tree."""
    half = len(tests) // 2
    return Call("or", (_any_of(tests[:half]), _any_of(tests[half:]))) if half else tests[0]


def kind_of(tree: Expression, schema: Schema, where: str) -> Kind:
    """The kind of value a tree gives, or the reason it cannot give one."""
    if isinstance(tree, Field):
        return schema.column(tree.name, where).kind
    if isinstance(tree, Literal):
        return {bool: Kind.BOOLEAN, int: Kind.INTEGER, float: Kind.DOUBLE, str: Kind.STRING}[type(tree.value)]
    kinds = [kind_of(arg, schema, where) for arg in tree.args]
    found = _kind_of_call(tree.op, kinds)
    if found is None:
        names = ", ".join(f"{arg} is {kind.value}" for arg, kind in zip(tree.args, kinds, strict=True))
        raise DeclarationError(
            f"{where}: {tree.op!r} does not fit its values: {names}. Compare and compute like with like."
        )
    return found


def _kind_of_call(op: str, kinds: list[Kind]) -> Kind | None:
    numbers = set(kinds) <= NUMBERS
    if op in COMPARISON:
        return Kind.BOOLEAN if numbers or len(set(kinds)) == 1 else None
    if op in {"and", "or", "not"}:
        return Kind.BOOLEAN if set(kinds) == {Kind.BOOLEAN} else None
    if op == "is null":
        return Kind.BOOLEAN
    if op == "if":
        return _kind_of_call("coalesce", kinds[1:]) if kinds[0] is Kind.BOOLEAN else None
    if op == "coalesce" and len(set(kinds)) == 1:
        return kinds[0]
    if not numbers:
        return None
    return Kind.DOUBLE if op in {"/", "ln", "sqrt"} or Kind.DOUBLE in kinds else Kind.INTEGER


def fields(tree: Expression | None) -> set[str]:
    """The names of the columns a tree reads."""
    if isinstance(tree, Field):
        return {tree.name}
    if isinstance(tree, Call):
        return set().union(*(fields(arg) for arg in tree.args))
    return set()
