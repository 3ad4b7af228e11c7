"""Whether parts, queries and tables of the lake are up, how often they were restarted, and how many are down."""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from headrace.log.outages import KINDS, AppStatus
from headrace.serve.families import tell


def outage_metrics(status: AppStatus) -> Iterator[Metric]:
    """1 for what is up and 0 for what is not, by name."""
    parts, queries, tables = status.parts, status.queries, status.tables
    yield tell("part_up", [([one.part], float(one.state == "running")) for one in parts])
    yield tell("part_restarts_total", [([one.part], float(one.restarts)) for one in parts])
    yield tell("query_up", [([one.query], float(status.is_running(one))) for one in queries])
    yield tell("query_restarts_total", [([one.query], float(one.restarts)) for one in queries])
    yield tell("lake_table_up", [([one.landed], float(one.down_since_us is None)) for one in tables])
    yield tell("down", [([kind], float(status.count(kind))) for kind in KINDS])
