"""Every metric and a span pushed to a real OpenTelemetry collector, if `otelcol` is on the path."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import orjson
import pytest

from headrace.declare.metric_catalog import METRIC_CATALOG
from headrace.embedded_servers.ports import HOST, free_port
from headrace.telemetry.otlp.endpoint import parse_endpoint
from headrace.telemetry.otlp.exporter import classify_response
from headrace.telemetry.otlp.otlp_metrics import CounterStartTimes, to_otlp_metrics
from headrace.telemetry.otlp.spans import build_spans
from headrace.telemetry.values.metrics_scraper import parse_samples
from tests.telemetry.otlp.test_otlp_spans import MAKERS, TRACE, record
from tests.telemetry.values.test_metrics_scraper import Server, counted
from tests.waiting import wait_until

OTELCOL = os.environ.get("HEADRACE_OTELCOL") or shutil.which("otelcol")
CONFIG = """
receivers: {otlp: {protocols: {http: {endpoint: "%s"}}}}
exporters: {debug: {verbosity: detailed, sampling_initial: 1000000}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {metrics: {receivers: [otlp], exporters: [debug]}, traces: {receivers: [otlp], exporters: [debug]}}
"""


@pytest.mark.faults
@pytest.mark.skipif(OTELCOL is None, reason="no otelcol on the path, and none in HEADRACE_OTELCOL")
def test_a_collector_takes_every_number_and_a_span(tmp_path: Path) -> None:
    address, log = f"{HOST}:{free_port()}", tmp_path / "log"
    (tmp_path / "config.yaml").write_text(CONFIG % address)
    server = Server()
    server.account = counted(2, 1)
    metrics = to_otlp_metrics(parse_samples(server.text()), CounterStartTimes(), 5)
    spans = [*build_spans([record("payments.clean", offset="42", arrival="3000")], MAKERS, 0)]
    bodies = {
        "metrics": {"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]},
        "traces": {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]},
    }
    with log.open("wb") as written:
        collector = subprocess.Popen([str(OTELCOL), "--config", str(tmp_path / "config.yaml")], stderr=written)
        try:
            wait_until(lambda: "Everything is ready" in log.read_text(), 30, "the collector to start")
            for signal, body in bodies.items():
                posted = parse_endpoint(f"http://{address}", {}).post(signal, orjson.dumps(body))
                assert classify_response(posted) == ("delivered", ""), posted
            wait_until(lambda: TRACE in log.read_text(), 10, "the span to be told")
        finally:
            collector.terminate()
            collector.wait(10)
    told = log.read_text()
    assert set(re.findall(r"-> Name: (headrace_\w+)", told)) == METRIC_CATALOG.keys()
    assert "Name           : payments gate" in told
