"""The reference distribution of a training set's columns in a card: counts in bins, the baseline of live values.

number   cuts        below least   q01   q02  …  q99   greatest
         bins     0              1     2     …      100          101     a bin includes its right cut; the first
                                                                         and the last were empty in training
text     its most frequent values, each with its rows; the rows with other values. Half of the rows select the values,
         the other half is counted: counts of the selecting half would be biased, and each value would seem to decline
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

MAX_BINS, MIN_BINS = 100, 10
MAX_CARD_BINS = 50_000
MAX_SEGMENTS = 20
MAX_TEXT_LENGTH = 64


class ReferenceDistributionMissing(HeadraceError):
    """A card has no reference distribution."""


@dataclass(frozen=True)
class Bins:
    """The rows of a column: in each bin, null (NaN is null to a model), infinite."""

    counts: list[int]
    nulls: int = 0
    infinite: int = 0


@dataclass(frozen=True)
class Numbers:
    """A column of numbers; by segment its rows in the same bins."""

    cuts: list[float]
    bins: Bins
    segments: dict[str, dict[str, Bins]] = field(default_factory=dict)


@dataclass(frozen=True)
class Texts:
    """A column of texts: the values that have a bin; the last bin is for every other value."""

    values: list[str]
    bins: Bins
    segments: dict[str, dict[str, Bins]] = field(default_factory=dict)


ReferenceDistribution = Numbers | Texts
SegmentColumns = Mapping[str, NDArray[Any]]


def bins_per_column(column_count: int, segment_count: int) -> int:
    """How many bins a column gets, so that a card stays small however many columns it has."""
    return max(MIN_BINS, min(MAX_BINS, MAX_CARD_BINS // (column_count * (1 + segment_count) or 1)))


def describe_references(columns: Mapping[str, NDArray[Any]], segments: SegmentColumns) -> dict[str, Any]:
    """The references of some columns as a card stores them."""
    return {name: asdict(reference) for name, reference in build_references(columns, segments).items()}


def build_references(columns: Mapping[str, NDArray[Any]], segments: SegmentColumns) -> dict[str, ReferenceDistribution]:
    """The references of some columns, also by the most frequent values of each segment column."""
    rows_by_segment = {name: _segment_rows(values) for name, values in segments.items()}
    max_bins = bins_per_column(len(columns), sum(map(len, rows_by_segment.values())))
    return {name: build_reference(values, max_bins, rows_by_segment) for name, values in columns.items()}


def build_reference(
    values: NDArray[Any],
    max_bins: int = MAX_BINS,
    segments: Mapping[str, Mapping[str, NDArray[np.bool_]]] | None = None,
) -> ReferenceDistribution:
    """The reference of a column; `segments` has the rows of each segment."""
    segment_items = (segments or {}).items()
    if values.dtype == object:
        is_counted = np.random.default_rng(0).permutation(len(values)) % 2 == 1
        listed_texts, texts = frequent_texts(text_keys(values[~is_counted]), max_bins), text_keys(values[is_counted])
        by_segment = {
            name: {
                segment_value: count_texts(texts[rows[is_counted]], listed_texts)
                for segment_value, rows in rows_by_value.items()
            }
            for name, rows_by_value in segment_items
        }
        return Texts(listed_texts, count_texts(texts, listed_texts), by_segment)
    numbers = round_to_float32(values)
    cuts = _choose_cuts(numbers[np.isfinite(numbers)], max_bins)
    by_segment = {
        name: {one: count_numbers(numbers[rows], cuts) for one, rows in of.items()} for name, of in segment_items
    }
    return Numbers(cuts.tolist(), count_numbers(numbers, cuts), by_segment)


def parse_references(document: Mapping[str, Any], where: str) -> dict[str, ReferenceDistribution]:
    """Parse the references of a card, from any writer."""
    if not document:
        raise ReferenceDistributionMissing(f"{where} has no reference distribution. Train it again.")
    try:
        references = {name: _parse_reference(entry) for name, entry in document.items()}
        invalid_name = next((name for name, one in references.items() if not _is_consistent(one)), None)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as failure:
        raise ReferenceDistributionMissing(
            f"{where} has no valid reference distribution: {failure!r}. Train it again."
        ) from failure
    if invalid_name is not None:
        raise ReferenceDistributionMissing(
            f"{where} has no valid reference distribution of {invalid_name!r}: bins and counts differ. Train it again."
        )
    return references


def round_to_float32(values: NDArray[Any]) -> Floats:
    """Numbers as a model gets them: rounded to float32, so that a live value falls into the bin of its training value.

    >>> round_to_float32(np.array([0.7, 1e39])).tolist()
    [0.699999988079071, inf]
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.float64).astype(np.float32).astype(np.float64)


def text_keys(values: NDArray[Any]) -> NDArray[Any]:
    """The keys of texts: a long one by its beginning and its hash, a number as a model gets it.

    >>> text_keys(np.array([1.0, 0.1, np.nan])).tolist(), text_keys(np.array([True])).tolist()
    (['1', '0.100000001', ''], ['1'])
    """
    keys = np.empty(len(values), object)
    if values.dtype == object:
        keys[:] = [_text_key(str(value)) for value in values]
    else:
        keys[:] = ["" if np.isnan(number) else f"{number:.9g}" for number in round_to_float32(values).tolist()]
    return keys


def count_numbers(numbers: Floats, cuts: Floats) -> Bins:
    """Count numbers between cuts."""
    finite_numbers = numbers[np.isfinite(numbers)]
    counts = np.bincount(np.searchsorted(cuts, finite_numbers), minlength=len(cuts) + 1)
    return Bins(counts.tolist(), int(np.isnan(numbers).sum()), int(np.isinf(numbers).sum()))


def count_texts(texts: NDArray[Any], listed_texts: Sequence[str]) -> Bins:
    """Count texts by the listed ones; "" is null."""
    text_counts = Counter(texts.tolist())
    nulls = text_counts.pop("", 0)
    listed_counts = [text_counts.pop(text, 0) for text in listed_texts]
    return Bins([*listed_counts, text_counts.total()], nulls)


def _text_key(text: str) -> str:
    if len(text) > MAX_TEXT_LENGTH:
        text = f"{text[:40]}…{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:16]}"
    return text if text.isascii() else text.encode(errors="replace").decode()  # drops half a surrogate pair


def _choose_cuts(finite_numbers: Floats, max_bins: int) -> Floats:
    """Each value where they are few, else observed quantiles; plus one cut below the least."""
    if not len(finite_numbers):
        return finite_numbers
    cut_values = np.unique(finite_numbers)
    if len(cut_values) > max_bins:
        cut_values = np.unique(
            np.quantile(finite_numbers, np.arange(1, max_bins + 1) / max_bins, method="inverted_cdf")
        )
    return np.append(np.nextafter(finite_numbers.min(), -np.inf), cut_values)


def frequent_texts(texts: NDArray[Any], max_texts: int) -> list[str]:
    """The most frequent texts, in alphabetical order among equals."""
    text_counts = Counter(texts.tolist())
    del text_counts[""]
    return sorted(text_counts, key=lambda text: (-text_counts[text], text))[:max_texts]


def _segment_rows(values: NDArray[Any]) -> dict[str, NDArray[np.bool_]]:
    """The rows of each of the most frequent values of a column."""
    texts = text_keys(values)
    return {text: texts == text for text in frequent_texts(texts, MAX_SEGMENTS)}


def _parse_reference(document: Mapping[str, Any]) -> ReferenceDistribution:
    segments = {
        str(name): {str(segment_value): _parse_bins(bins) for segment_value, bins in bins_by_value.items()}
        for name, bins_by_value in document["segments"].items()
    }
    bins = _parse_bins(document["bins"])
    if "cuts" in document:
        return Numbers([float(cut) for cut in document["cuts"]], bins, segments)
    return Texts([str(value) for value in document["values"]], bins, segments)


def _parse_bins(document: Mapping[str, Any]) -> Bins:
    counts = [int(count) for count in document["counts"]]
    parsed_bins = Bins(counts, int(document["nulls"]), int(document["infinite"]))
    if (
        min(*counts, parsed_bins.nulls, parsed_bins.infinite, 0) < 0
        or max(*counts, parsed_bins.nulls, parsed_bins.infinite, 0) >= 1 << 53
    ):
        raise ValueError("a count is negative, or more than there can be")
    return parsed_bins


def _is_consistent(reference: ReferenceDistribution) -> bool:
    """Whether each of its counts has a bin, and its cuts increase."""
    bin_count = len(reference.cuts if isinstance(reference, Numbers) else reference.values) + 1
    is_rising = not isinstance(reference, Numbers) or bool(
        (np.diff(reference.cuts) > 0).all() and np.isfinite(reference.cuts).all()
    )
    all_bins = [
        reference.bins,
        *(bins for bins_by_value in reference.segments.values() for bins in bins_by_value.values()),
    ]
    return is_rising and all(len(bins.counts) == bin_count for bins in all_bins)
