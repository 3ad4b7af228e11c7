"""Every metric of tiles equals scikit-learn's on the raw pairs, in any order, split and correction."""

import math
import random
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

import headrace as hr
from headrace.declare.durations import duration_us
from headrace.declare.models.metrics import MINUTE_US, Segment
from headrace.monitoring.quality.metric_values import compute_metric, model_metrics
from headrace.monitoring.quality.outcome_changes import CHANGE_SCHEMA, changes_from_table
from headrace.monitoring.quality.quality_fold import fold_changes
from headrace.monitoring.quality.quality_table import QualityTable
from headrace.monitoring.quality.quality_tile import (
    QualityKey,
    QualityTile,
    create_layout,
    encode_key,
    encode_tile,
    merge_tiles,
)
from tests.monitoring.quality.histories import COSTS, THRESHOLDS, Life, lives, model

CLASSES, NUMBERS = model("fraud"), model("loss")
SEEDS = st.integers(0, 2**32 - 1)
WINDOWS = ["1m", "7m", "1h", "1d"]
SEGMENTS: list[Segment] = [(), (("country", "FR"),), (("country", "IT"),)]


def interleaved(chance: random.Random, all_lives: list[Life]) -> list[dict[str, Any]]:
    """The changes of all lives in one random order that keeps the order of each life."""
    waiting = [life.changes()[::-1] for life in all_lives if life.states]
    told = []
    while waiting:
        place = chance.randrange(len(waiting))
        told.append(waiting[place].pop())
        if not waiting[place]:
            waiting[place] = waiting[-1]
            waiting.pop()
    return told


def written(asked: hr.Model, chance: random.Random, changes: list[dict[str, Any]]) -> Iterator[tuple[bytes, bytes]]:
    """What a writer that folds batch by batch writes: each time the whole of every tile that changed."""
    layout, kept = create_layout(asked), dict[QualityKey, QualityTile]()
    while changes:
        size = chance.randint(1, len(changes))
        batch, changes = changes[:size], changes[size:]
        for key, tile in fold_changes(layout, changes_from_table(pa.Table.from_pylist(batch, CHANGE_SCHEMA))):
            kept[key] = merge_tiles(layout, [*([kept[key]] if key in kept else []), tile])
            yield encode_key(key), encode_tile(kept[key])


def table_of(asked: hr.Model, chance: random.Random, all_lives: list[Life]) -> QualityTable:
    """The table of a reader that hears all records in any order, some of them twice."""
    records = list(written(asked, chance, interleaved(chance, all_lives)))
    records += chance.choices(records, k=len(records) // 3) if records else []
    chance.shuffle(records)
    table = QualityTable(asked)
    for key, value in records:
        table.apply_record(key, value)
    return table


def window_of(all_lives: list[Life], now: int, minutes: int, segment: Segment) -> list[Life]:
    country = dict(segment).get("country")
    return [
        life
        for life in all_lives
        if now - minutes - 1 < life.minute <= now
        and life.role == "champion"
        and (not segment or life.country == country)
    ]


def labelled(chosen: list[Life]) -> tuple[np.ndarray, np.ndarray]:
    """Scores, NaN for none, and labels of those whose outcome is known."""
    known = [life for life in chosen if life.end[0] in {"matched", "defaulted"}]
    scores = [math.nan if life.score is None else life.score for life in known]
    labels = [math.nan if life.end[1] is None else life.end[1] for life in known]
    return np.array(scores, dtype=float), np.array(labels, dtype=float)


def usable(scores: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    good = (scores >= 0) & (scores <= 1)
    return scores[good], labels[good]


def mean_cost(labels: np.ndarray, said: np.ndarray) -> float:
    _, fp, fn, tp = sk.confusion_matrix(labels, said, labels=[0, 1]).ravel()
    total = fp * COSTS["false_positive"] + fn * COSTS["false_negative"] + tp * COSTS["true_positive"]
    return float(total / len(labels))


def calibration_error(scores: np.ndarray, labels: np.ndarray) -> float:
    bins = np.minimum(np.searchsorted(np.arange(1, 20) / 20, scores, "right"), 19)
    parts = [abs(scores[bins == one].sum() - labels[bins == one].sum()) for one in range(20)]
    return float(sum(parts) / len(scores))


def of_classes(chosen: list[Life]) -> dict[tuple[str, Any], float | None]:
    """The result of scikit-learn; None where the metric is undefined."""
    all_scores, all_labels = labelled(chosen)
    scores, labels = usable(all_scores, all_labels)
    both, any_of_them, positive = 0 < labels.sum() < len(labels), len(labels) > 0, labels.sum() > 0
    said: dict[tuple[str, Any], float | None] = {
        ("auc", None): sk.roc_auc_score(labels, scores) if both else None,
        ("average_precision", None): sk.average_precision_score(labels, scores) if positive else None,
        ("log_loss", None): sk.log_loss(labels, scores, labels=[0, 1]) if any_of_them else None,
        ("brier", None): float(np.mean((scores - labels) ** 2)) if any_of_them else None,
        ("ece", None): calibration_error(scores, labels) if any_of_them else None,
        ("base_rate", None): float(all_labels.mean()) if len(all_labels) else None,
    }
    for name, least in THRESHOLDS.items():
        reached, true = all_scores >= least, all_labels.sum() > 0
        said |= {
            ("precision", name): sk.precision_score(all_labels, reached) if reached.any() else None,
            ("recall", name): sk.recall_score(all_labels, reached) if true else None,
            ("f_score", name): sk.f1_score(all_labels, reached, zero_division=0) if true else None,
            ("cost", name): mean_cost(all_labels, reached) if len(all_labels) else None,
        }
    return said


def of_numbers(chosen: list[Life]) -> dict[tuple[str, Any], float | None]:
    scores, labels = labelled(chosen)
    with np.errstate(all="ignore"):
        good = np.isfinite((scores - labels) ** 2)
    scores, labels = scores[good], labels[good]
    if not len(scores):
        return {(name, None): None for name in ("mae", "rmse", "bias")} | {
            ("quantile_loss", at): None for at in (0.5, 0.9)
        }
    return {
        ("mae", None): sk.mean_absolute_error(labels, scores),
        ("rmse", None): sk.root_mean_squared_error(labels, scores),
        ("bias", None): math.fsum(scores - labels) / len(scores),
        ("quantile_loss", 0.5): sk.mean_pinball_loss(labels, scores, alpha=0.5),
        ("quantile_loss", 0.9): sk.mean_pinball_loss(labels, scores, alpha=0.9),
    }


def of_outcomes(chosen: list[Life]) -> dict[tuple[str, Any], float | None]:
    there = [life for life in chosen if life.end[0] is not None]
    known = sum(life.end[0] in {"matched", "defaulted"} for life in there)
    return {
        ("coverage", None): known / len(there) if there else None,
        ("corrections", None): float(sum(map(corrected, chosen))),
        **{("label_delay", at): delay_quantile(there, at) for at in (0.5, 0.9)},
    }


def corrected(life: Life) -> int:
    """How often a label that counted became another, or none."""
    counted = {"matched", "defaulted"}
    pairs = zip(life.states, life.states[1:], strict=False)
    return sum(one[0] in counted and not (two[0] in counted and same(one[1], two[1])) for one, two in pairs)


def same(one: float | None, other: float | None) -> bool:
    missing = [value is None or math.isnan(value) for value in (one, other)]
    return all(missing) or one == other


def delay_quantile(there: list[Life], at: float) -> float | None:
    delays = [max(0, life.delay_us) / 1e6 for life in there if life.end[0] == "matched"]
    return float(np.quantile(delays, at, method="inverted_cdf")) if delays else None


def assert_as_said(table: QualityTable, all_lives: list[Life], oracle: Callable[[list[Life]], dict[Any, Any]]) -> None:
    for window, segment, now in product(WINDOWS, SEGMENTS, (30, 59)):
        window_us = duration_us(window, "window")
        chosen = window_of(all_lives, now, window_us // MINUTE_US, segment)
        said = oracle(chosen) | of_outcomes(chosen)
        merged = table.merge_window(now * MINUTE_US, window_us, segment)
        for metric in model_metrics(table.model, window):
            if not metric.name.startswith("estimated_"):
                reading = compute_metric(metric, table.model, merged, merged)
                assert_within(reading, said.pop((metric.name, metric.at)), f"{metric.text} {segment} at {now}")
        assert not said, "every metric was asked for"


def assert_within(reading: Any, expected: float | None, what: str) -> None:
    if expected is None or reading.value is None:
        assert reading.value is None, (what, reading, expected)
        assert expected is None, (what, reading, expected)
        return
    slack = 1e-9 * max(1.0, abs(expected))
    assert abs(reading.value - expected) <= reading.error + slack, (what, reading, expected)
    assert math.isfinite(reading.value)


@given(seed=SEEDS, how_many=st.integers(0, 300))
@settings(max_examples=25)
def test_classifications(seed: int, how_many: int) -> None:
    chance = random.Random(seed)
    all_lives = lives(chance, how_many, "classification")
    assert_as_said(table_of(CLASSES, chance, all_lives), all_lives, of_classes)


@given(seed=SEEDS, how_many=st.integers(0, 300))
@settings(max_examples=25)
def test_regressions(seed: int, how_many: int) -> None:
    chance = random.Random(seed)
    all_lives = lives(chance, how_many, "regression")
    assert_as_said(table_of(NUMBERS, chance, all_lives), all_lives, of_numbers)


@given(seed=SEEDS, how_many=st.integers(1, 200), task=st.sampled_from(["classification", "regression"]))
@settings(max_examples=40)
def test_any_order_and_any_split_give_the_same_integers(seed: int, how_many: int, task: str) -> None:
    chance = random.Random(seed)
    all_lives = lives(chance, how_many, task)
    asked = CLASSES if task == "classification" else NUMBERS
    one, other = (dict(newest(asked, random.Random(seed + add), all_lives)) for add in (1, 2))
    assert one == other


def newest(asked: hr.Model, chance: random.Random, all_lives: list[Life]) -> Iterator[tuple[bytes, bytes]]:
    yield from written(asked, chance, interleaved(chance, all_lives))


@given(seed=SEEDS, how_many=st.integers(1, 200), task=st.sampled_from(["classification", "regression"]))
@settings(max_examples=40)
def test_what_was_taken_out_leaves_nothing_but_the_count_of_changes(seed: int, how_many: int, task: str) -> None:
    chance = random.Random(seed)
    all_lives = lives(chance, how_many, task)
    for life in all_lives:
        life.states.append((None, None))
    asked = CLASSES if task == "classification" else NUMBERS
    layout = create_layout(asked)
    folded = fold_changes(
        layout, changes_from_table(pa.Table.from_pylist(interleaved(chance, all_lives), CHANGE_SCHEMA))
    )
    whole = merge_tiles(layout, (tile for _, tile in folded))
    left = {name for name in layout.slices if whole[name].any()}
    assert left <= {"n", "corrections"}
    assert whole.n == sum(len(life.states) for life in all_lives)


@given(seed=SEEDS, how_many=st.integers(1, 200))
@settings(max_examples=40)
def test_at_every_moment_the_states_add_up_to_the_ids_seen(seed: int, how_many: int) -> None:
    chance = random.Random(seed)
    all_lives = lives(chance, how_many, "classification")
    changes = interleaved(chance, all_lives)
    layout = create_layout(CLASSES)
    for moment in {0, len(changes), *(chance.randint(0, len(changes)) for _ in range(5))}:
        table = pa.Table.from_pylist(changes[:moment], CHANGE_SCHEMA)
        states = merge_tiles(layout, (tile for _, tile in fold_changes(layout, changes_from_table(table)))).states
        seen = sum((one["state_after"] is not None) - (one["state_before"] is not None) for one in changes[:moment])
        assert sum(states.values()) == seen
        assert all(count >= 0 for count in states.values())


@pytest.mark.parametrize("scores", [[0.3] * 4, [0.001, 0.002, 0.0021, 0.9], [0.0, 1.0, 0.0, 1.0]])
def test_the_error_of_an_area_is_stated_and_holds(scores: list[float]) -> None:
    all_lives = [
        Life("1", "champion", None, 0, score, 0, [("matched", float(place % 2))]) for place, score in enumerate(scores)
    ]
    table = table_of(CLASSES, random.Random(0), all_lives)
    for metric, said in (
        (CLASSES.auc("1h"), sk.roc_auc_score),
        (CLASSES.average_precision("1h"), sk.average_precision_score),
    ):
        reading = table.read_metric(metric, 0)
        assert reading.value is not None
        assert abs(reading.value - said([0, 1, 0, 1], scores)) <= reading.error + 1e-12
        assert 0 <= reading.value - reading.error <= reading.value + reading.error <= 1
