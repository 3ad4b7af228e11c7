"""Times as scripts write them."""

from datetime import datetime

from headrace.testing.scripts.steps import UnfitScript
from headrace.tiles.events.event_parser import parse_timestamp_us
from headrace.tiles.finish import to_datetime

SCRIPT_DAY = "2026-01-01"


def parse_script_time(time: str | datetime) -> int:
    """A time of a script: a time of one fixed day in UTC, or ISO 8601, or a datetime.

    >>> parse_script_time("12:00") == parse_script_time("2026-01-01T12:00:00Z")
    True
    """
    text = time.isoformat() if isinstance(time, datetime) else time
    parsed_us = parse_timestamp_us(text if "-" in text else f"{SCRIPT_DAY}T{text}Z")
    if parsed_us is None:
        raise UnfitScript(f'{time!r} is not a time. Write "12:00", "12:00:30" or ISO 8601.')
    return parsed_us


def format_script_time(at_us: int) -> str:
    """A time as scripts write it.

    >>> format_script_time(parse_script_time("12:00:30")), format_script_time(0)
    ('12:00:30', '1970-01-01T00:00:00+00:00')
    """
    text = to_datetime(at_us).isoformat()
    return text.removeprefix(f"{SCRIPT_DAY}T").removesuffix("+00:00") if text.startswith(SCRIPT_DAY) else text
