"""The catalog of metrics: name, type, unit, help, labels, bucket bounds and objective of each.

A metric that is not in this list cannot be exported: /metrics, /live, the history of a day, alerts, the exports for
Grafana and Prometheus and the table in docs/metrics.md all read it.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TypedDict, Unpack

TOTAL_SUFFIX = "_total"
BASE_UNITS = ("seconds", "bytes")  # part of the metric's name; the others count things


class MetricType(Enum):
    """How a metric behaves: a gauge goes up and down, a counter only grows, a histogram counts delays by size."""

    GAUGE = "level"
    COUNTER = "count"
    HISTOGRAM = "delays"


@dataclass(frozen=True)
class GaugeLimit:
    """The limit of a gauge: alerts after it is exceeded for `for_`, resolves once the value is back at `clear`."""

    above: float | None = None
    below: float | None = None
    clear: float | None = None
    for_: str | None = None

    @property
    def text(self) -> str:
        """The limit as text.

        >>> GaugeLimit(above=60, for_="2m").text
        'at most 60, for 2m'
        """
        limit = f"at least {self.below:g}" if self.above is None else f"at most {self.above:g}"
        return limit if self.for_ is None else f"{limit}, for {self.for_}"


@dataclass(frozen=True)
class ErrorBudget:
    """The share of a counter that may be bad, alerted on by its burn rate, and the name of the bad outcome."""

    allowed_share: float
    bad_outcome: str

    @property
    def text(self) -> str:
        """The budget as text.

        >>> ErrorBudget(0.01, "dead").text
        'at most 1 % dead'
        """
        return f"at most {self.allowed_share * 100:g} % {self.bad_outcome}"


@dataclass(frozen=True)
class MetricFamily:
    """A metric with one sample for each combination of its labels; a histogram has one for each bucket bound."""

    name: str
    metric_type: MetricType
    unit: str
    help: str
    labels: tuple[str, ...] = ()
    bucket_bounds: tuple[float, ...] = ()
    objective: GaugeLimit | ErrorBudget | None = None
    has_history: bool = False  # the server keeps a day of history for the dashboard
    is_exported: bool = True  # on /metrics; otherwise only the alert watcher knows it

    @property
    def limit(self) -> GaugeLimit:
        """The limit of a gauge that has one."""
        if not isinstance(self.objective, GaugeLimit):
            raise TypeError(f"{self.name} has no limit")
        return self.objective

    @property
    def allowed_share(self) -> float:
        """The share that may be bad, of a counter with an error budget."""
        if not isinstance(self.objective, ErrorBudget):
            raise TypeError(f"{self.name} has no error budget")
        return self.objective.allowed_share


class MetricOptions(TypedDict, total=False):
    """Optional settings of a metric."""

    objective: GaugeLimit | ErrorBudget
    has_history: bool
    is_exported: bool


def _gauge(name: str, unit: str, help_text: str, *labels: str, **options: Unpack[MetricOptions]) -> MetricFamily:
    return MetricFamily(f"headrace_{name}", MetricType.GAUGE, unit, help_text, labels, **options)


def _counter(name: str, unit: str, help_text: str, *labels: str, **options: Unpack[MetricOptions]) -> MetricFamily:
    return MetricFamily(f"headrace_{name}{TOTAL_SUFFIX}", MetricType.COUNTER, unit, help_text, labels, **options)


def _histogram(
    name: str, help_text: str, label: str, bounds: tuple[float, ...], **options: Unpack[MetricOptions]
) -> MetricFamily:
    return MetricFamily(f"headrace_{name}", MetricType.HISTOGRAM, "seconds", help_text, (label,), bounds, **options)


APPLY_SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 2, 5, 10, 60)
DECIDE_SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 2, 5, 10, 60)
REQUEST_SECONDS_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
LABEL_SECONDS_BUCKETS = (1, 10, 60, 300, 900, 3600, 10_800, 21_600, 43_200, 86_400, 259_200, 604_800, 2_592_000)
DEGRADED_BUDGET = ErrorBudget(0.01, "degraded")
STUCK_LIMIT = GaugeLimit(above=0, for_="1m")

STREAM_METRICS = (
    _counter(
        "events",
        "records",
        "Records of a stream: in arrived, and of those clean, late, dead, dropped",
        "stream",
        "fate",
        objective=ErrorBudget(0.01, "dead"),
        has_history=True,
    ),
    _counter("dead", "records", "Dead letters by the code of their reason", "stream", "reason"),
    _counter(
        "duplicates",
        "events",
        "Clean events dropped because their id had been seen: clean less folded, so those in flight count meanwhile",
        "stream",
    ),
    _gauge("lag", "records", "Records the gate has not read yet", "stream", has_history=True),
    _gauge(
        "lag_seconds",
        "seconds",
        "For how long the oldest of them has waited, at least",
        "stream",
        objective=GaugeLimit(above=60, clear=30, for_="2m"),
        has_history=True,
    ),
    _gauge("hot_keys", "keys", "Keys that alone have more than half of a task's share", "stream"),
    _gauge("hot_key_share", "share", "Share of the events a heavy key has, at least; by rank", "stream", "rank"),
    _gauge("hot_entities", "entities", "Entities that alone have more than half of a task's share", "view"),
    _gauge("hot_entity_share", "share", "Share of the events a heavy entity has, at least; by rank", "view", "rank"),
    _gauge("partition_skew", "times the mean", "Records of a topic's busiest partition", "topic"),
)
PARTITION_LABELS = ("query", "topic", "partition")
QUERY_METRICS = (
    _gauge("query_lag", "records", "Records of a partition that a query has not read yet", *PARTITION_LABELS),
    _gauge("query_lag_seconds", "seconds", "For how long the oldest of them has waited, at least", *PARTITION_LABELS),
    _gauge(
        "catch_up_seconds",
        "seconds",
        "How long a query that is behind takes to catch up at the rates of the last seconds, +Inf where it does not",
        "query",
        has_history=True,
    ),
    _gauge("query_running", "yes or no", "1 while a query runs and reports it", "query", "lane"),
    _gauge(
        "watermark_seconds",
        "seconds",
        "The watermark of a query's state, in epoch seconds",
        "query",
        has_history=True,
    ),
    _gauge("state_rows", "rows", "Rows of a query's state, as of its last checkpoint", "query"),
    _gauge("state_bytes", "bytes", "Bytes of a query's state, as of its last checkpoint", "query", has_history=True),
    _counter("dropped_by_watermark", "rows", "Rows the watermark dropped: should be 0", "query"),
    _gauge("checkpoint_seconds", "seconds", "How long the last checkpoint took", "query", has_history=True),
)
STORE_METRICS = (
    _gauge("entities", "entities", "Entities in the store", "view"),
    _gauge("tiles", "tiles", "Tiles in the store", "view"),
    _gauge("store_bytes", "bytes", "Memory of the store, estimated", "view"),
    _counter("refused_tiles", "records", "Records of a changelog that were no tiles", "view"),
    _histogram(
        "apply_seconds",
        "From the log's append of a tile's newest event to this store",
        "view",
        APPLY_SECONDS_BUCKETS,
        objective=ErrorBudget(0.01, "later than `freshness=`"),
        has_history=True,
    ),
    _counter(
        "checked_values",
        "values",
        "Values of served answers that the steady check has compared, by outcome: exact, wrong, …",
        "view",
        "outcome",
        objective=GaugeLimit(above=0),
        has_history=True,
    ),
    _counter("checked_answers", "answers", "Served answers that the steady check has compared", "view"),
)
SERVER_METRICS = (
    _counter(
        "requests", "requests", "Requests by path and status; those of unknown paths as elsewhere", "path", "status"
    ),
    _histogram("request_seconds", "From a request's head to its answer's end", "path", REQUEST_SECONDS_BUCKETS),
    _counter("http_predictions", "predictions", "Events scored over HTTP", "model", objective=DEGRADED_BUDGET),
    _counter(
        "http_predictions_degraded",
        "predictions",
        "Of them those that lacked something: the store, the model, or the budget",
        "model",
        "reason",
    ),
    _counter("predictions_lost", "predictions", "Predictions over HTTP that are in no log: should be 0", "model"),
)
LAKE_METRICS = (
    _gauge("lake_lag", "records", "Records of the topic that a table's last step left for the next", "table"),
    _gauge("lake_step_seconds", "seconds", "How long a table's last step took", "table"),
    _gauge("lake_step_at_seconds", "seconds", "When a table's last step ended, in epoch seconds", "table"),
)
MODEL_METRICS = (
    _counter(
        "predictions",
        "predictions",
        "Scores of a stream's events, by champion and challenger",
        "model",
        "version",
        "role",
        objective=DEGRADED_BUDGET,
    ),
    _counter(
        "degraded",
        "predictions",
        "Champions' scores that were stale, late, or none because of the model",
        "model",
        "reason",
    ),
    _gauge("score_lag", "events", "Clean events that have no prediction in the log yet", "model"),
    _histogram(
        "score_seconds", "From an event's arrival to its score", "model", DECIDE_SECONDS_BUCKETS, has_history=True
    ),
    _gauge(
        "outcomes",
        "predictions",
        "Predictions by the state of their outcome; the states add up to all predictions seen",
        "model",
        "version",
        "role",
        "state",
    ),
    _histogram("label_delay_seconds", "From an event to its first label", "model", LABEL_SECONDS_BUCKETS),
    _gauge("outcomes_running", "yes or no", "1 while predictions are joined with labels", "model"),
    _gauge("outcomes_lag", "records", "Predictions and labels not joined yet", "model"),
    _gauge(
        "outcomes_clock_seconds", "seconds", "Up to when labels are known to be complete, in epoch seconds", "model"
    ),
    _gauge("outcomes_state_rows", "rows", "Rows in the state of the outcome join", "model"),
    _gauge("outcomes_state_bytes", "bytes", "Bytes in the state of the outcome join", "model"),
    _gauge(
        "drift",
        "times its critical value",
        "The column with the most drift: above 1 is drift",
        "model",
        objective=GaugeLimit(above=1, clear=0.8, for_="15m"),
    ),
    _gauge(
        "drift_column", "times its critical value", "Drift of each column; of the 100 with the most", "model", "column"
    ),
    _gauge(
        "drift_statistic", "as its test has it", "PSI, KS and others of the whole window", "model", "column", "test"
    ),
    _gauge("drift_rows", "vectors", "Vectors in the drift window", "model"),
    _gauge("drift_lag", "predictions", "Predictions not counted for drift yet", "model"),
    _counter(
        "drift_records",
        "predictions",
        "Predictions that were counted, repeated, unreadable, or of a version with no_card",
        "model",
        "fate",
    ),
    _gauge("error_share", "share", "Share of outcomes that were wrong lately", "model"),
    _counter("error_changes", "changes", "How often errors became more, suspected and confirmed", "model", "by"),
    _gauge(
        "quality_lost",
        "share",
        "Share of its card's quality that a model has lost with statistical confidence",
        "model",
        objective=GaugeLimit(above=0.05, clear=0.025, for_="15m"),
    ),
    _gauge(
        "label_coverage",
        "share",
        "Share of due predictions whose label arrived",
        "model",
        objective=GaugeLimit(below=0.5, clear=0.6, for_="1h"),
    ),
)
SINK_METRICS = (
    _counter(
        "sink_rows",
        "rows",
        "Rows of a sink by outcome: written, skipped (written again by the gate), parked, lost",
        "sink",
        "fate",
        has_history=True,
    ),
    _counter("sink_retries", "attempts", "Attempts of a sink that failed and were retried", "sink"),
    _gauge("sink_lag", "records", "Records a sink has not written to its target yet", "sink", has_history=True),
    _gauge(
        "sink_lag_seconds",
        "seconds",
        "For how long the oldest of them has waited, at least",
        "sink",
        objective=GaugeLimit(above=60, clear=30, for_="2m"),
    ),
    _counter(
        "sink_parked",
        "rows",
        "Rows the target of a sink refused, by the code of the reason",
        "sink",
        "reason",
        objective=GaugeLimit(above=0),
    ),
)
OUTBOX_METRICS = (
    _counter(
        "outbox_rows",
        "rows",
        "Rows of an outbox by outcome: sent, parked",
        "outbox",
        "fate",
        has_history=True,
    ),
    _counter(
        "outbox_parked", "rows", "Rows of an outbox that cannot be sent, by the code of the reason", "outbox", "reason"
    ),
    _counter("outbox_retries", "attempts", "Attempts of a relay that failed and were retried", "outbox"),
    _gauge(
        "outbox_waited_seconds", "seconds", "How old the oldest row was when it was last read for sending", "outbox"
    ),
)
BRIDGE_METRICS = (
    _counter(
        "bridge_copied", "messages", "Messages that a bridge has copied into a stream", "stream", has_history=True
    ),
    _gauge(
        "bridge_left", "messages", "Messages of the other log that it has not copied yet", "stream", has_history=True
    ),
    _gauge(
        "bridge_waits",
        "yes or no",
        "1 while a bridge cannot continue, or does not report",
        "stream",
        objective=STUCK_LIMIT,
    ),
)
CAPTURE_METRICS = (
    _gauge(
        "capture_waits",
        "yes or no",
        "1 while a table's changes are not captured, or capture is not reported",
        "stream",
        objective=STUCK_LIMIT,
    ),
    _gauge(
        "capture_kept_bytes",
        "bytes",
        "Bytes of write-ahead log that a database retains for our slot",
        "stream",
        has_history=True,
    ),
)
WATCH_METRICS = (
    _gauge("alerts_firing", "alerts", "Alerts that fire", has_history=True),
    _counter(
        "notifications",
        "notifications",
        "Notifications by sink and outcome: delivered, retried, failed, refused, no_room",
        "sink",
        "outcome",
    ),
    _counter(
        "pushes",
        "pushes",
        "Pushes to an OTLP receiver by signal and outcome: delivered, failed, refused",
        "signal",
        "outcome",
    ),
    _gauge("watch_at_seconds", "seconds", "When alerts were last evaluated, in epoch seconds"),
    _gauge(
        "server_up",
        "yes or no",
        "1 while the server answers; known to the alert watcher alone",
        objective=GaugeLimit(below=1, for_="1m"),
        is_exported=False,
    ),
)
OUTAGE_METRICS = (
    _gauge("part_up", "yes or no", "1 while a part of `headrace up` runs, 0 while it is being restarted", "part"),
    _counter("part_restarts", "restarts", "Restarts of a part since `headrace up` started", "part"),
    _gauge("query_up", "yes or no", "1 while a query that the app declares runs, 0 while it does not", "query"),
    _counter("query_restarts", "restarts", "Restarts of a query since its driver started", "query"),
    _gauge("lake_table_up", "yes or no", "1 while a table of the lake is ingested, 0 while its steps fail", "table"),
    _gauge(
        "down", "things", "Parts, queries or lake tables that are down", "kind", objective=STUCK_LIMIT, has_history=True
    ),
)
METRIC_GROUPS = {
    "What is down": OUTAGE_METRICS,
    "Streams": STREAM_METRICS,
    "Queries": QUERY_METRICS,
    "The store": STORE_METRICS,
    "The server": SERVER_METRICS,
    "The lake": LAKE_METRICS,
    "Models": MODEL_METRICS,
    "Sinks": SINK_METRICS,
    "Outboxes": OUTBOX_METRICS,
    "Bridges": BRIDGE_METRICS,
    "Captured tables": CAPTURE_METRICS,
    "The watch": WATCH_METRICS,
}
METRIC_CATALOG: dict[str, MetricFamily] = {family.name: family for group in METRIC_GROUPS.values() for family in group}
