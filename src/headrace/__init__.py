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

# The room `headrace.log` is loaded before the function of that name, which would else be hidden when it is loaded.
from headrace import log as _room  # noqa: F401
from headrace import testing
from headrace.client import Client
from headrace.declare.aggregates import (
    count,
    distinct,
    ewm,
    first,
    last,
    max,
    mean,
    min,
    quantile,
    stddev,
    sum,
    top,
    var,
)
from headrace.declare.alert import Alert
from headrace.declare.changes import Changes
from headrace.declare.derive import derive
from headrace.declare.drift import Drift
from headrace.declare.enriched import enrich
from headrace.declare.joined import join, join_asof
from headrace.declare.labels import Labels
from headrace.declare.model import Model
from headrace.declare.operands import abs, coalesce, log, request, sqrt, where
from headrace.declare.outbox import Outbox
from headrace.declare.pattern import pattern
from headrace.declare.query import Query
from headrace.declare.retrain import Retrain
from headrace.declare.series import Objective, metric, share
from headrace.declare.shapes import Global, Session, Sliding, Tumbling
from headrace.declare.sink import Sink
from headrace.declare.sources import Nats, Pulsar
from headrace.declare.stream import Late, Stream
from headrace.declare.table import Table
from headrace.declare.targets import ClickHouse, Delta, Iceberg, Kafka, Postgres, Redis, Webhook
from headrace.declare.views import View, features
from headrace.declare.windowed import windowed
from headrace.errors import DeclarationError, HeadraceError

if TYPE_CHECKING:
    from headrace.async_client import AsyncClient
    from headrace.lake.training import training_set
    from headrace.log.produced import produce

__all__ = [
    "Alert",
    "AsyncClient",
    "Changes",
    "ClickHouse",
    "Client",
    "DeclarationError",
    "Delta",
    "Drift",
    "Global",
    "HeadraceError",
    "Iceberg",
    "Kafka",
    "Labels",
    "Late",
    "Model",
    "Nats",
    "Objective",
    "Outbox",
    "Postgres",
    "Pulsar",
    "Query",
    "Redis",
    "Retrain",
    "Session",
    "Sink",
    "Sliding",
    "Stream",
    "Table",
    "Tumbling",
    "View",
    "Webhook",
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


_LATER = {
    "AsyncClient": "headrace.async_client",
    "training_set": "headrace.lake.training",
    "produce": "headrace.log.produced",
}


def __getattr__(name: str) -> Any:
    """`hr.training_set` brings Spark along, `hr.produce` the Kafka client, and so on: only for those who ask for it."""
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'headrace' has no attribute {name!r}")
