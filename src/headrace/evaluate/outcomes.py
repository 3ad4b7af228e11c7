"""What came of predictions: the cases of one event id, and what records and the clock change in them.

    prediction ●──────────── labels count ─────────────┤ within     late ┤ closed
    label          ● matched           ● corrected        ● too late       ● orphan: nobody remembers the prediction
    no label   pending ────────────────────────────────────────────────────┤ defaulted, or expired without a default

Which label counts for which prediction depends on their records alone (`declare.terms`), so order, batches and replays
decide the same.

The clock is a time of arrival up to which every record has been seen. Whatever is forgotten, no record to come can
meet it. A change is linear: what was said before is taken back, what is so now is added.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.declare.durations import UNITS_US
from headrace.declare.labels import Keep
from headrace.declare.terms import Terms

PENDING, MATCHED, DEFAULTED, EXPIRED, ORPHAN = "pending", "matched", "defaulted", "expired", "orphan"
TOO_LATE = "too_late"  # of a label that met predictions and counts for none
STATES = (PENDING, MATCHED, DEFAULTED, EXPIRED, ORPHAN)
MINUTE_US = UNITS_US["m"]
LABELS_AT_MOST = 16  # that are remembered of one id, beside those that count


class Scored(NamedTuple):
    """A prediction: whose it is, what it said of which segment, its event's time and arrival, its place in the log.

    `features` are the vector, as JSON, of one that is to be learned from.
    """

    version: str
    role: str
    score: float
    decision: str | None
    segment: str
    time_us: int
    arrival_us: int
    partition: int
    offset: int
    features: str | None = None

    def closes_us(self, terms: Terms) -> int:
        """The last arrival of a label that may count, and of a record that may repeat it."""
        return max(self.time_us + terms.kept_us, self.arrival_us)


class Label(NamedTuple):
    """A label: its own time and arrival, its place in the raw log, and its value."""

    time_us: int
    arrival_us: int
    partition: int
    offset: int
    value: float


@dataclass
class Case:
    """All that is remembered of one event id, and the clock when it was last looked at."""

    clock_us: int = 0
    scored: dict[tuple[str, ...], Scored] = field(default_factory=dict)
    labels: dict[tuple[int, int], Label] = field(default_factory=dict)

    def take(self, scored: Scored) -> None:
        """A prediction; of several of one version and role the first in the log stays."""
        of = scored.version, scored.role
        known = self.scored.get(of)
        if known is None or (scored.partition, scored.offset) < (known.partition, known.offset):
            self.scored[of] = scored

    def hear(self, label: Label) -> None:
        """A label; one that is heard again is the same."""
        if math.isfinite(label.value):
            self.labels[label.partition, label.offset] = label

    def forgotten_us(self, terms: Terms) -> int:
        """The clock after which nothing can meet what is remembered."""
        closing = (scored.closes_us(terms) for scored in self.scored.values())
        kept = (label.arrival_us + terms.kept_us for label in self.labels.values())
        return max((*closing, *kept), default=0)

    def due_us(self, terms: Terms) -> int:
        """The clock after which time alone changes something: a prediction closes, or all is forgotten."""
        closing = (scored.closes_us(terms) for scored in self.scored.values())
        open_ = [closes_us for closes_us in closing if closes_us >= self.clock_us]
        return min(open_, default=self.forgotten_us(terms))


class Standing(NamedTuple):
    """How a prediction, or a label that counts for none, stands: what is added up of it."""

    version: str
    role: str
    segment: str
    minute_us: int
    score: float
    decision: str | None
    state: str
    label: float | None
    label_delay_us: int | None
    features: str | None = None


class Change(NamedTuple):
    """What becomes of one case: from one standing to the next, None where there was or is none.

    It has `features` where it is a lesson: a label, or its default, counts for the first time.
    """

    version: str
    role: str
    segment: str
    minute_us: int
    score: float
    decision: str | None
    state_before: str | None
    label_before: float | None
    state_after: str | None
    label_after: float | None
    label_delay_us: int | None
    features: str | None = None


Unit = tuple[str, str, int, int]  # version, role and place of a prediction; the place of a label, which has no version


def standings(case: Case, terms: Terms, clock_us: int) -> dict[Unit, Standing]:
    """How every prediction of an id stands, and every label that counts for none."""
    found = {
        (scored.version, scored.role, scored.partition, scored.offset): _standing(case, scored, terms, clock_us)
        for scored in case.scored.values()
    }
    for label in case.labels.values():
        fate = _fate(case, label, terms)
        if fate is not None:
            minute_us = _minute(label.time_us)
            found["", "", label.partition, label.offset] = Standing(
                "", "", "{}", minute_us, math.nan, None, fate, label.value, None
            )
    return found


def meets(label: Label, scored: Scored, terms: Terms) -> bool:
    """Whether label and prediction are remembered at the same time, by their records alone."""
    return bool(terms.meets(label.arrival_us, scored.time_us, scored.arrival_us))


def counts(label: Label, scored: Scored, terms: Terms) -> bool:
    """Whether a label says what came of a prediction."""
    return bool(terms.is_in_time(label.time_us, scored.time_us)) and meets(label, scored, terms)


def _standing(case: Case, scored: Scored, terms: Terms, clock_us: int) -> Standing:
    label = _counting(case, scored, terms)
    is_closed = terms.is_closed(scored.time_us, scored.arrival_us, clock_us)
    state, value, delay_us = _closed(terms) if is_closed else (PENDING, None, None)
    if label is not None:
        state, value, delay_us = MATCHED, label.value, label.arrival_us - scored.time_us
    return Standing(
        scored.version,
        scored.role,
        scored.segment,
        _minute(scored.time_us),
        scored.score,
        scored.decision,
        state,
        value,
        delay_us,
        scored.features,
    )


def _counting(case: Case, scored: Scored, terms: Terms) -> Label | None:
    return chosen((label for label in case.labels.values() if counts(label, scored, terms)), terms.keep)


def _closed(terms: Terms) -> tuple[str, float | None, None]:
    return (EXPIRED, None, None) if terms.default is None else (DEFAULTED, terms.default, None)


def _fate(case: Case, label: Label, terms: Terms) -> str | None:
    """What a label is that counts for no prediction; None for one that counts."""
    met = [scored for scored in case.scored.values() if meets(label, scored, terms)]
    if any(counts(label, scored, terms) for scored in met):
        return None
    return TOO_LATE if met else ORPHAN


def chosen(labels: Iterable[Label], keep: Keep) -> Label | None:
    """The label that a policy keeps of several."""
    match keep:
        case "last":
            return max(labels, default=None)
        case "first":
            return min(labels, default=None)
    return max(labels, key=_greatest, default=None)


def _greatest(label: Label) -> tuple[float, Label]:
    return label.value, label


def _minute(time_us: int) -> int:
    return time_us - time_us % MINUTE_US


def step(case: Case, news: Iterable[Scored | Label], clock_us: int, terms: Terms) -> tuple[Case | None, list[Change]]:
    """What is remembered after some records and the clock, None where that is nothing; and what has changed."""
    before = standings(case, terms, case.clock_us)
    for record in news:
        if isinstance(record, Scored):
            case.take(record)
        else:
            case.hear(record)
    case.clock_us = max(case.clock_us, clock_us)
    changes = list(changed(before, standings(case, terms, case.clock_us)))
    if case.clock_us > case.forgotten_us(terms):
        return None, changes
    _forget_some(case, terms)
    return case, changes


def changed(before: Mapping[Unit, Standing], after: Mapping[Unit, Standing]) -> Iterator[Change]:
    """The changes from one set of standings to another."""
    for unit, of in {**before, **after}.items():
        said, says = _said(before.get(unit)), _said(after.get(unit))
        if said != says:
            features = of.features if said[0] in {None, PENDING} and says[0] in {MATCHED, DEFAULTED} else None
            yield Change(*of[:6], *said, *says, of.label_delay_us, features)


def _said(standing: Standing | None) -> tuple[str | None, float | None]:
    return (None, None) if standing is None else (standing.state, standing.label)


def _forget_some(case: Case, terms: Terms) -> None:
    """Bound what one id can fill: beside the labels that count, those its policy likes best."""
    if len(case.labels) <= LABELS_AT_MOST:
        return
    used = {_counting(case, scored, terms) for scored in case.scored.values()} - {None}
    liked = sorted(case.labels.values(), key=_greatest if terms.keep == "any" else None, reverse=terms.keep != "first")
    rest = [label for label in liked if label not in used][:LABELS_AT_MOST]
    case.labels = {(one.partition, one.offset): one for one in (*used, *rest) if one is not None}
