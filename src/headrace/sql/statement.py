"""Accepts only single read-only queries, as classified by DuckDB's own parser."""

import re

import duckdb

from headrace.sql.errors import NotReadOnlyError, SqlRefused

MAX_QUERY_LENGTH = 50_000
SHOW_TABLES_PATTERN = re.compile(r"\s*show\s+tables\s*;?\s*", re.IGNORECASE)
# DuckDB's own SHOW TABLES omits schemas, by which one name may refer to two tables.
LIST_TABLES_SQL = """
SELECT schema_name AS "schema", table_name AS name, list(column_name ORDER BY column_index) AS columns
FROM duckdb_columns() WHERE schema_name IN ('bronze', 'silver', 'gold', 'live') GROUP BY ALL ORDER BY ALL
"""
UNQUOTED_AT_PATTERN = re.compile(r"""(?<!["\w])at(?!["\w])""", re.IGNORECASE)


def parse_read_only_query(connection: duckdb.DuckDBPyConnection, sql: str) -> str:
    """The single query of a text; raises for any other statement, or several."""
    if len(sql) > MAX_QUERY_LENGTH:
        raise SqlRefused(
            f"The query has {len(sql):,} characters and may have {MAX_QUERY_LENGTH:,}. Ask for less at a time."
        )
    if SHOW_TABLES_PATTERN.fullmatch(sql):
        return LIST_TABLES_SQL
    statement = _parse_single_statement(connection, sql)
    if statement.type is duckdb.StatementType.EXPLAIN:
        _require_select(_parse_single_statement(connection, _strip_explain(statement.query)))
    else:
        _require_select(statement)
    return str(statement.query)


def _parse_single_statement(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as problem:
        raise SqlRefused(describe_duckdb_error(problem, sql)) from problem
    if len(statements) != 1:
        count_text = "none" if not statements else f"{len(statements)} statements"
        raise NotReadOnlyError(f"One query is answered at a time, and there are {count_text}. Write one select.")
    return statements[0]


def _require_select(statement: duckdb.Statement) -> None:
    if statement.type is not duckdb.StatementType.SELECT:
        raise NotReadOnlyError(
            f"{statement.type.name} is not answered: tables are only read here. Write select, with, show tables, "
            "describe or explain."
        )


def _strip_explain(sql: str) -> str:
    """The statement after EXPLAIN: DuckDB executes it for EXPLAIN ANALYZE."""
    encoded = sql.encode()
    word_starts = [start for start, token_type in duckdb.tokenize(sql) if token_type is not duckdb.token_type.comment]
    explained = encoded[word_starts[1] :] if len(word_starts) > 1 else b""
    analyze_match = re.match(rb"analy[sz]e\b", explained, re.IGNORECASE)
    return (encoded[word_starts[2] :] if analyze_match and len(word_starts) > 2 else explained).decode()


def describe_duckdb_error(problem: duckdb.Error, sql: str) -> str:
    """DuckDB's message; adds a hint about `at`, a common name for a time and a keyword of DuckDB."""
    hint = ' at is an SQL keyword: write the column as "at".' if UNQUOTED_AT_PATTERN.search(sql) else ""
    is_syntax = isinstance(problem, duckdb.ParserException)
    return f"{problem}{hint}" if is_syntax else str(problem).removeprefix("Invalid Input Error: ")
