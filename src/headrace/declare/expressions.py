"""The expression language of `check=` and `where=`: a tree that compiles to a Spark column and to numpy.

Numbers are 64-bit integers or doubles. Null is unknown, as in SQL; dividing by zero gives null; integers wrap;
NaN equals NaN and is greater than every other number. Unsupported syntax is refused, with a list of what is supported.
"""

from collections.abc import Callable
from dataclasses import dataclass

import sqlglot
import sqlglot.errors
from sqlglot import expressions as sql

from headrace.declare.streams.schema import Kind, Schema
from headrace.errors import DeclarationError

LiteralValue = bool | int | float | str

ARITHMETIC_OPERATORS = {"+", "-", "*", "/", "%"}
COMPARISON_OPERATORS = {"=", "<>", "<", "<=", ">", ">="}
FUNCTIONS = {"abs", "coalesce", "ln", "sqrt", "least", "greatest", "if"}
NUMBER_KINDS = {Kind.INTEGER, Kind.DOUBLE}
INT64_RANGE = range(-(2**63), 2**63)
SUPPORTED_SYNTAX = (
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
    """A literal of the expression; 1, 1.0 and true are three different ones."""

    value: LiteralValue

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and (type(self.value), self.value) == (type(other.value), other.value)

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))

    def __str__(self) -> str:
        return "'" + self.value.replace("'", "''") + "'" if isinstance(self.value, str) else str(self.value).lower()


@dataclass(frozen=True)
class Call:
    """An operator or function and its arguments."""

    op: str
    args: tuple["Expression", ...]

    def __str__(self) -> str:
        arg_texts = [f"({arg})" if isinstance(arg, Call) else str(arg) for arg in self.args]
        if self.op in FUNCTIONS:
            return f"{self.op}({', '.join(map(str, self.args))})"
        return {"not": f"not {arg_texts[0]}", "is null": f"{arg_texts[0]} is null"}.get(self.op) or f" {self.op} ".join(
            arg_texts
        )


Expression = Field | Literal | Call

_BINARY_OPERATORS: dict[type[sql.Expr], str] = {
    sql.Add: "+", sql.Sub: "-", sql.Mul: "*", sql.Div: "/", sql.Mod: "%",
    sql.EQ: "=", sql.NEQ: "<>", sql.LT: "<", sql.LTE: "<=", sql.GT: ">", sql.GTE: ">=",
    sql.And: "and", sql.Or: "or",
}  # fmt: skip


def step_column_name(position: str, step: str, column: str) -> str:
    """The name of the column of the first or last event that a pattern step matched."""
    return f"{position}({step}.{column})"


def parse_condition(text: object, schema: Schema, where: str) -> Expression:
    """The tree of a condition in Spark SQL, checked against the schema: its type must be boolean."""
    if not isinstance(text, str):
        raise DeclarationError(f'{where}: {text!r} is not an expression. Write it as text, such as "amount > 1000".')
    try:
        # A condition, not a statement: a column may be called `load` or `comment`.
        parsed = sqlglot.parse_one(text, dialect="spark", into=sql.Condition)
    except sqlglot.errors.SqlglotError as error:
        raise DeclarationError(
            f"{where}: {text!r} cannot be read as a condition. Use {SUPPORTED_SYNTAX}. "
            "Write a column that is named like a word of SQL between backticks: `call` > 1."
        ) from error
    tree = _SqlglotConverter(where, text).convert(parsed)
    if infer_kind(tree, schema, where) is not Kind.BOOLEAN:
        raise DeclarationError(
            f'{where}: {text!r} is not a condition. Write something true or false, such as "amount > 1000".'
        )
    return tree


class _SqlglotConverter:
    """Converts sqlglot's tree into ours and refuses unsupported syntax."""

    def __init__(self, where: str, text: str) -> None:
        self.where, self.text = where, text

    def convert(self, node: sql.Expr) -> Expression:
        if type(node) in _BINARY_OPERATORS:
            return Call(_BINARY_OPERATORS[type(node)], (self.convert(node.this), self.convert(node.expression)))
        return self._converters().get(type(node), self._refuse)(node)

    def _refuse(self, node: sql.Expr) -> Expression:
        raise DeclarationError(
            f"{self.where}: {node.sql('spark')!r} in {self.text!r} is not in the language of conditions. "
            f"Use {SUPPORTED_SYNTAX}."
        )

    def _converters(self) -> dict[type[sql.Expr], Callable[[sql.Expr], Expression]]:
        return {
            sql.Paren: lambda node: self.convert(node.this),
            sql.Column: lambda node: self._refuse(node) if node.args.get("table") else Field(node.name),
            sql.Boolean: lambda node: Literal(bool(node.this)),
            sql.Literal: self._convert_literal,
            sql.Neg: self._convert_negation,
            sql.Not: lambda node: Call("not", (self.convert(node.this),)),
            sql.Is: self._convert_is_null,
            sql.In: self._convert_in,
            sql.Between: self._convert_between,
            sql.Abs: lambda node: Call("abs", (self.convert(node.this),)),
            sql.Sqrt: lambda node: Call("sqrt", (self.convert(node.this),)),
            sql.Least: lambda node: Call("least", tuple(map(self.convert, (node.this, *node.expressions)))),
            sql.Greatest: lambda node: Call("greatest", tuple(map(self.convert, (node.this, *node.expressions)))),
            sql.If: self._convert_if,
            sql.Coalesce: lambda node: Call("coalesce", tuple(map(self.convert, (node.this, *node.expressions)))),
            sql.First: lambda node: self._convert_step_reference("first", node),
            sql.Last: lambda node: self._convert_step_reference("last", node),
        }

    def _convert_step_reference(self, position: str, node: sql.Expr) -> Expression:
        """A column of an event that an earlier pattern step matched: an ordinary column if the schema has it."""
        column = node.this
        if not isinstance(column, sql.Column) or not column.table or column.args.get("db"):
            return self._refuse(node)
        return Field(step_column_name(position, column.table, column.name))

    def _convert_literal(self, node: sql.Expr) -> Expression:
        return Literal(str(node.this)) if node.is_string else self._convert_number(str(node.this))

    def _convert_number(self, number_text: str) -> Expression:
        if not number_text.removeprefix("-").isdigit():
            return Literal(float(number_text))
        if int(number_text) not in INT64_RANGE:
            raise DeclarationError(
                f"{self.where}: {number_text} in {self.text!r} does not fit 64 bits. Write it as {number_text}.0."
            )
        return Literal(int(number_text))

    def _convert_negation(self, node: sql.Expr) -> Expression:
        if isinstance(node.this, sql.Literal) and not node.this.is_string:
            return self._convert_number(f"-{node.this.this}")
        return Call("-", (Literal(0), self.convert(node.this)))

    def _convert_is_null(self, node: sql.Expr) -> Expression:
        if not isinstance(node.expression, sql.Null):
            raise DeclarationError(f"{self.where}: {self.text!r} uses IS with something other than NULL. Use =.")
        return Call("is null", (self.convert(node.this),))

    def _convert_in(self, node: sql.Expr) -> Expression:
        subject, options = self.convert(node.this), [self.convert(option) for option in node.expressions]
        if not options:
            raise DeclarationError(f"{self.where}: {self.text!r} uses IN without a list. Write x in ('a', 'b').")
        return _combine_with_or([Call("=", (subject, option)) for option in options])

    def _convert_if(self, node: sql.Expr) -> Expression:
        otherwise = node.args.get("false")
        if otherwise is None:
            raise DeclarationError(f"{self.where}: {self.text!r} uses IF without a third value. Write if(x > 0, 1, 0).")
        return Call("if", (self.convert(node.this), self.convert(node.args["true"]), self.convert(otherwise)))

    def _convert_between(self, node: sql.Expr) -> Expression:
        subject = self.convert(node.this)
        low, high = self.convert(node.args["low"]), self.convert(node.args["high"])
        return Call("and", (Call(">=", (subject, low)), Call("<=", (subject, high))))


def _combine_with_or(tests: list[Call]) -> Call:
    """The disjunction of tests as a balanced tree: a long list does not make a deep tree."""
    half = len(tests) // 2
    return Call("or", (_combine_with_or(tests[:half]), _combine_with_or(tests[half:]))) if half else tests[0]


def infer_kind(tree: Expression, schema: Schema, where: str) -> Kind:
    """The kind of value an expression gives, or an error that says why it has none."""
    if isinstance(tree, Field):
        return schema.column(tree.name, where).kind
    if isinstance(tree, Literal):
        return {bool: Kind.BOOLEAN, int: Kind.INTEGER, float: Kind.DOUBLE, str: Kind.STRING}[type(tree.value)]
    kinds = [infer_kind(arg, schema, where) for arg in tree.args]
    result_kind = _infer_call_kind(tree.op, kinds)
    if result_kind is None:
        arg_kinds = ", ".join(f"{arg} is {kind.value}" for arg, kind in zip(tree.args, kinds, strict=True))
        raise DeclarationError(
            f"{where}: {tree.op!r} does not fit its values: {arg_kinds}. Compare and compute like with like."
        )
    return result_kind


def _infer_call_kind(op: str, kinds: list[Kind]) -> Kind | None:
    is_numeric = set(kinds) <= NUMBER_KINDS
    if op in COMPARISON_OPERATORS:
        return Kind.BOOLEAN if is_numeric or len(set(kinds)) == 1 else None
    if op in {"and", "or", "not"}:
        return Kind.BOOLEAN if set(kinds) == {Kind.BOOLEAN} else None
    if op == "is null":
        return Kind.BOOLEAN
    if op == "if":
        return _infer_call_kind("coalesce", kinds[1:]) if kinds[0] is Kind.BOOLEAN else None
    if op == "coalesce" and len(set(kinds)) == 1:
        return kinds[0]
    if not is_numeric:
        return None
    return Kind.DOUBLE if op in {"/", "ln", "sqrt"} or Kind.DOUBLE in kinds else Kind.INTEGER


def field_names(tree: Expression | None) -> set[str]:
    """The names of the columns a tree reads."""
    if isinstance(tree, Field):
        return {tree.name}
    if isinstance(tree, Call):
        return set().union(*(field_names(arg) for arg in tree.args))
    return set()
