"""`headrace hot APP`: the heaviest keys of each stream and view, the skew of partitions, and advice."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from headrace.declare.app import load_app
from headrace.runtime.configuration.click_options import setting_option

if TYPE_CHECKING:
    from headrace.server.metrics.hot_keys import HotKeyReport, HotKeyStats


@click.command()
@click.argument("app")
@setting_option("http")
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
def hot(app: str, http: str, in_json: bool) -> None:
    """The heaviest keys of APP in the last minutes, by stream and view, and the skew of its partitions."""
    from headrace.client.sync_client import Client
    from headrace.server.metrics.hot_keys import HotKeyReport

    load_app(app)
    response = Client(f"http://{http}").hot()
    if in_json:
        click.echo(json.dumps(response))
    else:
        click.echo("\n".join(_format_report(HotKeyReport.from_json(response))))


def _format_report(report: "HotKeyReport") -> Iterator[str]:
    if not report.keys:
        yield "No events in the last minutes."
        return
    yield f"{'stream':<20}{'view':<20}{'key':<28}{'share':>16}{'events/s':>12}  partition"
    yield from map(_format_key, report.keys)
    yield f"\n{'topic':<40}{'partitions':>10}{'records':>12}{'busiest':>9}{'of mean':>9}"
    for topic in report.topics:
        yield f"{topic.topic:<40}{topic.partitions:>10}{topic.records:>12,}{topic.busiest:>9}{topic.skew:>8.1f}×"
    yield ""
    yield from [*report.advice()] or ["No key is hot."]


def _format_key(key: "HotKeyStats") -> str:
    share = f"{key.at_least:.1%} – {key.at_most:.1%}" if key.at_most - key.at_least > 0.0005 else f"{key.at_least:.1%}"
    partition = "" if key.partition is None else str(key.partition)
    mark = "  hot" if key.is_hot else ""
    streams = "" if key.view and len(key.streams) > 1 else key.streams[0]
    return (
        f"{streams:<20}{key.view or '':<20}{key.key:<28}{share:>16}{key.events_per_second:>12,.1f}  {partition}{mark}"
    )
