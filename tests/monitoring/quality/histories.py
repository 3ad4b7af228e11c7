"""Random histories of predictions: scores, states and labels that arrive, change and go, and their final state."""

import random
from dataclasses import dataclass, field
from typing import Any

import headrace as hr
from headrace.declare.models.metrics import MINUTE_US

THRESHOLDS = {"review": 0.25, "block": 0.9}
COSTS = {"false_positive": 1, "false_negative": 20, "true_positive": -2}
HOSTILE_SCORES = [None, float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1.0, 5e-324, -1e-300, 1.0000000001, 0.25,
                  0.9, 0.8999999999999999, 0.005, 0.995, 1e-6, 0.5, 0.05, 0.95, 2.0]  # fmt: skip
HOSTILE_NUMBERS = [None, float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 1e200, 5e-324, 0.0, -0.0, 1e16, 1.0]

events = hr.Stream(
    "events", schema="id string, country string, amount double, at timestamp", id="id", key="id", time="at"
)
told = hr.Stream("told", schema="id string, fraud boolean, loss double, at timestamp", id="id", key="id", time="at")


@hr.features(events, by="country")
class Country:
    events = hr.count(windows="1h")


def fit(frame: Any) -> Any:
    raise AssertionError("no test trains this model")


def model(value: str = "fraud", **settings: Any) -> hr.Model:
    """A model of booleans (`fraud`) or of doubles (`loss`)."""
    of_classes = {"thresholds": THRESHOLDS, "costs": COSTS} if value == "fraud" else {}
    labels = hr.Labels(told, value=value, within="30m")
    given: dict[str, Any] = {"labels": labels, "fields": ["country"], "segments": ["country"]} | of_classes | settings
    return hr.Model("fraud", on=events, features=[Country], train=fit, **given)


@dataclass
class Life:
    """One prediction, or one label without: its states one after the other, None where it is not there (any more)."""

    version: str
    role: str
    country: str | None
    minute: int
    score: float | None
    delay_us: int
    states: list[tuple[str | None, Any]] = field(default_factory=list)

    @property
    def end(self) -> tuple[str | None, Any]:
        return self.states[-1] if self.states else (None, None)

    def changes(self) -> list[dict[str, Any]]:
        befores = [(None, None), *self.states[:-1]]
        return [self._change(before, after) for before, after in zip(befores, self.states, strict=False)]

    def _change(self, before: tuple[str | None, Any], after: tuple[str | None, Any]) -> dict[str, Any]:
        is_matched = "matched" in {before[0], after[0]}
        return {
            "version": self.version,
            "role": self.role,
            "segment": None if self.country is None else f'{{"country":"{self.country}"}}',
            "minute_us": self.minute * MINUTE_US,
            "score": self.score,
            "state_before": before[0],
            "label_before": before[1],
            "state_after": after[0],
            "label_after": after[1],
            "label_delay_us": self.delay_us if is_matched else None,
        }


def lives(chance: random.Random, how_many: int, task: str) -> list[Life]:
    """Lives of one model: some scores hostile, some labels all of one class, some missing, some retracted."""
    positives = chance.choice([0.0, 0.02, 0.3, 0.5, 1.0])
    return [_life(chance, task, positives) for _ in range(how_many)]


def _life(chance: random.Random, task: str, positives: float) -> Life:
    is_orphan = chance.random() < 0.05
    made = Life(
        version="" if is_orphan else chance.choice(["1", "2"]),
        role="" if is_orphan else chance.choice(["champion", "champion", "challenger"]),
        country=chance.choice(["FR", "DE", None]),
        minute=chance.randrange(60),
        score=_score(chance, task),
        delay_us=chance.choice([-5, 0, 999_999, 1_000_000, chance.randrange(10**13)]),
    )
    label = (lambda: float(chance.random() < positives)) if task == "classification" else (lambda: _number(chance))
    if is_orphan:
        made.states = [("orphan", None), *([(None, None)] if chance.random() < 0.5 else [])]
        return made
    made.states = [("pending", None)] if chance.random() < 0.8 else []
    for _ in range(chance.choice([0, 1, 1, 1, 2, 3])):
        made.states.append(chance.choice([("matched", label()), ("matched", label()), ("defaulted", label())]))
    if chance.random() < 0.1:
        made.states.append(chance.choice([("expired", None), ("pending", None), (None, None)]))
    return made


def _score(chance: random.Random, task: str) -> float | None:
    if task == "regression":
        return _number(chance)
    if chance.random() < 0.2:
        return chance.choice(HOSTILE_SCORES)
    return chance.choice([chance.random(), chance.betavariate(0.1, 5), round(chance.random(), 2)])


def _number(chance: random.Random) -> float | None:
    return chance.choice(HOSTILE_NUMBERS) if chance.random() < 0.1 else chance.gauss(0, 10 ** chance.randrange(-3, 6))
