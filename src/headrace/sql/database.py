"""A database in memory: how it is opened, what stands in it before anything is read, and how it is locked."""

from pathlib import Path

import duckdb

from headrace.sql.columns import Columns, quoted, refusing, text

LIVE, LAYERS = "live", ("bronze", "silver", "gold")
MEMORY_MB = 512
CONFIGURATION = {
    "threads": "1",
    "memory_limit": f"{MEMORY_MB}MB",
    "temp_directory": "",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
}


def opened() -> duckdb.DuckDBPyConnection:
    """A new database; a table named without its layer is that of silver, then live, gold and bronze."""
    connection = duckdb.connect(":memory:", config=dict(CONFIGURATION))
    connection.execute("SET TimeZone = 'UTC'")
    for schema in (*LAYERS, LIVE):
        connection.execute(f"CREATE SCHEMA {schema}")
    connection.execute(f"SET search_path = 'silver,{LIVE},gold,bronze'")
    return connection


def lock(connection: duckdb.DuckDBPyConnection, lake: Path | None) -> None:
    """From here on there are no files but the lake's, no extensions and no other settings."""
    folders = "" if lake is None else text(str(lake))
    connection.execute(f"SET allowed_directories = [{folders}]")
    connection.execute("SET enable_external_access = false; SET lock_configuration = true")


def name_of(layer: str, table: str) -> str:
    """The whole name of a table."""
    return f"{layer}.{quoted(table)}"


def stand_in(connection: duckdb.DuckDBPyConnection, name: str, columns: Columns, sentence: str) -> None:
    """A table that has columns, and refuses rows with a sentence: an empty one would be a wrong answer."""
    connection.execute(f"CREATE OR REPLACE VIEW {name} AS {refusing(columns, sentence)}")
