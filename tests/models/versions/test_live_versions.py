"""Scorers follow promotions in one step; an unfit version never scores, and is reported."""

import logging
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from onnx import helper
from river import linear_model, preprocessing

from headrace.declare.models.model import Model
from headrace.models.inference.input_binding import IncompatibleModelError
from headrace.models.online_learning.learner import create_learner
from headrace.models.online_learning.learner_replica import LearnerNotReadyError
from headrace.models.versions.live_versions import LiveVersions, TrafficSplit, VersionWatcher
from headrace.models.versions.version_loader import LoadedVersion, load_version
from headrace.models.versions.version_store import ModelVersionError, VersionStore
from tests.models.cards import versions_of
from tests.models.fraud import model
from tests.models.inference.test_input_binding import node
from tests.models.networks import FLOAT, INT64, hanging, network, offset, summing
from tests.waiting import LEAST_S

FRAUD = model(inputs=["payments_1h", "amount"])
ROW = [3, 0.5]


def until(holds: Callable[[], bool], within_s: float = LEAST_S) -> None:
    limit = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < limit, "waited in vain"
        time.sleep(0.002)


def scored(lineup: VersionWatcher) -> float:
    return float(lineup.live_versions.champion.scorer.score_rows([ROW])[0])


@pytest.fixture
def versions(tmp_path: Path) -> VersionStore:
    return versions_of(tmp_path, *(offset(1_000 * number) for number in range(1, 4)))


@pytest.fixture
def lineup(tmp_path: Path, versions: VersionStore) -> Iterator[VersionWatcher]:
    kept = VersionWatcher.load(FRAUD, tmp_path)
    kept.start(poll_s=0.002)
    yield kept
    kept.stop()


def test_what_is_promoted_takes_over_and_who_holds_a_standing_keeps_it(
    versions: VersionStore, lineup: VersionWatcher
) -> None:
    before = lineup.live_versions
    versions.promote("2")
    until(lambda: lineup.live_versions.champion.version == "2")
    assert (scored(lineup), before.champion.version) == (2003.5, "1")
    assert before.champion.scorer.score_rows([ROW]).tolist() == [1003.5]
    versions.rollback()
    until(lambda: lineup.live_versions.champion is not before.champion and lineup.live_versions.champion.version == "1")


def test_a_lineup_that_was_stopped_stays_as_it_is(versions: VersionStore, lineup: VersionWatcher) -> None:
    lineup.stop()
    versions.promote("2")
    assert lineup.live_versions.champion.version == "1"
    lineup.refresh()
    assert lineup.live_versions.champion.version == "2"


TWO = [("features", FLOAT, [None, 2])]
UNFIT = {
    "answers NaN": (
        network([node("Div", ["features", "features"], ["y"])], TWO, [("y", FLOAT, [None, 2])]),
        "answers nan to a row of zeros",
    ),
    "is too wide": (summing(3), "takes 3 columns"),
    "hangs": (hanging(above=1), "has not answered a row of ones within 3 s: it hangs"),
    "is no model": (b"not onnx", "is not a model onnxruntime can run"),
    "takes one row alone": (
        network(
            [node("Reshape", ["features", "shape"], ["y"])],
            TWO,
            [("y", FLOAT, [None, 2])],
            [helper.make_tensor("shape", INT64, [2], [1, 2])],
        ),
        "fails on several rows at once",
    ),
}


@pytest.mark.parametrize("unfit", UNFIT)
def test_the_version_before_goes_on_where_the_one_promoted(
    unfit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("headrace.models.inference.scorer.TRIAL_TIMEOUT_S", 3.0)
    content, said = UNFIT[unfit]
    versions = versions_of(tmp_path, offset(1_000), content, offset(3_000))
    lineup = VersionWatcher.load(FRAUD, tmp_path)
    lineup.start(poll_s=0.002)
    versions.promote("2")
    until(lambda: lineup.error is not None)
    assert lineup.error is not None
    assert lineup.error.startswith("Version 1 stays live: Model 'fraud' version 2")
    assert said in lineup.error
    assert scored(lineup) == 1003.5
    versions.promote("3")
    until(lambda: lineup.live_versions.champion.version == "3")
    until(lambda: lineup.error is None)
    lineup.stop()
    assert [one.levelno for one in caplog.records if one.name == "headrace.models.versions.live_versions"] == [
        logging.WARNING
    ]


def test_a_version_or_a_champion_that_is_gone_is_told_of(versions: VersionStore, tmp_path: Path) -> None:
    lineup = VersionWatcher.load(FRAUD, tmp_path)
    (versions.folder / "2" / "model.onnx").unlink()
    versions.promote("2")
    lineup.refresh()
    assert "No such file" in str(lineup.error)
    versions.roles_file.write_text("{")
    lineup.refresh()
    assert "does not say who is champion" in str(lineup.error)
    versions.roles_file.unlink()
    lineup.refresh()
    assert "has no champion" in str(lineup.error)
    assert scored(lineup) == 1003.5


def test_what_was_in_trouble_is_tried_again(
    versions: VersionStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lineup, file = VersionWatcher.load(FRAUD, tmp_path), versions.folder / "2" / "model.onnx"
    content = file.read_bytes()
    file.unlink()
    monkeypatch.setattr("headrace.models.versions.live_versions.RETRY_S", 0)
    versions.promote("2")
    lineup.refresh()
    assert lineup.error is not None
    file.write_bytes(content)
    lineup.refresh()
    assert (lineup.error, scored(lineup)) == (None, 2003.5)


def test_a_declared_file_is_taken_over_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "fraud.onnx"
    file.write_bytes(offset(1_000))
    lineup = VersionWatcher.load(model(file=str(file), inputs=["payments_1h", "amount"]), tmp_path)
    first = lineup.live_versions.champion
    write_long_ago(file, offset(1_000), 50)
    lineup.refresh()
    assert lineup.live_versions.champion is first
    file.write_bytes(offset(2_000)[:50])
    lineup.refresh()
    assert (lineup.error, lineup.live_versions.champion) == (None, first), "it may still be being copied"
    write_long_ago(file, offset(2_000)[:50], 40)
    lineup.refresh()
    assert "is not a model onnxruntime can run" in str(lineup.error)
    assert lineup.live_versions.champion is first
    write_long_ago(file, offset(2_000), 30)
    lineup.refresh()
    assert (lineup.error, scored(lineup)) == (None, 2003.5)
    assert lineup.live_versions.champion.version != first.version
    file.unlink()
    lineup.refresh()
    assert "Put the ONNX file there" in str(lineup.error)
    assert scored(lineup) == 2003.5


def write_long_ago(file: Path, content: bytes, seconds: float) -> None:
    file.write_bytes(content)
    os.utime(file, (time.time() - seconds, time.time() - seconds))


def test_challengers_come_and_go_with_their_shares(versions: VersionStore, tmp_path: Path) -> None:
    lineup = VersionWatcher.load(FRAUD, tmp_path)
    champion = lineup.live_versions.champion
    versions.add_challenger("2")
    versions.add_challenger("3", 0.25)
    lineup.refresh()
    standing = lineup.live_versions
    assert [one.version for one in standing.challengers] == ["2", "3"]
    assert standing.champion is champion
    answered = [standing.version_for_key(f"c{number}").version for number in range(4_000)]
    assert set(answered) == {"1", "3"}
    assert answered.count("3") / 4_000 == pytest.approx(0.25, abs=0.03)
    versions.promote("3")
    lineup.refresh()
    assert lineup.live_versions.champion is standing.challengers[1], "what is loaded is not loaded again"
    assert [one.version for one in lineup.live_versions.challengers] == ["2"]
    assert lineup.live_versions.version_for_key("c1").version == "3"
    versions.remove_challenger("2")
    lineup.refresh()
    assert lineup.live_versions.challengers == ()


def test_a_challenger_that_is_unfit_does_not_touch_the_champion(tmp_path: Path) -> None:
    versions = versions_of(tmp_path, offset(1_000), summing(3), offset(3_000))
    versions.add_challenger("2", 0.5)
    versions.add_challenger("3")
    lineup = VersionWatcher.load(FRAUD, tmp_path)
    assert "version 2: its input 'features' takes 3 columns" in str(lineup.error)
    assert [one.version for one in lineup.live_versions.challengers] == ["3"]
    assert {lineup.live_versions.version_for_key(f"c{number}").version for number in range(100)} == {"1"}


def split(loaded: LoadedVersion, share: float, name: str = "fraud") -> set[str]:
    standing = LiveVersions(loaded, (), TrafficSplit(loaded, share, name))
    assert standing.split is not None
    return {key for key in map(str, range(2_000)) if standing.split.includes_key(key)}


def test_a_greater_share_keeps_the_keys_of_a_smaller_one(versions: VersionStore, tmp_path: Path) -> None:
    loaded = load_version(FRAUD, tmp_path, "2")
    taken = [split(loaded, share) for share in (0.0, 0.001, 0.1, 0.2, 0.9, 1.0)]
    assert all(smaller <= greater for smaller, greater in pairwise(taken))
    assert (len(taken[0]), len(taken[-1])) == (0, 2_000)
    assert len(taken[2]) == pytest.approx(200, abs=50)
    assert sorted(taken[1]) == ["1472", "817"], "a key's place never changes"
    other = split(load_version(FRAUD, tmp_path, "3"), 0.1)
    assert len(taken[2] & other) < 50, "another challenger has other keys"
    assert len(taken[2] & split(loaded, 0.1, "other")) < 50


@pytest.mark.parametrize("key", ["", "é", "\ud800", "x" * 100_000, "1\n2"])
def test_every_text_has_a_place(versions: VersionStore, tmp_path: Path, key: str) -> None:
    loaded = load_version(FRAUD, tmp_path, "2")
    assert TrafficSplit(loaded, 1.0, "fraud").includes_key(key)
    assert not TrafficSplit(loaded, 0.0, "fraud").includes_key(key)


def test_a_hundred_changes_under_load_mix_nothing(versions: VersionStore, lineup: VersionWatcher) -> None:
    """Each score is exactly what the version it names gives for that vector."""
    stop = Event()

    def score_on(seed: int) -> dict[str, int]:
        chance, seen = np.random.default_rng(seed), dict[str, int]()
        while not stop.is_set():
            rows = chance.integers(0, 100, (3, 2)).astype(float)
            champion = lineup.live_versions.champion
            scores = champion.scorer.score_rows(rows.tolist(), timeout_s=5.0)
            assert scores.tolist() == (rows.sum(axis=1) + 1_000 * int(champion.version)).tolist()
            seen[champion.version] = seen.get(champion.version, 0) + 1
        return seen

    with ThreadPoolExecutor(4) as threads:
        scoring = [threads.submit(score_on, seed) for seed in range(4)]
        try:
            for number in range(50):
                follow(lineup, versions.promote(str(2 + number % 2)).champion)
                follow(lineup, versions.rollback().champion)
        finally:
            stop.set()
        seen = [one.result() for one in scoring]
    assert len(versions.load_roles().history) == 101
    assert lineup.error is None
    assert all(set(one) == {"1", "2", "3"} for one in seen), seen


def follow(lineup: VersionWatcher, champion: str | None) -> None:
    until(lambda: lineup.live_versions.champion.version == champion)


def test_there_is_no_lineup_without_a_champion(tmp_path: Path) -> None:
    with pytest.raises(ModelVersionError, match="Train one"):
        VersionWatcher.load(FRAUD, tmp_path)
    versions_of(tmp_path, summing(3))
    with pytest.raises(IncompatibleModelError, match="takes 3 columns"):
        VersionWatcher.load(FRAUD, tmp_path)


class Taught:
    """A learner that has replayed its past once the test says so."""

    def __init__(self, declared: Model) -> None:
        self.is_ready, self._learner = False, create_learner(declared)

    @property
    def loaded_version(self) -> LoadedVersion:
        if not self.is_ready:
            raise LearnerNotReadyError("still learns")
        return self._learner.loaded_version


def online() -> Any:
    return preprocessing.StandardScaler() | linear_model.LogisticRegression()


def test_what_learns_stands_beside_the_champion_once_it_is_ready_and_stays(
    tmp_path: Path, versions: VersionStore
) -> None:
    declared = model(inputs=["payments_1h", "amount"], learn=online)
    learning: Any = Taught(declared)
    lineup = VersionWatcher.load(declared, tmp_path, learning)
    assert lineup.live_versions.challengers == ()
    learning.is_ready = True
    lineup.refresh()
    assert lineup.live_versions.challengers == (learning.loaded_version,)
    versions.add_challenger("3", 0.5)
    versions.promote("2")
    lineup.refresh()
    standing = lineup.live_versions
    assert [standing.champion.version, *(one.version for one in standing.challengers)] == [
        "2",
        "3",
        learning.loaded_version.version,
    ]
    assert standing.split is not None
    assert standing.split.challenger.version == "3"
    lineup.refresh()
    assert lineup.live_versions is standing


def test_what_learns_alone_is_the_champion_once_it_is_ready(tmp_path: Path) -> None:
    declared = model(file=None, inputs=["payments_1h", "amount"], learn=online)
    learning: Any = Taught(declared)
    with pytest.raises(LearnerNotReadyError):
        VersionWatcher.load(declared, tmp_path, learning)
    learning.is_ready = True
    lineup = VersionWatcher.load(declared, tmp_path, learning)
    lineup.refresh()
    assert lineup.live_versions == LiveVersions(learning.loaded_version)
    assert lineup.error is None
