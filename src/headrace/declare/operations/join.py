"""Joins, as users declare them: interval joins of two streams, as-of joins, and lookups in a table.

orders    ●───────────────────────────┐ within=("0s", "1h")
payments        ●        ●            │        ●
paid            ▲ pair   ▲ pair       │  too far: no pair
"""

from dataclasses import dataclass
from typing import Literal, get_args

from headrace.declare.operations.join_inputs import JoinKeys, JoinRequest, Side, build_join_request
from headrace.declare.operations.join_outputs import JoinOutputs, build_join_outputs
from headrace.declare.streams.schema import Kind
from headrace.declare.streams.stream import Late, LatePolicy, Stream

JoinKind = Literal["inner", "left", "right", "full"]
AsofKind = Literal["inner", "left"]


@dataclass(frozen=True)
class Join:
    """An interval join: pairs of a left and a right event of one key whose times differ within bounds."""

    left: Side
    right: Side
    keys: tuple[str, ...]  # the key columns of the output
    then: LatePolicy
    before_us: int
    after_us: int

    @property
    def retracts(self) -> bool:
        """Whether an emitted row may be retracted."""
        return self.then == "update" and (self.left.outer or self.right.outer)


@dataclass(frozen=True)
class AsofJoin:
    """An as-of join: each left event with the last right event of its key at or before its time, within a tolerance."""

    left: Side
    right: Side
    keys: tuple[str, ...]  # the key columns of the output
    then: LatePolicy
    tolerance_us: int
    wait_us: int | None  # the longest time a left event waits after its arrival
    deleted: tuple[str, bool | None] | None  # the right column and its value that ends a row's validity

    @property
    def retracts(self) -> bool:
        return self.then == "update"


def join(
    name: str,
    left: Stream,
    right: Stream,
    *,
    on: JoinKeys,
    within: tuple[str, str] | None = None,
    kind: JoinKind = "inner",
    late: Late | None = None,
    prefix: str | None = None,
    idle: str = "5s",
    partitions: int = 2,
) -> JoinOutputs:
    """Pairs of events of one key whose times are close: right − left in [−within[0], within[1]], ends included.

    `on` is a column of both, a pair of names, or a list of these; outer kinds also emit events without a partner.
    """
    request = build_join_request("join", name, left, right, on=on, late=late, prefix=prefix)
    request.require_one_of("kind", kind, get_args(JoinKind))
    before_us, after_us = _parse_bounds_us(request, within)
    left_side, right_side = request.build_sides(
        left_outer=kind in ("left", "full"), right_outer=kind in ("right", "full")
    )
    spec = Join(left_side, right_side, request.output_keys, request.late_policy, before_us, after_us)
    key = {"right": request.right_key, "full": request.common_key}.get(kind, request.left_key)
    idle_us, output_delay_us = request.parse_duration_us("idle", idle), max(before_us, after_us, 0)
    return build_join_outputs(
        request, spec, key, output_delay_us=output_delay_us, idle_us=idle_us, partitions=partitions
    )


def join_asof(
    name: str,
    left: Stream,
    right: Stream,
    *,
    on: JoinKeys,
    tolerance: str | None = None,
    wait: str | None = None,
    kind: AsofKind = "left",
    deleted: str | None = None,
    late: Late | None = None,
    prefix: str | None = None,
    idle: str = "5s",
    partitions: int = 2,
) -> JoinOutputs:
    """Each left event with the right event valid at its time: the last one of its key, not older than `tolerance`.

    Without `wait` a left event waits until every right event that is on time has arrived; with it, at most that long
    after its own arrival. A right event whose column `deleted` is true, or null if not boolean, ends the validity.
    """
    request = build_join_request("join_asof", name, left, right, on=on, late=late, prefix=prefix)
    request.require_one_of("kind", kind, get_args(AsofKind))
    if tolerance is None:
        raise request.declaration_error(
            'without tolerance= every version would be kept forever. Write tolerance="10m": how old it may be.'
        )
    left_side, right_side = request.build_sides(left_outer=kind == "left", right_outer=False)
    tolerance_us = request.parse_duration_us("tolerance", tolerance)
    wait_us = None if wait is None else request.parse_duration_us("wait", wait)
    deletion = None if deleted is None else (deleted, _deletion_value(request, deleted))
    spec = AsofJoin(left_side, right_side, request.output_keys, request.late_policy, tolerance_us, wait_us, deletion)
    idle_us = request.parse_duration_us("idle", idle)
    return build_join_outputs(
        request, spec, request.left_key, output_delay_us=0, idle_us=idle_us, partitions=partitions
    )


def _parse_bounds_us(request: JoinRequest, within: object) -> tuple[int, int]:
    if within is None:
        raise request.declaration_error(
            'without within= every event would be kept forever. Write within=("0s", "1h"): '
            "how long before and after a left event its right ones may be."
        )
    if not isinstance(within, tuple) or len(within) != 2:
        raise request.declaration_error(f'within={within!r} is not a pair. Write within=("0s", "1h").')
    before_us, after_us = (request.parse_signed_duration_us("within", bound) for bound in within)
    if before_us + after_us < 0:
        raise request.declaration_error(
            f"within={within!r} ends before it begins. Write the longer bound without a minus."
        )
    return before_us, after_us


def _deletion_value(request: JoinRequest, deleted: str) -> bool | None:
    """The value of the column that ends a row's validity: true, or null if the column is not a boolean."""
    column = request.right.schema.column(deleted, f"{request.where}: deleted")
    if deleted not in dict(request.right_columns):
        raise request.declaration_error(f"deleted={deleted!r} is what rows are joined on. Name another column.")
    return True if column.kind is Kind.BOOLEAN else None
