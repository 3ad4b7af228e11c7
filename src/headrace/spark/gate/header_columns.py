"""Spark columns for the headers of records, according to the table in kafka/headers.py."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.kafka.headers import HeaderLayout, RecordHeader, gate_header_sql


def gate_header(header: RecordHeader[Any]) -> Column:
    """The value of a header of the gate: the raw record's offset, or its arrival time."""
    return F.expr(gate_header_sql(header))


def first_header(header: RecordHeader[Any]) -> Column:
    """The bytes of the first such header of a record; null if there is none."""
    # No lambda, since Spark does not generate code for higher-order functions.
    names, values = F.col("headers.key"), F.col("headers.value")
    return F.get(values, F.array_position(names, F.lit(header.name)).cast("int") - 1)


def header_array(layout: HeaderLayout, values: Mapping[RecordHeader[Any], Column]) -> Column:
    """The headers of a record, in the layout's order."""
    return F.array(*(header_struct(header, values[header].cast("string").cast("binary")) for header in layout))


def header_struct(header: RecordHeader[Any], value: Column) -> Column:
    """One header with its bytes."""
    return F.struct(F.lit(header.name).alias("key"), value.alias("value"))
