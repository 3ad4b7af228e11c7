"""The detectors get each new outcome of the table once, whatever is compacted meanwhile."""

from datetime import date
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.lake.formats.registry import FORMATS, create_lake
from headrace.lake.ingestion.table_mapping import DAY
from headrace.lake.lake_table import LakeTable, TablePosition
from headrace.lake.maintenance import SMALL_FILE_BYTES
from headrace.monitoring.drift.realized_errors import ErrorTracker, has_tracked_errors
from headrace.monitoring.outcomes.outcome_writer import outcomes_table
from tests.monitoring.quality.histories import model

FRAUD = model()
NUMBERS = ("score", "label_before", "label_after")


def row(wrong: bool, **changed: object) -> dict[str, object]:
    """A prediction of 0.5, above the least threshold, whose outcome became known."""
    known = {"version": "1", "role": "champion", "minute_us": 0, "score": 0.5, "state_before": "pending"}
    return known | {"state_after": "matched", "label_after": 0.0 if wrong else 1.0} | changed


def add(table: LakeTable, rows: list[dict[str, object]], batch: int) -> None:
    names = [column.name for column in table.mapping.columns if column.name != DAY]
    kinds = {name: pa.float64() if name in NUMBERS else pa.string() for name in names}
    kinds |= dict.fromkeys(("minute_us", "label_delay_us"), pa.int64())
    columns = {name: pa.array([one.get(name) for one in rows], kind) for name, kind in kinds.items()}
    file = table.folder / f"{DAY}=2026-01-01" / f"{uuid4().hex}.parquet"
    file.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), file)
    table.commit([file], {0: TablePosition(last_read=batch)})


@pytest.fixture(params=FORMATS, autouse=True)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    create_lake(tmp_path, request.param)


def told(folder: Path, *shares: float) -> tuple[ErrorTracker, LakeTable]:
    """The errors of batches of 500 outcomes, each with its share of wrong ones, followed while they are added."""
    table, rng = LakeTable(folder, outcomes_table(FRAUD)), np.random.default_rng(1)
    errors = ErrorTracker(table.folder, FRAUD)
    assert not errors.poll_commits()  # there is nothing yet
    table.prepare()
    for batch, share in enumerate(shares):
        add(table, [row(bool(wrong)) for wrong in rng.random(500) < share], batch)
        errors.poll_commits()
    return errors, table


def test_errors_that_become_more_are_suspected_and_confirmed(tmp_path: Path) -> None:
    errors, _ = told(tmp_path, *[0.05] * 8, *[0.4] * 6)
    assert errors.change_counts["confirmed"] >= 1
    assert 0.3 < (errors.error_share("1") or 0) < 0.5


def test_errors_of_one_share_are_no_alarm(tmp_path: Path) -> None:
    errors, _ = told(tmp_path, *[0.2] * 10)
    assert errors.change_counts["confirmed"] == 0


def test_what_is_compacted_is_no_news_and_a_start_knows_what_was_known(tmp_path: Path) -> None:
    errors, table = told(tmp_path, *[0.1] * 4)
    table.format.compact(date(2026, 1, 1), SMALL_FILE_BYTES)
    share = errors.error_share("1")
    assert not errors.poll_commits()
    assert errors.error_share("1") == share
    again = ErrorTracker(table.folder, FRAUD)
    again.poll_commits()
    assert again.error_share("1") == share


def test_an_outcome_counts_once_and_only_the_champions(tmp_path: Path) -> None:
    _, table = told(tmp_path)
    corrected = row(True, state_before="matched", label_before=1.0)
    others = [row(True, role="challenger"), row(True, state_after="pending"), row(True, score=float("nan")), corrected]
    others += [row(True, label_after=None), row(True, score=None), row(True, state_after="orphan", version=None)]
    add(table, [row(False), *others], 0)
    errors = ErrorTracker(table.folder, FRAUD)
    errors.poll_commits()
    assert errors.error_share("1") == 0.0
    assert (errors.error_share("2"), errors.error_share(None)) == (None, None)


def test_a_regression_is_never_right_or_wrong() -> None:
    assert has_tracked_errors(FRAUD)
    assert not has_tracked_errors(model("loss"))
