"""`headrace check APP VIEW`: compares served values with the topic replayed in batch."""

import json
from typing import TYPE_CHECKING, Any

import click

from headrace.declare.app import load_app
from headrace.runtime.batch_session import batch_session
from headrace.runtime.configuration.click_options import setting_options
from headrace.runtime.settings import event_source

if TYPE_CHECKING:
    from headrace.lake.consistency.value_comparison import CheckFindings, ComparisonCounts


@click.command()
@click.argument("app")
@click.argument("view")
@setting_options("state", "lake", "broker", "broker_port", "spark")
@click.option("--json", "in_json", is_flag=True, help="As JSON.")
def check(app: str, view: str, in_json: bool, **flags: Any) -> None:
    """Compare the served values of VIEW with values recomputed from its events; exit 1 if one was wrong."""
    from headrace.lake.consistency.batch_check import check_served, save_findings
    from headrace.lake.training.training_set import LOG_PREFIX

    declared_view = load_app(app).view(view)
    source = event_source(flags)
    with batch_session(flags["spark"]) as spark:
        findings = check_served(spark, declared_view, source)
    if not source.startswith(LOG_PREFIX):
        save_findings(findings, declared_view, source)
    click.echo(json.dumps(findings.to_json(), default=str) if in_json else _format_findings(findings, view))
    if findings.wrong:
        raise SystemExit(1)


def _format_findings(findings: "CheckFindings", view: str) -> str:
    lines = [f"{view}: {findings.rows:,} answers, {findings.wrong:,} wrong values", "", TABLE_HEADER]
    lines += [_format_feature(name, findings.by_arrival[name], findings.by_event[name]) for name in findings.by_arrival]
    for row in findings.worst:
        lines += ["", f"{row['feature']} of {row['entity']} at {row['at_us']} µs: served {row['served']}, "]
        lines[-1] += f"recomputed {row['recomputed']}. Its last events:"
        lines += [f"  {event}" for event in row["last_events"]]
    return "\n".join(lines)


OUTCOMES = ("exact", "rounded", "estimated", "in_flight", "wrong")
TABLE_HEADER = f"{'feature':<28}{''.join(f'{name:>11}' for name in OUTCOMES)}{'largest':>10}{'by event':>10}"


def _format_feature(name: str, by_arrival: "ComparisonCounts", by_event: "ComparisonCounts") -> str:
    counts = [getattr(by_arrival, outcome) for outcome in OUTCOMES]
    share_by_event = (by_event.exact + by_event.rounded) / max(1, sum(counts))
    return f"{name:<28}{''.join(f'{count:>11,}' for count in counts)}{by_arrival.largest:>10.3g}{share_by_event:>10.1%}"
