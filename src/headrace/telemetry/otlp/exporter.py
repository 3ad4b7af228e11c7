"""Pushes metrics and traces every few seconds on a thread of its own, so that a slow receiver blocks no other part."""

import http.client
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Protocol, Self

import orjson

from headrace.declare.app import App
from headrace.errors import HeadraceError
from headrace.kafka.consumers.last_records import LastRecordsReader
from headrace.server.auth.internal_client import InternalClient
from headrace.telemetry.otlp.endpoint import OtlpEndpoint
from headrace.telemetry.otlp.otlp_metrics import CounterStartTimes, to_attributes, to_otlp_metrics
from headrace.telemetry.otlp.spans import Span, build_spans, span_builders
from headrace.telemetry.values.metrics_scraper import scrape_metrics
from headrace.telemetry.webhooks.pinned_post import PostResponse

RETRYABLE_STATUSES = {408, 429, 502, 503, 504}  # retrying may succeed
MAX_WAITING_SPANS = 2000  # that wait for a receiver
MAX_RECORDS_PER_PUSH = 20_000  # of busier topics the last ones
LOGGER = logging.getLogger("headrace.otlp")


class OtlpSignal(Protocol):
    """One kind of data that is pushed."""

    name: str

    def next_body(self) -> bytes | None:
        """The body to push now; None where there is nothing."""

    def acknowledge(self) -> None:
        """Drop the body: it was delivered, or never will be."""


class MetricsSignal:
    """The metrics of the server, as of now."""

    name = "metrics"

    def __init__(self, app: App, client: InternalClient) -> None:
        self._app, self._client, self._start_times = app, client, CounterStartTimes()

    def next_body(self) -> bytes:
        samples = scrape_metrics(self._client)
        metrics = to_otlp_metrics(samples, self._start_times, time.time_ns())
        return _encode_request(self._app, "resourceMetrics", "scopeMetrics", {"metrics": metrics})

    def acknowledge(self) -> None:
        """Nothing to drop: the next push has newer values."""


class TracesSignal:
    """Spans of traced events since the exporter started; a bounded number waits for a receiver that is down."""

    name = "traces"

    def __init__(self, app: App, broker: str) -> None:
        self._app, self._span_builders, self._since_us = app, span_builders(app), time.time_ns() // 1000
        topic, *other_topics = self._span_builders
        self._tail = LastRecordsReader(broker, topic, MAX_RECORDS_PER_PUSH, *other_topics)
        self._waiting: deque[Span] = deque(maxlen=MAX_WAITING_SPANS)

    def next_body(self) -> bytes | None:
        self._waiting.extend(build_spans(self._tail.read_new_records(), self._span_builders, self._since_us))
        return (
            _encode_request(self._app, "resourceSpans", "scopeSpans", {"spans": [*self._waiting]})
            if self._waiting
            else None
        )

    def acknowledge(self) -> None:
        self._waiting.clear()


class OtlpExporter:
    """Pushes signals to a receiver, counts the outcome of each push and logs it when it changes."""

    def __init__(self, endpoint: OtlpEndpoint, signals: Sequence[OtlpSignal], every_seconds: float) -> None:
        self._endpoint, self._signals, self._every_seconds = endpoint, tuple(signals), every_seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)
        self._counts: dict[str, Counter[str]] = {signal.name: Counter() for signal in signals}
        self._last_outcomes = dict.fromkeys(self._counts, "delivered")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        """Stop after the current push, which has a time limit."""
        self._stopping.set()
        self._thread.join(2 * self._endpoint.attempt_seconds)

    def outcomes(self) -> dict[str, dict[str, int]]:
        """How many pushes of each signal were delivered, failed, or were refused."""
        return {signal: dict(counts.copy()) for signal, counts in self._counts.items()}

    def _run(self) -> None:
        while not self._stopping.wait(self._every_seconds):
            for signal in self._signals:
                self._push(signal)

    def _push(self, signal: OtlpSignal) -> None:
        try:
            body = signal.next_body()
            if body is None:
                return
            outcome, reason = classify_response(self._endpoint.post(signal.name, body))
        except (OSError, http.client.HTTPException, HeadraceError) as error:
            outcome, reason = "failed", f"{type(error).__name__} {error}"
        if outcome != "failed":
            signal.acknowledge()
        self._counts[signal.name][outcome] += 1
        self._log_outcome(signal.name, outcome, reason)

    def _log_outcome(self, signal: str, outcome: str, reason: str) -> None:
        """Log an outcome once, and again when it changes."""
        if outcome == self._last_outcomes[signal]:
            return
        self._last_outcomes[signal] = outcome
        if outcome == "delivered":
            LOGGER.info("Delivers OTLP %s to %s", signal, self._endpoint.host)
        else:
            LOGGER.warning("Could not deliver OTLP %s to %s: %s", signal, self._endpoint.host, reason)


def classify_response(response: PostResponse) -> tuple[str, str]:
    """The outcome of a push, and its reason."""
    if response.status in RETRYABLE_STATUSES:
        return "failed", f"it answered {response.status}"
    if not 200 <= response.status < 300:
        hint = ", a redirect, which is not followed" if 300 <= response.status < 400 else ""
        return "refused", f"it answered {response.status}{hint}"
    rejected = _count_rejected(response.body)
    return ("refused", f"it took all but {rejected}") if rejected else ("delivered", "")


def _count_rejected(body: bytes) -> int:
    """How many points or spans a partial success rejected.

    >>> _count_rejected(b'{"partialSuccess": {"rejectedSpans": "3", "errorMessage": "too old"}}'), _count_rejected(b"")
    (3, 0)
    """
    try:
        partial_success = orjson.loads(body).get("partialSuccess", {})
        return sum(int(partial_success.get(name, 0)) for name in ("rejectedDataPoints", "rejectedSpans"))
    except (ValueError, AttributeError, TypeError):
        return 0


def _encode_request(app: App, resources_key: str, scopes_key: str, payload: Mapping[str, Any]) -> bytes:
    resource = {"attributes": to_attributes({"service.name": app.name, "service.namespace": "headrace"})}
    scope = {"name": "headrace", "version": version("headrace")}
    return orjson.dumps({resources_key: [{"resource": resource, scopes_key: [{"scope": scope, **payload}]}]})
