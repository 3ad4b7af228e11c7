"""Windows by their definition, in loops over all events; it shares only the declarations with the operator."""

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from headrace.declare.operations.window_shapes import AlignedShape, Session
from headrace.declare.streams.stream import Late
from headrace.operators.operator import InputEvent, OutputEvent

S = 1_000_000
Bounds = tuple[int, int]


class Row(NamedTuple):
    """The expected row of a window: the count, the sum, the first and the greatest value."""

    events: int
    spend: float | None
    first: str | None
    largest: float | None


def event(number: int, at: int, late: int = 0, amount: float | None = 1.0, gap: float | None = None) -> InputEvent:
    """An event at a second, arriving so many seconds later."""
    values = {"click": f"c{number:03}", "user": "u", "page": f"p{number}", "amount": amount, "gap": gap, "at": at * S}
    return InputEvent(0, values["click"], at * S, (at + late) * S, 0, number, values)


def admitted(late: Late, events: Iterable[InputEvent]) -> list[InputEvent]:
    """Those that count: on time or, where they may still correct, not too late."""
    return [one for one in events if one.arrival_us - one.time_us <= late.until_us]


def windows(shape: Any, events: Sequence[InputEvent]) -> dict[Bounds, tuple[int, list[InputEvent]]]:
    """Each window's bounds, the clock before any allowance at which it is complete, and its events."""
    if isinstance(shape, AlignedShape):
        return _aligned(shape, events)
    assert isinstance(shape, Session)
    return _sessions(shape, events)


def _aligned(shape: AlignedShape, events: Sequence[InputEvent]) -> dict[Bounds, tuple[int, list[InputEvent]]]:
    found: dict[Bounds, tuple[int, list[InputEvent]]] = {}
    if not events:
        return found
    first = min(one.time_us for one in events) - shape.size_us
    last = max(one.time_us for one in events)
    start = -(-first // shape.every_us) * shape.every_us
    while start <= last:
        inside = [one for one in events if start <= one.time_us < start + shape.size_us]
        if inside:
            found[start, start + shape.size_us] = (start + shape.size_us, inside)
        start += shape.every_us
    return found


def _reach_us(shape: Session, one: InputEvent) -> int:
    if shape.gap_us is not None:
        return shape.gap_us
    seconds = one.values["gap"]
    wanted = 0 if seconds is None or math.isnan(seconds) else min(seconds, 10**6) * S
    return int(min(max(1, round(wanted)), shape.longest_us or 0))


def _sessions(shape: Session, events: Sequence[InputEvent]) -> dict[Bounds, tuple[int, list[InputEvent]]]:
    found: dict[Bounds, tuple[int, list[InputEvent]]] = {}
    together: list[list[InputEvent]] = []
    end = -math.inf
    for one in sorted(events, key=lambda one: one.time_us):
        if one.time_us > end:
            together.append([])
        together[-1].append(one)
        end = max(end, one.time_us + _reach_us(shape, one))
    for session in together:
        start = session[0].time_us
        end = max(one.time_us + _reach_us(shape, one) for one in session)
        longest = shape.longest_us
        if longest is None or end - start <= longest:
            found[start, int(end)] = (int(end) + 1, session)
            continue
        for cell in sorted({one.time_us // longest for one in session}):
            bounds = max(start, cell * longest), min(int(end), (cell + 1) * longest)
            complete = max(bounds[1], start + longest) + 1
            found[bounds] = complete, [one for one in session if one.time_us // longest == cell]
    return found


def row(events: Sequence[InputEvent]) -> Row:
    amounts = [one.values["amount"] for one in events if one.values["amount"] is not None]
    in_order = sorted(events, key=lambda one: (one.time_us, one.id))
    total = float(sum(map(Fraction, amounts))) if amounts else None
    return Row(len(events), total, in_order[0].values["page"], max(amounts, default=None))


def closed(shape: Any, late: Late, events: Iterable[InputEvent], clock_us: int) -> dict[Bounds, Row]:
    """The rows that must stand at a clock, of the events that arrived before it."""
    here = admitted(late, [one for one in events if one.arrival_us < clock_us])
    return {
        bounds: row(inside)
        for bounds, (complete_us, inside) in windows(shape, here).items()
        if complete_us + late.after_us <= clock_us
    }


def said(values: Mapping[str, Any]) -> Row:
    return Row(values["events"], values["spend"], values["first"], values["largest"])


def standing(made: Iterable[OutputEvent]) -> dict[Bounds, Row]:
    """The final rows that stand: results and corrections, less retractions, each of which must take back a row."""
    rows: dict[Bounds, tuple[int, Row]] = {}
    for one in made:
        if one.output != "out" or not one.values["is_final"]:
            continue
        bounds = one.values["window_start"], one.values["window_end"]
        told = one.values["revision"], said(one.values)
        if one.values["kind"] == "retraction":
            assert rows.pop(bounds) == told
        else:
            assert bounds not in rows, "a final row is replaced without a retraction"
            rows[bounds] = told
    return {bounds: told for bounds, (_, told) in rows.items()}
