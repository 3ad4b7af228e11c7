"""GET /metrics: what is counted elsewhere in plain numbers, in Prometheus' words."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from headrace.declare.app import App
from headrace.declare.catalogue import DECIDE_SECONDS, LABEL_SECONDS
from headrace.declare.stream import Stream
from headrace.log.lag import Behind
from headrace.log.ledger import Account
from headrace.log.outages import AppStatus
from headrace.log.progress import (
    SILENT_AFTER_US,
    BridgeProgress,
    CaptureProgress,
    CheckProgress,
    DriftProgress,
    LandingProgress,
    OutboxProgress,
    OutcomesProgress,
    ProgressBoard,
    QualityProgress,
    QueryProgress,
    ScorerProgress,
    SinkProgress,
    WatchProgress,
    waits,
)
from headrace.serve.answers import Answer
from headrace.serve.counted import Counted, TableCount
from headrace.serve.families import tell
from headrace.serve.hot import LEAST_EVENTS, HotKey, Report
from headrace.serve.http import Request
from headrace.serve.ledgers import Ledgers
from headrace.serve.outage_metrics import outage_metrics
from headrace.serve.tallies import Tally
from headrace.store.delays import Delays
from headrace.store.memory import Table

Sample = tuple[list[str], float]
RANKS = 3
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
    hot: Callable[[], Report] = Report
    behind: Callable[[], Behind] = Behind
    status: Callable[[], AppStatus] = AppStatus


class Metrics(Collector):
    """Answers with the numbers of this moment."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    async def __call__(self, request: Request) -> Answer:
        # OpenMetrics, which has a word for units, for who asks for it.
        encode, content_type = choose_encoder((request.header(b"accept") or b"").decode("latin-1"))
        # In a thread: others are answered meanwhile.
        return Answer(200, await asyncio.to_thread(encode, self._registry), content_type.encode())

    def collect(self) -> Iterator[Metric]:
        sources = self._sources
        accounts = sources.ledgers.accounts()
        yield from events(accounts)
        yield from lags(sources.behind(), accounts)
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
        yield from sinks(sources.board.sinks.copy().values())
        yield from outboxes(sources.board.outboxes.copy().values())
        yield from sink_lags(sources.behind(), sources.app)
        yield from bridges(sources.board.bridges.copy().values())
        yield from captures(sources.board.captures.copy().values())
        yield from watchers(sources.board.watchers.copy().values())
        yield from outcomes(sources.board.outcomes.copy().values())
        yield from drifts(sources.board.drifts.copy().values())
        yield from qualities(sources.board.qualities.copy().values())
        yield from heavy(sources.hot())
        yield from outage_metrics(sources.status())


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
    yield tell("events_total", fates)
    yield tell("dead_total", reasons)
    yield tell("lag", lags)


def lags(behind: Behind, streams: Iterable[str]) -> Iterator[Metric]:
    """How far whoever reads the log is behind, and how long it takes to catch up."""
    waited = [([stream], behind.seconds_of(f"{stream}.gate") or 0.0) for stream in streams]
    yield tell("lag_seconds", waited)
    told = [([lag.query, lag.place.topic, str(lag.place.number)], lag) for lag in behind.told]
    yield tell("query_lag", [(labels, lag.records) for labels, lag in told])
    yield tell("query_lag_seconds", [(labels, lag.seconds) for labels, lag in told])
    left = behind.left_s(time.monotonic())
    yield tell("catch_up_seconds", [([query], seconds) for query, seconds in left.items()])


def duplicates(app: App, accounts: Mapping[str, Account], held: Mapping[str, Table]) -> Metric:
    """Clean events that are in no tile, because one with their id already was; exact when nothing is in flight."""
    counted = ((stream, _folded(app, stream, held)) for stream in app.streams if stream.name in accounts)
    samples: list[Sample] = [
        ([stream.name], max(0, accounts[stream.name].clean - folded))
        for stream, folded in counted
        if folded is not None
    ]
    return tell("duplicates_total", samples)


def _folded(app: App, stream: Stream, held: Mapping[str, Table]) -> int | None:
    """The stream's events in the tiles of the first view by its key: every clean event has one."""
    views = [view for view in app.views_of(stream) if view.by == (stream.key,) and view.name in held]
    return held[views[0].name].events_of(stream) if views else None


def tables(held: Mapping[str, Table]) -> Iterator[Metric]:
    """How large the store in this process is."""
    each = list(held.items())
    yield tell("entities", [([name], len(table)) for name, table in each])
    yield tell("tiles", [([name], table.tiles) for name, table in each])
    yield tell("store_bytes", [([name], t.bytes) for name, t in each])


def applied(counted: Mapping[str, TableCount]) -> Iterator[Metric]:
    """What became of the records of changelogs, and how soon the store knew."""
    refused = [([name], table.refused) for name, table in counted.items()]
    yield tell("refused_tiles_total", refused)
    delays = [([name], table.delays) for name, table in counted.items()]
    yield tell("apply_seconds", delays)


def requests(tallies: Mapping[str, Tally]) -> Iterator[Metric]:
    """What was asked, how it ended and how long it took; of what nobody ever asked there is nothing to tell."""
    ends = [([path, str(status)], n) for path, tally in tallies.items() for status, n in tally.statuses.copy().items()]
    yield tell("requests_total", ends)
    delays = [([path], tally.delays) for path, tally in tallies.items() if tally.statuses]
    yield tell("request_seconds", delays)


def predictions(counted: Counted) -> Iterator[Metric]:
    """What was scored over HTTP, what of it was degraded, and what of it is in no log."""
    made = counted.predictions
    scored = [([model], tally.scored) for model, tally in made.items()]
    yield tell("http_predictions_total", scored)
    lacking = [([model, why], n) for model, one in made.items() for why, n in one.degraded.copy().items()]
    yield tell("http_predictions_degraded_total", lacking)
    missing = [([model], counted.lost[model]) for model in made]
    yield tell("predictions_lost_total", missing)


def checks(latest: Iterable[CheckProgress]) -> Iterator[Metric]:
    """What the check that never stops has found of what was served."""
    said = list(latest)
    outcomes = [([one.checked, name], float(count)) for one in said for name, count in one.outcomes.items()]
    yield tell("checked_values_total", outcomes)
    answers = [([one.checked], float(one.answers)) for one in said]
    yield tell("checked_answers_total", answers)


def landings(latest: Iterable[LandingProgress]) -> Iterator[Metric]:
    """How far the lake is behind the log."""
    said = list(latest)
    behind = [([one.landed], one.left) for one in said]
    yield tell("lake_lag", behind)
    took = [([one.landed], one.seconds) for one in said]
    yield tell("lake_step_seconds", took)
    looked = [([one.landed], one.at_us / 1e6) for one in said]
    yield tell("lake_step_at_seconds", looked)


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
    yield tell("predictions_total", _samples(made))
    yield tell("degraded_total", _samples(degraded))
    yield tell("score_lag", [([name], n) for name, n in lags.items()])
    spent = [([name], of_model) for name, of_model in delays.items()]
    yield tell("score_seconds", spent)


def sinks(latest: Iterable[SinkProgress]) -> Iterator[Metric]:
    """What the copies of each sink have done, those that have ended included."""
    yield from _brought("sink", [(one.sunk, one) for one in latest])


def outboxes(latest: Iterable[OutboxProgress]) -> Iterator[Metric]:
    """What the relays of each outbox have done, those that have ended included."""
    named = [(one.relayed, one) for one in latest]
    yield from _brought("outbox", named)
    newest = {name: one.waited_seconds for name, one in sorted(named, key=lambda pair: pair[1].at_us)}
    yield tell("outbox_waited_seconds", [([name], seconds) for name, seconds in newest.items()])


def _brought(kind: str, named: Iterable[tuple[str, SinkProgress | OutboxProgress]]) -> Iterator[Metric]:
    """What became of rows, by the names of those who bring them."""
    fates: Counter[tuple[str, ...]] = Counter()
    parked: Counter[tuple[str, ...]] = Counter()
    retries: Counter[tuple[str, ...]] = Counter()
    for name, one in named:
        fates.update({(name, fate): count for fate, count in one.rows.items()})
        parked.update({(name, reason): count for reason, count in one.parked.items()})
        retries[name,] += one.retries
    yield tell(f"{kind}_rows_total", _samples(fates))
    yield tell(f"{kind}_parked_total", _samples(parked))
    yield tell(f"{kind}_retries_total", _samples(retries))


def sink_lags(behind: Behind, app: App) -> Iterator[Metric]:
    """How far sinks are behind, by what their groups have kept: whoever has died is behind as well."""
    records: Counter[str] = Counter()
    for lag in behind.lags:
        records[lag.query] += lag.records
    yield tell("sink_lag", [([sink.name], records[sink.query]) for sink in app.sinks])
    waited = [([sink.name], behind.seconds_of(sink.query) or 0.0) for sink in app.sinks]
    yield tell("sink_lag_seconds", waited)


def captures(latest: Iterable[CaptureProgress]) -> Iterator[Metric]:
    """Whether tables are captured, and what their databases keep for that."""
    said, now_us = list(latest), time.time_ns() // 1000
    yield tell("capture_waits", [([one.captured], int(waits(one, now_us))) for one in said])
    yield tell("capture_kept_bytes", [([one.captured], one.kept_bytes) for one in said])


def bridges(latest: Iterable[BridgeProgress]) -> Iterator[Metric]:
    """What bridges have copied, and whether they go on."""
    said, now_us = list(latest), time.time_ns() // 1000
    yield tell("bridge_copied_total", [([one.bridged], one.copied) for one in said])
    yield tell("bridge_left", [([one.bridged], one.left) for one in said])
    yield tell("bridge_waits", [([one.bridged], int(waits(one, now_us))) for one in said])


def watchers(latest: Iterable[WatchProgress]) -> Iterator[Metric]:
    """What the one who watches last said."""
    said = list(latest)
    yield tell("alerts_firing", [([], one.firing) for one in said])
    yield tell("watch_at_seconds", [([], w.at_us / 1e6) for w in said])
    yield tell("notifications_total", _outcomes(one.notifications for one in said))
    yield tell("pushes_total", _outcomes(one.pushes for one in said))


def _outcomes(told: Iterable[Mapping[str, Mapping[str, int]]]) -> list[Sample]:
    """How many ended how, by whom it was told or what was."""
    return [
        ([name, outcome], float(n)) for one in told for name, outcomes in one.items() for outcome, n in outcomes.items()
    ]


def outcomes(latest: Iterable[OutcomesProgress]) -> Iterator[Metric]:
    """What came of predictions: all states of a model together are all that were seen."""
    said = list(latest)
    states = [([one.judged, *of], float(count)) for one in said for *of, count in one.counts]
    yield tell("outcomes", states)
    yield tell("label_delay_seconds", [([one.judged], _delays(one)) for one in said])
    clocks = [([one.judged], one.clock_us / 1e6) for one in said if one.clock_us]
    yield tell("outcomes_clock_seconds", clocks)
    yield tell("outcomes_lag", [([o.judged], o.lag) for o in said])
    rows = [([one.judged], float(one.state_rows)) for one in said]
    yield tell("outcomes_state_rows", rows)
    held = [([one.judged], float(one.state_bytes)) for one in said]
    yield tell("outcomes_state_bytes", held)
    silent_before_us = time.time_ns() // 1000 - SILENT_AFTER_US
    running = [([one.judged], float(one.running and one.at_us > silent_before_us)) for one in said]
    yield tell("outcomes_running", running)


def drifts(latest: Iterable[DriftProgress]) -> Iterator[Metric]:
    """How far what models are served is from what they were trained on; what was told long ago is not told again."""
    said = [one for one in latest if one.at_us > time.time_ns() // 1000 - STALE_AFTER_US]
    most = [([one.compared], one.multiple) for one in said if one.multiple is not None]
    yield tell("drift", most)
    each = [([one.compared, name], value) for one in said for name, value in one.columns.items()]
    yield tell("drift_column", each)
    figures = [
        ([one.compared, name, test], value)
        for one in said
        for name, of_column in one.statistics.items()
        for test, value in of_column.items()
    ]
    yield tell("drift_statistic", figures)
    yield tell("drift_rows", [([one.compared], one.rows) for one in said])
    yield tell("drift_lag", [([one.compared], one.lag) for one in said])
    fates = [([one.compared, fate], float(count)) for one in said for fate, count in one.fates.items()]
    yield tell("drift_records_total", fates)
    wrong = [([one.compared], one.error_share) for one in said if one.error_share is not None]
    yield tell("error_share", wrong)
    more = [([one.compared, by], float(count)) for one in said for by, count in one.error_changes.items()]
    yield tell("error_changes_total", more)


def qualities(latest: Iterable[QualityProgress]) -> Iterator[Metric]:
    """How good models are by the outcomes that are due."""
    said = [one for one in latest if one.at_us > time.time_ns() // 1000 - STALE_AFTER_US]
    lost = [([one.measured], one.lost) for one in said if one.lost is not None]
    yield tell("quality_lost", lost)
    covered = [([one.measured], one.coverage) for one in said if one.coverage is not None]
    yield tell("label_coverage", covered)


def heavy(report: Report) -> Iterator[Metric]:
    """How much the heaviest keys have, by rank and never by name, and how evenly partitions are used."""
    of_streams = [key for key in report.keys if key.view is None]
    yield tell("hot_keys", _hot(of_streams))
    yield tell("hot_key_share", _shares(of_streams))
    of_views = [key for key in report.keys if key.view is not None]
    yield tell("hot_entities", _hot(of_views))
    yield tell("hot_entity_share", _shares(of_views))
    skews = [([one.topic], one.skew) for one in report.topics if one.records >= LEAST_EVENTS]
    yield tell("partition_skew", skews)


def _hot(keys: Iterable[HotKey]) -> list[Sample]:
    hot: Counter[tuple[str, ...]] = Counter()
    for key in keys:
        hot[key.of,] += key.is_hot
    return _samples(hot)


def _shares(keys: Iterable[HotKey]) -> list[Sample]:
    return [([key.of, str(key.rank)], key.at_least) for key in keys if key.rank <= RANKS]


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
    yield tell("query_running", running)
    marks = [([one.query], one.watermark_us / 1e6) for one in said if one.watermark_us is not None]
    yield tell("watermark_seconds", marks)
    yield tell("state_rows", [([one.query], one.state_rows) for one in said])
    yield tell("state_bytes", [([one.query], one.state_bytes) for one in said])
    dropped = [([one.query], one.dropped_by_watermark) for one in said]
    yield tell("dropped_by_watermark_total", dropped)
    checkpoints = [([one.query], one.checkpoint_ms / 1000) for one in said if one.checkpoint_ms is not None]
    yield tell("checkpoint_seconds", checkpoints)
