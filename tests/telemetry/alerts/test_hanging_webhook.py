"""A hanging webhook: alerts still fire and resolve in the topic, and are delivered once it responds again."""

from pathlib import Path

import headrace as hr
from headrace.declare.alerts.alert import Alert, WatchedValue
from headrace.embedded_servers.ports import HOST
from headrace.telemetry.alerts.alert_engine import AlertEngine
from headrace.telemetry.alerts.alert_part import AlertMonitor
from headrace.telemetry.alerts.alert_state import AlertState, Phase
from headrace.telemetry.alerts.alerts_topic import AlertStateTable
from headrace.telemetry.values.value_source import ValueReading
from headrace.telemetry.webhooks.allowed_addresses import parse_networks
from headrace.telemetry.webhooks.notifier import WebhookNotifier
from headrace.telemetry.webhooks.webhook_client import RetryPolicy
from tests.telemetry.https_server import answer, hang, listening, self_signed
from tests.waiting import wait_until

lag = hr.Alert("lag", on=hr.metric("headrace_lag", stream="payments"), above=10)
SECOND_US = 1_000_000


class Known:
    """A value the test sets."""

    value = 0.0

    def refresh(self, now_us: int) -> None:
        """There is nothing to take in."""

    def read(self, _watched: WatchedValue, _now_us: int) -> ValueReading:
        return ValueReading(self.value, str(self.value))


def test_the_watch_goes_on_and_tells_what_is_so_when_it_can(tmp_path: Path) -> None:
    certificate, kept, values = self_signed(tmp_path), list[Phase](), Known()

    def keep(_alert: Alert, state: AlertState, _said: str) -> None:
        kept.append(state.phase)

    patience = RetryPolicy(attempt_seconds=3.0, max_attempts=1, first_pause_seconds=0.01)
    with (
        listening(certificate, hang, answer(200)) as server,
        WebhookNotifier(server.url, parse_networks([HOST]), certificate, patience) as webhook,
    ):
        watch = AlertMonitor(AlertEngine([lag], {}, keep), values, AlertStateTable(), webhook)
        for at, value in enumerate([0.0, 50.0, 50.0, 50.0]):
            values.value = value
            watch.evaluate(at * SECOND_US)
        assert "failed" not in watch.progress("app").notifications["webhook"], "a look waits for nobody"
        assert kept[-1] is Phase.FIRING
        assert watch.engine.firing_count == 1

        def given_up() -> bool:
            watch.evaluate(10 * SECOND_US)
            return watch.progress("app").notifications["webhook"].get("failed") == 1

        wait_until(given_up, 10, "the one that hangs to be given up")
        values.value = 0.0

        def told() -> list[str]:
            watch.evaluate(20 * SECOND_US)
            return [one["status"] for body in server.bodies for one in body["alerts"]]

        wait_until(lambda: told() == ["firing", "resolved"], 10, "the end to be told")
