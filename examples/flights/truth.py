"""What must come out, by brute force over the recordings: who is predicted, what came of it, and how good it was."""

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
    """Which reports are not too late."""
    found: Mask = prepare.us(events["reported_at"]) - prepare.us(events["at"]) <= stream.late.until_us
    return found


def is_predicted(stream: Stream, events: pa.Table) -> Mask:
    """Which reports get a score: the first of each flight that is not too late."""
    clean = np.flatnonzero(is_clean(stream, events))
    ids = events["flight_id"].to_numpy(zero_copy_only=False)[clean]
    found = np.zeros(len(events), np.bool_)
    found[clean[np.unique(ids, return_index=True)[1]]] = True
    return found


@dataclass(frozen=True)
class Landed:
    """What is known of how flights ended: whether each was late, of those that arrived, and how often it was told."""

    was_late: dict[str, bool]
    told: Counter[str]

    @classmethod
    def of(cls, stream: Stream, arrivals: pa.Table) -> "Landed":
        clean = arrivals.filter(pa.array(is_clean(stream, arrivals)))
        ids = clean["flight_id"].to_pylist()
        return cls(dict(zip(ids, clean["late"].to_pylist(), strict=True)), Counter(ids))


def states(predictions: pa.Table, landed: Landed, labels: Labels, clock_us: int) -> Counter[str]:
    """How predictions and labels stand when the clock shows a time.

    A flight takes less than a day, so whatever landed was matched; whatever did not expires once it cannot any more.
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
