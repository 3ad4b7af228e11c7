"""Joins, as users write them: two streams by key and time, what was valid at an event's time, what a table says.

orders    ●───────────────────────────┐ within=("0s", "1h")
payments        ●        ●            │        ●
paid            ▲ pair   ▲ pair       │  too far: no pair
"""

from dataclasses import dataclass
from typing import Literal, get_args

from headrace.declare.join_inputs import Joining, On, Side, joining
from headrace.declare.join_outputs import Joined, joined
from headrace.declare.schema import Kind
from headrace.declare.stream import Late, LatePolicy, Stream

JoinKind = Literal["inner", "left", "right", "full"]
AsofKind = Literal["inner", "left"]


@dataclass(frozen=True)
class Join:
    """Pairs of a left and a right event of one key, the right at most so much before and after the left."""

    left: Side
    right: Side
    keys: tuple[str, ...]  # the key's columns in the output
    then: LatePolicy
    before_us: int
    after_us: int

    @property
    def retracts(self) -> bool:
        """Whether a row that was made may be taken back."""
        return self.then == "update" and (self.left.outer or self.right.outer)


@dataclass(frozen=True)
class AsofJoin:
    """Each left event with the last right one of its key at or before its time, if that is not too old."""

    left: Side
    right: Side
    keys: tuple[str, ...]  # the key's columns in the output
    then: LatePolicy
    tolerance_us: int
    wait_us: int | None  # how long after its arrival a left event waits at most
    deleted: tuple[str, bool | None] | None  # the right column, and what it says of a row that ends what was valid

    @property
    def retracts(self) -> bool:
        return self.then == "update"


def join(
    name: str,
    left: Stream,
    right: Stream,
    *,
    on: On,
    within: tuple[str, str] | None = None,
    kind: JoinKind = "inner",
    late: Late | None = None,
    prefix: str | None = None,
    idle: str = "5s",
    partitions: int = 2,
) -> Joined:
    """Pairs of events of one key whose times are close: right − left in [−within[0], within[1]], ends included.

    `on` is a column of both, a pair of names, or a list of these; outer kinds also give those that stay alone.
    """
    asked = joining("join", name, left, right, on=on, late=late, prefix=prefix)
    asked.require_one_of("kind", kind, get_args(JoinKind))
    before_us, after_us = _bounds_us(asked, within)
    ours, theirs = asked.sides(left_outer=kind in ("left", "full"), right_outer=kind in ("right", "full"))
    what = Join(ours, theirs, asked.keys, asked.then, before_us, after_us)
    key = {"right": asked.right_key, "full": asked.common_key}.get(kind, asked.left_key)
    idle_us, reach_us = asked.duration_us("idle", idle), max(before_us, after_us, 0)
    return joined(asked, what, key, reach_us=reach_us, idle_us=idle_us, partitions=partitions)


def join_asof(
    name: str,
    left: Stream,
    right: Stream,
    *,
    on: On,
    tolerance: str | None = None,
    wait: str | None = None,
    kind: AsofKind = "left",
    deleted: str | None = None,
    late: Late | None = None,
    prefix: str | None = None,
    idle: str = "5s",
    partitions: int = 2,
) -> Joined:
    """Each left event with what was valid at its time: the last right one of its key, not older than `tolerance`.

    Without `wait` a left event waits until no right one that is on time can come any more; with it, so long after it
    arrived at most. A right event whose column `deleted` is true, or null if it is no boolean, ends what was valid.
    """
    asked = joining("join_asof", name, left, right, on=on, late=late, prefix=prefix)
    asked.require_one_of("kind", kind, get_args(AsofKind))
    if tolerance is None:
        raise asked.refused(
            'without tolerance= every version would be kept for ever. Write tolerance="10m": how old it may be.'
        )
    ours, theirs = asked.sides(left_outer=kind == "left", right_outer=False)
    tolerance_us = asked.duration_us("tolerance", tolerance)
    wait_us = None if wait is None else asked.duration_us("wait", wait)
    ends = None if deleted is None else (deleted, _ends(asked, deleted))
    what = AsofJoin(ours, theirs, asked.keys, asked.then, tolerance_us, wait_us, ends)
    idle_us = asked.duration_us("idle", idle)
    return joined(asked, what, asked.left_key, reach_us=0, idle_us=idle_us, partitions=partitions)


def _bounds_us(asked: Joining, within: object) -> tuple[int, int]:
    if within is None:
        raise asked.refused(
            'without within= every event would be kept for ever. Write within=("0s", "1h"): '
            "how long before and after a left event its right ones may be."
        )
    if not isinstance(within, tuple) or len(within) != 2:
        raise asked.refused(f'within={within!r} is not a pair. Write within=("0s", "1h").')
    before_us, after_us = (asked.signed_us("within", one) for one in within)
    if before_us + after_us < 0:
        raise asked.refused(f"within={within!r} ends before it begins. Write the longer bound without a minus.")
    return before_us, after_us


def _ends(asked: Joining, deleted: str) -> bool | None:
    """What a column says of a row that ends what was valid: true, or null where it is not a boolean."""
    found = asked.right.schema.column(deleted, f"{asked.where}: deleted")
    if deleted not in dict(asked.right_columns):
        raise asked.refused(f"deleted={deleted!r} is what rows are joined on. Name another column.")
    return True if found.kind is Kind.BOOLEAN else None
