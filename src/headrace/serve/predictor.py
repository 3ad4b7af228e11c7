"""Scores of events that come with a request: features from the store, a model's version of that moment, in its budget.

request ── wait ──▶ read ──▶ merge ──▶ score ──▶ answer        each a part of Server-Timing
└───────────────────── budget ──────────────────┘
                    └ a store that is slow or gone: defaults, and the answer says so
"""

import asyncio
from collections.abc import Awaitable, Collection, Sequence
from itertools import chain
from math import isfinite, nan
from time import perf_counter
from typing import NamedTuple, Self

from headrace.declare.durations import UNITS_US
from headrace.declare.model import Model
from headrace.log.traceparent import traceparent_of
from headrace.score.champions import Loaded
from headrace.score.lineup import Standing
from headrace.score.network import first_line
from headrace.score.prediction import BUDGET, MODEL, STORE
from headrace.score.vectors import Vector, Vectors
from headrace.serve.answers import BadRequest, Header, Unavailable
from headrace.serve.contenders import Contenders
from headrace.serve.events import EventReader, now_us
from headrace.serve.http import Request
from headrace.serve.noted import Noted, PredictionLog
from headrace.serve.tallies import PredictionTally
from headrace.store.online import Online
from headrace.store.reads import Read, StoreFilling, StoreUnavailable, TooLongAgo
from headrace.tiles.events import Event

# What is left of a budget once the store was waited for: merging, scoring and sending take less.
STORE_SHARE = 0.8
LEAST_S = 0.005  # a model is given, however late it is


class Asked(NamedTuple):
    """When a request came, and which trace it is part of."""

    at: float
    trace: bytes | None = None

    @classmethod
    def by(cls, request: Request) -> Self:
        return cls(request.came.at, traceparent_of(request.header(b"traceparent")))


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
    """What was scored, by which version, on what, what each score lacked, and how long each stage took."""

    versions: Sequence[str]
    scores: Sequence[float]
    decisions: Sequence[str | None]
    vectors: Sequence[Vector]
    at_us: Sequence[int]
    degraded: Sequence[tuple[str, ...]]
    timing: Timing

    @property
    def lacking(self) -> tuple[str, ...]:
        """What any of the scores lacked."""
        return tuple(dict.fromkeys(chain.from_iterable(self.degraded)))


class _Read(NamedTuple):
    """What is to be scored: vectors, whatever was lacking when they were read, and who scored then."""

    standing: Standing
    events: Sequence[Event]
    vectors: Sequence[Vector]
    at_us: Sequence[int]
    degraded: tuple[str, ...]
    times: tuple[float, float, float, float]
    trace: bytes | None


class _Answered(NamedTuple):
    """Scores, by whom each is, and the places of those that are not by whom they should be."""

    by: list[Loaded]
    scores: list[float]
    fallen: Collection[int] = ()


class Predictor:
    """Scores the events of one model."""

    def __init__(self, model: Model, online: Online, contenders: Contenders, log: PredictionLog) -> None:
        self.model, self.contenders = model, contenders
        self.events, self.vectors = EventReader(model), Vectors(model, online)
        self.tally = PredictionTally()
        self._log = log
        self._budget_s = model.budget_us / UNITS_US["s"]
        self._is_near = bool(online.tables)

    async def score_events(self, events: Sequence[Event], by: Asked, include: bool = False) -> Scored:
        """The scores of events, on features from the store."""
        standing = self.contenders.now or await self.contenders.standing()
        waited, now = perf_counter(), now_us()
        at_us = [self.events.arrival_us(event, now, include) for event in events]
        if include:
            events = [self.events.completed(event, now) for event in events]
            asked = self.vectors.found_with(events, at_us)
        else:
            asked = self.vectors.found(events, at_us)
        found, degraded = await self._answered(asked, events, by.at)
        read = perf_counter()
        vectors = self.vectors.made(events, found)
        times = (by.at, waited, read, perf_counter())
        return await self._scored(_Read(standing, events, vectors, at_us, degraded, times, by.trace))

    async def score_vectors(self, vectors: Sequence[Vector], by: Asked) -> Scored:
        """The scores of vectors that came whole."""
        standing = self.contenders.now or await self.contenders.standing()
        waited = perf_counter()
        times = (by.at, waited, waited, waited)
        return await self._scored(_Read(standing, (), vectors, [now_us()] * len(vectors), (), times, by.trace))

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
        standing, events, vectors, at_us, degraded, times, trace = read
        left_s = max(LEAST_S, self._budget_s - (times[-1] - times[0]))
        if standing.split is None or not events:
            answered = await self._by(standing.champion, standing, vectors, left_s)
        else:
            answered = await self._by_key(standing, events, vectors, left_s)
        scored_at = perf_counter()
        late = (BUDGET,) if scored_at - times[0] > self._budget_s else ()
        lacking = [(*degraded, *late)] * len(vectors)
        for place in answered.fallen:
            lacking[place] = (*degraded, MODEL, *late)
        self.tally.add(lacking)
        who = (self.model, self.vectors, standing.champion, standing.challengers)
        self._log.note(Noted(*who, events, vectors, answered.by, answered.scores, at_us, lacking, now_us(), trace))
        decisions = list(map(self.model.decision, answered.scores))
        versions = [loaded.version for loaded in answered.by]
        return Scored(versions, answered.scores, decisions, vectors, at_us, lacking, Timing(*times, scored_at))

    async def _by_key(
        self, standing: Standing, events: Sequence[Event], vectors: Sequence[Vector], left_s: float
    ) -> _Answered:
        """Each event by who answers for its key."""
        key, scores, fallen = self.model.stream.key, [0.0] * len(events), set[int]()
        who = [standing.for_key(str(event[key])) for event in events]
        by = who.copy()
        for loaded in {one.version: one for one in who}.values():
            places = [place for place, one in enumerate(who) if one is loaded]
            answered = await self._by(loaded, standing, [vectors[place] for place in places], left_s)
            for place, score, scorer in zip(places, answered.scores, answered.by, strict=True):
                scores[place], by[place] = score, scorer
            fallen |= {places[place] for place in answered.fallen}
        return _Answered(by, scores, fallen)

    async def _by(self, loaded: Loaded, standing: Standing, vectors: Sequence[Vector], left_s: float) -> _Answered:
        """By one version or, where it fails, by the one in whose place it stands."""
        scores, why = self._scores(loaded, vectors, left_s)
        by = [loaded] * len(scores)
        if why is None:
            return _Answered(by, scores)
        fallen = [place for place, score in enumerate(scores) if not isfinite(score)]
        is_champion = loaded is standing.champion
        instead = await self.contenders.earlier(loaded, why) if is_champion else standing.champion
        if instead is not None:
            again, still = self._scores(instead, [vectors[place] for place in fallen], left_s)
        if instead is None or still is not None:
            raise Unavailable(f"{why.rstrip(".")}. Promote another version, or ask with other values.")
        for place, score in zip(fallen, again, strict=True):
            scores[place], by[place] = score, instead
        return _Answered(by, scores, fallen)

    def _scores(self, loaded: Loaded, vectors: Sequence[Vector], within_s: float) -> tuple[list[float], str | None]:
        """The scores and, where some of them are no numbers, a sentence that says why."""
        try:
            rows = self.vectors.rows(loaded.scorer, vectors)
            scores: list[float] = loaded.scorer.score_rows(rows, within_s).tolist()
        except Exception as failure:  # noqa: BLE001 - whatever a model raises, the server goes on
            return [nan] * len(vectors), f"{self._named(loaded)} fails: {first_line(failure, 200)}"
        if all(map(isfinite, scores)):
            return scores, None
        return scores, f"{self._named(loaded)} answers {next(score for score in scores if not isfinite(score))}"

    def _named(self, loaded: Loaded) -> str:
        return f"Model {self.model.name!r} version {loaded.version}"
