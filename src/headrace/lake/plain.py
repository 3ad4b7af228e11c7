"""Events that were read one by one, as the Arrow table `lookback` takes: without Spark."""

from collections.abc import Sequence

import pyarrow as pa

from headrace.declare.schema import Kind
from headrace.declare.stream import Stream
from headrace.declare.views import View
from headrace.lake import arrow
from headrace.lake.lookback import Reads
from headrace.tiles.events import Event
from headrace.tiles.expressions import holds
from headrace.tiles.fold import events_of, seen

ARROW_TYPES = arrow.ARROW_TYPES | {Kind.TIMESTAMP: pa.int64()}  # moments in µs


def events_table(view: View, stream: Stream, events: Sequence[Event], known_us: Sequence[int]) -> pa.Table:
    """The columns a view's windows read, of one stream's events that have their whole entity."""
    whole = [index for index, event in enumerate(events) if None not in [seen(event, name, stream) for name in view.by]]
    own, known_us = [events[index] for index in whole], [known_us[index] for index in whole]
    reads, columns = Reads(view), events_of(view, stream, own, known_us).columns

    def column(name: str) -> pa.Array:
        kind = view.schema.column(name, view.name).kind
        return pa.array([seen(event, name, stream) for event in own], ARROW_TYPES[kind])

    number = pa.array([view.streams_by_name.index(stream)] * len(own), pa.int8())
    return pa.table(
        {f"e{index}": column(name) for index, name in enumerate(view.by)}
        | {"hr_time": column(stream.time), "hr_known": pa.array(known_us, pa.int64()), "hr_id": column(stream.id)}
        | ({"hr_stream": number} if len(view.streams) > 1 else {})
        | {f"v{index}": column(name) for index, name in enumerate(reads.values)}
        | {f"w{i}": pa.array(holds(tree, columns, len(own))) for i, tree in enumerate(reads.conditions)}
    )
