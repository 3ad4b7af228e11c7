"""Scores events of a request within a latency budget: features from the store, and the model's live version.

request ── wait ──▶ read ──▶ merge ──▶ score ──▶ response        each a part of Server-Timing
   └────────────── budget ──────────────────────┘
         └ a store that is slow or down: defaults, and the response says so
"""

import asyncio
from collections.abc import Awaitable, Collection, Sequence
from itertools import chain
from math import isfinite, nan
from time import perf_counter
from typing import NamedTuple, Self

from headrace.declare.durations import UNITS_US
from headrace.declare.models.model import Model
from headrace.kafka.trace_context import parse_traceparent
from headrace.models.inference.feature_vectors import FeatureVector, FeatureVectorReader
from headrace.models.inference.onnx_model import first_line
from headrace.models.inference.prediction import BUDGET_EXCEEDED, MODEL_FAILED, STORE_UNAVAILABLE
from headrace.models.versions.live_versions import LiveVersions
from headrace.models.versions.version_loader import LoadedVersion
from headrace.online_store.feature_lookup import (
    LookupResult,
    RetentionExceededError,
    StoreNotReadyError,
    StoreUnavailable,
)
from headrace.online_store.memory.memory_store_reader import OnlineStoreReader
from headrace.server.http.responses import BadRequest, Header, ServiceUnavailable
from headrace.server.http.routing import Request
from headrace.server.inference.model_resolver import ModelResolver
from headrace.server.inference.prediction_log import PredictionBatch, PredictionLog
from headrace.server.inference.request_events import EventReader, current_time_us
from headrace.server.metrics.request_stats import PredictionStats
from headrace.tiles.events.event_parser import Event

# The rest of the budget after waiting for the store: merging, scoring and sending take less.
STORE_BUDGET_SHARE = 0.8
MIN_SCORING_S = 0.005  # a model gets, however late it is


class RequestContext(NamedTuple):
    """When a request arrived, and its trace context."""

    arrived_at: float
    traceparent: bytes | None = None

    @classmethod
    def from_request(cls, request: Request) -> Self:
        return cls(request.arrival.arrived_at, parse_traceparent(request.header(b"traceparent")))


class StageTiming(NamedTuple):
    """When a request arrived, and when each stage ended, in seconds of one clock."""

    arrived_at: float
    waited_at: float
    read_at: float
    merged_at: float
    scored_at: float

    @property
    def header(self) -> Header:
        arrived_at, waited_at, read_at, merged_at, scored_at = self
        return b"server-timing", b"wait;dur=%.3f, read;dur=%.3f, merge;dur=%.3f, score;dur=%.3f" % (
            1000 * (waited_at - arrived_at),
            1000 * (read_at - waited_at),
            1000 * (merged_at - read_at),
            1000 * (scored_at - merged_at),
        )


class ScoringResult(NamedTuple):
    """Scores, the version and vector of each, the reasons why they are degraded, and the duration of each stage."""

    versions: Sequence[str]
    scores: Sequence[float]
    decisions: Sequence[str | None]
    vectors: Sequence[FeatureVector]
    at_us: Sequence[int]
    degraded: Sequence[tuple[str, ...]]
    timing: StageTiming

    @property
    def degraded_reasons(self) -> tuple[str, ...]:
        """The distinct reasons of all scores."""
        return tuple(dict.fromkeys(chain.from_iterable(self.degraded)))


class _ScoringInput(NamedTuple):
    """The vectors to score, why they are degraded, and the live versions at that time."""

    live_versions: LiveVersions
    events: Sequence[Event]
    vectors: Sequence[FeatureVector]
    at_us: Sequence[int]
    degraded: tuple[str, ...]
    stage_times: tuple[float, float, float, float]
    traceparent: bytes | None


class _ScoredVectors(NamedTuple):
    """Scores, the version of each, and the indexes of those that a fallback scored."""

    scored_by: list[LoadedVersion]
    scores: list[float]
    fallback_indexes: Collection[int] = ()


class Predictor:
    """Scores the events of one model."""

    def __init__(
        self, model: Model, online: OnlineStoreReader, model_resolver: ModelResolver, prediction_log: PredictionLog
    ) -> None:
        self.model, self.model_resolver = model, model_resolver
        self.event_reader, self.vector_reader = EventReader(model), FeatureVectorReader(model, online)
        self.stats = PredictionStats()
        self._prediction_log = prediction_log
        self._budget_s = model.budget_us / UNITS_US["s"]
        self._is_store_local = bool(online.tables)

    async def score_events(
        self, events: Sequence[Event], context: RequestContext, include: bool = False
    ) -> ScoringResult:
        """The scores of events, on features from the store."""
        live_versions = self.model_resolver.current or await self.model_resolver.resolve()
        waited_at, request_time_us = perf_counter(), current_time_us()
        at_us = [self.event_reader.arrival_us(event, request_time_us, include) for event in events]
        if include:
            events = [self.event_reader.fill_missing_times(event, request_time_us) for event in events]
            pending_reads = self.vector_reader.read_features_including(events, at_us)
        else:
            pending_reads = self.vector_reader.read_features(events, at_us)
        reads_by_view, degraded = await self._await_reads(pending_reads, events, context.arrived_at)
        read_at = perf_counter()
        vectors = self.vector_reader.build_vectors(events, reads_by_view)
        stage_times = (context.arrived_at, waited_at, read_at, perf_counter())
        return await self._score(
            _ScoringInput(live_versions, events, vectors, at_us, degraded, stage_times, context.traceparent)
        )

    async def score_vectors(self, vectors: Sequence[FeatureVector], context: RequestContext) -> ScoringResult:
        """The scores of vectors that came whole."""
        live_versions = self.model_resolver.current or await self.model_resolver.resolve()
        waited_at = perf_counter()
        stage_times = (context.arrived_at, waited_at, waited_at, waited_at)
        return await self._score(
            _ScoringInput(
                live_versions, (), vectors, [current_time_us()] * len(vectors), (), stage_times, context.traceparent
            )
        )

    async def _await_reads(
        self, pending_reads: Awaitable[list[list[LookupResult]]], events: Sequence[Event], arrived_at: float
    ) -> tuple[list[list[LookupResult]], tuple[str, ...]]:
        """The store's values or, if they are not in time, the defaults of unknown entities."""
        try:
            if self._is_store_local:
                return await pending_reads, ()
            async with asyncio.timeout(self._budget_s * STORE_BUDGET_SHARE - (perf_counter() - arrived_at)):
                return await pending_reads, ()
        except StoreNotReadyError:
            raise
        except (StoreUnavailable, TimeoutError):
            return self.vector_reader.default_features(events), (STORE_UNAVAILABLE,)
        except RetentionExceededError as problem:
            raise BadRequest(str(problem)) from problem

    async def _score(self, scoring_input: _ScoringInput) -> ScoringResult:
        live_versions, events, vectors, at_us, degraded, stage_times, traceparent = scoring_input
        remaining_s = max(MIN_SCORING_S, self._budget_s - (stage_times[-1] - stage_times[0]))
        if live_versions.split is None or not events:
            scored_vectors = await self._score_with_fallback(
                live_versions.champion, live_versions, vectors, remaining_s
            )
        else:
            scored_vectors = await self._score_by_key(live_versions, events, vectors, remaining_s)
        scored_at = perf_counter()
        late_reasons = (BUDGET_EXCEEDED,) if scored_at - stage_times[0] > self._budget_s else ()
        degraded_by_vector = [(*degraded, *late_reasons)] * len(vectors)
        for index in scored_vectors.fallback_indexes:
            degraded_by_vector[index] = (*degraded, MODEL_FAILED, *late_reasons)
        self.stats.add(degraded_by_vector)
        model_fields = (self.model, self.vector_reader, live_versions.champion, live_versions.challengers)
        self._prediction_log.enqueue(
            PredictionBatch(
                *model_fields,
                events,
                vectors,
                scored_vectors.scored_by,
                scored_vectors.scores,
                at_us,
                degraded_by_vector,
                current_time_us(),
                traceparent,
            )
        )
        decisions = list(map(self.model.decision, scored_vectors.scores))
        versions = [loaded_version.version for loaded_version in scored_vectors.scored_by]
        return ScoringResult(
            versions,
            scored_vectors.scores,
            decisions,
            vectors,
            at_us,
            degraded_by_vector,
            StageTiming(*stage_times, scored_at),
        )

    async def _score_by_key(
        self, live_versions: LiveVersions, events: Sequence[Event], vectors: Sequence[FeatureVector], remaining_s: float
    ) -> _ScoredVectors:
        """Each event by the version assigned to its key."""
        key, scores, fallback_indexes = self.model.stream.key, [0.0] * len(events), set[int]()
        assigned_versions = [live_versions.version_for_key(str(event[key])) for event in events]
        scored_by = assigned_versions.copy()
        for loaded_version in {
            assigned_version.version: assigned_version for assigned_version in assigned_versions
        }.values():
            indexes = [index for index, one in enumerate(assigned_versions) if one is loaded_version]
            scored_vectors = await self._score_with_fallback(
                loaded_version, live_versions, [vectors[place] for place in indexes], remaining_s
            )
            for place, score, scoring_version in zip(
                indexes, scored_vectors.scores, scored_vectors.scored_by, strict=True
            ):
                scores[place], scored_by[place] = score, scoring_version
            fallback_indexes |= {indexes[place] for place in scored_vectors.fallback_indexes}
        return _ScoredVectors(scored_by, scores, fallback_indexes)

    async def _score_with_fallback(
        self,
        loaded_version: LoadedVersion,
        live_versions: LiveVersions,
        vectors: Sequence[FeatureVector],
        remaining_s: float,
    ) -> _ScoredVectors:
        """By one version or, where it fails, by its fallback."""
        scores, failure_reason = self._run_version(loaded_version, vectors, remaining_s)
        scored_by = [loaded_version] * len(scores)
        if failure_reason is None:
            return _ScoredVectors(scored_by, scores)
        fallback_indexes = [index for index, score in enumerate(scores) if not isfinite(score)]
        is_champion = loaded_version is live_versions.champion
        fallback = (
            await self.model_resolver.resolve_fallback(loaded_version, failure_reason)
            if is_champion
            else live_versions.champion
        )
        if fallback is not None:
            fallback_scores, fallback_failure = self._run_version(
                fallback, [vectors[place] for place in fallback_indexes], remaining_s
            )
        if fallback is None or fallback_failure is not None:
            raise ServiceUnavailable(
                f"{failure_reason.removesuffix('.')}. Promote another version, or ask with other values."
            )
        for place, score in zip(fallback_indexes, fallback_scores, strict=True):
            scores[place], scored_by[place] = score, fallback
        return _ScoredVectors(scored_by, scores, fallback_indexes)

    def _run_version(
        self, loaded_version: LoadedVersion, vectors: Sequence[FeatureVector], timeout_s: float
    ) -> tuple[list[float], str | None]:
        """The scores and, where some are not finite, a sentence that says why."""
        try:
            rows = self.vector_reader.scorer_rows(loaded_version.scorer, vectors)
            scores: list[float] = loaded_version.scorer.score_rows(rows, timeout_s).tolist()
        except Exception as failure:  # noqa: BLE001 - any error of a model must not stop the server
            return [nan] * len(vectors), f"{self._describe_version(loaded_version)} fails: {first_line(failure, 200)}"
        if all(map(isfinite, scores)):
            return scores, None
        not_finite = next(score for score in scores if not isfinite(score))
        return scores, f"{self._describe_version(loaded_version)} answers {not_finite}"

    def _describe_version(self, loaded_version: LoadedVersion) -> str:
        return f"Model {self.model.name!r} version {loaded_version.version}"
