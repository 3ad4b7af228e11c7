"""Streams: a topic, the schema of its events, and how it treats late and invalid ones."""

import re
from dataclasses import dataclass, field
from typing import Literal, get_args

from headrace.declare.durations import duration_text, duration_us
from headrace.declare.expressions import Expression, parse_condition
from headrace.declare.names import (
    RESERVED_TOPIC_SUFFIXES,
    require_distinct_columns,
    require_unreserved_columns,
    topic_name,
)
from headrace.declare.notebook_repr import render_html
from headrace.declare.source_location import SourceLocation, locate_declaration
from headrace.declare.streams.encoding import (
    Compatibility,
    Format,
    RecordEncoding,
    RegisteredSchema,
    look_up_schema,
    parse_encoding,
)
from headrace.declare.streams.external_source import ExternalSource
from headrace.declare.streams.external_sources import EXTERNAL_SOURCES
from headrace.declare.streams.schema import Kind, Schema, parse_schema
from headrace.errors import DeclarationError

LatePolicy = Literal["drop", "side_output", "update"]
_TOPIC_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


@dataclass(frozen=True, init=False)
class Late:
    """The late policy: from when on an event is late, and what then happens to it.

    event time      arrival ≤ after      ≤ until             later
    ├───────────────┼────────────────────┼───────────────────▶
    drop            counts               dropped, counted
    side_output     counts               kept in STREAM.late
    update          counts               counts as well      kept in STREAM.late
    """

    after_us: int
    then: LatePolicy
    until_us: int

    def __init__(self, after: str, then: LatePolicy = "side_output", until: str | None = None) -> None:
        if then not in get_args(LatePolicy):
            raise DeclarationError(f'Late: then={then!r} is not a policy. Write "drop", "side_output" or "update".')
        after_us = duration_us(after, "Late: after")
        until_us = after_us if until is None else duration_us(until, "Late: until")
        if (then == "update") != (until is not None):
            raise DeclarationError(
                f'Late: then={then!r} with until={until!r}. Write then="update" and until="1d" together, or neither.'
            )
        if until_us < after_us:
            raise DeclarationError(f"Late: until={until!r} is shorter than {after!r}. Write a longer until.")
        object.__setattr__(self, "after_us", after_us)
        object.__setattr__(self, "then", then)
        object.__setattr__(self, "until_us", until_us)


@dataclass(frozen=True, init=False)
class Stream:
    """A topic of events: its schema, id, key, event time, and how it treats late and invalid events.

    Without `arrival` an event arrives when it is appended to the topic; with it, at the time in that column: recorded
    history keeps its lateness.

    event 2013-01-01 10:17 ── recorded 10:19 ─────────── years ──────────▶ replayed into the log
    arrival="recorded"        └ 2 m late                    no arrival=    └ years late
    """

    name: str
    schema: Schema
    id: str
    key: str
    time: str
    arrival: str | None
    late: Late
    check: Expression | None
    ahead_us: int
    partitions: int
    encoding: RecordEncoding | None
    registered_schema: RegisteredSchema | None  # the registered version of a schema that was left out
    from_: ExternalSource | None
    location: SourceLocation = field(compare=False, repr=False)

    def __init__(
        self,
        name: str,
        *,
        schema: str | None = None,
        id: str,
        key: str,
        time: str,
        arrival: str | None = None,
        late: Late | None = None,
        check: str | None = None,
        ahead: str = "1m",
        partitions: int = 2,
        format: Format = "json",
        registry: str | None = None,
        subject: str | None = None,
        compatibility: Compatibility | None = None,
        from_: ExternalSource | None = None,
    ) -> None:
        _require_topic_name(name)
        encoding = parse_encoding(name, format, registry, subject, compatibility)
        registered_schema = None if schema is not None else look_up_schema(encoding, f"Stream {name!r}")
        parsed_schema = parse_schema(schema if registered_schema is None else registered_schema.ddl, f"Stream {name!r}")
        require_distinct_columns(parsed_schema.names, f"Stream {name!r}")
        require_unreserved_columns(parsed_schema.names, f"Stream {name!r}")
        for setting, column in _required_columns(id, key, time, arrival).items():
            found_column = parsed_schema.column(column, f"Stream {name!r}: {setting}")
            if setting in ("time", "arrival") and found_column.kind is not Kind.TIMESTAMP:
                raise DeclarationError(
                    f"Stream {name!r}: {setting}={column!r} is not a timestamp. Declare that column as timestamp."
                )
        for setting, column in (("id", id), ("key", key)):
            if parsed_schema.column(column, "").kind is Kind.DOUBLE:
                raise DeclarationError(
                    f"Stream {name!r}: {setting}={column!r} is a double. Identify events by a string or a whole number."
                )
        if late is not None and not isinstance(late, Late):
            raise DeclarationError(
                f'Stream {name!r}: late={late!r} is not a policy. Write late=hr.Late("2m", then="side_output").'
            )
        if type(partitions) is not int or not 1 <= partitions <= 1024:
            raise DeclarationError(f"Stream {name!r}: partitions={partitions!r}. Write a whole number from 1 to 1024.")
        values = {
            "name": name,
            "schema": parsed_schema,
            "id": id,
            "key": key,
            "time": time,
            "arrival": arrival,
            "late": late or Late("1h"),
            "check": None if check is None else parse_condition(check, parsed_schema, f"Stream {name!r}: check"),
            "ahead_us": duration_us(ahead, f"Stream {name!r}: ahead"),
            "partitions": partitions,
            "encoding": encoding,
            "registered_schema": registered_schema,
            "from_": _validate_source(name, from_),
            "location": locate_declaration(),
        }
        for setting, value in values.items():
            object.__setattr__(self, setting, value)

    def _repr_html_(self) -> str:
        roles: dict[str, list[str]] = {}
        for role, column in self.required_columns.items():
            roles.setdefault(column, []).append(role)
        late = f"late after {duration_text(self.late.after_us)}: {self.late.then}"
        summary = f"a stream of {self.partitions} partitions, {late}{f', check {self.check}' if self.check else ''}"
        rows = [(column.name, column.type, ", ".join(roles.get(column.name, ()))) for column in self.schema]
        return render_html(self.name, summary, ("column", "type", "is its"), rows)

    @property
    def required_columns(self) -> dict[str, str]:
        """The columns that no event may leave null, by their role."""
        return _required_columns(self.id, self.key, self.time, self.arrival)

    @property
    def is_recorded(self) -> bool:
        """Whether it is recorded history: its arrivals are in the past, and may advance faster than the clock."""
        return self.arrival is not None

    @property
    def is_captured(self) -> bool:
        """Whether its arrivals are commits of a database, which are reported moments after them."""
        return False

    @property
    def lake_name(self) -> str:
        """The name of its tables in the lake."""
        return self.name

    @property
    def clean(self) -> str:
        return topic_name(self.name, "clean")

    @property
    def late_topic(self) -> str:
        return topic_name(self.name, "late")

    @property
    def dead(self) -> str:
        return topic_name(self.name, "dead")

    @property
    def dropped(self) -> str:
        return topic_name(self.name, "dropped")


def _required_columns(id: str, key: str, time: str, arrival: str | None) -> dict[str, str]:
    columns = {"id": id, "key": key, "time": time}
    return columns if arrival is None else columns | {"arrival": arrival}


def _validate_source(name: str, from_: object) -> ExternalSource | None:
    if from_ is not None and not isinstance(from_, ExternalSource):
        raise DeclarationError(
            f"Stream {name!r}: from_={from_!r} is not an external source. "
            f"Write from_={EXTERNAL_SOURCES[0].example}, or leave it out where producers write it."
        )
    return from_


def _require_topic_name(name: object) -> None:
    if not isinstance(name, str) or not _TOPIC_PATTERN.fullmatch(name):
        raise DeclarationError(
            f"Stream {name!r}: a topic's name is 1 to 200 letters, digits, dots, underscores and hyphens. Rename it."
        )
    if name.lower().endswith(RESERVED_TOPIC_SUFFIXES):
        raise DeclarationError(
            f"Stream {name!r}: names ending in {', '.join(RESERVED_TOPIC_SUFFIXES)} are Headrace's own topics. "
            f"Rename it."
        )
