"""Enrichments on Spark: a function that joins its stream's DataFrame with a table's current rows.

file   v1 ───────────── v2 ───────────────▶      read by the driver, as the server reads it for views
query  with v1 ───────────┤├─ with v2 ────▶      the rows are part of the query: for new ones it restarts
"""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.declare.operations.derived_stream import FunctionDerivation
from headrace.declare.operations.enrichment import Enrichment
from headrace.declare.streams import schema
from headrace.declare.streams.schema import TYPE_OF_KIND, Kind
from headrace.tiles.events.lookup_tables import FileTableSnapshot, shared_file_table

_KEY_COLUMN = "headrace_key"


def to_function_derivation(enrichment: Enrichment) -> FunctionDerivation:
    """An enrichment as a function of DataFrames, which is called again after its table was reloaded."""
    return FunctionDerivation(
        enrichment.name,
        enrichment.inputs,
        enrichment.location,
        function=lambda events: _join_table(events, enrichment, shared_file_table(enrichment.table).snapshot()),
        side_input=lambda: shared_file_table(enrichment.table).snapshot(),
    )


def _join_table(events: DataFrame, enrichment: Enrichment, rows: FileTableSnapshot) -> DataFrame:
    table = F.broadcast(_table_frame(events.sparkSession, enrichment, rows))
    return events.join(table, F.col(f"`{enrichment.key_column}`") == F.col(_KEY_COLUMN), enrichment.kind).drop(
        _KEY_COLUMN
    )


def _table_frame(spark: SparkSession, enrichment: Enrichment, rows: FileTableSnapshot) -> DataFrame:
    """The rows of a table: its key, and the selected columns under their output names."""
    table = enrichment.table
    selected_columns = [(table.key, _KEY_COLUMN), *enrichment.columns]
    columns = [table.schema.column(name, table.path.name) for name, _ in selected_columns]
    ddl = ", ".join(
        f"`{output}` {_storage_type(column)}" for column, (_, output) in zip(columns, selected_columns, strict=True)
    )
    frame = spark.createDataFrame(rows.list_rows([one.name for one in columns]), ddl)
    frame = frame.coalesce(1)  # else broadcasting one table takes a task for each slot of the session
    return frame.select(
        *(_typed_column(one, output) for one, (_, output) in zip(columns, selected_columns, strict=True))
    )


def _storage_type(column: schema.Column) -> str:
    """The type in which a column's values are stored."""
    return "bigint" if column.kind is Kind.TIMESTAMP else TYPE_OF_KIND[column.kind]


def _typed_column(column: schema.Column, output: str) -> Column:
    value = F.col(f"`{output}`")
    return (F.timestamp_micros(value) if column.kind is Kind.TIMESTAMP else value.cast(column.type)).alias(output)
