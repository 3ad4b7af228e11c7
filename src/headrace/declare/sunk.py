"""What a sink may bring: the events of a stream, the predictions of a model, or the features of a view.

Of a view, each row is one entity at one moment: its key, every feature that needs nothing but the view's own events,
when its newest event happened, and as of when that is so.
"""

from headrace.declare.derived import Derived
from headrace.declare.expressions import fields
from headrace.declare.model import Model
from headrace.declare.schema import TYPE_OF_KIND, Column, Schema, parse_schema
from headrace.declare.stream import Stream
from headrace.declare.views import View

Sunk = Stream | Model | View
EVENT_TIME, AS_OF = "event_time", "as_of"
PREDICTIONS = parse_schema(
    "event_id string, model string, version string, role string, source string, score double, decision string, "
    "answered boolean, event_time timestamp, arrival timestamp, decided_at timestamp, latency_ms double, "
    "degraded string, features string",
    "predictions",
)


def topic_of(of: Sunk) -> str:
    """What is read."""
    match of:
        case Stream():
            return of.clean
        case Model():
            return of.predictions
    return of.topic


def schema_of(of: Sunk) -> Schema:
    """The columns that can be brought."""
    match of:
        case Stream():
            return of.schema
        case Model():
            return PREDICTIONS
    types = {column.name: column.type for column in of.outputs}
    kept = [Column(feature.name, types.get(feature.name, "string")) for feature in of.features]
    computed = [Column(one.name, TYPE_OF_KIND[one.kind]) for one in computed_of(of)]
    return Schema((*of.entity, *kept, *computed, Column(EVENT_TIME, "timestamp"), Column(AS_OF, "timestamp")))


def computed_of(view: View) -> tuple[Derived, ...]:
    """The derived features that change with the view alone: without a request, and without a table."""
    own = {feature.name for feature in view.features}
    return tuple(one for one in view.derived if fields(one.tree) <= own)


def identity_of(of: Sunk) -> tuple[str, ...]:
    """The columns that name one event, one prediction, or one entity."""
    match of:
        case Stream():
            return (of.id,)
        case Model():
            return ("event_id", "version", "role")
    return of.by


def order_of(of: Sunk) -> str:
    """The column in whose values the log has an order."""
    match of:
        case Stream():
            return of.key
        case Model():
            return "event_id"
    return of.by[0]
