"""Every number a running app tells: its name, what kind it is, its unit, help, labels, bounds and what it is held to.

A number that is not here cannot be told: /metrics, /live, the history of a day, alerts, the exports for Grafana and
Prometheus and the table in docs/metrics.md all take it from this list.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TypedDict, Unpack

TOTAL = "_total"
BASE_UNITS = ("seconds", "bytes")  # in the name as well; the rest counts things


class Sort(Enum):
    """How a number behaves: a level that goes up and down, a count that only grows, or delays counted by size."""

    LEVEL = "level"
    COUNT = "count"
    DELAYS = "delays"


@dataclass(frozen=True)
class Limit:
    """What a level is held to: alarmed beyond it for so long, until it is back at `clear`."""

    above: float | None = None
    below: float | None = None
    clear: float | None = None
    for_: str | None = None

    @property
    def text(self) -> str:
        """As a person reads it.

        >>> Limit(above=60, for_="2m").text
        'at most 60, for 2m'
        """
        limit = f"at least {self.below:g}" if self.above is None else f"at most {self.above:g}"
        return limit if self.for_ is None else f"{limit}, for {self.for_}"


@dataclass(frozen=True)
class Allowed:
    """Which share of a count may be bad, alarmed by how fast that is used up, and what is bad, in words."""

    share: float
    bad: str

    @property
    def text(self) -> str:
        """As a person reads it.

        >>> Allowed(0.01, "dead").text
        'at most 1 % dead'
        """
        return f"at most {self.share * 100:g} % {self.bad}"


@dataclass(frozen=True)
class Family:
    """One number, or one for each combination of its labels; delays are counted up to each of their bounds."""

    name: str
    sort: Sort
    unit: str
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    objective: Limit | Allowed | None = None
    is_kept: bool = False  # over a day, by the server: what the page draws over time
    is_told: bool = True  # by /metrics; what is not is known to whoever watches alone

    @property
    def limit(self) -> Limit:
        """What it is held to, of one that is held to a limit."""
        if not isinstance(self.objective, Limit):
            raise TypeError(f"{self.name} is held to no limit")
        return self.objective

    @property
    def allowed(self) -> float:
        """Which share may be bad, of one that may lose a share."""
        if not isinstance(self.objective, Allowed):
            raise TypeError(f"{self.name} may lose no share")
        return self.objective.share


class More(TypedDict, total=False):
    """What few of them have."""

    objective: Limit | Allowed
    is_kept: bool
    is_told: bool


def _level(name: str, unit: str, text: str, *labels: str, **more: Unpack[More]) -> Family:
    return Family(f"headrace_{name}", Sort.LEVEL, unit, text, labels, **more)


def _count(name: str, unit: str, text: str, *labels: str, **more: Unpack[More]) -> Family:
    return Family(f"headrace_{name}{TOTAL}", Sort.COUNT, unit, text, labels, **more)


def _delays(name: str, text: str, label: str, bounds: tuple[float, ...], **more: Unpack[More]) -> Family:
    return Family(f"headrace_{name}", Sort.DELAYS, "seconds", text, (label,), bounds, **more)


APPLY_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 2, 5, 10, 60)
DECIDE_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 2, 5, 10, 60)
REQUEST_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
LABEL_SECONDS = (1, 10, 60, 300, 900, 3600, 10_800, 21_600, 43_200, 86_400, 259_200, 604_800, 2_592_000)
LOST = Allowed(0.01, "degraded")
STUCK = Limit(above=0, for_="1m")

STREAMS = (
    _count(
        "events",
        "records",
        "Records of a stream: in arrived, and of those clean, late, dead, dropped",
        "stream",
        "fate",
        objective=Allowed(0.01, "dead"),
        is_kept=True,
    ),
    _count("dead", "records", "Dead letters by the code of their reason", "stream", "reason"),
    _count(
        "duplicates",
        "events",
        "Clean events dropped because their id had been seen: clean less folded, so those in flight count meanwhile",
        "stream",
    ),
    _level("lag", "records", "Records the gate has not come to yet", "stream", is_kept=True),
    _level(
        "lag_seconds",
        "seconds",
        "For how long the oldest of them has waited, at least",
        "stream",
        objective=Limit(above=60, clear=30, for_="2m"),
        is_kept=True,
    ),
    _level("hot_keys", "keys", "Keys that alone have more than half of a task's part", "stream"),
    _level("hot_key_share", "share", "Share of the events a heavy key has, at least; by rank", "stream", "rank"),
    _level("hot_entities", "entities", "Entities that alone have more than half of a task's part", "view"),
    _level("hot_entity_share", "share", "Share of the events a heavy entity has, at least; by rank", "view", "rank"),
    _level("partition_skew", "times the mean", "Records of a topic's busiest partition", "topic"),
)
PLACE = ("query", "topic", "partition")
QUERIES = (
    _level("query_lag", "records", "Records of a partition that a query has not come to yet", *PLACE),
    _level("query_lag_seconds", "seconds", "For how long the oldest of them has waited, at least", *PLACE),
    _level(
        "catch_up_seconds",
        "seconds",
        "How long a query that is behind takes to catch up at the rates of the last seconds, +Inf where it does not",
        "query",
        is_kept=True,
    ),
    _level("query_running", "yes or no", "1 while a query runs and says so", "query", "lane"),
    _level(
        "watermark_seconds",
        "seconds",
        "The watermark of a query's state, in epoch seconds",
        "query",
        is_kept=True,
    ),
    _level("state_rows", "rows", "Rows of a query's state, as of its last checkpoint", "query"),
    _level("state_bytes", "bytes", "Bytes of a query's state, as of its last checkpoint", "query", is_kept=True),
    _count("dropped_by_watermark", "rows", "Rows the watermark dropped: should be 0", "query"),
    _level("checkpoint_seconds", "seconds", "How long the last checkpoint took", "query", is_kept=True),
)
STORE = (
    _level("entities", "entities", "Entities in the store", "view"),
    _level("tiles", "tiles", "Tiles in the store", "view"),
    _level("store_bytes", "bytes", "Memory of the store, estimated", "view"),
    _count("refused_tiles", "records", "Records of a changelog that were no tiles", "view"),
    _delays(
        "apply_seconds",
        "From the log's append of a tile's newest event to this store",
        "view",
        APPLY_SECONDS,
        objective=Allowed(0.01, "later than `freshness=`"),
        is_kept=True,
    ),
    _count(
        "checked_values",
        "values",
        "Values of served answers that the steady check has compared, by outcome: exact, wrong, …",
        "view",
        "outcome",
        objective=Limit(above=0),
        is_kept=True,
    ),
    _count("checked_answers", "answers", "Served answers that the steady check has compared", "view"),
)
SERVER = (
    _count(
        "requests", "requests", "Requests by path and status; those of unknown paths as elsewhere", "path", "status"
    ),
    _delays("request_seconds", "From a request's head to its answer's end", "path", REQUEST_SECONDS),
    _count("http_predictions", "predictions", "Events scored over HTTP", "model", objective=LOST),
    _count(
        "http_predictions_degraded",
        "predictions",
        "Of them those that lacked something: the store, the model, or the budget",
        "model",
        "reason",
    ),
    _count("predictions_lost", "predictions", "Predictions over HTTP that are in no log: should be 0", "model"),
)
LAKE = (
    _level("lake_lag", "records", "Records of the log that a table's last step left for the next", "table"),
    _level("lake_step_seconds", "seconds", "How long a table's last step took", "table"),
    _level("lake_step_at_seconds", "seconds", "When a table's last step ended, in epoch seconds", "table"),
)
MODELS = (
    _count(
        "predictions",
        "predictions",
        "Scores of a stream's events, by champion and challenger",
        "model",
        "version",
        "role",
        objective=LOST,
    ),
    _count(
        "degraded",
        "predictions",
        "Champions' scores that were stale, late, or none because of the model",
        "model",
        "reason",
    ),
    _level("score_lag", "events", "Clean events that have no prediction in the log yet", "model"),
    _delays("score_seconds", "From an event's arrival to its score", "model", DECIDE_SECONDS, is_kept=True),
    _level(
        "outcomes",
        "predictions",
        "Predictions by what came of them; all states together are all that were seen",
        "model",
        "version",
        "role",
        "state",
    ),
    _delays("label_delay_seconds", "From an event to its first label", "model", LABEL_SECONDS),
    _level("outcomes_running", "yes or no", "1 while predictions are joined with labels", "model"),
    _level("outcomes_lag", "records", "Predictions and labels not joined yet", "model"),
    _level(
        "outcomes_clock_seconds", "seconds", "Up to when labels are known to be complete, in epoch seconds", "model"
    ),
    _level("outcomes_state_rows", "rows", "Rows that the join of outcomes remembers", "model"),
    _level("outcomes_state_bytes", "bytes", "Bytes that the join of outcomes remembers", "model"),
    _level(
        "drift",
        "times its critical value",
        "The farthest column: above 1 is drift",
        "model",
        objective=Limit(above=1, clear=0.8, for_="15m"),
    ),
    _level(
        "drift_column", "times its critical value", "How far each column is; of the 100 farthest", "model", "column"
    ),
    _level(
        "drift_statistic", "as its test has it", "PSI, KS and others of the whole window", "model", "column", "test"
    ),
    _level("drift_rows", "vectors", "Vectors in the window that drift is told of", "model"),
    _level("drift_lag", "predictions", "Predictions not counted for drift yet", "model"),
    _count(
        "drift_records",
        "predictions",
        "Predictions that were counted, repeated, unreadable, or of a version with no_card",
        "model",
        "fate",
    ),
    _level("error_share", "share", "Share of outcomes that were wrong lately", "model"),
    _count("error_changes", "changes", "How often errors became more, suspected and confirmed", "model", "by"),
    _level(
        "quality_lost",
        "share",
        "Share of its card's quality that a model has lost beyond doubt",
        "model",
        objective=Limit(above=0.05, clear=0.025, for_="15m"),
    ),
    _level(
        "label_coverage",
        "share",
        "Share of due predictions whose label came",
        "model",
        objective=Limit(below=0.5, clear=0.6, for_="1h"),
    ),
)
SINKS = (
    _count(
        "sink_rows",
        "rows",
        "Rows of a sink by what became of them: written, skipped (written again by the gate), parked, lost",
        "sink",
        "fate",
        is_kept=True,
    ),
    _count("sink_retries", "attempts", "Attempts of a sink that failed and were made again", "sink"),
    _level("sink_lag", "records", "Records a sink has not brought to its target yet", "sink", is_kept=True),
    _level(
        "sink_lag_seconds",
        "seconds",
        "For how long the oldest of them has waited, at least",
        "sink",
        objective=Limit(above=60, clear=30, for_="2m"),
    ),
    _count(
        "sink_parked",
        "rows",
        "Rows the target of a sink refused, by the code of the reason",
        "sink",
        "reason",
        objective=Limit(above=0),
    ),
)
OUTBOXES = (
    _count(
        "outbox_rows", "rows", "Rows of an outbox by what became of them: sent, parked", "outbox", "fate", is_kept=True
    ),
    _count(
        "outbox_parked", "rows", "Rows of an outbox that cannot be sent, by the code of the reason", "outbox", "reason"
    ),
    _count("outbox_retries", "attempts", "Attempts of a relay that failed and were made again", "outbox"),
    _level(
        "outbox_waited_seconds", "seconds", "How old the oldest row was when it was last read for sending", "outbox"
    ),
)
BRIDGES = (
    _count("bridge_copied", "messages", "Messages that a bridge has copied into a stream", "stream", is_kept=True),
    _level("bridge_left", "messages", "Messages of the other log that it has not copied yet", "stream", is_kept=True),
    _level("bridge_waits", "yes or no", "1 while a bridge cannot go on, or says nothing", "stream", objective=STUCK),
)
CAPTURES = (
    _level(
        "capture_waits",
        "yes or no",
        "1 while a table's changes are not captured, or nobody says so",
        "stream",
        objective=STUCK,
    ),
    _level("capture_kept_bytes", "bytes", "Bytes of its log that a database keeps for us", "stream", is_kept=True),
)
WATCH = (
    _level("alerts_firing", "alerts", "Alerts that fire", is_kept=True),
    _count(
        "notifications",
        "notifications",
        "Notifications by sink, and what became of them: delivered, retried, failed, refused, no_room",
        "sink",
        "outcome",
    ),
    _count(
        "pushes",
        "pushes",
        "Pushes to a receiver of OTLP by signal, and what became of them: delivered, failed, refused",
        "signal",
        "outcome",
    ),
    _level("watch_at_seconds", "seconds", "When alerts were last looked at, in epoch seconds"),
    _level(
        "server_up",
        "yes or no",
        "1 while the server answers; known to the watch alone",
        objective=Limit(below=1, for_="1m"),
        is_told=False,
    ),
)
OUTAGES = (
    _level("part_up", "yes or no", "1 while a part of `headrace up` runs, 0 while it is being restarted", "part"),
    _count("part_restarts", "restarts", "Restarts of a part since `headrace up` started", "part"),
    _level("query_up", "yes or no", "1 while a query that the app declares runs, 0 while it does not", "query"),
    _count("query_restarts", "restarts", "Restarts of a query since its driver started", "query"),
    _level("lake_table_up", "yes or no", "1 while a table of the lake lands, 0 while its steps fail", "table"),
    _level("down", "things", "Parts, queries or lake tables that are down", "kind", objective=STUCK, is_kept=True),
)
ROOMS = {
    "What is down": OUTAGES,
    "Streams": STREAMS,
    "Queries": QUERIES,
    "The store": STORE,
    "The server": SERVER,
    "The lake": LAKE,
    "Models": MODELS,
    "Sinks": SINKS,
    "Outboxes": OUTBOXES,
    "Bridges": BRIDGES,
    "Captured tables": CAPTURES,
    "The watch": WATCH,
}
CATALOGUE: dict[str, Family] = {family.name: family for room in ROOMS.values() for family in room}
