"""python -m bench [SECTION …] [--quick]: measure, print, and save the results."""

import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import click

from bench import (
    anchor,
    drain,
    drift,
    drift_peers,
    formats,
    growth,
    lake,
    latency,
    overload,
    predictions,
    scrape,
    serve,
    sinks,
    sql,
    training,
    watched,
)
from bench.chart import draw
from bench.errors import Skipped
from bench.machine import Machine
from bench.nexmark import section as nexmark
from bench.page import CHART, publish
from bench.parts import ROOT
from bench.results import Kept, Result, latest
from bench.section import Run
from headrace.errors import HeadraceError

KEPT, PASSING = ROOT / "bench" / "results", ROOT / "bench" / "out"

SECTIONS: Mapping[str, Callable[[Run], Result]] = {
    "latency": latency.measure,
    "predictions": predictions.measure,
    "drain": drain.measure,
    "lake": lake.measure,
    "serve": serve.measure,
    "overload": overload.measure,
    "watched": watched.measure,
    "scrape": scrape.measure,
    "growth": growth.measure,
    "anchor": anchor.measure,
    "training": training.measure,
    "sql": sql.measure,
    "sinks": sinks.measure,
    "drift": drift.measure,
    "drift-peers": drift_peers.measure,
    "nexmark": nexmark.measure,
    "formats": formats.measure,
}


@click.command()
@click.argument("sections", nargs=-1, type=click.Choice([*SECTIONS]))
@click.option("--quick", is_flag=True, help="A few minutes, to see that all works; kept in bench/out, not published.")
def main(sections: tuple[str, ...], quick: bool) -> None:
    """Measure Headrace on this machine: all sections, or the named ones."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    machine = Machine.here()
    say(machine.markdown())
    failed = [section for section in sections or SECTIONS if not _kept(section, machine, quick)]
    _draw(quick)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


def _kept(section: str, machine: Machine, quick: bool) -> bool:
    """Measure one section and save its result; a failure does not stop the others."""
    began = time.monotonic()
    try:
        result = _measured(section, quick)
    except Skipped as why:
        say(f"{section} skipped: {why}")
        return True
    except HeadraceError as failure:
        say(f"{section} failed: {failure}")
        return False
    kept = Kept(result, machine, datetime.now(UTC), quick)
    page = kept.keep(PASSING if quick else KEPT)
    say(f"\n{kept.body()}\n\n{section} took {time.monotonic() - began:.0f} s and is kept in {page.relative_to(ROOT)}\n")
    return True


def _draw(quick: bool) -> None:
    """Draw the saved results; only a full run changes the docs."""
    kept = latest(PASSING if quick else KEPT)
    if kept and quick:
        (PASSING / CHART).write_text(draw(kept))
    elif kept:
        publish(kept, ROOT / "docs")


def _measured(section: str, quick: bool) -> Result:
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        return SECTIONS[section](Run(quick, Path(folder), lambda line: say(f"  {section}: {line}")))


def say(line: str) -> None:
    """One line of progress."""
    click.echo(line)


if __name__ == "__main__":
    main()
