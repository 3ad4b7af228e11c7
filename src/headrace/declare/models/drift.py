"""Drift: the window whose served vectors are compared with the training data, and the thresholds of an alarm."""

import math
from dataclasses import dataclass

from headrace.declare.durations import UNITS_US, duration_us
from headrace.errors import DeclarationError

SHORTEST_WINDOW_US, LONGEST_WINDOW_US = UNITS_US["m"], 90 * UNITS_US["d"]


@dataclass(frozen=True, init=False)
class Drift:
    """The window that is evaluated every minute, and the thresholds of drift.

    `alarms_a_day` is the expected number of false alarms, over all columns, tests and segments together. Fewer rows
    than `least_rows` are not tested. PSI and similar distances have to exceed `least_psi`, KS `least_ks`, and the
    shares of missing, infinite or unseen values `least_share`, however significant a smaller shift is.
    """

    window_us: int
    alarms_a_day: float
    least_rows: int
    least_psi: float
    least_ks: float
    least_share: float

    def __init__(
        self,
        window: str = "1h",
        *,
        alarms_a_day: float = 0.1,
        least_rows: int = 200,
        least_psi: float = 0.1,
        least_ks: float = 0.1,
        least_share: float = 0.01,
    ) -> None:
        window_us = duration_us(window, "Drift: window")
        if not SHORTEST_WINDOW_US <= window_us <= LONGEST_WINDOW_US or window_us % SHORTEST_WINDOW_US:
            raise DeclarationError(f'Drift: window={window!r}. Write whole minutes from "1m" to "90d", such as "1h".')
        if type(least_rows) is not int or least_rows < 1:
            raise DeclarationError(
                f"Drift: least_rows={least_rows!r}. Write how many rows are enough for a test, such as 200."
            )
        object.__setattr__(self, "window_us", window_us)
        object.__setattr__(self, "alarms_a_day", _require_positive(alarms_a_day, "alarms_a_day", 0.1))
        object.__setattr__(self, "least_rows", least_rows)
        object.__setattr__(self, "least_psi", _require_positive(least_psi, "least_psi", 0.1))
        object.__setattr__(self, "least_ks", _require_positive(least_ks, "least_ks", 0.1))
        object.__setattr__(self, "least_share", _require_positive(least_share, "least_share", 0.01))


def _require_positive(number: object, setting: str, example: float) -> float:
    if type(number) not in {int, float} or not (math.isfinite(number) and number > 0):  # type: ignore[arg-type, operator]
        raise DeclarationError(f"Drift: {setting}={number!r}. Write a number above 0, such as {example}.")
    return float(number)  # type: ignore[arg-type]
