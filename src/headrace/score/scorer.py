"""Scores: vectors in columns or rows, into a model, out as one number each.

Numbers are doubles first and then as wide as the model's input, so that a vector gives the same score whichever way it
comes. Null is NaN in a float, "" in a text, 0 in a whole number and false in a boolean.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from headrace.declare.durations import UNITS_US
from headrace.declare.model import Model
from headrace.declare.schema import Column, Kind
from headrace.score.binding import Bound, Feed, UnfitModel, bind
from headrace.score.limits import TooSlow
from headrace.score.network import load_network, run_within
from headrace.tiles.columns import Values, values_of

Scores = NDArray[np.float64]

TRIAL_S = 15.0
NEVER_NULL = ("count", "distinct")
ONES: dict[Kind, Any] = {Kind.STRING: "a", Kind.BOOLEAN: True, Kind.INTEGER: 1, Kind.DOUBLE: 1.0}
ZEROS: dict[Kind, Any] = {Kind.STRING: "", Kind.BOOLEAN: False, Kind.INTEGER: 0, Kind.DOUBLE: 0.0}


class RowScorer(Protocol):
    """Whatever scores vectors: `columns` are what it reads, in the order of its rows."""

    @property
    def columns(self) -> tuple[Column, ...]: ...

    def score_rows(self, rows: Sequence[Sequence[Any]], within_s: float | None = None) -> Scores:
        """The scores of vectors in rows of plain values, None for null."""


class Scorer:
    """A model that was tried and found fit; `columns` are what it reads, in the order of its rows.

    With `within_s` a model that hangs raises `TooSlow`, at most some 10 ms after that time.
    """

    def __init__(self, network: onnxruntime.InferenceSession, bound: Bound, where: str) -> None:
        self.bound = bound
        self._network = network
        self._feeds = bound.feeds
        self._where = where

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.bound.columns

    def score(self, columns: Mapping[str, Values], within_s: float | None = None) -> Scores:
        """The scores of vectors in columns."""
        given = [columns[column.name] for column in self.columns]
        return self._scores({feed.name: _tensor(feed, given) for feed in self._feeds}, len(given[0]), within_s)

    def score_rows(self, rows: Sequence[Sequence[Any]], within_s: float | None = None) -> Scores:
        """The scores of vectors in rows of plain values, None for null."""
        first = self._feeds[0]
        if len(first.places) == len(self.columns) > 1 and first.tensor.is_float:
            numbers = np.array(rows, np.float64).reshape(len(rows), len(self.columns))
            return self._scores({first.name: _narrowed(numbers, first)}, len(rows), within_s)
        by_column = zip(*rows, strict=True) if rows else ([] for _ in self.columns)
        named = zip(self.columns, by_column, strict=True)
        return self.score({column.name: values_of(list(values), column.kind) for column, values in named}, within_s)

    def _scores(self, feeds: dict[str, NDArray[Any]], count: int, within_s: float | None) -> Scores:
        if count == 0:
            return np.empty(0)
        found = self._run(feeds, within_s)
        if found.shape not in {(count,), (count, 1), (count, 2)}:
            raise UnfitModel(
                f"{self._where} answers {count} rows with the shape {list(found.shape)}. A score is one number a row, "
                "or the probabilities of two classes: export it so."
            )
        scores: Scores = (found if found.ndim == 1 else found[:, -1]).astype(np.float64)
        return scores

    def _run(self, feeds: dict[str, NDArray[Any]], within_s: float | None) -> Any:
        output = self.bound.output
        if within_s is None:
            return self._network.run([output], feeds)[0]
        return run_within(within_s, self._network, output, feeds, self._where)


def scorer_of(model: Model, content: bytes, where: str) -> Scorer:
    """The scorer of a model's file, once it is bound and has answered a trial with numbers."""
    network = load_network(content, where)
    scorer = Scorer(network, bind(model, network, where), where)
    within_s = max(TRIAL_S, model.budget_us / UNITS_US["s"])
    trials = _trials(model, scorer.columns)
    for said, row in trials.items():
        (score,) = _tried(scorer, said, [row], within_s, where)
        _require_number(score, scorer, said, row, where)
    _tried(scorer, "several rows at once", [*trials.values()], within_s, where)
    return scorer


def _tried(scorer: Scorer, said: str, rows: list[list[Any]], within_s: float, where: str) -> Scores:
    try:
        return scorer.score_rows(rows, within_s)
    except TooSlow:
        raise UnfitModel(
            f"{where} has not answered {said} within {within_s:g} s: it hangs. Export a model that ends."
        ) from None
    except UnfitModel:
        raise
    except Exception as failure:  # noqa: BLE001 - whatever a model raises, it is not to be served
        raise UnfitModel(f"{where} fails on {said}: {failure}. Export a model that takes it.") from None


def _require_number(score: float, scorer: Scorer, said: str, row: list[Any], where: str) -> None:
    if not np.isfinite(score):
        raise UnfitModel(
            f"{where} answers {score} to {said}: {_shown(scorer.columns, row)}. "
            "Nulls come as NaN: train it on such rows, or put an imputer before it."
        )


def _trials(model: Model, columns: Sequence[Column]) -> dict[str, list[Any]]:
    """Rows every model must have an answer to."""
    there = {one.name for view in model.views for one in view.features if one.aggregate.function in NEVER_NULL}
    fields = {*model.fields}
    unseen = [ONES[one.kind] if one.name in fields else 0 if one.name in there else None for one in columns]
    return {
        "a row of ones": [ONES[column.kind] for column in columns],
        "a row of zeros": [ZEROS[column.kind] for column in columns],
        "an entity never seen": unseen,
    }


def _shown(columns: Sequence[Column], row: Sequence[Any]) -> str:
    return ", ".join(f"{column.name}={value!r}" for column, value in zip(columns, row, strict=True))


def _tensor(feed: Feed, given: Sequence[Values]) -> NDArray[Any]:
    """The columns of an input as it takes them."""
    columns = [_column(feed, given[place]) for place in feed.places]
    tensor: NDArray[Any] = columns[0] if feed.is_flat else np.stack(columns, axis=1)
    return _narrowed(tensor, feed)


def _column(feed: Feed, values: Values) -> NDArray[Any]:
    wide = values.data.astype(np.float64 if feed.tensor.is_float else feed.tensor.dtype)
    wide[~values.valid] = feed.tensor.null
    return wide


def _narrowed(wide: NDArray[Any], feed: Feed) -> NDArray[Any]:
    with np.errstate(over="ignore"):  # beyond a float's range is infinite
        narrowed: NDArray[Any] = wide.astype(feed.tensor.dtype, copy=False)
    return narrowed
