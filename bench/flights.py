"""A real series for `bench drift`: flights out of New York in 2013, January and February against each later week."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from examples.flights.prepare import source

COLUMNS = ["dep_delay", "air_time", "distance", "hour", "carrier", "origin"]
REFERENCE_DAYS, DAYS = 59, 7


@dataclass(frozen=True)
class Series:
    """A year in order and shuffled: the reference, and the weeks after it."""

    reference: pd.DataFrame
    weeks: Sequence[pd.DataFrame]
    shuffled_reference: pd.DataFrame
    shuffled_weeks: Sequence[pd.DataFrame]


def flights() -> Series:
    """Every flight that has a time, by its day."""
    year = pd.read_csv(source() / "flights.csv.zip", usecols=["year", "month", "day", *COLUMNS])
    days = (pd.to_datetime(year[["year", "month", "day"]]) - pd.Timestamp(2013, 1, 1)).dt.days
    ordered = year[COLUMNS].astype(dict.fromkeys(["dep_delay", "air_time", "distance", "hour"], "float64"))
    shuffled = ordered.sample(frac=1, random_state=5).set_axis(ordered.index)
    whole = range((365 - REFERENCE_DAYS) // DAYS)
    weeks = [days.between(REFERENCE_DAYS + DAYS * week, REFERENCE_DAYS + DAYS * week + DAYS - 1) for week in whole]
    first = days < REFERENCE_DAYS
    return Series(
        ordered[first],
        [ordered[week] for week in weeks],
        shuffled[first],
        [shuffled[week] for week in weeks],
    )
