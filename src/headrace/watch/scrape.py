"""Values of a server's /metrics, and what can be told from them over time."""

import logging
from collections.abc import Iterable, Mapping
from http.client import HTTPException
from typing import NamedTuple
from urllib.error import HTTPError

from prometheus_client.parser import text_string_to_metric_families

from headrace.declare.alert import Alert, Watched
from headrace.declare.catalogue import CATALOGUE, Sort
from headrace.declare.durations import duration_text
from headrace.declare.series import Objective, Series, Share
from headrace.serve.door import TOKEN_VARIABLE, Door
from headrace.watch.history import History, burned
from headrace.watch.values import Reading

ASK_SECONDS = 5.0
LARGEST_ANSWER = 64 << 20
UP = Series("headrace_server_up", ())
LOGGER = logging.getLogger("headrace.alerts")


class Sample(NamedTuple):
    """One line of /metrics."""

    labels: Mapping[str, str]
    value: float


Samples = dict[str, list[Sample]]


def ask_metrics(door: Door) -> Samples | None:
    """What a server says of itself; None where it does not answer, or not in Prometheus' words."""
    try:
        with door.open("/metrics", ASK_SECONDS) as answer:
            return samples_of(answer.read(LARGEST_ANSWER).decode())
    except HTTPError as refused:
        LOGGER.warning("%s/metrics says %d; a token it knows goes into %s", door.url, refused.code, TOKEN_VARIABLE)
        return None
    except (OSError, HTTPException, ValueError):
        return None


def samples_of(text: str) -> Samples:
    """Every line of /metrics by the name it has there."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(Sample(sample.labels, sample.value))
    return found


class ServerValues:
    """Knows what a server's /metrics says, and how it has grown since this began to look."""

    def __init__(self, door: Door, alerts: Iterable[Alert]) -> None:
        self._door = door
        self._samples: Samples | None = None
        self._histories = {history_of: _history(history_of) for history_of in map(_grows, alerts) if history_of}

    def look(self, now_us: int) -> None:
        self.take(ask_metrics(self._door), now_us)

    def take(self, samples: Samples | None, now_us: int) -> None:
        """What was said now; None where nobody answered."""
        self._samples = samples
        for watched, history in self._histories.items():
            bad, total = (self._value(series) for series in _pair(watched))
            if total is not None:  # of a whole that is known, a part that is not told is none
                history.add(bad or 0.0, total, now_us)

    def read(self, watched: Watched, now_us: int) -> Reading | None:
        if watched == UP:
            answers = self._samples is not None
            return Reading(float(answers), "it answers" if answers else "it does not answer")
        if self._samples is None:
            return None
        match watched:
            case Objective():
                return self._burned(watched, now_us)
            case Share():
                return self._share(watched, now_us)
            case Series():
                return self._series(watched, now_us)
        return None

    def _burned(self, objective: Objective, now_us: int) -> Reading | None:
        history = self._histories[objective]
        found = burned(objective, history, now_us) if len(history) else None
        if found is None:
            return None
        burn = found[1]
        shares = [
            f"{grown.share:.3g} of {grown.total:.0f} in {duration_text(window_us)}"
            for window_us in (burn.long_us, burn.short_us)
            if (grown := history.within(window_us, now_us)).total
        ]
        return Reading(found[0], f"{' and '.join(shares)}, {objective.allowed:g} is allowed")

    def _share(self, share: Share, now_us: int) -> Reading | None:
        history = self._histories[share]
        if not len(history):
            return None
        grown = history.within(share.over_us, now_us)
        if grown.total < share.at_least:
            return None
        return Reading(grown.share, f"{grown.share:.3g} of {grown.total:.0f} in {duration_text(share.over_us)}")

    def _series(self, series: Series, now_us: int) -> Reading | None:
        if series.over_us is None:
            return _plain(self._value(series))
        history = self._histories[series]
        return _plain(history.within(series.over_us, now_us).total) if len(history) else None

    def _value(self, series: Series) -> float | None:
        """What the samples with these labels say together: counts as a sum, levels as the highest."""
        samples = self._samples or {}
        if series.sort is Sort.DELAYS:
            return _counted(samples, series)
        of_name = samples.get(series.name, ())
        found = [sample.value for sample in of_name if _has(sample, series.labels)]
        if series.sort is Sort.LEVEL:
            return max(found, default=None)
        # A count of a view that has others told of it is 0 until it is told itself.
        about = [label for label in series.labels if label[0] == CATALOGUE[series.name].labels[0]]
        return sum(found) if found or any(_has(sample, about) for sample in of_name) else None


def _grows(alert: Alert) -> Series | Share | Objective | None:
    """What of an alert has to be followed over time."""
    match alert.on:
        case Share() | Objective() as watched:
            return watched
        case Series() as series if series.over_us is not None:
            return series
    return None


def _pair(watched: Series | Share | Objective) -> tuple[Series, Series]:
    return (watched, watched) if isinstance(watched, Series) else (watched.bad, watched.total)


def _history(watched: Series | Share | Objective) -> History:
    if isinstance(watched, Objective):
        return History(min(burn.short_us for burn in watched.burns), max(burn.long_us for burn in watched.burns))
    over_us = watched.over_us or 0
    return History(over_us, over_us)


def _has(sample: Sample, labels: Iterable[tuple[str, str]]) -> bool:
    return all(sample.labels.get(name) == value for name, value in labels)


def _counted(samples: Samples, series: Series) -> float | None:
    """How many delays there were, or how many beyond the first bound that is no shorter than `slower_us`."""
    counts = [one.value for one in samples.get(f"{series.name}_count", ()) if _has(one, series.labels)]
    if not counts or series.slower_us is None:
        return sum(counts) if counts else None
    buckets = [one for one in samples.get(f"{series.name}_bucket", ()) if _has(one, series.labels)]
    bounds = {float(one.labels["le"]) for one in buckets}
    bound = min(bound for bound in bounds if bound >= series.slower_us / 1e6)
    return sum(counts) - sum(one.value for one in buckets if float(one.labels["le"]) == bound)


def _plain(value: float | None) -> Reading | None:
    return None if value is None else Reading(value, f"{value:.4g}")
