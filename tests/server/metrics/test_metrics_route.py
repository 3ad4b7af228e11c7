"""GET /metrics: the counters in Prometheus' format."""

import json
import time

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families

import headrace as hr
from headrace.declare.metric_catalog import METRIC_CATALOG
from headrace.declare.metric_family import BASE_UNITS, TOTAL_SUFFIX
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.status.heartbeat import PROGRESS_TOPIC
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.reports.lake import IngestionProgress
from headrace.kafka.status.reports.queries import QueryProgress
from headrace.kafka.topics import ensure_topics
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader
from headrace.server.metrics.metrics_route import request_metrics
from headrace.server.metrics.request_stats import RequestStats
from headrace.telemetry.exporters.dashboards_and_rules import PROMETHEUS_TYPES
from tests.kafka.streams import new_stream, new_view
from tests.server.server_thread import Asking, app_of_views, serving, serving_store, tiles_of
from tests.server.test_server import send_tiles, served
from tests.waiting import wait_until

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def metrics(ask: Asking) -> Samples:
    said = ask("GET", "/metrics")
    assert said.status == 200
    assert said.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(said.body.decode())
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((f"headrace_{name}", frozenset(labels.items())))


def payments(view: hr.View, count: int) -> list[dict[str, object]]:
    now_ms = time.time_ns() // 1_000_000
    return [{"id": str(n), "card": f"c{n % 3}", "amount": 1.0, "at": now_ms - n * 1000} for n in range(count)]


def test_a_server_tells_what_is_in_the_catalogue_and_nothing_else() -> None:
    view = new_view(new_stream())
    with serving_store(MemoryStore([view]), view) as ask:
        said = ask("GET", "/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
        plain = {family.name: family for family in text_string_to_metric_families(ask("GET", "/metrics").body.decode())}
    assert said.headers["content-type"].startswith("application/openmetrics-text")
    told = {family.name: family for family in openmetrics(said.body.decode())}
    expected = {one.name.removesuffix(TOTAL_SUFFIX): one for one in METRIC_CATALOG.values() if one.is_exported}
    assert told.keys() == plain.keys() == expected.keys()
    for name, family in expected.items():
        assert told[name].documentation == plain[name].documentation == family.help
        assert told[name].type == PROMETHEUS_TYPES[family.metric_type]
        assert told[name].unit == (family.unit if family.unit in BASE_UNITS else "")


def test_requests_are_counted_by_path_and_status() -> None:
    view = new_view(new_stream())
    path = f"/features/{view.name}"
    with serving_store(MemoryStore([view]), view) as ask:
        for _ in range(3):
            ask.rows(view, ["c1"])
        ask.features(view, [5])
        ask("GET", "/nowhere")
        ask("GET", path)
        seen = metrics(ask)
    assert value(seen, "requests_total", path=path, status="200") == 3
    assert value(seen, "requests_total", path=path, status="400") == 1
    assert value(seen, "requests_total", path=path, status="405") == 1
    assert value(seen, "requests_total", path="elsewhere", status="404") == 1
    assert value(seen, "request_seconds_count", path=path) == 5
    assert value(seen, "request_seconds_bucket", path=path, le="+Inf") == 5


def test_the_store_tells_its_size() -> None:
    view = new_view(new_stream())
    store = MemoryStore([view])
    records = tiles_of(view, payments(view, 30))
    store.apply([*records, records[0]._replace(value=b"no tile")])
    with serving_store(store, view) as ask:
        seen = metrics(ask)
    assert value(seen, "entities", view=view.name) == 3
    assert value(seen, "tiles", view=view.name) == len(records)
    assert (value(seen, "store_bytes", view=view.name) or 0) > 1000
    assert value(seen, "refused_tiles_total", view=view.name) == 1
    assert value(seen, "apply_seconds_count", view=view.name) == 0


def test_queries_tell_how_they_fare() -> None:
    app = app_of_views(view := new_view(new_stream()))
    board, now_us = ProgressTable(), time.time_ns() // 1000
    board.put(
        QueryProgress(
            "tiles",
            view.streams[0].name,
            (view.name,),
            "real-time",
            True,
            now_us,
            1_767_225_600_500_000,
            7,
            4096,
            2,
            31,
        )
    )
    board.put(QueryProgress("gate", view.streams[0].name, (), "draining", True, now_us - 60_000_000))
    with serving(app, MemoryStoreReader(MemoryStore([view]), None), board) as ask:
        seen = metrics(ask)
    assert value(seen, "query_running", query="tiles", lane="real-time") == 1
    assert value(seen, "query_running", query="gate", lane="draining") == 0
    assert value(seen, "watermark_seconds", query="tiles") == 1_767_225_600.5
    assert value(seen, "watermark_seconds", query="gate") is None
    assert value(seen, "state_rows", query="tiles") == 7
    assert value(seen, "state_bytes", query="tiles") == 4096
    assert value(seen, "dropped_by_watermark_total", query="tiles") == 2
    assert value(seen, "checkpoint_seconds", query="tiles") == 0.031


def test_the_lake_tells_how_far_it_is_behind() -> None:
    app = app_of_views(view := new_view(new_stream()))
    board = ProgressTable()
    for left in (900, 700):
        said = IngestionProgress("silver/payments", 1_767_225_600_500_000, 200, left, 1.5)
        board.apply([ConsumerRecord(PROGRESS_TOPIC, 0, 0, 0, None, json.dumps(said.to_json()).encode(), None)])
    with serving(app, MemoryStoreReader(MemoryStore([view]), None), board) as ask:
        seen = metrics(ask)
    assert value(seen, "lake_lag", table="silver/payments") == 700
    assert value(seen, "lake_step_seconds", table="silver/payments") == 1.5
    assert value(seen, "lake_step_at_seconds", table="silver/payments") == 1_767_225_600.5


def test_every_record_has_a_fate_and_duplicates_are_those_in_no_tile(broker: EmbeddedBroker) -> None:
    app = app_of_views(view := new_view(new_stream()))
    stream = view.streams[0]
    ensure_topics(broker.address, app.streams, app.views)
    with Producer(broker.address) as producer:
        for offset in range(12):
            producer.send(stream.name, b"{}", partition=0)
            topic = stream.clean if offset < 9 else stream.dead if offset == 9 else stream.late_topic
            headers = [("headrace.offset", str(offset)), ("headrace.reason", "failed-check: amount >= 0")]
            producer.send(topic, b"{}", partition=0, headers=headers)
        producer.send(stream.name, b"{}", partition=1)
    send_tiles(broker.address, view, 7)
    with served(app, broker.address) as ask:
        wait_until(lambda: value(metrics(ask), "events_total", stream=stream.name, fate="late") == 2, 20, "the ledger")
        wait_until(lambda: value(metrics(ask), "duplicates_total", stream=stream.name) == 2, 20, "the tiles")
        seen = metrics(ask)
    fates = {fate: value(seen, "events_total", stream=stream.name, fate=fate) for fate in ("in", "clean", "late")}
    assert fates == {"in": 13, "clean": 9, "late": 2}
    assert value(seen, "dead_total", stream=stream.name, reason="failed-check") == 1
    assert value(seen, "lag", stream=stream.name) == 1


def test_only_tiles_that_come_after_the_start_say_how_soon_they_are_known(broker: EmbeddedBroker) -> None:
    app = app_of_views(view := new_view(new_stream()))
    ensure_topics(broker.address, app.streams, app.views)
    send_tiles(broker.address, view, 5)
    with served(app, broker.address) as ask:
        wait_until(lambda: "changelogs" not in str(ask("GET", "/v2/health/ready").json), 20, "the store to catch up")
        assert value(metrics(ask), "apply_seconds_count", view=view.name) == 0
        send_tiles(broker.address, view, 6)
        wait_until(lambda: (value(metrics(ask), "apply_seconds_count", view=view.name) or 0) > 0, 10, "a new tile")


def test_without_a_broker_the_rest_is_still_told() -> None:
    app = app_of_views(view := new_view(new_stream()))
    with served(app, "127.0.0.1:1") as ask:
        seen = metrics(ask)
    assert value(seen, "entities", view=view.name) == 0
    assert value(seen, "events_total", stream=view.streams[0].name, fate="in") is None


def test_of_a_path_that_nobody_ever_asked_there_is_nothing_to_tell() -> None:
    """There are dozens of paths, and a page gets all metrics once a second."""
    asked, never = RequestStats(), RequestStats()
    asked.add(200, 0.1)
    told = [sample for family in request_metrics({"/asked": asked, "/never": never}) for sample in family.samples]
    assert {sample.labels["path"] for sample in told} == {"/asked"}
    parts = {f"headrace_request_seconds_{part}" for part in ("bucket", "count", "sum")}
    assert {sample.name for sample in told} == {"headrace_requests_total"} | parts
