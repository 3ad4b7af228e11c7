"""Labels that are none: what the gate lets die never reaches a join, and says why."""

import json
import math
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.declare.terms import terms_of
from headrace.evaluate.outcomes import Case, Label, Scored, step
from headrace.evaluate.quality.changes import changes_of
from headrace.evaluate.quality.fold import fold
from headrace.evaluate.quality.realised import auc, coverage
from headrace.evaluate.quality.tile import layout_of, merge
from headrace.evaluate.recall import SCHEMA
from headrace.tiles.admission import Record, Verdict, admit
from tests.evaluate.histories import MINUTE, START
from tests.evaluate.joining import new_model

NOW_MS = START // 1000
LABEL = {"id": "p1", "fraud": True, "at": NOW_MS}


def judged(stream: hr.Stream, **changed: Any) -> Verdict:
    (verdict,) = admit(stream, [Record(json.dumps(LABEL | changed).encode(), START)])
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
    layout, terms = layout_of(model), terms_of(model.labels)
    rows: list[dict[str, Any]] = []
    for number, (score, said) in enumerate([(0.9, 1.0), (0.1, 0.0), (math.nan, 1.0), (math.nan, 0.0)]):
        scored = Scored("v1", "champion", score, None, "{}", START, START, 0, number)
        _, changes = step(Case(), [scored, Label(START + MINUTE, START + MINUTE, 0, number, said)], START, terms)
        rows += [{"id": f"p{number}", **change._asdict()} for change in changes]
    tile = merge(layout, [added for _, added in fold(layout, changes_of(pa.Table.from_pylist(rows, SCHEMA)))])
    assert tile.states["matched"] == 4
    assert coverage(tile).value == 1.0
    assert auc(tile).value == pytest.approx(1.0), "of the two that can be ranked"
