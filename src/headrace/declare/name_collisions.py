"""Refuses declarations that would share a topic, table, query, group or file, and names both lines.

hr.Stream("meter")          meter.dead  ──▶ silver/meter_dead ┐
hr.Stream("meter_dead")     meter_dead.clean ──▶ silver/meter_dead ┘ one table
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.declare import names
from headrace.declare.features.retractable_views import retractable_view_operation
from headrace.declare.features.view import View
from headrace.declare.models.model import Model
from headrace.declare.operations.derived_stream import Derivation, DerivedStream, StreamOperation
from headrace.declare.sinks.sink import Sink
from headrace.declare.source_location import SourceLocation
from headrace.declare.streams.change_capture import Changes
from headrace.declare.streams.stream import Stream
from headrace.errors import DeclarationError

if TYPE_CHECKING:
    from headrace.declare.app import App


class Resource(NamedTuple):
    """Something outside of the app's code that has a name: two with equal names would be the same."""

    kind: str
    name: str


class Declaration(NamedTuple):
    """A declaration of an app, and the resources that are named after it."""

    kind: str
    name: str
    location: SourceLocation | None
    resources: tuple[Resource, ...]

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}"


def _fold_case(name: str) -> str:
    return name.lower()


def _normalize_topic(name: str) -> str:
    """Kafka's metrics replace dots by underscores: a broker refuses two topics that differ in that alone."""
    return name.lower().replace(".", "_")


def _normalize_punctuation(name: str) -> str:
    return re.sub(r"[-._]+", "_", name.lower())


TOPIC, TABLE, LIVE_TABLE, QUERY, CONSUMER_GROUP = "topic", "table of the lake", "live table", "query", "consumer group"
CHECKPOINT, STATE_FILE, REPLICATION_SLOT = "checkpoint", "state file", "replication slot"
STREAM_NAME, VIEW_NAME, MODEL_NAME, SINK_NAME = (
    "name of a stream",
    "name of a view",
    "name of a model",
    "name of a sink",
)
SERVED_NAME = "name in requests"
# When two names of a kind are equal: SQL and some file systems ignore case.
_NORMALIZERS: dict[str, Callable[[str], str]] = {
    TOPIC: _normalize_topic,
    TABLE: _fold_case,
    LIVE_TABLE: _fold_case,
    QUERY: _fold_case,
    CONSUMER_GROUP: _fold_case,
    CHECKPOINT: _fold_case,
    STATE_FILE: _fold_case,
    REPLICATION_SLOT: names.replication_slot_name,
    STREAM_NAME: _normalize_punctuation,
    VIEW_NAME: _normalize_punctuation,
    MODEL_NAME: _normalize_punctuation,
    SINK_NAME: _normalize_punctuation,
    SERVED_NAME: str,
    "name of an alert": _fold_case,
    "name of a query": _fold_case,
    "name of an outbox": _fold_case,
}


def require_distinct_names(app: "App") -> None:
    """Refuse an app two of whose declarations would share a resource, or take a name reserved by Headrace."""
    declarations = list_declarations(app)
    for declaration in declarations:
        _require_unreserved(declaration)
    owners: dict[tuple[str, str], tuple[Declaration, Resource]] = {}
    for declaration in declarations:
        for resource in declaration.resources:
            first_declaration, first_resource = owners.setdefault(_collision_key(resource), (declaration, resource))
            if first_declaration is not declaration:
                raise DeclarationError(
                    _collision_message(first_declaration, first_resource, declaration, resource, app.name)
                )
    _require_external_sink_topics(app)


def list_declarations(app: "App") -> list[Declaration]:
    """Every declaration of an app, and the resources that are named after it."""
    raw_streams = [stream for stream in app.streams if not isinstance(stream, DerivedStream)]
    derivations = dict.fromkeys(stream.made_by for stream in app.streams if isinstance(stream, DerivedStream))
    name_only_kinds = [("alert", app.alerts), ("query", app.queries), ("outbox", app.outboxes)]
    return [
        *(Declaration("stream", item.name, item.location, _distinct(*_stream_resources(item))) for item in raw_streams),
        *(
            Declaration("derived stream", one.name, one.location, _distinct(*_derivation_resources(one, app)))
            for one in derivations
        ),
        *(Declaration("view", one.name, one.location, _distinct(*_view_resources(one))) for one in app.views),
        *(Declaration("model", one.name, one.location, _distinct(*_model_resources(one))) for one in app.models),
        *(Declaration("sink", one.name, one.location, _distinct(*_sink_resources(one))) for one in app.sinks),
        *(_name_only_declaration(kind, one) for kind, declared in name_only_kinds for one in declared),
    ]


def list_written_topics(app: "App") -> dict[str, str]:
    """The topics that an app writes itself, each with its declaration."""
    raw_topics = {stream.name for stream in app.streams if not isinstance(stream, DerivedStream)}
    return {
        resource.name: str(declaration)
        for declaration in list_declarations(app)
        for resource in declaration.resources
        if resource.kind == TOPIC and resource.name not in raw_topics
    }


def _distinct(*resources: Resource) -> tuple[Resource, ...]:
    return tuple(dict.fromkeys(resources))


def _stream_resources(stream: Stream) -> Iterator[Resource]:
    yield Resource(STREAM_NAME, stream.name)
    yield Resource(TOPIC, stream.name)
    topic_suffixes = names.STREAM_TOPIC_SUFFIXES if stream.late.then == "drop" else names.STREAM_TOPIC_SUFFIXES[:-1]
    yield from (Resource(TOPIC, names.topic_name(stream.name, topic_suffix)) for topic_suffix in topic_suffixes)
    yield Resource(TABLE, names.bronze_table(stream.lake_name))
    yield from (
        Resource(TABLE, names.silver_table(stream.lake_name, table_suffix)) for table_suffix in ("", "late", "dead")
    )
    yield Resource(QUERY, names.query_name(stream.name, "gate"))
    yield Resource(CHECKPOINT, stream.name)
    yield Resource(STATE_FILE, f"generations/{names.state_file_name(stream.name)}")
    if isinstance(stream, Changes):
        yield Resource(REPLICATION_SLOT, stream.name)


def _derivation_resources(derivation: Derivation, app: "App") -> Iterator[Resource]:
    for stream in app.derived_streams_of(derivation):
        yield from _stream_resources(stream)
    yield from _query_resources(derivation)


def _query_resources(derivation: Derivation) -> Iterator[Resource]:
    """The resources of a derivation besides the streams that it writes."""
    yield Resource(QUERY, derivation.query)
    if isinstance(derivation, StreamOperation):
        yield Resource(TOPIC, derivation.clock)
        yield Resource(CHECKPOINT, names.checkpoint_path(derivation.name, "operation"))
        yield Resource(STATE_FILE, f"operations/{names.state_file_name(derivation.name)}")


def _view_resources(view: View) -> Iterator[Resource]:
    yield Resource(SERVED_NAME, view.name)
    yield Resource(LIVE_TABLE, view.name)
    yield Resource(VIEW_NAME, view.name)
    yield from (Resource(TOPIC, names.topic_name(view.name, suffix)) for suffix in names.VIEW_TOPIC_SUFFIXES)
    yield from (
        Resource(TABLE, names.gold_table(view.name, suffix)) for suffix in (*names.VIEW_TOPIC_SUFFIXES, "checks")
    )
    yield Resource(QUERY, names.query_name(view.name, "store"))
    yield Resource(STATE_FILE, f"backfills/{names.state_file_name(view.name)}")
    if view.captured_table:
        yield from _query_resources(retractable_view_operation(view))


def _model_resources(model: Model) -> Iterator[Resource]:
    yield Resource(MODEL_NAME, model.name)
    yield Resource(SERVED_NAME, model.name)
    yield from (Resource(TOPIC, name) for name in _model_topics(model))
    tables = ("predictions", "outcomes", "quality", "drift")
    yield from (Resource(TABLE, names.gold_table(model.name, suffix)) for suffix in tables)
    yield from (Resource(QUERY, names.query_name(model.name, suffix)) for suffix in ("score", "outcomes", "drift"))
    yield from (Resource(CHECKPOINT, names.query_name(model.name, suffix)) for suffix in ("outcomes", "drift"))
    yield Resource(CONSUMER_GROUP, names.consumer_group("score", model.name))
    yield Resource(STATE_FILE, f"models/{model.name}")


def _model_topics(model: Model) -> list[str]:
    label_topics = [] if model.labels is None else [model.quality, model.clock]
    return [model.predictions, *label_topics, *([] if model.learn is None else [model.lessons])]


def _sink_resources(sink: Sink) -> Iterator[Resource]:
    yield Resource(SINK_NAME, sink.slug)
    yield from (Resource(TOPIC, names.topic_name(sink.slug, suffix)) for suffix in names.SINK_TOPIC_SUFFIXES)
    yield Resource(QUERY, sink.query)
    yield Resource(CONSUMER_GROUP, sink.group)


def _name_only_declaration(kind: str, item: Any) -> Declaration:
    article = "a" if kind == "query" else "an"
    return Declaration(kind, item.name, item.location, (Resource(f"name of {article} {kind}", item.name),))


def _collision_key(resource: Resource) -> tuple[str, str]:
    return resource.kind, _NORMALIZERS[resource.kind](resource.name)


def _require_unreserved(declaration: Declaration) -> None:
    for resource in declaration.resources:
        if resource.kind == TOPIC and _normalize_topic(resource.name).startswith(f"{names.INTERNAL_PREFIX}_"):
            raise DeclarationError(
                f"{declaration.location}: {declaration} would have a topic {resource.name!r}, and names that "
                f"begin with "
                f"{names.INTERNAL_PREFIX}. are Headrace's own. Name it otherwise, such as "
                f"{f'own_{declaration.name}'!r}."
            )
    # The topic of a stream may be given from outside; what only the app names can be renamed.
    if declaration.kind in ("view", "derived stream") and declaration.name.lower() in names.SQL_RESERVED_WORDS:
        raise DeclarationError(
            f"{declaration.location}: {declaration} has the name of an SQL keyword, which every query would "
            f"have to quote. Name it otherwise, such as {_suggest_name(declaration.name, ())!r}."
        )


def _require_external_sink_topics(app: "App") -> None:
    """Refuse a sink into a topic that the app writes itself: readers would take its rows for Headrace's."""
    own_topics = {_normalize_topic(name): (name, owner) for name, owner in list_written_topics(app).items()}
    for sink in app.sinks:
        topic = sink.to.own_broker_topic
        if topic is not None and (own_topic := own_topics.get(_normalize_topic(topic))):
            raise DeclarationError(
                f"{sink.location}: sink {sink.name!r} would write to the topic {own_topic[0]!r}, which belongs to "
                f"{own_topic[1]}. "
                f"Give it a topic of its own: {sink.to.example}."
            )


def _collision_message(
    first_declaration: Declaration,
    first_resource: Resource,
    second_declaration: Declaration,
    second_resource: Resource,
    app_name: str,
) -> str:
    first_location, second_location = _location_texts(first_declaration.location, second_declaration.location)
    locations = f"{first_location} and {second_location}"
    if first_location == second_location:
        locations = f"{first_location}, which is loaded twice under two module names: import it in one way"
    if first_resource.name == second_resource.name and second_resource.kind.startswith("name "):
        return f"{app_name}: two declarations are named {second_resource.name!r}: {locations}. Rename one."
    normalization_note = (
        ""
        if first_resource.name == second_resource.name
        else f", which {_normalizing_system(second_resource.kind)} takes for {first_resource.name!r}"
    )
    suggested_name = _suggest_name(second_declaration.name, [first_declaration.name])
    return (
        f"{app_name}: {first_declaration} ({first_location}) and {second_declaration} ({second_location}) would "
        f"share the {second_resource.kind} {second_resource.name!r}{normalization_note}. "
        f"Rename one, such as {second_declaration.name!r} to {suggested_name!r}."
    )


def _normalizing_system(kind: str) -> str:
    if kind == TOPIC:
        return "Kafka"
    return "SQL" if kind in (TABLE, LIVE_TABLE) else "a reader"


def _location_texts(first: SourceLocation | None, second: SourceLocation | None) -> tuple[str, str]:
    """Both locations; with their folders if two files have the same name."""
    if first and second and first.file == second.file and first.path != second.path:
        return f"{first.path}:{first.line}", f"{second.path}:{second.line}"
    return str(first), str(second)


def _suggest_name(name: str, taken_names: Iterable[str]) -> str:
    """A similar name that is not taken."""
    suffix = "Events" if name[:1].isupper() else "_events"
    return f"{name}{suffix}" if f"{name}{suffix}" not in taken_names else f"{name}_2"
