"""GET /metrics: what is counted elsewhere in plain numbers, in Prometheus' words."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from headrace.declare.app import App
from headrace.declare.stream import Stream
from headrace.log.ledger import Account
from headrace.log.progress import (
    SILENT_AFTER_US,
    CheckProgress,
    DriftProgress,
    LandingProgress,
    OutcomesProgress,
    ProgressBoard,
    QualityProgress,
    QueryProgress,
    ScorerProgress,
    WatchProgress,
)
from headrace.score.tally import DECIDE_SECONDS
from headrace.serve.answers import Answer
from headrace.serve.counted import Counted, TableCount
from headrace.serve.http import Request
from headrace.serve.ledgers import Ledgers
from headrace.serve.tallies import Tally
from headrace.store.delays import LABEL_SECONDS, Delays
from headrace.store.memory import Table

Sample = tuple[list[str], float]
STALE_AFTER_US = 300_000_000  # of what is looked at once a minute: older words are of a time that is over


@dataclass(frozen=True)
class Sources:
    """Everything that is told; `tables` is empty where the store is not in this process.

    What this process alone counts may be asked of several: `counted` is what they have counted together.
    """

    app: App
    board: ProgressBoard
    ledgers: Ledgers
    tables: Mapping[str, Table]
    counted: Callable[[], Counted]


class Metrics(Collector):
    """Answers with the numbers of this moment."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    async def __call__(self, _request: Request) -> Answer:
        # In a thread: the ledgers ask the broker where the log ends.
        text = await asyncio.to_thread(generate_latest, self._registry)
        return Answer(200, text, CONTENT_TYPE_LATEST.encode())

    def collect(self) -> Iterator[Metric]:
        sources = self._sources
        accounts = sources.ledgers.accounts()
        yield from events(accounts)
        yield duplicates(sources.app, accounts, sources.tables)
        counted = sources.counted()
        yield from tables(sources.tables)
        yield from applied(counted.tables)
        yield from requests(counted.requests)
        yield from predictions(counted)
        yield from queries(sources.board.latest.copy().values())
        yield from checks(sources.board.checks.copy().values())
        yield from landings(sources.board.landings.copy().values())
        yield from scorers(sources.board.scorers.copy().values())
        yield from watchers(sources.board.watchers.copy().values())
        yield from outcomes(sources.board.outcomes.copy().values())
        yield from drifts(sources.board.drifts.copy().values())
        yield from qualities(sources.board.qualities.copy().values())


def events(accounts: Mapping[str, Account]) -> Iterator[Metric]:
    """What became of every record."""
    fates = [
        ([stream, fate], count)
        for stream, told in accounts.items()
        for fate, count in (
            ("in", told.arrived),
            ("clean", told.clean),
            ("late", told.late),
            ("dead", told.dead),
            ("dropped", told.dropped),
        )
    ]
    reasons = [([stream, reason], n) for stream, told in accounts.items() for reason, n in told.reasons.items()]
    lags = [([stream], told.pending) for stream, told in accounts.items()]
    yield counter("events", "Records of a stream, and what the gate made of them", ["stream", "fate"], fates)
    yield counter("dead", "Dead letters by the code of their reason", ["stream", "reason"], reasons)
    yield gauge("lag", "Records the gate has not come to yet", ["stream"], lags)
    waited = [([stream], told.waited_seconds) for stream, told in accounts.items()]
    yield gauge("lag_seconds", "For how long the oldest of them has waited, at least", ["stream"], waited)


def duplicates(app: App, accounts: Mapping[str, Account], held: Mapping[str, Table]) -> Metric:
    """Clean events that are in no tile, because one with their id already was; exact when nothing is in flight."""
    counted = ((stream, _folded(app, stream, held)) for stream in app.streams if stream.name in accounts)
    samples: list[Sample] = [
        ([stream.name], max(0, accounts[stream.name].clean - folded))
        for stream, folded in counted
        if folded is not None
    ]
    return counter("duplicates", "Clean events dropped because their id had been seen", ["stream"], samples)


def _folded(app: App, stream: Stream, held: Mapping[str, Table]) -> int | None:
    """The stream's events in the tiles of the first view by its key: every clean event has one."""
    views = [view for view in app.views_of(stream) if view.by == (stream.key,) and view.name in held]
    return held[views[0].name].events_of(stream) if views else None


def tables(held: Mapping[str, Table]) -> Iterator[Metric]:
    """How large the store in this process is."""
    each = list(held.items())
    yield gauge("entities", "Entities in the store", ["view"], [([name], len(table)) for name, table in each])
    yield gauge("tiles", "Tiles in the store", ["view"], [([name], table.tiles) for name, table in each])
    yield gauge("store_bytes", "Memory of the store, estimated", ["view"], [([name], t.bytes) for name, t in each])


def applied(counted: Mapping[str, TableCount]) -> Iterator[Metric]:
    """What became of the records of changelogs, and how soon the store knew."""
    refused = [([name], table.refused) for name, table in counted.items()]
    yield counter("refused_tiles", "Records of a changelog that were no tiles", ["view"], refused)
    delays = [([name], table.delays) for name, table in counted.items()]
    yield histogram("apply_seconds", "From the log's append to the store", ["view"], delays)


def requests(tallies: Mapping[str, Tally]) -> Iterator[Metric]:
    """What was asked, how it ended and how long it took."""
    ends = [([path, str(status)], n) for path, tally in tallies.items() for status, n in tally.statuses.copy().items()]
    yield counter("requests", "Requests by path and status", ["path", "status"], ends)
    delays = [([path], tally.delays) for path, tally in tallies.items()]
    yield histogram("request_seconds", "From a request's head to its answer's end", ["path"], delays)


def predictions(counted: Counted) -> Iterator[Metric]:
    """What was scored over HTTP, what of it was degraded, and what of it is in no log."""
    made = counted.predictions
    scored = [([model], tally.scored) for model, tally in made.items()]
    yield counter("http_predictions", "Events scored over HTTP", ["model"], scored)
    lacking = [([model, why], n) for model, one in made.items() for why, n in one.degraded.copy().items()]
    yield counter("http_predictions_degraded", "Of them those that lacked something", ["model", "reason"], lacking)
    missing = [([model], counted.lost[model]) for model in made]
    yield counter("predictions_lost", "Predictions that are in no log: should be 0", ["model"], missing)


def checks(latest: Iterable[CheckProgress]) -> Iterator[Metric]:
    """What the check that never stops has found of what was served."""
    said = list(latest)
    outcomes = [([one.checked, name], float(count)) for one in said for name, count in one.outcomes.items()]
    yield counter("checked_values", "Served values compared, by outcome", ["view", "outcome"], outcomes)
    answers = [([one.checked], float(one.answers)) for one in said]
    yield counter("checked_answers", "Answers compared with what their events say", ["view"], answers)


def landings(latest: Iterable[LandingProgress]) -> Iterator[Metric]:
    """How far the lake is behind the log."""
    said = list(latest)
    behind = [([one.landed], one.left) for one in said]
    yield gauge("lake_lag", "Records a table's last step left in the log", ["table"], behind)
    took = [([one.landed], one.seconds) for one in said]
    yield gauge("lake_step_seconds", "How long a table's last step took", ["table"], took)
    looked = [([one.landed], one.at_us / 1e6) for one in said]
    yield gauge("lake_step_at_seconds", "When a table's last step ended, in epoch seconds", ["table"], looked)


def scorers(latest: Iterable[ScorerProgress]) -> Iterator[Metric]:
    """What the scorers of each model have done, those that have ended included; the lag is that of those that run."""
    made: Counter[tuple[str, ...]] = Counter()
    degraded: Counter[tuple[str, ...]] = Counter()
    lags: Counter[str] = Counter()
    delays: dict[str, Delays] = {}
    silent_before_us = time.time_ns() // 1000 - SILENT_AFTER_US
    for one in latest:
        made.update({(one.scored, version, role): count for version, role, count in one.predictions})
        degraded.update({(one.scored, reason): count for reason, count in one.degraded.items()})
        lags[one.scored] += one.lag if one.at_us > silent_before_us else 0
        delays.setdefault(one.scored, Delays(DECIDE_SECONDS)).add_all(one.delays, one.delay_seconds)
    yield counter("predictions", "Predictions of streams", ["model", "version", "role"], _samples(made))
    yield counter("degraded", "Predictions that are less than they should be", ["model", "reason"], _samples(degraded))
    yield gauge(
        "score_lag", "Clean events a model has not scored", ["model"], [([name], n) for name, n in lags.items()]
    )
    spent = [([name], of_model) for name, of_model in delays.items()]
    yield histogram("score_seconds", "From an event's arrival to its score", ["model"], spent)


def watchers(latest: Iterable[WatchProgress]) -> Iterator[Metric]:
    """What the one who watches last said."""
    said = list(latest)
    yield gauge("alerts_firing", "Alerts that fire", [], [([], one.firing) for one in said])
    yield gauge(
        "watch_at_seconds", "When alerts were last looked at, in epoch s", [], [([], w.at_us / 1e6) for w in said]
    )
    told: list[Sample] = [
        ([sink, outcome], n)
        for one in said
        for sink, outcomes in one.notifications.items()
        for outcome, n in outcomes.items()
    ]
    yield counter("notifications", "Notifications by sink and what became of them", ["sink", "outcome"], told)


def outcomes(latest: Iterable[OutcomesProgress]) -> Iterator[Metric]:
    """What came of predictions: all states of a model together are all that were seen."""
    said = list(latest)
    states = [([one.judged, *of], float(count)) for one in said for *of, count in one.counts]
    yield gauge("outcomes", "Predictions by what came of them", ["model", "version", "role", "state"], states)
    yield histogram(
        "label_delay_seconds",
        "From an event to its first label",
        ["model"],
        [([one.judged], _delays(one)) for one in said],
    )
    clocks = [([one.judged], one.clock_us / 1e6) for one in said if one.clock_us]
    yield gauge("outcomes_clock_seconds", "Up to when labels are known to be complete", ["model"], clocks)
    yield gauge("outcomes_lag", "Predictions and labels not joined yet", ["model"], [([o.judged], o.lag) for o in said])
    rows = [([one.judged], float(one.state_rows)) for one in said]
    yield gauge("outcomes_state_rows", "Rows of the state of outcomes", ["model"], rows)
    held = [([one.judged], float(one.state_bytes)) for one in said]
    yield gauge("outcomes_state_bytes", "Bytes of the state of outcomes", ["model"], held)
    silent_before_us = time.time_ns() // 1000 - SILENT_AFTER_US
    running = [([one.judged], float(one.running and one.at_us > silent_before_us)) for one in said]
    yield gauge("outcomes_running", "Whether outcomes are joined", ["model"], running)


def drifts(latest: Iterable[DriftProgress]) -> Iterator[Metric]:
    """How far what models are served is from what they were trained on; what was told long ago is not told again."""
    said = [one for one in latest if one.at_us > time.time_ns() // 1000 - STALE_AFTER_US]
    most = [([one.compared], one.multiple) for one in said if one.multiple is not None]
    yield gauge("drift", "The farthest column as a multiple of what is drift", ["model"], most)
    each = [([one.compared, name], value) for one in said for name, value in one.columns.items()]
    yield gauge("drift_column", "Each column as a multiple of what is drift", ["model", "column"], each)
    figures = [
        ([one.compared, name, test], value)
        for one in said
        for name, of_column in one.statistics.items()
        for test, value in of_column.items()
    ]
    yield gauge("drift_statistic", "Statistics of the whole window", ["model", "column", "test"], figures)
    yield gauge("drift_rows", "Vectors in the window", ["model"], [([one.compared], one.rows) for one in said])
    yield gauge("drift_lag", "Predictions not counted yet", ["model"], [([one.compared], one.lag) for one in said])
    fates = [([one.compared, fate], float(count)) for one in said for fate, count in one.fates.items()]
    yield counter("drift_records", "Predictions by what was made of them", ["model", "fate"], fates)
    wrong = [([one.compared], one.error_share) for one in said if one.error_share is not None]
    yield gauge("error_share", "Share of outcomes that were wrong lately", ["model"], wrong)
    more = [([one.compared, by], float(count)) for one in said for by, count in one.error_changes.items()]
    yield counter("error_changes", "How often errors became more, suspected and confirmed", ["model", "by"], more)


def qualities(latest: Iterable[QualityProgress]) -> Iterator[Metric]:
    """How good models are by the outcomes that are due."""
    said = [one for one in latest if one.at_us > time.time_ns() // 1000 - STALE_AFTER_US]
    lost = [([one.measured], one.lost) for one in said if one.lost is not None]
    yield gauge("quality_lost", "Share of the card's quality lost beyond doubt", ["model"], lost)
    covered = [([one.measured], one.coverage) for one in said if one.coverage is not None]
    yield gauge("label_coverage", "Share of due predictions whose label came", ["model"], covered)


def _delays(said: OutcomesProgress) -> Delays:
    delays = Delays(LABEL_SECONDS)
    delays.add_all(said.delays, said.delay_seconds)
    return delays


def _samples(counts: Counter[tuple[str, ...]]) -> list[Sample]:
    return [(list(labels), float(count)) for labels, count in counts.items()]


def queries(latest: Iterable[QueryProgress]) -> Iterator[Metric]:
    """What each query last said of itself."""
    said = list(latest)
    silent_before_us = time.time_ns() // 1000 - SILENT_AFTER_US
    running = [([one.query, one.lane], float(one.running and one.at_us > silent_before_us)) for one in said]
    yield gauge("query_running", "Whether a query runs", ["query", "lane"], running)
    marks = [([one.query], one.watermark_us / 1e6) for one in said if one.watermark_us is not None]
    yield gauge("watermark_seconds", "The watermark of a query's state, in epoch seconds", ["query"], marks)
    yield gauge("state_rows", "Rows of a query's state", ["query"], [([one.query], one.state_rows) for one in said])
    yield gauge("state_bytes", "Bytes of a query's state", ["query"], [([one.query], one.state_bytes) for one in said])
    dropped = [([one.query], one.dropped_by_watermark) for one in said]
    yield counter("dropped_by_watermark", "Rows the watermark dropped: should be 0", ["query"], dropped)
    checkpoints = [([one.query], one.checkpoint_ms) for one in said if one.checkpoint_ms is not None]
    yield gauge("checkpoint_ms", "How long the last checkpoint took", ["query"], checkpoints)


def counter(name: str, text: str, labels: list[str], samples: Iterable[tuple[list[str], float]]) -> Metric:
    family = CounterMetricFamily(f"headrace_{name}", text, labels=labels)
    for values, count in samples:
        family.add_metric(values, count)
    return family


def gauge(name: str, text: str, labels: list[str], samples: Iterable[tuple[list[str], float]]) -> Metric:
    family = GaugeMetricFamily(f"headrace_{name}", text, labels=labels)
    for values, level in samples:
        family.add_metric(values, level)
    return family


def histogram(name: str, text: str, labels: list[str], samples: Iterable[tuple[list[str], Delays]]) -> Metric:
    family = HistogramMetricFamily(f"headrace_{name}", text, labels=labels)
    for values, delays in samples:
        buckets = [("+Inf" if bound == float("inf") else str(float(bound)), float(n)) for bound, n in delays.at_most()]
        family.add_metric(values, buckets, delays.total_seconds)
    return family
