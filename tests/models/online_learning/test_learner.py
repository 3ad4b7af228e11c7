"""A learner equals River's own run over the same updates in the same order, whenever it started, despite failures."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from river import compose, forest, linear_model, preprocessing, tree

import headrace as hr
from headrace.declare.models.model import Model
from headrace.errors import DeclarationError
from headrace.models.online_learning.learner import InvalidLearnerError, Learner, create_learner, learner_version
from headrace.models.online_learning.online_updates import (
    VERSION_PREFIX,
    OnlineUpdate,
    UpdatePage,
    decode_page,
    encode_page,
)
from tests.models import fraud

NUMBERS = ["payments_1h", "mean_1h", "amount", "online"]


def linear() -> Any:
    return preprocessing.StandardScaler() | linear_model.LogisticRegression()


def with_texts() -> Any:
    texts = compose.SelectType(str) | preprocessing.OneHotEncoder()
    return (compose.SelectType(float) | preprocessing.StandardScaler()) + texts | linear_model.LogisticRegression()


def model(learn: Callable[[], Any] = linear, inputs: list[str] | None = NUMBERS, **settings: Any) -> Model:
    return fraud.model(file=None, learn=learn, inputs=inputs, **settings)


def lessons(count: int, seed: int = 0) -> list[OnlineUpdate]:
    """Vectors as they were served: whole numbers, texts, booleans, nulls."""
    chance = np.random.default_rng(seed)
    found = []
    for number in range(count):
        amount = float(chance.exponential(40))
        mean = None if chance.random() < 0.1 else float(chance.normal(50, 20))
        features = {
            "payments_1h": int(chance.integers(0, 50)), "mean_1h": mean, "largest_1h": None, "share": None, "units": 3,
            "country_1h": str(chance.choice(["FR", "DE"])), "amount": amount, "online": bool(chance.random() < 0.5),
        }  # fmt: skip
        found.append(OnlineUpdate(f"p{number}", features, float(amount > 60)))
    return found


def pages(taught: list[OnlineUpdate], first: int = 0, size: int = 7, epoch: str = "one") -> list[UpdatePage]:
    cut = [taught[place : place + size] for place in range(0, len(taught), size)]
    return [UpdatePage(epoch, first + place * size, 0, 0, (0, 0), tuple(some)) for place, some in enumerate(cut)]


def taught(declared: Model, given: list[UpdatePage], generation: int = 10**6) -> Learner:
    learner = Learner(declared, generation)
    for page in given:
        written = decode_page(encode_page(page))
        assert written is not None
        learner.learn(written)
    return learner


def brute(make: Callable[[], Any], names: list[str], given: list[OnlineUpdate]) -> Any:
    """River alone: of each vector what is known, as a number or a text."""
    river = make()
    for lesson in given:
        river.learn_one(plain(lesson, names), lesson.label == 1.0)
    return river


def plain(lesson: OnlineUpdate, names: list[str]) -> dict[str, Any]:
    known = {name: lesson.features[name] for name in names if lesson.features[name] is not None}
    return {name: value if isinstance(value, str) else float(value) for name, value in known.items()}


def scores(learner: Learner, asked: list[OnlineUpdate]) -> list[float]:
    rows = [[lesson.features[column.name] for column in learner.columns] for lesson in asked]
    return learner.score_rows(rows).tolist()


def expected(river: Any, names: list[str], asked: list[OnlineUpdate]) -> list[float]:
    return [river.predict_proba_one(plain(lesson, names)).get(True, 0.0) for lesson in asked]


@pytest.mark.parametrize(
    ("make", "inputs"),
    [
        (linear, NUMBERS),
        (with_texts, [*NUMBERS, "country_1h"]),
        (lambda: tree.HoeffdingTreeClassifier(grace_period=50), NUMBERS),
        (lambda: forest.ARFClassifier(n_models=3, seed=7), NUMBERS),
    ],
)
def test_it_is_rivers_own_run_over_the_same_lessons(make: Callable[[], Any], inputs: list[str]) -> None:
    given, asked = lessons(600), lessons(50, seed=9)
    learner = taught(model(make, inputs), pages(given))
    found = scores(learner, asked)
    assert found == expected(brute(make, inputs, given), inputs, asked)
    assert len(set(found)) > 1
    assert learner.skipped_count == 0


def test_pages_that_come_again_teach_nothing() -> None:
    given, asked = lessons(100), lessons(20, seed=9)
    once = pages(given)
    again = [*once[:5], *once[3:8], *pages(given, size=10)[:9], *once[8:]]
    assert scores(taught(model(), again), asked) == scores(taught(model(), once), asked)


@pytest.mark.parametrize("count", [1, 99, 100, 150, 199, 200, 201, 299, 300, 470])
def test_whoever_starts_now_is_taught_two_generations_at_most_and_answers_the_same(count: int) -> None:
    given, asked, generation = lessons(500)[:count], lessons(20, seed=9), 100
    begun = max(0, (count - 1) // generation - 1) * generation
    assert count - begun <= 2 * generation
    from_the_first = taught(model(), pages(given), generation)
    started_now = taught(model(), pages(given[begun:], first=begun), generation)
    answer = scores(from_the_first, asked)
    assert answer == scores(started_now, asked) == expected(brute(linear, NUMBERS, given[begun:]), NUMBERS, asked)


def test_lessons_of_other_outcomes_are_learned_from_the_beginning() -> None:
    asked = lessons(20, seed=9)
    learner = taught(model(), [*pages(lessons(50)), *pages(lessons(80, seed=1), epoch="other")])
    assert scores(learner, asked) == expected(brute(linear, NUMBERS, lessons(80, seed=1)), NUMBERS, asked)


@pytest.mark.parametrize("poison", [{"amount": "a text"}, {"amount": [1]}, {"mean_1h": {"a": 1}}])
def test_a_lesson_that_breaks_it_is_as_if_it_had_never_been(poison: dict[str, Any], caplog: Any) -> None:
    given, asked = lessons(60), lessons(20, seed=9)
    broken = [OnlineUpdate(f"bad {number}", {**given[0].features, **poison}, 1.0) for number in range(3)]
    learner = taught(model(), pages([*given[:20], *broken[:2], *given[20:40], broken[2], *given[40:]]))
    assert scores(learner, asked) == expected(brute(linear, NUMBERS, given), NUMBERS, asked)
    assert learner.skipped_count == 3
    assert caplog.text.count("cannot learn from bad 0") == caplog.text.count("cannot learn from") == 1


def test_numbers_beyond_a_float32_are_left_out() -> None:
    given, asked = lessons(60), lessons(20, seed=9)
    great = [OnlineUpdate("great", {**given[0].features, "amount": amount}, 1.0) for amount in (1e308, -1e39, math.nan)]
    without = [OnlineUpdate("less", {**given[0].features, "amount": None}, 1.0)] * 3
    found = scores(taught(model(), pages([*given[:30], *great, *given[30:]])), asked)
    assert found == expected(brute(linear, NUMBERS, [*given[:30], *without, *given[30:]]), NUMBERS, asked)
    assert all(map(math.isfinite, found))


class Mean:
    """Learns the share of the true ones; 13 units make it answer NaN, 666 do from the next lesson on."""

    def __init__(self) -> None:
        self.seen, self.true, self.harm = 0, 0.0, 0.0

    def learn_one(self, features: dict[str, Any], label: bool) -> None:
        self.seen, self.true = self.seen + 1, self.true + label + self.harm
        units = features.get("units")
        self.true, self.harm = (math.nan if units == 13 else self.true), (math.nan if units == 666 else self.harm)

    def predict_proba_one(self, _features: dict[str, Any]) -> dict[bool, float]:
        return {True: self.true / self.seen if self.seen else 0.5}


def test_what_answers_no_number_goes_back_and_what_cannot_go_on_begins_anew() -> None:
    def unit(count: int, label: float = 1.0) -> OnlineUpdate:
        return OnlineUpdate(f"{count} units", {"units": count}, label)

    declared = model(Mean, ["units"])
    given = [unit(1), unit(13), unit(1, 0.0), unit(13), unit(1)]
    learner = taught(declared, pages(given))
    assert (scores(learner, [unit(1)]), learner.skipped_count) == ([pytest.approx(2 / 3)], 2)
    stuck = taught(declared, pages([unit(1), unit(666), *([unit(1)] * 100), unit(1, 0.0), unit(1)]))
    assert (scores(stuck, [unit(1)]), stuck.skipped_count) == ([0.5], 100)


def test_a_vector_that_lacks_an_input_teaches_nothing_and_one_that_fails_has_no_score() -> None:
    given = lessons(30)
    lacking = OnlineUpdate("old", {"amount": 3.0}, 1.0)
    learner = taught(model(), pages([*given, lacking]))
    assert (learner.skipped_count, learner.next_update) == (1, 31)
    good, bad = learner.score_rows([[1, 2.0, 3.0, True], [1, 2.0, "a text", True]])
    assert math.isfinite(good)
    assert math.isnan(bad)


def test_what_is_no_number_is_left_out() -> None:
    learner = taught(model(), pages(lessons(30)))
    holes = [[math.nan, math.inf, 3.0, None], [None, None, 3.0, None]]
    assert learner.score_rows(holes[:1]).tolist() == learner.score_rows(holes[1:]).tolist()


def test_a_number_is_learned_too() -> None:
    stream = hr.Stream("rides", schema="id string, minutes double, at timestamp", id="id", key="id", time="at")
    labels = hr.Labels(stream, value="minutes", within="10m")
    declared = model(lambda: preprocessing.StandardScaler() | linear_model.LinearRegression(), labels=labels)
    given = [OnlineUpdate(one.event_id, one.features, one.features["amount"] * 2) for one in lessons(300)]
    learner = taught(declared, pages(given))
    assert np.corrcoef(scores(learner, given), [one.label for one in given])[0, 1] > 0.9
    with pytest.raises(InvalidLearnerError, match="predict_one"):
        create_learner(model(object, labels=labels))


def test_another_function_or_other_inputs_are_another_version() -> None:
    versions = {learner_version(model()), learner_version(model(with_texts)), learner_version(model(inputs=["amount"]))}
    assert len(versions) == 3
    assert learner_version(model()) in versions
    assert learner_version(model(Mean)) == learner_version(model(Mean))  # wherever in memory it is
    assert all(version.startswith(VERSION_PREFIX) for version in versions)


ONE = linear()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: 1 / 0, "learn= raised ZeroDivisionError"),
        (lambda: ONE, "the same model each time"),
        (lambda: "a model", "Return a new River model"),
        (linear_model.LinearRegression, "predict_proba_one"),
        (lambda: forest.ARFClassifier(n_models=3), "Give it a seed"),
        (linear_model.LogisticRegression, "cannot learn from such as"),
        (lambda: preprocessing.StandardScaler() | linear_model.LinearRegression(), "TypeError|AttributeError"),
    ],
)
def test_what_cannot_learn_is_refused(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(InvalidLearnerError, match=said):
        create_learner(model(make, inputs=None))


def test_declarations_that_cannot_work_are_refused() -> None:
    with pytest.raises(DeclarationError, match="learn='River' is not a function"):
        model("River")  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="learn= needs labels="):
        model(labels=None)
    with pytest.raises(DeclarationError, match="neither file= nor train="):
        model(None)  # type: ignore[arg-type]
    assert model().learns_alone
    assert not fraud.model(lambda frame: frame, learn=linear).learns_alone
