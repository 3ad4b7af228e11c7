"""Whether parts, queries and tables of the lake are up, how often they were restarted, and how many are down."""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from headrace.kafka.status.app_status import OUTAGE_KINDS, AppStatus
from headrace.server.metrics.prometheus import create_metric


def outage_metrics(status: AppStatus) -> Iterator[Metric]:
    """1 for each part, query and table that is up and 0 for each that is down, by name."""
    parts, queries, tables = status.parts, status.queries, status.tables
    yield create_metric("part_up", [([progress.part], float(progress.state == "running")) for progress in parts])
    yield create_metric("part_restarts_total", [([one.part], float(one.restarts)) for one in parts])
    yield create_metric("query_up", [([one.query], float(status.is_running(one))) for one in queries])
    yield create_metric("query_restarts_total", [([one.query], float(one.restarts)) for one in queries])
    yield create_metric("lake_table_up", [([one.landed], float(one.down_since_us is None)) for one in tables])
    yield create_metric("down", [([kind], float(status.count_outages(kind))) for kind in OUTAGE_KINDS])
