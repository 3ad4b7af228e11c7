"""Synthetic events for `bench drift`: eight inputs of a model and its score, without drift and with four kinds of it.

every input is a function of a standard normal of its own; drift adds to that
    abrupt        two inputs at once, one by half as much: the other has to rank first
    gradual       one input, by more and more events from the first to the 3,000th
    one feature   one input, less far
    one segment   one input, for the events of one country
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, pdtr

from headrace.aggregates.value_columns import ValueColumn
from headrace.declare.durations import UNITS_US
from headrace.models.versions.reference_distribution import Segment, build_references
from headrace.monitoring.drift.drift_fold import fold_rows
from headrace.monitoring.drift.drift_layout import ALL_ROWS, DriftLayout

Latent = NDArray[np.float64]
Frame = Mapping[str, NDArray[np.generic]]

COUNTRIES = np.array(["FR", "DE", "US", "IT"], object)
SHOPS = np.array(["food", "fuel", "travel", "games", "other"], object)
POISSON = pdtr(np.arange(20), 3.0)
GRADUAL = 3_000
REFERENCE_ROWS = 10_000
MINUTE_US = UNITS_US["m"]

INPUTS: Mapping[str, Callable[[Latent], NDArray[np.generic]]] = {
    "amount": np.exp,
    "mean": lambda z: z,
    "ratio": ndtr,
    "age": lambda z: -np.log(ndtr(-z)),
    "spread": lambda z: np.where(ndtr(z) < 0.05, np.nan, np.exp(z)),
    "payments": lambda z: np.searchsorted(POISSON, ndtr(z)).astype(np.float64),
    "refunds": lambda z: np.ceil(np.maximum(0, z - 0.5) * 3),
    "shop": lambda z: SHOPS[np.searchsorted([-0.8, 0.0, 0.7, 1.3], z)],
}


@dataclass(frozen=True)
class Drift:
    """A kind of drift: its size in standard deviations, and the affected inputs and events."""

    name: str
    by: float
    also_half: bool = False
    gradual: bool = False
    segment: bool = False


DRIFTS = (
    Drift("abrupt", 1.0, also_half=True),
    Drift("gradual", 1.0, gradual=True),
    Drift("one feature", 0.6),
    Drift("one segment", 1.0, segment=True),
)


@dataclass(frozen=True)
class Drawn:
    """Events: their inputs, country and score, and the drifted ones."""

    frame: Frame
    column: str
    segment: tuple[Segment, ...]


def drawn(rng: np.random.Generator, rows: int, drift: Drift | None = None, begin: int = 0) -> Drawn:
    """Generate events, which drift from a given one on."""
    latent = rng.normal(size=(len(INPUTS), rows))
    country = COUNTRIES[rng.integers(0, len(COUNTRIES), rows)]
    first, second = rng.permutation(len(INPUTS))[:2]
    value = str(rng.choice(COUNTRIES))
    if drift is not None:
        touched = _touched(rng, drift, rows - begin) & (country[begin:] == value if drift.segment else True)
        latent[first, begin:] += drift.by * touched
        latent[second, begin:] += drift.by / 2 * touched * drift.also_half
    frame = {name: make(part) for (name, make), part in zip(INPUTS.items(), latent, strict=True)}
    score = ndtr(latent.sum(axis=0) / len(INPUTS))
    segment = (("country", value),) if drift is not None and drift.segment else ALL_ROWS
    return Drawn({**frame, "country": country, "score": score}, [*INPUTS][first], segment)


def _touched(rng: np.random.Generator, drift: Drift, rows: int) -> NDArray[np.bool_]:
    return rng.random(rows) < (np.arange(rows) / GRADUAL if drift.gradual else 1.0)


def layout_of(frame: Frame) -> DriftLayout:
    """The layout of the training data, also by country."""
    columns = {name: values for name, values in frame.items() if name != "country"}
    return DriftLayout(build_references(columns, {"country": frame["country"]}))


def windows(layout: DriftLayout, frame: Frame, rate: int, minutes: int) -> dict[tuple[Segment, ...], NDArray[np.int64]]:
    """By segment the counts of every window of so many minutes, at so many events a minute, one minute apart."""
    rows = len(frame["country"])
    columns = {name: ValueColumn(np.asarray(values), _there(values)) for name, values in frame.items()}
    tiles = fold_rows(layout, columns, np.arange(rows) // rate * MINUTE_US)
    found = {}
    for segment in layout.segments:
        counts = np.zeros((rows // rate + 1, layout.width), np.int64)
        for (of, minute_us), tile in tiles.items():
            if of == segment:
                counts[minute_us // MINUTE_US + 1] = tile.counts
        sums = np.cumsum(counts, axis=0)
        found[segment] = sums[minutes:] - sums[:-minutes]
    return found


def _there(values: NDArray[np.generic]) -> NDArray[np.bool_]:
    return np.ones(len(values), np.bool_) if values.dtype == object else ~np.isnan(values.astype(np.float64))
