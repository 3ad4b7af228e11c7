"""The columns of a live table as SQL names them, and how names and texts are written in SQL."""

from collections.abc import Mapping

from headrace.declare.names import OF_LIVE_ROWS
from headrace.declare.schema import Kind
from headrace.declare.views import Feature, View

Columns = Mapping[str, str]

EVENT_TIME = OF_LIVE_ROWS
SQL_TYPES = {
    Kind.STRING: "VARCHAR",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.INTEGER: "BIGINT",
    Kind.DOUBLE: "DOUBLE",
    Kind.TIMESTAMP: "TIMESTAMPTZ",
}
LARGE_SUM = "DECIMAL(38,0)"


def live_columns(view: View) -> dict[str, str]:
    """A view's live table: its key, every feature, and when the newest event of its windows happened."""
    keys = {column.name: SQL_TYPES[column.kind] for column in view.entity}
    kept = {feature.name: _type_of(feature, view) for feature in view.features}
    derived = {one.name: SQL_TYPES[one.kind] for one in view.derived}
    return keys | kept | derived | {EVENT_TIME: SQL_TYPES[Kind.TIMESTAMP]}


def _type_of(feature: Feature, view: View) -> str:
    """The type of a feature; sums of 64-bit integers may pass 64 bits."""
    aggregate = feature.aggregate
    match aggregate.function, aggregate.kind:
        case "count" | "distinct", _:
            return SQL_TYPES[Kind.INTEGER]
        case "sum", Kind.INTEGER:
            column = view.schema.column(str(aggregate.column), view.name)
            return LARGE_SUM if column.type == "bigint" else SQL_TYPES[Kind.INTEGER]
        case "top", Kind() as kind:
            return f"{SQL_TYPES[kind]}[]"
        case "count_by", Kind() as kind:
            return f"MAP({SQL_TYPES[kind]}, BIGINT)"
        case (("min" | "max" | "first" | "last"), Kind() as kind):
            return SQL_TYPES[kind]
    return SQL_TYPES[Kind.DOUBLE]


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever is in it.

    >>> quoted("payments-eu")
    '"payments-eu"'
    """
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text as SQL takes it.

    >>> text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"


def refusing(columns: Columns, sentence: str) -> str:
    """A query that has these columns, and raises a sentence as soon as a row is wanted of it."""
    # Each column leans on the error, and so does the row: whatever a query leaves out, it meets one of them.
    selected = ", ".join(f"e::{kind} AS {quoted(name)}" for name, kind in columns.items())
    return f"SELECT {selected} FROM (SELECT error({text(sentence)}) AS e) WHERE e IS NULL"  # noqa: S608  # all quoted
