"""Scores a stream: each clean event once, on features that include the event itself.

payments.clean ──▶ repeated? ──▶ waits for its tiles, within the budget ──▶ vectors ──▶ scores ──▶ fraud.predictions
                                         │
CardSpend.tiles ──▶ store ───────────────┘

arrival ├──── applied? ────┤ due        budget ┤      an event the store has not applied by then is scored as stale
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.aggregates.sketches.frequent_items import key_text
from headrace.declare.models.model import Model
from headrace.kafka.headers import ARRIVAL_HEADER, OFFSET_HEADER, TRACEPARENT_HEADER
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord, Partition
from headrace.models.inference.feature_vectors import FeatureVector, FeatureVectorReader, tuple_getter
from headrace.models.inference.prediction import LATE, STALE, encode_prediction
from headrace.models.inference.prediction_builder import LoggedEvent, build_predictions
from headrace.models.stream_scoring.score_counts import ScoreCounts
from headrace.models.stream_scoring.scored_ids import ScoredIds
from headrace.models.versions.live_versions import VersionWatcher
from headrace.online_store.feature_lookup import EventRef, RetentionExceededError, StoreUnavailable
from headrace.online_store.memory.memory_store_reader import OnlineStoreReader
from headrace.tiles.events.event_parser import Event, InvalidEventError, parse_event

LOGGER = logging.getLogger("headrace.score")
BUDGET_MARGIN_US = 10_000  # of the budget, for reading, scoring and sending; a fifth of it where that is less


@dataclass(slots=True, eq=False)
class InFlightEvent:
    """An event in flight: its deadline, and by view the event that the store has not applied yet."""

    record: ConsumerRecord
    event: Event
    event_id: str
    arrival_us: int
    deadline_us: int
    pending: dict[str, EventRef]


@dataclass(frozen=True)
class ScoringContext:
    """The context of a scorer: the store, the live versions, the producer, and the scored ids."""

    store_reader: OnlineStoreReader
    version_watcher: VersionWatcher
    producer: Producer
    scored_ids: ScoredIds
    loop: asyncio.AbstractEventLoop


class StreamScorer:
    """Scores the records of its consumer; everything happens in the consumer's thread."""

    def __init__(self, model: Model, bench: ScoringContext) -> None:
        self.counts = ScoreCounts()
        self._model, self._context = model, bench
        self._vector_reader = FeatureVectorReader(model, bench.store_reader)
        self._fed_views = [(view.name, tuple_getter(view.by)) for view in model.views if model.stream in view.streams]
        self._max_wait_us = model.budget_us - min(BUDGET_MARGIN_US, model.budget_us // 5)
        self._waiting: list[InFlightEvent] = []
        self._skipped: list[ConsumerRecord] = []
        self._error = ""
        self._seen_version: int | None = None
        self._next_deadline_us = 0

    def on_partitions_assigned(self, _partitions: Sequence[Partition]) -> None:
        """Load the ids that the previous owner of these partitions may have scored."""
        self._context.scored_ids.load_recent()

    def add_records(self, records: Sequence[ConsumerRecord]) -> None:
        for record in records:
            in_flight = self._to_in_flight_event(record)
            if in_flight is not None and self._context.scored_ids.add(in_flight.event_id):
                self._waiting.append(in_flight)
                self._seen_version = None
            else:
                self._skipped.append(record)

    def wait_for_progress(self, seconds: float) -> None:
        self._context.store_reader.wait_for_change(self._seen_version, seconds)

    def process_ready(self) -> list[ConsumerRecord]:
        """Score what is ready."""
        finished_records, self._skipped = self._skipped, []
        if self._waiting and self._has_changed():
            finished_records += self._context.loop.run_until_complete(self._process_waiting())
            self._next_deadline_us = min((in_flight.deadline_us for in_flight in self._waiting), default=0)
        return finished_records

    def _has_changed(self) -> bool:
        """Whether an event, a tile or a deadline has come since the last check."""
        version = self._context.store_reader.version
        has_changed = version != self._seen_version or time.time_ns() // 1000 >= self._next_deadline_us
        self._seen_version = version
        return has_changed

    def flush(self) -> None:
        self._context.producer.flush()

    def on_partitions_revoked(self, partitions: Sequence[Partition]) -> None:
        revoked = {partition.number for partition in partitions}
        self._context.scored_ids.forget(
            in_flight.event_id for in_flight in self._waiting if in_flight.record.partition in revoked
        )
        self._waiting = [case for case in self._waiting if case.record.partition not in revoked]

    def _to_in_flight_event(self, record: ConsumerRecord) -> InFlightEvent | None:
        """The in-flight event of a record; None for one that was written under another schema."""
        stream = self._model.stream
        try:
            event = parse_event(stream.schema, record.value)
        except InvalidEventError as problem:
            LOGGER.warning("Skipped %s: %s cannot score it: %s", record.location, self._model.name, problem)
            return None
        arrival_us = ARRIVAL_HEADER.read_or(record, record.appended_us)
        # With recorded arrivals the deadline is relative to the append time, since an arrival may be long ago.
        logged_us = arrival_us if stream.arrival is None else record.appended_us
        entities = {name: entity(event) for name, entity in self._fed_views}
        event_id = key_text(event[stream.id])
        pending = {
            name: EventRef(entity, stream.name, event[stream.time], arrival_us, event_id)
            for name, entity in entities.items()
            if None not in entity
        }
        return InFlightEvent(record, event, event_id, arrival_us, logged_us + self._max_wait_us, pending)

    async def _process_waiting(self) -> list[ConsumerRecord]:
        """Score the ready events and return their records; waits for a store that is down."""
        try:
            await self._update_pending()
            ready, waiting = self._split_ready()
            events_with_vectors = await self._read_vectors(ready) if ready else []
        except StoreUnavailable as problem:
            self._set_error(str(problem))
            self._seen_version = None
            return []
        self._set_error("")
        self._send_predictions(
            events_with_vectors,
            {in_flight.event_id: TRACEPARENT_HEADER.read(in_flight.record) for in_flight in ready},
        )
        self._waiting = waiting
        return [case.record for case in ready]

    async def _update_pending(self) -> None:
        """Check which events the store has applied."""
        for name, _ in self._fed_views:
            unapplied_events = [in_flight for in_flight in self._waiting if name in in_flight.pending]
            applied_flags = (
                await self._context.store_reader.is_applied(name, [case.pending[name] for case in unapplied_events])
                if unapplied_events
                else []
            )
            for case, is_applied in zip(unapplied_events, applied_flags, strict=True):
                if is_applied:
                    del case.pending[name]

    def _split_ready(self) -> tuple[list[InFlightEvent], list[InFlightEvent]]:
        """The events that are ready, and those that wait."""
        now_us = time.time_ns() // 1000
        ready: list[InFlightEvent] = []
        waiting: list[InFlightEvent] = []
        for in_flight in self._waiting:
            (waiting if in_flight.pending and now_us < in_flight.deadline_us else ready).append(in_flight)
        return ready, waiting

    async def _read_vectors(self, in_flight_events: Sequence[InFlightEvent]) -> list[tuple[LoggedEvent, FeatureVector]]:
        """The vectors of events at their arrival: what had arrived by then, as in a training set."""
        try:
            return await self._read_vectors_at(
                in_flight_events, [in_flight.arrival_us for in_flight in in_flight_events]
            )
        except RetentionExceededError:
            return [await self._read_late_vector(case) for case in in_flight_events]

    async def _read_late_vector(self, in_flight: InFlightEvent) -> tuple[LoggedEvent, FeatureVector]:
        """A vector at the event's arrival or, beyond the store's retention, at the current time."""
        at_us, degraded = in_flight.arrival_us, list[str]()
        while True:
            try:
                (event_with_vector,) = await self._read_vectors_at([in_flight], [at_us], *degraded)
            except RetentionExceededError as error:
                at_us, degraded = self._latest_readable_us(error), [LATE]
            else:
                return event_with_vector

    def _latest_readable_us(self, error: RetentionExceededError) -> int:
        """Now or, with recorded times, the newest time in the store."""
        return error.newest_time_us if self._model.stream.arrival else max(time.time_ns() // 1000, error.newest_time_us)

    async def _read_vectors_at(
        self, in_flight_events: Sequence[InFlightEvent], at_us: Sequence[int], *degraded: str
    ) -> list[tuple[LoggedEvent, FeatureVector]]:
        feature_vectors = await self._vector_reader.read([in_flight.event for in_flight in in_flight_events], at_us)
        logged_events = [
            _to_logged_event(case, time_us, degraded) for case, time_us in zip(in_flight_events, at_us, strict=True)
        ]
        return list(zip(logged_events, feature_vectors, strict=True))

    def _send_predictions(
        self, events_with_vectors: Sequence[tuple[LoggedEvent, FeatureVector]], traces: Mapping[str, bytes | None]
    ) -> None:
        if not events_with_vectors:
            return
        for prediction in build_predictions(
            self._model, self._context.version_watcher.live_versions, self._vector_reader, events_with_vectors
        ):
            event_id = key_text(prediction.event_id)
            headers = TRACEPARENT_HEADER.write_optional(traces[event_id])
            self._context.producer.send(
                self._model.predictions, encode_prediction(prediction), key=event_id, headers=headers
            )
            self.counts.count(prediction)

    def _set_error(self, error: str) -> None:
        if error and error != self._error:
            LOGGER.warning("Scoring of %s waits: %s", self._model.name, error)
        self._error = error


def _to_logged_event(in_flight: InFlightEvent, read_at_us: int, degraded: Iterable[str]) -> LoggedEvent:
    stale = (STALE,) if in_flight.pending else ()
    raw_offset = OFFSET_HEADER.read_or(in_flight.record, in_flight.record.offset)
    return LoggedEvent(
        in_flight.event, in_flight.arrival_us, in_flight.record.partition, raw_offset, read_at_us, (*stale, *degraded)
    )
