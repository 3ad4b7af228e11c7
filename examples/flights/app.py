"""Flights out of New York in 2013: features of carriers, airports and aircraft."""

import headrace as hr

FLIGHT = "flight_id string, carrier string, flight int, tail string, origin string, dest string, distance int"

departures = hr.Stream(
    "departures",
    schema=f"{FLIGHT}, cancelled boolean, delay int, at timestamp, reported_at timestamp",
    id="flight_id",
    key="tail",
    time="at",
    arrival="reported_at",
    late=hr.Late("30m", then="side_output"),
    partitions=1,  # keeps the order of the recording at any replay speed
)
arrivals = hr.Stream(
    "arrivals",
    schema=f"{FLIGHT}, air_time int, delay int, late boolean, at timestamp, reported_at timestamp",
    id="flight_id",
    key="tail",
    time="at",
    arrival="reported_at",
    late=hr.Late("30m", then="update", until="6h"),
    partitions=1,
)


@hr.features(departures, by="carrier")
class CarrierDepartures:
    flights = hr.count(windows=["1h", "1d", "7d"])
    cancelled = hr.count(where="cancelled", windows=["1h", "1d", "7d"])
    mean_delay = hr.mean("delay", windows=["1h", "1d", "7d"])
    worst_delay = hr.max("delay", windows=["1h", "1d", "7d"])
    destinations = hr.distinct("dest", windows=["1d", "7d"])
    cancelled_share = cancelled["7d"] / flights["7d"]


@hr.features(departures, by="origin")
class OriginDepartures:
    flights = hr.count(windows=["1h", "1d", "7d"])
    cancelled = hr.count(where="cancelled", windows=["1h", "1d"])
    mean_delay = hr.mean("delay", windows=["1h", "1d", "7d"])
    worst_delay = hr.max("delay", windows=["1h", "1d"])
    cancelled_share = cancelled["1d"] / flights["1d"]
    worse_than_usual = mean_delay["1h"] > mean_delay["7d"]


@hr.features(departures, by="tail")
class TailDepartures:
    flights = hr.count(windows=["1d", "7d"])
    mean_delay = hr.mean("delay", windows=["1d", "7d"])
    destinations = hr.distinct("dest", windows="7d")
    last_origin = hr.last("origin", windows="7d")


@hr.features(arrivals, by="carrier")
class CarrierArrivals:
    flights = hr.count(windows=["1h", "1d", "7d"])
    mean_delay = hr.mean("delay", windows=["1h", "1d", "7d"])
    worst_delay = hr.max("delay", windows=["1h", "1d", "7d"])


@hr.features(arrivals, by="tail")
class TailArrivals:
    flights = hr.count(windows=["1d", "7d"])
    minutes_in_the_air = hr.sum("air_time", windows=["1d", "7d"])
    mean_delay = hr.mean("delay", windows=["1d", "7d"])
    last_dest = hr.last("dest", windows="7d")
