"""Versions are never overwritten, champions change atomically for readers, and hostile files are rejected."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from headrace.errors import HeadraceError
from headrace.models.inference.input_binding import IncompatibleModelError
from headrace.models.inference.onnx_model import ModelLoadFailed
from headrace.models.training.training import TrainingConfig, train_model
from headrace.models.versions.model_card import InvalidModelCardError, ModelCard, read_card
from headrace.models.versions.version_loader import load_champion, load_version
from headrace.models.versions.version_store import InvalidRolesFileError, ModelVersionError, VersionStore
from tests.models.fraud import NUMBERS, model, training_table
from tests.models.networks import summing
from tests.models.training.test_onnx_export import ESTIMATORS

FRAUD = model(ESTIMATORS["LightGBM"], thresholds={"review": 0.5})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModelCard, bytes]:
    versions = VersionStore(tmp_path_factory.mktemp("state"), "fraud")
    card = train_model(FRAUD, training_table(), TrainingConfig("at"), versions)
    return card, versions.load_content(card.version)


@pytest.fixture
def versions(tmp_path: Path, trained: tuple[ModelCard, bytes]) -> VersionStore:
    """Three versions, none of them champion yet."""
    kept = VersionStore(tmp_path, "fraud")
    for _ in range(3):
        kept.add(trained[1], trained[0])
    return kept


def test_training_keeps_a_card_that_tells_what_it_was_made_of(trained: tuple[ModelCard, bytes]) -> None:
    card, _ = trained
    assert [one["name"] for one in card.features] == NUMBERS
    assert {one["of"] for one in card.features} == {"CardSpend", "payments"}
    assert card.window["train"]["to"] < card.window["test"]["from"]
    assert card.rows["train"] + card.rows["embargo"] + card.rows["test"] == 2_000
    assert card.rows["embargo"] > 0
    assert card.thresholds == {"review": 0.5}
    assert card.metrics["auc"] > 0.8
    assert card.reference["mean_1h"]["bins"]["nulls"] == pytest.approx(0.1 * card.rows["train"], rel=0.3)
    assert sum(card.reference["amount"]["bins"]["counts"]) == card.rows["train"]
    assert len(card.reference["amount"]["cuts"]) == 101
    assert len(card.reference["score"]["cuts"]) > 10
    assert sum(one["importance"] for one in card.features) == pytest.approx(1)
    assert card.libraries["lightgbm"]


def test_a_definition_that_changes_has_another_hash(trained: tuple[ModelCard, bytes]) -> None:
    from headrace.models.training.card_description import _describe_feature

    same = [_describe_feature(FRAUD, column) for column in FRAUD.vector if column.name in NUMBERS]
    kept = [{name: one[name] for name in one if name != "importance"} for one in trained[0].features]
    assert sorted(same, key=str) == sorted(kept, key=str)
    longer = replace(FRAUD.views[0].features[0], window=replace(FRAUD.views[0].features[0].window, length_us=1))
    view = replace(FRAUD.views[0], features=(longer, *FRAUD.views[0].features[1:]))
    changed = _describe_feature(model(features=[view]), FRAUD.vector.columns[0])
    assert changed["definition"] != same[0]["definition"]


def test_a_definition_is_the_same_wherever_its_app_lies(tmp_path: Path) -> None:
    from headrace.declare.app import load_app
    from headrace.models.training.card_description import _describe_feature

    def described(folder: Path, table: str) -> str:
        folder.mkdir()
        (folder / table).write_text("card,risk\na,0.5\n")
        app = (Path(__file__).parents[1] / "app.py").read_text()
        app = app.replace(
            "@hr.features", f"cards = hr.Table('{table}', key='card', schema='card string, risk double')\n@hr.features"
        )
        (folder / "app.py").write_text(app.replace("    ratio =", "    risk = cards['risk']\n    ratio ="))
        declared = load_app(str(folder / "app.py")).model("fraud")
        return str(_describe_feature(declared, declared.vector.column("risk", "here"))["definition"])

    assert described(tmp_path / "one", "cards.csv") == described(tmp_path / "two", "cards.csv")
    assert described(tmp_path / "three", "others.csv") != described(tmp_path / "four", "cards.csv")


def test_the_first_version_is_the_champion_and_later_ones_wait(tmp_path: Path) -> None:
    versions = VersionStore(tmp_path, "fraud")
    for _ in range(2):
        train_model(FRAUD, training_table(500), TrainingConfig("at"), versions)
    assert (versions.list_versions(), versions.load_roles().champion) == (["1", "2"], "1")
    assert load_champion(FRAUD, tmp_path).version == "1"


def test_versions_that_are_added_at_once_all_stay(versions: VersionStore, trained: tuple[ModelCard, bytes]) -> None:
    with ThreadPoolExecutor(8) as threads:
        added = list(threads.map(lambda _: versions.add(trained[1], trained[0]).version, range(40)))
    assert sorted(added, key=int) == [str(number) for number in range(4, 44)]
    assert all(versions.load_card(name).version == name for name in versions.list_versions())
    assert not list(versions.folder.glob(".draft-*"))


def test_promote_and_rollback_go_to_and_fro(versions: VersionStore) -> None:
    for version in ("1", "3", "3", "2"):
        versions.promote(version)
    assert versions.load_roles().earlier == ("1", "3")
    assert versions.rollback().champion == "3"
    assert versions.rollback().champion == "1"
    with pytest.raises(ModelVersionError, match="no champion before 1 to go back to"):
        versions.rollback()
    done = [(one["did"], one["version"]) for one in versions.load_roles().history]
    assert done == [("promote", "1"), ("promote", "3"), ("promote", "2"), ("rollback", "3"), ("rollback", "1")]


def test_a_challenger_that_becomes_champion_challenges_no_more(versions: VersionStore) -> None:
    with pytest.raises(ModelVersionError, match="no champion to challenge"):
        versions.add_challenger("2")
    versions.promote("1")
    versions.add_challenger("2", 0.1)
    versions.promote("3")
    assert versions.add_challenger("1").challengers == {"2": 0.1, "1": 0.0}
    assert versions.rollback() == versions.load_roles()
    assert (versions.load_roles().champion, versions.load_roles().challengers) == ("1", {"2": 0.1})


def test_a_champions_file_of_before_there_were_challengers_is_read(versions: VersionStore) -> None:
    versions.roles_file.write_text('{"champion": "2", "earlier": ["1"], "history": []}')
    assert versions.load_roles().challengers == {}
    assert versions.rollback().champion == "1"


def test_readers_always_find_a_whole_champion_while_it_changes(versions: VersionStore) -> None:
    versions.promote("1")
    stop, read = Event(), list[str]()

    def read_on() -> None:
        while not stop.is_set():
            champion = VersionStore(versions.folder.parents[1], "fraud").load_roles().champion
            assert champion is not None
            assert versions.load_content(champion)
            read.append(champion)

    with ThreadPoolExecutor(5) as threads:
        readers = [threads.submit(read_on) for _ in range(2)]
        writers = [threads.submit(_change, versions) for _ in range(2)]
        for writer in writers:
            writer.result()
        stop.set()
        for reader in readers:
            reader.result()
    assert set(read) <= {"1", "2", "3"}
    assert len(read) > 10
    changes = versions.load_roles().history
    assert len(changes) > 30
    assert all(one["version"] != other["version"] for one, other in pairwise(changes))


def _change(versions: VersionStore) -> None:
    for number in range(50):
        versions.promote(str(2 + number % 2))
        if number % 5 == 4:
            versions.rollback()


@pytest.mark.parametrize("version", ["4", "0", "", "..", "../fraud/1", "1/", "/etc", "１", "1\n"])
def test_only_a_version_that_is_there_can_be_named(versions: VersionStore, version: str) -> None:
    with pytest.raises(ModelVersionError, match="There is 1, 2, 3"):
        versions.promote(version)


CHAMPIONS = [
    b"", b"{", b"[]", b"null", b'"1"', b"{}", b"\xff\xfe", b"[" * 100_000, b" " * (2 << 20),
    b'{"champion": "../../x", "earlier": [], "history": []}',
    b'{"champion": 1, "earlier": [], "history": []}',
    b'{"champion": null, "earlier": [], "history": []}',
    b'{"champion": "1", "earlier": ["../1"], "history": []}',
    b'{"champion": "1", "earlier": 5, "history": []}',
    b'{"champion": "1", "earlier": [], "history": ["x"]}',
    b'{"champion": "1", "earlier": [], "history": [], "challengers": 5}',
    b'{"champion": "1", "earlier": [], "history": [], "challengers": {"../2": 0}}',
    b'{"champion": "1", "earlier": [], "history": [], "challengers": {"1": 0}}',
    b'{"champion": "1", "earlier": [], "history": [], "challengers": {"2": 1.5}}',
    b'{"champion": "1", "earlier": [], "history": [], "challengers": {"2": NaN}}',
    b'{"champion": "1", "earlier": [], "history": [], "challengers": {"2": true}}',
    b'{"champion": "1", "earlier": [], "history": [], "challengers": {"2": 0.1, "3": 0.1}}',
]  # fmt: skip


@pytest.mark.parametrize("written", CHAMPIONS, ids=range(len(CHAMPIONS)))
def test_a_file_that_names_no_champion_is_refused(versions: VersionStore, written: bytes) -> None:
    versions.promote("1")
    (versions.folder / "champion.json").write_bytes(written)
    with pytest.raises(InvalidRolesFileError, match=r"Remove it, then run headrace models promote"):
        versions.load_roles()


def _changed(**changes: Any) -> Any:
    return lambda card: card | changes


CARDS: list[tuple[str, Any]] = [
    ("not JSON", lambda _: "{"),
    ("a list", lambda card: [card]),
    ("deep", lambda _: "[" * 100_000),
    ("huge", lambda card: card | {"estimator": "x" * (5 << 20)}),
    ("without its hash", lambda card: {name: value for name, value in card.items() if name != "sha256"}),
    ("with more", _changed(__class__="x")),
    ("a number for a text", _changed(model=5)),
    ("a text for a number", _changed(largest_difference="0")),
    ("a list for an object", _changed(reference=[])),
    ("features that are texts", _changed(features=["amount"])),
    ("another format", _changed(format=2)),
    ("another model", _changed(model="other")),
    ("another version", _changed(version="2")),
]


@pytest.mark.parametrize("change", [one[1] for one in CARDS], ids=[one[0] for one in CARDS])
def test_a_hostile_card_is_refused(versions: VersionStore, change: Any) -> None:
    file = versions.folder / "1" / "card.json"
    changed = change(json.loads(file.read_text()))
    file.write_text(changed if isinstance(changed, str) else json.dumps(changed))
    with pytest.raises(InvalidModelCardError, match=r"(Train the model|train) again"):
        versions.promote("1")
    assert versions.load_roles().champion is None


def test_a_card_is_read_as_it_was_written(versions: VersionStore) -> None:
    card = versions.load_card("2")
    assert read_card(versions.folder / "2" / "card.json") == card
    assert json.loads(card.to_json())["version"] == "2"


def test_another_model_under_a_card_is_refused(versions: VersionStore) -> None:
    (versions.folder / "1" / "model.onnx").write_bytes(summing(2))
    with pytest.raises(ModelLoadFailed, match="not the file its card was written for"):
        load_version(FRAUD, versions.folder.parents[1], "1")


def test_a_version_that_no_longer_fits_its_declaration_is_refused(versions: VersionStore) -> None:
    narrower = model(ESTIMATORS["LightGBM"], fields=["amount"])
    with pytest.raises(IncompatibleModelError, match="version 1 asks for 'units'"):
        load_version(narrower, versions.folder.parents[1], "1")


def test_a_declared_file_is_its_own_champion(tmp_path: Path) -> None:
    declared = model(file=str(tmp_path / "fraud.onnx"), inputs=["payments_1h", "amount"])
    with pytest.raises(HeadraceError, match=r"cannot be read: No such file.*Put the ONNX file there"):
        load_champion(declared, tmp_path)
    (tmp_path / "fraud.onnx").write_bytes(summing(2))
    loaded = load_champion(declared, tmp_path)
    assert len(loaded.version) == 12
    assert loaded.scorer.score_rows([[1, 2.0]]).tolist() == [3.0]


def test_a_model_without_a_champion_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ModelVersionError, match="headrace train APP fraud --spine FILE"):
        load_champion(FRAUD, tmp_path)
