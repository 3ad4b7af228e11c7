"""A season of flights: sent in order, charted correctly, and a short part of it through all of Headrace."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import chart
import prepare
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from replaying import in_order
from seen import Day, Decision, Look, Month, Season, months
from truth import Landed, auc, is_clean, is_predicted, states

import headrace as hr
from headrace.declare.app import load_app
from headrace.declare.streams.stream import Stream
from headrace.monitoring.quality.curves import QualityMetricValue
from tests.waiting import patiently

FLIGHTS = Path(__file__).parents[2] / "examples" / "flights"
JUNE = datetime(2013, 6, 1, tzinfo=UTC)
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def streams() -> list[Stream]:
    return list(load_app(str(FLIGHTS / "app.py")).streams)


@pytest.fixture(scope="module")
def some() -> dict[str, pa.Table]:
    """The reports of a few thousand flights."""
    flights = prepare.read_flights().slice(200_000, 3_000)
    return {"departures": prepare.departures(flights), "arrivals": prepare.arrivals(flights)}


def test_both_streams_are_sent_as_they_were_reported_and_each_flight_is_predicted_once(
    streams: list[Stream], some: dict[str, pa.Table], tmp_path: Path
) -> None:
    sent = list(in_order(streams, streams[0], some, tmp_path))
    assert Counter(due.stream for due in sent) == {name: len(events) for name, events in some.items()}
    assert [due.at_us for due in sent] == sorted(due.at_us for due in sent)
    fed = hr.testing.feed(
        load_app(str(FLIGHTS / "app.py")).view("CarrierDepartures"),
        [due.value for due in sent if due.stream == "departures"],
    )
    assert sum(due.is_predicted for due in sent) == len(fed.clean) > 2_900
    assert len(fed.late) > 10
    assert len(fed.duplicates) > 10


def test_brute_force_knows_what_came_of_flights(streams: list[Stream], some: dict[str, pa.Table]) -> None:
    labels = hr.Labels(streams[1], value="late", within="1d")
    departures = some["departures"].filter(pa.array(is_predicted(streams[0], some["departures"])))
    landed = Landed.of(streams[1], some["arrivals"])
    predictions = pa.table(
        {"id": departures["flight_id"], "event_time": departures["at"], "score": departures["distance"]}
    )
    late = some["departures"].filter(pa.array(~is_clean(streams[0], some["departures"])))
    gone = set(departures["flight_id"].to_pylist()) - set(landed.was_late)
    orphans = sum(landed.told[flight] for flight in set(late["flight_id"].to_pylist()))
    at_last = int(pc.max(departures["at"]).as_py().timestamp() * 1e6) + 31 * 3600 * 1_000_000
    matched = {"matched": len(departures) - len(gone), "orphan": orphans}
    assert states(predictions, landed, labels, at_last) == matched | {"expired": len(gone)}
    assert states(predictions, landed, labels, 0) == matched | {"pending": len(gone)}
    assert min(len(gone), orphans) > 10
    sure = predictions.set_column(
        2, "score", pa.array([landed.was_late.get(flight, False) for flight in predictions["id"].to_pylist()])
    )
    assert auc(sure, landed) == 1.0


def drawn(piece: Month, number: int) -> Month:
    return replace(
        piece,
        first_auc=QualityMetricValue(0.94),
        champion_auc=QualityMetricValue(0.94 + number / 100),
        drifted=(("delay", 0.2),),
    )


def season() -> Season:
    pieces = [drawn(month, number) for number, month in enumerate(months(JUNE, 2, None))]
    dates = [JUNE + timedelta(days=number) for number in range(61)]
    days = [Day(date, 0.95, 0.94, 0.93 if date >= pieces[1].begin else None, 0.98) for date in dates]
    decisions = [Decision(JUNE, "1", True, "there was no champion"), Decision(pieces[1].begin, "2", False, "a < b")]
    return Season(pieces, days, [Look(dates[7], 0.95, 0.94, 0.86)], decisions)


def test_the_picture_has_a_line_a_curve_the_retraining_the_coverage_and_the_drift_of_each_month() -> None:
    picture = ET.fromstring(chart.picture(season()))
    words = [text.text or "" for text in picture.iter(f"{SVG}text")]
    curves = [path for path in picture.iter(f"{SVG}path") if path.get("fill") == "none"]
    assert [len(path.get("d", "").split("L")) for path in curves] == [31, 61, 61, 61]
    assert [word for word in words if word in {"June", "July"}] == ["June", "July"]
    assert "retrained: version 2 is refused" in words
    assert words.count("delay 0.20") == 2


def test_the_page_tells_each_month_and_what_was_decided_in_plain_text() -> None:
    page = chart.page(season(), ["all is <well>"])
    assert "version 2 is refused: a &lt; b" in page
    assert "all is &lt;well&gt;" in page
    assert chart.table(season())[1] == ("July", "0.9400", "0.9500", "version 2 is refused: a < b")
    assert not re.search(r"https?://(?!www\.w3\.org)", page)  # nothing is fetched


def test_a_season_goes_on_where_it_was_kept(tmp_path: Path) -> None:
    before, after = season(), Season(months(JUNE, 2, None))
    assert after.reached == JUNE
    before.keep(tmp_path / "season.json")
    after.take_up(tmp_path / "season.json")
    assert (after.looks, after.decisions) == (before.looks, before.decisions)
    assert after.reached == JUNE + timedelta(days=7)
    assert after.champion(after.end) == "1"


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_a_few_days_go_through_everything_and_come_out_as_brute_force_says(tmp_path: Path) -> None:
    first, out = "2013-06-10", tmp_path / "season.html"
    made = [sys.executable, str(Path(__file__).with_name("first_version.py")), str(tmp_path), f"{first}T00:00:00+00:00"]
    subprocess.run(made, check=True, timeout=patiently(120))
    piece = ["--first", first, "--history", "0", "--pieces", "1", "--days", "1", "--out", str(out)]
    command = [sys.executable, str(FLIGHTS / "demo.py"), *piece, "--state", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=patiently(450))
    assert run.returncode == 0, run.stdout + run.stderr
    said = dict(re.findall(r"^(.+?): (.+, by brute force .+)$", run.stdout, re.MULTILINE))
    found, _, expected = said["matched + pending + expired + orphan"].partition(", by brute force ")
    matched, pending, expired, orphan, total = map(number, re.findall(r"[\d,]+", found))
    assert found == expected
    assert total == matched + pending + expired + orphan > 3_000
    assert min(matched, pending, expired, orphan) > 10
    assert {"AUC of the first version in 10 June", "AUC of the champion in 10 June"} <= said.keys()
    assert ET.fromstring(out.with_suffix(".svg").read_text()).tag == f"{SVG}svg"


def number(text: str) -> int:
    return int(text.replace(",", ""))
