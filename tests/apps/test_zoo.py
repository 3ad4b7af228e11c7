"""Apps of the zoo through a real `headrace up`: all of them with faults, those of the day without."""

import os
import sys
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.apps.factors import Row
from tests.apps.page import WRITES_PAGE, keep_outcome, read_outcomes
from tests.apps.pairs import read_rows
from tests.apps.play import Outcome, play

ROWS = read_rows()
A_DAY, MOST_SECONDS = 1, 165
CHOSEN = "HEADRACE_ZOO"
SHORT = ("up", "traffic", "restart", "change")  # a changed app comes back by a restart


def of_the_day(rows: list[Row], day: str, outcomes: Mapping[str, Any]) -> list[Row]:
    """The apps of a day, or those that HEADRACE_ZOO names, by commas; only those known to be quick take part."""
    if named := os.environ.get(CHOSEN):
        return [row for row in rows if row.domain in [name.strip() for name in named.split(",")]]
    quick = [row for row in rows if is_quick(outcomes.get(row.domain))]
    return sorted(quick, key=lambda row: zlib.crc32(f"{day} {row.domain}".encode()))[:A_DAY]


def is_quick(kept: Mapping[str, Any] | None) -> bool:
    """Whether an app was well when it was last played, and its short play took a few minutes at most."""
    return kept is not None and not kept["why"] and sum(kept["steps"].get(step, 0) for step in SHORT) <= MOST_SECONDS


def require_well(outcome: Outcome) -> None:
    assert outcome.is_well, "\n".join(outcome.complaints)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "row", of_the_day(ROWS, datetime.now(UTC).date().isoformat(), read_outcomes()), ids=lambda row: row.domain
)
def test_an_app_of_the_day_says_what_loops_say_also_after_a_restart(row: Row, tmp_path: Path) -> None:
    sys.stdout.write(f"an app of the day: {row.domain}; {CHOSEN} names others\n")
    outcome = Outcome(row)
    play(row, tmp_path, is_whole=False, outcome=outcome)
    require_well(outcome)


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.domain)
def test_an_app_is_whole_through_commands_kills_and_a_change(row: Row, tmp_path: Path) -> None:
    outcome = Outcome(row)
    try:
        play(row, tmp_path, is_whole=True, outcome=outcome)
    except (Exception, pytest.fail.Exception) as problem:
        outcome.complaints.append(str(problem))
        raise
    finally:
        if os.environ.get(WRITES_PAGE):
            keep_outcome(row.domain, outcome.steps, outcome.complaints)
    require_well(outcome)


def test_the_apps_of_a_day_are_quick_the_same_all_day_and_others_on_other_days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CHOSEN, raising=False)
    slow, failed, *quick = [row.domain for row in ROWS]
    outcomes = {domain: {"steps": {"up": 60, "traffic": 30, "kills": 900}, "why": []} for domain in quick}
    outcomes |= {slow: {"steps": {"up": 600}, "why": []}, failed: {"steps": {"up": 60}, "why": ["a part ended"]}}
    assert of_the_day(ROWS, "2026-01-01", outcomes) == of_the_day(ROWS, "2026-01-01", outcomes)
    days = [of_the_day(ROWS, f"2026-01-{day:02d}", outcomes) for day in range(1, 29)]
    assert len({row for day in days for row in day}) > 10
    assert not {slow, failed} & {row.domain for day in days for row in day}
    monkeypatch.setenv(CHOSEN, "libraries, clinics")
    assert {row.domain for row in of_the_day(ROWS, "2026-01-01", outcomes)} == {"libraries", "clinics"}
