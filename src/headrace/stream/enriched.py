"""Enrichments on Spark: a function of its stream's DataFrame that joins it with a table's rows as they are now.

    file   v1 ───────────── v2 ──────────────▶      read by the driver, as views read it
    query  with v1 ───────────┤├─ with v2 ──▶      its rows are part of the query: it is started anew for new ones
"""

from collections.abc import Callable

from pyspark.sql import DataFrame

from headrace.declare.derivation import FunctionOf
from headrace.declare.enriched import Enrichment
from headrace.tiles.tables import Rows, loaded

_KEY = "headrace_key"


def function_of(enrichment: Enrichment) -> FunctionOf:
    """The enrichment, as a function of DataFrames."""
    return FunctionOf(
        enrichment.name,
        enrichment.inputs,
        enrichment.written,
        lambda events: _joined(events, enrichment, _rows_of(enrichment)()),
    )


def rows_read(enrichment: Enrichment) -> Callable[[], Rows]:
    ...
