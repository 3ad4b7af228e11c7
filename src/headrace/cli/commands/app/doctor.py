"""`headrace doctor`: checks this machine, and prints the command that fixes each problem."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from headrace.runtime.configuration.click_options import setting_option, setting_options
from headrace.runtime.doctor import DoctorConfig, DoctorFinding, run_checks


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@setting_options("state", "http", "broker", "broker_port", "store")
@setting_option("tls_cert", "The certificate of the server, if it uses HTTPS.")
def doctor(
    as_json: bool, http: str, broker: str | None, broker_port: int, tls_cert: str | None, **other_options: str
) -> None:
    """Check Java, jars, disk, broker, store and ports, and say how to fix what is wrong."""
    certificate = None if tls_cert is None else Path(tls_cert)
    findings = run_checks(
        DoctorConfig(http, broker, broker_port, other_options["store"], Path(other_options["state"]), certificate)
    )
    shown_findings = _print_json(findings) if as_json else _print_lines(findings)
    sys.exit(0 if all(finding.ok for finding in shown_findings) else 1)


def _print_json(findings: Iterator[DoctorFinding]) -> list[DoctorFinding]:
    shown_findings = list(findings)
    checks = [{**asdict(finding), "ok": finding.ok} for finding in shown_findings]
    click.echo(json.dumps({"ok": all(finding.ok for finding in shown_findings), "checks": checks}, indent=2))
    return shown_findings


def _print_lines(findings: Iterator[DoctorFinding]) -> list[DoctorFinding]:
    shown_findings = []
    for finding in findings:
        mark = click.style("ok   ", fg="green") if finding.ok else click.style("wrong", fg="red")
        click.echo(f"{mark}  {finding.check:<12} {finding.found}")
        if not finding.ok:
            click.echo(f"{'fix it:':>20} {finding.mend}")
        shown_findings.append(finding)
    return shown_findings
