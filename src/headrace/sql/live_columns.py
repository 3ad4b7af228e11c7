"""The columns of a live table as SQL types, and quoting of names and texts."""

from collections.abc import Mapping

from headrace.declare.features.aggregate_rules import Shape
from headrace.declare.features.view import Feature, View
from headrace.declare.names import LIVE_EVENT_TIME_COLUMN
from headrace.declare.streams.schema import Kind

SqlColumns = Mapping[str, str]

EVENT_TIME_COLUMN = LIVE_EVENT_TIME_COLUMN
SQL_TYPES = {
    Kind.STRING: "VARCHAR",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.INTEGER: "BIGINT",
    Kind.DOUBLE: "DOUBLE",
    Kind.TIMESTAMP: "TIMESTAMPTZ",
}
LARGE_SUM_TYPE = "DECIMAL(38,0)"


def live_columns(view: View) -> dict[str, str]:
    """The columns of a view's live table: its key, every feature, and the time of the newest event in its windows."""
    key_types = {column.name: SQL_TYPES[column.kind] for column in view.entity}
    feature_types = {feature.name: _feature_type(feature, view) for feature in view.features}
    on_demand_types = {
        on_demand_feature.name: SQL_TYPES[on_demand_feature.kind] for on_demand_feature in view.on_demand_features
    }
    return key_types | feature_types | on_demand_types | {EVENT_TIME_COLUMN: SQL_TYPES[Kind.TIMESTAMP]}


def _feature_type(feature: Feature, view: View) -> str:
    """The SQL type of a feature; sums of 64-bit integers may exceed 64 bits."""
    result = feature.aggregate.result_type
    if result.is_unbounded and view.schema.column(str(feature.aggregate.column), view.name).type == "bigint":
        return LARGE_SUM_TYPE
    sql_type = SQL_TYPES[result.kind]
    if result.shape is Shape.LIST:
        return f"{sql_type}[]"
    return f"MAP({sql_type}, BIGINT)" if result.shape is Shape.MAP else sql_type


def quote_identifier(name: str) -> str:
    """A quoted SQL identifier.

    >>> quote_identifier("payments-eu")
    '"payments-eu"'
    """
    return '"' + name.replace('"', '""') + '"'


def quote_string(value: str) -> str:
    """A quoted SQL string.

    >>> quote_string("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"


def build_raising_query(columns: SqlColumns, message: str) -> str:
    """A query that has these columns, and raises an error as soon as a row is read."""
    # Each column depends on the error, and so does the row: whatever a query leaves out, it evaluates one of them.
    select_list = ", ".join(f"e::{sql_type} AS {quote_identifier(name)}" for name, sql_type in columns.items())
    return f"SELECT {select_list} FROM (SELECT error({quote_string(message)}) AS e) WHERE e IS NULL"  # noqa: S608  # all quoted
