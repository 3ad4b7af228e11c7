"""Runs the queries of a captured table during a test, and reads their results from a store."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from headrace.declare.app import App
from headrace.declare.features.view import View
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.spark.execution.app_queries import StreamingConfig, plan_queries
from headrace.spark.execution.query_manager import QueryManager
from headrace.spark.session.error_summary import WORKER_DID_NOT_CONNECT
from headrace.spark.stateful.operation_versions import begin_operation_version
from tests.connectors.cdc.shop_writer import COUNTRIES
from tests.waiting import patiently

LATER_US = 4_000_000_000_000_000  # after every tile


@contextmanager
def running(spark: SparkSession, app: App, place: StreamingConfig) -> Iterator[None]:
    """The gate of a captured table, and what keeps the view of its rows, for the length of the block."""
    planned = plan_queries(app, place)
    for run in planned.operation_versions:
        begin_operation_version(app, run, place.state_folder, place.broker)
    crew = QueryManager(spark, app, place, planned)
    runners = [*crew.build_query_runners(), *crew.build_operation_runners()]
    for runner in runners:
        runner.start()
    try:
        yield
    finally:
        for runner in runners:
            runner.stop()
        for runner in runners:
            runner.join(patiently(30))
    # Spark gives a Python worker ten seconds to start, whatever is set: on a busy machine the query has restarted.
    assert not [error for runner in runners if (error := runner.health.error) and WORKER_DID_NOT_CONNECT not in error]


def countries_in(store: MemoryStore, view: View) -> dict[str, dict[str, Any]]:
    """The features of every country."""
    reads = store.read(view.name, [(country,) for country in COUNTRIES], LATER_US)
    return {
        country: dict(zip(view.names, read.values, strict=True)) for country, read in zip(COUNTRIES, reads, strict=True)
    }
