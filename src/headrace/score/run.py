"""The scoring part of an app: each of its models scores its stream, in a thread of its own."""

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import uvloop

from headrace.declare.app import App
from headrace.declare.model import Model
from headrace.declare.names import consumer_group
from headrace.errors import HeadraceError
from headrace.log.kept_worker import KeptWorker
from headrace.log.offsets import Offsets
from headrace.log.produce import Producer
from headrace.log.progress import TOPIC, ScorerProgress, report
from headrace.log.work import WorkFollower
from headrace.score.learning import learning_of
from headrace.score.lineup import Lineup
from headrace.score.scored import ScoredIds
from headrace.score.stream import Bench, StreamScorer
from headrace.score.tally import ScoreTally
from headrace.store.choose import online_of
from headrace.store.online import Online, apply_politely
from headrace.store.reads import SLACK_US, StoreUnavailable

LOGGER = logging.getLogger("headrace.score")
RETRY_SECONDS = 0.5
REPORT_SECONDS = 1.0

Found = TypeVar("Found")


@dataclass(frozen=True)
class ScorePlace:
    """What a scorer follows, what it reads features from, and where the versions of models are."""

    broker: str
    store_url: str
    state: Path


def score_until(app: App, place: ScorePlace, stop: threading.Event) -> None:
    """Score the streams of an app's models until `stop` is set."""
    if not app.models:
        stop.wait()
        return
    apply_politely()
    store_of = _stores(app, place)
    scorings = [KeptWorker(f"Scoring {model.name}", partial(_scoring, model, store_of, place)) for model in app.models]
    try:
        for scoring in scorings:
            scoring.start()
        _watch(scorings, Producer(place.broker), stop)
    finally:
        for scoring in scorings:
            scoring.stop()


def _stores(app: App, place: ScorePlace) -> Callable[[], Online]:
    """A store for each scorer: all share the one in this process, and a connection is one thread's own."""
    views = tuple(dict.fromkeys(view for model in app.models for view in model.views))

    def begun() -> Online:
        online = online_of(app, place.broker, place.store_url, views)
        online.start()
        return online

    if place.store_url != "memory":
        return begun
    shared = begun()
    return lambda: shared


def _scoring(model: Model, store_of: Callable[[], Online], place: ScorePlace, number: int) -> "ModelScoring":
    return ModelScoring(model, store_of(), place, number)


def _watch(scorings: Sequence[KeptWorker["ModelScoring"]], producer: Producer, stop: threading.Event) -> None:
    """Restart the scorer of each model that has failed, alone, and report all."""
    while not stop.wait(REPORT_SECONDS):
        for scoring in scorings:
            scoring.look()
            progress = scoring.worker.progress()
            if progress is not None:
                report(producer, progress)


class ModelScoring(threading.Thread):
    """Waits for a champion and a filled store, then scores a model's stream as one of a group."""

    def __init__(self, model: Model, online: Online, place: ScorePlace, number: int = 0) -> None:
        """`number` is how many of this model were before it in this process: each counts for itself."""
        super().__init__(name=f"score {model.name}", daemon=True)
        self._model, self._online, self._place = model, online, place
        self._stopping = threading.Event()
        self._scorer: StreamScorer | None = None
        self._follower: WorkFollower | None = None
        self._failure: BaseException | None = None
        self._trouble = ""
        self._process = f"{socket.gethostname()}:{os.getpid()}" + (f":{number}" if number else "")

    def run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                self._score(runner)
                runner.run(self._online.stop())
        except Exception as failure:  # noqa: BLE001 - nobody is above a thread: whoever watches is told
            self._failure = failure

    def stop(self) -> None:
        """End after what is in hand."""
        self._stopping.set()
        if self._follower is not None:
            self._follower.stop()
        self.join()

    @property
    def failure(self) -> BaseException | None:
        """What made it stop by itself, if anything did."""
        return self._failure

    def progress(self) -> ScorerProgress | None:
        """What it has done so far, or what keeps it from beginning; None before either is known."""
        if self._scorer is None or self._follower is None:
            return self._told(ScoreTally(), 0) if self._trouble else None
        try:
            return self._told(self._scorer.tally, self._follower.lag)
        except HeadraceError:  # the broker does not answer: told of once it does
            return None

    def _told(self, tally: ScoreTally, lag: int) -> ScorerProgress:
        return ScorerProgress(
            scored=self._model.name,
            scorer=self._process,
            at_us=time.time_ns() // 1000,
            lag=lag,
            predictions=[[*of, count] for of, count in tally.predictions.copy().items()],
            degraded=dict(tally.degraded.copy()),
            delays=tally.delays.counts.copy(),
            delay_seconds=tally.delays.total_seconds,
            trouble=self._trouble,
        )

    def _score(self, runner: asyncio.Runner) -> None:
        self._once(self._require_topics)
        with ExitStack() as open_:
            learning = learning_of(self._model, self._place.broker)
            if learning is not None:
                learning.start()
                open_.callback(learning.stop)
            lineup = self._once(lambda: Lineup.of(self._model, self._place.state, learning))
            self._once(lambda: runner.run(self._require_filled()), is_trouble=True)
            if lineup is None or self._stopping.is_set():
                return
            lineup.start()
            open_.callback(lineup.stop)
            self._follow(lineup, runner)

    def _follow(self, lineup: Lineup, runner: asyncio.Runner) -> None:
        broker = self._place.broker
        scored = ScoredIds(broker, self._model)
        with Producer(broker) as producer:
            bench = Bench(self._online, lineup, producer, scored, runner.get_loop())
            self._scorer = StreamScorer(self._model, bench)
            self._follower = WorkFollower(
                broker, self._model.stream.clean, self._scorer, group_of(self._model), SLACK_US
            )
            LOGGER.info(
                "%s scores %s with version %s",
                self._model.name,
                self._model.stream.name,
                lineup.standing.champion.version,
            )
            if not self._stopping.is_set():
                self._follower.run()

    def _once(self, step: Callable[[], Found], *, is_trouble: bool = False) -> Found | None:
        """Try a step until it does not fail, and say why it does; None where that is never.

        A model that nobody has trained is waited for too, which is no trouble.
        """
        said = ""
        while not self._stopping.is_set():
            try:
                done = step()
            except HeadraceError as problem:
                self._trouble = str(problem) if is_trouble else ""
                if str(problem) != said:
                    LOGGER.warning("%s waits: %s", self._model.name, problem)
                    said = str(problem)
            else:
                self._trouble = ""
                return done
            self._stopping.wait(RETRY_SECONDS)
        return None

    def _require_topics(self) -> None:
        Offsets(self._place.broker).every_partition([self._model.stream.clean, self._model.predictions, TOPIC])

    async def _require_filled(self) -> None:
        """A store that has not read all there was would say less than it should."""
        missing = await self._online.missing()
        if missing:
            raise StoreUnavailable("; ".join(missing))


def group_of(model: Model) -> str:
    """The consumer group that scores a model."""
    return consumer_group("score", model.name)
