"""Batches through the lake: their changes add up to brute force, and need nothing older than the lookback."""

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.declare.app import App
from headrace.declare.models.label_policy import LabelPolicy
from headrace.monitoring.outcomes.batch_changes import ClockInterval, compute_changes
from headrace.monitoring.outcomes.batch_log import JoinBatch, JoinBatchLog, TableOffsets
from headrace.monitoring.outcomes.lookback import LakeRetentionTooShortError, lookback_us, require_retention
from headrace.monitoring.outcomes.outcomes import LabelEvent, PredictionEvent
from tests.monitoring.histories import (
    MINUTE,
    SECOND,
    START,
    History,
    Standing,
    Told,
    added,
    brute_force,
    histories,
    taken_back,
)
from tests.monitoring.prediction_records import new_model

MARGIN = 4 * MINUTE  # events here are no further from their arrivals


@dataclass(frozen=True)
class Long:
    """Records in the order of the log, over many times what is kept; rounds by their ends and clocks."""

    terms: LabelPolicy
    records: tuple[Told, ...]
    rounds: tuple[tuple[int, int], ...]


@st.composite
def long_histories(draw: st.DrawFn) -> Long:
    """Two ids that are scored and labelled again and again, in time and not."""
    keep = draw(st.sampled_from(["last", "first", "any"]))
    terms = LabelPolicy(MINUTE, draw(st.sampled_from([0, MINUTE])), keep, draw(st.sampled_from([None, 0.0])))
    told = draw(st.lists(st.one_of(_scored(), _label(terms)), max_size=24))
    in_log = sorted(told, key=lambda one: one[1].arrival_us + one[2])
    records = tuple((event, record._replace(offset=number)) for number, (event, record, _) in enumerate(in_log))
    cuts = sorted(draw(st.lists(st.integers(0, len(records)), max_size=8)))
    rounds, clock = [], 0
    for cut in (*cuts, len(records)):
        bound = min((record.arrival_us for _, record in records[cut:]), default=START + 10**12)
        clock = max(clock, bound - draw(st.sampled_from([0, 0, MINUTE])))
        rounds.append((cut, clock))
    return Long(terms, records, (*rounds, (len(records), START + 10**12)))


def _scored() -> st.SearchStrategy[tuple[str, PredictionEvent, int]]:
    return st.builds(
        lambda event, of, at, way, behind: (
            event,
            PredictionEvent(*of, 0.5, None, "{}", START + at * SECOND, START + (at + way) * SECOND, 0, 0),
            behind,
        ),
        st.sampled_from("ab"),
        st.sampled_from([("v1", "champion"), ("v2", "challenger")]),
        st.integers(0, 120).map(lambda number: number * 15),
        st.sampled_from([-30, 0, 1, 200]),
        st.sampled_from([0, 0, MINUTE]),
    )  # fmt: skip


def _label(terms: LabelPolicy) -> st.SearchStrategy[tuple[str, LabelEvent, int]]:
    return st.builds(
        lambda event, at, late_us, value, partition: (
            event, LabelEvent(START + at * SECOND, START + at * SECOND + late_us, partition, 0, value), 0,
        ),
        st.sampled_from("ab"),
        st.integers(0, 120).map(lambda number: number * 15),
        st.sampled_from([-SECOND, 0, terms.late_us]),
        st.sampled_from([0.0, 1.0]),
        st.integers(0, 1),
    )  # fmt: skip


class Rounds:
    """What a join through the lake does, without the lake."""

    def __init__(self, terms: LabelPolicy, margin_us: int) -> None:
        self._terms, self._margin_us, self._clock_us = terms, margin_us, 0
        self.total: Counter[Standing] = Counter()
        self.looked_at = 0

    def round(self, known: tuple[Told, ...], news: tuple[Told, ...], clock_us: int) -> None:
        since_us = self._clock_us - lookback_us(self._terms, self._margin_us)
        known = tuple(told for told in known if _day_us(told[1]) >= since_us)
        clocks, self._clock_us = ClockInterval(self._clock_us, clock_us), clock_us
        for event in {event for event, _ in news} | {event for event, record in known if self._is_due(record, clocks)}:
            own = [[record for of, record in told if of == event] for told in (known, news)]
            self.looked_at += len(own[0])
            its = list(compute_changes(*own, clocks, self._terms))
            self.total.update(added(event, its))
            self.total.subtract(taken_back(event, its))

    def _is_due(self, record: PredictionEvent | LabelEvent, clocks: ClockInterval) -> bool:
        return (
            isinstance(record, PredictionEvent) and clocks.before_us <= record.closes_us(self._terms) < clocks.after_us
        )

    def standing(self) -> Counter[Standing]:
        assert min(self.total.values(), default=0) >= 0
        return +self.total


def _day_us(record: PredictionEvent | LabelEvent) -> int:
    """What a record is found by in the lake: when it was taken by the log at the soonest, or a label's own time."""
    return max(record.time_us, record.arrival_us) if isinstance(record, PredictionEvent) else record.time_us


@given(histories())
def test_rounds_add_up_to_what_the_streams_join_says(history: History) -> None:
    records = tuple({(told[0], told[1][-3:-1], told[1].offset): told for told in history.records}.values())
    rounds, done = Rounds(history.terms, 10**12), 0
    for cut in (len(records) // 3, len(records) // 2, len(records)):
        rounds.round(records[:done], records[done:cut], 0)
        done = cut
        assert rounds.standing() == brute_force(list(records[:cut]), history.terms, 0)
    rounds.round(records, (), history.clocks[-1])
    assert rounds.standing() == brute_force(list(records), history.terms, history.clocks[-1])


@given(long_histories())
def test_rounds_add_up_to_brute_force_at_every_moment_though_old_records_are_not_read(history: Long) -> None:
    rounds, done = Rounds(history.terms, MARGIN), 0
    for cut, clock_us in history.rounds:
        rounds.round(history.records[:done], history.records[done:cut], clock_us)
        done = cut
        assert rounds.standing() == brute_force(list(history.records[:cut]), history.terms, clock_us)


def test_a_round_goes_so_far_and_tells_what_was_read_once_all_is_reached() -> None:
    end = TableOffsets({0: 99, 1: 3, 2: -1}, {0: 140, 1: 9, 2: 0})
    first = TableOffsets().advance_towards(end, 100)
    assert first == TableOffsets({0: 49, 1: 3}, {})
    assert not first.has_reached(end)
    second = first.advance_towards(end, 100)
    assert second == TableOffsets({0: 99, 1: 3}, end.read)
    assert second.has_reached(end)
    assert second.advance_towards(end, 100) == second


def test_rounds_are_found_again_as_they_were_begun(tmp_path) -> None:
    log = JoinBatchLog(tmp_path)
    assert log.last_two_batches() == (JoinBatch(), JoinBatch())
    first = JoinBatch(0, TableOffsets({0: 5}, {0: 6}), TableOffsets({1: 7}, {1: 9}), 11, (3, 4))
    log.record_batch(first)
    assert log.last_two_batches() == (JoinBatch(), first)
    for number in range(1, 50):
        log.record_batch(JoinBatch(number))
    assert JoinBatchLog(tmp_path).last_two_batches() == (JoinBatch(48), JoinBatch(49))
    assert len(list((tmp_path / "offsets").iterdir())) == 20


def test_a_lake_that_lets_go_of_what_is_to_be_joined_is_refused() -> None:
    app = App("long", (), (), (new_model("weeks", within="30d"), new_model("minutes")))
    require_retention(app, None)
    require_retention(app, timedelta(days=92))
    with pytest.raises(
        LakeRetentionTooShortError, match=r"within 30d .* --lake-retention 90d keeps too little. Write .* 92d"
    ):
        require_retention(app, timedelta(days=90))
    assert hr.Labels(app.models[0].labels.stream, value="fraud", within="1d").is_joined_in_lake is False
