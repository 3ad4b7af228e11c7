"""The expected rows of a join, by brute force over every pair; independent of the operators."""

import json
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple

from headrace.operators.operator import InputEvent

LEFT_COLUMNS = (("key", "key"), ("id", "left_id"), ("paid", "paid"))
RIGHT_COLUMNS = (("id", "right_id"), ("paid", "right_paid"))


class Told(NamedTuple):
    """A row that must be made, its values as text: NaN is NaN."""

    output: str
    id: str
    time_us: int
    known_us: int
    values: str


class Patience(NamedTuple):
    """How late events of the left and of the right are on time, and how late they still count."""

    left: tuple[int, int]
    right: tuple[int, int]
    then: str

    def counts(self, event: InputEvent) -> bool:
        return event.arrival_us - event.time_us <= (self.left, self.right)[event.input_index][1]


def text(values: dict[str, Any]) -> str:
    return repr(sorted(values.items()))


def id_of(*parts: Any) -> str:
    return json.dumps(parts, separators=(",", ":"))


def values_of(left: InputEvent | None, right: InputEvent | None) -> dict[str, Any]:
    values: dict[str, Any] = {"key": (left or right).values["key"]}  # type: ignore[union-attr]
    values |= {"left_id": left and left.id, "paid": left and left.values["paid"]}
    return values | {"right_id": right and right.id, "right_paid": right and right.values["paid"]}


def late_rows(events: Iterable[InputEvent], patience: Patience) -> set[Told]:
    """The events that are too late, one row each."""
    rows = set()
    for event in events:
        if not patience.counts(event) and patience.then != "drop":
            left, right = (event, None) if event.input_index == 0 else (None, event)
            values = values_of(left, right) | {"stream": ("orders", "payments")[event.input_index]}
            own_id = id_of(left and left.id, right and right.id)
            rows.add(Told("late", own_id, event.time_us, event.arrival_us, text(values)))
    return rows


def joined(events: Sequence[InputEvent], kind: str, within: tuple[int, int], patience: Patience) -> set[Told]:
    """A join of two streams by key and time."""
    before, after = within
    counted = [event for event in events if patience.counts(event)]
    lefts = [event for event in counted if event.input_index == 0]
    rights = [event for event in counted if event.input_index == 1]
    more: dict[str, Any] = {"kind": "result", "retracts": None} if patience.then == "update" and kind != "inner" else {}
    rows = late_rows(events, patience)
    pairs = [
        (left, right)
        for left, right in product(lefts, rights)
        if left.values["key"] == right.values["key"] is not None
        and left.time_us - before <= right.time_us <= left.time_us + after
    ]
    for left, right in pairs:
        time_us, known_us = max(left.time_us, right.time_us), max(left.arrival_us, right.arrival_us)
        values = text(values_of(left, right) | more)
        rows.add(Told("out", id_of(left.id, right.id), time_us, known_us, values))
    if kind in ("left", "full"):
        for left in lefts:
            partners = [right for other, right in pairs if other is left]
            rows |= alone(left, partners, left.time_us + after + patience.right[0] + 1, more)
    if kind in ("right", "full"):
        for right in rights:
            partners = [left for left, other in pairs if other is right]
            rows |= alone(right, partners, right.time_us + before + patience.left[0] + 1, more)
    return rows


def alone(event: InputEvent, partners: list[InputEvent], due_us: int, more: dict[str, Any]) -> set[Told]:
    """The rows of an event without a partner when it is due; retracted if one arrives later."""
    left, right = (event, None) if event.input_index == 0 else (None, event)
    ids, values = (left and left.id, right and right.id), values_of(left, right)
    if event.values["key"] is None:
        return {Told("out", id_of(*ids), event.time_us, event.arrival_us, text(values | more))}
    if any(partner.arrival_us < due_us for partner in partners):
        return set()
    rows = {Told("out", id_of(*ids), event.time_us, max(due_us, event.arrival_us), text(values | more))}
    if partners:
        known_us = max(event.arrival_us, min(partner.arrival_us for partner in partners))
        said = text(values | {"kind": "retraction", "retracts": id_of(*ids)})
        rows.add(Told("out", id_of(*ids, "retracted"), event.time_us, known_us, said))
    return rows


class Asof(NamedTuple):
    """How old what was valid may be, how long to wait for it, and what ends it."""

    kind: str
    tolerance_us: int
    wait_us: int | None
    deletes: bool  # a right row without `paid` ends what was valid


def valid_at(events: Sequence[InputEvent], asof: Asof, patience: Patience) -> set[Told]:
    """An as-of join: for each left event the row known at its decision, and the later corrections."""
    counted = [event for event in events if patience.counts(event)]
    rows = late_rows(events, patience)
    for left in (event for event in counted if event.input_index == 0):
        rights = [
            event
            for event in counted
            if event.input_index == 1
            and event.values["key"] == left.values["key"] is not None
            and left.time_us - asof.tolerance_us <= event.time_us <= left.time_us
        ]
        rows |= _answers(left, rights, asof, patience)
    return rows


def _answers(left: InputEvent, rights: list[InputEvent], asof: Asof, patience: Patience) -> set[Told]:
    decided_us = _decided_us(left, asof, patience)
    known = [right for right in rights if right.arrival_us < decided_us]
    later = sorted((right for right in rights if right.arrival_us >= decided_us), key=_by_arrival)
    best = max(known, key=_by_time, default=None)
    rows = _answer(left, best, decided_us, asof, patience)
    for right in later:
        if best is not None and _by_time(best) > _by_time(right):
            continue
        if patience.then == "update":
            rows |= {_taken_back(row, right.arrival_us) for row in _answer(left, best, 0, asof, patience)}
            rows |= _answer(left, right, right.arrival_us, asof, patience)
        elif patience.then == "side_output":
            values = text(values_of(left, right) | {"stream": "payments"})
            rows.add(Told("late", id_of(left.id, right.id), left.time_us, right.arrival_us, values))
        best = right
    return rows


def _decided_us(left: InputEvent, asof: Asof, patience: Patience) -> int:
    if left.values["key"] is None:
        return left.arrival_us
    all_here_us = max(left.time_us + patience.right[0] + 1, left.arrival_us)
    return all_here_us if asof.wait_us is None else min(all_here_us, left.arrival_us + asof.wait_us)


def _by_arrival(event: InputEvent) -> tuple[Any, ...]:
    return event.arrival_us, event.time_us, event.id


def _by_time(event: InputEvent) -> tuple[Any, ...]:
    return event.time_us, event.arrival_us, event.id


def _answer(left: InputEvent, right: InputEvent | None, known_us: int, asof: Asof, patience: Patience) -> set[Told]:
    ends = right is not None and asof.deletes and right.values["paid"] is None
    if asof.kind == "inner" and (right is None or ends):
        return set()
    values = values_of(left, None if ends else right) | (
        {"kind": "result", "retracts": None} if patience.then == "update" else {}
    )
    return {Told("out", id_of(left.id, right and right.id), left.time_us, known_us, text(values))}


def _taken_back(row: Told, known_us: int) -> Told:
    values = row.values.replace("('retracts', None)", f"('retracts', {row.id!r})").replace("'result'", "'retraction'")
    return row._replace(id=id_of(*json.loads(row.id), "retracted"), known_us=known_us, values=values)
