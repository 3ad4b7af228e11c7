"""Features of the past, for many pairs at once: what loops over the events that were known then say."""

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace.declare.schema import Kind
from headrace.declare.views import View
from headrace.lake.lookback import BEFORE, FOUND, NO_KEY, STATUS, UNKNOWN, Reads, features_at
from headrace.tiles.expressions import holds
from headrace.tiles.fold import events_of
from tests.oracle import brute
from tests.oracle.streams import SECOND_US, Sent, hostile
from tests.oracle.test_kernel_is_brute_force import VIEWS, agrees

ARROW = {
    Kind.STRING: pa.string(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.INTEGER: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.TIMESTAMP: pa.int64(),
}


def first_of_each_id(view: View, sent: list[Sent]) -> list[Sent]:
    clean = [one for one in sent if brute.fate(view.stream, one) == "clean"]
    return list({one.values["id"]: one for one in reversed(clean)}.values())[::-1]


def events_table(view: View, clean: list[Sent], as_of: str) -> pa.Table:
    """What Spark hands over: the folded columns of the view's events, and whether each condition holds."""
    reads, schema = Reads(view), view.stream.schema
    own = [one for one in clean if None not in [one.values[name] for name in view.by]]
    events = events_of(schema, [one.values for one in own], [one.arrival_us for one in own])
    times = [one.values["at"] for one in own]

    def column(name: str) -> pa.Array:
        kind = ARROW[schema.column(name, "test").kind]
        return pa.array([one.values[name] for one in own], kind, from_pandas=False)

    return pa.table(
        {f"e{index}": column(name) for index, name in enumerate(view.by)}
        | {"hr_time": pa.array(times, pa.int64())}
        | {"hr_known": pa.array([one.arrival_us for one in own] if as_of == "arrival" else times, pa.int64())}
        | {"hr_id": column("id")}
        | {f"v{index}": column(name) for index, name in enumerate(reads.values)}
        | {
            f"w{index}": pa.array(holds(condition, events.columns, len(own)))
            for index, condition in enumerate(reads.conditions)
        }
    )


def spine_table(view: View, rows: list[tuple[tuple[Any, ...], int | None]]) -> pa.Table:
    kinds = [ARROW[column.kind] for column in view.entity]
    columns = {f"e{i}": pa.array([entity[i] for entity, _ in rows], kind) for i, kind in enumerate(kinds)}
    return pa.table(columns | {"hr_at": pa.array([at_us for _, at_us in rows], pa.int64())})


def known_by(view: View, clean: list[Sent], at_us: int, as_of: str) -> list[dict[str, Any]]:
    return [
        one.values for one in clean if (one.arrival_us if as_of == "arrival" else one.values[view.stream.time]) <= at_us
    ]


def plain(value: Any) -> Any:
    return int(value) if isinstance(value, Decimal) else value


@pytest.mark.parametrize("as_of", ["arrival", "event"])
@pytest.mark.parametrize("seed", range(60))
def test_features_of_pairs_are_what_loops_over_the_events_known_then_say(seed: int, as_of: str) -> None:
    chance = random.Random(seed)
    view, sent = VIEWS[seed % len(VIEWS)], hostile(seed, 300 if seed % 10 == 0 else 100)
    clean = first_of_each_id(view, sent)
    entities = sorted({tuple(one.values[name] for name in view.by) for one in sent}, key=str)
    times = [one.arrival_us for one in sent] + [one.values["at"] for one in sent]
    rows = [(chance.choice(entities), chance.choice(times) + chance.choice((-1, 0, 0, 1))) for _ in range(40)]
    found = features_at(view, events_table(view, clean, as_of), spine_table(view, rows)).to_pylist()
    for (entity, at_us), row in zip(rows, found, strict=True):
        own = [] if None in entity else known_by(view, clean, at_us, as_of)
        expected = brute.features(view, own, entity, at_us)
        for feature in view.features:
            assert agrees(feature, plain(row[feature.name]), *expected[feature.name]), (feature.name, entity, at_us)


def test_rows_without_anything_to_find_get_defaults_and_say_why() -> None:
    view = VIEWS[0]
    (one,) = [one for one in hostile(3) if brute.fate(view.stream, one) == "clean"][:1]
    known = tuple(one.values[name] for name in view.by)
    rows = [
        (known, one.arrival_us),
        (known, one.arrival_us - 1),
        (("never",), one.arrival_us),
        ((None,), 0),
        (known, None),
    ]
    found = features_at(view, events_table(view, [one], "arrival"), spine_table(view, rows)).to_pylist()
    assert [row[STATUS] for row in found] == [FOUND, BEFORE, UNKNOWN, NO_KEY, NO_KEY]
    assert [row["number_7d"] for row in found] == [1, 0, 0, 0, 0]
    assert [row["sum_double_7d"] is None for row in found[1:]] == [True] * 4


def test_a_busy_tile_is_read_in_blocks_up_to_the_last_event_known() -> None:
    view = VIEWS[0]
    chance, base_us = random.Random(5), 1_767_225_600 * SECOND_US
    sent = hostile(11, 2_000, base_us, 600 * SECOND_US)
    clean = first_of_each_id(view, sent)
    rows = [(("hot",), chance.choice(clean).arrival_us) for _ in range(30)]
    for as_of in ("arrival", "event"):
        found = features_at(view, events_table(view, clean, as_of), spine_table(view, rows)).to_pylist()
        for (entity, at_us), row in zip(rows, found, strict=True):
            expected = brute.features(view, known_by(view, clean, at_us, as_of), entity, at_us)
            for feature in view.features:
                assert agrees(feature, plain(row[feature.name]), *expected[feature.name]), (feature.name, at_us)
