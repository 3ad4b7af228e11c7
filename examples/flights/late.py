"""Predicts at departure which flights arrive more than half an hour late; the label arrives when they land.

The median delay of a label is 129 minutes; cancelled and diverted flights never get one.
"""

from typing import Any

from app import arrivals, departures

import headrace as hr


@hr.features(departures, by="origin")
class Origin:
    origin_left = hr.count(windows=["1h", "1d"])
    origin_cancelled = hr.count(where="cancelled", windows="1d")
    origin_delay = hr.mean("delay", windows=["1h", "1d"])


@hr.features(arrivals, by="carrier")
class Carrier:
    carrier_late = hr.count(where="late", windows="1d")
    carrier_delay = hr.mean("delay", windows=["1h", "7d"])


@hr.features(arrivals, by="dest")
class Destination:
    dest_delay = hr.mean("delay", windows=["1h", "1d"])
    dest_worst = hr.max("delay", windows="1d")


@hr.features(arrivals, by="tail")
class Aircraft:
    tail_delay = hr.last("delay", windows="1d")
    tail_landed = hr.count(windows="7d")


NUMBERS = [
    "delay", "distance", "origin_left_1h", "origin_left_1d", "origin_cancelled_1d", "origin_delay_1h",
    "origin_delay_1d", "carrier_late_1d", "carrier_delay_1h", "carrier_delay_7d", "dest_delay_1h", "dest_delay_1d",
    "dest_worst_1d", "tail_delay_1d", "tail_landed_7d",
]  # fmt: skip


def fit(frame: Any) -> Any:
    """Gradient-boosted trees on the numbers of each departure."""
    from lightgbm import LGBMClassifier

    trees = LGBMClassifier(n_estimators=150, num_leaves=31, min_child_samples=100, learning_rate=0.05, verbose=-1)
    # One thread: on cores busy with a replay, several threads wait for each other and take many times as long.
    return trees.set_params(n_jobs=1).fit(frame[NUMBERS], frame["late"])


late = hr.Model(
    "late",
    on=departures,
    features=[Origin, Carrier, Destination, Aircraft],
    fields=["delay", "distance", "origin"],
    inputs=[*NUMBERS, "origin"],
    train=fit,
    budget="2s",  # no caller waits for the score; a long budget avoids degraded scores on a busy machine
    thresholds={"warn": 0.5},
    labels=hr.Labels(arrivals, value="late", within="1d"),
    segments=["origin"],
    retrain=hr.Retrain(every="30d", over="90d", by="auc", better_by=0.0, worse_by=0.02),
)
