"""Every number and a span pushed to a real OpenTelemetry collector, where there is one: `otelcol` on the path."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import orjson
import pytest

from headrace.declare.catalogue import CATALOGUE
from headrace.local.ports import HOST, free_port
from headrace.watch.otlp.endpoint import endpoint_of
from headrace.watch.otlp.metrics import Growth, metrics_of
from headrace.watch.otlp.push import judged
from headrace.watch.otlp.spans import spans_of
from headrace.watch.scrape import samples_of
from tests.waiting import wait_until
from tests.watch.test_otlp_spans import MAKERS, TRACE, record
from tests.watch.test_scrape import Server, counted

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
    metrics = metrics_of(samples_of(server.text()), Growth(), 5)
    spans = [*spans_of([record("payments.clean", offset="42", arrival="3000")], MAKERS, 0)]
    bodies = {
        "metrics": {"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]},
        "traces": {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]},
    }
    with log.open("wb") as written:
        collector = subprocess.Popen([str(OTELCOL), "--config", str(tmp_path / "config.yaml")], stderr=written)
        try:
            wait_until(lambda: "Everything is ready" in log.read_text(), 30, "the collector to start")
            for signal, body in bodies.items():
                posted = endpoint_of(f"http://{address}", {}).post(signal, orjson.dumps(body))
                assert judged(posted) == ("delivered", ""), posted
            wait_until(lambda: TRACE in log.read_text(), 10, "the span to be told")
        finally:
            collector.terminate()
            collector.wait(10)
    told = log.read_text()
    assert set(re.findall(r"-> Name: (headrace_\w+)", told)) == CATALOGUE.keys()
    assert "Name           : payments gate" in told
