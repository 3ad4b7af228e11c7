"""Rows over real HTTPS: each with its offset, retried under the same key, never to a forbidden address."""

from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace.connectors.sinks.writer import SinkConfig
from headrace.declare.sinks.sink import Sink
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.ports import HOST
from headrace.telemetry.webhooks.allowed_addresses import parse_networks
from tests.connectors.sinks.gate_output import Gate, event, new_stream, sinking
from tests.connectors.sinks.test_kills import rows_told
from tests.connectors.sinks.test_target_failures import wait_for
from tests.telemetry.https_server import SECRET, Handler, answer, listening, self_signed
from tests.waiting import wait_until


class Receiver:
    """Responds as configured, rejects requests with a bad row, and records their idempotency keys."""

    def __init__(self, *statuses: int) -> None:
        self._statuses = list(statuses)
        self.asked: list[tuple[str, list[str]]] = []

    def __call__(self, handler: Handler) -> None:
        rows = handler.server.bodies[-1]["rows"]
        self.asked.append((handler.headers["idempotency-key"], [row["id"] for row in rows]))
        status = self._statuses.pop(0) if self._statuses else 200
        answer(422 if any(row["id"] == "bad" for row in rows) else status)(handler)


def place_of(broker: EmbeddedBroker, certificate: Path) -> SinkConfig:
    return SinkConfig(broker.address, parse_networks([HOST]), certificate)


def test_rows_arrive_with_their_places_and_a_bad_one_is_parked(
    broker: EmbeddedBroker, tmp_path: Path, monkeypatch: Any
) -> None:
    certificate, receiver = self_signed(tmp_path), Receiver(500, 429)
    gate = Gate(broker.address, new_stream(broker.address))
    sink = Sink("hook", of=gate.stream, to=hr.Webhook("env:HOOK_URL"), columns=["id", "at"])
    gate.send(event(0), event(2, id="bad"), event(4))
    gate.replay(2)
    with listening(certificate, receiver) as server:
        monkeypatch.setenv("HOOK_URL", server.url)
        with sinking(sink, place_of(broker, certificate)) as running:
            wait_for(running, "parked", 1)
            wait_for(running, "written", 2)
    (first, ids), (second, same_ids) = receiver.asked[:2]
    assert (first, ids) == (second, same_ids)
    assert ["e0"] in [ids for _, ids in receiver.asked]
    (told,) = [body for body in server.bodies if [row["id"] for row in body["rows"]] == ["e4"]]
    row = {"place": f"{gate.stream.name}-0@2", "id": "e4", "at": "2026-01-01T00:00:04.250000Z"}
    assert told == {"sink": "hook", "rows": [row]}


@pytest.mark.parametrize("status", [401, 404, 302])
def test_an_address_that_is_wrong_is_waited_for_and_no_row_is_parked(
    broker: EmbeddedBroker, tmp_path: Path, monkeypatch: Any, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    caplog.set_level("DEBUG")
    certificate = self_signed(tmp_path)
    gate = Gate(broker.address, new_stream(broker.address))
    sink = Sink(f"wrong {status}", of=gate.stream, to=hr.Webhook("env:HOOK_URL"))
    gate.send(event(0))
    with listening(certificate, answer(status), answer(status), answer(200)) as server:
        monkeypatch.setenv("HOOK_URL", server.url)
        with sinking(sink, place_of(broker, certificate)) as running:
            wait_for(running, "written", 1)
            assert dict(running.processor.fate_counts) == {"written": 1}
            assert running.processor.retry_count == 2
    assert len(rows_told(server)) == 3
    assert f"it answered {status}" in caplog.text
    assert SECRET not in caplog.text


def test_a_private_address_is_told_nothing(broker: EmbeddedBroker, tmp_path: Path, monkeypatch: Any) -> None:
    certificate = self_signed(tmp_path)
    gate = Gate(broker.address, new_stream(broker.address))
    sink = Sink("private", of=gate.stream, to=hr.Webhook("env:HOOK_URL"), delivery="at_most_once")
    gate.send(event(0))
    with listening(certificate, answer(200)) as server:
        monkeypatch.setenv("HOOK_URL", server.url)
        with sinking(sink, SinkConfig(broker.address, (), certificate)) as running:
            wait_until(
                lambda: "--webhook-allow" in running.processor.error, 30, "the refusal", lambda: running.processor.error
            )
            assert not running.processor.fate_counts
        assert server.connections == 0
