"""What may be asked: one query, by the judgement of DuckDB's own parser."""

import re

import duckdb

from headrace.sql.errors import NotReadOnly, SqlRefused

LONGEST = 50_000
SHOW_TABLES = re.compile(r"\s*show\s+tables\s*;?\s*", re.IGNORECASE)
# DuckDB's own answer leaves the schemas out, by which one name may stand for two tables.
EVERY_TABLE = """
SELECT schema_name AS "schema", table_name AS name, list(column_name ORDER BY column_index) AS columns
FROM duckdb_columns() WHERE schema_name IN ('bronze', 'silver', 'gold', 'live') GROUP BY ALL ORDER BY ALL
"""
AT = re.compile(r"""(?<!["\w])at(?!["\w])""", re.IGNORECASE)


def readable(connection: duckdb.DuckDBPyConnection, sql: str) -> str:
    """The one query that a text holds; raises where it holds another thing, or more than one."""
    if len(sql) > LONGEST:
        raise SqlRefused(f"The query has {len(sql):,} characters and may have {LONGEST:,}. Ask for less at a time.")
    if SHOW_TABLES.fullmatch(sql):
        return EVERY_TABLE
    statement = _only(connection, sql)
    if statement.type is duckdb.StatementType.EXPLAIN:
        _require_query(_only(connection, _explained(statement.query)))
    else:
        _require_query(statement)
    return str(statement.query)


def _only(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as problem:
        raise SqlRefused(said(problem, sql)) from problem
    if len(statements) != 1:
        found = "none" if not statements else f"{len(statements)} statements"
        raise NotReadOnly(f"One query is answered at a time, and there are {found}. Write one select.")
    return statements[0]


def _require_query(statement: duckdb.Statement) -> None:
    if statement.type is not duckdb.StatementType.SELECT:
        raise NotReadOnly(
            f"{statement.type.name} is not answered: tables are only read here. Write select, with, show tables, "
            "describe or explain."
        )


def _explained(sql: str) -> str:
    """What EXPLAIN is asked of: DuckDB runs whatever follows EXPLAIN ANALYZE."""
    encoded = sql.encode()
    words = [place for place, kind in duckdb.tokenize(sql) if kind is not duckdb.token_type.comment]
    follows = encoded[words[1] :] if len(words) > 1 else b""
    analyzed = re.match(rb"analy[sz]e\b", follows, re.IGNORECASE)
    return (encoded[words[2] :] if analyzed and len(words) > 2 else follows).decode()


def said(problem: duckdb.Error, sql: str) -> str:
    """DuckDB's sentence; `at` is the usual name of a time, and a word of its own to DuckDB."""
    hint = ' The word at is SQL\'s own: write the column as "at".' if AT.search(sql) else ""
    is_syntax = isinstance(problem, duckdb.ParserException)
    return f"{problem}{hint}" if is_syntax else str(problem).removeprefix("Invalid Input Error: ")
