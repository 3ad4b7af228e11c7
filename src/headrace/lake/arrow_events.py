"""Events that were read one by one, as the Arrow table of `compute_past_features`, without Spark."""

from collections.abc import Sequence

import pyarrow as pa

from headrace.declare.features.view import View
from headrace.declare.streams.schema import Kind
from headrace.declare.streams.stream import Stream
from headrace.lake.historical_features import ViewInputs
from headrace.lake.training import arrow_features
from headrace.tiles.events.event_parser import Event
from headrace.tiles.events.expression_kernel import evaluate_condition
from headrace.tiles.fold import column_value, to_event_columns

ARROW_TYPES = arrow_features.ARROW_TYPES | {Kind.TIMESTAMP: pa.int64()}  # times in µs


def to_events_table(view: View, stream: Stream, events: Sequence[Event], known_us: Sequence[int]) -> pa.Table:
    """The columns a view's windows read, for one stream's events with a complete entity."""
    complete_indices = [
        index
        for index, event in enumerate(events)
        if None not in [column_value(event, name, stream) for name in view.by]
    ]
    complete_events, known_us = (
        [events[index] for index in complete_indices],
        [known_us[index] for index in complete_indices],
    )
    inputs, columns = ViewInputs(view), to_event_columns(view, stream, complete_events, known_us).columns

    def column(name: str) -> pa.Array:
        kind = view.schema.column(name, view.name).kind
        return pa.array([column_value(event, name, stream) for event in complete_events], ARROW_TYPES[kind])

    stream_number = pa.array([view.sorted_streams.index(stream)] * len(complete_events), pa.int8())
    return pa.table(
        {f"e{index}": column(name) for index, name in enumerate(view.by)}
        | {"hr_time": column(stream.time), "hr_known": pa.array(known_us, pa.int64()), "hr_id": column(stream.id)}
        | ({"hr_stream": stream_number} if len(view.streams) > 1 else {})
        | {f"v{index}": column(name) for index, name in enumerate(inputs.value_columns)}
        | {
            f"w{i}": pa.array(evaluate_condition(tree, columns, len(complete_events)))
            for i, tree in enumerate(inputs.conditions)
        }
    )
