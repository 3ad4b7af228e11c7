"""Declared metrics: their values, and for every mistake an error with the remedy."""

from collections.abc import Callable
from typing import Any

import pytest

import headrace as hr
from headrace.declare.models.costs import Costs
from headrace.declare.models.metrics import Metric
from tests.declare.test_models import assert_refused, model, told

CLASSES = hr.Labels(told, value="fraud", within="30m", default=False)
HOUR_US = 3_600_000_000


def classifier(**settings: Any) -> hr.Model:
    given = {"labels": CLASSES, "thresholds": {"review": 0.5, "block": 0.9}, "segments": ["country_1h"]} | settings
    return model(**given)


regression = model(labels=hr.Labels(told, value="loss", within="1h"), name="loss")


def test_a_metric_is_a_value_that_reads_as_it_was_written() -> None:
    asked = classifier().precision("1h", at="block", segment={"country_1h": "FR"})
    assert asked == Metric("fraud", "precision", HOUR_US, (("country_1h", "FR"),), "block")
    assert hash(asked) == hash(classifier().precision("60m", at="block", segment={"country_1h": "FR"}))
    assert asked.text == "fraud.precision('1h', at='block', segment={'country_1h': 'FR'})"
    assert classifier().auc("1d", estimated=True).text == "fraud.auc('1d', estimated=True)"


@pytest.mark.parametrize("estimated", [False, True])
def test_every_metric_of_a_classification_can_be_asked_for(estimated: bool) -> None:
    asked = classifier(costs={"false_negative": 20}, thresholds={"block": 0.9})
    names = ["precision", "recall", "f_score", "cost", "auc", "average_precision", "log_loss", "brier", "base_rate"]
    metrics = [getattr(asked, name)("5m", estimated=estimated) for name in names]
    assert [metric.name for metric in metrics] == [f"estimated_{name}" if estimated else name for name in names]
    assert [metric.at for metric in metrics] == ["block"] * 4 + [None] * 5


def test_a_regression_has_metrics_of_its_own() -> None:
    assert [one.name for one in (regression.mae("1h"), regression.rmse("1h"), regression.bias("1h"))] == [
        "mae",
        "rmse",
        "bias",
    ]
    assert regression.quantile_loss("1h", at=0.9).at == 0.9
    assert regression.label_delay("1h").at == 0.5


@pytest.mark.parametrize(
    ("value", "task"), [("fraud", "classification"), ("class", "classification"), ("loss", "regression")]
)
def test_the_kind_of_the_label_says_what_is_predicted(value: str, task: str) -> None:
    assert hr.Labels(told, value=value, within="1h").task == task


def test_costs_that_are_not_written_are_nothing() -> None:
    asked = classifier(costs={"false_positive": 1, "true_positive": -3})
    assert asked.costs == Costs(true_positive=-3.0, false_positive=1.0, true_negative=0.0, false_negative=0.0)
    assert classifier().costs is None


def test_of_several_labels_the_last_counts_unless_another_is_chosen() -> None:
    assert CLASSES.keep == "last"
    assert hr.Labels(told, value="fraud", within="1h", keep="any").keep == "any"


MISTAKES: list[tuple[str, Callable[[], Any], list[str]]] = [
    ("a window of seconds", lambda: classifier().auc("90s"), ["fraud.auc", "'90s'", "whole minutes"]),
    ("a window of a year", lambda: classifier().auc("365d"), ["'365d'", '"90d"']),
    ("a window that is a number", lambda: classifier().auc(60), ["fraud.auc: window", "60"]),  # type: ignore[arg-type]
    ("a threshold it does not have", lambda: classifier().recall("1h", at="stop"), ["at='stop'", "'review', 'block'"]),
    ("no threshold among two", lambda: classifier().recall("1h"), ["at=None", "'review', 'block'"]),
    ("no thresholds", lambda: classifier(thresholds=None).recall("1h"), ["no thresholds", 'thresholds={"block"']),
    ("no costs", lambda: classifier().cost("1h", at="block"), ["no costs", '"false_negative": 20']),
    ("no labels", lambda: model().coverage("1h"), ["fraud.coverage: the model has no labels", "labels=hr.Labels("]),
    ("a class's metric", lambda: regression.auc("1h"), ["of a classification", "'loss'", "boolean, or 0 and 1"]),
    ("a number's metric", lambda: classifier().mae("1h"), ["of a regression", "'fraud'", "a double"]),
    ("a quantile of 90", lambda: regression.quantile_loss("1h", at=90), ["at=90", "at=0.9"]),
    ("a segment it does not have", lambda: classifier().auc("1h", segment={"card": "c1"}), ["'card'", "'country_1h'"]),
    ("no segments", lambda: classifier(segments=[]).auc("1h", segment={"card": "c1"}), ["'card'", "segments= in hr.M"]),
    ("a segment that is a text", lambda: classifier().auc("1h", segment="FR"), ["segment='FR'", '{"country": "FR"}']),
    ("a segment of doubles", lambda: classifier().auc("1h", segment={"country_1h": 0.5}), ["is 0.5", "a text"]),
]  # fmt: skip


@pytest.mark.parametrize(("ask", "said"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_a_metric_with(ask: Callable[[], Any], said: list[str]) -> None:
    assert_refused(ask, said)
