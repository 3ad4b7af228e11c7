"""Invalid labels: the gate rejects them with a reason, and they never reach a join."""

import json
import math
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.declare.models.label_policy import label_policy_of
from headrace.monitoring.outcomes.batch_changes import CHANGE_SCHEMA
from headrace.monitoring.outcomes.outcomes import LabelEvent, OutcomeCase, PredictionEvent, advance_case
from headrace.monitoring.quality.outcome_changes import changes_from_table
from headrace.monitoring.quality.quality_fold import fold_changes
from headrace.monitoring.quality.quality_tile import create_layout, merge_tiles
from headrace.monitoring.quality.realized_quality import auc, coverage
from headrace.tiles.events.record_classification import ClassificationResult, RawRecord, classify_records
from tests.monitoring.histories import MINUTE, START
from tests.monitoring.prediction_records import new_model

NOW_MS = START // 1000
LABEL = {"id": "p1", "fraud": True, "at": NOW_MS}


def judged(stream: hr.Stream, **changed: Any) -> ClassificationResult:
    (verdict,) = classify_records(stream, [RawRecord(json.dumps(LABEL | changed).encode(), START)])
    return verdict


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"at": NOW_MS + 86_400_000}, "too-far-ahead"),
        ({"fraud": "yes"}, "wrong-type"),
        ({"fraud": 1.5}, "wrong-type"),
        ({"id": None}, "missing-id"),
        ({"at": None}, "missing-time"),
    ],
)
def test_a_label_for_tomorrow_or_of_the_wrong_type_is_a_dead_letter(changed: dict[str, Any], reason: str) -> None:
    labels = new_model("bad").labels
    assert labels is not None
    assert judged(labels.stream).fate == "clean"
    verdict = judged(labels.stream, **changed)
    assert (verdict.fate, (verdict.reason or "").partition(":")[0]) == ("dead", reason)


def test_scores_that_are_no_numbers_are_counted_and_in_no_metric_of_scores() -> None:
    model = new_model("nan")
    assert model.labels is not None
    layout, terms = create_layout(model), label_policy_of(model.labels)
    rows: list[dict[str, Any]] = []
    for number, (score, said) in enumerate([(0.9, 1.0), (0.1, 0.0), (math.nan, 1.0), (math.nan, 0.0)]):
        scored = PredictionEvent("v1", "champion", score, None, "{}", START, START, 0, number)
        _, changes = advance_case(
            OutcomeCase(), [scored, LabelEvent(START + MINUTE, START + MINUTE, 0, number, said)], START, terms
        )
        rows += [{"id": f"p{number}", **change._asdict()} for change in changes]
    tile = merge_tiles(
        layout,
        [added for _, added in fold_changes(layout, changes_from_table(pa.Table.from_pylist(rows, CHANGE_SCHEMA)))],
    )
    assert tile.states["matched"] == 4
    assert coverage(tile).value == 1.0
    assert auc(tile).value == pytest.approx(1.0), "of the two that can be ranked"
