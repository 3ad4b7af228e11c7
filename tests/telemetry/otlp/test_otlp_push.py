"""Pushes to an OTLP receiver that accepts or rejects them: no caller waits for one, and a failure is logged once."""

import logging
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.ports import HOST, free_port
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.producer.producer import Producer
from headrace.kafka.status.heartbeat import PROGRESS_TOPIC
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.reports.alerting import AlertingProgress
from headrace.kafka.topics import ensure_topics
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader
from headrace.server.auth.internal_client import InternalClient
from headrace.server.metrics.metrics_route import alert_metrics
from headrace.telemetry.alerts.alert_part import AlertMonitorConfig, run_alert_monitor
from headrace.telemetry.otlp.endpoint import BadEndpoint, parse_endpoint
from headrace.telemetry.otlp.exporter import MetricsSignal, OtlpExporter, TracesSignal, classify_response
from headrace.telemetry.webhooks.pinned_post import PostResponse
from tests.kafka.streams import new_stream, new_view
from tests.server.server_thread import app_of_views, serving
from tests.telemetry.https_server import answer, drip, hang, listening, self_signed
from tests.telemetry.otlp_receiver import receiving
from tests.telemetry.values.test_metrics_scraper import the_app
from tests.waiting import patiently, wait_until

SECRET = "T0P-s3cret"
NOWHERE = InternalClient(f"http://{HOST}:1")


class Words:
    """A signal with a constant body; counts its requests and its acknowledgements."""

    name = "metrics"

    def __init__(self) -> None:
        self.asked = self.done_with = 0

    def next_body(self) -> bytes:
        self.asked += 1
        return b'{"resourceMetrics": []}'

    def acknowledge(self) -> None:
        self.done_with += 1


def pushed(
    url: str, pushes: int, environment: dict[str, str] | None = None, within_s: float = 60
) -> tuple[Words, dict[str, int]]:
    """Push at least that many times; returns the signal and the outcomes."""
    words = Words()
    endpoint = parse_endpoint(url, environment or {})
    with OtlpExporter(replace(endpoint, attempt_seconds=within_s), [words], 0.01) as push:
        wait_until(lambda: sum(push.outcomes()["metrics"].values()) >= pushes, 20, "pushes to be over")
    return words, push.outcomes()["metrics"]


def test_numbers_arrive_at_their_path_with_the_headers_of_the_environment() -> None:
    environment = {"OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{SECRET},content-type=text/plain"}
    with receiving(answer(200)) as receiver:
        endpoint = parse_endpoint(f"{receiver.url}/base/", environment)
        assert SECRET not in repr(endpoint)
        with OtlpExporter(endpoint, [MetricsSignal(the_app(), NOWHERE)], 0.01) as push:
            wait_until(lambda: push.outcomes()["metrics"].get("delivered", 0) >= 2, 20, "two pushes")
    assert receiver.headers[0]["authorization"] == f"Bearer {SECRET}"
    assert receiver.metrics[0]["headrace_server_up"].gauge.data_points[0].as_double == 0.0


@pytest.mark.parametrize("behaviour", [hang, drip, answer(503), answer(429)])
def test_a_receiver_that_hangs_or_is_away_is_left_in_time_counted_and_told_once(
    behaviour: object, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with receiving(behaviour) as receiver:  # type: ignore[arg-type]
        words, outcomes = pushed(receiver.url, 3, {"OTEL_EXPORTER_OTLP_HEADERS": f"x-key={SECRET}"}, within_s=0.3)
    assert outcomes.keys() == {"failed"}
    assert words.done_with == 0
    assert len([one for one in caplog.records if one.name == "headrace.otlp"]) == 1
    assert SECRET not in caplog.text


def test_nobody_there_is_no_error_and_what_comes_back_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    _, outcomes = pushed(f"http://{HOST}:{free_port()}", 3)
    assert outcomes.keys() == {"failed"}
    caplog.clear()
    with receiving(answer(503), answer(200)) as receiver:
        _, outcomes = pushed(receiver.url, 4)
    assert outcomes["failed"] == 1
    told = [one.getMessage() for one in caplog.records if one.name == "headrace.otlp"]
    assert told == [
        f"Could not deliver OTLP metrics to {HOST}: it answered 503",
        f"Delivers OTLP metrics to {HOST}",
    ]


def test_what_is_refused_is_not_pushed_again() -> None:
    with receiving(answer(400)) as receiver:
        words, outcomes = pushed(receiver.url, 2)
    assert outcomes.keys() == {"refused"}
    assert words.done_with == words.asked


def test_a_part_that_was_not_taken_is_told() -> None:
    assert classify_response(PostResponse(200, b'{"partialSuccess": {"rejectedDataPoints": "4"}}')) == (
        "refused",
        "it took all but 4",
    )
    assert classify_response(PostResponse(200, b'{"partialSuccess": {}}')) == ("delivered", "")
    assert classify_response(PostResponse(200, b"<html>")) == ("delivered", "")
    assert classify_response(PostResponse(302, b""))[0] == "refused"


def test_a_receiver_over_https_is_known_by_its_certificate(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    with listening(certificate, answer(200)) as server:
        url = f"https://{HOST}:{server.server_address[1]}"
        assert pushed(url, 1)[1].keys() == {"failed"}
        known = {"OTEL_EXPORTER_OTLP_CERTIFICATE": str(certificate)}
        assert pushed(url, 1, known)[1].keys() == {"delivered"}
    assert server.bodies == [{"resourceMetrics": []}] * len(server.bodies)


@pytest.mark.parametrize(
    ("url", "environment"),
    [
        ("http://collector.example:4318", {}),
        ("http://10.1.2.3:4318", {}),
        ("http://127.0.0.1.example", {}),
        ("ftp://127.0.0.1", {}),
        ("https://", {}),
        ("https://host:port", {}),
        ("https://host/\r\nx: y", {}),
        (f"https://user:{SECRET}@host", {}),
        ("https://host", {"OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere.pem"}),
        ("https://host", {"OTEL_EXPORTER_OTLP_HEADERS": f"x={SECRET}%0d%0ay:z"}),
        ("https://host", {"OTEL_EXPORTER_OTLP_HEADERS": f"{SECRET}"}),
    ],
)
def test_what_others_could_read_or_is_no_receiver_is_refused(url: str, environment: dict[str, str]) -> None:
    with pytest.raises(BadEndpoint) as refused:
        parse_endpoint(url, environment)
    assert SECRET not in str(refused.value)


def test_a_name_of_this_machine_that_leads_elsewhere_is_not_pushed_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(*_asked: object, **_more: object) -> list[object]:
        return [(0, 0, 0, "", ("192.0.2.7", 4318))]

    monkeypatch.setattr("headrace.telemetry.otlp.endpoint.socket.getaddrinfo", elsewhere)
    with pytest.raises(OSError, match="does not lead to this machine"):
        parse_endpoint("http://localhost:4318", {}).post("metrics", b"{}")


def test_spans_of_the_log_wait_for_a_receiver_that_is_away_and_are_pushed_once(broker: EmbeddedBroker) -> None:
    view = new_view(new_stream(), few="1m")
    app, stream = app_of_views(view), view.streams[0]
    ensure_topics(broker.address, app.streams, app.views)
    headers: list[tuple[str, str | bytes]] = [
        ("headrace.offset", "3"),
        ("headrace.arrival", str(time.time_ns() // 1000)),
        ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ]

    def judge(topic: str) -> None:
        with Producer(broker.address) as producer:
            producer.send(topic, b"{}", partition=0, headers=headers)

    judge(stream.clean)  # before the signal exists: never exported
    time.sleep(0.002)
    spans = TracesSignal(app, broker.address)
    judge(stream.dead)
    with (
        receiving(answer(503), answer(200)) as receiver,
        OtlpExporter(parse_endpoint(receiver.url, {}), [spans], 0.05) as push,
    ):
        wait_until(lambda: push.outcomes()["traces"].get("delivered") == 1, 30, "the span to arrive")
        judge(stream.clean)
        wait_until(lambda: push.outcomes()["traces"].get("delivered") == 2, 30, "the next one")
    assert [len(one) for one in receiver.spans] == [1, 1, 1]
    fates = [{one.key: one.value.string_value for one in span.attributes} for (span,) in receiver.spans]
    assert [one["headrace.fate"] for one in fates] == ["dead", "dead", "clean"]


def test_the_watch_pushes_what_its_server_says_and_tells_what_became_of_it(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    view = new_view(new_stream(), few="1m")
    app, board, stop = app_of_views(view), ProgressTable(), threading.Event()
    ensure_topics(broker.address, app.streams, app.views)
    online = MemoryStoreReader(MemoryStore([view]), None)
    with serving(app, online, board) as ask, receiving(answer(200)) as receiver:
        door, endpoint = InternalClient(f"http://{HOST}:{ask.port}", tmp_path), parse_endpoint(receiver.url, {})
        place = AlertMonitorConfig(
            door, broker.address, "app.py", interval_seconds=0.1, otlp=endpoint, otlp_interval_seconds=0.1
        )
        watching = threading.Thread(target=run_alert_monitor, args=(app, place, stop))
        watching.start()
        with TailingConsumer(broker.address, [PROGRESS_TOPIC], board.apply):
            wait_until(lambda: pushes(board, app.name) >= 1, 30, "the watch to tell of a push")
        stop.set()
        watching.join(patiently(30))
    told = receiver.metrics[-1]
    assert told["headrace_server_up"].gauge.data_points[0].as_double == 1.0
    assert told["headrace_tiles"].gauge.data_points[0].attributes[0].value.string_value == view.name
    assert "headrace_pushes_total" in names_of(board)


def pushes(board: ProgressTable, app: str) -> int:
    said = board.reports(AlertingProgress).get(app)
    return 0 if said is None else said.pushes.get("metrics", {}).get("delivered", 0)


def names_of(board: ProgressTable) -> set[str]:
    """The names of the metrics that the alerting reports yield."""
    return {sample.name for family in alert_metrics(board.latest(AlertingProgress)) for sample in family.samples}
