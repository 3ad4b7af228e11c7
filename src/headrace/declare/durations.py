"""Durations as users write them: "500ms", "10s", "2m", "1h", "7d"."""

import re

from headrace.errors import DeclarationError

UNITS_US = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
LONGEST_US = 3650 * UNITS_US["d"]

_PATTERN = re.compile(r"(\d{1,18})(ms|s|m|h|d)", re.ASCII)


def duration_us(text: object, where: str) -> int:
    """Microseconds in a duration; `where` names the setting in the error.

    >>> duration_us("10m", "windows")
    600000000
    """
    match = _PATTERN.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise DeclarationError(
            f'{where}: {text!r} is not a duration. Write a number and a unit: "500ms", "10s", "2m", "1h" or "7d".'
        )
    length_us = int(match[1]) * UNITS_US[match[2]]
    if not 0 < length_us <= LONGEST_US:
        raise DeclarationError(f"{where}: {text!r} is out of range. Write a duration from 1ms to 3650d.")
    return length_us


def duration_text(length_us: int) -> str:
    """A duration in its shortest notation.

    >>> duration_text(90_000_000), duration_text(3_600_000_000)
    ('90s', '1h')
    """
    for unit, unit_us in reversed(UNITS_US.items()):
        if length_us % unit_us == 0:
            return f"{length_us // unit_us}{unit}"
    return f"{length_us / 1000:g}ms"
