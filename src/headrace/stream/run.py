"""Runs the queries of an app on Spark until told to stop, and reports on each every second."""

import os
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.declare.app import App
from headrace.declare.derivation import Derivation, Derived
from headrace.log.produce import Producer
from headrace.log.progress import QueryProgress, report
from headrace.stream.chains import Chain
from headrace.stream.derived import functions_of, judge
from headrace.stream.generations import remember
from headrace.stream.lanes import QuerySpec
from headrace.stream.operation import OperationRunner
from headrace.stream.operations import begin_run
from headrace.stream.pilot import Pilot
from headrace.stream.queries import Place, Planned, derive_spec, plan_queries
from headrace.stream.runner import Runner
from headrace.stream.session import SparkPlace, start_session

REPORT_SECONDS = 1.0
SPARE_SLOTS = 2


@dataclass(frozen=True)
class SparkOptions:
    """Where Spark runs and what it is given."""

    master: str | None
    jars: Sequence[Path]
    java_home: Path | None = None


def run_queries(app: App, place: Place, options: SparkOptions, stop: threading.Event) -> None:
    """Run every query of the app until `stop` is set; a query that fails stops them all and is raised."""
    planned = plan_queries(app, place)
    for generations in planned.generations:
        remember(generations, place.state)
    for run in planned.runs:
        begin_run(app, run, place.state, place.broker)
    spark = _session(options, planned.slots + SPARE_SLOTS, place.state.resolve() / "spark")
    runners: Sequence[Runner] = ()
    try:
        runners = Crew(spark, app, place, planned).runners()
        for runner in runners:
            runner.start()
        _report_until(stop, runners, place.broker)
    finally:
        _stop(runners, spark)


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
        for stream in self.app.streams:
            made_by = [stream.made_by] if isinstance(stream, Derived) else []
            for derivation in made_by:
                if derivation.query not in found:
                    found[derivation.query] = self._deriving(derivation, found)
            before = [found[derivation.query] for derivation in made_by]
            found[gates[stream.name].name] = self._pilot(gates[stream.name], before)
        for spec in self.planned.specs:
            if spec.views:
                found[spec.name] = self._pilot(spec, [found[gates[spec.stream].name]])
        return list(found.values())

    def _deriving(self, made_by: Derivation, found: Mapping[str, Runner]) -> Runner:
        """Who derives streams: Spark itself by a function, the host of operators by an operation."""
        gates = [found[f"{one.name}.gate"] for one in made_by.inputs]
        function = functions_of(self.app).get(made_by)
        if function is not None:
            judged = judge(self.spark.newSession(), function)
            return self._pilot(derive_spec(function, judged, self.place, self.planned.partitions), gates)
        runs = {run.operation.name: run for run in self.planned.runs}
        spec = Chain(self.place.broker, self.place.state, runs).spec(runs[made_by.name], self.app.made_by(made_by))
        return OperationRunner(self.spark, spec, gates)

    def _pilot(self, spec: QuerySpec, upstream: Sequence[Runner]) -> Pilot:
        return Pilot(self.spark, spec, self.place.lane, upstream)


def _session(options: SparkOptions, slots: int, scratch: Path) -> SparkSession:
    shutil.rmtree(scratch, ignore_errors=True)  # what a crash left there
    if options.java_home is not None:
        os.environ["JAVA_HOME"] = str(options.java_home)
    return start_session(SparkPlace(options.master, slots, options.jars, scratch))


def _report_until(stop: threading.Event, runners: Sequence[Runner], broker: str) -> None:
    producer = Producer(broker)
    while not stop.wait(REPORT_SECONDS):
        for runner in runners:
            if runner.failure is not None:
                raise runner.failure
            report(producer, progress_of(runner))


def _stop(runners: Sequence[Runner], spark: SparkSession) -> None:
    for runner in runners:
        runner.stop()
    for runner in runners:
        runner.join(timeout=10)
    spark.stop()


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
