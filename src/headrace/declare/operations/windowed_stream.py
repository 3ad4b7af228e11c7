"""`hr.windowed`: the events of a key in windows of any shape, with streams of results, late events and closed windows.

clicks.clean ──▶ visits          a row when a window closes, or on every event; then corrections
             ├─▶ visits-late     the events that arrived too late, each once
             └─▶ visits-closed   a row for each closed window: how many events, how many arrived too late
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from headrace.declare.durations import duration_text, duration_us
from headrace.declare.expressions import NUMBER_KINDS
from headrace.declare.features.aggregate_binding import bind_aggregate
from headrace.declare.features.aggregate_rules import aggregate_rules
from headrace.declare.features.aggregates import Aggregate, AggregateDeclaration
from headrace.declare.operations.derived_stream import KNOWN_AT, DerivedStream, StreamOperation
from headrace.declare.operations.window_shapes import Global, Session, WindowShape
from headrace.declare.source_location import locate_caller
from headrace.declare.streams.schema import TYPE_OF_KIND, Kind, Schema
from headrace.declare.streams.stream import Late, Stream
from headrace.errors import DeclarationError

Emit = Literal["close", "update"]

ID, RESULT_TIME = "id", "at"
WINDOW_COLUMNS = (("window_start", "timestamp"), ("window_end", "timestamp"))
RESULT_COLUMNS = (("kind", "string"), ("revision", "int"), ("is_final", "boolean"))
CLOSED_COLUMNS = (("events", "bigint"), ("late_rows", "bigint"), ("revisions", "int"))
LATENESS_COLUMN = "lateness_us"
EMIT_MARGIN_US = 2000  # a result is known a microsecond or two after its time, and durations are whole milliseconds
_RESERVED_COLUMNS = {ID, RESULT_TIME, KNOWN_AT, *(name for name, _ in (*WINDOW_COLUMNS, *RESULT_COLUMNS))}


class Measure(NamedTuple):
    """A column of the results: its name, its aggregate, its Spark type."""

    name: str
    aggregate: Aggregate
    type: str


@dataclass(frozen=True)
class Windowing:
    """The rows that windows of a key emit, and when; `every_us`: at most one row per window in that time."""

    over: WindowShape
    by: tuple[str, ...]
    schema: Schema
    measures: tuple[Measure, ...]
    late: Late
    emit: Emit
    every_us: int | None


class WindowOutputs(NamedTuple):
    """The output streams of a windowing: results, late events, and one row for each closed window."""

    out: DerivedStream
    late: DerivedStream
    closed: DerivedStream


def windowed(
    name: str,
    stream: Stream,
    *,
    by: str | Sequence[str],
    over: WindowShape,
    emit: Emit = "close",
    every: str | None = None,
    late: Late | None = None,
    idle: str = "5s",
    **aggregates: AggregateDeclaration,
) -> WindowOutputs:
    """Declare windows over a stream by key: `over` is their shape, the other keywords are the columns of a result.

    A row is emitted when a window closes, with emit="update" on every event, with every="10s" at most that often.
    """
    location = locate_caller()
    request = _WindowRequest(f"{location}: windowed {name!r}", stream)
    keys = request.parse_keys(by)
    spec = Windowing(
        over=request.validate_shape(over),
        by=keys,
        schema=stream.schema,
        measures=request.build_measures(aggregates, keys),
        late=request.resolve_late(late),
        emit=request.parse_emit(emit, every, over),
        every_us=None if every is None else duration_us(every, f"{request.where}: every"),
    )
    idle_us = duration_us(idle, f"{request.where}: idle")
    operation = StreamOperation(name, (stream,), location, by=(keys,), spec=spec, idle_us=idle_us)
    try:
        return WindowOutputs(
            _build_result_stream(operation, spec), _build_late_stream(operation), _build_closed_stream(operation, spec)
        )
    except DeclarationError as error:
        raise DeclarationError(f"{location}: {error}") from error


class _WindowRequest(NamedTuple):
    """Validates the arguments of `windowed`, and names the location of the call in errors."""

    where: str
    stream: Stream

    def parse_keys(self, by: object) -> tuple[str, ...]:
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
            if key in {*_RESERVED_COLUMNS, *(name for name, _ in CLOSED_COLUMNS)}:
                raise DeclarationError(
                    f"{self.where}: by={key!r} has the name of a column of the results. Rename that column."
                )
        return keys

    def validate_shape(self, over: object) -> WindowShape:
        if not isinstance(over, WindowShape):
            raise DeclarationError(
                f'{self.where}: over={over!r} is no shape of windows. Write hr.Tumbling("1m"), '
                'hr.Sliding("10m", every="1m"), hr.Session("30m") or hr.Global().'
            )
        if isinstance(over, Session) and over.gap_column is not None:
            column = self.stream.schema.column(over.gap_column, f"{self.where}: gap_column")
            if column.kind not in NUMBER_KINDS:
                raise DeclarationError(
                    f"{self.where}: gap_column={column.name!r} is {column.type}. Give the gap as a number of seconds."
                )
        return over

    def parse_emit(self, emit: object, every: str | None, over: WindowShape) -> Emit:
        if emit not in get_args(Emit):
            raise DeclarationError(f'{self.where}: emit={emit!r}. Write "close" or "update", or every="10s".')
        if emit == "update" and every is not None:
            raise DeclarationError(
                f'{self.where}: emit="update" emits on every event, every={every!r} fewer. Leave one of them out.'
            )
        if emit == "close" and every is None and isinstance(over, Global):
            raise DeclarationError(
                f"{self.where}: hr.Global() never closes, so nothing would be emitted. "
                'Write emit="update" or every="10s".'
            )
        return "update" if emit == "update" else "close"

    def resolve_late(self, late: object) -> Late:
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

    def build_measures(self, aggregates: Mapping[str, object], keys: Sequence[str]) -> tuple[Measure, ...]:
        if not aggregates:
            raise DeclarationError(f"{self.where}: no columns to emit. Write a column, such as clicks=hr.count().")
        for name in aggregates:
            if name in _RESERVED_COLUMNS or name in keys:
                raise DeclarationError(f"{self.where}: {name}= has the name of another column of it. Rename it.")
        return tuple(self._build_measure(name, declaration) for name, declaration in aggregates.items())

    def _build_measure(self, name: str, declaration: object) -> Measure:
        where = f"{self.where}: {name}"
        if not isinstance(declaration, AggregateDeclaration):
            raise DeclarationError(
                f"{where}={declaration!r} is no aggregate. Write hr.count(), hr.sum(…), … or remove it."
            )
        if declaration.windows or declaration.hop:
            raise DeclarationError(f"{where}: its windows are those of over=. Leave windows= and hop= out.")
        rules = aggregate_rules(declaration.function)
        if rules.why_not_windowed:
            reason = rules.why_not_windowed.format(column=declaration.column)
            raise DeclarationError(f"{where}: {rules.call_name} cannot be a column: {reason}")
        aggregate = bind_aggregate(declaration, self.stream.schema, where)
        return Measure(name, aggregate, _result_type(aggregate, self.stream.schema))


def _result_type(aggregate: Aggregate, schema: Schema) -> str:
    result = aggregate.result_type
    return schema.column(aggregate.column, "").type if result.is_column_value else TYPE_OF_KIND[result.kind]


def _build_result_stream(operation: StreamOperation, spec: Windowing) -> DerivedStream:
    measures = [(measure.name, measure.type) for measure in spec.measures]
    return _build_row_stream(
        operation, spec, operation.name, "out", (*RESULT_COLUMNS, *measures), _result_late_policy(spec)
    )


def _build_closed_stream(operation: StreamOperation, spec: Windowing) -> DerivedStream:
    return _build_row_stream(
        operation, spec, f"{operation.name}-closed", "closed", CLOSED_COLUMNS, _result_late_policy(spec)
    )


def _build_row_stream(
    operation: StreamOperation, spec: Windowing, name: str, output: str, columns: Sequence[tuple[str, str]], late: Late
) -> DerivedStream:
    """A stream of rows about windows."""
    (stream,) = operation.inputs
    keys = [(key, stream.schema.column(key, name).type) for key in spec.by]
    return DerivedStream(
        name,
        made_by=operation,
        output=output,
        schema=_ddl(
            [(ID, "string"), *keys, *WINDOW_COLUMNS, *columns, (RESULT_TIME, "timestamp"), (KNOWN_AT, "timestamp")]
        ),
        id=ID,
        key=spec.by[0],
        time=RESULT_TIME,
        arrival=KNOWN_AT,
        late=late,
        partitions=stream.partitions,
    )


def _result_late_policy(spec: Windowing) -> Late:
    """A row's time is the last at which an event could belong to its window: its late policy is that of the windows."""
    extra_us = EMIT_MARGIN_US + (spec.every_us or 0) + _retraction_period_us(spec)
    after = _round_up_duration(spec.late.after_us + extra_us)
    if spec.late.then != "update":
        return Late(after)
    return Late(after, then="update", until=_round_up_duration(spec.late.until_us + extra_us))


def _retraction_period_us(spec: Windowing) -> int:
    """How long after its time an early row may be retracted: a session that grows."""
    if not isinstance(spec.over, Session) or (spec.emit == "close" and spec.every_us is None):
        return 0
    return spec.over.longest_us or spec.over.gap_us or 0


def _build_late_stream(operation: StreamOperation) -> DerivedStream:
    """The stream of late events, unchanged, with their lateness."""
    (stream,) = operation.inputs
    name = f"{operation.name}-late"
    if (ID in stream.schema and stream.id != ID) or LATENESS_COLUMN in stream.schema:
        column = LATENESS_COLUMN if LATENESS_COLUMN in stream.schema else ID
        raise DeclarationError(
            f"{name}: stream {stream.name!r} has a column {column!r} of its own, which is the name of one here. "
            "Rename that column."
        )
    event_columns = [(column.name, column.type) for column in stream.schema if column.name not in (ID, KNOWN_AT)]
    return DerivedStream(
        name,
        made_by=operation,
        output="late",
        schema=_ddl([(ID, "string"), *event_columns, (LATENESS_COLUMN, "bigint"), (KNOWN_AT, "timestamp")]),
        id=ID,
        key=stream.key,
        time=stream.time,
        arrival=KNOWN_AT,
        late=Late(_round_up_duration(stream.late.until_us)),
        ahead=_round_up_duration(stream.ahead_us),
        partitions=stream.partitions,
    )


def _ddl(columns: Sequence[tuple[str, Any]]) -> str:
    return ", ".join(f"`{name}` {type}" for name, type in columns)


def _round_up_duration(length_us: int) -> str:
    """A duration, rounded up to a millisecond."""
    return duration_text(-(-length_us // 1000) * 1000)
