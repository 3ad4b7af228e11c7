"""Saved queries tried before anything runs: against the tables an app will have, none of which has rows yet."""

from collections.abc import Sequence

import duckdb

from headrace.declare.app import App
from headrace.declare.query import Query
from headrace.errors import DeclarationError
from headrace.lake.landing import Landing
from headrace.lake.shapes import schema_of
from headrace.sql.columns import live_columns
from headrace.sql.database import LIVE, lock, name_of, opened, stand_in
from headrace.sql.errors import SqlRefused
from headrace.sql.statement import readable, said
from headrace.sql.table_columns import columns_of

UNREAD = "A plan reads no rows."


def require_answerable(app: App, landings: Sequence[Landing]) -> None:
    """Raise for the first query that could not be answered."""
    for query, refused in refusals(app, landings).items():
        if refused is not None:
            raise DeclarationError(f"Query {query!r}: {refused}")


def refusals(app: App, landings: Sequence[Landing]) -> dict[str, str | None]:
    """Of each saved query by name why it could not be answered, or None."""
    if not app.queries:
        return {}
    connection = _declared(app, landings)
    return {query.name: _refusal(connection, query) for query in app.queries}


def _declared(app: App, landings: Sequence[Landing]) -> duckdb.DuckDBPyConnection:
    connection = opened()
    for landing in landings:
        layer, _, table = landing.table.partition("/")
        stand_in(connection, name_of(layer, table), columns_of(schema_of(landing)), UNREAD)
    for view in app.views:
        stand_in(connection, name_of(LIVE, view.name), live_columns(view), UNREAD)
    lock(connection, None)
    return connection


def _refusal(connection: duckdb.DuckDBPyConnection, query: Query) -> str | None:
    try:
        asked = readable(connection, query.sql)
    except SqlRefused as refused:
        return str(refused)
    try:
        connection.execute(f"DESCRIBE {asked}")  # bound to its tables and types, and not run
    except duckdb.Error as problem:
        return said(problem, query.sql)
    return None
