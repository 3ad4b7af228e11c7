"""Feature views: a class of aggregates over one stream, or several as one, by entity."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from headrace.declare.aggregates import Aggregate, Declared
from headrace.declare.binding import bind, windows_of, written_windows
from headrace.declare.changes import Changes, Latest
from headrace.declare.derived import Attribute, Derived, Joined, Named, derived, distinct_joins, named
from headrace.declare.durations import duration_us
from headrace.declare.expressions import Expression, fields
from headrace.declare.names import require_distinct_columns, require_unreserved_columns, topic_name
from headrace.declare.operands import Operand
from headrace.declare.schema import TYPE_OF_KIND, Column, Kind, Schema
from headrace.declare.shown import shown
from headrace.declare.source_lines import Written, declaring_line
from headrace.declare.stream import Stream
from headrace.declare.table import ENTITY
from headrace.declare.union import require_in_all, schema_of, streams_of
from headrace.declare.windows import Window
from headrace.errors import DeclarationError

MOST_SALT = 64


@dataclass(frozen=True)
class Feature:
    """One output of a view: an aggregate over one window."""

    name: str
    aggregate: Aggregate
    window: Window


@dataclass(frozen=True)
class View:
    """The features of an entity, kept from one stream or from several as one."""

    name: str
    streams: tuple[Stream, ...]
    by: tuple[str, ...]
    freshness_us: int | None
    features: tuple[Feature, ...]
    derived: tuple[Derived, ...] = ()
    requested: tuple[Column, ...] = ()
    joined: tuple[Joined, ...] = ()
    salt: int = 1
    written: Written | None = field(default=None, compare=False, repr=False)

    def _repr_html_(self) -> str:
        line = f"features by {', '.join(self.by)}, of {' and '.join(stream.name for stream in self.streams)}"
        kept = [(one.name, one.aggregate.text, one.window.text) for one in self.features]
        computed = [(one.name, str(one.tree), "when it is read") for one in self.derived]
        return shown(self.name, line, ("feature", "is", "window"), [*kept, *computed])

    @cached_property
    def schema(self) -> Schema:
        """The columns its aggregates and conditions read: its stream's own or, of several, all of theirs."""
        return schema_of(self.streams)

    @cached_property
    def streams_by_name(self) -> tuple[Stream, ...]:
        """Its streams in an order that does not depend on how they were listed."""
        return tuple(sorted(self.streams, key=lambda stream: stream.name))

    @property
    def captured(self) -> Changes | None:
        """The captured table whose rows it is of, if it is."""
        (first, *_) = self.streams
        return first if isinstance(first, Changes) else None

    @property
    def reads_rows_of(self) -> tuple[Changes, ...]:
        """The captured tables that it is of, or looks up: what they say now, they did not say before."""
        looked_up = [one.table.changes for one in self.joined if isinstance(one.table, Latest)]
        return tuple(dict.fromkeys([*([self.captured] if self.captured else []), *looked_up]))

    @property
    def topic(self) -> str:
        return topic_name(self.name, "tiles")

    @property
    def served(self) -> str:
        """The topic of a sample of what was served."""
        return topic_name(self.name, "served")

    @property
    def entity(self) -> tuple[Column, ...]:
        return tuple(self.schema.column(name, self.name) for name in self.by)

    @property
    def names(self) -> tuple[str, ...]:
        """Of every output: those that are kept, then those derived from them."""
        return (*(feature.name for feature in self.features), *(derived.name for derived in self.derived))

    @property
    def outputs(self) -> Schema:
        """What derived features may read: the kept ones and the fields of a request, with their types."""
        return outputs_of(self.features, self.requested)

    @property
    def trees(self) -> tuple[Expression, ...]:
        """Every expression on outputs: those of derived features, and the keys by which tables are looked up."""
        return (*(one.tree for one in self.derived), *(one.key for one in self.joined))


def view_of(declared: View | type) -> View:
    """The view a decorated class is: type checkers take it for the class that was written."""
    if not isinstance(declared, View):
        raise DeclarationError(
            f"{declared!r} is not a feature view. Decorate the class with @hr.features(stream, by=…)."
        )
    return declared


def features(
    stream: Stream | Sequence[Stream], *, by: str | Sequence[str], freshness: str | None = None, salt: int = 1
) -> Callable[[type], View]:
    """Declare a feature view of a stream, or of a list of them: the decorated class's attributes are its aggregates.

    With salt, the events of one entity are shared out among so many tasks, and their tiles merged when they are read.
    """

    def declare(body: type) -> View:
        name = body.__name__
        if not name.isascii() or len(name) > 200:
            raise DeclarationError(
                f"{name}: a view names a topic. Rename it with at most 200 ASCII letters and digits."
            )
        streams = streams_of(stream, name)
        _require_alone(streams, salt, name)
        schema = schema_of(streams)
        entity = _entity(by, streams, name)
        kept, requested, computed = _outputs(body, schema, name), _requested(body), _named(body, name)
        _require_distinct(entity, kept, computed, name)
        known = Schema((*outputs_of(kept, requested), *_keys(schema, entity)))
        return View(
            name=name,
            streams=streams,
            by=entity,
            freshness_us=None if freshness is None else duration_us(freshness, f"{name}: freshness"),
            features=kept,
            derived=_derived(computed, kept, known, name),
            requested=requested,
            joined=distinct_joins(computed.values()),
            salt=_salt(salt, name),
            written=declaring_line(),
        )

    return declare


def _require_distinct(entity: Sequence[str], kept: Sequence[Feature], computed: Mapping[str, Named], name: str) -> None:
    """The entity and the outputs are columns of one table."""
    where, outputs = f"{declaring_line()}: {name}", [*(feature.name for feature in kept), *computed]
    require_distinct_columns([*entity, *outputs], where, what="outputs")
    require_unreserved_columns(outputs, where)
    for output in outputs:
        if output in entity:
            raise DeclarationError(f"{where}: the output {output!r} has the name of a column in by=. Rename it.")


def _require_alone(streams: Sequence[Stream], salt: int, name: str) -> None:
    """The rows of a captured table are kept whole: not beside events, and not in parts."""
    captured = [stream for stream in streams if isinstance(stream, Changes)]
    if captured and len(streams) > 1:
        raise DeclarationError(
            f"{name}: {captured[0].name!r} is a captured table, and a view of one is of its rows alone. "
            "Give it a view of its own, or derive a stream of its changes: @hr.derive(…)."
        )
    if captured and salt != 1:
        raise DeclarationError(f"{name}: the rows of {captured[0].name!r} are kept whole. Leave salt= out.")


def _salt(salt: object, name: str) -> int:
    if type(salt) is not int or not 1 <= salt <= MOST_SALT:
        raise DeclarationError(f"{name}: salt={salt!r}. Write a whole number from 1, which is none, to {MOST_SALT}.")
    return salt


def _entity(by: object, streams: Sequence[Stream], name: str) -> tuple[str, ...]:
    columns = (by,) if isinstance(by, str) else tuple(by) if isinstance(by, list | tuple) else ()
    if not columns or any(columns.count(column) > 1 for column in columns):
        raise DeclarationError(
            f'{name}: by={by!r}. Write one column, or several different ones: by="card" or by=["card", "country"].'
        )
    for column in columns:
        if len(streams) > 1:
            require_in_all(column, streams, name)
        if schema_of(streams).column(column, f"{name}: by").kind is Kind.DOUBLE:
            raise DeclarationError(
                f"{name}: by={column!r} is a double. Group by a string, a whole number, a boolean or a timestamp."
            )
    return columns


def _outputs(body: type, schema: Schema, name: str) -> tuple[Feature, ...]:
    outputs = [
        feature
        for attribute, value in vars(body).items()
        if not attribute.startswith("__") and not isinstance(value, Operand)
        for feature in _features_of(attribute, value, schema, f"{name}.{attribute}")
    ]
    if not outputs:
        raise DeclarationError(
            f'{name}: no features. Give the class an attribute such as payments = hr.count(windows="1h").'
        )
    names = [feature.name for feature in outputs]
    taken = set(schema.names)
    for output in names:
        if names.count(output) > 1:
            raise DeclarationError(
                f"{name}: two outputs are named {output!r}. Rename one attribute or remove one window."
            )
    for feature in outputs:
        if feature.name in taken:
            raise DeclarationError(
                f"{name}: the output {feature.name!r} has the name of a column. Rename the attribute."
            )
    return tuple(outputs)


def _features_of(attribute: str, value: object, schema: Schema, where: str) -> list[Feature]:
    if not isinstance(value, Declared):
        raise DeclarationError(f"{where}: {value!r} is not a feature. Write hr.count, hr.sum, hr.mean, … or remove it.")
    aggregate = bind(value, schema, where)
    return [Feature(f"{attribute}_{window.text}", aggregate, window) for window in windows_of(value, where)]


def outputs_of(features: Sequence[Feature], requested: Sequence[Column]) -> Schema:
    """The outputs of a view as columns, but for lists and maps: what an expression on them can read."""
    kept = [
        Column(feature.name, TYPE_OF_KIND[_kind_of(feature.aggregate)])
        for feature in features
        if not (feature.aggregate.gives_a_list or feature.aggregate.gives_a_map)
    ]
    return Schema((*kept, *requested))


def _kind_of(aggregate: Aggregate) -> Kind:
    """The kind of an output in expressions; a sum of integers may pass 64 bits, so it is a double there."""
    match aggregate.function, aggregate.kind:
        case "count" | "distinct", _:
            return Kind.INTEGER
        case (("min" | "max" | "first" | "last"), Kind() as kind):
            return kind
    return Kind.DOUBLE


def _named(body: type, name: str) -> dict[str, Named]:
    """The attributes that are expressions, with every leaf under its name."""
    attributes = {
        id(value): Attribute(attribute, tuple(written_windows(value)))
        for attribute, value in vars(body).items()
        if isinstance(value, Declared)
    }
    return {
        attribute: named(value, attributes, f"{name}.{attribute}")
        for attribute, value in vars(body).items()
        if isinstance(value, Operand)
    }


def _keys(schema: Schema, by: Sequence[str]) -> list[Column]:
    """The entity's columns, as tables are looked up by them."""
    return [Column(ENTITY + name, schema.column(name, name).type) for name in by]


def _derived(computed: Mapping[str, Named], kept: Sequence[Feature], known: Schema, name: str) -> tuple[Derived, ...]:
    for attribute, found in computed.items():
        if any(attribute == feature.name for feature in kept):
            raise DeclarationError(f"{name}: two outputs are named {attribute!r}. Rename one attribute.")
        _require_single_values(found, kept, f"{name}.{attribute}")
    return tuple(derived(attribute, found, known, f"{name}.{attribute}") for attribute, found in computed.items())


def _require_single_values(found: Named, kept: Sequence[Feature], where: str) -> None:
    read = set[str]().union(*(fields(tree) for tree in found.trees))
    for feature in kept:
        if feature.name not in read:
            continue
        if feature.aggregate.gives_a_list:
            raise DeclarationError(
                f"{where}: {feature.name} is a list, and expressions compute with single values. "
                "Write another feature there, such as hr.last(…)."
            )
        if feature.aggregate.gives_a_map:
            raise DeclarationError(
                f"{where}: {feature.name} is a map, and expressions compute with single values. "
                f'Count one of its values there: hr.count(where="{feature.aggregate.column} = …", windows=…).'
            )


def _requested(body: type) -> tuple[Column, ...]:
    """The fields of a request that the view's expressions read."""
    operands = [value for value in vars(body).values() if isinstance(value, Operand)]
    return tuple(sorted(frozenset[Column]().union(*(one.requested for one in operands)), key=lambda one: one.name))
