"""`headrace alerts ls|silence|unsilence APP`: lists alerts and silences them for a while."""

import json
import time
from typing import Any

import click

from headrace.cli.command_grammar import verb_command
from headrace.declare.alerts.alert import Alert
from headrace.declare.app import load_app
from headrace.declare.durations import duration_us
from headrace.runtime.configuration.click_options import setting_options
from headrace.runtime.settings import BadSetting, broker_from_flags

ACTIONS = ("ls", "silence", "unsilence")


@click.command(cls=verb_command(*ACTIONS))
@click.argument("action", metavar="|".join(ACTIONS))
@click.argument("app", required=False, metavar="APP")
@click.argument("name", required=False)
@click.argument("duration", required=False)
@setting_options("broker", "broker_port")
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
def alerts(action: str, app: str, name: str | None, duration: str | None, **flags: Any) -> None:
    """The alerts of APP: ls, silence NAME DURATION (such as 2h), or unsilence NAME."""
    from headrace.telemetry.alerts.default_alerts import app_alerts

    declared_alerts = app_alerts(load_app(app), app)
    broker = broker_from_flags(flags)
    if action != "ls":
        _save_silence(broker, _require_known_alert(name, declared_alerts), _silence_end_us(action, duration))
    rows = [row for row in _alert_rows(broker, declared_alerts) if action == "ls" or row["name"] == name]
    click.echo(json.dumps(rows) if flags["in_json"] else "\n".join(map(_format_row, rows)))


def _require_known_alert(name: str | None, declared_alerts: tuple[Alert, ...]) -> str:
    names = [alert.name for alert in declared_alerts]
    if name is None or name not in names:
        raise BadSetting(f"There is no alert {name!r}. There is {', '.join(map(repr, names))}.")
    return name


def _silence_end_us(action: str, duration: str | None) -> int | None:
    if action == "unsilence":
        return None
    if duration is None:
        raise BadSetting('For how long? Write headrace alerts silence APP "auc drop" 2h.')
    return time.time_ns() // 1000 + duration_us(duration, "silence")


def _save_silence(broker: str, name: str, until_us: int | None) -> None:
    from headrace.kafka.compacted_topic import ensure_compacted_topic
    from headrace.kafka.producer.producer import Producer
    from headrace.telemetry.alerts.alerts_topic import TOPIC, write_silence

    ensure_compacted_topic(broker, TOPIC)
    with Producer(broker) as producer:
        write_silence(producer, name, until_us)


def _alert_rows(broker: str, declared_alerts: tuple[Alert, ...]) -> list[dict[str, Any]]:
    from headrace.telemetry.alerts.alerts_topic import read_alert_states
    from headrace.telemetry.alerts.notifications import format_time

    alert_states, now_us = read_alert_states(broker), time.time_ns() // 1000
    rows = []
    for alert in declared_alerts:
        fields = (
            alert_states.alert_records[alert.name].fields
            if alert.name in alert_states.alert_records
            else {"status": "ok", "since": None, "said": ""}
        )
        until_us = alert_states.silences.get(alert.name, 0)
        row: dict[str, Any] = {"name": alert.name, "severity": alert.severity, "on": alert.on.text, "run": alert.run}
        row |= {field: fields[field] for field in ("status", "since", "said")}
        rows.append(row | {"silenced_until": format_time(until_us) if until_us > now_us else None})
    return rows


def _format_row(row: dict[str, Any]) -> str:
    silenced = f", silenced until {row['silenced_until']}" if row["silenced_until"] else ""
    since = f" since {row['since']}: {row['said']}" if row["since"] and row["status"] != "ok" else ""
    run = f". Run: {row['run']}" if row["status"] == "firing" and row["run"] else ""
    return f"{row['name']:<36}{row['severity']:<8}{row['status']}{since}{silenced}{run}"
