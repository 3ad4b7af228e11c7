"""Runs the queries of an app on Spark until told to stop, and reports on each every second."""

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pyspark.sql import SparkSession

from headrace.declare.app import App
from headrace.declare.derivation import Derived
from headrace.errors import HeadraceError
from headrace.log.produce import Producer
from headrace.log.progress import QueryProgress, report
from headrace.log.topics import ensure_topics
from headrace.stream.chains import Chain
from headrace.stream.derived import Function, functions_of, judge
from headrace.stream.error_summary import summarize_spark_error
from headrace.stream.generations import remember
from headrace.stream.lanes import QuerySpec
from headrace.stream.operation import KeyedSpec, OperationRunner
from headrace.stream.operations import KeptRun, begin_run
from headrace.stream.pilot import PendingSpec, Pilot
from headrace.stream.queries import Place, Planned, derive_spec, plan_queries
from headrace.stream.runner import Runner
from headrace.stream.session import SparkPlace, process_of, start_session
from headrace.stream.session_liveness import require_session, stopped_at_end
from headrace.stream.start_turns import StartTurns
from headrace.stream.task_slots import require_slots

LOGGER = logging.getLogger("headrace.stream")
REPORT_SECONDS = 1.0
STOP_SECONDS = 20.0
TOPICS_SECONDS = 30.0
SPARE_SLOTS = 2


class PartitionsChanged(HeadraceError):
    """A topic has another number of partitions than its queries were planned for."""


@dataclass(frozen=True)
class SparkOptions:
    """Where Spark runs and what it is given."""

    master: str | None
    jars: Sequence[Path]
    java_home: Path | None = None


def run_queries(app: App, place: Place, options: SparkOptions, stop: threading.Event) -> None:
    """Run every query of the app but its operations until `stop` is set; one that fails is restarted alone.

    Raises where that cannot help: the Spark session is gone.
    """
    planned = plan_queries(app, place)
    for generations in planned.generations:
        remember(generations, place.state)
    with _session(options, planned.slots + SPARE_SLOTS, place.state.resolve() / "spark") as spark:
        require_slots(spark, planned.slots)
        crew = Crew(spark, app, place, planned)
        _run(crew, crew.runners(), stop)


def run_operations(
    app: App, place: Place, options: SparkOptions, stop: threading.Event, begun: Callable[[int], None]
) -> None:
    """Run the operations of the app until `stop` is set; `begun` is called with Java's process once all of them run.

    One that is down by then is not waited for.
    """
    planned = plan_queries(app, place)
    unbegun = _begin_runs(app, place, planned.runs)
    with _session(options, planned.operating_slots + SPARE_SLOTS, place.state.resolve() / "operators") as spark:
        crew = Crew(spark, app, place, planned)
        _run(crew, crew.operators(unbegun), stop, partial(begun, process_of(spark)))


def _begin_runs(app: App, place: Place, runs: Sequence[KeptRun]) -> dict[str, Callable[[], None]]:
    """Write down what now runs, before anything reads what it makes; gives how to try again where that failed."""
    unbegun: dict[str, Callable[[], None]] = {}
    for run in runs:
        begin = partial(begin_run, app, run, place.state, place.broker)
        try:
            begin()
        except (HeadraceError, OSError) as failure:
            LOGGER.error("Could not begin run %s of %s: %s", run.number, run.operation.name, failure)
            unbegun[run.operation.name] = begin
    return unbegun


@dataclass(frozen=True)
class Crew:
    """Who runs the queries of an app: one for each, and where they work."""

    spark: SparkSession
    app: App
    place: Place
    planned: Planned

    def runners(self) -> list[Runner]:
        """Each after those whose output it reads, and knowing of them."""
        found: dict[str, Runner] = {}
        gates = {spec.stream: spec for spec in self.planned.specs if not spec.views}
        functions = functions_of(self.app)
        for stream in self.app.streams:
            function = functions.get(stream.made_by) if isinstance(stream, Derived) else None
            before = [] if function is None else [found.setdefault(*self._deriving(function, found))]
            found[gates[stream.name].name] = self._pilot(gates[stream.name], before)
        for spec in self.planned.specs:
            if spec.views:
                found[spec.name] = self._pilot(spec, [found[gates[spec.stream].name]])
        return list(found.values())

    def operators(self, unbegun: Mapping[str, Callable[[], None]] = MappingProxyType({})) -> list[Runner]:
        """One for each operation; what could not be begun before is begun when it starts."""
        runs = {run.operation.name: run for run in self.planned.runs}
        chain, turns = Chain(self.place.broker, self.place.state, runs), StartTurns()
        return [
            OperationRunner(self.spark, self._spec(chain, run), turns, unbegun.get(run.operation.name))
            for run in self.planned.runs
        ]

    def _spec(self, chain: Chain, run: KeptRun) -> KeyedSpec:
        changelog_partitions = self.planned.changelogs.get(run.operation.name, 1)
        return chain.spec(run, self.app.made_by(run.operation), changelog_partitions)

    def _deriving(self, function: Function, found: Mapping[str, Runner]) -> tuple[str, Runner]:
        """Who derives a stream by a function, by the name of its query; the function is called when that starts."""
        gates, stream = [found[f"{one.name}.gate"] for one in function.parents], function.stream.name
        pending = PendingSpec(function.made_by.query, stream, (), (stream,), partial(self._derive_spec, function))
        return pending.name, self._pilot(pending, gates)

    def _derive_spec(self, function: Function) -> QuerySpec:
        judged = judge(self.spark.newSession(), function)
        return derive_spec(function, judged, self.place, self.planned.partitions)

    def repair_topics(self) -> None:
        """Create topics that are gone; raises where one has more partitions than its queries were planned for.

        A failed query may be down for either reason, and no restart of it alone would help.
        """
        try:
            found = ensure_topics(self.place.broker, self.app.streams, self.app.views, self.app.models).partitions
        except HeadraceError as failure:
            LOGGER.warning("Could not look at the topics: %s", failure)
            return
        for topic, count in found.items():
            if count != (planned := self.planned.partitions.get(topic, count)):
                raise PartitionsChanged(
                    f"Topic {topic} has {count} partitions, and its queries were planned for {planned}: "
                    "this process starts again to read all of them."
                )

    def _pilot(self, spec: QuerySpec | PendingSpec, upstream: Sequence[Runner]) -> Pilot:
        return Pilot(self.spark, spec, self.place.lane, upstream)


@contextmanager
def _session(options: SparkOptions, slots: int, scratch: Path) -> Iterator[SparkSession]:
    shutil.rmtree(scratch, ignore_errors=True)  # what a crash left there
    if options.java_home is not None:
        os.environ["JAVA_HOME"] = str(options.java_home)
    with stopped_at_end(start_session(SparkPlace(options.master, slots, options.jars, scratch))) as spark:
        yield spark


def _run(
    crew: Crew, runners: Sequence[Runner], stop: threading.Event, begun: Callable[[], None] = lambda: None
) -> None:
    try:
        for runner in runners:
            runner.start()
        _report_until(stop, crew, runners, begun)
    except Exception:
        require_session(crew.spark)  # raises in its place: whatever fails for want of Java says less
        raise
    finally:
        until_s = time.monotonic() + STOP_SECONDS
        for runner in runners:
            runner.stop()
        for runner in runners:
            runner.join(timeout=max(0.0, until_s - time.monotonic()))


def _report_until(stop: threading.Event, crew: Crew, runners: Sequence[Runner], begun: Callable[[], None]) -> None:
    producer, have_begun, topics_due_s = Producer(crew.place.broker), False, 0.0
    while not stop.wait(REPORT_SECONDS):
        require_session(crew.spark)
        for runner in runners:
            if runner.failure is not None:
                raise runner.failure
            _report(producer, runner)
        is_down = any(runner.observe().is_down for runner in runners)
        if is_down and time.monotonic() >= topics_due_s:
            crew.repair_topics()
            topics_due_s = time.monotonic() + TOPICS_SECONDS
        if not have_begun and all(runner.running() or runner.observe().is_down for runner in runners):
            have_begun = True
            begun()


def _report(producer: Producer, runner: Runner) -> None:
    """Send how a query fares; what cannot be asked just now is sent the next time."""
    try:
        report(producer, progress_of(runner))
    except Exception as failure:  # noqa: BLE001  # one query's figures are no reason to end the others
        LOGGER.warning("Could not report on %s: %s", runner.spec.name, summarize_spark_error(failure))


def progress_of(runner: Runner) -> QueryProgress:
    """What a query has to say of itself now."""
    last, health = runner.last_progress(), runner.observe()
    operators = last.get("stateOperators", [])
    return QueryProgress(
        query=runner.spec.name,
        stream=runner.spec.stream,
        views=runner.spec.views,
        derives=runner.spec.derives,
        lane=runner.lane.value,
        running=runner.running(),
        at_us=time.time_ns() // 1000,
        watermark_us=watermark_us(last),
        state_rows=sum(operator["numRowsTotal"] for operator in operators),
        state_bytes=sum(operator["memoryUsedBytes"] for operator in operators),
        dropped_by_watermark=runner.dropped_by_watermark(),
        checkpoint_ms=last.get("durationMs", {}).get("commitOffsets"),
        reached=dict(runner.reached()),
        restarts=health.restarts,
        down_since_us=health.down_since_us,
        error=health.error,
    )


def watermark_us(last: Mapping[str, Any]) -> int | None:
    """The watermark that Spark's account of a batch tells of; None before there is one."""
    text = last.get("eventTime", {}).get("watermark")
    moment = datetime.fromisoformat(text) if text else None
    return int(moment.timestamp() * 1_000_000) if moment and moment.year > 1970 else None
