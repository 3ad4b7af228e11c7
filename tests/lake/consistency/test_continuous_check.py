"""The sample of the continuous consistency check: without replays and duplicates, and bounded."""

import json
from typing import Any

import pytest

import headrace as hr
from headrace.declare.features.view import View
from headrace.kafka.record import ConsumerRecord
from headrace.lake.consistency import continuous_check
from headrace.lake.consistency.continuous_check import EntitySample
from headrace.online_store.feature_lookup import TileRowsReader
from headrace.tiles.fold import fold_into_tiles, to_event_columns
from headrace.tiles.layout import hop_layouts, live_layouts
from headrace.tiles.online.tile_rows import TileRows

T0_US = 1_767_225_600_000_000
SCHEMA = "id string, card string, amount double, units bigint, at timestamp"
payments = hr.Stream("payments", schema=SCHEMA, id="id", key="card", time="at")


@hr.features(payments, by="card")
class Spend:
    payments = hr.count(windows="10m")
    spend = hr.sum("amount", windows="10m")


@hr.features(payments, by="card")
class Units:
    units = hr.sum("units", windows="10m")


refunds = hr.Stream("refunds", schema=SCHEMA, id="id", key="card", time="at")


@hr.features([payments, refunds], by="card")
class Flow:
    events = hr.count(windows="10m")
    refunds = hr.count(where="stream = 'refunds'", windows="10m")


def clean(offset: int, card: str, event_id: str, units: int = 1) -> ConsumerRecord:
    value = {"id": event_id, "card": card, "amount": 5.0, "units": units, "at": T0_US // 1000}
    headers = [("headrace.offset", str(offset).encode()), ("headrace.arrival", str(T0_US).encode())]
    return ConsumerRecord("payments.clean", 0, offset, T0_US, card.encode(), json.dumps(value).encode(), headers)


def answer(view: View, card: str, values: dict[str, Any], events: int) -> ConsumerRecord:
    row = {"card": card, "values": values}
    said = {"entity": [card], "at": T0_US + 1, "request": {}, "row": row, "known": [[events, T0_US]]}
    said["versions"] = [layout.version for layout in hop_layouts(view)]
    return ConsumerRecord("Spend.served", 0, 0, T0_US, None, json.dumps(said).encode(), None)


def test_replays_and_duplicates_are_counted_once() -> None:
    sample = EntitySample(Spend)
    for record in (clean(0, "c1", "a"), clean(1, "c1", "b"), clean(1, "c1", "b"), clean(2, "c1", "a")):
        sample.add_event(record)
    sample.add_served_row(answer(Spend, "c1", {"payments_10m": 2, "spend_10m": 10.0}, events=2))
    sample.compare_until(T0_US + 1)
    assert (sample.findings.rows, sample.findings.outcomes["exact"], sample.findings.wrong) == (1, 2, 0)


def test_a_wrong_answer_and_one_with_events_in_flight_are_told_apart() -> None:
    sample = EntitySample(Spend)
    sample.add_event(clean(0, "c1", "a"))
    sample.add_served_row(answer(Spend, "c1", {"payments_10m": 3, "spend_10m": 5.0}, events=1))
    sample.add_served_row(answer(Spend, "c1", {"payments_10m": 0, "spend_10m": None}, events=0))
    sample.compare_until(T0_US + 1)
    assert sample.findings.outcomes == {"exact": 1, "rounded": 0, "estimated": 0, "in_flight": 2, "wrong": 1}


def test_sums_beyond_64_bits_are_compared_as_they_are() -> None:
    sample = EntitySample(Units)
    for offset in range(3):
        sample.add_event(clean(offset, "c1", f"p{offset}", units=2**63 - 1))
    sample.add_served_row(answer(Units, "c1", {"units_10m": 3 * (2**63 - 1)}, events=3))
    sample.add_served_row(answer(Units, "c1", {"units_10m": 3 * (2**63 - 1) + 1}, events=3))
    sample.compare_until(T0_US + 1)
    assert (sample.findings.outcomes["exact"], sample.findings.wrong) == (1, 1)


def test_streams_of_one_view_advance_on_their_own_and_equal_ids_are_different_events() -> None:
    sample = EntitySample(Flow)
    assert sample.topics == ("payments.clean", "refunds.clean", "Flow.served")
    for offset, event_id in enumerate(("a", "b", "a")):
        sample.add_event(clean(offset, "c1", event_id))
    for offset, event_id in enumerate(("a", "c")):
        late = clean(offset, "c1", event_id)._replace(topic="refunds.clean")
        headers = [("headrace.offset", str(offset).encode()), ("headrace.arrival", str(T0_US + offset).encode())]
        sample.add_event(late._replace(headers=headers))
    said = json.loads(answer(Flow, "c1", {"events_10m": 3, "refunds_10m": 1}, events=0).value or b"")
    for known in ([[2, T0_US], [1, T0_US]], [[1, T0_US], [2, T0_US + 1]], [[2, T0_US], [2, T0_US + 1]]):
        value = json.dumps(said | {"known": known, "versions": [layout.version for layout in live_layouts(Flow)]})
        sample.add_served_row(ConsumerRecord("Flow.served", 0, 0, T0_US, None, value.encode(), None))
    sample.compare_until(T0_US + 1)
    assert sample.findings.outcomes == {"exact": 2, "rounded": 0, "estimated": 0, "in_flight": 2, "wrong": 2}
    told = [event for row in sample.findings.worst for event in row["last_events"]]
    assert {event["stream"] for event in told} == {"payments", "refunds"}


def test_an_answer_is_compared_only_once_it_is_due() -> None:
    sample = EntitySample(Spend)
    sample.add_served_row(answer(Spend, "c1", {"payments_10m": 0, "spend_10m": None}, events=0))
    sample.compare_until(T0_US)
    assert sample.findings.rows == 0
    sample.compare_until(T0_US + 1)
    assert sample.findings.rows == 1


def test_with_too_many_events_half_of_the_entities_are_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuous_check, "MAX_EVENTS", 100)
    sample = EntitySample(Spend)
    for number in range(1_000):
        sample.add_event(clean(number, f"c{number % 50}", f"p{number}"))
    assert 0 < len(sample._events) <= 100
    cards = {kept.event["card"] for kept in sample._events.values()}
    assert all(sum(kept.event["card"] == card for kept in sample._events.values()) == 20 for card in cards)


def test_the_sample_knows_what_the_store_knows() -> None:
    (layout,) = hop_layouts(Spend)
    events = [{"id": "a", "card": "c1", "amount": 1.0, "units": 1, "at": T0_US}]
    rows = TileRows(layout)
    for _, tile in fold_into_tiles(Spend, to_event_columns(Spend, payments, events, [T0_US + 7])):
        rows.apply(tile)
    assert [tuple(known) for known in TileRowsReader(Spend).read([rows], T0_US).provenance] == [(1, T0_US + 7)]
