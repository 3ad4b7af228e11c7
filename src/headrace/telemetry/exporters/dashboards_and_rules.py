"""A Grafana dashboard, and Prometheus rules for an app's alerts."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from headrace.declare.alerts.alert import Alert
from headrace.declare.durations import UNITS_US
from headrace.declare.metric_catalog import METRIC_CATALOG, METRIC_GROUPS
from headrace.declare.metric_family import MetricFamily, MetricType
from headrace.telemetry.exporters.promql import alert_expression

DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
PANEL_WIDTH, PANEL_HEIGHT, PANELS_PER_ROW = 8, 8, 3
TABLE_HEADER = "| name | type | unit | labels | help | held to |"
PROMETHEUS_TYPES = {MetricType.GAUGE: "gauge", MetricType.COUNTER: "counter", MetricType.HISTOGRAM: "histogram"}


# Units by Grafana's names; a unit that is missing here is a plain number.
GRAFANA_UNITS = {"seconds": "s", "bytes": "bytes", "share": "percentunit"}
GRAFANA_RATE_UNITS = {"requests": "reqps"}


class GrafanaPanel(NamedTuple):
    """One panel of a metric of the catalog: its title, its unit, and a query for each legend."""

    title: str
    metric_name: str
    unit: str
    queries: dict[str, str]


def _rate_query(name: str, *labels: str) -> str:
    return f"sum by ({', '.join(labels)}) (rate({name}[$__rate_interval]))"


def _legend(labels: Iterable[str]) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in labels)


def _gauge_panel(title: str, name: str, query: str = "{name}") -> GrafanaPanel:
    """A gauge, with a line for each combination of its labels."""
    family = METRIC_CATALOG[name]
    labels = re.findall(r"by \((\w+)\)", query) or family.labels
    return GrafanaPanel(
        title, name, GRAFANA_UNITS.get(family.unit, "short"), {_legend(labels): query.format(name=name)}
    )


def _counter_panel(title: str, name: str, *labels: str) -> GrafanaPanel:
    """The rate of a counter."""
    return GrafanaPanel(
        title,
        name,
        GRAFANA_RATE_UNITS.get(METRIC_CATALOG[name].unit, "eps"),
        {_legend(labels): _rate_query(name, *labels)},
    )


def _histogram_panel(title: str, name: str) -> GrafanaPanel:
    """The median and the P99 of a histogram."""
    (label,) = METRIC_CATALOG[name].labels
    queries = {
        f"{_legend([label])} P{quantile * 100:g}": f"histogram_quantile({quantile:g}, "
        f"{_rate_query(f'{name}_bucket', 'le', label)})"
        for quantile in (0.5, 0.99)
    }
    return GrafanaPanel(title, name, "s", queries)


PANELS = (
    _gauge_panel("Down", "headrace_down"),
    _counter_panel("Events in and out", "headrace_events_total", "stream", "fate"),
    _gauge_panel("Lag of the gate", "headrace_lag"),
    _gauge_panel("Oldest record that waits", "headrace_lag_seconds"),
    _gauge_panel("Farthest behind", "headrace_query_lag_seconds", "max by (query) ({name})"),
    _gauge_panel("Caught up in", "headrace_catch_up_seconds"),
    _histogram_panel("From the log to the store", "headrace_apply_seconds"),
    _gauge_panel("Last checkpoint", "headrace_checkpoint_seconds"),
    _gauge_panel("State", "headrace_state_bytes"),
    _gauge_panel("Watermark behind", "headrace_watermark_seconds", "time() - {name}"),
    _counter_panel("Dead letters", "headrace_dead_total", "stream", "reason"),
    _counter_panel("Repeated ids", "headrace_duplicates_total", "stream"),
    _counter_panel("Served values compared", "headrace_checked_values_total", "outcome"),
    _counter_panel("Requests", "headrace_requests_total", "path", "status"),
    _histogram_panel("Answered after", "headrace_request_seconds"),
    _gauge_panel("Store", "headrace_store_bytes"),
    _counter_panel("Predictions", "headrace_predictions_total", "model", "role"),
    _histogram_panel("Scored after", "headrace_score_seconds"),
    _counter_panel("Degraded predictions", "headrace_degraded_total", "model", "reason"),
    _gauge_panel("Drift, in times of its critical value", "headrace_drift"),
    _gauge_panel("Labels that came", "headrace_label_coverage"),
    _gauge_panel("Lake behind the log", "headrace_lake_lag"),
)


def grafana_dashboard(panels: Iterable[GrafanaPanel] = PANELS) -> dict[str, Any]:
    """A dashboard that Grafana imports; Grafana prompts for the data source."""
    return {
        "title": "Headrace",
        "uid": "headrace",
        "schemaVersion": 39,
        "timezone": "browser",
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]},
        "panels": [_to_grafana_json(number, panel) for number, panel in enumerate(panels)],
    }


def _to_grafana_json(number: int, panel: GrafanaPanel) -> dict[str, Any]:
    row, column = divmod(number, PANELS_PER_ROW)
    targets = [
        {"refId": chr(ord("A") + index), "expr": query, "legendFormat": legend, "datasource": DATA_SOURCE}
        for index, (legend, query) in enumerate(panel.queries.items())
    ]
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": METRIC_CATALOG[panel.metric_name].help,
        "datasource": DATA_SOURCE,
        "gridPos": {"x": column * PANEL_WIDTH, "y": row * PANEL_HEIGHT, "w": PANEL_WIDTH, "h": PANEL_HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": targets,
    }


class PrometheusRules(NamedTuple):
    """Prometheus rules, and the names of alerts that only Headrace can evaluate."""

    groups: dict[str, Any]
    skipped_alerts: list[str]


def prometheus_rules(alerts: Iterable[Alert]) -> PrometheusRules:
    """Rules of the alerts that /metrics can express, grouped as the alerts are."""
    groups: dict[str, list[dict[str, Any]]] = {}
    skipped_alerts = []
    for alert in alerts:
        expression = alert_expression(alert)
        if expression is None:
            skipped_alerts.append(alert.name)
        else:
            groups.setdefault(alert.group, []).append(_to_prometheus_rule(alert, expression))
    return PrometheusRules({"groups": [*_rule_groups(groups)]}, skipped_alerts)


def _rule_groups(rules_by_group: dict[str, list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    for name, group_rules in rules_by_group.items():
        yield {"name": f"headrace, {name}", "rules": group_rules}


def _to_prometheus_rule(alert: Alert, expression: str) -> dict[str, Any]:
    annotations = {"summary": alert.on.text, "description": alert.why, "run": alert.run}
    return {
        "alert": alert.name,
        "expr": expression,
        "for": f"{alert.for_us // UNITS_US['s']}s",
        "labels": {"severity": alert.severity},
        "annotations": {name: text for name, text in annotations.items() if text},
    }


def metric_catalog_markdown() -> Iterator[str]:
    """The catalog as Markdown, a table for each part of an app."""
    for area, families in METRIC_GROUPS.items():
        yield from ("", f"### {area}", "", TABLE_HEADER, re.sub(r"[\w ]+", " --- ", TABLE_HEADER))
        yield from map(_metric_row, families)


def _metric_row(family: MetricFamily) -> str:
    objective = "" if family.objective is None else family.objective.text
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return (
        f"| `{family.name}` | {PROMETHEUS_TYPES[family.metric_type]} | {family.unit} | {labels} | {family.help} | "
        f"{objective} |"
    )
