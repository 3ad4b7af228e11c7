"""Runs the queries of an app on Spark until told to stop, and reports on each every second."""

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
from typing import Any

from pyspark.sql import SparkSession

from headrace.declare.app import App
from headrace.declare.derivation import Derived
from headrace.log.produce import Producer
from headrace.log.progress import QueryProgress, report
from headrace.stream.chains import Chain
from headrace.stream.derived import Function, functions_of, judge
from headrace.stream.generations import remember
from headrace.stream.lanes import QuerySpec
from headrace.stream.operation import OperationRunner
from headrace.stream.operations import begin_run
from headrace.stream.pilot import Pilot
from headrace.stream.queries import Place, Planned, derive_spec, plan_queries
from headrace.stream.runner import Runner
from headrace.stream.session import SparkPlace, process_of, start_session
from headrace.stream.task_slots import require_slots

REPORT_SECONDS = 1.0
SPARE_SLOTS = 2


@dataclass(frozen=True)
class SparkOptions:
    """Where Spark runs and what it is given."""

    master: str | None
    jars: Sequence[Path]
    java_home: Path | None = None


def run_queries(app: App, place: Place, options: SparkOptions, stop: threading.Event) -> None:
    """Run every query of the app but its operations until `stop` is set; one that fails stops them all, and raises."""
    planned = plan_queries(app, place)
    for generations in planned.generations:
        remember(generations, place.state)
    with _session(options, planned.slots + SPARE_SLOTS, place.state.resolve() / "spark") as spark:
        require_slots(spark, planned.slots)
        _run(Crew(spark, app, place, planned).runners(), place.broker, stop)


def run_operations(
    app: App, place: Place, options: SparkOptions, stop: threading.Event, begun: Callable[[int], None]
) -> None:
    """Run the operations of the app until `stop` is set; `begun` is called with Java's process once all of them run."""
    planned = plan_queries(app, place)
    for run in planned.runs:
        begin_run(app, run, place.state, place.broker)
    with _session(options, planned.operating_slots + SPARE_SLOTS, place.state.resolve() / "operators") as spark:
        runners = Crew(spark, app, place, planned).operators()
        _run(runners, place.broker, stop, partial(begun, process_of(spark)))


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

    def operators(self) -> list[Runner]:
        """One for each operation."""
        runs = {run.operation.name: run for run in self.planned.runs}
        chain = Chain(self.place.broker, self.place.state, runs)
        changelogs = self.planned.changelogs
        return [
            OperationRunner(
                self.spark,
                chain.spec(run, self.app.made_by(run.operation), changelogs.get(run.operation.name, 1)),
            )
            for run in self.planned.runs
        ]

    def _deriving(self, function: Function, found: Mapping[str, Runner]) -> tuple[str, Runner]:
        """Who derives a stream by a function, by the name of its query."""
        gates = [found[f"{one.name}.gate"] for one in function.parents]
        judged = judge(self.spark.newSession(), function)
        spec = derive_spec(function, judged, self.place, self.planned.partitions)
        return spec.name, self._pilot(spec, gates)

    def _pilot(self, spec: QuerySpec, upstream: Sequence[Runner]) -> Pilot:
        return Pilot(self.spark, spec, self.place.lane, upstream)


@contextmanager
def _session(options: SparkOptions, slots: int, scratch: Path) -> Iterator[SparkSession]:
    shutil.rmtree(scratch, ignore_errors=True)  # what a crash left there
    if options.java_home is not None:
        os.environ["JAVA_HOME"] = str(options.java_home)
    spark = start_session(SparkPlace(options.master, slots, options.jars, scratch))
    try:
        yield spark
    finally:
        spark.stop()


def _run(
    runners: Sequence[Runner], broker: str, stop: threading.Event, begun: Callable[[], None] = lambda: None
) -> None:
    try:
        for runner in runners:
            runner.start()
        _report_until(stop, runners, broker, begun)
    finally:
        for runner in runners:
            runner.stop()
        for runner in runners:
            runner.join(timeout=10)


def _report_until(stop: threading.Event, runners: Sequence[Runner], broker: str, begun: Callable[[], None]) -> None:
    producer, have_begun = Producer(broker), False
    while not stop.wait(REPORT_SECONDS):
        for runner in runners:
            if runner.failure is not None:
                raise runner.failure
            report(producer, progress_of(runner))
        if not have_begun and all(runner.running() for runner in runners):
            have_begun = True
            begun()


def progress_of(runner: Runner) -> QueryProgress:
    """What a query has to say of itself now."""
    last = runner.last_progress()
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
    )


def watermark_us(last: Mapping[str, Any]) -> int | None:
    """The watermark that Spark's account of a batch tells of; None before there is one."""
    text = last.get("eventTime", {}).get("watermark")
    moment = datetime.fromisoformat(text) if text else None
    return int(moment.timestamp() * 1_000_000) if moment and moment.year > 1970 else None
