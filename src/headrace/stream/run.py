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
from headrace.log.produce import Producer
from headrace.log.progress import QueryProgress, report
from headrace.stream.generations import remember
from headrace.stream.lanes import Lane, QuerySpec
from headrace.stream.pilot import Pilot
from headrace.stream.queries import Place, plan_queries
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
    spark = _session(options, planned.slots + SPARE_SLOTS, place.state.resolve() / "spark")
    pilots = _pilots(spark, planned.specs, place.lane)
    try:
        for pilot in pilots:
            pilot.start()
        _report_until(stop, pilots, place.broker)
    finally:
        _stop(pilots, spark)


def _pilots(spark: SparkSession, specs: Sequence[QuerySpec], lane: Lane) -> list[Pilot]:
    """One for each query; those that read a gate's output know of it."""
    gates = {spec.stream: Pilot(spark, spec, lane) for spec in specs if not spec.views}
    return [*gates.values(), *(Pilot(spark, spec, lane, gates[spec.stream]) for spec in specs if spec.views)]


def _session(options: SparkOptions, slots: int, scratch: Path) -> SparkSession:
    shutil.rmtree(scratch, ignore_errors=True)  # what a crash left there
    if options.java_home is not None:
        os.environ["JAVA_HOME"] = str(options.java_home)
    return start_session(SparkPlace(options.master, slots, options.jars, scratch))


def _report_until(stop: threading.Event, pilots: Sequence[Pilot], broker: str) -> None:
    producer = Producer(broker)
    while not stop.wait(REPORT_SECONDS):
        for pilot in pilots:
            if pilot.failure is not None:
                raise pilot.failure
            report(producer, progress_of(pilot))


def _stop(pilots: Sequence[Pilot], spark: SparkSession) -> None:
    for pilot in pilots:
        pilot.stop()
    for pilot in pilots:
        pilot.join(timeout=10)
    spark.stop()


def progress_of(pilot: Pilot) -> QueryProgress:
    """What a query has to say of itself now."""
    last = pilot.last_progress()
    operators = last.get("stateOperators", [])
    return QueryProgress(
        query=pilot.spec.name,
        stream=pilot.spec.stream,
        views=pilot.spec.views,
        lane=pilot.lane.value,
        running=pilot.running(),
        at_us=time.time_ns() // 1000,
        watermark_us=watermark_us(last),
        state_rows=sum(operator["numRowsTotal"] for operator in operators),
        state_bytes=sum(operator["memoryUsedBytes"] for operator in operators),
        dropped_by_watermark=pilot.dropped_by_watermark(),
        checkpoint_ms=last.get("durationMs", {}).get("commitOffsets"),
        reached={str(partition): offset for partition, offset in pilot.reached().items()},
    )


def watermark_us(last: Mapping[str, Any]) -> int | None:
    """The watermark that Spark's account of a batch tells of; None before there is one."""
    text = last.get("eventTime", {}).get("watermark")
    moment = datetime.fromisoformat(text) if text else None
    return int(moment.timestamp() * 1_000_000) if moment and moment.year > 1970 else None
