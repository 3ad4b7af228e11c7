"""Scripts: events, time, crashes and the expected rows; without Spark, or also with it.

>>> import headrace as hr
>>> clicks = hr.Stream("clicks", schema="id string, user string, at timestamp", id="id", key="user", time="at")
>>> visits = hr.windowed("visits", clicks, by="user", over=hr.Session("30m"), late=hr.Late("2m"), clicks=hr.count())
>>> script = hr.testing.script(visits)
>>> script = script.at("12:00").send(user="u1").at("12:10").send(user="u1").kill().watermark("12:43")
>>> script = script.expect(out=[{"user": "u1", "window_start": "12:00", "window_end": "12:40", "clicks": 2}])
>>> script.at("12:20").late(by="1h").send(user="u1").watermark("13:30").expect(out=[{"clicks": 2}], late=[{"id": "e3"}])
Script of visits: 3 events, the watermark at 13:30:00
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from typing import Any, Self

from headrace.declare.durations import duration_us
from headrace.declare.operations.derived_stream import DerivedStream, StreamOperation
from headrace.declare.streams.schema import Kind
from headrace.declare.streams.stream import Stream
from headrace.operators.operator import InputEvent
from headrace.testing.scripts.differences import describe_differences
from headrace.testing.scripts.pure_host import PureHost
from headrace.testing.scripts.steps import (
    KillStep,
    OutputRow,
    RowsByOutput,
    ScriptHost,
    ScriptStep,
    UnfitScript,
    WatermarkStep,
)
from headrace.testing.scripts.times import format_script_time, parse_script_time
from headrace.tiles.events.event_json import require_row, row_to_json
from headrace.tiles.events.event_parser import InvalidEventError
from headrace.tiles.events.record_classification import RawRecord, classify_records
from headrace.tiles.finish import to_datetime


def script(of: DerivedStream | Sequence[DerivedStream]) -> "Script":
    """A script of an operation: of the result of `hr.windowed`, a pattern or a join, or of one of its streams."""
    outputs = [of] if isinstance(of, DerivedStream) else list(of) if isinstance(of, tuple) else []
    made_by = {stream.made_by for stream in outputs if isinstance(stream, DerivedStream)}
    operations = [derivation for derivation in made_by if isinstance(derivation, StreamOperation)]
    if len(operations) != 1:
        raise UnfitScript(
            f"{of!r} is not the result of one operation. "
            "Give the result of hr.windowed, a pattern or a join, or one of its streams."
        )
    return Script(operations[0], tuple(outputs))


@dataclass
class Script:
    """Events, watermarks and crashes in their order."""

    operation: StreamOperation
    outputs: tuple[DerivedStream, ...]
    acts: list[ScriptStep] = field(default_factory=list)
    _now_us: int = 0
    _late_us: int = 0
    _clock_us: int = 0
    _hosts: list[ScriptHost] = field(default_factory=lambda: [PureHost()])
    _found: tuple[int, int, RowsByOutput] | None = None  # the rows for this number of steps and hosts

    def __repr__(self) -> str:
        sent_count = sum(isinstance(step, InputEvent) for step in self.acts)
        return (
            f"Script of {self.operation.name}: {sent_count} events, the watermark at "
            f"{format_script_time(self._clock_us)}"
        )

    def at(self, time: str | datetime) -> Self:
        """Set the clock: events sent now happen now, and arrive at once."""
        self._now_us, self._late_us = parse_script_time(time), 0
        return self

    def late(self, *, by: str) -> Self:
        """The next event happens now, and arrives this much later."""
        self._late_us = duration_us(by, "late: by")
        return self

    def send(self, stream: Stream | str | None = None, /, **values: Any) -> Self:
        """Send an event of a stream (default: the only input); missing id and time are filled in.

        The stream's gate validates it: an invalid event is refused here, one that is too late for the gate is dropped.
        """
        input_index = self._input_index(stream)
        arrival_us, self._late_us = self._now_us + self._late_us, 0
        if arrival_us < self._clock_us:
            raise UnfitScript(
                f"The watermark is at {format_script_time(self._clock_us)}, and "
                f"this event "
                f"arrives at {format_script_time(arrival_us)}. Send it before, or with .late(by=…)."
            )
        self.acts += self._classify_event(input_index, values, arrival_us)
        return self

    def watermark(self, time: str | datetime) -> Self:
        """Everything that arrived before a time has been read: timers due by then fire."""
        at_us = parse_script_time(time)
        if at_us < self._clock_us:
            raise UnfitScript(
                f"watermark({time!r}): the watermark is at {format_script_time(self._clock_us)}, and never goes back."
            )
        self._clock_us = at_us
        self.acts.append(WatermarkStep(at_us))
        return self

    def kill(self) -> Self:
        """Crash between writing output and committing state: everything since the last watermark is replayed."""
        self.acts.append(KillStep())
        return self

    def on(self, spark: Any, broker: str) -> Self:
        """Also play the script on Spark and a broker: both must give the same rows."""
        spark_host = import_module(
            "headrace.testing.scripts.spark_host"
        )  # imports Spark, only for those who ask for it
        self._hosts.append(spark_host.SparkHost(spark, broker))
        return self

    def rows(self, output: str = "out") -> list[OutputRow]:
        """The rows of an output so far, times as datetimes."""
        stream = self._output_stream(output)
        times = {column.name for column in stream.schema if column.kind is Kind.TIMESTAMP}
        return [
            {name: to_datetime(value) if name in times and value is not None else value for name, value in row.items()}
            for row in self._played_rows()[output]
        ]

    def expect(self, **outputs: Sequence[Mapping[str, Any]]) -> Self:
        """Each named output must have exactly these rows, in any order; only the named columns are compared."""
        rows = self._played_rows()
        differences = [
            difference
            for output, expected in outputs.items()
            for difference in describe_differences(self._output_stream(output), rows[output], expected)
        ]
        if differences:
            raise AssertionError("\n".join([repr(self), *differences]))
        return self

    def _played_rows(self) -> RowsByOutput:
        play_state = len(self.acts), len(self._hosts)
        if self._found is None or self._found[:2] != play_state:
            self._found = *play_state, self._play_on_hosts()
        return self._found[2]

    def _play_on_hosts(self) -> RowsByOutput:
        """Play the script on every host, which must give the same rows."""
        pure_rows, *other_hosts_rows = [host.play(self.operation, self.outputs, self.acts) for host in self._hosts]
        for rows in other_hosts_rows:
            for stream in self.outputs:
                if differences := list(describe_differences(stream, rows[stream.output], pure_rows[stream.output])):
                    raise AssertionError("\n".join(["another host gives different rows:", *differences]))
        return pure_rows

    def _output_stream(self, output: str) -> DerivedStream:
        for stream in self.outputs:
            if stream.output == output:
                return stream
        output_names = ", ".join(stream.output for stream in self.outputs)
        raise UnfitScript(f"{self.operation.name} has no output {output!r} here. It has {output_names}.")

    def _input_index(self, stream: Stream | str | None) -> int:
        names = [input_stream.name for input_stream in self.operation.inputs]
        name = stream.name if isinstance(stream, Stream) else stream
        if name is None and len(names) == 1:
            return 0
        if name not in names:
            raise UnfitScript(f"{name!r} is no stream that {self.operation.name} reads. Send to {' or '.join(names)}.")
        return names.index(name)

    def _classify_event(self, input_index: int, values: Mapping[str, Any], arrival_us: int) -> Iterator[InputEvent]:
        stream = self.operation.inputs[input_index]
        offset = sum(isinstance(step, InputEvent) for step in self.acts)
        event_fields = self._default_values(stream, offset + 1, arrival_us) | dict(values)
        try:
            value = row_to_json(stream.schema, require_row(stream.schema, event_fields))
        except InvalidEventError as error:
            raise UnfitScript(f"send({values}): {stream.name}: {error}.") from None
        (result,) = classify_records(stream, [RawRecord(value, arrival_us)])
        if result.fate == "dead" or result.event is None:
            raise UnfitScript(f"send({values}): the gate of {stream.name!r} makes it a dead letter: {result.reason}.")
        if result.fate == "clean":
            event = result.event
            yield InputEvent(input_index, event[stream.id], event[stream.time], arrival_us, 0, offset, event)

    def _default_values(self, stream: Stream, number: int, arrival_us: int) -> OutputRow:
        is_text = stream.schema.column(stream.id, "id").kind is Kind.STRING
        defaults = {stream.id: f"e{number}" if is_text else number, stream.time: to_datetime(self._now_us)}
        return defaults if stream.arrival is None else {stream.arrival: to_datetime(arrival_us)} | defaults
