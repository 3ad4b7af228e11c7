"""Runs the queries of an app on Spark until stopped, and reports the progress of each every second."""

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
from headrace.declare.operations.derived_stream import DerivedStream
from headrace.errors import HeadraceError
from headrace.kafka.status.reports.queries import QueryProgress
from headrace.kafka.topics import ensure_topics
from headrace.kafka.workers.worker_group import WorkerGroup
from headrace.spark.derived_streams.derived_query import StreamFunction, choose_lane, stream_functions
from headrace.spark.execution.app_queries import AppQueryPlan, StreamingConfig, derive_spec, plan_queries
from headrace.spark.execution.lanes import QuerySpec
from headrace.spark.execution.query_runner import PendingQuerySpec, QueryRunner
from headrace.spark.execution.runner import Runner
from headrace.spark.session.error_summary import summarize_spark_error
from headrace.spark.session.liveness import require_alive, stop_session_at_exit
from headrace.spark.session.session import SparkSessionConfig, java_process_id, start_session
from headrace.spark.session.task_slots import require_task_slots
from headrace.spark.stateful.operation_chains import OperationChain
from headrace.spark.stateful.operation_query import OperationRunner, OperationSpec
from headrace.spark.stateful.operation_versions import OperationVersion, begin_operation_version
from headrace.spark.stateful.start_lock import StartLock
from headrace.spark.tiles.query_versions import save_query_versions

LOGGER = logging.getLogger("headrace.stream")
STOP_SECONDS = 20.0
TOPIC_CHECK_SECONDS = 30.0
SPARE_SLOTS = 2


class PartitionsChanged(HeadraceError):
    """The partition count of a topic differs from the plan of its queries."""


@dataclass(frozen=True)
class SparkOptions:
    """Spark's master, jars and configuration."""

    master: str | None
    jars: Sequence[Path]
    java_home: Path | None = None


def run_queries(app: App, config: StreamingConfig, options: SparkOptions, stop: threading.Event) -> None:
    """Run every query of the app except its operations until `stop` is set; a failed one restarts alone.

    Raises where a restart cannot help: the Spark session is gone.
    """
    plan = plan_queries(app, config)
    for version_plan in plan.query_versions:
        save_query_versions(version_plan, config.state_folder)
    with _spark_session(options, plan.query_task_slots + SPARE_SLOTS, config.state_folder.resolve() / "spark") as spark:
        require_task_slots(spark, plan.query_task_slots)
        manager = QueryManager(spark, app, config, plan)
        _run_until_stopped(manager, manager.build_query_runners(), stop)


def run_operations(
    app: App, config: StreamingConfig, options: SparkOptions, stop: threading.Event, on_started: Callable[[int], None]
) -> None:
    """Run the operations of the app until `stop` is set; `on_started` gets Java's process id once all of them run.

    It does not wait for one that is down.
    """
    plan = plan_queries(app, config)
    pending_begins = _begin_operation_versions(app, config, plan.operation_versions)
    with _spark_session(
        options, plan.operation_task_slots + SPARE_SLOTS, config.state_folder.resolve() / "operators"
    ) as spark:
        manager = QueryManager(spark, app, config, plan)
        _run_until_stopped(
            manager, manager.build_operation_runners(pending_begins), stop, partial(on_started, java_process_id(spark))
        )


def _begin_operation_versions(
    app: App, config: StreamingConfig, versions: Sequence[OperationVersion]
) -> dict[str, Callable[[], None]]:
    """Save the new versions before anything reads their output; returns a retry for each that failed."""
    pending_begins: dict[str, Callable[[], None]] = {}
    for version in versions:
        begin = partial(begin_operation_version, app, version, config.state_folder, config.broker)
        try:
            begin()
        except (HeadraceError, OSError) as error:
            LOGGER.error("Could not start version %s of %s: %s", version.number, version.operation.name, error)
            pending_begins[version.operation.name] = begin
    return pending_begins


@dataclass(frozen=True)
class QueryManager:
    """Builds the runners of an app's queries, and keeps their topics."""

    spark: SparkSession
    app: App
    config: StreamingConfig
    plan: AppQueryPlan

    def build_query_runners(self) -> list[Runner]:
        """The runners of queries, each after those it reads from, which it knows."""
        runners: dict[str, Runner] = {}
        gate_specs = {spec.stream: spec for spec in self.plan.specs if not spec.views}
        functions = stream_functions(self.app)
        for stream in self.app.streams:
            function = functions.get(stream.made_by) if isinstance(stream, DerivedStream) else None
            upstream = [] if function is None else [runners.setdefault(*self._function_runner(function, runners))]
            runners[gate_specs[stream.name].name] = self._query_runner(gate_specs[stream.name], upstream)
        for spec in self.plan.specs:
            if spec.views:
                runners[spec.name] = self._query_runner(spec, [runners[gate_specs[spec.stream].name]])
        return list(runners.values())

    def build_operation_runners(
        self, pending_begins: Mapping[str, Callable[[], None]] = MappingProxyType({})
    ) -> list[Runner]:
        """A runner for each operation; a pending version is saved when its runner starts."""
        versions = {version.operation.name: version for version in self.plan.operation_versions}
        chain, turns = OperationChain(self.config.broker, self.config.state_folder, versions), StartLock()
        return [
            OperationRunner(self.spark, self._operation_spec(chain, run), turns, pending_begins.get(run.operation.name))
            for run in self.plan.operation_versions
        ]

    def _operation_spec(self, chain: OperationChain, version: OperationVersion) -> OperationSpec:
        changelog_partitions = self.plan.changelog_partitions.get(version.operation.name, 1)
        return chain.operation_spec(version, self.app.derived_streams_of(version.operation), changelog_partitions)

    def _function_runner(self, function: StreamFunction, runners: Mapping[str, Runner]) -> tuple[str, Runner]:
        """The runner of a function, by the name of its query; the function is called when that starts."""
        gate_runners, stream = [runners[f"{parent.name}.gate"] for parent in function.parents], function.stream.name
        pending_spec = PendingQuerySpec(
            function.derivation.query, stream, (), (stream,), partial(self._function_spec, function)
        )
        return pending_spec.name, self._query_runner(pending_spec, gate_runners)

    def _function_spec(self, function: StreamFunction) -> QuerySpec:
        decision = choose_lane(self.spark.newSession(), function)
        return derive_spec(function, decision, self.config, self.plan.partition_counts)

    def repair_topics(self) -> None:
        """Create missing topics; raises where the partition count of one has grown beyond its queries' plan.

        Either can be the cause of a failed query, which a restart alone would not fix.
        """
        try:
            partition_counts = ensure_topics(
                self.config.broker, self.app.streams, self.app.views, self.app.models
            ).stream_partitions
        except HeadraceError as error:
            LOGGER.warning("Could not check the topics: %s", error)
            return
        for topic, count in partition_counts.items():
            if count != (planned_count := self.plan.partition_counts.get(topic, count)):
                raise PartitionsChanged(
                    f"Topic {topic} has {count} partitions, and its queries were planned for {planned_count}: "
                    "this process starts again to read all of them."
                )

    def _query_runner(self, spec: QuerySpec | PendingQuerySpec, upstream: Sequence[Runner]) -> QueryRunner:
        return QueryRunner(self.spark, spec, self.config.lane, upstream)


@contextmanager
def _spark_session(options: SparkOptions, task_slots: int, scratch: Path) -> Iterator[SparkSession]:
    shutil.rmtree(scratch, ignore_errors=True)  # left by a crash
    if options.java_home is not None:
        os.environ["JAVA_HOME"] = str(options.java_home)
    with stop_session_at_exit(
        start_session(SparkSessionConfig(options.master, task_slots, options.jars, scratch))
    ) as spark:
        yield spark


def _run_until_stopped(
    manager: QueryManager,
    runners: Sequence[Runner],
    stop: threading.Event,
    on_started: Callable[[], None] = lambda: None,
) -> None:
    check = DriverCheck(manager, runners, on_started)
    workers = [QueryWorker(runner) for runner in runners]
    group = WorkerGroup(
        "Reporting queries", workers, manager.config.broker, before_check=check.run, stop_seconds=STOP_SECONDS
    )
    try:
        group.run(stop)
    except Exception:
        require_alive(manager.spark)  # raises first: errors of a lost Java process are less clear
        raise


class DriverCheck:
    """The check of a driver each second: Spark, the topics, and whether all queries have started."""

    def __init__(self, manager: QueryManager, runners: Sequence[Runner], on_started: Callable[[], None]) -> None:
        self._manager, self._runners, self._on_started = manager, runners, on_started
        self._has_started, self._topics_due_s = False, 0.0

    def run(self) -> None:
        """Raises if restarting one query cannot help."""
        require_alive(self._manager.spark)
        is_down = any(runner.check_health().is_down for runner in self._runners)
        if is_down and time.monotonic() >= self._topics_due_s:
            self._manager.repair_topics()
            self._topics_due_s = time.monotonic() + TOPIC_CHECK_SECONDS
        if not self._has_started and all(one.is_running() or one.check_health().is_down for one in self._runners):
            self._has_started = True
            self._on_started()


class QueryWorker:
    """A query as a worker of its driver's group; its own thread restarts it."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.start, self.stop, self.join = runner.start, runner.stop, runner.join

    def check(self) -> None:
        """Raise a failure that no restart can repair."""
        if self._runner.failure is not None:
            raise self._runner.failure

    def progress(self) -> QueryProgress | None:
        """The progress of the query; a failed report is retried with the next one."""
        try:
            return query_progress(self._runner)
        except Exception as error:  # noqa: BLE001  # one failed report must not end the other queries
            LOGGER.warning("Could not report on %s: %s", self._runner.spec.name, summarize_spark_error(error))
            return None


def query_progress(runner: Runner) -> QueryProgress:
    """The current progress report of a query."""
    last_progress, health = runner.last_progress(), runner.check_health()
    operators = last_progress.get("stateOperators", [])
    return QueryProgress(
        query=runner.spec.name,
        stream=runner.spec.stream,
        views=runner.spec.views,
        derives=runner.spec.derives,
        lane=runner.lane.value,
        running=runner.is_running(),
        at_us=time.time_ns() // 1000,
        watermark_us=parse_watermark_us(last_progress),
        state_rows=sum(operator["numRowsTotal"] for operator in operators),
        state_bytes=sum(operator["memoryUsedBytes"] for operator in operators),
        dropped_by_watermark=runner.count_dropped_rows(),
        checkpoint_ms=last_progress.get("durationMs", {}).get("commitOffsets"),
        reached=dict(runner.reached_offsets()),
        restarts=health.restarts,
        down_since_us=health.down_since_us,
        error=health.error,
    )


def parse_watermark_us(progress: Mapping[str, Any]) -> int | None:
    """The watermark in Spark's progress of a batch; None before there is one."""
    text = progress.get("eventTime", {}).get("watermark")
    moment = datetime.fromisoformat(text) if text else None
    return int(moment.timestamp() * 1_000_000) if moment and moment.year > 1970 else None
