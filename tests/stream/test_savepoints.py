"""A savepoint has what was committed, is not changed by what comes after, and is gone back to whole."""

import json
from pathlib import Path

import pytest

from headrace.stream.checkpoints import batches_in
from headrace.stream.savepoints import BadSavepoint, make, restore, savepoints


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
    made = make(tmp_path, "good")
    assert made.batches == {"payments/gate": 4, "payments/tiles-1": 1}
    batch(tmp_path, "payments/gate", 5)
    batch(tmp_path, "payments/tiles-2", 0)  # of a view that came later
    remember(tmp_path, "new")
    later = {**files(tmp_path / "checkpoints"), **files(tmp_path / "generations")}
    before = restore(tmp_path, "good")
    assert {**files(tmp_path / "checkpoints"), **files(tmp_path / "generations")} == then
    restore(tmp_path, before.name)
    assert {**files(tmp_path / "checkpoints"), **files(tmp_path / "generations")} == later
    assert [one.name for one in savepoints(tmp_path)][:2] == ["good", before.name]


def test_a_batch_that_is_not_done_is_not_in_it(tmp_path: Path) -> None:
    batch(tmp_path, "payments/gate", 4)
    batch(tmp_path, "payments/gate", 5, done=False)
    make(tmp_path, "good")
    kept = tmp_path / "savepoints/good/checkpoints/payments/gate"
    assert batches_in(kept / "commits") == batches_in(kept / "offsets") == [4]


def test_what_belongs_to_others_is_left_alone(tmp_path: Path) -> None:
    outcomes = tmp_path / "checkpoints" / "fraud.outcomes"
    (outcomes / "commits").mkdir(parents=True)
    (outcomes / "commits" / "7").write_text("v1")
    batch(tmp_path, "payments/gate", 1)
    make(tmp_path, "good")
    restore(tmp_path, "good")
    assert (outcomes / "commits" / "7").exists()


def test_bad_names_and_missing_savepoints_are_refused_with_what_there_is(tmp_path: Path) -> None:
    batch(tmp_path, "payments/gate", 1)
    make(tmp_path, "good")
    for name in ("good", "ls", "../up", ""):
        with pytest.raises(BadSavepoint):
            make(tmp_path, name)
    with pytest.raises(BadSavepoint, match="There are: good"):
        restore(tmp_path, "god")
    unfinished = tmp_path / "savepoints" / "half" / "checkpoints"
    unfinished.mkdir(parents=True)
    assert [one.name for one in savepoints(tmp_path)] == ["good"]
    assert json.loads((tmp_path / "savepoints/good/savepoint.json").read_text())["name"] == "good"
