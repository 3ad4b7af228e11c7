"""`headrace export grafana|alerts|metrics APP`: a dashboard and rules for tools that read /metrics, and what it has."""

import json

import click

from headrace.cli.grammar import verbs
from headrace.declare.app import load_app

FORMS = ("grafana", "alerts", "metrics")


@click.command(cls=verbs(*FORMS))
@click.argument("action", metavar="|".join(FORMS))
@click.argument("app", required=False, metavar="APP")
def export(action: str, app: str) -> None:
    """Print a dashboard for Grafana, the alerts of APP as rules for Prometheus (JSON, which is YAML as well), or what
    metrics there are, as Markdown.
    """
    from headrace.watch.defaults import alerts_of
    from headrace.watch.export import dashboard, listed, rules

    declared = load_app(app)
    if action == "grafana":
        click.echo(json.dumps(dashboard(), indent=2))
        return
    if action == "metrics":
        click.echo("\n".join(listed()))
        return
    found = rules(alerts_of(declared, app))
    click.echo(json.dumps(found.groups, indent=2))
    if found.left_out:
        click.echo(f"left out, as /metrics does not tell them: {', '.join(found.left_out)}", err=True)
