"""What other tools show and alarm on: a Grafana dashboard, and Prometheus' rules for an app's alerts."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from headrace.declare.alert import Alert
from headrace.declare.durations import UNITS_US
from headrace.watch.promql import firing

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDE, HIGH, A_ROW = 8, 8, 3


class Panel(NamedTuple):
    """One picture: what it is called, its unit in Grafana's words, and what is asked, by what each line is called."""

    title: str
    unit: str
    asked: dict[str, str]


def _rate(name: str, *by: str) -> str:
    return f"sum by ({', '.join(by)}) (rate({name}[$__rate_interval]))"


def _quantile(share: float, name: str, by: str) -> str:
    return f"histogram_quantile({share:g}, {_rate(f'{name}_bucket', 'le', by)})"


def _delays(title: str, name: str, by: str) -> Panel:
    asked = {f"{{{{{by}}}}} P{share * 100:g}": _quantile(share, name, by) for share in (0.5, 0.99)}
    return Panel(title, "s", asked)


PANELS = (
    Panel("Events in and out", "eps", {"{{stream}} {{fate}}": _rate("headrace_events_total", "stream", "fate")}),
    Panel("Lag of the gate", "short", {"{{stream}}": "max by (stream) (headrace_lag)"}),
    Panel("Oldest record that waits", "s", {"{{stream}}": "max by (stream) (headrace_lag_seconds)"}),
    _delays("From the log to the store", "headrace_apply_seconds", "view"),
    Panel("Last checkpoint", "ms", {"{{query}}": "headrace_checkpoint_ms"}),
    Panel("State", "bytes", {"{{query}}": "headrace_state_bytes"}),
    Panel("Watermark behind", "s", {"{{query}}": "time() - headrace_watermark_seconds"}),
    Panel("Dead letters", "short", {"{{stream}} {{reason}}": _rate("headrace_dead_total", "stream", "reason")}),
    Panel("Repeated ids", "short", {"{{stream}}": _rate("headrace_duplicates_total", "stream")}),
    Panel("Served values compared", "short", {"{{outcome}}": _rate("headrace_checked_values_total", "outcome")}),
    Panel("Requests", "reqps", {"{{path}} {{status}}": _rate("headrace_requests_total", "path", "status")}),
    _delays("Answered after", "headrace_request_seconds", "path"),
    Panel("Store", "bytes", {"{{view}}": "headrace_store_bytes"}),
    Panel("Predictions", "eps", {"{{model}} {{role}}": _rate("headrace_predictions_total", "model", "role")}),
    _delays("Scored after", "headrace_score_seconds", "model"),
    Panel("Degraded predictions", "eps", {"{{model}} {{reason}}": _rate("headrace_degraded_total", "model", "reason")}),
    Panel("Drift, in times of its critical value", "short", {"{{model}}": "headrace_drift"}),
    Panel("Labels that came", "percentunit", {"{{model}}": "headrace_label_coverage"}),
    Panel("Lake behind the log", "short", {"{{table}}": "headrace_lake_lag"}),
)


def dashboard(panels: Iterable[Panel] = PANELS) -> dict[str, Any]:
    """A dashboard that Grafana imports; it asks for the data source."""
    return {
        "title": "Headrace",
        "uid": "headrace",
        "schemaVersion": 39,
        "timezone": "browser",
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]},
        "panels": [_panel(number, panel) for number, panel in enumerate(panels)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, A_ROW)
    targets = [
        {"refId": chr(ord("A") + place), "expr": question, "legendFormat": line, "datasource": SOURCE}
        for place, (line, question) in enumerate(panel.asked.items())
    ]
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": SOURCE,
        "gridPos": {"x": column * WIDE, "y": row * HIGH, "w": WIDE, "h": HIGH},
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": targets,
    }


class Rules(NamedTuple):
    """Prometheus' rules, and the names of alerts that only Headrace itself can watch."""

    groups: dict[str, Any]
    left_out: list[str]


def rules(alerts: Iterable[Alert]) -> Rules:
    """Rules of the alerts that /metrics can tell; their groups are what they are about."""
    groups: dict[str, list[dict[str, Any]]] = {}
    left_out = []
    for alert in alerts:
        question = firing(alert)
        if question is None:
            left_out.append(alert.name)
        else:
            groups.setdefault(alert.group, []).append(_rule(alert, question))
    return Rules({"groups": [*_groups(groups)]}, left_out)


def _groups(rules_of: dict[str, list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    for name, of_group in rules_of.items():
        yield {"name": f"headrace, {name}", "rules": of_group}


def _rule(alert: Alert, question: str) -> dict[str, Any]:
    annotations = {"summary": alert.on.text, "description": alert.why, "run": alert.run}
    return {
        "alert": alert.name,
        "expr": question,
        "for": f"{alert.for_us // UNITS_US['s']}s",
        "labels": {"severity": alert.severity},
        "annotations": {name: text for name, text in annotations.items() if text},
    }
