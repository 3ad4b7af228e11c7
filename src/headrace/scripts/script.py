"""Scripts: what is sent, how time passes, where it is killed, and what must come of it; without Spark, or with it too.

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

from headrace.declare.derivation import Derived, Operation
from headrace.declare.durations import duration_us
from headrace.declare.schema import Kind
from headrace.declare.stream import Stream
from headrace.operators.operator import Arrived
from headrace.scripts.acts import Act, Host, Kill, Row, Rows, UnfitScript, Watermark
from headrace.scripts.differences import difference
from headrace.scripts.pure import Pure
from headrace.scripts.times import clock_text, time_us
from headrace.tiles.admission import Record, admit
from headrace.tiles.event_json import json_of, require_row
from headrace.tiles.events import Unreadable
from headrace.tiles.finish import moment


def script(of: Derived | Sequence[Derived]) -> "Script":
    """A script of an operation: of what `hr.windowed`, a pattern or a join gave, or of one of its streams."""
    outputs = [of] if isinstance(of, Derived) else list(of) if isinstance(of, tuple) else []
    made_by = {stream.made_by for stream in outputs if isinstance(stream, Derived)}
    operations = [one for one in made_by if isinstance(one, Operation)]
    if len(operations) != 1:
        raise UnfitScript(
            f"{of!r} is not made by one operation. "
            "Give what hr.windowed, a pattern or a join gave, or one stream of it."
        )
    return Script(operations[0], tuple(outputs))


@dataclass
class Script:
    """Events, time and crashes in the order they happen."""

    operation: Operation
    outputs: tuple[Derived, ...]
    acts: list[Act] = field(default_factory=list)
    _now_us: int = 0
    _late_us: int = 0
    _clock_us: int = 0
    _hosts: list[Host] = field(default_factory=lambda: [Pure()])
    _found: tuple[int, int, Rows] | None = None  # what was made when so many acts were played on so many hosts

    def __repr__(self) -> str:
        sent = sum(isinstance(act, Arrived) for act in self.acts)
        return f"Script of {self.operation.name}: {sent} events, the watermark at {clock_text(self._clock_us)}"

    def at(self, time: str | datetime) -> Self:
        """It is so late: what is sent happens now, and arrives at once."""
        self._now_us, self._late_us = time_us(time), 0
        return self

    def late(self, *, by: str) -> Self:
        """What is sent next happens now, and arrives so much later."""
        self._late_us = duration_us(by, "late: by")
        return self

    def send(self, stream: Stream | str | None = None, /, **values: Any) -> Self:
        """An event of a stream, of the only one if there is one; what it does not say of id and time is filled in.

        The stream's gate judges it: what is wrong is refused here, what is too late for the gate does not arrive.
        """
        source = self._source(stream)
        arrival_us, self._late_us = self._now_us + self._late_us, 0
        if arrival_us < self._clock_us:
            raise UnfitScript(
                f"The watermark says that all is here that arrived before {clock_text(self._clock_us)}, and this event "
                f"arrives at {clock_text(arrival_us)}. Send it before, or with .late(by=…)."
            )
        self.acts += self._admitted(source, values, arrival_us)
        return self

    def watermark(self, time: str | datetime) -> Self:
        """Everything that arrived before a time is here: what was due by then is told."""
        at_us = time_us(time)
        if at_us < self._clock_us:
            raise UnfitScript(f"watermark({time!r}): it stands at {clock_text(self._clock_us)}, and never goes back.")
        self._clock_us = at_us
        self.acts.append(Watermark(at_us))
        return self

    def kill(self) -> Self:
        """It is killed after it has written what it made, before it has kept it: all since the last watermark again."""
        self.acts.append(Kill())
        return self

    def on(self, spark: Any, broker: str) -> Self:
        """Play it on Spark and a broker as well: both must give the same."""
        scripted = import_module("headrace.stream.scripted")  # brings Spark along, only for those who ask for it
        self._hosts.append(scripted.OnSpark(spark, broker))
        return self

    def rows(self, output: str = "out") -> list[Row]:
        """What an output has by now, times as datetimes."""
        stream = self._stream(output)
        times = {column.name for column in stream.schema if column.kind is Kind.TIMESTAMP}
        return [
            {name: moment(value) if name in times and value is not None else value for name, value in row.items()}
            for row in self._played()[output]
        ]

    def expect(self, **outputs: Sequence[Mapping[str, Any]]) -> Self:
        """Each output named must have just these rows, in any order; of a row only the columns named are looked at."""
        rows = self._played()
        differences = [
            told
            for output, expected in outputs.items()
            for told in difference(self._stream(output), rows[output], expected)
        ]
        if differences:
            raise AssertionError("\n".join([repr(self), *differences]))
        return self

    def _played(self) -> Rows:
        played = len(self.acts), len(self._hosts)
        if self._found is None or self._found[:2] != played:
            self._found = *played, self._made()
        return self._found[2]

    def _made(self) -> Rows:
        """What every host makes of it, which must be the same."""
        pure, *others = [host.play(self.operation, self.outputs, self.acts) for host in self._hosts]
        for rows in others:
            for stream in self.outputs:
                if told := list(difference(stream, rows[stream.output], pure[stream.output])):
                    raise AssertionError("\n".join(["played elsewhere it makes other rows than here:", *told]))
        return pure

    def _stream(self, output: str) -> Derived:
        for stream in self.outputs:
            if stream.output == output:
                return stream
        there = ", ".join(stream.output for stream in self.outputs)
        raise UnfitScript(f"{self.operation.name} has no output {output!r} here. It has {there}.")

    def _source(self, stream: Stream | str | None) -> int:
        names = [one.name for one in self.operation.inputs]
        name = stream.name if isinstance(stream, Stream) else stream
        if name is None and len(names) == 1:
            return 0
        if name not in names:
            raise UnfitScript(f"{name!r} is no stream that {self.operation.name} reads. Send to {' or '.join(names)}.")
        return names.index(name)

    def _admitted(self, source: int, values: Mapping[str, Any], arrival_us: int) -> Iterator[Arrived]:
        stream = self.operation.inputs[source]
        offset = sum(isinstance(act, Arrived) for act in self.acts)
        body = self._filled(stream, offset + 1, arrival_us) | dict(values)
        try:
            value = json_of(stream.schema, require_row(stream.schema, body))
        except Unreadable as why:
            raise UnfitScript(f"send({values}): {stream.name}: {why}.") from None
        (verdict,) = admit(stream, [Record(value, arrival_us)])
        if verdict.fate == "dead" or verdict.event is None:
            raise UnfitScript(f"send({values}): the gate of {stream.name!r} makes it a dead letter: {verdict.reason}.")
        if verdict.fate == "clean":
            event = verdict.event
            yield Arrived(source, event[stream.id], event[stream.time], arrival_us, 0, offset, event)

    def _filled(self, stream: Stream, number: int, arrival_us: int) -> Row:
        is_text = stream.schema.column(stream.id, "id").kind is Kind.STRING
        own = {stream.id: f"e{number}" if is_text else number, stream.time: moment(self._now_us)}
        return own if stream.arrival is None else {stream.arrival: moment(arrival_us)} | own
