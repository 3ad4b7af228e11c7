"""A retrained model is promoted if it is better in every segment; else it is a challenger, and its card says why."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lightgbm import LGBMClassifier

import headrace as hr
from headrace.declare.models.model import Model
from headrace.declare.models.retraining import Retrain
from headrace.errors import DeclarationError, HeadraceError
from headrace.models.training.training import TrainingConfig
from headrace.models.versions.version_store import VersionStore
from headrace.monitoring.retraining.comparison import ComparisonData, decide_promotion
from headrace.monitoring.retraining.retraining import TrainingFailed, retrain_model
from headrace.monitoring.retraining.training_attempts import AlreadyTrainingError, training_lock
from tests.models import fraud

ANEW = Retrain(better_by=0.01)


def good(frame: Any) -> Any:
    trees = LGBMClassifier(n_estimators=20, n_jobs=1, verbose=-1)
    return trees.fit(frame[fraud.NUMBERS], frame["fraud"])


def bad(frame: Any) -> Any:
    shuffled = frame["fraud"].sample(frac=1, random_state=1).to_numpy()
    return LGBMClassifier(n_estimators=2, n_jobs=1, verbose=-1).fit(frame[fraud.NUMBERS], shuffled)


def raising(_frame: Any) -> Any:
    raise ZeroDivisionError("no rows of interest")


def trained(model: Model, state: Path, rules: Retrain = ANEW) -> Any:
    versions = VersionStore(state, model.name)
    return retrain_model(model, fraud.training_table(), rules, TrainingConfig("at"), versions, "a test"), versions


def test_the_first_is_champion_the_better_takes_over_the_worse_challenges(tmp_path: Path) -> None:
    first, versions = trained(fraud.model(bad), tmp_path)
    assert first.decision.promoted
    assert first.decision.reason == "there was no champion"
    better, _ = trained(fraud.model(good), tmp_path)
    assert better.decision.promoted
    assert better.decision.champion == pytest.approx(0.5, abs=0.2)
    worse, _ = trained(fraud.model(bad), tmp_path)
    assert not worse.decision.promoted
    assert "not better by 0.01" in worse.decision.reason
    now = versions.load_roles()
    assert (now.champion, list(now.challengers)) == (better.card.version, [worse.card.version])
    kept = versions.load_card(worse.card.version).retrained
    assert kept["why"] == "a test"
    assert kept["against"] == "2"
    assert kept["reason"] == worse.decision.reason


def test_one_that_raises_leaves_the_champion(tmp_path: Path) -> None:
    _, versions = trained(fraud.model(good), tmp_path)
    before = versions.load_roles()
    with pytest.raises(TrainingFailed, match=r"ZeroDivisionError: no rows of interest\. Its champion stays live"):
        trained(fraud.model(raising), tmp_path)
    assert versions.load_roles() == before
    assert versions.list_versions() == ["1"]


@pytest.mark.parametrize(
    ("table", "train", "said"),
    [
        (fraud.training_table(9), good, "9 labelled rows are too few"),
        (fraud.training_table(500), lambda frame: None, "train= returned None"),
        (fraud.training_table(500), lambda frame: "fitted", "train= returned 'fitted'"),
        (fraud.training_table(500), lambda frame: LGBMClassifier(), "NotFittedError"),
    ],
)
def test_what_cannot_be_trained_leaves_the_champion(tmp_path: Path, table: Any, train: Any, said: str) -> None:
    _, versions = trained(fraud.model(good), tmp_path)
    with pytest.raises(HeadraceError, match=said):
        retrain_model(fraud.model(train), table, ANEW, TrainingConfig("at"), versions, "a test")
    assert (versions.list_versions(), versions.load_roles().champion) == (["1"], "1")


def test_of_too_few_latest_events_nobody_is_promoted() -> None:
    perfect = match(100, lambda label: label)
    assert decide_promotion(perfect, ANEW).reason == "100 latest labelled events are too few to tell: at_least=200"
    assert decide_promotion(perfect, Retrain(at_least=100)).promoted


def test_a_champion_that_answers_no_number_is_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained(fraud.model(good), tmp_path)
    monkeypatch.setattr(
        "headrace.monitoring.retraining.retraining.score_frame", lambda _scorer, rows: np.full(len(rows), np.nan)
    )
    done, _ = trained(fraud.model(good), tmp_path)
    assert "the champion returns no number for 400 of the latest 400 labelled events" in done.decision.reason
    assert not done.decision.promoted


def test_a_segment_need_not_be_an_input(tmp_path: Path) -> None:
    inputs = [name for name in fraud.model().vector.names if name != "country_1h"]
    declared, versions = fraud.model(good, segments=["country_1h"], inputs=inputs), VersionStore(tmp_path, "fraud")
    for _ in range(2):
        done = retrain_model(declared, fraud.training_table(5_000), ANEW, TrainingConfig("at"), versions, "a test")
    found = {one["segment"] for one in done.decision.segments}
    assert found == {"country_1h = DE", "country_1h = FR", "country_1h = IT"}
    assert set(done.card.reference["amount"]["segments"]) == {"country_1h"}


def test_two_do_not_train_at_once(tmp_path: Path) -> None:
    versions = VersionStore(tmp_path, "fraud")
    with (
        training_lock(versions),
        pytest.raises(AlreadyTrainingError, match="already being retrained"),
        training_lock(versions),
    ):
        pass
    with training_lock(versions):
        pass


def match(rows: int, better: Callable[[Any], Any], segment: Any = None) -> ComparisonData:
    chance = np.random.default_rng(3)
    label = chance.integers(0, 2, rows)
    champion = np.clip(label * 0.2 + chance.uniform(0, 0.8, rows), 0, 1)
    challenger = better(label.astype(float))
    return ComparisonData(
        "classification", label, champion, challenger, {} if segment is None else {"country": segment}
    )


def test_better_on_all_but_worse_in_a_segment_is_refused() -> None:
    country = np.where(np.arange(2000) < 400, "FR", "DE")
    whole = decide_promotion(match(2000, lambda label: label, country), ANEW)
    assert whole.promoted
    assert [one["segment"] for one in whole.segments] == ["country = DE", "country = FR"]
    partly = decide_promotion(match(2000, lambda label: np.where(country == "FR", 1 - label, label), country), ANEW)
    assert not partly.promoted
    assert "but where country = FR it is worse by" in partly.reason
    few = np.where(np.arange(2000) < 100, "FR", "DE")
    assert decide_promotion(match(2000, lambda label: np.where(few == "FR", 1 - label, label), few), ANEW).promoted


def test_what_one_class_cannot_tell_promotes_nobody() -> None:
    alike = ComparisonData("classification", np.zeros(500), np.zeros(500), np.zeros(500), {})
    verdict = decide_promotion(alike, ANEW)
    assert not verdict.promoted
    assert "auc is undefined" in verdict.reason
    assert not decide_promotion(alike, Retrain(by="rmse")).promoted


def test_less_is_better_where_it_is_an_error() -> None:
    label = np.arange(500.0)
    closer = ComparisonData("regression", label, label + 2, label + 1, {})
    assert decide_promotion(closer, Retrain(by="rmse", better_by=0.5)).promoted
    assert not decide_promotion(closer, Retrain(by="rmse", better_by=1.5)).promoted


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"every": "10s"}, "too often"),
        ({"by": "f1"}, "is not a metric"),
        ({"better_by": -1}, "better_by=-1"),
        ({"worse_by": float("nan")}, "worse_by=nan"),
        ({"when": "auc drop"}, "names of alerts"),
        ({"at_least": 0}, "at_least=0"),
        ({"limit": "soon"}, "limit"),
    ],
)
def test_rules_that_cannot_work_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        hr.Retrain(**settings)
