"""Exported dashboards and rules query only existing metrics, in valid PromQL."""

import json
import re
from collections.abc import Iterator

import promql_parser
import pytest
from click.testing import CliRunner

import headrace as hr
from headrace.cli import main
from headrace.declare.alerts.alert import Alert
from headrace.declare.alerts.alert_values import Series
from headrace.declare.app import load_app
from headrace.declare.metric_catalog import METRIC_CATALOG
from headrace.declare.metric_family import MetricType
from headrace.telemetry.alerts.default_alerts import app_alerts
from headrace.telemetry.exporters.dashboards_and_rules import grafana_dashboard, prometheus_rules
from headrace.telemetry.exporters.promql import alert_expression

APP = "examples/fraud/app.py"
DEAD, ARRIVED = (hr.metric("headrace_events_total", stream='a"b\\', fate=fate) for fate in ("dead", "in"))
SLOW = hr.metric("headrace_score_seconds", model="fraud", slower="60ms")
SCORED = hr.metric("headrace_score_seconds", model="fraud")


def told() -> set[str]:
    """Every name /metrics may have."""
    suffixes = {MetricType.GAUGE: ("",), MetricType.COUNTER: ("",), MetricType.HISTOGRAM: ("_count", "_bucket", "_sum")}
    families = [family for family in METRIC_CATALOG.values() if family.is_exported]
    return {f"{family.name}{suffix}" for family in families for suffix in suffixes[family.metric_type]}


def questions() -> Iterator[str]:
    for panel in grafana_dashboard()["panels"]:
        yield from (target["expr"].replace("$__rate_interval", "1m") for target in panel["targets"])
    for group in prometheus_rules(app_alerts(load_app(APP), APP)).groups["groups"]:
        yield from (rule["expr"] for rule in group["rules"])


def test_only_what_metrics_tell_is_asked_for_and_prometheus_can_read_it() -> None:
    asked = [*questions()]
    assert len(asked) > 20
    for question in asked:
        promql_parser.parse(question)
        names = set(re.findall(r"headrace_\w+", question))
        assert names
        assert names <= told(), question


@pytest.mark.parametrize(
    ("on", "limits", "expected"),
    [
        (hr.metric("headrace_lag", stream="p"), {"above": 3}, 'max(headrace_lag{stream="p"}) > 3'),
        (
            hr.metric("headrace_label_coverage", model="m"),
            {"below": 0.5},
            'max(headrace_label_coverage{model="m"}) < 0.5',
        ),
        (
            hr.metric("headrace_dead_total", stream="p", over="5m"),
            {"above": 0},
            'sum(increase(headrace_dead_total{stream="p"}[300s])) > 0',
        ),
        (
            hr.metric("headrace_score_seconds", model="fraud", slower="60ms", over="1m"),
            {"above": 5},
            (
                '(sum(increase(headrace_score_seconds_count{model="fraud"}[60s]))'
                ' - sum(increase(headrace_score_seconds_bucket{model="fraud",le="0.075"}[60s]))) > 5'
            ),
        ),
        (hr.metric("headrace_lag_seconds", stream="p"), {"above": 60}, 'max(headrace_lag_seconds{stream="p"}) > 60'),
        (hr.metric("headrace_server_up"), {"below": 1}, None),
    ],
)
def test_a_condition_is_the_same_in_prometheus_words(
    on: Series, limits: dict[str, float], expected: str | None
) -> None:
    assert alert_expression(Alert("one", on=on, **limits)) == expected


def test_objectives_need_both_windows_and_names_are_escaped() -> None:
    question = alert_expression(
        Alert("slow", on=hr.Objective(SLOW, SCORED, allowed=0.01, windows=[("1h", "5m", 14.4)]))
    )
    assert question is not None
    assert question.count(" and ") == 1
    assert "[3600s]" in question
    assert "[300s]" in question
    assert "> 0.144" in question
    escaped = alert_expression(Alert("dead", on=hr.share(DEAD, of=ARRIVED, over="5m"), above=0.1))
    assert escaped is not None
    assert r'stream="a\"b\\"' in escaped
    for one in (question, escaped):
        promql_parser.parse(one)


def test_panels_do_not_lie_on_one_another() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in grafana_dashboard()["panels"]]
    assert len({*places}) == len(places)
    assert len({panel["id"] for panel in grafana_dashboard()["panels"]}) == len(places)


def test_the_command_prints_both_and_names_what_is_left_out() -> None:
    grafana = CliRunner().invoke(main, ["export", APP, "grafana"])
    assert json.loads(grafana.stdout)["templating"]["list"][0]["name"] == "datasource"
    alerts = CliRunner().invoke(main, ["export", APP, "alerts"])
    assert {"alert", "expr", "for", "labels", "annotations"} == json.loads(alerts.stdout)["groups"][0]["rules"][
        0
    ].keys()
    assert "server down" in alerts.stderr
