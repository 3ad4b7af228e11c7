"""`hr.windowed`: the events of a key in windows of any shape, as streams of results, of late events, of closings.

clicks.clean ──▶ visits          a row when a window closes, or on every event; corrections after it
             ├─▶ visits-late     the rows that came too late, each once
             └─▶ visits-closed   a row a window that closed: how many events, how many came too late
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from headrace.declare.aggregates import Aggregate, Declared
from headrace.declare.binding import bind
from headrace.declare.derivation import KNOWN_AT, Derived, Operation
from headrace.declare.durations import duration_text, duration_us
from headrace.declare.expressions import NUMBERS
from headrace.declare.schema import Kind, Schema
from headrace.declare.shapes import Global, Session, Shape
from headrace.declare.source_lines import written_here
from headrace.declare.stream import Late, Stream
from headrace.errors import DeclarationError

Emit = Literal["close", "update"]

ID, AT = "id", "at"
WINDOW = (("window_start", "timestamp"), ("window_end", "timestamp"))
OF_RESULTS = (("kind", "string"), ("revision", "int"), ("is_final", "boolean"))
OF_CLOSINGS = (("events", "bigint"), ("late_rows", "bigint"), ("revisions", "int"))
LATENESS = "lateness_us"
MARGIN_US = 2000  # what is known is known a microsecond or two after its time, and durations are whole milliseconds
_TAKEN = {ID, AT, KNOWN_AT, *(name for name, _ in (*WINDOW, *OF_RESULTS))}
_NO_COLUMN = {
    "top": 'it is a list. Write hr.first, hr.last or hr.count(where="… = …") for one value, or a view for the list.',
    "count_by": 'it is a map. Write one hr.count(where="{column} = …") a value, or a view for the map.',
    "ewm": 'what fades has no end to be told at. Write hr.mean("{column}"), or hr.ewm in a view.',
}


class Measure(NamedTuple):
    """A column of the results: its name, its aggregate, its Spark type."""

    name: str
    aggregate: Aggregate
    type: str


@dataclass(frozen=True)
class Windowing:
    """What is told of the windows of a key, and when; `every_us`: at most one row each so long of the clock."""

    over: Shape
    by: tuple[str, ...]
    schema: Schema
    measures: tuple[Measure, ...]
    late: Late
    emit: Emit
    every_us: int | None


class Windowed(NamedTuple):
    """The streams of a windowing: its results, the events that came too late, what is known of closed windows."""

    out: Derived
    late: Derived
    closed: Derived


def windowed(
    name: str,
    stream: Stream,
    *,
    by: str | Sequence[str],
    over: Shape,
    emit: Emit = "close",
    every: str | None = None,
    late: Late | None = None,
    idle: str = "5s",
    **aggregates: Declared,
) -> Windowed:
    """Declare windows over a stream by key: `over` is their shape, the other words are the columns of a result.

    A row is told when a window closes, with emit="update" on every event, with every="10s" as often at most.
    """
    written = written_here()
    asked = _Asked(f"{written}: windowed {name!r}", stream)
    keys = asked.keys(by)
    what = Windowing(
        over=asked.shape(over),
        by=keys,
        schema=stream.schema,
        measures=asked.measures(aggregates, keys),
        late=asked.late(late),
        emit=asked.emit(emit, every, over),
        every_us=None if every is None else duration_us(every, f"{asked.where}: every"),
    )
    idle_us = duration_us(idle, f"{asked.where}: idle")
    made_by = Operation(name, (stream,), written, by=(keys,), what=what, idle_us=idle_us)
    try:
        return Windowed(_out(made_by, what), _late(made_by), _closed(made_by, what))
    except DeclarationError as refused:
        raise DeclarationError(f"{written}: {refused}") from refused


class _Asked(NamedTuple):
    """What is asked for, and where it is written: what can be had of it, or the reason why not."""

    where: str
    stream: Stream

    def keys(self, by: object) -> tuple[str, ...]:
        keys = (by,) if isinstance(by, str) else tuple(by) if isinstance(by, list | tuple) else ()
        if not keys or any(keys.count(key) > 1 for key in keys):
            raise DeclarationError(
                f"{self.where}: by={by!r}. Write one column, or several different ones: "
                'by="user" or by=["user", "shop"].'
            )
        for key in keys:
            if self.stream.schema.column(key, f"{self.where}: by").kind is Kind.DOUBLE:
                raise DeclarationError(
                    f"{self.where}: by={key!r} is a double. "
                    "Group by a string, a whole number, a boolean or a timestamp."
                )
            if key in {*_TAKEN, *(name for name, _ in OF_CLOSINGS)}:
                raise DeclarationError(
                    f"{self.where}: by={key!r} has the name of a column of the results. Rename that column."
                )
        return keys

    def shape(self, over: object) -> Shape:
        if not isinstance(over, Shape):
            raise DeclarationError(
                f'{self.where}: over={over!r} is no shape of windows. Write hr.Tumbling("1m"), '
                'hr.Sliding("10m", every="1m"), hr.Session("30m") or hr.Global().'
            )
        if isinstance(over, Session) and over.gap_column is not None:
            column = self.stream.schema.column(over.gap_column, f"{self.where}: gap_column")
            if column.kind not in NUMBERS:
                raise DeclarationError(
                    f"{self.where}: gap_column={column.name!r} is {column.type}. Give the gap as a number of seconds."
                )
        return over

    def emit(self, emit: object, every: str | None, over: Shape) -> Emit:
        if emit not in get_args(Emit):
            raise DeclarationError(f'{self.where}: emit={emit!r}. Write "close" or "update", or every="10s".')
        if emit == "update" and every is not None:
            raise DeclarationError(
                f'{self.where}: emit="update" tells every event, every={every!r} fewer. Leave one of them out.'
            )
        if emit == "close" and every is None and isinstance(over, Global):
            raise DeclarationError(
                f'{self.where}: hr.Global() never closes, so nothing would be told. Write emit="update" or every="10s".'
            )
        return "update" if emit == "update" else "close"

    def late(self, late: object) -> Late:
        if late is None:
            return self.stream.late
        if not isinstance(late, Late):
            raise DeclarationError(
                f'{self.where}: late={late!r} is not a policy. Write late=hr.Late("2m", then="side_output").'
            )
        if late.until_us > self.stream.late.until_us:
            raise DeclarationError(
                f"{self.where}: late= goes up to {duration_text(late.until_us)}, but the gate of {self.stream.name!r} "
                f"lets nothing pass that is later than {duration_text(self.stream.late.until_us)}. "
                "Write a shorter one here, or a longer late= for the stream."
            )
        return late

    def measures(self, aggregates: Mapping[str, object], keys: Sequence[str]) -> tuple[Measure, ...]:
        if not aggregates:
            raise DeclarationError(f"{self.where}: nothing to tell. Write a column, such as clicks=hr.count().")
        for name in aggregates:
            if name in _TAKEN or name in keys:
                raise DeclarationError(f"{self.where}: {name}= has the name of another column of it. Rename it.")
        return tuple(self._measure(name, declared) for name, declared in aggregates.items())

    def _measure(self, name: str, declared: object) -> Measure:
        where = f"{self.where}: {name}"
        if not isinstance(declared, Declared):
            raise DeclarationError(
                f"{where}={declared!r} is no aggregate. Write hr.count(), hr.sum(…), … or remove it."
            )
        if declared.windows or declared.hop:
            raise DeclarationError(f"{where}: its windows are those of over=. Leave windows= and hop= out.")
        if declared.function in _NO_COLUMN:
            why = _NO_COLUMN[declared.function].format(column=declared.column)
            raise DeclarationError(f"{where}: hr.{declared.function.split('_')[0]} cannot be a column: {why}")
        aggregate = bind(declared, self.stream.schema, where)
        return Measure(name, aggregate, _type_of(aggregate, self.stream.schema))


def _type_of(aggregate: Aggregate, schema: Schema) -> str:
    match aggregate.function, aggregate.kind:
        case ("count" | "distinct", _) | ("sum", Kind.INTEGER):
            return "bigint"
        case "min" | "max" | "first" | "last", _:
            return schema.column(aggregate.column, "").type
    return "double"


def _out(made_by: Operation, what: Windowing) -> Derived:
    measures = [(measure.name, measure.type) for measure in what.measures]
    return _told(made_by, what, made_by.name, "out", (*OF_RESULTS, *measures), _lateness_of_results(what))


def _closed(made_by: Operation, what: Windowing) -> Derived:
    return _told(made_by, what, f"{made_by.name}-closed", "closed", OF_CLOSINGS, _lateness_of_results(what))


def _told(
    made_by: Operation, what: Windowing, name: str, output: str, columns: Sequence[tuple[str, str]], late: Late
) -> Derived:
    """A stream of rows about windows."""
    (stream,) = made_by.inputs
    keys = [(key, stream.schema.column(key, name).type) for key in what.by]
    return Derived(
        name,
        made_by=made_by,
        output=output,
        schema=_ddl([(ID, "string"), *keys, *WINDOW, *columns, (AT, "timestamp"), (KNOWN_AT, "timestamp")]),
        id=ID,
        key=what.by[0],
        time=AT,
        arrival=KNOWN_AT,
        late=late,
        partitions=stream.partitions,
    )


def _lateness_of_results(what: Windowing) -> Late:
    """A row's time is the last at which an event could still belong to its window: it is late by the windows' own."""
    more_us = MARGIN_US + (what.every_us or 0) + _reach_us(what)
    after = _text(what.late.after_us + more_us)
    if what.late.then != "update":
        return Late(after)
    return Late(after, then="update", until=_text(what.late.until_us + more_us))


def _reach_us(what: Windowing) -> int:
    """How long after its time a row that was told early may be taken back: a session that grows."""
    if not isinstance(what.over, Session) or (what.emit == "close" and what.every_us is None):
        return 0
    return what.over.longest_us or what.over.gap_us or 0


def _late(made_by: Operation) -> Derived:
    """The events that came too late, as they came, and by how much."""
    (stream,) = made_by.inputs
    name = f"{made_by.name}-late"
    if (ID in stream.schema and stream.id != ID) or LATENESS in stream.schema:
        column = LATENESS if LATENESS in stream.schema else ID
        raise DeclarationError(
            f"{name}: stream {stream.name!r} has a column {column!r} of its own, which is the name of one here. "
            "Rename that column."
        )
    own = [(column.name, column.type) for column in stream.schema if column.name not in (ID, KNOWN_AT)]
    return Derived(
        name,
        made_by=made_by,
        output="late",
        schema=_ddl([(ID, "string"), *own, (LATENESS, "bigint"), (KNOWN_AT, "timestamp")]),
        id=ID,
        key=stream.key,
        time=stream.time,
        arrival=KNOWN_AT,
        late=Late(_text(stream.late.until_us)),
        ahead=_text(stream.ahead_us),
        partitions=stream.partitions,
    )


def _ddl(columns: Sequence[tuple[str, Any]]) -> str:
    return ", ".join(f"`{name}` {type}" for name, type in columns)


def _text(length_us: int) -> str:
    """A duration, to the next millisecond."""
    return duration_text(-(-length_us // 1000) * 1000)
