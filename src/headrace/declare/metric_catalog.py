"""The catalog of metrics: name, type, unit, help, labels, bucket bounds and objective of each.

A metric that is not in this list cannot be exported: /metrics, /live, the history of a day, alerts, the exports for
Grafana and Prometheus and the table in docs/metrics.md all read it.
"""

from headrace.declare.metric_family import ErrorBudget, GaugeLimit, MetricFamily, counter, gauge, histogram

APPLY_SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 2, 5, 10, 60)
DECIDE_SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 2, 5, 10, 60)
REQUEST_SECONDS_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
LABEL_SECONDS_BUCKETS = (1, 10, 60, 300, 900, 3600, 10_800, 21_600, 43_200, 86_400, 259_200, 604_800, 2_592_000)
DEGRADED_BUDGET = ErrorBudget(0.01, "degraded")
STUCK_LIMIT = GaugeLimit(above=0, for_="1m")

STREAM_METRICS = (
    counter(
        "events",
        "records",
        "Records of a stream: in arrived, and of those clean, late, dead, dropped",
        "stream",
        "fate",
        objective=ErrorBudget(0.01, "dead"),
        has_history=True,
    ),
    counter("dead", "records", "Dead letters by the code of their reason", "stream", "reason"),
    counter(
        "duplicates",
        "events",
        "Clean events dropped because their id had been seen: clean less folded, so those in flight count meanwhile",
        "stream",
    ),
    gauge("lag", "records", "Records the gate has not read yet", "stream", has_history=True),
    gauge(
        "lag_seconds",
        "seconds",
        "For how long the oldest of them has waited, at least",
        "stream",
        objective=GaugeLimit(above=60, clear=30, for_="2m"),
        has_history=True,
    ),
    gauge("hot_keys", "keys", "Keys that alone have more than half of a task's share", "stream"),
    gauge("hot_key_share", "share", "Share of the events a heavy key has, at least; by rank", "stream", "rank"),
    gauge("hot_entities", "entities", "Entities that alone have more than half of a task's share", "view"),
    gauge("hot_entity_share", "share", "Share of the events a heavy entity has, at least; by rank", "view", "rank"),
    gauge("partition_skew", "times the mean", "Records of a topic's busiest partition", "topic"),
)
PARTITION_LABELS = ("query", "topic", "partition")
QUERY_METRICS = (
    gauge("query_lag", "records", "Records of a partition that a query has not read yet", *PARTITION_LABELS),
    gauge("query_lag_seconds", "seconds", "For how long the oldest of them has waited, at least", *PARTITION_LABELS),
    gauge(
        "catch_up_seconds",
        "seconds",
        "How long a query that is behind takes to catch up at the rates of the last seconds, +Inf where it does not",
        "query",
        has_history=True,
    ),
    gauge("query_running", "yes or no", "1 while a query runs and reports it", "query", "lane"),
    gauge(
        "watermark_seconds",
        "seconds",
        "The watermark of a query's state, in epoch seconds",
        "query",
        has_history=True,
    ),
    gauge("state_rows", "rows", "Rows of a query's state, as of its last checkpoint", "query"),
    gauge("state_bytes", "bytes", "Bytes of a query's state, as of its last checkpoint", "query", has_history=True),
    counter("dropped_by_watermark", "rows", "Rows the watermark dropped: should be 0", "query"),
    gauge("checkpoint_seconds", "seconds", "How long the last checkpoint took", "query", has_history=True),
)
STORE_METRICS = (
    gauge("entities", "entities", "Entities in the store", "view"),
    gauge("tiles", "tiles", "Tiles in the store", "view"),
    gauge("store_bytes", "bytes", "Memory of the store, estimated", "view"),
    counter("refused_tiles", "records", "Records of a changelog that were no tiles", "view"),
    histogram(
        "apply_seconds",
        "From the log's append of a tile's newest event to this store",
        "view",
        APPLY_SECONDS_BUCKETS,
        objective=ErrorBudget(0.01, "later than `freshness=`"),
        has_history=True,
    ),
    counter(
        "checked_values",
        "values",
        "Values of served answers that the steady check has compared, by outcome: exact, wrong, …",
        "view",
        "outcome",
        objective=GaugeLimit(above=0),
        has_history=True,
    ),
    counter("checked_answers", "answers", "Served answers that the steady check has compared", "view"),
)
SERVER_METRICS = (
    counter(
        "requests", "requests", "Requests by path and status; those of unknown paths as elsewhere", "path", "status"
    ),
    histogram("request_seconds", "From a request's head to its answer's end", "path", REQUEST_SECONDS_BUCKETS),
    counter("http_predictions", "predictions", "Events scored over HTTP", "model", objective=DEGRADED_BUDGET),
    counter(
        "http_predictions_degraded",
        "predictions",
        "Of them those that lacked something: the store, the model, or the budget",
        "model",
        "reason",
    ),
    counter("predictions_lost", "predictions", "Predictions over HTTP that are in no log: should be 0", "model"),
)
LAKE_METRICS = (
    gauge("lake_lag", "records", "Records of the topic that a table's last step left for the next", "table"),
    gauge("lake_step_seconds", "seconds", "How long a table's last step took", "table"),
    gauge("lake_step_at_seconds", "seconds", "When a table's last step ended, in epoch seconds", "table"),
)
MODEL_METRICS = (
    counter(
        "predictions",
        "predictions",
        "Scores of a stream's events, by champion and challenger",
        "model",
        "version",
        "role",
        objective=DEGRADED_BUDGET,
    ),
    counter(
        "degraded",
        "predictions",
        "Champions' scores that were stale, late, or none because of the model",
        "model",
        "reason",
    ),
    gauge("score_lag", "events", "Clean events that have no prediction in the log yet", "model"),
    histogram(
        "score_seconds", "From an event's arrival to its score", "model", DECIDE_SECONDS_BUCKETS, has_history=True
    ),
    gauge(
        "outcomes",
        "predictions",
        "Predictions by the state of their outcome; the states add up to all predictions seen",
        "model",
        "version",
        "role",
        "state",
    ),
    histogram("label_delay_seconds", "From an event to its first label", "model", LABEL_SECONDS_BUCKETS),
    gauge("outcomes_running", "yes or no", "1 while predictions are joined with labels", "model"),
    gauge("outcomes_lag", "records", "Predictions and labels not joined yet", "model"),
    gauge("outcomes_clock_seconds", "seconds", "Up to when labels are known to be complete, in epoch seconds", "model"),
    gauge("outcomes_state_rows", "rows", "Rows in the state of the outcome join", "model"),
    gauge("outcomes_state_bytes", "bytes", "Bytes in the state of the outcome join", "model"),
    gauge(
        "drift",
        "times its critical value",
        "The column with the most drift: above 1 is drift",
        "model",
        objective=GaugeLimit(above=1, clear=0.8, for_="15m"),
    ),
    gauge(
        "drift_column", "times its critical value", "Drift of each column; of the 100 with the most", "model", "column"
    ),
    gauge("drift_statistic", "as its test has it", "PSI, KS and others of the whole window", "model", "column", "test"),
    gauge("drift_rows", "vectors", "Vectors in the drift window", "model"),
    gauge("drift_lag", "predictions", "Predictions not counted for drift yet", "model"),
    counter(
        "drift_records",
        "predictions",
        "Predictions that were counted, repeated, unreadable, or of a version with no_card",
        "model",
        "fate",
    ),
    gauge("error_share", "share", "Share of outcomes that were wrong lately", "model"),
    counter("error_changes", "changes", "How often errors became more, suspected and confirmed", "model", "by"),
    gauge(
        "quality_lost",
        "share",
        "Share of its card's quality that a model has lost with statistical confidence",
        "model",
        objective=GaugeLimit(above=0.05, clear=0.025, for_="15m"),
    ),
    gauge(
        "label_coverage",
        "share",
        "Share of due predictions whose label arrived",
        "model",
        objective=GaugeLimit(below=0.5, clear=0.6, for_="1h"),
    ),
)
SINK_METRICS = (
    counter(
        "sink_rows",
        "rows",
        "Rows of a sink by outcome: written, skipped (written again by the gate), parked, lost",
        "sink",
        "fate",
        has_history=True,
    ),
    counter("sink_retries", "attempts", "Attempts of a sink that failed and were retried", "sink"),
    gauge("sink_lag", "records", "Records a sink has not written to its target yet", "sink", has_history=True),
    gauge(
        "sink_lag_seconds",
        "seconds",
        "For how long the oldest of them has waited, at least",
        "sink",
        objective=GaugeLimit(above=60, clear=30, for_="2m"),
    ),
    counter(
        "sink_parked",
        "rows",
        "Rows the target of a sink refused, by the code of the reason",
        "sink",
        "reason",
        objective=GaugeLimit(above=0),
    ),
)
OUTBOX_METRICS = (
    counter(
        "outbox_rows",
        "rows",
        "Rows of an outbox by outcome: sent, parked",
        "outbox",
        "fate",
        has_history=True,
    ),
    counter(
        "outbox_parked", "rows", "Rows of an outbox that cannot be sent, by the code of the reason", "outbox", "reason"
    ),
    counter("outbox_retries", "attempts", "Attempts of a relay that failed and were retried", "outbox"),
    gauge("outbox_waited_seconds", "seconds", "How old the oldest row was when it was last read for sending", "outbox"),
)
BRIDGE_METRICS = (
    counter("bridge_copied", "messages", "Messages that a bridge has copied into a stream", "stream", has_history=True),
    gauge(
        "bridge_left", "messages", "Messages of the other log that it has not copied yet", "stream", has_history=True
    ),
    gauge(
        "bridge_waits",
        "yes or no",
        "1 while a bridge cannot continue, or does not report",
        "stream",
        objective=STUCK_LIMIT,
    ),
)
CAPTURE_METRICS = (
    gauge(
        "capture_waits",
        "yes or no",
        "1 while a table's changes are not captured, or capture is not reported",
        "stream",
        objective=STUCK_LIMIT,
    ),
    gauge(
        "capture_kept_bytes",
        "bytes",
        "Bytes of write-ahead log that a database retains for our slot",
        "stream",
        has_history=True,
    ),
)
WATCH_METRICS = (
    gauge("alerts_firing", "alerts", "Alerts that fire", has_history=True),
    counter(
        "notifications",
        "notifications",
        "Notifications by sink and outcome: delivered, retried, failed, refused, no_room",
        "sink",
        "outcome",
    ),
    counter(
        "pushes",
        "pushes",
        "Pushes to an OTLP receiver by signal and outcome: delivered, failed, refused",
        "signal",
        "outcome",
    ),
    gauge("watch_at_seconds", "seconds", "When alerts were last evaluated, in epoch seconds"),
    gauge(
        "server_up",
        "yes or no",
        "1 while the server answers; known to the alert watcher alone",
        objective=GaugeLimit(below=1, for_="1m"),
        is_exported=False,
    ),
)
OUTAGE_METRICS = (
    gauge("part_up", "yes or no", "1 while a part of `headrace up` runs, 0 while it is being restarted", "part"),
    counter("part_restarts", "restarts", "Restarts of a part since `headrace up` started", "part"),
    gauge("query_up", "yes or no", "1 while a query that the app declares runs, 0 while it does not", "query"),
    counter("query_restarts", "restarts", "Restarts of a query since its driver started", "query"),
    gauge("lake_table_up", "yes or no", "1 while a table of the lake is ingested, 0 while its steps fail", "table"),
    gauge(
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
