"""Expected results by brute force over the recordings: the predicted flights, the states of outcomes, and the AUC."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import prepare
import pyarrow as pa
from sklearn.metrics import roc_auc_score

from headrace.declare.models.labels import Labels
from headrace.declare.streams.stream import Stream

Mask = np.ndarray[Any, np.dtype[np.bool_]]
Times = dict[str, int]


def is_clean(stream: Stream, events: pa.Table) -> Mask:
    """A mask of the reports that are not too late."""
    mask: Mask = prepare.us(events["reported_at"]) - prepare.us(events["at"]) <= stream.late.until_us
    return mask


def is_predicted(stream: Stream, events: pa.Table) -> Mask:
    """A mask of the reports that get a score: the first of each flight that is not too late."""
    clean = np.flatnonzero(is_clean(stream, events))
    ids = events["flight_id"].to_numpy(zero_copy_only=False)[clean]
    mask = np.zeros(len(events), np.bool_)
    mask[clean[np.unique(ids, return_index=True)[1]]] = True
    return mask


@dataclass(frozen=True)
class Landed:
    """The labels of flights: whether each flight that arrived was late, and how often that was reported."""

    was_late: dict[str, bool]
    told: Counter[str]

    @classmethod
    def of(cls, stream: Stream, arrivals: pa.Table) -> "Landed":
        clean = arrivals.filter(pa.array(is_clean(stream, arrivals)))
        ids = clean["flight_id"].to_pylist()
        return cls(dict(zip(ids, clean["late"].to_pylist(), strict=True)), Counter(ids))


def states(predictions: pa.Table, landed: Landed, labels: Labels, clock_us: int) -> Counter[str]:
    """The number of predictions and labels per state when the clock shows a time.

    A flight takes less than a day, so every flight that landed was matched; others expire when no label can arrive.
    """
    waited_us = labels.within_us + labels.stream.late.until_us
    found: Counter[str] = Counter()
    for flight, left_us in zip(predictions["id"].to_pylist(), prepare.us(predictions["event_time"]), strict=True):
        late = landed.was_late.get(flight)
        found["matched" if late is not None else "expired" if left_us + waited_us < clock_us else "pending"] += 1
    known = set(predictions["id"].to_pylist())
    found["orphan"] = sum(times for flight, times in landed.told.items() if flight not in known)
    return found


def auc(predictions: pa.Table, landed: Landed) -> float:
    """The AUC of predictions whose flights landed, by scikit-learn."""
    pairs = zip(predictions["id"].to_pylist(), predictions["score"].to_pylist(), strict=True)
    known = [(landed.was_late[flight], score) for flight, score in pairs if flight in landed.was_late]
    was_late, scores = zip(*known, strict=True)
    return float(roc_auc_score(was_late, scores))
