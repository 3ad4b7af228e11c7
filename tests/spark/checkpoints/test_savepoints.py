"""A savepoint has the committed state, is not changed by later batches, and is restored as a whole."""

import json
import os
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace.cli import main
from headrace.spark.checkpoints.checkpoint_files import list_batch_ids
from headrace.spark.checkpoints.savepoints import SavepointError, create_savepoint, list_savepoints, restore_savepoint


def batch(state: Path, query: str, number: int, *, done: bool = True) -> None:
    """A batch as Spark leaves it: planned, its state written, committed."""
    checkpoint = state / "checkpoints" / query
    for name in ("offsets", "state/0/0", *(["commits"] if done else [])):
        (checkpoint / name).mkdir(parents=True, exist_ok=True)
    (checkpoint / "metadata").write_text("id")
    (checkpoint / "offsets" / str(number)).write_text(f"to {number}")
    (checkpoint / "state/0/0" / f"{number}.zip").write_text(f"state {number}")
    if done:
        (checkpoint / "commits" / str(number)).write_text("v1")


def files(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


def remember(state: Path, words: str) -> None:
    (state / "generations").mkdir(exist_ok=True)
    (state / "generations" / "payments.json").write_text(words)


def test_going_back_is_being_where_it_was_and_what_was_left_can_be_gone_back_to_as_well(tmp_path: Path) -> None:
    remember(tmp_path, "old")
    batch(tmp_path, "payments/gate", 4)
    batch(tmp_path, "payments/tiles-1", 1)
    then = {**files(tmp_path / "checkpoints"), **files(tmp_path / "generations")}
    made = create_savepoint(tmp_path, "good")
    assert made.batches == {"payments/gate": 4, "payments/tiles-1": 1}
    batch(tmp_path, "payments/gate", 5)
    batch(tmp_path, "payments/tiles-2", 0)  # of a view that came later
    remember(tmp_path, "new")
    later = {**files(tmp_path / "checkpoints"), **files(tmp_path / "generations")}
    before = restore_savepoint(tmp_path, "good")
    assert {**files(tmp_path / "checkpoints"), **files(tmp_path / "generations")} == then
    restore_savepoint(tmp_path, before.name)
    assert {**files(tmp_path / "checkpoints"), **files(tmp_path / "generations")} == later
    assert [one.name for one in list_savepoints(tmp_path)][:2] == ["good", before.name]


def test_a_batch_that_is_not_done_is_not_in_it(tmp_path: Path) -> None:
    batch(tmp_path, "payments/gate", 4)
    batch(tmp_path, "payments/gate", 5, done=False)
    create_savepoint(tmp_path, "good")
    kept = tmp_path / "savepoints/good/checkpoints/payments/gate"
    assert list_batch_ids(kept / "commits") == list_batch_ids(kept / "offsets") == [4]


def test_what_belongs_to_others_is_left_alone(tmp_path: Path) -> None:
    outcomes = tmp_path / "checkpoints" / "fraud.outcomes"
    (outcomes / "commits").mkdir(parents=True)
    (outcomes / "commits" / "7").write_text("v1")
    batch(tmp_path, "payments/gate", 1)
    create_savepoint(tmp_path, "good")
    restore_savepoint(tmp_path, "good")
    assert (outcomes / "commits" / "7").exists()


def test_bad_names_and_missing_savepoints_are_refused_with_what_there_is(tmp_path: Path) -> None:
    batch(tmp_path, "payments/gate", 1)
    create_savepoint(tmp_path, "good")
    for name in ("good", "ls", "../up", ""):
        with pytest.raises(SavepointError):
            create_savepoint(tmp_path, name)
    with pytest.raises(SavepointError, match="There are: good"):
        restore_savepoint(tmp_path, "god")
    unfinished = tmp_path / "savepoints" / "half" / "checkpoints"
    unfinished.mkdir(parents=True)
    assert [one.name for one in list_savepoints(tmp_path)] == ["good"]
    assert json.loads((tmp_path / "savepoints/good/savepoint.json").read_text())["name"] == "good"


APP = """
import headrace as hr

payments = hr.Stream(
    "payments", schema="id string, card string, at timestamp, amount double", id="id", key="card", time="at"
)


@hr.features(payments, by="card")
class Spend:
    n = hr.count(windows="1h")


spend = hr.windowed("spend", payments, by="card", over=hr.Tumbling("1m"), total=hr.sum("amount")).out
"""


@pytest.fixture
def app(tmp_path: Path) -> str:
    file = tmp_path / "app.py"
    file.write_text(APP)
    return str(file)


def savepoint(app: str, *words: str) -> Result:
    return CliRunner().invoke(main, ["savepoint", app, *words])


def test_a_savepoint_of_queries_that_are_down_names_their_last_commit_and_what_it_is_without(
    app: str, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    batch(state, "payments/gate", 41)
    batch(state, "payments/tiles-1", 7)
    batch(state, "spend/operation-1", 0, done=False)  # its part ended within its first batch
    os.utime(state / "checkpoints/payments/tiles-1/commits/7", (1_700_000_000, 1_700_000_000))
    done = savepoint(app, "before", "--state", str(state))
    assert done.exit_code == 0, done.output
    assert "payments/gate at batch 41, payments/tiles-1 at batch 7 of 2023-11-14T22:13:20+00:00" in done.output
    assert "without spend/gate, spend/operation-1: nothing committed yet; starts at the earliest offset" in done.output
    (told,) = json.loads(savepoint(app, "ls", "--state", str(state), "--json").output)
    assert told["missing"] == ["spend/gate", "spend/operation-1"]
    restore_savepoint(state, "before")
    assert not (state / "checkpoints" / "spend" / "operation-1").exists() or not list_batch_ids(
        state / "checkpoints" / "spend" / "operation-1" / "commits"
    )


def test_a_savepoint_of_an_app_that_has_committed_nothing_is_refused_and_leaves_nothing(
    app: str, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    batch(state, "payments/gate", 0, done=False)
    for folder in (tmp_path / "elsewhere", state):
        refused = savepoint(app, "early", "--state", str(folder))
        assert refused.exit_code != 0
        assert f"There is nothing to keep in '{folder}'" in refused.output
        assert "Traceback" not in refused.output
        assert not (folder / "savepoints").exists()


def test_a_broken_checkpoint_is_refused_with_what_is_missing(tmp_path: Path) -> None:
    batch(tmp_path, "payments/gate", 4)
    (tmp_path / "checkpoints/payments/gate/offsets/4").unlink()
    with pytest.raises(SavepointError, match="has committed batch 4 and no offsets/4: its checkpoint is broken"):
        create_savepoint(tmp_path, "bad")
    assert list_savepoints(tmp_path) == []


def test_a_savepoint_of_a_query_that_commits_faster_than_it_is_linked_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, linked = os.link, count(1)
    for done in range(60):
        batch(tmp_path, "payments/gate", done)

    def link_while_it_goes_on(file: Path, into: Path) -> None:
        if (number := next(linked)) % 5 == 0:  # a batch has three files: linking is quicker, though not by much
            batch(tmp_path, "payments/gate", 59 + number // 5)
        link(file, into)

    monkeypatch.setattr(os, "link", link_while_it_goes_on)
    made = create_savepoint(tmp_path, "quick")
    kept = tmp_path / "savepoints/quick/checkpoints/payments/gate"
    assert max(list_batch_ids(kept / "commits")) == made.batches["payments/gate"]
    assert (kept / "state/0/0" / f"{made.batches['payments/gate']}.zip").exists()
