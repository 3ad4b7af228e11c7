"""The alerts topic: the state of each alert and each silence under its key, which a restart continues from."""

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from headrace.declare.alerts.alert import Alert
from headrace.errors import HeadraceError
from headrace.kafka.compacted_topic import ensure_compacted_topic
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord
from headrace.telemetry.alerts.alert_state import AlertState, Phase
from headrace.telemetry.alerts.notifications import format_time, to_json_number

TOPIC = "headrace.alerts"
READ_SECONDS = 120.0
LOGGER = logging.getLogger("headrace.alerts")


class AlertsTopicUnavailable(HeadraceError):
    """The alerts topic could not be read to its end."""


@dataclass(frozen=True)
class AlertRecord:
    """The latest record of an alert: its state, and its definition when that was written."""

    state: AlertState
    fields: dict[str, Any]


class AlertStateTable:
    """The latest record of each alert and each silence; one thread applies, any thread reads."""

    def __init__(self) -> None:
        self.alert_records: dict[str, AlertRecord] = {}
        self.silences: dict[str, int] = {}

    def apply(self, records: Iterable[ConsumerRecord]) -> None:
        for record in records:
            try:
                self._apply_record(record)
            except (ValueError, KeyError, TypeError):
                LOGGER.warning("Skipped %s: it is not an alert record", record.location)

    def firing_since(self) -> dict[str, int]:
        """The alerts that fire now, and since when."""
        alert_records = self.alert_records.copy()
        return {
            name: alert_record.state.since_us
            for name, alert_record in alert_records.items()
            if alert_record.state.phase is Phase.FIRING
        }

    def _apply_record(self, record: ConsumerRecord) -> None:
        kind, _, name = (record.key or b"").decode().partition(" ")
        fields = None if record.value is None else orjson.loads(record.value)
        if kind == "silence":
            self._apply_silence(name, fields)
        elif kind == "alert" and fields is not None:
            self.alert_records[name] = AlertRecord(_to_alert_state(fields["state"]), fields)

    def _apply_silence(self, name: str, fields: Any) -> None:
        if fields is None:
            self.silences.pop(name, None)
        else:
            self.silences[name] = int(fields["until_us"])


def write_alert_state(producer: Producer, alert: Alert, state: AlertState, description: str) -> None:
    """Write the state of an alert: readable for consumers of the topic, and complete for the next start."""
    message = {
        "name": alert.name,
        "group": alert.group,
        "status": state.phase,
        "severity": alert.severity,
        "on": alert.on.text,
        "value": to_json_number(state.value),
        "limit": alert.limit,
        "said": description,
        "since": format_time(state.since_us),
        "why": alert.why,
        "run": alert.run,
        "state": {
            "phase": state.phase,
            "since_us": state.since_us,
            "fired_us": state.fired_us,
            "told": state.notified_phase,
        },
    }
    producer.send(TOPIC, orjson.dumps(message), key=f"alert {alert.name}")


def write_silence(producer: Producer, name: str, until_us: int | None) -> None:
    """Silence an alert until a time; None ends the silence."""
    message = None if until_us is None else orjson.dumps({"until_us": until_us, "until": format_time(until_us)})
    producer.send(TOPIC, message, key=f"silence {name}")


def read_alert_states(broker: str) -> AlertStateTable:
    """Read the topic to its current end."""
    ensure_compacted_topic(broker, TOPIC)
    alert_states = AlertStateTable()
    with TailingConsumer(broker, [TOPIC], alert_states.apply) as follower:
        if not follower.wait_until_caught_up(READ_SECONDS):
            raise AlertsTopicUnavailable(
                f"Topic {TOPIC!r} was not read within {READ_SECONDS:g} s: {follower.error}. Try again."
            )
    return alert_states


def _to_alert_state(fields: dict[str, Any]) -> AlertState:
    """A saved state; the wait for a value starts now, whatever came before."""
    return AlertState(
        since_us=int(fields["since_us"]),
        last_value_us=time.time_ns() // 1000,
        phase=Phase(fields["phase"]),
        fired_us=tuple(map(int, fields["fired_us"])),
        notified_phase=Phase(fields["told"]),
    )
