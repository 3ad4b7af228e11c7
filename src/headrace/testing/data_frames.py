"""Data frames of pandas, polars, Arrow or Spark as events, as `headrace replay` would send them from Parquet."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from headrace.declare.streams.stream import Stream
from headrace.errors import HeadraceError

SOURCE_LABEL = "The DataFrame"
PANDAS_INDEX_PREFIX = "__index_level_"


class UnfitDataFrame(HeadraceError):
    """Arrow cannot represent a data frame."""


class TableRow(NamedTuple):
    """One row of a data frame; the stream it is fed to decides how it becomes an event."""

    table: Any
    row_number: int


def is_data_frame(events: object) -> bool:
    """Whether these events are a data frame, which iterates over columns."""
    return hasattr(events, "__arrow_c_stream__") or hasattr(events, "toArrow")


def to_table_rows(frame: Any) -> list[TableRow]:
    """The rows of a data frame."""
    table = _to_arrow(frame)
    return [TableRow(table, row_number) for row_number in range(table.num_rows)]


def undeclared_columns(table: Any, stream: Stream) -> list[str]:
    """The columns of a table that a stream does not declare."""
    return [
        name for name in table.column_names if name not in stream.schema and not name.startswith(PANDAS_INDEX_PREFIX)
    ]


def rows_to_events(rows: Sequence[TableRow], stream: Stream) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Each row as an event of a stream, with its JSON."""
    recordings = import_module("headrace.kafka.producer.recordings")  # imports Arrow, only for tests with a data frame
    tables_by_id = {id(row.table): row.table for row in rows}
    readers_by_id = {
        table_id: recordings.table_event_reader(table, stream, SOURCE_LABEL) for table_id, table in tables_by_id.items()
    }
    for row in rows:
        yield from readers_by_id[id(row.table)]([row.row_number])


def _to_arrow(frame: Any) -> Any:
    pa = import_module("pyarrow")
    try:
        return frame.toArrow() if hasattr(frame, "toArrow") else pa.table(frame)
    except (pa.ArrowException, TypeError) as problem:
        raise UnfitDataFrame(
            f"{SOURCE_LABEL} cannot be read as a table: {problem}. Give each column values of one type."
        ) from problem
