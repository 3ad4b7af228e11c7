"""What the columns of a training set looked like, frozen in a card: counts in bins that live values are counted in too.

number   cuts        below least   q01   q02  …  q99   greatest
         bins     0              1     2     …      100          101     a bin has its right cut in it; in the first
                                                                         and the last nothing was when it was trained
text     its most frequent values, each with its rows; how many rows had another one. Half of the rows say which they
         are, and the others are counted: counted by the rows that chose them they would seem to become rarer ever after
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import HeadraceError

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Segment = tuple[str, str]  # a column and its value

MOST_BINS, FEWEST_BINS = 100, 10
BINS_OF_A_CARD = 50_000
MOST_SEGMENTS = 20
LONGEST_TEXT = 64


class NoReference(HeadraceError):
    """A card does not say what live values could be compared with."""


@dataclass(frozen=True)
class Bins:
    """The rows of a column: in each bin, null (NaN is null to a model), infinite."""

    counts: list[int]
    nulls: int = 0
    infinite: int = 0


@dataclass(frozen=True)
class Numbers:
    """A column of numbers; by segment the same rows in the same bins."""

    cuts: list[float]
    bins: Bins
    segments: dict[str, dict[str, Bins]] = field(default_factory=dict)


@dataclass(frozen=True)
class Texts:
    """A column of texts: the values that have a bin; the last bin is for every other value."""

    values: list[str]
    bins: Bins
    segments: dict[str, dict[str, Bins]] = field(default_factory=dict)


Reference = Numbers | Texts
Segments = Mapping[str, NDArray[Any]]


def bins_for(columns: int, segments: int) -> int:
    """How many bins a column gets, so that a card stays small however many columns it has."""
    return max(FEWEST_BINS, min(MOST_BINS, BINS_OF_A_CARD // (columns * (1 + segments) or 1)))


def described(columns: Mapping[str, NDArray[Any]], segments: Segments) -> dict[str, Any]:
    """The references of some columns as a card holds them."""
    return {name: asdict(one) for name, one in references_of(columns, segments).items()}


def references_of(columns: Mapping[str, NDArray[Any]], segments: Segments) -> dict[str, Reference]:
    """The references of some columns; of each segment column by its most frequent values."""
    rows = {name: _segments_of(values) for name, values in segments.items()}
    most = bins_for(len(columns), sum(map(len, rows.values())))
    return {name: reference_of(values, most, rows) for name, values in columns.items()}


def reference_of(
    values: NDArray[Any], most: int = MOST_BINS, segments: Mapping[str, Mapping[str, NDArray[np.bool_]]] | None = None
) -> Reference:
    """What a column looked like; `segments` says which rows belong to each."""
    apart = (segments or {}).items()
    if values.dtype == object:
        counted = np.random.default_rng(0).permutation(len(values)) % 2 == 1
        listed, texts = frequent_texts(text_keys(values[~counted]), most), text_keys(values[counted])
        by_segment = {
            name: {one: bins_of_texts(texts[rows[counted]], listed) for one, rows in of.items()} for name, of in apart
        }
        return Texts(listed, bins_of_texts(texts, listed), by_segment)
    numbers = as_scored(values)
    cuts = _cuts(numbers[np.isfinite(numbers)], most)
    by_segment = {name: {one: bins_of_numbers(numbers[rows], cuts) for one, rows in of.items()} for name, of in apart}
    return Numbers(cuts.tolist(), bins_of_numbers(numbers, cuts), by_segment)


def read_references(written: Mapping[str, Any], where: str) -> dict[str, Reference]:
    """The references a card holds, whoever wrote it."""
    if not written:
        raise NoReference(f"{where} does not say what its inputs looked like. Train it anew.")
    try:
        found = {name: _read(one) for name, one in written.items()}
        wrong = next((name for name, one in found.items() if not _is_one(one)), None)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as failure:
        raise NoReference(f"{where} does not say what its inputs looked like: {failure!r}. Train it anew.") from failure
    if wrong is not None:
        raise NoReference(f"{where} does not say what {wrong!r} looked like: bins and counts differ. Train it anew.")
    return found


def as_scored(values: NDArray[Any]) -> Floats:
    """Numbers as a model gets them: rounded to float32, so that a live value falls in the bin it was trained in.

    >>> as_scored(np.array([0.7, 1e39])).tolist()
    [0.699999988079071, inf]
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.float64).astype(np.float32).astype(np.float64)


def text_keys(values: NDArray[Any]) -> NDArray[Any]:
    """Texts by which values are known: a long one by its beginning and its hash, a number as a model gets it.

    >>> text_keys(np.array([1.0, 0.1, np.nan])).tolist(), text_keys(np.array([True])).tolist()
    (['1', '0.100000001', ''], ['1'])
    """
    found = np.empty(len(values), object)
    if values.dtype == object:
        found[:] = [_key(str(value)) for value in values]
    else:
        found[:] = ["" if np.isnan(number) else f"{number:.9g}" for number in as_scored(values).tolist()]
    return found


def bins_of_numbers(numbers: Floats, cuts: Floats) -> Bins:
    """Numbers counted between cuts."""
    there = numbers[np.isfinite(numbers)]
    counts = np.bincount(np.searchsorted(cuts, there), minlength=len(cuts) + 1)
    return Bins(counts.tolist(), int(np.isnan(numbers).sum()), int(np.isinf(numbers).sum()))


def bins_of_texts(texts: NDArray[Any], listed: Sequence[str]) -> Bins:
    """Texts counted by those that are listed; "" is null."""
    found = Counter(texts.tolist())
    nulls = found.pop("", 0)
    known = [found.pop(one, 0) for one in listed]
    return Bins([*known, found.total()], nulls)


def _key(text: str) -> str:
    if len(text) > LONGEST_TEXT:
        text = f"{text[:40]}…{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:16]}"
    return text if text.isascii() else text.encode(errors="replace").decode()  # half a character is none


def _cuts(there: Floats, most: int) -> Floats:
    """Each value where they are few, else quantiles that occurred; and one cut below the least."""
    if not len(there):
        return there
    found = np.unique(there)
    if len(found) > most:
        found = np.unique(np.quantile(there, np.arange(1, most + 1) / most, method="inverted_cdf"))
    return np.append(np.nextafter(there.min(), -np.inf), found)


def frequent_texts(texts: NDArray[Any], most: int) -> list[str]:
    """The most frequent texts, the first of the alphabet among equals."""
    found = Counter(texts.tolist())
    del found[""]
    return sorted(found, key=lambda text: (-found[text], text))[:most]


def _segments_of(values: NDArray[Any]) -> dict[str, NDArray[np.bool_]]:
    """Which rows have each of the most frequent values of a column."""
    texts = text_keys(values)
    return {one: texts == one for one in frequent_texts(texts, MOST_SEGMENTS)}


def _read(written: Mapping[str, Any]) -> Reference:
    segments = {
        str(name): {str(one): _bins(bins) for one, bins in of.items()} for name, of in written["segments"].items()
    }
    bins = _bins(written["bins"])
    if "cuts" in written:
        return Numbers([float(cut) for cut in written["cuts"]], bins, segments)
    return Texts([str(value) for value in written["values"]], bins, segments)


def _bins(written: Mapping[str, Any]) -> Bins:
    counts = [int(count) for count in written["counts"]]
    found = Bins(counts, int(written["nulls"]), int(written["infinite"]))
    if min(*counts, found.nulls, found.infinite, 0) < 0 or max(*counts, found.nulls, found.infinite, 0) >= 1 << 53:
        raise ValueError("a count is negative, or more than there can be")
    return found


def _is_one(found: Reference) -> bool:
    """Whether each of its counts has a bin, and its cuts rise."""
    width = len(found.cuts if isinstance(found, Numbers) else found.values) + 1
    rising = not isinstance(found, Numbers) or bool((np.diff(found.cuts) > 0).all() and np.isfinite(found.cuts).all())
    every = [found.bins, *(bins for of in found.segments.values() for bins in of.values())]
    return rising and all(len(bins.counts) == width for bins in every)
