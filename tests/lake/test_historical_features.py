"""Point-in-time features of many pairs at once equal brute force over the events known then."""

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace.declare.features.view import View
from headrace.declare.streams.stream import Stream
from headrace.lake import arrow_events
from headrace.lake.historical_features import (
    BEFORE_FIRST_EVENT,
    FOUND,
    NO_KEY,
    STATUS_COLUMN,
    UNKNOWN_ENTITY,
    compute_past_features,
)
from tests.oracle import brute
from tests.oracle.streams import SECOND_US, Sent, hostile
from tests.oracle.test_kernel_is_brute_force import VIEWS, agrees, in_order


def first_of_each_id(stream: Stream, sent: list[Sent]) -> list[Sent]:
    clean = [one for one in sent if brute.fate(stream, one) == "clean"]
    return list({one.values[stream.id]: one for one in reversed(clean)}.values())[::-1]


def events_table(view: View, clean: list[Sent], as_of: str) -> pa.Table:
    """The events as Spark hands them over."""
    known_us = [one.arrival_us if as_of == "arrival" else one.values["at"] for one in clean]
    return arrow_events.to_events_table(view, view.streams[0], [one.values for one in clean], known_us)


def spine_table(view: View, rows: list[tuple[tuple[Any, ...], int | None]]) -> pa.Table:
    kinds = [arrow_events.ARROW_TYPES[column.kind] for column in view.entity]
    columns = {f"e{i}": pa.array([entity[i] for entity, _ in rows], kind) for i, kind in enumerate(kinds)}
    return pa.table(columns | {"hr_at": pa.array([at_us for _, at_us in rows], pa.int64())})


def known_by(view: View, clean: list[Sent], at_us: int, as_of: str) -> list[dict[str, Any]]:
    return [
        one.values
        for one in clean
        if (one.arrival_us if as_of == "arrival" else one.values[view.streams[0].time]) <= at_us
    ]


def whole(value: Any) -> Any:
    return int(value) if isinstance(value, Decimal) else value


@pytest.mark.parametrize("as_of", ["arrival", "event"])
@pytest.mark.parametrize("seed", range(24))
def test_features_of_pairs_are_what_loops_over_the_events_known_then_say(seed: int, as_of: str) -> None:
    chance = random.Random(seed)
    view, sent = VIEWS[seed % len(VIEWS)], hostile(seed, 300 if seed % 10 == 0 else 100)
    clean = first_of_each_id(view.streams[0], sent)
    entities = sorted({tuple(one.values[name] for name in view.by) for one in sent}, key=str)
    times = [one.arrival_us for one in sent] + [one.values["at"] for one in sent]
    rows = [(chance.choice(entities), chance.choice(times) + chance.choice((-1, 0, 0, 1))) for _ in range(40)]
    found = compute_past_features(view, events_table(view, clean, as_of), spine_table(view, rows)).to_pylist(
        maps_as_pydicts="strict"
    )
    for (entity, at_us), row in zip(rows, found, strict=True):
        own = [] if None in entity else known_by(view, clean, at_us, as_of)
        expected = brute.features(view, own, entity, at_us)
        for feature in view.features:
            assert agrees(feature, whole(row[feature.name]), *expected[feature.name]), (feature.name, entity, at_us)
            assert in_order(row[feature.name], expected[feature.name].value), (feature.name, entity, at_us)


def test_rows_without_anything_to_find_get_defaults_and_say_why() -> None:
    view = VIEWS[0]
    (one,) = [one for one in hostile(3) if brute.fate(view.streams[0], one) == "clean"][:1]
    known = tuple(one.values[name] for name in view.by)
    rows = [
        (known, one.arrival_us),
        (known, one.arrival_us - 1),
        (("never",), one.arrival_us),
        ((None,), 0),
        (known, None),
    ]
    found = compute_past_features(view, events_table(view, [one], "arrival"), spine_table(view, rows)).to_pylist()
    assert [row[STATUS_COLUMN] for row in found] == [FOUND, BEFORE_FIRST_EVENT, UNKNOWN_ENTITY, NO_KEY, NO_KEY]
    assert [row["number_7d"] for row in found] == [1, 0, 0, 0, 0]
    assert [row["sum_double_7d"] is None for row in found[1:]] == [True] * 4
    assert [row["by_text_7d"] for row in found[1:]] == [[]] * 4


def test_a_busy_tile_is_read_in_blocks_up_to_the_last_event_known() -> None:
    view = VIEWS[0]
    chance, base_us = random.Random(5), 1_767_225_600 * SECOND_US
    sent = hostile(11, 1_000, base_us, 600 * SECOND_US)
    clean = first_of_each_id(view.streams[0], sent)
    rows = [(("hot",), chance.choice(clean).arrival_us) for _ in range(30)]
    for as_of in ("arrival", "event"):
        found = compute_past_features(view, events_table(view, clean, as_of), spine_table(view, rows)).to_pylist(
            maps_as_pydicts="strict"
        )
        for (entity, at_us), row in zip(rows, found, strict=True):
            expected = brute.features(view, known_by(view, clean, at_us, as_of), entity, at_us)
            for feature in view.features:
                assert agrees(feature, whole(row[feature.name]), *expected[feature.name]), (feature.name, at_us)


def test_without_any_event_every_feature_is_its_default() -> None:
    view = VIEWS[0]
    (row,) = compute_past_features(
        view, events_table(view, [], "arrival"), spine_table(view, [(("c1",), 0)])
    ).to_pylist(maps_as_pydicts="strict")
    expected = brute.features(view, [], ("c1",), 0)
    assert {feature.name: row[feature.name] for feature in view.features} == {
        name: found.value for name, found in expected.items()
    }
