"""Hostile histories of predictions and labels, and their outcomes by brute force."""

import math
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from headrace.declare.models.label_policy import LabelPolicy
from headrace.monitoring.outcomes.outcomes import LabelEvent, OutcomeCase, OutcomeChange, PredictionEvent, advance_case

SECOND = 1_000_000
MINUTE = 60 * SECOND
START = 1_767_225_600 * SECOND
Told = tuple[str, PredictionEvent | LabelEvent]
Standing = tuple[Any, ...]  # id, version, role, segment, minute, score, decision, state, label


@dataclass(frozen=True)
class History:
    """Records as a log has them, and one way they reach us: batches, and the clock after each."""

    terms: LabelPolicy
    records: tuple[Told, ...]
    batches: tuple[tuple[Told, ...], ...]
    clocks: tuple[int, ...]


def last_arrival(record: PredictionEvent | LabelEvent, terms: LabelPolicy) -> int:
    """Until when a copy of a record may come."""
    return record.closes_us(terms) if isinstance(record, PredictionEvent) else record.arrival_us + terms.retention_us


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Few ids, everything that can befall them, and a clock that never passes a record that is still to come."""
    terms = LabelPolicy(
        within_us=draw(st.sampled_from([MINUTE, 5 * MINUTE])),
        late_us=draw(st.sampled_from([0, MINUTE])),
        keep=draw(st.sampled_from(["last", "first", "any"])),
        default=draw(st.sampled_from([None, 0.0])),
    )
    # An id that is scored again after it was closed is another case: each is scored at one time here.
    scored = st.lists(_predictions(), max_size=8, unique_by=lambda one: (one[0], one[1].version, one[1].role))
    firsts = [*draw(scored), *draw(st.lists(_labels(terms), max_size=10))]
    records = tuple((event, _placed(record, offset)) for offset, (event, record) in enumerate(firsts))
    repeats = draw(st.lists(st.integers(0, len(records) - 1), max_size=6)) if records else []
    copies = [_copy(records[number], len(records) + index) for index, number in enumerate(repeats)]
    due = [(one, one[1].arrival_us) for one in records] + [(one, last_arrival(one[1], terms)) for one in copies]
    shuffled = draw(st.permutations(due))
    batches, clocks = _batches(draw, shuffled)
    return History(terms, (*records, *copies), batches, clocks)


def _batches(draw: st.DrawFn, due: list[tuple[Told, int]]) -> tuple[tuple[tuple[Told, ...], ...], tuple[int, ...]]:
    cuts = sorted(draw(st.lists(st.integers(0, len(due)), max_size=5)))
    edges = [0, *cuts, len(due)]
    clock, batches, clocks = 0, [], []
    for begin, end in pairwise(edges):
        batches.append(tuple(told for told, _ in due[begin:end]))
        bound = min((until for _, until in due[end:]), default=START + 10**12)
        clock = max(clock, draw(st.sampled_from([0, bound])))
        clocks.append(clock)
    return (*batches, ()), (*clocks, START + 10**12)


@st.composite
def _predictions(draw: st.DrawFn) -> tuple[str, PredictionEvent]:
    time_us = START + draw(st.integers(0, 40)) * 15 * SECOND
    score = draw(st.sampled_from([0.1, 0.9, math.nan]))
    version, role = draw(st.sampled_from([("v1", "champion"), ("v2", "challenger"), ("v2", "champion")]))
    arrival_us = time_us + draw(st.sampled_from([-SECOND, 0, SECOND, 3 * MINUTE, 20 * MINUTE]))
    event = draw(st.sampled_from("abc"))
    return event, PredictionEvent(version, role, score, None, "{}", time_us, arrival_us, 0, 0)


@st.composite
def _labels(draw: st.DrawFn, terms: LabelPolicy) -> tuple[str, LabelEvent]:
    time_us = START + draw(st.integers(-20, 80)) * 15 * SECOND
    late_us = draw(st.sampled_from([-SECOND, 0, terms.late_us]))
    value = draw(st.sampled_from([0.0, 1.0, math.nan]))
    return draw(st.sampled_from("abcd")), LabelEvent(time_us, time_us + late_us, draw(st.integers(0, 1)), 0, value)


def _placed(record: PredictionEvent | LabelEvent, offset: int) -> PredictionEvent | LabelEvent:
    return record._replace(offset=offset)


def _copy(told: Told, offset: int) -> Told:
    """After a kill, a scorer writes another score for an event later in the log, and a gate repeats its records."""
    event, record = told
    return event, record._replace(offset=offset, score=0.5) if isinstance(record, PredictionEvent) else record


class Joined:
    """The core over many ids, as an operator runs it."""

    def __init__(self, terms: LabelPolicy) -> None:
        self.terms, self.cases = terms, dict[str, OutcomeCase]()
        self.total: Counter[Standing] = Counter()

    def batch(self, records: tuple[Told, ...], clock_us: int) -> list[OutcomeChange]:
        news: dict[str, list[PredictionEvent | LabelEvent]] = {event: [] for event in self.cases}
        for event, record in records:
            news.setdefault(event, []).append(record)
        changes = []
        for event, told in news.items():
            case, its = advance_case(self.cases.pop(event, OutcomeCase()), told, clock_us, self.terms)
            changes += its
            self.total.update(added(event, its))
            self.total.subtract(taken_back(event, its))
            if case is not None:
                self.cases[event] = case
        return changes

    def standing(self) -> Counter[Standing]:
        """What all changes add up to."""
        assert min(self.total.values(), default=0) >= 0
        return +self.total


def added(event: str, changes: list[OutcomeChange]) -> list[Standing]:
    return [(event, *_of(one), one.state_after, one.label_after) for one in changes if one.state_after]


def taken_back(event: str, changes: list[OutcomeChange]) -> list[Standing]:
    return [(event, *_of(one), one.state_before, one.label_before) for one in changes if one.state_before]


def _of(change: OutcomeChange) -> Standing:
    return (*change[:4], str(change.score), change.decision)


def brute_force(records: list[Told], terms: LabelPolicy, clock_us: int) -> Counter[Standing]:
    """Every standing, straight from what the words mean: all records are known, nothing is ever forgotten."""
    in_order = sorted(records, key=lambda one: one[1].offset)
    scored_in_order = [(event, record) for event, record in in_order if isinstance(record, PredictionEvent)]
    firsts = [one for number, one in enumerate(scored_in_order) if not _repeats(one, scored_in_order[:number], terms)]
    labels: dict[tuple[str, int, int], LabelEvent] = {
        (event, record.partition, record.offset): record
        for event, record in in_order
        if isinstance(record, LabelEvent) and not math.isnan(record.value)
    }
    found: Counter[Standing] = Counter()
    met, used = set(), set()
    for event, scored in firsts:
        version, role, closed_us = scored.version, scored.role, _closed_us(scored, terms)
        mine = {
            place: label
            for place, label in labels.items()
            if place[0] == event
            and label.arrival_us <= closed_us
            and scored.arrival_us <= label.arrival_us + terms.within_us + terms.late_us
        }
        counting = {place: one for place, one in mine.items() if one.time_us - scored.time_us <= terms.within_us}
        met |= mine.keys()
        used |= counting.keys()
        state, value = _judged(list(counting.values()), terms, is_closed=clock_us > closed_us)
        minute_us = scored.time_us // MINUTE * MINUTE
        found[event, version, role, "{}", minute_us, str(scored.score), scored.decision, state, value] += 1
    for place in labels.keys() - used:
        minute_us = labels[place].time_us // MINUTE * MINUTE
        state = "too_late" if place in met else "orphan"
        found[place[0], "", "", "{}", minute_us, "nan", None, state, labels[place].value] += 1
    return found


def _closed_us(scored: PredictionEvent, terms: LabelPolicy) -> int:
    return max(scored.time_us + terms.within_us + terms.late_us, scored.arrival_us)


def _repeats(told: tuple[str, PredictionEvent], before: list[tuple[str, PredictionEvent]], terms: LabelPolicy) -> bool:
    """Whether a prediction is one that an earlier record was about, which was open when its event arrived."""
    event, scored = told
    return any(
        (event, scored.version, scored.role) == (other, one.version, one.role)
        and scored.arrival_us <= _closed_us(one, terms)
        for other, one in before
    )


def _judged(labels: list[LabelEvent], terms: LabelPolicy, *, is_closed: bool) -> tuple[str, float | None]:
    if labels:
        in_order = sorted(labels, key=lambda one: (one.time_us, one.arrival_us, one.partition, one.offset))
        values = [label.value for label in in_order]
        return "matched", {"last": values[-1], "first": values[0], "any": max(values)}[terms.keep]
    if is_closed:
        return ("expired", None) if terms.default is None else ("defaulted", terms.default)
    return "pending", None
