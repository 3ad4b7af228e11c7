"""Every step at which the process of the shop can crash, by number: `ORDERS_DIE_AT=3 python examples/orders/shop.py`.

taken ──▶ noted ──▶ changed ──▶ told ──▶ committed        of each message a service handles, in one transaction
owned ──▶ read ──▶ parked ──▶ sent ──▶ landed ──▶ removed  of the relay
"""

import os
import signal
from collections.abc import Callable

from headrace.connectors.outbox.relay import STEPS as RELAYED

STAGES = ("taken", "noted", "changed", "told", "committed")
HANDLED = {
    "orders": ("place", "paid", "payment_refused", "shipped", "shipping_refused", "refunded"),
    "payments": ("pay", "refund"),
    "shipping": ("ship",),
    "standing": ("placed", "cancelled"),
}
POINTS = (
    *(f"{service}.{kind}.{stage}" for service, kinds in HANDLED.items() for kind in kinds for stage in STAGES),
    *(f"relay.{step}" for step in RELAYED),
)

Reached = Callable[[str], None]


def nothing(_point: str) -> None:
    """Continue at every step."""


def dying_at(number: int, die: Callable[[], None] = lambda: os.kill(os.getpid(), signal.SIGKILL)) -> Reached:
    """A callback that kills the process at the step of this number."""
    point = POINTS[number]

    def reached(here: str) -> None:
        if here == point:
            die()

    return reached
