"""Pushes what is told every few seconds, by a thread of its own: whatever the receiver does, nobody waits for it."""

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
from headrace.log.tail import Tail
from headrace.serve.door import Door
from headrace.watch.otlp.endpoint import Endpoint
from headrace.watch.otlp.metrics import Growth, attributes, metrics_of
from headrace.watch.otlp.spans import Span, makers_of, spans_of
from headrace.watch.post import Posted
from headrace.watch.scrape import ask_metrics

AGAIN = {408, 429, 502, 503, 504}  # what may be taken later
MOST_SPANS = 2000  # that wait for a receiver
MOST_RECORDS = 20_000  # that are looked at each time: of busier topics the last ones
LOGGER = logging.getLogger("headrace.otlp")


class Signal(Protocol):
    """One kind of thing that is pushed."""

    name: str

    def body(self) -> bytes | None:
        """What is to be pushed now; None where there is nothing."""

    def done(self) -> None:
        """It was taken, or never will be."""


class Numbers:
    """All that the server counts, as of now."""

    name = "metrics"

    def __init__(self, app: App, door: Door) -> None:
        self._app, self._door, self._growth = app, door, Growth()

    def body(self) -> bytes:
        samples = ask_metrics(self._door)
        metrics = metrics_of(samples, self._growth, time.time_ns())
        return _body(self._app, "resourceMetrics", "scopeMetrics", {"metrics": metrics})

    def done(self) -> None:
        """The next ones say more."""


class Spans:
    """What was done with traced events since this began; so many wait for a receiver that is away."""

    name = "traces"

    def __init__(self, app: App, broker: str) -> None:
        self._app, self._makers, self._since_us = app, makers_of(app), time.time_ns() // 1000
        topic, *beside = self._makers
        self._tail = Tail(broker, topic, MOST_RECORDS, *beside)
        self._waiting: deque[Span] = deque(maxlen=MOST_SPANS)

    def body(self) -> bytes | None:
        self._waiting.extend(spans_of(self._tail.news(), self._makers, self._since_us))
        return _body(self._app, "resourceSpans", "scopeSpans", {"spans": [*self._waiting]}) if self._waiting else None

    def done(self) -> None:
        self._waiting.clear()


class Push:
    """Pushes signals to a receiver; what became of each push is counted, and told when it changes."""

    def __init__(self, endpoint: Endpoint, signals: Sequence[Signal], every_seconds: float) -> None:
        self._endpoint, self._signals, self._every_seconds = endpoint, tuple(signals), every_seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)
        self._counts: dict[str, Counter[str]] = {signal.name: Counter() for signal in signals}
        self._said = dict.fromkeys(self._counts, "delivered")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        """Stop after the push in hand, which ends in time."""
        self._stopping.set()
        self._thread.join(2 * self._endpoint.attempt_seconds)

    def outcomes(self) -> dict[str, dict[str, int]]:
        """How many pushes of each signal were delivered, failed, or were refused."""
        return {signal: dict(counts.copy()) for signal, counts in self._counts.items()}

    def _run(self) -> None:
        while not self._stopping.wait(self._every_seconds):
            for signal in self._signals:
                self._push(signal)

    def _push(self, signal: Signal) -> None:
        try:
            body = signal.body()
            if body is None:
                return
            outcome, why = judged(self._endpoint.post(signal.name, body))
        except (OSError, http.client.HTTPException, HeadraceError) as failed:
            outcome, why = "failed", f"{type(failed).__name__} {failed}"
        if outcome != "failed":
            signal.done()
        self._counts[signal.name][outcome] += 1
        self._tell(signal.name, outcome, why)

    def _tell(self, signal: str, outcome: str, why: str) -> None:
        """Once, and once more when it is different."""
        if outcome == self._said[signal]:
            return
        self._said[signal] = outcome
        if outcome == "delivered":
            LOGGER.info("OTLP %s are delivered to %s", signal, self._endpoint.host)
        else:
            LOGGER.warning("OTLP %s are not delivered to %s: %s", signal, self._endpoint.host, why)


def judged(posted: Posted) -> tuple[str, str]:
    """What became of a push, and why."""
    if posted.status in AGAIN:
        return "failed", f"it answered {posted.status}"
    if not 200 <= posted.status < 300:
        hint = ", a redirect, which is not followed" if 300 <= posted.status < 400 else ""
        return "refused", f"it answered {posted.status}{hint}"
    rejected = _rejected(posted.body)
    return ("refused", f"it took all but {rejected}") if rejected else ("delivered", "")


def _rejected(body: bytes) -> int:
    """How many points or spans were not taken, of an answer that says so.

    >>> _rejected(b'{"partialSuccess": {"rejectedSpans": "3", "errorMessage": "too old"}}'), _rejected(b"")
    (3, 0)
    """
    try:
        said = orjson.loads(body).get("partialSuccess", {})
        return sum(int(said.get(name, 0)) for name in ("rejectedDataPoints", "rejectedSpans"))
    except (ValueError, AttributeError, TypeError):
        return 0


def _body(app: App, of_resources: str, of_scopes: str, told: Mapping[str, Any]) -> bytes:
    resource = {"attributes": attributes({"service.name": app.name, "service.namespace": "headrace"})}
    scope = {"name": "headrace", "version": version("headrace")}
    return orjson.dumps({of_resources: [{"resource": resource, of_scopes: [{"scope": scope, **told}]}]})
