"""Apps of the zoo through a real `headrace up`: all of them with faults, a handful of the day without."""

import os
import sys
import zlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.apps.factors import Row
from tests.apps.page import keep_outcome
from tests.apps.pairs import read_rows
from tests.apps.play import Outcome, play

ROWS = read_rows()
A_DAY = 2
CHOSEN, WRITES_PAGE = "HEADRACE_ZOO", "HEADRACE_ZOO_PAGE"
SLOW = {"cassandra", "captured", "avro"}  # servers that take half a minute to start


def of_the_day(rows: list[Row], day: str) -> list[Row]:
    """The apps of a day, or those that HEADRACE_ZOO names, by commas."""
    if named := os.environ.get(CHOSEN):
        return [row for row in rows if row.domain in [name.strip() for name in named.split(",")]]
    quick = [row for row in rows if not {value for _, value in row.values} & SLOW]
    return sorted(quick, key=lambda row: zlib.crc32(f"{day} {row.domain}".encode()))[:A_DAY]


def require_well(outcome: Outcome) -> None:
    assert outcome.is_well, "\n".join(outcome.complaints)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("row", of_the_day(ROWS, datetime.now(UTC).date().isoformat()), ids=lambda row: row.domain)
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


def test_the_apps_of_a_day_are_the_same_all_day_and_others_on_other_days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CHOSEN, raising=False)
    assert of_the_day(ROWS, "2026-01-01") == of_the_day(ROWS, "2026-01-01")
    days = [of_the_day(ROWS, f"2026-01-{day:02d}") for day in range(1, 29)]
    assert len({row for day in days for row in day}) > 10
    monkeypatch.setenv(CHOSEN, "libraries, clinics")
    assert {row.domain for row in of_the_day(ROWS, "2026-01-01")} == {"libraries", "clinics"}
