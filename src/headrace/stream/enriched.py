"""Enrichments on Spark: a function of its stream's DataFrame that joins it with a table's rows as they are now.

file   v1 ───────────── v2 ───────────────▶      read by the driver, as the server reads it for views
query  with v1 ───────────┤├─ with v2 ────▶      the rows are part of the query: for others it is started anew
"""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.declare import schema
from headrace.declare.derivation import FunctionOf
from headrace.declare.enriched import Enrichment
from headrace.declare.schema import TYPE_OF_KIND, Kind
from headrace.tiles.tables import Rows, loaded

_KEY = "headrace_key"


def function_of(enrichment: Enrichment) -> FunctionOf:
    """An enrichment as a function of DataFrames, which is called anew when its table was read again."""
    return FunctionOf(
        enrichment.name,
        enrichment.inputs,
        enrichment.written,
        function=lambda events: _joined(events, enrichment, loaded(enrichment.table).rows()),
        held=lambda: loaded(enrichment.table).rows(),
    )


def _joined(events: DataFrame, enrichment: Enrichment, rows: Rows) -> DataFrame:
    table = F.broadcast(_frame(events.sparkSession, enrichment, rows))
    return events.join(table, F.col(f"`{enrichment.by}`") == F.col(_KEY), enrichment.kind).drop(_KEY)


def _frame(spark: SparkSession, enrichment: Enrichment, rows: Rows) -> DataFrame:
    """The rows of a table: its key, and the wanted columns under their names in the output."""
    table = enrichment.table
    wanted = [(table.key, _KEY), *enrichment.columns]
    columns = [table.schema.column(name, table.path.name) for name, _ in wanted]
    ddl = ", ".join(f"`{output}` {_plain(one)}" for one, (_, output) in zip(columns, wanted, strict=True))
    frame = spark.createDataFrame(rows.listed([one.name for one in columns]), ddl)
    frame = frame.coalesce(1)  # else a task for each slot of the session, to broadcast one table
    return frame.select(*(_typed(one, output) for one, (_, output) in zip(columns, wanted, strict=True)))


def _plain(column: schema.Column) -> str:
    """The type of a column's values in memory."""
    return "bigint" if column.kind is Kind.TIMESTAMP else TYPE_OF_KIND[column.kind]


def _typed(column: schema.Column, output: str) -> Column:
    value = F.col(f"`{output}`")
    return (F.timestamp_micros(value) if column.kind is Kind.TIMESTAMP else value.cast(column.type)).alias(output)
