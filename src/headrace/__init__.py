"""Headrace: features declared once, kept fresh by Spark, and the same number everywhere.

>>> import headrace as hr
>>> payments = hr.Stream(
...     "payments", schema="id string, card string, amount double, at timestamp", id="id", key="card", time="at"
... )
>>> @hr.features(payments, by="card")
... class CardSpend:
...     spend = hr.sum("amount", windows="1h")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace import testing
from headrace.aggregates.counts.count import count
from headrace.aggregates.counts.distinct import distinct
from headrace.aggregates.counts.top import top
from headrace.aggregates.selection.first import first
from headrace.aggregates.selection.last import last
from headrace.aggregates.selection.max import max
from headrace.aggregates.selection.min import min
from headrace.aggregates.statistics.ewm import ewm
from headrace.aggregates.statistics.mean import mean
from headrace.aggregates.statistics.quantile import quantile
from headrace.aggregates.statistics.skewness import skewness
from headrace.aggregates.statistics.stddev import stddev
from headrace.aggregates.statistics.sum import sum
from headrace.aggregates.statistics.var import var
from headrace.client.sync_client import Client
from headrace.declare.alerts.alert import Alert
from headrace.declare.alerts.alert_values import Objective, metric, share
from headrace.declare.features.operands import abs, coalesce, log, request, sqrt, where
from headrace.declare.features.view import View, features
from headrace.declare.models.drift import Drift
from headrace.declare.models.labels import Labels
from headrace.declare.models.model import Model
from headrace.declare.models.retraining import Retrain
from headrace.declare.operations.derive import derive
from headrace.declare.operations.enrichment import enrich
from headrace.declare.operations.join import join, join_asof
from headrace.declare.operations.pattern import pattern
from headrace.declare.operations.window_shapes import Global, Session, Sliding, Tumbling
from headrace.declare.operations.windowed_stream import windowed
from headrace.declare.saved_query import Query
from headrace.declare.sinks import targets as _targets
from headrace.declare.sinks.outbox import Outbox
from headrace.declare.sinks.sink import Sink
from headrace.declare.sinks.targets import *
from headrace.declare.streams import external_sources as _external_sources
from headrace.declare.streams.change_capture import Changes
from headrace.declare.streams.external_sources import *
from headrace.declare.streams.lookup_table import Table
from headrace.declare.streams.stream import Late, Stream
from headrace.errors import DeclarationError, HeadraceError

if TYPE_CHECKING:
    from headrace.client.async_client import AsyncClient
    from headrace.kafka.producer.produce_rows import produce
    from headrace.lake.training.training_set import training_set

__all__ = [
    "Alert",
    "AsyncClient",
    "Changes",
    "Client",
    "DeclarationError",
    "Drift",
    "Global",
    "HeadraceError",
    "Labels",
    "Late",
    "Model",
    "Objective",
    "Outbox",
    "Query",
    "Retrain",
    "Session",
    "Sink",
    "Sliding",
    "Stream",
    "Table",
    "Tumbling",
    "View",
    "abs",
    "coalesce",
    "count",
    "derive",
    "distinct",
    "enrich",
    "ewm",
    "features",
    "first",
    "join",
    "join_asof",
    "last",
    "log",
    "max",
    "mean",
    "metric",
    "min",
    "pattern",
    "produce",
    "quantile",
    "request",
    "share",
    "skewness",
    "sqrt",
    "stddev",
    "sum",
    "testing",
    "top",
    "training_set",
    "var",
    "where",
    "windowed",
]
__all__ += _targets.__all__
__all__ += _external_sources.__all__


_LAZY_EXPORTS = {
    "AsyncClient": "headrace.client.async_client",
    "training_set": "headrace.lake.training.training_set",
    "produce": "headrace.kafka.producer.produce_rows",
}


def __getattr__(name: str) -> Any:
    """Import a lazy export on first use: `hr.training_set` needs Spark, `hr.produce` the Kafka client."""
    if name in _LAZY_EXPORTS:
        return getattr(import_module(_LAZY_EXPORTS[name]), name)
    raise AttributeError(f"module 'headrace' has no attribute {name!r}")
