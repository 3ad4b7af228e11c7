"""The drift section: its simulation drifts where declared, and its arithmetic is right."""

import numpy as np

from bench import drift, drift_peers
from bench.drift_peers import Beside
from bench.drifting import DRIFTS, drawn, layout_of, windows
from bench.results import Result


def found(first: int = 200) -> Result:
    quiet = drift.Quiet(3, 3_000_000, 1_000_000, 2, 0.85, 0.001, {"psi": 1.5})
    delayed = drift.Delayed(200, 100.0, 200.0)
    errors = drift.Errors(0, 2, 0, 200, delayed, delayed)
    one = drift.Found(200, 200, 0, first, 500.0, 800.0)
    return drift.result(quiet, {"abrupt": one}, errors)


def test_goals_are_held_or_missed() -> None:
    assert [goal.met for goal in found().goals] == [True, True, True, True, True]
    assert [goal.met for goal in found(first=189).goals] == [True, True, True, True, False]


def test_a_peer_that_was_not_there_has_an_empty_cell() -> None:
    beside = [Beside("300 rows without drift", 400, 0, None, 20), Beside("flights", 400, 0, 3, None)]
    rows = drift_peers.result(beside).table.rows
    assert rows == [["300 rows without drift", "0 of 400", "", "20 of 400"], ["flights", "0 of 400", "3 of 400", ""]]


def test_one_input_drifts_from_where_it_is_said_to() -> None:
    before, after = (drawn(np.random.default_rng(1), 2_000, one, 1_000) for one in (None, DRIFTS[2]))
    changed = [
        name
        for name in before.frame
        if name != "score"
        and not np.array_equal(before.frame[name], after.frame[name], equal_nan=before.frame[name].dtype != object)
    ]
    assert changed == [after.column]
    assert (before.frame[after.column][:1_000] == after.frame[after.column][:1_000])[:5].all()


def test_windows_are_the_rows_of_their_minutes() -> None:
    rng = np.random.default_rng(2)
    layout = layout_of(drawn(rng, 1_000).frame)
    counts = windows(layout, drawn(rng, 50 * 10).frame, 50, 4)
    column = layout.columns[0]
    assert counts[()].shape[0] == 7
    assert (counts[()][:, column.start : column.end].sum(axis=-1) == 200).all()
    parts = sum(of[:, column.start : column.end].sum(axis=-1) for segment, of in counts.items() if segment)
    assert (parts == 200).all()


def test_a_drift_is_found_after_it_began_with_the_right_input_first() -> None:
    runs = [drift.one_run(DRIFTS[0], seed) for seed in range(3)]
    assert all(one.delay is not None and one.right and not one.early for one in runs)


def test_alarms_are_runs_of_windows() -> None:
    assert drift.runs_of(np.array([[1, 0], [1, 1], [0, 1], [1, 0]], bool)) == 3
