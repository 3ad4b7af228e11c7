"""A model trained: its examples split by time, its estimator fitted and exported, a card written, a version kept."""

from dataclasses import dataclass

import pyarrow as pa

from headrace.declare.model import Model
from headrace.score.card import Card
from headrace.score.describe import card_of
from headrace.score.examples import Examples, Split, examples_of, split_by_time
from headrace.score.fit import Fitted, fit
from headrace.score.versions import Versions


@dataclass(frozen=True)
class Asked:
    """How a training set was made and is to be divided: its column of times, what counts as known, the test's share."""

    time: str
    as_of: str = "arrival"
    test_share: float = 0.2


@dataclass(frozen=True)
class Trained:
    """A fitted model that is not kept yet: the rows it was fitted and tested on, and its card without a version."""

    examples: Examples
    split: Split
    fitted: Fitted
    card: Card


def trained(model: Model, table: pa.Table, asked: Asked) -> Trained:
    """Fit a model on the earlier rows of a training set and measure it on the later ones."""
    examples = examples_of(model, table, asked.time)
    embargo_us = 0 if model.labels is None else model.labels.within_us
    split = split_by_time(examples.times_us, asked.test_share, embargo_us)
    fitted = fit(model, examples, split)
    return Trained(examples, split, fitted, card_of(model, examples, split, fitted, asked.as_of))


def train_model(model: Model, table: pa.Table, asked: Asked, versions: Versions) -> Card:
    """Train a model on a training set and keep it as a new version; the first one is the champion."""
    done = trained(model, table, asked)
    card = versions.add(done.fitted.content, done.card)
    if versions.champion().champion is None:
        versions.promote(card.version)
    return card
