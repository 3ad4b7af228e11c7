"""A step that nothing stops: what an operator cannot take is put aside, with why, and the rest goes on.

events ──▶ step ──▶ what is made, what is kept
             └── raised ──▶ again, one event at a time ──▶ those it cannot take are put aside
                            └── cannot even be woken ──▶ what was kept is put aside, and the key begins anew
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from headrace.operators.operator import Arrived, Key, Made, Operator, step

Kept = TypeVar("Kept")
LONGEST_REASON = 300


class Raised(NamedTuple):
    """What could not be done: why, of which event, or of what was kept where no event is to blame."""

    why: str
    event: Arrived | None = None
    kept: bytes = b""


@dataclass
class Stepped:
    """What a step made and left of a key: nothing is packed where nothing is kept."""

    made: list[Made] = field(default_factory=list)
    raised: list[Raised] = field(default_factory=list)
    packed: bytes | None = None
    due_us: int | None = None


def stepped(
    operator: Operator[Kept], key: Key, packed: bytes | None, events: Sequence[Arrived], clock_us: int
) -> Stepped:
    """Take the events of a key and let time pass, whatever the operator raises."""
    try:
        kept = operator.begin() if packed is None else operator.unpacked(packed)
        done = Stepped(list(step(operator, key, kept, events, clock_us)))
        return _left(operator, kept, done)
    except Exception:  # noqa: BLE001  # an operator's own code and the user's values: anything may happen there
        return _one_by_one(operator, key, packed, events, clock_us)


def _left(operator: Operator[Kept], kept: Kept, done: Stepped) -> Stepped:
    done.due_us = operator.due_us(kept)
    done.packed = None if done.due_us is None else operator.packed(kept)
    return done


def _one_by_one(
    operator: Operator[Kept], key: Key, packed: bytes | None, events: Sequence[Arrived], clock_us: int
) -> Stepped:
    done = Stepped()
    before = _readable(operator, packed, done)
    for event in sorted(events, key=lambda event: event.order):
        before = _taken(operator, key, before, event, done)
    return _woken(operator, key, before, clock_us, done)


def _readable(operator: Operator[Kept], packed: bytes | None, done: Stepped) -> bytes:
    """What was kept, if it can be read, or what a key begins with."""
    try:
        if packed is not None:
            operator.unpacked(packed)
            return packed
    except Exception as failure:  # noqa: BLE001
        done.raised.append(Raised(why(failure), kept=packed or b""))
    return operator.packed(operator.begin())


def _taken(operator: Operator[Kept], key: Key, before: bytes, event: Arrived, done: Stepped) -> bytes:
    """What is kept after an event, or as before where it cannot be taken."""
    try:
        kept = operator.unpacked(before)
        made = list(operator.take(key, kept, event))
        after = operator.packed(kept)
    except Exception as failure:  # noqa: BLE001
        done.raised.append(Raised(why(failure), event))
        return before
    done.made += made
    return after


def _woken(operator: Operator[Kept], key: Key, before: bytes, clock_us: int, done: Stepped) -> Stepped:
    try:
        kept = operator.unpacked(before)
        for made in step(operator, key, kept, (), clock_us):
            done.made.append(made)
        return _left(operator, kept, done)
    except Exception as failure:  # noqa: BLE001
        done.raised.append(Raised(why(failure), kept=before))
        return Stepped(done.made, done.raised)


def why(failure: Exception) -> str:
    """What was raised, in a line."""
    return f"{type(failure).__name__}: {failure}"[:LONGEST_REASON]
