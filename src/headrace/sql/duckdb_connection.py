"""In-memory DuckDB connections: how they are opened, set up and locked."""

from pathlib import Path

import duckdb

from headrace.sql.live_columns import SqlColumns, build_raising_query, quote_identifier, quote_string

LIVE_SCHEMA, LAYERS = "live", ("bronze", "silver", "gold")
MEMORY_LIMIT_MB = 512
DUCKDB_SETTINGS = {
    "threads": "1",
    "memory_limit": f"{MEMORY_LIMIT_MB}MB",
    "temp_directory": "",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
}


def open_connection() -> duckdb.DuckDBPyConnection:
    """A new database; a table name without a layer is resolved in silver, then live, gold and bronze."""
    connection = duckdb.connect(":memory:", config=dict(DUCKDB_SETTINGS))
    connection.execute("SET TimeZone = 'UTC'")
    for schema in (*LAYERS, LIVE_SCHEMA):
        connection.execute(f"CREATE SCHEMA {schema}")
    connection.execute(f"SET search_path = 'silver,{LIVE_SCHEMA},gold,bronze'")
    return connection


def lock_connection(connection: duckdb.DuckDBPyConnection, lake_folder: Path | None) -> None:
    """From here on the connection can read only the lake's files, load no extensions and change no settings."""
    allowed_folders = "" if lake_folder is None else quote_string(str(lake_folder))
    connection.execute(f"SET allowed_directories = [{allowed_folders}]")
    connection.execute("SET enable_external_access = false; SET lock_configuration = true")


def qualified_name(layer: str, table: str) -> str:
    """The qualified name of a table."""
    return f"{layer}.{quote_identifier(table)}"


def create_raising_view(connection: duckdb.DuckDBPyConnection, name: str, columns: SqlColumns, message: str) -> None:
    """Create a view that has columns, and raises an error when rows are read: an empty result would be wrong."""
    connection.execute(f"CREATE OR REPLACE VIEW {name} AS {build_raising_query(columns, message)}")
