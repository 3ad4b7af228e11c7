"""`hr.enrich`: each event of a stream with what a table says of one of its columns.

payments.clean ──▶ merchant "m7" ──▶ the row of "m7" in merchants.parquet ──▶ known: the payment, and its columns
                                     as the file is now; read again when it changes
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from headrace.declare.derivation import KNOWN_AT, Derivation, Derived
from headrace.declare.durations import duration_text
from headrace.declare.join_inputs import Names
from headrace.declare.source_lines import Written, written_here
from headrace.declare.stream import Stream
from headrace.declare.table import Table
from headrace.errors import DeclarationError

EnrichKind = Literal["inner", "left"]


@dataclass(frozen=True)
class Enrichment(Derivation):
    """Events with some columns of the row of a table that one of theirs names: `columns`, and what they are called."""

    table: Table
    by: str
    columns: Names
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
) -> Derived:
    """Declare a stream of the same events, each with the columns of the table's row that its column `on` names.

    An event whose row is not there has nulls; with kind="inner" it is left out.
    """
    asked = _Asked(written_here(), name)
    asked.require(stream, table, kind)
    by = asked.by(stream, table, on)
    wanted = tuple(column for column in (columns or table.schema.names) if column != table.key)
    names = asked.named(stream, table, wanted, prefix or f"{table.path.stem}_")
    made_by = Enrichment(name, (stream,), asked.written, table, by, names, kind)
    return asked.derived(stream, made_by)


@dataclass(frozen=True)
class _Asked:
    """An enrichment as it is asked for, and where."""

    written: Written
    name: str

    @property
    def where(self) -> str:
        return f"{self.written}: enrich {self.name!r}"

    def refused(self, sentence: str) -> DeclarationError:
        return DeclarationError(f"{self.where}: {sentence}")

    def require(self, stream: object, table: object, kind: str) -> None:
        if not isinstance(stream, Stream):
            raise self.refused(f"{type(stream).__name__} is not a stream. Give an hr.Stream, or the .out of a join.")
        if not isinstance(table, Table):
            raise self.refused(
                f'{type(table).__name__} is not a table. Give hr.Table("merchants.parquet", key="merchant"); '
                "for a stream of changes write hr.join_asof."
            )
        if kind not in get_args(EnrichKind):
            raise self.refused(f"kind={kind!r}. Write one of {', '.join(get_args(EnrichKind))}.")
        if KNOWN_AT in stream.schema and stream.arrival != KNOWN_AT:
            raise self.refused(
                f"stream {stream.name!r} has a column {KNOWN_AT!r} of its own, which is its events' arrival here. "
                "Rename that column."
            )

    def by(self, stream: Stream, table: Table, on: object) -> str:
        """The stream's column that names a row."""
        ours, theirs = on if isinstance(on, tuple) and len(on) == 2 else (on, table.key)
        if theirs != table.key:
            raise self.refused(f"on={on!r}, but rows of {table.path.name} are found by their key {table.key!r}.")
        found = stream.schema.column(ours, f"{self.where}: on: {stream.name}")
        if found.kind is not table.key_kind:
            raise self.refused(
                f"{stream.name}.{found.name} is {found.type}, {table.path.name}'s {table.key} is "
                f"{table.key_kind.value}: they are never equal. Declare both with one type."
            )
        return found.name

    def named(self, stream: Stream, table: Table, columns: Sequence[str], prefix: str) -> Names:
        """The table's columns and their names in the output: where a name is taken, with a prefix."""
        taken = {*stream.schema.names, KNOWN_AT}
        for column in columns:
            table.schema.column(column, f"{self.where}: columns")
        names = tuple((column, prefix + column if column in taken else column) for column in columns)
        outputs = [output for _, output in names]
        for output in outputs:
            if output in taken or outputs.count(output) > 1:
                raise self.refused(f'there would be two columns {output!r}. Write prefix="other_", or columns=[…].')
        return names

    def derived(self, stream: Stream, made_by: Enrichment) -> Derived:
        ours = [(column.name, column.type) for column in stream.schema if column.name != KNOWN_AT]
        schema = made_by.table.schema
        theirs = [(output, schema.column(column, self.where).type) for column, output in made_by.columns]
        settings: dict[str, Any] = {
            "schema": ", ".join(f"`{name}` {type}" for name, type in [*ours, *theirs, (KNOWN_AT, "timestamp")]),
            "late": stream.late,
            "ahead": duration_text(stream.ahead_us),
            "partitions": stream.partitions,
        }
        try:
            key, time = stream.key, stream.time
            return Derived(self.name, made_by=made_by, id=stream.id, key=key, time=time, arrival=KNOWN_AT, **settings)
        except DeclarationError as refused:
            raise DeclarationError(f"{self.written}: {refused}") from refused
