"""Values from /metrics, in the format that the server writes."""

import time
from dataclasses import replace
from types import ModuleType

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import headrace as hr
from headrace.cli import COMMANDS
from headrace.declare.app import App, build_app
from headrace.declare.metric_catalog import METRIC_CATALOG
from headrace.declare.metric_family import MetricType
from headrace.embedded_servers.ports import HOST, free_port
from headrace.kafka.consumers.consumer_lag import LagSnapshot, PartitionLag
from headrace.kafka.ledger import LedgerCounts
from headrace.kafka.partition_skew import PartitionSkew
from headrace.kafka.record import Partition
from headrace.kafka.status.app_status import build_app_status
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.reports.alerting import AlertingProgress
from headrace.kafka.status.reports.connectors import CaptureProgress, OutboxProgress, SinkProgress, SourceProgress
from headrace.kafka.status.reports.lake import ConsistencyCheckProgress, IngestionProgress
from headrace.kafka.status.reports.models import DriftProgress, OutcomesProgress, QualityProgress, ScorerProgress
from headrace.kafka.status.reports.parts import PartProgress
from headrace.kafka.status.reports.queries import QueryProgress
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.server.auth.internal_client import InternalClient
from headrace.server.metrics.hot_keys import HotKeyReport, HotKeyStats
from headrace.server.metrics.metrics_route import MetricsHandler, MetricSources
from headrace.server.metrics.request_stats import PredictionStats, RequestStats
from headrace.server.metrics.server_counts import ServerCounts, table_counts
from headrace.telemetry.alerts.default_alerts import app_alerts, default_alerts
from headrace.telemetry.values.metrics_scraper import ServerValues, parse_samples

SECOND = 1_000_000

payments = hr.Stream(
    "payments", schema="id string, card string, amount double, at timestamp", id="id", key="card", time="at"
)
verdicts = hr.Stream("verdicts", schema="id string, fraud boolean, at timestamp", id="id", key="id", time="at")


@hr.features(payments, by="card", freshness="1s")
class CardSpend:
    payments = hr.count(windows="1h")


fraud = hr.Model(
    "fraud",
    on=payments,
    features=[CardSpend],
    train=lambda frame: frame,
    labels=hr.Labels(verdicts, value="fraud", within="1h"),
)


warehouse = hr.Sink("warehouse", of=payments, to=hr.Kafka("warehouse.payments"))


def the_app(*alerts: hr.Alert) -> App:
    module = ModuleType("shop")
    vars(module).update(payments=payments, CardSpend=CardSpend, fraud=fraud, alerts=list(alerts))
    return build_app(module)


class Server:
    """A server's numbers, and its own words for them."""

    def __init__(self) -> None:
        self.board, self.store, self.tally = ProgressTable(), MemoryStore([CardSpend]), PredictionStats()
        self.account = LedgerCounts(0, 0, 0, 0, 0, 0, {})
        self.behind = LagSnapshot((PartitionLag("q", Partition("payments", 0), 5, 2.5),), {"q": 1.0})
        self.board.put(QueryProgress("q", "payments", (), "real-time", True, 0, watermark_us=1, checkpoint_ms=1))
        self.board.put(PartProgress("lake", 0, "running", app="shop"))
        self.board.put(ConsistencyCheckProgress("CardSpend", 0, 1, {"exact": 1}))
        self.board.put(SinkProgress("warehouse", "c", 0, {"written": 1}, {"wrong": 1}, 1, ""))
        self.board.put(OutboxProgress("shop", "c", 0, {"sent": 1}, {"wrong": 1}, 1, 0.5, ""))
        self.board.put(SourceProgress("payments", 0, 1, 2, ""))
        self.board.put(CaptureProgress("customers", 0, 9, ""))
        self.board.put(IngestionProgress("t", 0, 1, 1, 1.0))
        self.board.put(ScorerProgress("fraud", "s", 0, 0, [["1", "champion", 9]], {"late": 1}, [0] * 18, 0.0))
        self.board.put(AlertingProgress("shop", 0, 1, {"log": {"delivered": 1}}, {"traces": {"failed": 1}}))
        now_us = time.time_ns() // 1000
        statistics = {"amount": {"psi": 0.2}}
        self.board.put(
            DriftProgress(
                "fraud",
                now_us,
                "1",
                1,
                9,
                0.5,
                {"amount": 0.5},
                statistics,
                [],
                {"counted": 9},
                0,
                0.1,
                {"suspected": 1},
            )
        )
        self.board.put(
            OutcomesProgress("fraud", now_us, True, 1, 0, [["1", "champion", "matched", 3]], [0] * 14, 0.0, 1, 1)
        )
        self.board.put(QualityProgress("fraud", now_us, 0.0, 1.0))

    def accounts(self) -> dict[str, LedgerCounts]:
        return {"payments": self.account}

    def text(self) -> str:
        self.tally.degraded.setdefault("store", 0)
        tallies = {"/": RequestStats()}
        tallies["/"].add(200, 0.1)
        counts = {name: table_counts(table) for name, table in self.store.tables.items()}
        counted = ServerCounts(tallies, {"fraud": self.tally}, tables=counts)
        heavy = HotKeyStats(("payments",), None, 1, "c1", 0.3, 0.3, 1.0, 0, 2, 1, is_hot=True)
        report = HotKeyReport((heavy, replace(heavy, view="CardSpend")), (PartitionSkew("payments", 2, 5000, 0, 0.6),))
        sources = MetricSources(
            replace(the_app(), sinks=(warehouse,)),
            self.board,
            self,  # type: ignore[arg-type]
            self.store.tables,
            lambda: counted,
            lambda: report,
            lambda: self.behind,
            lambda: build_app_status(the_app(), self.board),
        )
        registry = CollectorRegistry(auto_describe=False)
        registry.register(MetricsHandler(sources))
        return generate_latest(registry).decode()


def values_of(alert: hr.Alert, server: Server, *accounts: LedgerCounts | None) -> list[float | None]:
    """The value after each look, a second apart; None is a server that does not answer."""
    values, found = ServerValues(InternalClient("http://nowhere"), [alert]), []
    for n, account in enumerate(accounts, 1):
        server.account = account or server.account
        values.apply_samples(parse_samples(server.text()) if account else None, n * SECOND)
        reading = values.read(alert.on, n * SECOND)
        found.append(None if reading is None else reading.value)
    return found


def counted(arrived: int, dead: int = 0, pending: int = 0) -> LedgerCounts:
    return LedgerCounts(arrived, arrived - dead - pending, 0, dead, 0, pending, {"bad-json": dead} if dead else {})


DEAD = hr.metric("headrace_events_total", stream="payments", fate="dead")
ARRIVED = hr.metric("headrace_events_total", stream="payments", fate="in")


def test_every_name_of_the_catalogue_is_one_the_server_writes_with_those_labels() -> None:
    server = Server()
    server.account = counted(2, 1)
    samples = parse_samples(server.text())
    for family in METRIC_CATALOG.values():
        written = f"{family.name}_count" if family.metric_type is MetricType.HISTOGRAM else family.name
        assert (written in samples) is family.is_exported, family.name
        assert not family.is_exported or set(samples[written][0].labels) == set(family.labels), family.name


def test_a_share_is_of_what_came_within_the_window() -> None:
    alert = hr.Alert("dead", on=hr.share(DEAD, of=ARRIVED, over="2s", at_least=10), above=0.1)
    came = [counted(1000, 500), counted(1005, 500), counted(1020, 505), counted(1030, 505), counted(1060, 505)]
    assert values_of(alert, Server(), *came) == [None, None, 0.25, 0.2, 0.0]


def test_a_server_that_begins_anew_is_no_burst_of_events() -> None:
    alert = hr.Alert("dead", on=hr.share(DEAD, of=ARRIVED, over="1m", at_least=1), above=0.1)
    came = [counted(1000, 500), None, counted(900, 450), counted(910, 450)]
    assert values_of(alert, Server(), *came) == [None, None, None, 0.0]


def test_a_count_over_a_window_is_its_growth_from_nothing_on() -> None:
    alert = hr.Alert(
        "wrong", on=hr.metric("headrace_checked_values_total", outcome="wrong", view="CardSpend", over="1m"), above=0
    )
    server, values = Server(), []
    watching = ServerValues(InternalClient("http://nowhere"), [alert])
    for n, wrong in enumerate([{}, {"wrong": 3}, {"wrong": 4}], 1):
        server.board.put(ConsistencyCheckProgress("CardSpend", 0, 1, {"exact": 1} | wrong))
        watching.apply_samples(parse_samples(server.text()), n * SECOND)
        values.append(watching.read(alert.on, n * SECOND))
    assert [reading and reading.value for reading in values] == [0, 3, 4]


def test_the_lag_in_seconds_is_what_the_server_says() -> None:
    alert = hr.Alert("lag", on=hr.metric("headrace_lag_seconds", stream="payments"), above=60)
    server = Server()
    server.behind = LagSnapshot((PartitionLag("payments.gate", Partition("payments", 0), 5, 2.5),))
    assert values_of(alert, server, counted(10)) == [2.5]
    anywhere = hr.metric("headrace_query_lag_seconds", query="payments.gate")
    assert values_of(hr.Alert("lag", on=anywhere, above=60), server, counted(10)) == [2.5]


def test_delays_are_counted_beyond_the_first_bound_that_is_long_enough() -> None:
    slow = hr.metric("headrace_apply_seconds", view="CardSpend", slower="1s")
    alert = hr.Alert(
        "slow",
        on=hr.share(slow, of=hr.metric("headrace_apply_seconds", view="CardSpend"), over="1m", at_least=4),
        above=0,
    )
    server = Server()
    values = ServerValues(InternalClient("http://nowhere"), [alert])
    values.apply_samples(parse_samples(server.text()), SECOND)
    for seconds in (0.2, 1.0, 1.5, 30.0):
        server.store.tables["CardSpend"].delays.add(seconds)
    values.apply_samples(parse_samples(server.text()), 2 * SECOND)
    reading = values.read(alert.on, 2 * SECOND)
    assert reading is not None
    assert reading.value == 0.5


def test_an_objective_tells_both_windows() -> None:
    objective = hr.Objective(DEAD, ARRIVED, allowed=0.01, windows=[("1h", "5m", 14.4)])
    alert = hr.Alert("dead", on=objective)
    server = Server()
    assert values_of(alert, server, counted(0), counted(100, 72)) == [None, pytest.approx(5.0)]
    watching = ServerValues(InternalClient("http://nowhere"), [alert])
    for n, account in enumerate((counted(0), counted(100, 72)), 1):
        server.account = account
        watching.apply_samples(parse_samples(server.text()), n * SECOND)
    reading = watching.read(objective, 2 * SECOND)
    assert reading is not None
    assert reading.text == "0.72 of 100 in 1h and 0.72 of 100 in 5m, 0.01 is allowed"


def test_a_server_that_is_not_there_is_down_and_everything_else_unknown() -> None:
    up = hr.Alert("server", on=hr.metric("headrace_server_up"), below=1)
    lag = hr.Alert("lag", on=hr.metric("headrace_lag", stream="payments"), above=1)
    values = ServerValues(InternalClient(f"http://{HOST}:{free_port()}"), [up, lag])
    values.refresh(SECOND)
    down = values.read(up.on, SECOND)
    assert down is not None
    assert (down.value, values.read(lag.on, SECOND)) == (0.0, None)


def test_every_objective_has_a_default_that_says_why_and_what_to_run() -> None:
    names = [alert.name for alert in default_alerts(the_app())]
    assert names == [
        *("server down", "part down", "query down", "table not landing"),
        *("payments: lag", "payments: dead letters", "verdicts: lag", "verdicts: dead letters"),
        *("CardSpend: wrong values", "CardSpend: freshness"),
        *("fraud: degraded", "fraud: degraded over HTTP", "fraud: drift", "fraud: quality", "fraud: label coverage"),
    ]
    for alert in default_alerts(the_app(), "app.py"):
        assert alert.why.endswith(".")
        headrace, command = alert.run.split()[:2]
        assert headrace == "headrace"
        assert command in COMMANDS
        assert "APP" not in alert.run


def test_an_alert_of_the_same_name_takes_the_place_of_a_default() -> None:
    own = hr.Alert("payments: lag", on=hr.metric("headrace_lag", stream="payments"), above=5)
    found = [alert for alert in app_alerts(the_app(own)) if alert.name == "payments: lag"]
    assert found == [own]
