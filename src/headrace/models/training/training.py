"""Trains a model: splits examples by time, fits and exports the estimator, writes a card, stores a version."""

from dataclasses import dataclass

import pyarrow as pa

from headrace.declare.models.model import Model
from headrace.models.training.card_description import build_card
from headrace.models.training.estimator_fit import FittedModel, fit_model
from headrace.models.training.examples import TrainingExamples, TrainTestSplit, build_examples, split_by_time
from headrace.models.versions.model_card import ModelCard
from headrace.models.versions.version_store import VersionStore


@dataclass(frozen=True)
class TrainingConfig:
    """The settings of a training set and its split: the time column, what counts as known, and the test's share."""

    time: str
    as_of: str = "arrival"
    test_share: float = 0.2


@dataclass(frozen=True)
class TrainingResult:
    """A fitted model that is not stored yet: the rows it was fitted and tested on, and its card without a version."""

    examples: TrainingExamples
    split: TrainTestSplit
    fitted_model: FittedModel
    card: ModelCard


def run_training(model: Model, table: pa.Table, config: TrainingConfig) -> TrainingResult:
    """Fit a model on the earlier rows of a training set and measure it on the later ones."""
    examples = build_examples(model, table, config.time)
    embargo_us = 0 if model.labels is None else model.labels.within_us
    split = split_by_time(examples.times_us, config.test_share, embargo_us)
    fitted_model = fit_model(model, examples, split)
    return TrainingResult(examples, split, fitted_model, build_card(model, examples, split, fitted_model, config.as_of))


def train_model(model: Model, table: pa.Table, config: TrainingConfig, versions: VersionStore) -> ModelCard:
    """Train a model on a training set and store it as a new version; the first one becomes the champion."""
    result = run_training(model, table, config)
    card = versions.add(result.fitted_model.content, result.card)
    if versions.load_roles().champion is None:
        versions.promote(card.version)
    return card
