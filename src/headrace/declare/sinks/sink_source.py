"""Sources of a sink: the events of a stream, the predictions of a model, or the features of a view.

A row of a view is an entity at one moment: its key, every feature that only needs the view's own events, the time of
its newest event, and the time as of which the values hold.
"""

from headrace.declare.expressions import field_names
from headrace.declare.features.on_demand_features import OnDemandFeature
from headrace.declare.features.view import View
from headrace.declare.models.model import Model
from headrace.declare.streams.schema import TYPE_OF_KIND, Column, Schema, parse_schema
from headrace.declare.streams.stream import Stream

SinkSource = Stream | Model | View
EVENT_TIME, AS_OF = "event_time", "as_of"
PREDICTION_SCHEMA = parse_schema(
    "event_id string, model string, version string, role string, source string, score double, decision string, "
    "answered boolean, event_time timestamp, arrival timestamp, decided_at timestamp, latency_ms double, "
    "degraded string, features string",
    "predictions",
)


def source_topic(source: SinkSource) -> str:
    """The topic that is read."""
    match source:
        case Stream():
            return source.clean
        case Model():
            return source.predictions
    return source.topic


def source_schema(source: SinkSource) -> Schema:
    """The columns that can be written."""
    match source:
        case Stream():
            return source.schema
        case Model():
            return PREDICTION_SCHEMA
    types = {column.name: column.type for column in source.expression_inputs}
    window_columns = [Column(feature.name, types.get(feature.name, "string")) for feature in source.features]
    on_demand_columns = [
        Column(on_demand_feature.name, TYPE_OF_KIND[on_demand_feature.kind])
        for on_demand_feature in self_contained_features(source)
    ]
    return Schema(
        (
            *source.entity,
            *window_columns,
            *on_demand_columns,
            Column(EVENT_TIME, "timestamp"),
            Column(AS_OF, "timestamp"),
        )
    )


def self_contained_features(view: View) -> tuple[OnDemandFeature, ...]:
    """The on-demand features that depend on the view alone: neither on a request nor on a table."""
    window_feature_names = {feature.name for feature in view.features}
    return tuple(
        on_demand_feature
        for on_demand_feature in view.on_demand_features
        if field_names(on_demand_feature.tree) <= window_feature_names
    )


def identity_columns(source: SinkSource) -> tuple[str, ...]:
    """The columns that identify an event, a prediction, or an entity."""
    match source:
        case Stream():
            return (source.id,)
        case Model():
            return ("event_id", "version", "role")
    return source.by


def ordering_column(source: SinkSource) -> str:
    """The column by whose values the topic is ordered."""
    match source:
        case Stream():
            return source.key
        case Model():
            return "event_id"
    return source.by[0]
