"""The alerts every app has without declaring them; a declared alert of the same name replaces the default.

Each says why it matters and which command to run.
"""

from collections.abc import Iterator
from typing import TypedDict

from headrace.declare.alerts.alert import Alert
from headrace.declare.alerts.alert_values import Objective, metric
from headrace.declare.app import App
from headrace.declare.durations import duration_text
from headrace.declare.features.view import View
from headrace.declare.metric_catalog import METRIC_CATALOG
from headrace.declare.models.model import Model
from headrace.declare.sinks.sink import Sink
from headrace.declare.streams.change_capture import Changes
from headrace.declare.streams.stream import Stream


class AlertLimits(TypedDict):
    """The limit arguments of an alert."""

    above: float | None
    below: float | None
    clear: float | None
    for_: str | None


def catalog_limits(name: str) -> AlertLimits:
    """The limit of a metric in the catalog."""
    limit = METRIC_CATALOG[name].limit
    return {"above": limit.above, "below": limit.below, "clear": limit.clear, "for_": limit.for_}


def catalog_allowed_share(name: str) -> float:
    """The share of bad events that the catalog allows."""
    return METRIC_CATALOG[name].allowed_share


def app_alerts(app: App, app_path: str = "APP") -> tuple[Alert, ...]:
    """The app's own alerts, and the defaults it has not replaced."""
    declared_names = {alert.name for alert in app.alerts}
    return (*app.alerts, *(alert for alert in default_alerts(app, app_path) if alert.name not in declared_names))


def default_alerts(app: App, app_path: str = "APP") -> Iterator[Alert]:
    """The default alerts of each stream, view, model, sink and bridge."""
    yield Alert(
        "server down",
        on=metric("headrace_server_up"),
        **catalog_limits("headrace_server_up"),
        severity="page",
        why="No client gets features or predictions, and nothing else is watched.",
        run="headrace doctor",
    )
    yield from _outage_alerts(app_path)
    for stream in app.streams:
        yield from _stream_alerts(stream, app_path)
    for view in app.views:
        yield from _view_alerts(view, app_path)
    for model in app.models:
        yield from _model_alerts(model, app_path)
    for stream in app.streams:
        if stream.from_ is not None:
            yield from _bridge_alerts(stream, app_path)
        if isinstance(stream, Changes) and stream.source is not None:
            yield from _capture_alerts(stream, app_path)
    for sink in app.sinks:
        yield from _sink_alerts(sink, app_path)


def _outage_alerts(app_path: str) -> Iterator[Alert]:
    kinds = {
        "part": ("part down", "page", "A process ends again and again, and is restarted; its log has the whole error."),
        "query": ("query down", "page", "A query fails and is restarted; what it computes stands still meanwhile."),
        "table": ("table not landing", "ticket", "Steps of a lake table fail; nothing is lost while topics keep it."),
    }
    for kind, (name, severity, why) in kinds.items():
        yield Alert(
            name,
            on=metric("headrace_down", kind=kind),
            **catalog_limits("headrace_down"),
            severity=severity,
            why=why,
            run=f"headrace status {app_path}",
        )


def _stream_alerts(stream: Stream, app_path: str) -> Iterator[Alert]:
    name = stream.name
    yield Alert(
        f"{name}: lag",
        on=metric("headrace_lag_seconds", stream=name),
        **catalog_limits("headrace_lag_seconds"),
        severity="page",
        why="Events wait for more than a minute before they count: the gate is too slow, or stands still.",
        run="headrace doctor",
    )
    yield Alert(
        f"{name}: dead letters",
        on=Objective(
            metric("headrace_events_total", stream=name, fate="dead"),
            metric("headrace_events_total", stream=name, fate="in"),
            allowed=catalog_allowed_share("headrace_events_total"),
        ),
        severity="page",
        why=f"Invalid events are not counted. Topic {stream.dead} has each with its reason.",
        run=f"headrace dead ls {app_path} {name}",
    )


def _view_alerts(view: View, app_path: str) -> Iterator[Alert]:
    name = view.name
    yield Alert(
        f"{name}: wrong values",
        on=metric("headrace_checked_values_total", view=name, outcome="wrong", over="1h"),
        **catalog_limits("headrace_checked_values_total"),
        why="A served value was not what its events say.",
        run=f"headrace check {app_path} {name}",
    )
    if view.freshness_us is not None:
        freshness = duration_text(view.freshness_us)
        yield Alert(
            f"{name}: freshness",
            on=Objective(
                metric("headrace_apply_seconds", view=name, slower=freshness),
                metric("headrace_apply_seconds", view=name),
                allowed=catalog_allowed_share("headrace_apply_seconds"),
            ),
            severity="page",
            why=f"Features are older than freshness={freshness!r} promises.",
            run="headrace doctor",
        )


def _model_alerts(model: Model, app_path: str) -> Iterator[Alert]:
    name = model.name
    yield Alert(
        f"{name}: degraded",
        on=Objective(
            metric("headrace_degraded_total", model=name),
            metric("headrace_predictions_total", model=name, role="champion"),
            allowed=catalog_allowed_share("headrace_predictions_total"),
        ),
        severity="page",
        why="Scores of the stream were late, on old features, or missing.",
        run=f"headrace models ls {app_path}",
    )
    yield Alert(
        f"{name}: degraded over HTTP",
        on=Objective(
            metric("headrace_http_predictions_degraded_total", model=name),
            metric("headrace_http_predictions_total", model=name),
            allowed=catalog_allowed_share("headrace_http_predictions_total"),
        ),
        severity="page",
        why="Answers came without the store, by an older version, or after the budget.",
        run=f"headrace models ls {app_path}",
    )
    if model.train is not None:  # only a trained version's card has the distribution it was trained on
        yield Alert(
            f"{name}: drift",
            on=metric("headrace_drift", model=name),
            **catalog_limits("headrace_drift"),
            why="The distribution of served features has drifted from the training data.",
            run=f"headrace drift {app_path} {name}",
        )
    if model.labels is not None:
        yield from _label_alerts(model, app_path)


def _bridge_alerts(stream: Stream, app_path: str) -> Iterator[Alert]:
    yield Alert(
        f"{stream.name}: bridge",
        on=metric("headrace_bridge_waits", stream=stream.name),
        **catalog_limits("headrace_bridge_waits"),
        severity="page",
        why="Events of an external source have stopped: it is down, or refuses our login. The part's log says which.",
        run=f"headrace run {app_path} bridge",
    )


def _capture_alerts(changes: Changes, app_path: str) -> Iterator[Alert]:
    yield Alert(
        f"{changes.name}: capture",
        on=metric("headrace_capture_waits", stream=changes.name),
        **catalog_limits("headrace_capture_waits"),
        severity="page",
        why="Changes of a table have stopped, and its database retains its log for them. The part's log says why.",
        run=f"headrace run {app_path} connect",
    )


def _sink_alerts(sink: Sink, app_path: str) -> Iterator[Alert]:
    yield Alert(
        f"{sink.name}: lag",
        on=metric("headrace_sink_lag_seconds", sink=sink.name),
        **catalog_limits("headrace_sink_lag_seconds"),
        severity="page",
        why=f"Rows wait for more than a minute: the {sink.to.kind} is down, or too slow. Nothing is lost meanwhile.",
        run=f"headrace run {app_path} sink",
    )
    yield Alert(
        f"{sink.name}: parked rows",
        on=metric("headrace_sink_parked_total", sink=sink.name, over="1h"),
        **catalog_limits("headrace_sink_parked_total"),
        why=f"The {sink.to.kind} refused rows. Topic {sink.parked} has each with its reason.",
        run=f"headrace parked ls {app_path} {sink.slug}",
    )


def _label_alerts(model: Model, app_path: str) -> Iterator[Alert]:
    name = model.name
    yield Alert(
        f"{name}: quality",
        on=metric("headrace_quality_lost", model=name),
        **catalog_limits("headrace_quality_lost"),
        severity="page",
        why="The model is worse than its card says.",
        run=f"headrace models rollback {app_path} {name}" if model.train else f"headrace models ls {app_path}",
    )
    # Where a missing label has a default, few labels come, and low coverage is expected.
    if model.labels is not None and model.labels.default is None:
        yield Alert(
            f"{name}: label coverage",
            on=metric("headrace_label_coverage", model=name),
            **catalog_limits("headrace_label_coverage"),
            why="Labels are missing, so quality is measured on the few that came.",
            run=f"headrace lateness {app_path} {model.labels.stream.name}",
        )
