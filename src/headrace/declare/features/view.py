"""Feature views: a class of aggregates by entity over one stream or several."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from headrace.declare.durations import duration_us
from headrace.declare.expressions import Expression, field_names
from headrace.declare.features.aggregate_binding import bind_aggregate, declared_windows, parse_windows
from headrace.declare.features.aggregates import Aggregate, AggregateDeclaration
from headrace.declare.features.on_demand_features import (
    OnDemandFeature,
    ResolvedExpression,
    TableLookup,
    ViewAttribute,
    build_on_demand_feature,
    distinct_lookups,
    resolve_expression,
)
from headrace.declare.features.operands import Operand
from headrace.declare.features.windows import Window
from headrace.declare.names import require_distinct_columns, require_unreserved_columns, topic_name
from headrace.declare.notebook_repr import render_html
from headrace.declare.source_location import SourceLocation, locate_declaration
from headrace.declare.streams.change_capture import Changes, LatestRows
from headrace.declare.streams.lookup_table import ENTITY_PREFIX
from headrace.declare.streams.schema import TYPE_OF_KIND, Column, Kind, Schema
from headrace.declare.streams.stream import Stream
from headrace.declare.streams.union import parse_streams, require_column_in_all, union_schema
from headrace.errors import DeclarationError

MAX_SALT = 64


@dataclass(frozen=True)
class Feature:
    """One output of a view: an aggregate over one window."""

    name: str
    aggregate: Aggregate
    window: Window


@dataclass(frozen=True)
class View:
    """The features of an entity, computed from one stream or several."""

    name: str
    streams: tuple[Stream, ...]
    by: tuple[str, ...]
    freshness_us: int | None
    features: tuple[Feature, ...]
    on_demand_features: tuple[OnDemandFeature, ...] = ()
    request_columns: tuple[Column, ...] = ()
    lookups: tuple[TableLookup, ...] = ()
    salt: int = 1
    location: SourceLocation | None = field(default=None, compare=False, repr=False)

    def _repr_html_(self) -> str:
        summary = f"features by {', '.join(self.by)}, of {' and '.join(stream.name for stream in self.streams)}"
        window_rows = [(feature.name, feature.aggregate.text, feature.window.text) for feature in self.features]
        on_demand_rows = [(one.name, str(one.tree), "when it is read") for one in self.on_demand_features]
        return render_html(self.name, summary, ("feature", "is", "window"), [*window_rows, *on_demand_rows])

    @cached_property
    def schema(self) -> Schema:
        """The columns its aggregates and conditions read: those of its stream or, for several, of all of them."""
        return union_schema(self.streams)

    @cached_property
    def sorted_streams(self) -> tuple[Stream, ...]:
        """Its streams in an order that is independent of how they were listed."""
        return tuple(sorted(self.streams, key=lambda stream: stream.name))

    @property
    def captured_table(self) -> Changes | None:
        """The captured table whose rows it aggregates, if any."""
        (first_stream, *_) = self.streams
        return first_stream if isinstance(first_stream, Changes) else None

    @property
    def tables_without_history(self) -> tuple[Changes, ...]:
        """The captured tables that it aggregates or looks up: their current rows say nothing about the past."""
        looked_up_tables = [lookup.table.changes for lookup in self.lookups if isinstance(lookup.table, LatestRows)]
        return tuple(dict.fromkeys([*([self.captured_table] if self.captured_table else []), *looked_up_tables]))

    @property
    def topic(self) -> str:
        return topic_name(self.name, "tiles")

    @property
    def served(self) -> str:
        """The topic with a sample of served answers."""
        return topic_name(self.name, "served")

    @property
    def entity(self) -> tuple[Column, ...]:
        return tuple(self.schema.column(name, self.name) for name in self.by)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all outputs: stored features, then on-demand features."""
        return (
            *(feature.name for feature in self.features),
            *(on_demand_feature.name for on_demand_feature in self.on_demand_features),
        )

    @property
    def expression_inputs(self) -> Schema:
        """The inputs of on-demand features: stored features and request fields, with their types."""
        return expression_inputs(self.features, self.request_columns)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """Every expression on outputs: on-demand features, and the keys of table lookups."""
        return (*(item.tree for item in self.on_demand_features), *(one.key for one in self.lookups))


def require_view(declaration: View | type) -> View:
    """Return the view behind a decorated class: type checkers see the class as written."""
    if not isinstance(declaration, View):
        raise DeclarationError(
            f"{declaration!r} is not a feature view. Decorate the class with @hr.features(stream, by=…)."
        )
    return declaration


def features(
    stream: Stream | Sequence[Stream], *, by: str | Sequence[str], freshness: str | None = None, salt: int = 1
) -> Callable[[type], View]:
    """Declare a feature view of a stream, or of a list of them: the decorated class's attributes are its aggregates.

    With salt, the events of one entity are distributed over that many tasks, and their tiles are merged when read.
    """

    def declare(body: type) -> View:
        name = body.__name__
        if not name.isascii() or len(name) > 200:
            raise DeclarationError(
                f"{name}: a view names a topic. Rename it with at most 200 ASCII letters and digits."
            )
        streams = parse_streams(stream, name)
        _require_captured_table_alone(streams, salt, name)
        schema = union_schema(streams)
        entity = _parse_entity(by, streams, name)
        window_features, request_columns, expressions = (
            _build_features(body, schema, name),
            _request_columns(body),
            _resolve_expressions(body, name),
        )
        _require_distinct_outputs(entity, window_features, expressions, name)
        available_columns = Schema(
            (*expression_inputs(window_features, request_columns), *_entity_columns(schema, entity))
        )
        return View(
            name=name,
            streams=streams,
            by=entity,
            freshness_us=None if freshness is None else duration_us(freshness, f"{name}: freshness"),
            features=window_features,
            on_demand_features=_build_on_demand_features(expressions, window_features, available_columns, name),
            request_columns=request_columns,
            lookups=distinct_lookups(expressions.values()),
            salt=_validate_salt(salt, name),
            location=locate_declaration(),
        )

    return declare


def _require_distinct_outputs(
    entity: Sequence[str], window_features: Sequence[Feature], expressions: Mapping[str, ResolvedExpression], name: str
) -> None:
    """Refuse an output with the name of an entity column: both are columns of one table."""
    where, outputs = f"{locate_declaration()}: {name}", [*(feature.name for feature in window_features), *expressions]
    require_distinct_columns([*entity, *outputs], where, noun="outputs")
    require_unreserved_columns(outputs, where)
    for output in outputs:
        if output in entity:
            raise DeclarationError(f"{where}: the output {output!r} has the name of a column in by=. Rename it.")


def _require_captured_table_alone(streams: Sequence[Stream], salt: int, name: str) -> None:
    """Refuse a captured table together with other streams or with salt: its rows are kept whole."""
    captured_tables = [stream for stream in streams if isinstance(stream, Changes)]
    if captured_tables and len(streams) > 1:
        raise DeclarationError(
            f"{name}: {captured_tables[0].name!r} is a captured table, and a view of one is of its rows alone. "
            "Give it a view of its own, or derive a stream of its changes: @hr.derive(…)."
        )
    if captured_tables and salt != 1:
        raise DeclarationError(f"{name}: the rows of {captured_tables[0].name!r} are kept whole. Leave salt= out.")


def _validate_salt(salt: object, name: str) -> int:
    if type(salt) is not int or not 1 <= salt <= MAX_SALT:
        raise DeclarationError(f"{name}: salt={salt!r}. Write a whole number from 1, which is none, to {MAX_SALT}.")
    return salt


def _parse_entity(by: object, streams: Sequence[Stream], name: str) -> tuple[str, ...]:
    columns = (by,) if isinstance(by, str) else tuple(by) if isinstance(by, list | tuple) else ()
    if not columns or any(columns.count(column) > 1 for column in columns):
        raise DeclarationError(
            f'{name}: by={by!r}. Write one column, or several different ones: by="card" or by=["card", "country"].'
        )
    for column in columns:
        if len(streams) > 1:
            require_column_in_all(column, streams, name)
        if union_schema(streams).column(column, f"{name}: by").kind is Kind.DOUBLE:
            raise DeclarationError(
                f"{name}: by={column!r} is a double. Group by a string, a whole number, a boolean or a timestamp."
            )
    return columns


def _build_features(body: type, schema: Schema, name: str) -> tuple[Feature, ...]:
    window_features = [
        feature
        for attribute, value in vars(body).items()
        if not attribute.startswith("__") and not isinstance(value, Operand)
        for feature in _features_of_attribute(attribute, value, schema, f"{name}.{attribute}")
    ]
    if not window_features:
        raise DeclarationError(
            f'{name}: no features. Give the class an attribute such as payments = hr.count(windows="1h").'
        )
    names = [feature.name for feature in window_features]
    column_names = set(schema.names)
    for output in names:
        if names.count(output) > 1:
            raise DeclarationError(
                f"{name}: two outputs are named {output!r}. Rename one attribute or remove one window."
            )
    for feature in window_features:
        if feature.name in column_names:
            raise DeclarationError(
                f"{name}: the output {feature.name!r} has the name of a column. Rename the attribute."
            )
    return tuple(window_features)


def _features_of_attribute(attribute: str, value: object, schema: Schema, where: str) -> list[Feature]:
    if not isinstance(value, AggregateDeclaration):
        raise DeclarationError(f"{where}: {value!r} is not a feature. Write hr.count, hr.sum, hr.mean, … or remove it.")
    aggregate = bind_aggregate(value, schema, where)
    return [Feature(f"{attribute}_{window.text}", aggregate, window) for window in parse_windows(value, where)]


def expression_inputs(features: Sequence[Feature], request_columns: Sequence[Column]) -> Schema:
    """The outputs of a view that an expression can read, as columns: all but lists and maps."""
    feature_columns = [
        Column(feature.name, TYPE_OF_KIND[_output_kind(feature.aggregate)])
        for feature in features
        if not (feature.aggregate.is_list_valued or feature.aggregate.is_map_valued)
    ]
    return Schema((*feature_columns, *request_columns))


def _output_kind(aggregate: Aggregate) -> Kind:
    """The kind of an output in expressions; a sum of integers may pass 64 bits, so it is a double there."""
    result = aggregate.result_type
    return Kind.DOUBLE if result.is_unbounded else result.kind


def _resolve_expressions(body: type, name: str) -> dict[str, ResolvedExpression]:
    """The attributes that are expressions, with every leaf named."""
    attributes = {
        id(value): ViewAttribute(attribute, tuple(declared_windows(value)))
        for attribute, value in vars(body).items()
        if isinstance(value, AggregateDeclaration)
    }
    return {
        attribute: resolve_expression(value, attributes, f"{name}.{attribute}")
        for attribute, value in vars(body).items()
        if isinstance(value, Operand)
    }


def _entity_columns(schema: Schema, by: Sequence[str]) -> list[Column]:
    """The entity's columns under the names that table lookups use."""
    return [Column(ENTITY_PREFIX + name, schema.column(name, name).type) for name in by]


def _build_on_demand_features(
    expressions: Mapping[str, ResolvedExpression],
    window_features: Sequence[Feature],
    available_columns: Schema,
    name: str,
) -> tuple[OnDemandFeature, ...]:
    for attribute, resolved in expressions.items():
        if any(attribute == feature.name for feature in window_features):
            raise DeclarationError(f"{name}: two outputs are named {attribute!r}. Rename one attribute.")
        _require_scalar_inputs(resolved, window_features, f"{name}.{attribute}")
    return tuple(
        build_on_demand_feature(attribute, resolved, available_columns, f"{name}.{attribute}")
        for attribute, resolved in expressions.items()
    )


def _require_scalar_inputs(resolved: ResolvedExpression, window_features: Sequence[Feature], where: str) -> None:
    read_names = set[str]().union(*(field_names(tree) for tree in resolved.expressions))
    for feature in window_features:
        if feature.name not in read_names:
            continue
        if feature.aggregate.is_list_valued:
            raise DeclarationError(
                f"{where}: {feature.name} is a list, and expressions compute with single values. "
                "Write another feature there, such as hr.last(…)."
            )
        if feature.aggregate.is_map_valued:
            raise DeclarationError(
                f"{where}: {feature.name} is a map, and expressions compute with single values. "
                f'Count one of its values there: hr.count(where="{feature.aggregate.column} = …", windows=…).'
            )


def _request_columns(body: type) -> tuple[Column, ...]:
    """The request fields that the view's expressions read."""
    operands = [value for value in vars(body).values() if isinstance(value, Operand)]
    return tuple(
        sorted(frozenset[Column]().union(*(item.request_columns for item in operands)), key=lambda one: one.name)
    )
