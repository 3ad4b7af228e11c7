"""`headrace export APP grafana|alerts|metrics`: a dashboard and rules for tools that read /metrics, and what it has."""

import json

import click

from headrace.declare.app import load_app


@click.command()
@click.argument("app")
@click.argument("what", type=click.Choice(["grafana", "alerts", "metrics"]))
def export(app: str, what: str) -> None:
    """Print a dashboard for Grafana, the alerts of APP as rules for Prometheus (JSON, which is YAML as well), or what
    metrics there are, as Markdown.
    """
    from headrace.watch.defaults import alerts_of
    from headrace.watch.export import dashboard, listed, rules

    declared = load_app(app)
    if what == "grafana":
        click.echo(json.dumps(dashboard(), indent=2))
        return
    if what == "metrics":
        click.echo("\n".join(listed()))
        return
    found = rules(alerts_of(declared, app))
    click.echo(json.dumps(found.groups, indent=2))
    if found.left_out:
        click.echo(f"left out, as /metrics does not tell them: {', '.join(found.left_out)}", err=True)
