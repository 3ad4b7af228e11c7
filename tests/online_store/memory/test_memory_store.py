"""The table in memory: bounded, safe to read during writes, and never older than before."""

import threading

import pytest

import headrace as hr
from headrace.kafka.record import ConsumerRecord
from headrace.online_store.feature_lookup import NO_PROVENANCE, HopProvenance, LookupResult, RetentionExceededError
from headrace.online_store.memory.memory_store import MemoryStore
from tests.online_store.tiles import MINUTE_US, T0_US, Event, Spend, changelog, new_spend, payments

HOUR_US = 60 * MINUTE_US


def test_a_key_never_seen_is_a_row_of_defaults() -> None:
    store = MemoryStore([Spend])
    assert store.read("Spend", [("c1",)], T0_US) == [LookupResult([0, 0, None, None], None, None, [NO_PROVENANCE] * 2)]


def test_reads_merge_the_tiles_of_each_window_and_tell_how_fresh_they_are() -> None:
    store = MemoryStore([Spend])
    times = [T0_US, T0_US + 30 * MINUTE_US, T0_US + 30 * MINUTE_US + 1]
    store.apply(changelog(Event("c1", time_us) for time_us in times))
    (read,) = store.read("Spend", [("c1",)], times[-1])
    known = [HopProvenance(2, times[-1]), HopProvenance(3, times[-1])]
    assert read == LookupResult([2, 3, 4.5, read.values[3]], times[-1], times[-1], known)


def test_a_read_in_the_past_is_as_fresh_as_the_past_was() -> None:
    store = MemoryStore([Spend])
    store.apply(changelog([Event("c1", T0_US), Event("c1", T0_US + 5 * MINUTE_US)]))
    (read,) = store.read("Spend", [("c1",)], T0_US + 4 * MINUTE_US)
    assert (read.values[0], read.event_time_us) == (1, T0_US)


def test_a_time_whose_tiles_may_be_gone_is_refused_rather_than_answered_short() -> None:
    store = MemoryStore([Spend])
    store.apply(changelog([Event("c1", T0_US), Event("c1", T0_US + 5 * MINUTE_US)]))
    with pytest.raises(RetentionExceededError, match="is too long ago"):
        store.read("Spend", [("c1",)], T0_US + 4 * MINUTE_US - 1)


def test_where_events_tell_their_own_arrivals_a_day_more_is_kept() -> None:
    schema = "id string, card string, amount double, at timestamp"
    view = new_spend(hr.Stream("payments", schema=schema, id="id", key="card", time="at", arrival="at"))
    store = MemoryStore([view])
    day_us, later = 24 * HOUR_US, [Event("c2", T0_US + 24 * HOUR_US + number) for number in range(3)]
    store.apply(changelog([Event("c1", T0_US), Event("c1", T0_US + 1), *later], view))
    (read,) = store.read(view.name, [("c1",)], T0_US + 2)
    assert read.values[:2] == [2, 2]
    store.apply(changelog([Event("c2", T0_US + day_us + HOUR_US)], view))
    with pytest.raises(RetentionExceededError, match="is too long ago"):
        store.read(view.name, [("c1",)], T0_US + 2)


def test_tiles_of_another_layout_are_passed_over() -> None:
    @hr.features(payments, by="card")
    class Other:
        declined = hr.count(where="amount > 1000", windows="10m")

    store = MemoryStore([Spend])
    store.apply([record._replace(topic=Spend.topic) for record in changelog([Event("c1", T0_US)], Other)])
    assert len(store.tables["Spend"]) == 0
    assert store.tables["Spend"].rejected_count == 0


def test_what_is_no_tile_is_counted_and_stops_nothing() -> None:
    good = changelog([Event("c1", T0_US)])
    key = good[0].key
    bad = [
        ConsumerRecord(Spend.topic, 0, 0, 0, None, b"{}", None),
        ConsumerRecord(Spend.topic, 0, 1, 0, b"not json", b"{}", None),
        ConsumerRecord(Spend.topic, 0, 2, 0, b"[1]", b"{}", None),
        ConsumerRecord(Spend.topic, 0, 3, 0, key, b"not json", None),
        ConsumerRecord(Spend.topic, 0, 4, 0, key, b"[]", None),
        ConsumerRecord(Spend.topic, 0, 5, 0, key, b'{"n":"many"}', None),
    ]
    store = MemoryStore([Spend])
    store.apply([*bad, *good])
    assert store.tables["Spend"].rejected_count == len(bad)
    assert store.read("Spend", [("c1",)], T0_US)[0].values[0] == 1


def test_tiles_and_entities_that_no_window_holds_are_let_go_of() -> None:
    store = MemoryStore([Spend])
    table = store.tables["Spend"]
    hours = 50
    for hour in range(hours):
        store.apply(changelog(Event(f"c{hour}-{card}", T0_US + hour * HOUR_US) for card in range(100)))
        assert len(table) <= 500
    assert table.tile_count <= 1500
    assert table.size_bytes < 1_000_000
    now_us = T0_US + (hours - 1) * HOUR_US
    assert store.read("Spend", [(f"c{hours - 1}-7",)], now_us)[0].values[:2] == [1, 1]


def test_a_busy_entity_keeps_no_more_tiles_than_its_windows_hold() -> None:
    store = MemoryStore([Spend])
    table = store.tables["Spend"]
    store.apply(changelog(Event("c1", T0_US + minute * MINUTE_US) for minute in range(3000)))
    assert table.tile_count <= 62 + 12 + 2
    assert store.read("Spend", [("c1",)], T0_US + 2999 * MINUTE_US)[0].values[1] == 61


def test_a_clock_a_minute_behind_reads_whole_windows() -> None:
    store = MemoryStore([Spend])
    store.apply(changelog(Event("c1", T0_US + minute * MINUTE_US) for minute in range(200)))
    assert store.read("Spend", [("c1",)], T0_US + 198 * MINUTE_US)[0].values[1] == 61


def test_an_event_far_ahead_of_its_arrival_makes_nothing_old() -> None:
    store = MemoryStore([Spend])
    store.apply(changelog([Event("c1", T0_US)]))
    ahead = changelog([Event("c2", T0_US + 1000 * HOUR_US)])[0]
    arrived = ahead._replace(
        value=(ahead.value or b"").replace(b'"a":%d' % (T0_US + 1000 * HOUR_US), b'"a":%d' % T0_US)
    )
    store.apply([arrived])
    assert store.tables["Spend"].newest_time_us == T0_US
    assert store.read("Spend", [("c1",)], T0_US)[0].values[0] == 1


def test_a_reader_never_sees_a_count_go_back_while_tiles_are_applied() -> None:
    store = MemoryStore([Spend])
    records = changelog(Event("c1", T0_US + second * 1_000_000) for second in range(400))
    done = threading.Event()
    seen: list[list[list[int]]] = [[], []]

    def read(into: list[list[int]]) -> None:
        while not done.is_set():
            into.append(store.read("Spend", [("c1",)], T0_US + 400_000_000)[0].values[:2])

    readers = [threading.Thread(target=read, args=(into,)) for into in seen]
    for reader in readers:
        reader.start()
    for _ in range(5):
        store.apply(records)
        store.apply(reversed(records))
    done.set()
    for reader in readers:
        reader.join()
    for values in seen:
        for window in zip(*values, strict=True):
            assert list(window) == sorted(window)
    assert store.read("Spend", [("c1",)], T0_US + 400_000_000)[0].values[:2] == [400, 400]
