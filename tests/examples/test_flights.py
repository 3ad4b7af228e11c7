"""The flights as recordings: every flight of the source once, only the reports synthetic, deterministic."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import prepare
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.declare.app import App, load_app
from headrace.kafka.producer.recordings import open_recording

APP = Path(__file__).parents[2] / "examples" / "flights" / "app.py"
FLIGHTS, CANCELLED, LANDED, WITHOUT_AIRCRAFT = 336_776, 8_255, 327_346, 2_512
MINUTE = timedelta(minutes=1)


@pytest.fixture(scope="module")
def source() -> pa.Table:
    return prepare.read_flights()


@pytest.fixture(scope="module")
def departures(source: pa.Table) -> pa.Table:
    return prepare.departures(source)


@pytest.fixture(scope="module")
def arrivals(source: pa.Table) -> pa.Table:
    return prepare.arrivals(source)


@pytest.fixture(scope="module")
def app() -> App:
    return load_app(str(APP))


def once(events: pa.Table) -> pa.Table:
    """The first report of each flight."""
    _, first = np.unique(events["flight_id"].to_numpy(zero_copy_only=False), return_index=True)
    return events.take(np.sort(first))


def delays_us(events: pa.Table) -> Any:
    return prepare.us(events["reported_at"]) - prepare.us(events["at"])


def test_every_flight_of_the_source_departs_and_those_that_landed_arrive(
    source: pa.Table, departures: pa.Table, arrivals: pa.Table
) -> None:
    assert source.num_rows == FLIGHTS
    assert set(departures["flight_id"].to_pylist()) == set(source["flight_id"].to_pylist())
    assert len(pc.unique(departures["flight_id"])) == FLIGHTS
    assert len(pc.unique(arrivals["flight_id"])) == LANDED
    assert pc.sum(once(departures)["cancelled"]).as_py() == CANCELLED
    assert pc.sum(pc.equal(once(departures)["tail"], prepare.NO_AIRCRAFT)).as_py() == WITHOUT_AIRCRAFT


def test_only_the_delay_of_a_cancelled_flight_is_unknown(departures: pa.Table, arrivals: pa.Table) -> None:
    nulls = {name: events[name].null_count for events in (arrivals, departures) for name in events.column_names}
    assert nulls.pop("delay") == pc.sum(departures["cancelled"]).as_py()
    assert not any(nulls.values())


def test_it_is_the_same_each_time(source: pa.Table, departures: pa.Table, arrivals: pa.Table) -> None:
    assert prepare.departures(source).equals(departures)
    assert prepare.arrivals(source).equals(arrivals)


def test_a_report_does_not_depend_on_other_flights(source: pa.Table, departures: pa.Table) -> None:
    some = prepare.departures(source.slice(100_000, 1_000))
    alone = dict(zip(some["flight_id"].to_pylist(), some["reported_at"].to_pylist(), strict=True))
    among = departures.filter(pc.is_in(departures["flight_id"], some["flight_id"]))
    assert alone == dict(zip(among["flight_id"].to_pylist(), among["reported_at"].to_pylist(), strict=True))


def test_reports_are_in_order_some_late_and_some_twice(departures: pa.Table, arrivals: pa.Table) -> None:
    for events, flights in ((departures, FLIGHTS), (arrivals, LANDED)):
        reported_us, delay_us = prepare.us(events["reported_at"]), delays_us(events)
        assert (np.diff(reported_us) >= 0).all()
        assert delay_us.min() >= 0
        assert (delay_us > 30 * prepare.MINUTE_US).mean() == pytest.approx(prepare.LATE, rel=0.1)
        assert events.num_rows / flights - 1 == pytest.approx(prepare.AGAIN, rel=0.1)


def test_a_flight_lands_after_its_time_in_the_air_and_some_on_the_ground(
    departures: pa.Table, arrivals: pa.Table
) -> None:
    left = dict(zip(departures["flight_id"].to_pylist(), prepare.us(departures["at"]).tolist(), strict=True))
    left_us = np.array([left[flight] for flight in arrivals["flight_id"].to_pylist()])
    on_ground_us = prepare.us(arrivals["at"]) - left_us - prepare.minutes_us(arrivals["air_time"])
    # A time zone taken wrongly would put an hour here or there.
    assert on_ground_us.min() == 5 * prepare.MINUTE_US
    assert on_ground_us.max() == 235 * prepare.MINUTE_US


@pytest.fixture(scope="module")
def first_days(departures: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The departures of the first days, as they are sent."""
    file = tmp_path_factory.mktemp("flights") / "departures.parquet"
    pq.write_table(departures.slice(0, 4_000), file)
    return [event.value for event in open_recording(load_app(str(APP)).stream("departures"), file).events()]


def test_the_gate_judges_history_by_its_own_arrival(app: App, first_days: list[bytes], departures: pa.Table) -> None:
    fed = hr.testing.feed(app.view("CarrierDepartures"), first_days)
    late = delays_us(departures.slice(0, 4_000)) > 30 * prepare.MINUTE_US
    assert fed.dead == []
    assert len(fed.late) == late.sum() > 10
    assert len(fed.duplicates) > 10
    assert len(fed.clean) + len(fed.duplicates) + len(fed.late) == len(first_days)


def test_features_of_a_carrier_are_those_counted_by_hand(
    app: App, first_days: list[bytes], departures: pa.Table
) -> None:
    fed = hr.testing.feed(app.view("CarrierDepartures"), first_days)
    row = fed.at(pc.max(departures.slice(0, 4_000)["at"]).as_py())["UA"]
    united = [row for row in once(departures.slice(0, 4_000)).to_pylist() if row["carrier"] == "UA"]
    counted = [row for row in united if row["reported_at"] - row["at"] <= 30 * MINUTE]
    cancelled = sum(row["cancelled"] for row in counted)
    delays = [row["delay"] for row in counted if row["delay"] is not None]
    assert (row.flights_7d, row.cancelled_7d) == (len(counted), cancelled)
    assert row.mean_delay_7d == sum(delays) / len(delays)
    assert row.worst_delay_7d == max(delays)
    assert row.cancelled_share == cancelled / len(counted)
    assert row.destinations_7d == pytest.approx(len({row["dest"] for row in counted}), rel=0.05)
