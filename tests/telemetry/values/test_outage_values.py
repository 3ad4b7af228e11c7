"""Outage alerts fire with the reason, from the progress topic or, without a broker, from the supervisor's file."""

from dataclasses import replace
from pathlib import Path

from headrace.declare.alerts.alert import Alert
from headrace.declare.alerts.alert_values import metric
from headrace.declare.app import App
from headrace.kafka.status.reports.parts import PartProgress
from headrace.kafka.status.reports.queries import QueryProgress
from headrace.kafka.status.status_file import StatusFile, write_status
from headrace.telemetry.alerts.alert_engine import AlertEngine
from headrace.telemetry.alerts.default_alerts import app_alerts
from headrace.telemetry.alerts.notifications import Notification
from headrace.telemetry.values.outage_values import OutageValues
from tests.kafka.streams import new_stream, new_view

VIEW = new_view(new_stream())
STREAM = VIEW.streams[0]
APP = App("shop", VIEW.streams, (VIEW,))
NOW_US = 1_767_225_600_000_000
SECOND_US = 1_000_000
DOWN = PartProgress("lake", NOW_US, "restarting", 3, NOW_US, "The disk is full.", "No new rows.", "shop")
GATE = QueryProgress(f"{STREAM.name}.gate", STREAM.name, (), "real-time", False, NOW_US, error="The topic is gone.")


def notifications(values: OutageValues, alerts: tuple[Alert, ...], seconds: int) -> list[Notification]:
    """The notifications for an unchanged state over a number of seconds, evaluated once a second."""
    engine, told = AlertEngine(alerts, {}, lambda *_: None), []
    for second in range(seconds + 1):
        now_us = NOW_US + second * SECOND_US
        for report in (*values.progress.latest(PartProgress), *values.progress.latest(QueryProgress)):
            values.progress.put(replace(report, at_us=now_us))
        told += engine.evaluate(values, {}, now_us)
    return told


def outage_alerts() -> tuple[Alert, ...]:
    return tuple(alert for alert in app_alerts(APP, "app.py") if alert.name in {"part down", "query down"})


def test_a_part_and_a_query_that_are_down_for_a_minute_are_told_with_why_and_what_is_affected() -> None:
    values = OutageValues(APP)
    values.progress.put(DOWN)
    values.progress.put(GATE)
    assert notifications(values, outage_alerts(), 55) == []
    (told,) = notifications(values, outage_alerts(), 70)
    part, query = told.changes
    assert "part lake is down since 2026-01-01T00:00:00Z: The disk is full. Affected: No new rows" in part.text
    assert part.text.endswith("Run: headrace status app.py")
    assert f"query {STREAM.name}.gate is down" in query.text
    assert "The topic is gone. Affected: New events of" in query.text


def test_without_a_broker_the_supervisors_file_says_what_is_down(tmp_path: Path) -> None:
    values = OutageValues(APP, tmp_path)
    broker = replace(DOWN, part="broker", error="killed by signal 9 (SIGKILL)")
    write_status(tmp_path, StatusFile("shop", NOW_US, {}, (broker,)))
    values.refresh(NOW_US)
    reading = values.read(metric("headrace_down", kind="part"), NOW_US)
    assert reading is not None
    assert reading.value == 1.0
    assert reading.text.startswith("part broker is down since 2026-01-01T00:00:00Z: killed by signal 9 (SIGKILL).")
    assert values.read(metric("headrace_down", kind="table"), NOW_US) == (0.0, "no table is down")


def test_other_numbers_are_told_by_others() -> None:
    assert OutageValues(APP).read(metric("headrace_alerts_firing"), NOW_US) is None
