"""Times as scripts write them."""

from datetime import datetime

from headrace.scripts.acts import UnfitScript
from headrace.tiles.events import timestamp_us
from headrace.tiles.finish import moment

DAY = "2026-01-01"


def time_us(time: str | datetime) -> int:
    """A time of a script: a time of day, which is of one day in UTC, or ISO 8601, or a datetime.

    >>> time_us("12:00") == time_us("2026-01-01T12:00:00Z")
    True
    """
    text = time.isoformat() if isinstance(time, datetime) else time
    found = timestamp_us(text if "-" in text else f"{DAY}T{text}Z")
    if found is None:
        raise UnfitScript(f'{time!r} is not a time. Write "12:00", "12:00:30" or ISO 8601.')
    return found


def clock_text(at_us: int) -> str:
    """A time as scripts write it.

    >>> clock_text(time_us("12:00:30")), clock_text(0)
    ('12:00:30', '1970-01-01T00:00:00+00:00')
    """
    text = moment(at_us).isoformat()
    return text.removeprefix(f"{DAY}T").removesuffix("+00:00") if text.startswith(DAY) else text
