"""A whole app with remote access: over TLS, with a token, by two workers; its own parts keep their access."""

import time
from pathlib import Path

import pytest

import headrace as hr
from headrace.client.protocol import ServerRefused
from headrace.embedded_servers.ports import HOST
from headrace.server.auth.api_tokens import create_token, revoke_token
from headrace.server.auth.internal_client import InternalClient
from headrace.server.auth.scopes import Scope
from headrace.telemetry.values.metrics_scraper import MetricSamples, scrape_metrics
from tests.e2e.alerted_app import Taps
from tests.running import READY_LIMIT_S, Running, descendants
from tests.telemetry.https_server import SECRET, answer, listening, self_signed
from tests.waiting import wait_until

APP = Path(__file__).with_name("alerted_app.py")


def looked_at(samples: MetricSamples | None) -> float:
    return (samples or {}).get("headrace_watch_at_seconds", [((), 0.0)])[0][1]


@pytest.mark.timeout(600)
@pytest.mark.faults
def test_an_app_that_others_reach_is_asked_by_its_own_parts_and_says_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, pem = tmp_path / "state", self_signed(tmp_path)
    token = create_token(state, "reader", frozenset({Scope.READ}))
    monkeypatch.setenv("HEADRACE_TOKEN", token)
    with listening(pem, answer(200)) as hook:
        running = Running(APP, state)
        running.flags = (
            *("--http", f"0.0.0.0:{running.http_port}", "--tls-cert", str(pem), "--tls-key", str(pem)),
            *("--workers", "2", "--lake", "off", "--alerts-every", "500ms"),
            *("--webhook-allow", HOST, "--webhook-ca", str(pem)),
        )
        monkeypatch.setenv("HEADRACE_WEBHOOK", hook.url)
        with running:
            ready = f"ready at https://0.0.0.0:{running.http_port}"
            wait_until(lambda: ready in running.output.read_text(), READY_LIMIT_S, "the app to be ready", running.said)
            door, began = InternalClient(f"https://{HOST}:{running.http_port}", certificate=pem), time.time()
            wait_until(lambda: looked_at(scrape_metrics(door)) > began, 60, "the watch to look", running.said)
            client = hr.Client(f"https://localhost:{running.http_port}", ca=pem)
            assert client.features(Taps, ["c1"])
            commands = [Path(f"/proc/{pid}/cmdline").read_text() for pid in descendants(running._process.pid)]  # type: ignore[union-attr]
            revoke_token(state, "reader")

            def is_refused() -> bool:
                try:
                    client.features(Taps, ["c1"])
                except ServerRefused as refused:
                    return refused.status == 401
                return False

            wait_until(is_refused, 10, "the token to be worth nothing")
            assert not hook.bodies, "the watch could not ask the server"
    logs = [file.read_text(errors="replace") for file in (state / "logs").glob("*.log*")]
    key = pem.read_text().partition("-----BEGIN PRIVATE KEY-----")[2].split()[0]
    said = "\n".join([running.output.read_text(), *commands, *logs])
    assert "serve-2.log" in " ".join(map(str, (state / "logs").iterdir()))
    assert not any(secret in said for secret in (token[3:], SECRET, key, (state / "own.secret").read_bytes().hex()))
