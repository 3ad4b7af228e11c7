"""Checks saved queries before anything runs: against the tables an app will have, which are still empty."""

from collections.abc import Sequence

import duckdb

from headrace.declare.app import App
from headrace.declare.saved_query import Query
from headrace.errors import DeclarationError
from headrace.lake.formats.arrow_schemas import arrow_schema
from headrace.lake.ingestion.table_mapping import TableMapping
from headrace.sql.duckdb_connection import (
    LIVE_SCHEMA,
    create_raising_view,
    lock_connection,
    open_connection,
    qualified_name,
)
from headrace.sql.errors import SqlRefused
from headrace.sql.lake_columns import to_sql_columns
from headrace.sql.live_columns import live_columns
from headrace.sql.statement import describe_duckdb_error, parse_read_only_query

NO_ROWS_MESSAGE = "A plan reads no rows."


def require_valid_queries(app: App, mappings: Sequence[TableMapping]) -> None:
    """Raise for the first query that is invalid."""
    for query, problem in find_query_problems(app, mappings).items():
        if problem is not None:
            raise DeclarationError(f"Query {query!r}: {problem}")


def find_query_problems(app: App, mappings: Sequence[TableMapping]) -> dict[str, str | None]:
    """For each saved query by name the error it would raise, or None."""
    if not app.queries:
        return {}
    connection = _create_empty_tables(app, mappings)
    return {query.name: _find_query_problem(connection, query) for query in app.queries}


def _create_empty_tables(app: App, mappings: Sequence[TableMapping]) -> duckdb.DuckDBPyConnection:
    connection = open_connection()
    for mapping in mappings:
        layer, _, table = mapping.table.partition("/")
        create_raising_view(
            connection, qualified_name(layer, table), to_sql_columns(arrow_schema(mapping)), NO_ROWS_MESSAGE
        )
    for view in app.views:
        create_raising_view(connection, qualified_name(LIVE_SCHEMA, view.name), live_columns(view), NO_ROWS_MESSAGE)
    lock_connection(connection, None)
    return connection


def _find_query_problem(connection: duckdb.DuckDBPyConnection, query: Query) -> str | None:
    try:
        select_sql = parse_read_only_query(connection, query.sql)
    except SqlRefused as error:
        return str(error)
    try:
        connection.execute(f"DESCRIBE {select_sql}")  # bound to its tables and types, but not executed
    except duckdb.Error as duckdb_error:
        return describe_duckdb_error(duckdb_error, query.sql)
    return None
