"""`headrace export grafana|alerts|metrics APP`: a Grafana dashboard, Prometheus rules, or the list of metrics."""

import json

import click

from headrace.cli.command_grammar import verb_command
from headrace.declare.app import load_app

ACTIONS = ("grafana", "alerts", "metrics")


@click.command(cls=verb_command(*ACTIONS))
@click.argument("action", metavar="|".join(ACTIONS))
@click.argument("app", required=False, metavar="APP")
def export(action: str, app: str) -> None:
    """Print a Grafana dashboard, the alerts of APP as Prometheus rules (JSON, which is YAML as well), or the list of
    metrics as Markdown.
    """
    from headrace.telemetry.alerts.default_alerts import app_alerts
    from headrace.telemetry.exporters.dashboards_and_rules import (
        grafana_dashboard,
        metric_catalog_markdown,
        prometheus_rules,
    )

    loaded_app = load_app(app)
    if action == "grafana":
        click.echo(json.dumps(grafana_dashboard(), indent=2))
        return
    if action == "metrics":
        click.echo("\n".join(metric_catalog_markdown()))
        return
    exported_rules = prometheus_rules(app_alerts(loaded_app, app))
    click.echo(json.dumps(exported_rules.groups, indent=2))
    if exported_rules.skipped_alerts:
        click.echo(f"left out, as /metrics does not export them: {', '.join(exported_rules.skipped_alerts)}", err=True)
