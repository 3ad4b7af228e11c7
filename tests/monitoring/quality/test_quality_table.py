"""Quality tiles in their topic: their format, the version that wins, the content of a window, the errors."""

from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

import headrace as hr
from headrace.declare.models.metrics import MINUTE_US
from headrace.monitoring.quality.outcome_changes import CHANGE_SCHEMA, changes_from_table
from headrace.monitoring.quality.quality_fold import fold_changes
from headrace.monitoring.quality.quality_table import QualityTable
from headrace.monitoring.quality.quality_tile import (
    QualityKey,
    create_layout,
    decode_key,
    decode_tile,
    encode_key,
    encode_tile,
)
from tests.monitoring.quality.histories import Life, model
from tests.monitoring.quality.tile_columns import table_of, tile_of

FRAUD = model()
KEY = encode_key(QualityKey("1", "champion", (), 0))


def table_with(lives: list[Life]) -> QualityTable:
    table = QualityTable(FRAUD)
    changes = pa.Table.from_pylist([change for life in lives for change in life.changes()], CHANGE_SCHEMA)
    for key, tile in fold_changes(table.layout, changes_from_table(changes)):
        table.apply_record(encode_key(key), encode_tile(tile))
    return table


def life(**settings: Any) -> Life:
    given: dict[str, Any] = {"version": "1", "role": "champion", "country": "FR", "minute": 0, "score": 0.5} | settings
    return Life(**given, delay_us=2_000_000, states=[("matched", 1.0)])


def test_a_tile_that_is_older_never_replaces_a_newer_one() -> None:
    table = QualityTable(FRAUD)
    older, newer = (encode_tile(tile_of(FRAUD, [0.5] * size, [1.0] * size)) for size in (1, 2))
    for value in (newer, older, newer):
        table.apply_record(KEY, value)
    assert table.merge_window(0, MINUTE_US).n == 2


def test_a_window_is_every_minute_that_begins_in_it_and_at_most_one_more() -> None:
    table = table_with([life(minute=minute) for minute in range(20)])
    counts = [table.merge_window(now_us, 5 * MINUTE_US).n for now_us in (10 * MINUTE_US, 10 * MINUTE_US + 1, 0, -1)]
    assert counts == [6, 6, 1, 0]


def test_a_window_is_of_one_role_of_one_version_if_asked_and_of_one_segment() -> None:
    table = table_with(
        [life(), life(version="2"), life(version="3", role="challenger"), life(country="DE"), life(country=None)]
    )
    assert table.merge_window(0, MINUTE_US).n == 4
    assert table.merge_window(0, MINUTE_US, version="1").n == 3
    assert table.merge_window(0, MINUTE_US, role="challenger").n == 1
    assert table.merge_window(0, MINUTE_US, (("country", "DE"),)).n == 1


def test_a_metric_is_of_whoever_was_champion_or_of_one_version_in_any_role() -> None:
    table = table_with(
        [life(score=0.9), life(version="online-1", role="challenger", score=0.2), life(version="2", score=0.7)]
    )
    asked = FRAUD.brier("1m")
    assert table.read_metric(asked, 0).value == pytest.approx((0.1**2 + 0.3**2) / 2)
    assert table.read_metric(asked, 0, "online-1").value == pytest.approx(0.8**2)
    assert table.read_metric(asked, 0, "3").value is None


def test_now_is_the_newest_minute_where_labels_tell_their_own_arrivals() -> None:
    schema = "id string, fraud boolean, at timestamp"
    told = hr.Stream("told", schema=schema, id="id", key="id", time="at", arrival="at")
    recorded = model(labels=hr.Labels(told, value="fraud", within="30m"))
    for declared, now_us in ((FRAUD, 99 * MINUTE_US), (recorded, 7 * MINUTE_US)):
        table = QualityTable(declared)
        for minute in (3, 7, 5):
            key = encode_key(QualityKey("1", "champion", (), minute * MINUTE_US))
            table.apply_record(key, encode_tile(tile_of(declared, [0.5], [1.0])))
        assert table.now_us(99 * MINUTE_US) == now_us


def test_minutes_that_are_let_go_are_gone() -> None:
    table = table_with([life(minute=minute) for minute in range(5)])
    table.forget_before(3 * MINUTE_US)
    assert table.merge_window(10 * MINUTE_US, 60 * MINUTE_US).n == 2


def test_an_estimate_is_calibrated_by_what_has_had_all_its_time() -> None:
    early, late = [life(minute=0, score=0.11) for _ in range(100)], [life(minute=500, score=0.11)]
    table = table_with([*early, *late])
    asked = FRAUD.base_rate("1m", estimated=True)
    allowed_us = table.model.labels.within_us + table.model.labels.stream.late.until_us  # type: ignore[union-attr]
    value = table.read_metric(asked, 500 * MINUTE_US).value
    assert allowed_us < 500 * MINUTE_US
    assert value == pytest.approx((100 + 50 * 0.11) / 150)


def test_thresholds_that_change_leave_the_rest_as_it_was() -> None:
    written = encode_tile(tile_of(FRAUD, [0.95, 0.5, 0.95], [1.0, 1.0, 0.0]))
    changed = QualityTable(model(thresholds={"block": 0.9, "stop": 0.99}))
    changed.apply_record(KEY, written)
    assert changed.read_metric(changed.model.precision("1m", at="block"), 0).value == 0.5
    assert changed.read_metric(changed.model.precision("1m", at="stop"), 0).value is None
    assert changed.read_metric(changed.model.auc("1m"), 0) == QualityTable.read_metric(
        _applied(written), FRAUD.auc("1m"), 0
    )


def _applied(written: bytes) -> QualityTable:
    table = QualityTable(FRAUD)
    table.apply_record(KEY, written)
    return table


NO_TILES = [
    b"",
    b"{",
    b"[]",
    b"{}",
    b'{"n":1,"task":"regression","at":{}}',
    b'{"n":1,"task":"classification","at":{},"scores":[[99999],[1]]}',
]


@pytest.mark.parametrize("value", NO_TILES)
def test_what_is_no_tile_is_counted_and_the_rest_goes_on(value: bytes) -> None:
    table = _applied(encode_tile(tile_of(FRAUD, [0.5], [1.0])))
    table.apply_record(KEY, value)
    assert table.rejected_records == 1
    assert table.merge_window(0, MINUTE_US).n == 1


def test_a_tile_stays_small_whatever_is_in_it() -> None:
    chance = np.random.default_rng(3)
    scores = np.concatenate([chance.random(50_000), 10 ** -chance.uniform(0, 9, 50_000), [np.nan, np.inf, -1]])
    tile = tile_of(FRAUD, scores, (chance.random(len(scores)) < 0.5).astype(float))
    written = encode_tile(tile)
    assert len(written) < 32_000
    assert (decode_tile(create_layout(FRAUD), written).integers == tile.integers).all()
    assert len(encode_tile(tile_of(FRAUD, [0.5], [1.0]))) < 400


def test_a_key_says_whose_predictions_of_which_minute() -> None:
    key = QualityKey("3", "champion", (("channel", True), ("country", None)), 120_000_000)
    assert decode_key(encode_key(key)) == key
    assert orjson.loads(encode_key(key)) == {
        "v": "3",
        "r": "champion",
        "s": {"channel": True, "country": None},
        "t": 120_000_000,
    }


def test_labels_may_be_booleans_and_texts_may_be_dictionaries() -> None:
    plain = table_of([0.1, 0.9], [0.0, 1.0])
    other = plain.set_column(plain.column_names.index("label_after"), "label_after", pa.array([False, True]))
    other = other.set_column(0, "version", other["version"].dictionary_encode())
    layout = create_layout(FRAUD)
    (one,), (two,) = (
        list(fold_changes(layout, changes_from_table(table))) for table in (plain, pa.concat_tables([other]))
    )
    assert one[0] == two[0]
    assert (one[1].integers == two[1].integers).all()


def test_a_label_that_is_no_class_is_counted_apart() -> None:
    tile = tile_of(FRAUD, [0.5, 0.5], [2.0, 1.0])
    assert tile["unusable"].tolist() == [0, 0, 0, 1]
    assert tile["labels"].tolist() == [0, 1]


def test_no_changes_are_no_tiles() -> None:
    assert list(fold_changes(create_layout(FRAUD), changes_from_table(CHANGE_SCHEMA.empty_table()))) == []


def test_a_state_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"state_after is 'lost'\. An outcome is pending, matched"):
        changes_from_table(pa.Table.from_pylist([life().changes()[0] | {"state_after": "lost"}], CHANGE_SCHEMA))
