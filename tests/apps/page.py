"""Writes docs/zoo.md: the apps of the zoo, their factors, and the outcomes of their runs.

Outcomes are those of real runs: HEADRACE_ZOO_PAGE=1 with `make faults` keeps each in outcomes.json and writes the page.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.apps.factors import EXCLUSIONS, OF_APPS, OF_VIEWS, Row
from tests.apps.pairs import read_rows

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "zoo.md"
OUTCOMES = Path(__file__).with_name("outcomes.json")
WRITES_PAGE = "HEADRACE_ZOO_PAGE"
STEPS = ("up", "traffic", "commands", "kills", "restart", "change")
WHOLE = frozenset(STEPS) - {"restart"}  # a changed app comes back by a restart
HEAD = """# A zoo of apps

{apps} small apps of as many domains, chosen so that every pair of values of {factors} factors occurs in one of them
(`tests/apps/apps.csv`). Each is played through a real `headrace up`: hostile traffic (out of order, late, twice,
broken, too far ahead, without a key, above 2 kB), every served value, window, pair, match, sink and lake table
against brute force, every command, `kill -9` of three parts at one moment (others in each app), and a restart with
a changed declaration. It is well if all of that is right, no part ended that was not killed, and no log has a
traceback. `make faults` plays all of them, `make test` one a day of those that are known to be well and quick.

Written by `tests/apps/page.py` from the runs of the dates shown (`HEADRACE_ZOO_PAGE=1 make faults`); seconds are of a
machine with two busy cores. An app that is *not played* has been imported and its pairs counted, and nothing more.

| app | {steps} | outcome | played |
| --- |{line} --- | --- |
"""
FACTS = "\n## What they are made of\n\n"
EXCLUDED = """
## What excludes what

**refused**: Headrace refuses it when the module is imported, with these words, which a test reads. The others are so by
what the words mean.

| | | why |
| --- | --- | --- |
"""


def keep_outcome(domain: str, steps: dict[str, float], complaints: list[str]) -> None:
    """Save the result of playing an app, and rewrite the page."""
    outcomes = read_outcomes()
    day = datetime.now(UTC).date().isoformat()
    first = [complaint.strip().splitlines()[0][:160] for complaint in complaints[:3]]
    outcomes[domain] = {"steps": {name: round(seconds) for name, seconds in steps.items()}, "why": first, "day": day}
    OUTCOMES.write_text(json.dumps(outcomes, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    PAGE.write_text(page())


def read_outcomes() -> dict[str, Any]:
    return json.loads(OUTCOMES.read_text()) if OUTCOMES.exists() else {}


def page() -> str:
    """The whole page."""
    rows, outcomes = read_rows(), read_outcomes()
    factors = len(OF_APPS) + len(OF_VIEWS)
    head = HEAD.format(factors=factors, apps=len(rows), steps=" | ".join(STEPS), line=" --- |" * len(STEPS))
    table = "\n".join(_outcome(row, outcomes.get(row.domain)) for row in rows)
    return head + table + "\n" + FACTS + "\n".join(_made_of(rows)) + "\n" + EXCLUDED + "\n".join(_excluded()) + "\n"


def _outcome(row: Row, kept: dict[str, Any] | None) -> str:
    if kept is None:
        return f"| {row.domain} |{' |' * len(STEPS)} not played | |"
    cells = " | ".join(f"{kept['steps'][step]} s" if step in kept["steps"] else "" for step in STEPS)
    said = "<br>".join(kept["why"]).replace("|", "\\|") or _well(kept["steps"])
    return f"| {row.domain} | {cells} | {said} | {kept['day']} |"


def _well(steps: dict[str, int]) -> str:
    """Well as a whole, or only as far as it was played."""
    return "well" if steps.keys() >= WHOLE else f"well, of {', '.join(steps)} alone"


def _made_of(rows: list[Row]) -> Iterator[str]:
    yield f"| app | {' | '.join(OF_APPS).replace('_', ' ')} | views |"
    yield f"| --- |{' --- |' * (len(OF_APPS) + 1)}"
    for row in rows:
        views = "; ".join(" ".join(value for _, value in view) for view in row.views)
        yield f"| {row.domain} | {' | '.join(value for _, value in row.values)} | {views} |"


def _excluded() -> Iterator[str]:
    for one in EXCLUSIONS:
        why = f"**refused**: {one.why}" if one.is_refused else one.why
        yield f"| {' '.join(one.first)} | {' '.join(one.second)} | {why} |"


if __name__ == "__main__":
    PAGE.write_text(page())
