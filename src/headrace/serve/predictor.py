"""Scores of events that come with a request: features from the store, a model's version of that moment, in its budget.

request ── wait ──▶ read ──▶ merge ──▶ score ──▶ answer        each a part of Server-Timing
└───────────────────── budget ──────────────────┘
                    └ a store that is slow or gone: defaults, and the answer says so
"""

import asyncio
from collections.abc import Awaitable, Sequence
from math import isfinite
from time import perf_counter
from typing import NamedTuple

from headrace.declare.durations import UNITS_US
from headrace.declare.model import Model
from headrace.score.champions import Loaded
from headrace.score.lineup import Standing
from headrace.score.network import first_line
from headrace.score.prediction import BUDGET, MODEL, STORE
from headrace.score.vectors import Vector, Vectors
from headrace.serve.answers import BadRequest, Header, Unavailable
from headrace.serve.contenders import Contenders
from headrace.serve.events import EventReader, now_us
from headrace.serve.noted import Noted, PredictionLog
from headrace.serve.tallies import PredictionTally
from headrace.store.online import Online
from headrace.store.reads import Read, StoreFilling, StoreUnavailable, TooLongAgo
from headrace.tiles.events import Event

# What is left of a budget once the store was waited for: merging, scoring and sending take less.
STORE_SHARE = 0.8
LEAST_S = 0.005  # a model is given, however late it is


class Timing(NamedTuple):
    """When a request came, and when each stage ended, in seconds of one clock."""

    begun_at: float
    waited: float
    read: float
    merged: float
    scored: float

    @property
    def header(self) -> Header:
        begun_at, waited, read, merged, scored = self
        return b"server-timing", b"wait;dur=%.3f, read;dur=%.3f, merge;dur=%.3f, score;dur=%.3f" % (
            1000 * (waited - begun_at),
            1000 * (read - waited),
            1000 * (merged - read),
            1000 * (scored - merged),
        )


class Scored(NamedTuple):
    """What was scored, by which version, on what, and how long each stage took."""

    versions: Sequence[str]
    scores: Sequence[float]
    decisions: Sequence[str | None]
    vectors: Sequence[Vector]
    at_us: Sequence[int]
    degraded: tuple[str, ...]
    timing: Timing


class _Read(NamedTuple):
    """What is to be scored: vectors, whatever was lacking when they were read, and who scored then."""

    standing: Standing
    events: Sequence[Event]
    vectors: Sequence[Vector]
    at_us: Sequence[int]
    degraded: tuple[str, ...]
    times: tuple[float, float, float, float]


class _Answered(NamedTuple):
    """Scores, by whom each is, and who was champion for them."""

    champion: Loaded
    scores: Sequence[float]
    versions: Sequence[str]
    degraded: tuple[str, ...]


class Predictor:
    """Scores the events of one model."""

    def __init__(self, model: Model, online: Online, contenders: Contenders, log: PredictionLog) -> None:
        self.model, self.contenders = model, contenders
        self.events, self.vectors = EventReader(model), Vectors(model, online)
        self.tally = PredictionTally()
        self._log = log
        self._budget_s = model.budget_us / UNITS_US["s"]
        self._is_near = bool(online.tables)

    async def score_events(self, events: Sequence[Event], begun_at: float, include: bool = False) -> Scored:
        """The scores of events, on features from the store."""
        standing = self.contenders.now or await self.contenders.standing()
        waited, now = perf_counter(), now_us()
        at_us = [self.events.arrival_us(event, now, include) for event in events]
        if include:
            events = [self.events.completed(event, now) for event in events]
            asked = self.vectors.found_with(events, at_us)
        else:
            asked = self.vectors.found(events, at_us)
        found, degraded = await self._answered(asked, events, begun_at)
        read = perf_counter()
        vectors = self.vectors.made(events, found)
        times = (begun_at, waited, read, perf_counter())
        return await self._scored(_Read(standing, events, vectors, at_us, degraded, times))

    async def score_vectors(self, vectors: Sequence[Vector], begun_at: float) -> Scored:
        """The scores of vectors that came whole."""
        standing = self.contenders.now or await self.contenders.standing()
        waited = perf_counter()
        times = (begun_at, waited, waited, waited)
        return await self._scored(_Read(standing, (), vectors, [now_us()] * len(vectors), (), times))

    async def _answered(
        self, asked: Awaitable[list[list[Read]]], events: Sequence[Event], begun_at: float
    ) -> tuple[list[list[Read]], tuple[str, ...]]:
        """What the store says or, if it does not in time, what is said of whom nobody knows."""
        try:
            if self._is_near:
                return await asked, ()
            async with asyncio.timeout(self._budget_s * STORE_SHARE - (perf_counter() - begun_at)):
                return await asked, ()
        except StoreFilling:
            raise
        except (StoreUnavailable, TimeoutError):
            return self.vectors.nothing_found(events), (STORE,)
        except TooLongAgo as problem:
            raise BadRequest(str(problem)) from problem

    async def _scored(self, read: _Read) -> Scored:
        standing, events, vectors, at_us, degraded, times = read
        left_s = max(LEAST_S, self._budget_s - (times[-1] - times[0]))
        if standing.split is None or not events:
            answered = await self._by(standing.champion, standing, vectors, left_s)
        else:
            answered = await self._by_key(standing, events, vectors, left_s)
        scored_at = perf_counter()
        degraded += answered.degraded
        if scored_at - times[0] > self._budget_s:
            degraded = (*degraded, BUDGET)
        self.tally.add(len(vectors), degraded)
        known_scores = answered.scores if standing.split is None else None
        by = (self.model, self.vectors, answered.champion, standing.challengers)
        self._log.note(Noted(*by, events, vectors, known_scores, at_us, degraded, now_us()))
        decisions = list(map(self.model.decision, answered.scores))
        timing = Timing(*times, scored_at)
        return Scored(answered.versions, answered.scores, decisions, vectors, at_us, degraded, timing)

    async def _by_key(
        self, standing: Standing, events: Sequence[Event], vectors: Sequence[Vector], left_s: float
    ) -> _Answered:
        """Each event by who answers for its key."""
        key, scores, versions = self.model.stream.key, [0.0] * len(events), [""] * len(events)
        degraded: tuple[str, ...] = ()
        who = [standing.for_key(str(event[key])) for event in events]
        for loaded in {one.version: one for one in who}.values():
            places = [place for place, one in enumerate(who) if one is loaded]
            answered = await self._by(loaded, standing, [vectors[place] for place in places], left_s)
            for place, score, version in zip(places, answered.scores, answered.versions, strict=True):
                scores[place], versions[place] = score, version
            degraded = degraded or answered.degraded
        return _Answered(standing.champion, scores, versions, degraded)

    async def _by(self, loaded: Loaded, standing: Standing, vectors: Sequence[Vector], left_s: float) -> _Answered:
        """By one version or, if it fails, by the one in whose place it stands."""
        scores = self._scores(loaded, vectors, left_s)
        if not isinstance(scores, str):
            return _Answered(loaded, scores, [loaded.version] * len(scores), ())
        is_champion = loaded is standing.champion
        instead = await self.contenders.earlier(loaded, scores) if is_champion else standing.champion
        again = None if instead is None else self._scores(instead, vectors, left_s)
        if instead is None or again is None or isinstance(again, str):
            raise Unavailable(f"{scores}. Promote another version, or ask with other values.")
        return _Answered(instead, again, [instead.version] * len(again), (MODEL,))

    def _scores(self, loaded: Loaded, vectors: Sequence[Vector], within_s: float) -> Sequence[float] | str:
        """The scores, or a sentence that says why there are none."""
        try:
            rows = self.vectors.rows(loaded.scorer, vectors)
            scores: list[float] = loaded.scorer.score_rows(rows, within_s).tolist()
        except Exception as failure:  # noqa: BLE001 - whatever a model raises, the server goes on
            return f"{self._named(loaded)} fails: {first_line(failure, 200)}"
        if not all(map(isfinite, scores)):
            return f"{self._named(loaded)} answers {next(score for score in scores if not isfinite(score))}"
        return scores

    def _named(self, loaded: Loaded) -> str:
        return f"Model {self.model.name!r} version {loaded.version}"
