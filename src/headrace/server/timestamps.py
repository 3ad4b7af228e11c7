"""Timestamps of responses."""

from headrace.tiles.finish import to_datetime

SECOND_US = 1_000_000


class TimestampFormatter:
    """Formats times in ISO 8601; the current second is formatted once, since most requests ask for now.

    >>> TimestampFormatter().format_iso(1_500_000)
    b'1970-01-01T00:00:01.500000Z'
    """

    def __init__(self) -> None:
        self._cached_second, self._cached_text = 0, b"1970-01-01T00:00:00"

    def format_iso(self, time_us: int) -> bytes:
        second, fraction_us = divmod(time_us, SECOND_US)
        if second != self._cached_second:
            self._cached_text = to_datetime(second * SECOND_US).isoformat()[:19].encode()
            self._cached_second = second
        return b"%b.%06dZ" % (self._cached_text, fraction_us) if fraction_us else b"%bZ" % self._cached_text
