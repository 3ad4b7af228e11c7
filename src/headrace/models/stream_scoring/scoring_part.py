"""The scoring part of an app: scores the stream of each of its models, in a thread of its own."""

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import uvloop

from headrace.declare.app import App
from headrace.declare.models.model import Model
from headrace.declare.names import consumer_group
from headrace.errors import HeadraceError
from headrace.kafka.consumers.acknowledging_consumer import AcknowledgingConsumer
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from headrace.kafka.status.heartbeat import PROGRESS_TOPIC
from headrace.kafka.status.reports.models import ScorerProgress
from headrace.kafka.workers.restarting_worker import RestartingWorker
from headrace.kafka.workers.worker_group import WorkerGroup
from headrace.kafka.workers.worker_thread import WorkerThread
from headrace.models.online_learning.learner_replica import create_learner_replica
from headrace.models.stream_scoring.score_counts import ScoreCounts
from headrace.models.stream_scoring.scored_ids import ScoredIds
from headrace.models.stream_scoring.stream_scorer import ScoringContext, StreamScorer
from headrace.models.versions.live_versions import VersionWatcher
from headrace.online_store.factory import create_store_reader
from headrace.online_store.feature_lookup import RETENTION_SLACK_US, StoreUnavailable
from headrace.online_store.memory.memory_store_reader import OnlineStoreReader, tune_for_latency

LOGGER = logging.getLogger("headrace.score")
RETRY_SECONDS = 0.5

Result = TypeVar("Result")


@dataclass(frozen=True)
class ScoringConfig:
    """The settings of scorers: the broker, the online store, and the folder of model versions."""

    broker: str
    store_url: str
    state: Path


def score_until(app: App, config: ScoringConfig, stop: threading.Event) -> None:
    """Score the streams of an app's models until `stop` is set."""
    if not app.models:
        stop.wait()
        return
    tune_for_latency()
    open_store = _store_opener(app, config)
    workers = [
        RestartingWorker(f"Scoring {model.name}", partial(_create_worker, model, open_store, config))
        for model in app.models
    ]
    WorkerGroup("Reporting scorers", workers, config.broker).run(stop)


def _store_opener(app: App, config: ScoringConfig) -> Callable[[], OnlineStoreReader]:
    """A factory of stores for scorers: all share the in-memory one; a connection belongs to one thread."""
    views = tuple(dict.fromkeys(view for model in app.models for view in model.views))

    def open_store() -> OnlineStoreReader:
        store_reader = create_store_reader(app, config.broker, config.store_url, views)
        store_reader.start()
        return store_reader

    if config.store_url != "memory":
        return open_store
    shared_reader = open_store()
    return lambda: shared_reader


def _create_worker(
    model: Model, open_store: Callable[[], OnlineStoreReader], config: ScoringConfig, number: int
) -> "ScoringWorker":
    return ScoringWorker(model, open_store(), config, number)


class ScoringWorker(WorkerThread):
    """Waits for a champion and a filled store, then scores a model's stream as a member of a consumer group."""

    def __init__(self, model: Model, store_reader: OnlineStoreReader, config: ScoringConfig, number: int = 0) -> None:
        """`number` is how many workers of this model preceded it in this process: each reports its own counts."""
        super().__init__(f"score {model.name}")
        self._model, self._store_reader, self._config = model, store_reader, config
        self._scorer: StreamScorer | None = None
        self._consumer: AcknowledgingConsumer | None = None
        self._error = ""
        self._process_name = f"{socket.gethostname()}:{os.getpid()}" + (f":{number}" if number else "")

    def _work(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            self._run_scoring(runner)
            runner.run(self._store_reader.stop())

    def _interrupt(self) -> None:
        if self._consumer is not None:
            self._consumer.stop()

    def progress(self) -> ScorerProgress | None:
        """Its progress so far, or what prevents its start; None before either is known."""
        if self._scorer is None or self._consumer is None:
            return self._to_progress(ScoreCounts(), 0) if self._error else None
        try:
            return self._to_progress(self._scorer.counts, self._consumer.lag)
        except HeadraceError:  # the broker does not answer: the next report tells
            return None

    def _to_progress(self, counts: ScoreCounts, lag: int) -> ScorerProgress:
        return ScorerProgress(
            scored=self._model.name,
            scorer=self._process_name,
            at_us=time.time_ns() // 1000,
            lag=lag,
            predictions=[[*version_and_role, count] for version_and_role, count in counts.predictions.copy().items()],
            degraded=dict(counts.degraded.copy()),
            delays=counts.delays.counts.copy(),
            delay_seconds=counts.delays.total_seconds,
            trouble=self._error,
        )

    def _run_scoring(self, runner: asyncio.Runner) -> None:
        self._retry_until_done(self._require_topics)
        with ExitStack() as exit_stack:
            learner_replica = create_learner_replica(self._model, self._config.broker)
            if learner_replica is not None:
                learner_replica.start()
                exit_stack.callback(learner_replica.stop)
            version_watcher = self._retry_until_done(
                lambda: VersionWatcher.load(self._model, self._config.state, learner_replica)
            )
            self._retry_until_done(lambda: runner.run(self._require_filled()), is_error=True)
            if version_watcher is None or self.stop_event.is_set():
                return
            version_watcher.start()
            exit_stack.callback(version_watcher.stop)
            self._follow_stream(version_watcher, runner)

    def _follow_stream(self, version_watcher: VersionWatcher, runner: asyncio.Runner) -> None:
        broker = self._config.broker
        scored_ids = ScoredIds(broker, self._model)
        with Producer(broker) as producer:
            context = ScoringContext(self._store_reader, version_watcher, producer, scored_ids, runner.get_loop())
            self._scorer = StreamScorer(self._model, context)
            self._consumer = AcknowledgingConsumer(
                broker, self._model.stream.clean, self._scorer, scoring_group(self._model), RETENTION_SLACK_US
            )
            LOGGER.info(
                "%s scores %s with version %s",
                self._model.name,
                self._model.stream.name,
                version_watcher.live_versions.champion.version,
            )
            if not self.stop_event.is_set():
                self._consumer.run()

    def _retry_until_done(self, step: Callable[[], Result], *, is_error: bool = False) -> Result | None:
        """Retry a step until it succeeds, and report its error; None where it is stopped before.

        It also waits for a model that is not trained yet, which is not an error.
        """
        last_problem = ""
        while not self.stop_event.is_set():
            try:
                result = step()
            except HeadraceError as problem:
                self._error = str(problem) if is_error else ""
                if str(problem) != last_problem:
                    LOGGER.warning("Scoring of %s waits: %s", self._model.name, problem)
                    last_problem = str(problem)
            else:
                self._error = ""
                return result
            self.stop_event.wait(RETRY_SECONDS)
        return None

    def _require_topics(self) -> None:
        OffsetClient(self._config.broker).require_partitions(
            [self._model.stream.clean, self._model.predictions, PROGRESS_TOPIC]
        )

    async def _require_filled(self) -> None:
        """A store that has not caught up would return incomplete values."""
        problems = await self._store_reader.readiness_problems()
        if problems:
            raise StoreUnavailable("; ".join(problems))


def scoring_group(model: Model) -> str:
    """The consumer group that scores a model."""
    return consumer_group("score", model.name)
