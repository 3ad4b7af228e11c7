"""What other tools show and alarm on: a Grafana dashboard, and Prometheus' rules for an app's alerts."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from headrace.declare.alert import Alert
from headrace.declare.catalogue import CATALOGUE, ROOMS, Family, Sort
from headrace.declare.durations import UNITS_US
from headrace.watch.promql import firing

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDE, HIGH, A_ROW = 8, 8, 3
HEAD = "| name | type | unit | labels | help | held to |"
TYPES = {Sort.LEVEL: "gauge", Sort.COUNT: "counter", Sort.DELAYS: "histogram"}


# Units in Grafana's words; what is not here is a plain number.
UNITS = {"seconds": "s", "bytes": "bytes", "share": "percentunit"}
RATES = {"requests": "reqps"}


class Panel(NamedTuple):
    """One picture of a number of the catalogue: its title, its unit, and what is asked, by what each line is called."""

    title: str
    name: str
    unit: str
    asked: dict[str, str]


def _increase(name: str, *by: str) -> str:
    return f"sum by ({', '.join(by)}) (rate({name}[$__rate_interval]))"


def _line(labels: Iterable[str]) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in labels)


def _level(title: str, name: str, question: str = "{name}") -> Panel:
    """A level as it is, a line for each combination of its labels."""
    family = CATALOGUE[name]
    by = re.findall(r"by \((\w+)\)", question) or family.labels
    return Panel(title, name, UNITS.get(family.unit, "short"), {_line(by): question.format(name=name)})


def _rate(title: str, name: str, *by: str) -> Panel:
    """How fast a count grows."""
    return Panel(title, name, RATES.get(CATALOGUE[name].unit, "eps"), {_line(by): _increase(name, *by)})


def _delays(title: str, name: str) -> Panel:
    """The median of delays and their P99."""
    (by,) = CATALOGUE[name].labels
    asked = {
        f"{_line([by])} P{share * 100:g}": f"histogram_quantile({share:g}, {_increase(f'{name}_bucket', 'le', by)})"
        for share in (0.5, 0.99)
    }
    return Panel(title, name, "s", asked)


PANELS = (
    _level("Down", "headrace_down"),
    _rate("Events in and out", "headrace_events_total", "stream", "fate"),
    _level("Lag of the gate", "headrace_lag"),
    _level("Oldest record that waits", "headrace_lag_seconds"),
    _level("Farthest behind", "headrace_query_lag_seconds", "max by (query) ({name})"),
    _level("Caught up in", "headrace_catch_up_seconds"),
    _delays("From the log to the store", "headrace_apply_seconds"),
    _level("Last checkpoint", "headrace_checkpoint_seconds"),
    _level("State", "headrace_state_bytes"),
    _level("Watermark behind", "headrace_watermark_seconds", "time() - {name}"),
    _rate("Dead letters", "headrace_dead_total", "stream", "reason"),
    _rate("Repeated ids", "headrace_duplicates_total", "stream"),
    _rate("Served values compared", "headrace_checked_values_total", "outcome"),
    _rate("Requests", "headrace_requests_total", "path", "status"),
    _delays("Answered after", "headrace_request_seconds"),
    _level("Store", "headrace_store_bytes"),
    _rate("Predictions", "headrace_predictions_total", "model", "role"),
    _delays("Scored after", "headrace_score_seconds"),
    _rate("Degraded predictions", "headrace_degraded_total", "model", "reason"),
    _level("Drift, in times of its critical value", "headrace_drift"),
    _level("Labels that came", "headrace_label_coverage"),
    _level("Lake behind the log", "headrace_lake_lag"),
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
        "description": CATALOGUE[panel.name].help,
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


def listed() -> Iterator[str]:
    """The catalogue as Markdown, a table for each part of an app."""
    for room, families in ROOMS.items():
        yield from ("", f"### {room}", "", HEAD, re.sub(r"[\w ]+", " --- ", HEAD))
        yield from map(_row, families)


def _row(family: Family) -> str:
    held = "" if family.objective is None else family.objective.text
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.name}` | {TYPES[family.sort]} | {family.unit} | {labels} | {family.help} | {held} |"
