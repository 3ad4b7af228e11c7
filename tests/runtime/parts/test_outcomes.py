"""The command line's output on outcomes: how labels are joined, and what is missing without a lake."""

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.cli.commands.app.plan import describe_label_join
from headrace.declare.app import App
from headrace.runtime.parts.lake_part import missing_outcome_warnings
from headrace.runtime.settings import Settings
from tests.monitoring.prediction_records import new_model

SETTINGS = Settings("127.0.0.1:1", "b:1", 9092, "memory", None, Path("s"), None, frozenset(), "real-time", 60)


def test_without_a_lake_it_is_said_whose_outcomes_are_missing() -> None:
    app = App("one", (), (), (new_model("judged"),))
    assert missing_outcome_warnings(app, replace(SETTINGS, lake=Path("l"))) == []
    (said,) = missing_outcome_warnings(app, SETTINGS)
    assert (
        said
        == "judged-fraud has labels, and with --lake off nothing joins them: no outcomes, no quality, no retraining"
    )


@pytest.mark.parametrize(
    ("within", "way"),
    [
        ("1d", "micro-batch every 10s; each id is kept in state for 1441m, then without a label expired"),
        ("30d", "in rounds, from the lake: longer than 1d; each ends after 43201m, then without a label expired"),
    ],
)
def test_plan_says_how_labels_are_joined(within: str, way: str) -> None:
    labels = new_model("planned", within=within).labels
    assert labels is not None
    assert describe_label_join(labels) == f"joins planned-told.clean within {within}, keeps the last label; {way}"
