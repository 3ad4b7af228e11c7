"""`hr.enrich`: joins each event of a stream with the row of a lookup table that one of its columns names.

payments.clean ──▶ merchant "m7" ──▶ the row of "m7" in merchants.parquet ──▶ known: the payment, and its columns
                                     as the file is now; read again when it changes
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from headrace.declare.durations import duration_text
from headrace.declare.operations.derived_stream import KNOWN_AT, Derivation, DerivedStream
from headrace.declare.operations.join_inputs import ColumnMapping
from headrace.declare.source_location import SourceLocation, locate_caller
from headrace.declare.streams.lookup_table import Table
from headrace.declare.streams.stream import Stream
from headrace.errors import DeclarationError

EnrichKind = Literal["inner", "left"]


@dataclass(frozen=True)
class Enrichment(Derivation):
    """A lookup join: events with columns of a table's row; `columns` maps the table's columns to output names."""

    table: Table
    key_column: str
    columns: ColumnMapping
    kind: EnrichKind


def enrich(
    name: str,
    stream: Stream,
    table: Table,
    *,
    on: str | tuple[str, str],
    columns: Sequence[str] | None = None,
    kind: EnrichKind = "left",
    prefix: str | None = None,
) -> DerivedStream:
    """Declare a stream of the same events, each with columns of the table's row that its column `on` names.

    An event without a row has nulls; with kind="inner" it is dropped.
    """
    request = _EnrichmentRequest(locate_caller(), name)
    request.validate_inputs(stream, table, kind)
    key_column = request.resolve_key_column(stream, table, on)
    wanted_columns = tuple(column for column in (columns or table.schema.names) if column != table.key)
    output_names = request.name_output_columns(stream, table, wanted_columns, prefix or f"{table.path.stem}_")
    enrichment = Enrichment(name, (stream,), request.location, table, key_column, output_names, kind)
    return request.build_stream(stream, enrichment)


@dataclass(frozen=True)
class _EnrichmentRequest:
    """The arguments of an enrichment, and the location of the call."""

    location: SourceLocation
    name: str

    @property
    def where(self) -> str:
        return f"{self.location}: enrich {self.name!r}"

    def declaration_error(self, message: str) -> DeclarationError:
        return DeclarationError(f"{self.where}: {message}")

    def validate_inputs(self, stream: object, table: object, kind: str) -> None:
        if not isinstance(stream, Stream):
            raise self.declaration_error(
                f"{type(stream).__name__} is not a stream. Give an hr.Stream, or the .out of a join."
            )
        if not isinstance(table, Table):
            raise self.declaration_error(
                f'{type(table).__name__} is not a table. Give hr.Table("merchants.parquet", key="merchant"); '
                "for a stream of changes write hr.join_asof."
            )
        if kind not in get_args(EnrichKind):
            raise self.declaration_error(f"kind={kind!r}. Write one of {', '.join(get_args(EnrichKind))}.")
        if KNOWN_AT in stream.schema and stream.arrival != KNOWN_AT:
            raise self.declaration_error(
                f"stream {stream.name!r} has a column {KNOWN_AT!r} of its own, which is its events' arrival here. "
                "Rename that column."
            )

    def resolve_key_column(self, stream: Stream, table: Table, on: object) -> str:
        """The stream's column that holds the table's key."""
        stream_column, table_column = on if isinstance(on, tuple) and len(on) == 2 else (on, table.key)
        if table_column != table.key:
            raise self.declaration_error(
                f"on={on!r}, but rows of {table.path.name} are found by their key {table.key!r}."
            )
        key_column = stream.schema.column(stream_column, f"{self.where}: on: {stream.name}")
        if key_column.kind is not table.key_kind:
            raise self.declaration_error(
                f"{stream.name}.{key_column.name} is {key_column.type}, {table.path.name}'s {table.key} is "
                f"{table.key_kind.value}: they are never equal. Declare both with one type."
            )
        return key_column.name

    def name_output_columns(self, stream: Stream, table: Table, columns: Sequence[str], prefix: str) -> ColumnMapping:
        """The table's columns and their names in the output: with a prefix if a name is taken."""
        taken_names = {*stream.schema.names, KNOWN_AT}
        for column in columns:
            table.schema.column(column, f"{self.where}: columns")
        output_names = tuple((column, prefix + column if column in taken_names else column) for column in columns)
        outputs = [output for _, output in output_names]
        for output in outputs:
            if output in taken_names or outputs.count(output) > 1:
                raise self.declaration_error(
                    f'there would be two columns {output!r}. Write prefix="other_", or columns=[…].'
                )
        return output_names

    def build_stream(self, stream: Stream, enrichment: Enrichment) -> DerivedStream:
        stream_columns = [(column.name, column.type) for column in stream.schema if column.name != KNOWN_AT]
        schema = enrichment.table.schema
        table_columns = [(output, schema.column(column, self.where).type) for column, output in enrichment.columns]
        settings: dict[str, Any] = {
            "schema": ", ".join(
                f"`{name}` {type}" for name, type in [*stream_columns, *table_columns, (KNOWN_AT, "timestamp")]
            ),
            "late": stream.late,
            "ahead": duration_text(stream.ahead_us),
            "partitions": stream.partitions,
        }
        try:
            key, time = stream.key, stream.time
            return DerivedStream(
                self.name, made_by=enrichment, id=stream.id, key=key, time=time, arrival=KNOWN_AT, **settings
            )
        except DeclarationError as error:
            raise DeclarationError(f"{self.location}: {error}") from error
