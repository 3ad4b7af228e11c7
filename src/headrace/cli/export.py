"""`headrace export APP grafana|alerts`: a dashboard and rules for tools that read /metrics."""

import json

import click

from headrace.declare.app import load_app


@click.command()
@click.argument("app")
@click.argument("what", type=click.Choice(["grafana", "alerts"]))
def export(app: str, what: str) -> None:
    """Print a dashboard for Grafana, or the alerts of APP as rules for Prometheus: JSON, which is YAML as well."""
    from headrace.watch.defaults import alerts_of
    from headrace.watch.export import dashboard, rules

    declared = load_app(app)
    if what == "grafana":
        click.echo(json.dumps(dashboard(), indent=2))
        return
    found = rules(alerts_of(declared, app))
    click.echo(json.dumps(found.groups, indent=2))
    if found.left_out:
        click.echo(f"left out, as /metrics does not tell them: {', '.join(found.left_out)}", err=True)
