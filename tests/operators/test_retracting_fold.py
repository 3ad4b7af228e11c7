"""Features of a captured table's rows: after any history they equal those of the remaining rows."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import headrace as hr
from headrace.declare.features.retractable_views import (
    NEW_ROW_INPUT,
    OLD_ROW_INPUT,
    RetractableView,
    retractable_view_operation,
)
from headrace.operators.factory import create_operator
from headrace.operators.operator import InputEvent, Operator, OutputEvent, advance_operator
from headrace.operators.retracting_fold import RetractingFoldOperator
from headrace.tiles.layout import stream_layouts
from headrace.tiles.online.feature_reader import FeatureReader
from headrace.tiles.online.tile_rows import TileRows
from headrace.tiles.tile import decode_key, decode_tile

CUSTOMERS = hr.Changes("customers", schema="id bigint, country string, credit double", key="id")
HOUR_US = 3_600_000_000
Row = dict[str, Any]


@hr.features(CUSTOMERS, by="country")
class Countries:
    customers = hr.count(windows=["forever", "1h"])
    credit = hr.sum("credit", windows="forever")
    least = hr.min("credit", windows="forever")
    most = hr.max("credit", windows="forever")
    rich = hr.count(where="credit > 50", windows="forever")
    median = hr.quantile("credit", 0.5, windows="forever")
    distinct = hr.distinct("id", windows="forever")


def change(lsn: int, op: str, before: Row | None, after: Row | None, at_us: int) -> Row:
    row = after or before or {}
    told = {"op": op, "deleted": op == "d", "changed_at": at_us, "lsn": lsn, "change": f"{lsn}/{op}/{row['id']}"}
    return row | told | {f"before_{name}": (before or {}).get(name) for name in ("id", "country", "credit")}


def history(count: int, seed: int = 1) -> tuple[list[Row], dict[int, Row], dict[int, int]]:
    """Random changes, the rows that are left, and when each was last changed."""
    chance, rows, times, told = random.Random(seed), dict[int, Row](), dict[int, int](), list[Row]()
    for lsn in range(1, count + 1):
        at_us = lsn * HOUR_US // 40
        key = chance.randrange(30)
        before = rows.get(key)
        if before is not None and chance.random() < 0.3:
            del rows[key]
            told.append(change(lsn, "d", before, None, at_us))
            continue
        after = {"id": key, "country": chance.choice(["FR", "DE", "IT"]), "credit": float(chance.randrange(100))}
        rows[key], times[key] = after, at_us
        told.append(change(lsn, "c" if before is None else "u", before, after, at_us))
    return told, rows, times


def sides(changes: Sequence[Row], first: int = 0) -> Iterator[tuple[str, InputEvent]]:
    """Each change as the entity it leaves and the one it comes to see it."""
    for offset, one in enumerate(changes, first):
        for source, column in ((OLD_ROW_INPUT, "before_country"), (NEW_ROW_INPUT, "country")):
            if one[column] is not None:
                time_us = one["changed_at"]
                yield one[column], InputEvent(source, one["change"], time_us, time_us, 0, offset, one)


class Entities:
    """Every entity's operator, packed between steps as Spark keeps it, and the tiles that came of it."""

    def __init__(self, operator: Operator[Any]) -> None:
        self.operator, self.packed = operator, dict[str, bytes]()
        self.layouts = stream_layouts(CUSTOMERS, Countries)
        self.rows = dict[str, list[TileRows]]()

    def take(self, changes: Sequence[Row], first: int = 0) -> None:
        by_entity: dict[str, list[InputEvent]] = {}
        for entity, event in sides(changes, first):
            by_entity.setdefault(entity, []).append(event)
        for entity, events in by_entity.items():
            packed = self.packed.get(entity)
            kept = self.operator.create_state() if packed is None else self.operator.decode_state(packed)
            for made in list(advance_operator(self.operator, (entity,), kept, events, 0)):
                self._apply(entity, made)
            self.packed[entity] = self.operator.encode_state(kept)

    def _apply(self, entity: str, made: OutputEvent) -> None:
        key = decode_key(made.values["tile"])
        assert key.entity == (entity,)
        rows = self.rows.setdefault(entity, [TileRows(layout) for layout in self.layouts])
        place = [layout.version for layout in self.layouts].index(key.version)
        rows[place].apply(decode_tile(self.layouts[place], key.start_us, made.values["value"]))

    def at(self, entity: str, at_us: int) -> dict[str, Any]:
        reader = FeatureReader(Countries)
        rows = self.rows.get(entity)
        values = reader.default_row if rows is None else reader.read_values(rows, at_us)
        return dict(zip(Countries.names, values, strict=True))


def expected(rows: dict[int, Row], entity: str) -> dict[str, Any]:
    owed = sorted(row["credit"] for row in rows.values() if row["country"] == entity)
    return {
        "customers_forever": len(owed),
        "credit_forever": sum(owed) if owed else 0.0,
        "least_forever": owed[0] if owed else None,
        "most_forever": owed[-1] if owed else None,
        "rich_forever": sum(credit > 50 for credit in owed),
    }


def assert_right(entities: Entities, rows: dict[int, Row], times: dict[int, int], at_us: int) -> None:
    for entity in ("FR", "DE", "IT"):
        found, wanted = entities.at(entity, at_us), expected(rows, entity)
        assert {name: found[name] for name in wanted} == wanted or (
            found["credit_forever"] is None and not wanted["customers_forever"]
        )
        reach_us = HOUR_US + Countries.features[1].window.hop_us
        own = [times[key] for key, row in rows.items() if row["country"] == entity]
        hop_us = Countries.features[1].window.hop_us
        assert found["customers_1h"] == sum(time_us // hop_us * hop_us > at_us - reach_us for time_us in own)
        assert found["distinct_forever"] == len(own)


def test_features_are_those_of_the_rows_that_are_left_whatever_was_before() -> None:
    changes, rows, times = history(400)
    for together in (1, 7, 400):
        entities = Entities(RetractingFoldOperator(RetractableView(Countries)))
        for first in range(0, len(changes), together):
            entities.take(changes[first : first + together], first)
        assert_right(entities, rows, times, changes[-1]["changed_at"])


def test_changes_that_are_told_again_after_a_crash_change_nothing() -> None:
    changes, rows, times = history(200)
    entities = Entities(create_operator(retractable_view_operation(Countries)))
    entities.take(changes, 0)
    before = {entity: entities.at(entity, changes[-1]["changed_at"]) for entity in ("FR", "DE", "IT")}
    entities.take(changes[150:], 1000)
    assert {entity: entities.at(entity, changes[-1]["changed_at"]) for entity in before} == before
    assert_right(entities, rows, times, changes[-1]["changed_at"])


def test_a_row_that_comes_and_goes_in_one_transaction_is_gone() -> None:
    first = {"id": 1, "country": "DE", "credit": 1.0}
    second = first | {"country": "FR"}
    together = [
        change(10, "c", None, first, HOUR_US),
        change(11, "u", first, second, HOUR_US),
        change(12, "u", second, first, HOUR_US),
    ]
    entities = Entities(RetractingFoldOperator(RetractableView(Countries)))
    entities.take(together)
    assert entities.at("FR", HOUR_US)["customers_forever"] == 0
    assert entities.at("DE", HOUR_US)["customers_forever"] == 1


def test_an_update_that_does_not_tell_what_was_before_is_refused() -> None:
    operator = RetractingFoldOperator(RetractableView(Countries))
    blind = change(1, "u", None, {"id": 1, "country": "FR", "credit": 1.0}, HOUR_US)
    (_, event) = next(sides([blind]))
    with pytest.raises(ValueError, match="REPLICA IDENTITY FULL"):
        list(operator.process_event(("FR",), operator.create_state(), event))
