"""Refuses declarations whose topics, tables, queries, groups or files would be one another's, with both lines.

hr.Stream("meter")          meter.dead  ──▶ silver/meter_dead ┐
hr.Stream("meter_dead")     meter_dead.clean ──▶ silver/meter_dead ┘ one table
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.declare import names
from headrace.declare.changes import Changes
from headrace.declare.derivation import Derivation, Derived, Operation
from headrace.declare.model import Model
from headrace.declare.recounted import recount_of
from headrace.declare.sink import Sink
from headrace.declare.source_lines import Written
from headrace.declare.stream import Stream
from headrace.declare.targets import Kafka
from headrace.declare.views import View
from headrace.errors import DeclarationError

if TYPE_CHECKING:
    from headrace.declare.app import App


class Resource(NamedTuple):
    """Something outside of the app's code that has a name: of two that are alike, one would be the other."""

    kind: str
    name: str


class Declaration(NamedTuple):
    """What one line of an app declares, and all that is named after it."""

    kind: str
    name: str
    written: Written | None
    resources: tuple[Resource, ...]

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}"


def _as_file(name: str) -> str:
    return name.lower()


def _as_topic(name: str) -> str:
    """Kafka's metrics take a dot for an underscore: a broker refuses two topics that differ in that alone."""
    return name.lower().replace(".", "_")


def _as_said(name: str) -> str:
    return re.sub(r"[-._]+", "_", name.lower())


TOPIC, TABLE, LIVE, QUERY, GROUP = "topic", "table of the lake", "live table", "query", "consumer group"
CHECKPOINT, FILE, SLOT = "checkpoint", "state file", "replication slot"
STREAM, VIEW, MODEL, SINK = "name of a stream", "name of a view", "name of a model", "name of a sink"
SERVED_NAME = "name in requests"
# When two names of a kind are one: SQL and some file systems know no case.
_ALIKE: dict[str, Callable[[str], str]] = {
    TOPIC: _as_topic,
    TABLE: _as_file,
    LIVE: _as_file,
    QUERY: _as_file,
    GROUP: _as_file,
    CHECKPOINT: _as_file,
    FILE: _as_file,
    SLOT: names.replication_slot,
    STREAM: _as_said,
    VIEW: _as_said,
    MODEL: _as_said,
    SINK: _as_said,
    SERVED_NAME: str,
    "name of an alert": _as_file,
    "name of a query": _as_file,
    "name of an outbox": _as_file,
}


def require_distinct_names(app: "App") -> None:
    """Refuse an app two of whose declarations would share something, or take what is Headrace's own."""
    found = declarations_of(app)
    for one in found:
        _require_unreserved(one)
    taken: dict[tuple[str, str], tuple[Declaration, Resource]] = {}
    for one in found:
        for resource in one.resources:
            before, met = taken.setdefault(_key(resource), (one, resource))
            if before is not one:
                raise DeclarationError(_refusal(before, met, one, resource, app.name))
    _require_own_targets(app)


def declarations_of(app: "App") -> list[Declaration]:
    """Every declaration of an app, and what is named after it."""
    plain = [stream for stream in app.streams if not isinstance(stream, Derived)]
    made_by = dict.fromkeys(stream.made_by for stream in app.streams if isinstance(stream, Derived))
    named = [("alert", app.alerts), ("query", app.queries), ("outbox", app.outboxes)]
    return [
        *(Declaration("stream", one.name, one.written, _of(*_of_stream(one))) for one in plain),
        *(Declaration("derived stream", one.name, one.written, _of(*_of_derivation(one, app))) for one in made_by),
        *(Declaration("view", one.name, one.written, _of(*_of_view(one))) for one in app.views),
        *(Declaration("model", one.name, one.written, _of(*_of_model(one))) for one in app.models),
        *(Declaration("sink", one.name, one.written, _of(*_of_sink(one))) for one in app.sinks),
        *(_of_name(kind, one) for kind, several in named for one in several),
    ]


def written_topics(app: "App") -> dict[str, str]:
    """The topics that an app writes itself, each with what it is declared by."""
    raw = {stream.name for stream in app.streams if not isinstance(stream, Derived)}
    return {
        resource.name: str(one)
        for one in declarations_of(app)
        for resource in one.resources
        if resource.kind == TOPIC and resource.name not in raw
    }


def _of(*found: Resource) -> tuple[Resource, ...]:
    return tuple(dict.fromkeys(found))


def _of_stream(stream: Stream) -> Iterator[Resource]:
    yield Resource(STREAM, stream.name)
    yield Resource(TOPIC, stream.name)
    fates = names.OF_STREAMS if stream.late.then == "drop" else names.OF_STREAMS[:-1]
    yield from (Resource(TOPIC, names.topic_name(stream.name, fate)) for fate in fates)
    yield Resource(TABLE, names.bronze_table(stream.lake_name))
    yield from (Resource(TABLE, names.silver_table(stream.lake_name, what)) for what in ("", "late", "dead"))
    yield Resource(QUERY, names.query_name(stream.name, "gate"))
    yield Resource(CHECKPOINT, stream.name)
    yield Resource(FILE, f"generations/{names.state_file(stream.name)}")
    if isinstance(stream, Changes):
        yield Resource(SLOT, stream.name)


def _of_derivation(made_by: Derivation, app: "App") -> Iterator[Resource]:
    for stream in app.made_by(made_by):
        yield from _of_stream(stream)
    yield from _of_making(made_by)


def _of_making(made_by: Derivation) -> Iterator[Resource]:
    """What a derivation has besides the streams that it writes."""
    yield Resource(QUERY, made_by.query)
    if isinstance(made_by, Operation):
        yield Resource(TOPIC, made_by.clock)
        yield Resource(CHECKPOINT, names.checkpoint(made_by.name, "operation"))
        yield Resource(FILE, f"operations/{names.state_file(made_by.name)}")


def _of_view(view: View) -> Iterator[Resource]:
    yield Resource(SERVED_NAME, view.name)
    yield Resource(LIVE, view.name)
    yield Resource(VIEW, view.name)
    yield from (Resource(TOPIC, names.topic_name(view.name, what)) for what in names.OF_VIEWS)
    yield from (Resource(TABLE, names.gold_table(view.name, what)) for what in (*names.OF_VIEWS, "checks"))
    yield Resource(QUERY, names.query_name(view.name, "store"))
    yield Resource(FILE, f"backfills/{names.state_file(view.name)}")
    if view.captured:
        yield from _of_making(recount_of(view))


def _of_model(model: Model) -> Iterator[Resource]:
    yield Resource(MODEL, model.name)
    yield Resource(SERVED_NAME, model.name)
    yield from (Resource(TOPIC, name) for name in _topics_of_model(model))
    tables = ("predictions", "outcomes", "quality", "drift")
    yield from (Resource(TABLE, names.gold_table(model.name, what)) for what in tables)
    yield from (Resource(QUERY, names.query_name(model.name, what)) for what in ("score", "outcomes", "drift"))
    yield from (Resource(CHECKPOINT, names.query_name(model.name, what)) for what in ("outcomes", "drift"))
    yield Resource(GROUP, names.consumer_group("score", model.name))
    yield Resource(FILE, f"models/{model.name}")


def _topics_of_model(model: Model) -> list[str]:
    judged = [] if model.labels is None else [model.quality, model.clock]
    return [model.predictions, *judged, *([] if model.learn is None else [model.lessons])]


def _of_sink(sink: Sink) -> Iterator[Resource]:
    yield Resource(SINK, sink.slug)
    yield from (Resource(TOPIC, names.topic_name(sink.slug, what)) for what in names.OF_SINKS)
    yield Resource(QUERY, sink.query)
    yield Resource(GROUP, sink.group)


def _of_name(kind: str, one: Any) -> Declaration:
    article = "a" if kind == "query" else "an"
    return Declaration(kind, one.name, one.written, (Resource(f"name of {article} {kind}", one.name),))


def _key(resource: Resource) -> tuple[str, str]:
    return resource.kind, _ALIKE[resource.kind](resource.name)


def _require_unreserved(one: Declaration) -> None:
    for resource in one.resources:
        if resource.kind == TOPIC and _as_topic(resource.name).startswith(f"{names.INTERNAL}_"):
            raise DeclarationError(
                f"{one.written}: {one} would have a topic {resource.name!r}, and names that begin with "
                f"{names.INTERNAL}. are Headrace's own. Name it otherwise, such as {f'own_{one.name}'!r}."
            )
    # The topic of a stream may be given; what an app alone names can be called otherwise.
    if one.kind in ("view", "derived stream") and one.name.lower() in names.SQL_WORDS:
        raise DeclarationError(
            f"{one.written}: {one} is named as a word of SQL is, which every query would have to quote. "
            f"Name it otherwise, such as {_free_name(one.name, ())!r}."
        )


def _require_own_targets(app: "App") -> None:
    """Refuse a sink into a topic that the app writes itself: readers would take its rows for Headrace's."""
    own = {_as_topic(name): (name, what) for name, what in written_topics(app).items()}
    for sink in app.sinks:
        if isinstance(sink.to, Kafka) and sink.to.broker is None and (met := own.get(_as_topic(sink.to.topic))):
            raise DeclarationError(
                f"{sink.written}: sink {sink.name!r} would write to the topic {met[0]!r}, which belongs to {met[1]}. "
                'Give it a topic of its own: hr.Kafka("warehouse.payments").'
            )


def _refusal(one: Declaration, met: Resource, other: Declaration, resource: Resource, app: str) -> str:
    first, second = _lines(one.written, other.written)
    both = f"{first} and {second}"
    if first == second:
        both = f"{first}, which is loaded twice under two module names: import it in one way"
    if met.name == resource.name and resource.kind.startswith("name "):
        return f"{app}: two declarations are named {resource.name!r}: {both}. Rename one."
    alike = "" if met.name == resource.name else f", which {_why_alike(resource.kind)} takes for {met.name!r}"
    free = _free_name(other.name, [one.name])
    return (
        f"{app}: {one} ({first}) and {other} ({second}) would share the {resource.kind} {resource.name!r}{alike}. "
        f"Rename one, such as {other.name!r} to {free!r}."
    )


def _why_alike(kind: str) -> str:
    if kind == TOPIC:
        return "Kafka"
    return "SQL" if kind in (TABLE, LIVE) else "a reader"


def _lines(one: Written | None, other: Written | None) -> tuple[str, str]:
    """Both lines; with their folders where two files have one name."""
    if one and other and one.file == other.file and one.path != other.path:
        return f"{one.path}:{one.line}", f"{other.path}:{other.line}"
    return str(one), str(other)


def _free_name(name: str, taken: Iterable[str]) -> str:
    """A name that is like another and meets none."""
    ending = "Events" if name[:1].isupper() else "_events"
    return f"{name}{ending}" if f"{name}{ending}" not in taken else f"{name}_2"
