"""The app of the archived state folder: a view, windows, a join, a pattern, a derived stream, a model, labels."""

from typing import Any

import headrace as hr

LATE = hr.Late("10s", then="drop")

readings = hr.Stream(
    "readings",
    schema="reading_id string, house string, kind string, degrees double, at timestamp",
    id="reading_id",
    key="house",
    time="at",
    late=hr.Late("1m", then="side_output"),
    check="degrees > -80",
)
faults = hr.Stream(
    "faults", schema="reading_id string, broken boolean, at timestamp", id="reading_id", key="reading_id", time="at"
)
totals = hr.windowed(
    "totals", readings, by="house", over=hr.Global(), emit="update", late=LATE, n=hr.count(), most=hr.max("degrees")
).out
minutes = hr.windowed(
    "minutes", readings, by="house", over=hr.Tumbling("10s"), late=LATE, n=hr.count(), mean=hr.mean("degrees")
).out
repaired = hr.join("repaired", readings, faults, on="reading_id", within=("0s", "30s"), late=LATE, prefix="fault_").out
rising = (
    hr.pattern("three rising readings", by="house", within="5m", name="rising", late=LATE)
    .step("low", where="degrees < 10")
    .then("high", where="degrees > 30")
    .on(readings)
    .out
)


@hr.derive(readings)
def warm(readings):  # type: ignore[no-untyped-def]
    return readings.where("degrees > 20")


@hr.features(readings, by="house")
class House:
    readings = hr.count(windows=["1h", "forever"])
    total = hr.sum("degrees", windows="forever")
    warmest = hr.max("degrees", windows="forever")
    kinds = hr.distinct("kind", windows="forever")
    last_kind = hr.last("kind", windows="forever")


@hr.features(warm, by="house")
class Warm:
    readings = hr.count(windows="forever")


def fit(frame: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression().fit(frame[["degrees"]].fillna(0.0), frame["broken"])


broken = hr.Model(
    "broken",
    on=readings,
    features=[House],
    fields=["degrees"],
    inputs=["degrees"],
    train=fit,
    labels=hr.Labels(faults, value="broken", within="1m", default=False),
)
