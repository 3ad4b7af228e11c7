"""Served values compared with those of their events: right ones pass, wrong ones are found and explained."""

import json
import random
from typing import Any

import pyarrow as pa

from headrace.lake.consistency.value_comparison import compare_served
from headrace.lake.historical_features import known_column
from headrace.online_store.feature_lookup import TileRowsReader
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader
from headrace.server.features.feature_routes import FeaturesHandler
from headrace.server.http.responses import encode_json
from headrace.tiles.fold import fold_into_tiles, to_event_columns
from headrace.tiles.layout import hop_layouts
from headrace.tiles.online.feature_reader import FeatureReader
from headrace.tiles.online.tile_rows import TileRows
from tests.lake.test_historical_features import events_table, first_of_each_id
from tests.oracle.streams import SECOND_US, Sent, hostile
from tests.oracle.test_kernel_is_brute_force import VIEWS

VIEW = VIEWS[0]


def rows_after(clean: list[Sent], entity: tuple[Any, ...]) -> list[TileRows]:
    """The tiles of an entity once these events are folded."""
    layouts = hop_layouts(VIEW)
    hops = [layout.hop_us for layout in layouts]
    rows = [TileRows(layout) for layout in layouts]
    events = to_event_columns(VIEW, VIEW.streams[0], [one.values for one in clean], [one.arrival_us for one in clean])
    for key, tile in fold_into_tiles(VIEW, events):
        if key.entity == entity:
            rows[hops.index(key.hop_us)].apply(tile)
    return rows


def served_table(clean: list[Sent], asked: list[tuple[tuple[Any, ...], int]]) -> pa.Table:
    """Answers as a server that knew these events would have written them down."""
    answers = []
    features = FeaturesHandler(VIEW, MemoryStoreReader(MemoryStore([VIEW]), None))
    for entity, at_us in asked:
        known_then = [one for one in clean if one.arrival_us <= at_us]
        rows = rows_after(known_then, entity)
        values = features._to_json_values(FeatureReader(VIEW).read_values(rows, at_us))
        known = TileRowsReader(VIEW).read(rows, at_us).provenance
        row = {"values": dict(zip(VIEW.names, values, strict=True))}
        answers.append(
            {"e0": entity[0], "hr_at": at_us, "hr_row": encode_json(row).decode()}
            | {
                known_column(name, layout.hop_us, 0): part
                for layout, hop in zip(hop_layouts(VIEW), known, strict=True)
                for name, part in (("events", hop.event_count), ("known", hop.arrival_us))
            }
        )
    return pa.Table.from_pylist(answers)


def questions(clean: list[Sent], count: int) -> list[tuple[tuple[Any, ...], int]]:
    chance = random.Random(3)
    entities = sorted({(one.values["card"],) for one in clean}, key=str)
    return [(chance.choice(entities), chance.choice(clean).arrival_us) for _ in range(count)]


CLEAN = first_of_each_id(VIEW.streams[0], hostile(8, 400, 1_767_225_600 * SECOND_US, 1_800 * SECOND_US))


def test_right_answers_are_found_right() -> None:
    findings = compare_served(VIEW, events_table(VIEW, CLEAN, "arrival"), served_table(CLEAN, questions(CLEAN, 60)))
    assert findings.rows == 60
    assert findings.wrong == 0
    assert set(findings.by_arrival) == set(VIEW.names)
    assert sum(one.exact for one in findings.by_arrival.values()) > 0.9 * 60 * len(VIEW.names)
    assert all(one.in_flight == 0 for one in findings.by_arrival.values())


def test_a_wrong_value_is_found_with_the_events_that_explain_it() -> None:
    served = served_table(CLEAN, questions(CLEAN, 5))
    rows = [json.loads(row) for row in served["hr_row"].to_pylist()]
    rows[2]["values"]["number_7d"] += 3
    spoilt = served.set_column(2, "hr_row", pa.array([json.dumps(row) for row in rows]))
    findings = compare_served(VIEW, events_table(VIEW, CLEAN, "arrival"), spoilt)
    assert findings.wrong == 1
    assert findings.by_arrival["number_7d"].largest == 3
    (worst,) = findings.worst
    assert (worst["feature"], worst["served"] - worst["recomputed"]) == ("number_7d", 3)
    assert worst["last_events"]


def test_counts_of_a_map_are_estimates_up_to_their_error_and_wrong_beyond() -> None:
    served = served_table(CLEAN, [(("hot",), CLEAN[-1].arrival_us)])
    (row,) = [json.loads(row) for row in served["hr_row"].to_pylist()]
    counts = row["values"]["by_text_7d"]
    assert sum(counts.values()) > 100
    outcomes = []
    for short in (0, 1, 50):
        spoilt = row | {"values": row["values"] | {"by_text_7d": counts | {"": counts[""] - short}}}
        given = served.set_column(2, "hr_row", pa.array([json.dumps(spoilt)]))
        found = compare_served(VIEW, events_table(VIEW, CLEAN, "arrival"), given).by_arrival["by_text_7d"]
        outcomes.append((found.exact, found.estimated, found.wrong, found.largest))
    assert outcomes == [(1, 0, 0, 0.0), (0, 1, 0, 1.0), (0, 0, 1, 50.0)]


def test_an_event_still_on_its_way_is_no_mistake_of_the_server() -> None:
    asked = questions(CLEAN, 20)
    behind = served_table([one for one in CLEAN if one is not CLEAN[-40]], asked)
    findings = compare_served(VIEW, events_table(VIEW, CLEAN, "arrival"), behind)
    assert findings.wrong == 0
    assert sum(one.exact for one in findings.by_event.values()) > 0
