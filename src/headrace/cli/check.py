"""`headrace check APP VIEW`: what was served, against the log replayed in batch, value by value."""

import json
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.batch import batch_session
from headrace.cli.locations import locations
from headrace.cli.settings import source_of
from headrace.declare.app import load_app

if TYPE_CHECKING:
    from headrace.lake.checking import Compared, Findings


@click.command()
@click.argument("app")
@click.argument("view")
@locations("state", "lake", "broker", "broker_port")
@click.option("--spark", metavar="MASTER", help="Your Spark master; without it, Spark runs here.")
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
def check(app: str, view: str, in_json: bool, **flags: Any) -> None:
    """Compare what was served of VIEW with what its events say; exit 1 where a value was wrong."""
    from headrace.lake.check import check_served, keep_findings
    from headrace.lake.training import LOG

    declared = load_app(app).view(view)
    source = source_of(flags)
    with batch_session(flags["spark"]) as spark:
        findings = check_served(spark, declared, source)
    if not source.startswith(LOG):
        keep_findings(findings, declared, source)
    click.echo(json.dumps(findings.as_json(), default=str) if in_json else _text(findings, view))
    if findings.wrong:
        raise SystemExit(1)


def _text(findings: "Findings", view: str) -> str:
    lines = [f"{view}: {findings.rows:,} answers, {findings.wrong:,} wrong values", "", HEAD]
    lines += [_line(name, findings.by_arrival[name], findings.by_event[name]) for name in findings.by_arrival]
    for row in findings.worst:
        lines += ["", f"{row['feature']} of {row['entity']} at {row['at_us']} µs: served {row['served']}, "]
        lines[-1] += f"recomputed {row['recomputed']}. Its last events:"
        lines += [f"  {event}" for event in row["last_events"]]
    return "\n".join(lines)


COUNTS = ("exact", "rounded", "estimated", "in_flight", "wrong")
HEAD = f"{'feature':<28}{''.join(f'{name:>11}' for name in COUNTS)}{'largest':>10}{'by event':>10}"


def _line(name: str, arrival: "Compared", event: "Compared") -> str:
    counts = [getattr(arrival, count) for count in COUNTS]
    same = (event.exact + event.rounded) / max(1, sum(counts))
    return f"{name:<28}{''.join(f'{count:>11,}' for count in counts)}{arrival.largest:>10.3g}{same:>10.1%}"
