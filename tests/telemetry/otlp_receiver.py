"""An OTLP receiver over HTTP that accepts only what the protocol's schema allows, in its JSON mapping."""

import base64
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from headrace.embedded_servers.ports import HOST

IDS = {"traceId": 32, "spanId": 16, "parentSpanId": 16}
WHOLE = re.compile(r"\d+")
LONG = {"startTimeUnixNano", "timeUnixNano", "endTimeUnixNano", "count", "bucketCounts"}
NUMBERS, WORDS = {"asDouble", "sum", "explicitBounds"}, {"Infinity", "-Infinity", "NaN"}
Behave = Callable[[BaseHTTPRequestHandler], None]


def metrics_in(body: bytes) -> dict[str, Metric]:
    """The metrics of a body, by name."""
    request = json_format.ParseDict(_checked(json.loads(body)), ExportMetricsServiceRequest())
    found = [one for told in request.resource_metrics for scope in told.scope_metrics for one in scope.metrics]
    assert len({one.name for one in found}) == len(found)
    return {one.name: one for one in found}


def spans_in(body: bytes) -> list[Span]:
    """The spans of a body."""
    request = json_format.ParseDict(_checked(json.loads(body)), ExportTraceServiceRequest())
    return [one for told in request.resource_spans for scope in told.scope_spans for one in scope.spans]


def _checked(told: Any, name: str = "") -> Any:
    """As protobuf's own mapping has it: OTLP's differs in ids, which are hexadecimal; 64 bits are text in both."""
    match told:
        case dict():
            return {key: _checked(value, key) for key, value in told.items()}
        case list():
            return [_checked(one, name) for one in told]
    if name in LONG:
        assert isinstance(told, str)
        assert WHOLE.fullmatch(told), told
    if name in NUMBERS:
        assert isinstance(told, float | int) or told in WORDS, told
    if name in IDS:
        assert re.fullmatch(rf"[0-9a-f]{{{IDS[name]}}}", told), told
        return base64.b64encode(bytes.fromhex(told)).decode()
    return told


class Receiver(ThreadingHTTPServer):
    """Records and checks each push, and responds with the configured behaviours in order; the last one repeats."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, behaviours: list[Behave]) -> None:
        self.behaviours = behaviours
        self.metrics: list[dict[str, Metric]] = []
        self.spans: list[list[Span]] = []
        self.headers: list[dict[str, str]] = []
        self.over = threading.Event()
        super().__init__((HOST, 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            self._take(body)
        except (AssertionError, json_format.ParseError):
            self.send_error(400)
            return
        behave = self.server.behaviours[0]
        if len(self.server.behaviours) > 1:
            self.server.behaviours.pop(0)
        behave(self)

    def _take(self, body: bytes) -> None:
        assert self.headers["content-type"] == "application/json"
        self.server.headers.append(dict(self.headers.items()))
        if self.path.endswith("/v1/metrics"):
            self.server.metrics.append(metrics_in(body))
        else:
            assert self.path.endswith("/v1/traces")
            self.server.spans.append(spans_in(body))

    def log_message(self, *_words: Any) -> None:
        """Log nothing."""


@contextmanager
def receiving(*behaviours: Behave) -> Iterator[Receiver]:
    server = Receiver([*behaviours])
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
