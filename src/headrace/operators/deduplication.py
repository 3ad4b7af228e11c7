"""Deduplication: each event of a key once; an id is stored for as long as its duplicates may arrive.

    event time         arrival                            time + until, and a margin
    ├──────────────────┼──────────────────────────────────┼──▶ clock
                       └ its id is stored, with its source  └ later duplicates are late for any gate: the id is removed

The gate lets an event pass while its lateness is at most `until`, so a duplicate arrives before then or is late.
Ids are removed in groups: a timer of a key costs more than storing a few ids a little longer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import orjson

from headrace.aggregates.partial import Scalar
from headrace.declare.durations import UNITS_US
from headrace.declare.streams.stream import Stream
from headrace.operators.operator import InputEvent, Key, Operator, OutputEvent

OperatorState = TypeVar("OperatorState")
EventId = tuple[int, Scalar]
MARGIN_US = UNITS_US["s"]
MIN_GRAIN_US = UNITS_US["s"]
GRAINS_PER_RETENTION = 8


def id_retentions_us(inputs: Sequence[Stream]) -> tuple[int, ...]:
    """How long after its arrival an id of each input may be repeated."""
    return tuple(stream.late.until_us + stream.ahead_us + MARGIN_US for stream in inputs)


@dataclass
class DeduplicationState(Generic[OperatorState]):
    """The ids of a key by the time of their removal, and the state of the inner operator."""

    inner_state: OperatorState
    ids_by_expiry: dict[int, list[EventId]] = field(default_factory=dict)
    ids: set[EventId] = field(default_factory=set)


class DeduplicatingOperator(Operator[DeduplicationState[OperatorState]]):
    """Passes each event once to its inner operator, by id and source."""

    def __init__(self, operator: Operator[OperatorState], retentions_us: Sequence[int]) -> None:
        self.inner_operator, self._retentions_us = operator, tuple(retentions_us)
        self._grain_us = max(MIN_GRAIN_US, max(self._retentions_us) // GRAINS_PER_RETENTION)

    def create_state(self) -> DeduplicationState[OperatorState]:
        return DeduplicationState(self.inner_operator.create_state())

    def process_event(
        self, key: Key, state: DeduplicationState[OperatorState], event: InputEvent
    ) -> Iterator[OutputEvent]:
        event_id = event.input_index, event.id
        if event_id not in state.ids:
            outputs = list(self.inner_operator.process_event(key, state.inner_state, event))
            self._remember_id(state, event_id, event)
            yield from outputs

    def next_timer_us(self, state: DeduplicationState[OperatorState]) -> int | None:
        inner_timer_us = self.inner_operator.next_timer_us(state.inner_state)
        timers_us = [*state.ids_by_expiry, *([] if inner_timer_us is None else [inner_timer_us])]
        return min(timers_us, default=None)

    def on_timer(self, key: Key, state: DeduplicationState[OperatorState], timer_us: int) -> Iterator[OutputEvent]:
        state.ids.difference_update(state.ids_by_expiry.pop(timer_us, ()))
        if self.inner_operator.next_timer_us(state.inner_state) == timer_us:
            yield from self.inner_operator.on_timer(key, state.inner_state, timer_us)

    def encode_state(self, state: DeduplicationState[OperatorState]) -> bytes:
        ids_by_expiry = orjson.dumps({str(expiry_us): ids for expiry_us, ids in state.ids_by_expiry.items()})
        return b'{"ids":%b,"kept":%b}' % (ids_by_expiry, self.inner_operator.encode_state(state.inner_state))

    def decode_state(self, encoded: bytes) -> DeduplicationState[OperatorState]:
        decoded: Mapping[str, Any] = orjson.loads(encoded)
        ids_by_expiry = {
            int(expiry_us): [(input_index, event_id) for input_index, event_id in ids]
            for expiry_us, ids in decoded["ids"].items()
        }
        inner_state = self.inner_operator.decode_state(orjson.dumps(decoded["kept"]))
        return DeduplicationState(inner_state, ids_by_expiry, {one for ids in ids_by_expiry.values() for one in ids})

    def _remember_id(self, state: DeduplicationState[OperatorState], event_id: EventId, event: InputEvent) -> None:
        last_needed_us = max(event.time_us, event.arrival_us) + self._retentions_us[event.input_index]
        expiry_us = -(-last_needed_us // self._grain_us) * self._grain_us
        state.ids_by_expiry.setdefault(expiry_us, []).append(event_id)
        state.ids.add(event_id)
